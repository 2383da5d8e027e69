package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// maxSize bounds a document, in bytes: what is larger was not written by hand, and takes a cold start too long to read.
const maxSize = 4 << 20

// decode reads a document into a struct, with everything that its tags find wrong with it. Only a document that is no
// JSON ends it early. The struct holds what could be understood.
func decode(data []byte, into any) Problems {
	if len(data) > maxSize {
		return Problems{{"", fmt.Sprintf("%d bytes are more than the %d that a configuration may have", len(data), maxSize)}}
	}
	d := decoder{
		tokens:  jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true)), // they are reported with their path
		members: map[reflect.Type][]member{},
	}
	if err := d.document(into); err != nil {
		d.problems = append(Problems{notJSON(data, err)}, d.problems...)
	}
	return d.problems
}

func notJSON(data []byte, err error) Problem {
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		line := 1 + bytes.Count(data[:min(int(syntax.ByteOffset), len(data))], []byte("\n"))
		return Problem{"", fmt.Sprintf("is no JSON: line %d: %v", line, syntax.Err)}
	}
	return Problem{"", fmt.Sprintf("is no JSON: %v", err)}
}

// A decoder reads a document into tagged structs and goes on after a problem. The errors of its methods are
// those of the tokens: a document that is no JSON.
type decoder struct {
	tokens   *jsontext.Decoder
	members  map[reflect.Type][]member
	problems Problems
}

func (d *decoder) document(into any) error {
	if err := d.value("", reflect.ValueOf(into).Elem(), rule{}); err != nil {
		return err
	}
	if _, err := d.tokens.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("something follows its end")
	}
	return nil
}

func (d *decoder) value(at Path, v reflect.Value, r rule) error {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	kind, want := d.tokens.PeekKind(), kindOf(v.Kind())
	if kind == jsontext.KindFalse {
		kind = jsontext.KindTrue
	}
	switch {
	case kind == jsontext.KindInvalid:
		_, err := d.tokens.ReadToken()
		return err
	case kind == jsontext.KindNull && r.required:
		return d.pass(at, "is required")
	case kind == jsontext.KindNull:
		return d.pass(at, nothing)
	case kind != want && want == jsontext.KindString && kind == jsontext.KindNumber:
		return d.pass(at, "must be a text, not a number: put it in quotes")
	case kind != want:
		return d.pass(at, "must be %s, not %s", nouns[want], nouns[kind])
	}
	switch v.Kind() {
	case reflect.Struct:
		return d.object(at, v)
	case reflect.Map:
		return d.mapping(at, v, r)
	case reflect.Slice:
		return d.list(at, v, r)
	default:
		return d.scalar(at, v, r)
	}
}

// pass reads over a value and reports it.
func (d *decoder) pass(at Path, format string, args ...any) error {
	if err := d.tokens.SkipValue(); err != nil {
		return err
	}
	d.problems.add(at, format, args...)
	return nil
}

func kindOf(k reflect.Kind) jsontext.Kind {
	switch k {
	case reflect.Struct, reflect.Map:
		return jsontext.KindBeginObject
	case reflect.Slice:
		return jsontext.KindBeginArray
	case reflect.String:
		return jsontext.KindString
	case reflect.Bool:
		return jsontext.KindTrue
	default:
		return jsontext.KindNumber
	}
}

var nouns = map[jsontext.Kind]string{
	jsontext.KindBeginObject: "a group of members",
	jsontext.KindBeginArray:  "a list",
	jsontext.KindString:      "a text",
	jsontext.KindTrue:        "true or false",
	jsontext.KindNumber:      "a number",
}

func (d *decoder) object(at Path, v reflect.Value) error {
	members, ok := d.members[v.Type()]
	if !ok {
		members = membersOf(v.Type())
		d.members[v.Type()] = members
	}
	seen := make([]bool, len(members))
	err := d.names(at, func(name string, here Path) error {
		i := indexOf(members, name)
		if i < 0 {
			meant := nearest(name, namesOf(members))
			if i = indexOf(members, meant); i < 0 || seen[i] {
				return d.pass(here, "is not a member that is known here%s", didYouMean(name, namesOf(members)))
			}
			// Read on as what it was meant to be: whatever else refers to it would be reported in vain.
			d.problems.add(here, "is not a member that is known here (did you mean %q?)", meant)
		}
		seen[i] = true
		return d.value(here, v.Field(members[i].index), members[i].rule)
	})
	if err != nil {
		return err
	}
	for i, m := range members {
		if m.required && !seen[i] {
			d.problems.add(at.Member(m.name), "is required")
		}
	}
	return nil
}

func (d *decoder) mapping(at Path, v reflect.Value, r rule) error {
	v.Set(reflect.MakeMap(v.Type()))
	words, n := vocabularies[v.Type().Key()], 0
	err := d.names(at, func(name string, here Path) error {
		if problem := words.text(name); problem != "" {
			return d.pass(here, "%s", problem)
		}
		item := reflect.New(v.Type().Elem()).Elem()
		err := d.value(here, item, r)
		v.SetMapIndex(reflect.ValueOf(name).Convert(v.Type().Key()), item)
		n++
		return err
	})
	d.count(at, n, r)
	return err
}

// names reads an object; read reads the value of each member that stands there for the first time.
func (d *decoder) names(at Path, read func(name string, here Path) error) error {
	if _, err := d.tokens.ReadToken(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for d.tokens.PeekKind() == jsontext.KindString {
		token, err := d.tokens.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		here := at.Member(name)
		if seen[name] {
			err = d.pass(here, "stands twice")
		} else {
			err = read(name, here)
		}
		if err != nil {
			return err
		}
		seen[name] = true
	}
	_, err := d.tokens.ReadToken()
	return err
}

func (d *decoder) list(at Path, v reflect.Value, r rule) error {
	if _, err := d.tokens.ReadToken(); err != nil {
		return err
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 0)) // an empty list says something too, and a misspelt member may have been read before
	n := 0
	for ; d.tokens.PeekKind() != jsontext.KindEndArray; n++ {
		item := reflect.New(v.Type().Elem()).Elem()
		if err := d.value(at.Item(n), item, r.ofItem()); err != nil {
			return err
		}
		v.Set(reflect.Append(v, item))
	}
	d.count(at, n, r)
	_, err := d.tokens.ReadToken()
	return err
}

// ofItem is what a rule of a list means for one item: that a list is required does not make its items so.
func (r rule) ofItem() rule { r.required = false; return r }

func (d *decoder) count(at Path, n int, r rule) {
	switch {
	case n == 0 && r.required:
		d.problems.add(at, "at least one is required")
	case n > r.many:
		d.problems.add(at, "holds %d, at most %d are allowed", n, r.many)
	}
}

func (d *decoder) scalar(at Path, v reflect.Value, r rule) error {
	token, err := d.tokens.ReadToken()
	if err != nil {
		return err
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(token.Bool())
	case reflect.String:
		v.SetString(token.String())
		if problem := r.text(token.String()); problem != "" {
			d.problems.add(at, "%s", problem)
		}
	default:
		d.number(at, v, r, token.String())
	}
	return nil
}

func (d *decoder) number(at Path, v reflect.Value, r rule, literal string) {
	n, _ := strconv.ParseFloat(literal, 64) // a JSON number; one that is out of range is infinite, and out of bounds
	switch problem := r.number(n, literal); {
	case problem != "":
		d.problems.add(at, "%s", problem)
	case v.CanFloat():
		v.SetFloat(n)
	case n != math.Trunc(n):
		d.problems.add(at, "%s must be a whole number", clip(literal))
	default:
		v.SetInt(int64(n))
	}
}

func indexOf(members []member, name string) int {
	for i, m := range members {
		if m.name == name {
			return i
		}
	}
	return -1
}

func namesOf(members []member) []string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.name
	}
	return names
}
