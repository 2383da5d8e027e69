package dynamo

import (
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// update collects an update expression on top-level attributes. Every name and value is a placeholder, so that neither
// reserved words nor what stands in a name can break it.
type update struct {
	sets, adds, removes []string
	names               map[string]string // attribute name to placeholder
	values              item
}

// placeholders are numbered from here, so that all are of one length and none begins with another one: the emulator in
// the process would take the one for the other.
const placeholders = 100

func newUpdate() *update { return &update{names: map[string]string{}, values: item{}} }

func (u *update) name(attribute string) string {
	p := u.names[attribute]
	if p == "" {
		p = "#n" + strconv.Itoa(placeholders+len(u.names))
		u.names[attribute] = p
	}
	return p
}

func (u *update) value(v types.AttributeValue) string {
	p := ":v" + strconv.Itoa(placeholders+len(u.values))
	u.values[p] = v
	return p
}

func (u *update) set(attribute string, v types.AttributeValue) {
	u.sets = append(u.sets, u.name(attribute)+" = "+u.value(v))
}

// begin sets an attribute that is not there yet.
func (u *update) begin(attribute string, v types.AttributeValue) {
	name := u.name(attribute)
	u.sets = append(u.sets, name+" = if_not_exists("+name+", "+u.value(v)+")")
}

func (u *update) add(attribute string, v types.AttributeValue) {
	u.adds = append(u.adds, u.name(attribute)+" "+u.value(v))
}

func (u *update) remove(attributes ...string) {
	for _, a := range attributes {
		u.removes = append(u.removes, u.name(a))
	}
}

// input is the update of one item.
func (u *update) input(table, id string) *dynamodb.UpdateItemInput {
	var clauses []string
	for _, c := range []struct {
		word string
		list []string
	}{{"SET ", u.sets}, {"ADD ", u.adds}, {"REMOVE ", u.removes}} {
		if len(c.list) > 0 {
			clauses = append(clauses, c.word+strings.Join(c.list, ", "))
		}
	}
	names := make(map[string]string, len(u.names))
	for attribute, p := range u.names {
		names[p] = attribute
	}
	expression := strings.Join(clauses, " ")
	in := &dynamodb.UpdateItemInput{TableName: &table, Key: key(id), UpdateExpression: &expression, ExpressionAttributeNames: names}
	if in.ExpressionAttributeValues = u.values; len(u.values) == 0 {
		in.ExpressionAttributeValues = nil
	}
	return in
}
