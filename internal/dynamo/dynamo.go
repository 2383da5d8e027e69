// Package dynamo keeps the gateway's shared state in DynamoDB: Idempotency-Keys and the health of the candidates. Each store is
// a thin translation of its interface into conditional writes; what a state means and what follows from it is decided
// in the packages that own the interfaces.
//
// The tables are meant to be read in the console: attributes have plain names, and times stand there as ISO text beside
// the numbers that conditions compare.
package dynamo

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// API is the part of DynamoDB that the stores use.
type API interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
}

// New makes a client that makes each call once: whether a write whose answer was lost may be repeated is for the stores'
// callers to say, and the SDK's own retries would hide it.
func New(c aws.Config) *dynamodb.Client {
	return dynamodb.NewFromConfig(c, func(o *dynamodb.Options) {
		o.Retryer = aws.NopRetryer{}
	})
}

// item is a DynamoDB item.
type item = map[string]types.AttributeValue

// The partition key of every table, and the attribute by which it expires (seconds).
const (
	keyName = "id"
	ttlName = "expires_at"
)

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
func real64(f float64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatFloat(f, 'f', -1, 64)}
}
func binary(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }
func boolean(b bool) types.AttributeValue  { return &types.AttributeValueMemberBOOL{Value: b} }

// iso is a time for people.
func iso(t time.Time) types.AttributeValue { return text(isoText(t)) }

func isoText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func (v view) text(name string) string {
	s, _ := v[name].(*types.AttributeValueMemberS)
	if s == nil {
		return ""
	}
	return s.Value
}

// view reads an item. What is missing or of another type reads as nothing: another version may have written it.
type view item

func (v view) number(name string) (int64, bool) {
	n, _ := v[name].(*types.AttributeValueMemberN)
	if n == nil {
		return 0, false
	}
	i, err := strconv.ParseInt(n.Value, 10, 64)
	return i, err == nil
}

func (v view) binary(name string) []byte {
	b, _ := v[name].(*types.AttributeValueMemberB)
	if b == nil {
		return nil
	}
	return b.Value
}

func (v view) boolean(name string) bool {
	b, _ := v[name].(*types.AttributeValueMemberBOOL)
	return b != nil && b.Value
}

// seconds and millis are times that are kept as numbers; zero: there is none.
func (v view) seconds(name string) time.Time {
	n, ok := v.number(name)
	if !ok {
		return time.Time{}
	}
	return time.Unix(n, 0).UTC()
}

func (v view) millis(name string) time.Time {
	n, ok := v.number(name)
	if !ok {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

// iso reads a time that was written for people.
func (v view) iso(name string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, v.text(name))
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// refused reports whether a write was refused by its condition, and the item as it stood there; nil: the table did not
// say, or there is none.
func refused(err error) (item, bool) {
	failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !ok {
		return nil, false
	}
	return failed.Item, true
}

// key is an item's key.
func key(id string) item { return item{keyName: text(id)} }
