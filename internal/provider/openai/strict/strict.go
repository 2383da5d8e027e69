// Package strict puts JSON schemas into the subset that OpenAI's strict structured output takes, in which what a model
// writes cannot break them.
package strict

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

// What a schema of the subset has at most (https://platform.openai.com/docs/guides/structured-outputs, 2026-11-30).
const (
	maxProperties = 5000
	maxLevels     = 10
	maxBytes      = 120_000
)

// plain are the keywords of the subset that hold no schemas (ibid.). Patterns and formats are left out on purpose: there
// the subset has less than their names promise.
var plain = []string{"$schema", "type", "title", "description", "enum", "const", "minimum", "maximum", "exclusiveMinimum",
	"exclusiveMaximum", "multipleOf", "minItems", "maxItems", "required"}

// Schema is a client's schema with every object closed, which it does not forbid. Whatever fits the result fits the schema.
// ok is false where the subset cannot say it: a member that may be missing, names that are not fixed, a keyword that it
// does not have.
func Schema(schema []byte) (closed jsontext.Value, ok bool) {
	root := gjson.ParseBytes(schema)
	if len(schema) > maxBytes || root.Get("type").Str != "object" || root.Get("anyOf").Exists() || root.Get("$ref").Exists() {
		return nil, false
	}
	w := &writer{}
	w.schema(root, 1)
	return w.b, !w.failed
}

type writer struct {
	b          []byte
	properties int
	failed     bool
}

func (w *writer) schema(v gjson.Result, level int) {
	if !v.IsObject() || level > maxLevels {
		w.failed = true
		return
	}
	w.b = append(w.b, '{')
	members := 0
	v.ForEach(func(key, value gjson.Result) bool {
		members++
		w.keyword(v, key.Str, value, level)
		return !w.failed
	})
	switch object := slices.ContainsFunc(v.Get("type").Array(), func(t gjson.Result) bool { return t.Str == "object" }); {
	case v.Get("$ref").Exists() && members > 1, object != v.Get("properties").Exists():
		w.failed = true // nothing stands beside a reference, and an object names its members
	case object:
		w.name("additionalProperties")
		w.b = append(w.b, "false"...)
	}
	w.b = append(w.b, '}')
}

func (w *writer) keyword(v gjson.Result, name string, value gjson.Result, level int) {
	switch {
	case name == "additionalProperties":
		w.failed = w.failed || !value.IsBool()
		return
	case slices.Contains(plain, name):
		w.name(name)
		w.b = append(w.b, value.Raw...)
		return
	case name == "$ref" && strings.HasPrefix(value.Str, "#"):
		w.name(name)
		w.b = append(w.b, value.Raw...)
		return
	}
	w.name(name)
	switch {
	case name == "properties" && value.IsObject():
		w.named(value, level+1, v.Get("required").Array())
	case (name == "$defs" || name == "definitions") && value.IsObject():
		w.named(value, level, nil)
	case name == "items":
		w.schema(value, level+1)
	case name == "anyOf" && value.IsArray():
		w.b = append(w.b, '[')
		for i, one := range value.Array() {
			if i > 0 {
				w.b = append(w.b, ',')
			}
			w.schema(one, level)
		}
		w.b = append(w.b, ']')
	default:
		w.failed = true
	}
}

// named writes schemas by name. All of those that are required must be there; nil: they are no members of anything.
func (w *writer) named(list gjson.Result, level int, required []gjson.Result) {
	w.b = append(w.b, '{')
	list.ForEach(func(key, value gjson.Result) bool {
		if w.properties++; w.properties > maxProperties {
			w.failed = true
		}
		if required != nil && !slices.ContainsFunc(required, func(r gjson.Result) bool { return r.Str == key.Str }) {
			w.failed = true
		}
		w.name(key.Str)
		w.schema(value, level)
		return !w.failed
	})
	w.b = append(w.b, '}')
}

func (w *writer) name(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b, _ = jsontext.AppendQuote(w.b, name) // the client's body was checked for its encoding
	w.b = append(w.b, ':')
}
