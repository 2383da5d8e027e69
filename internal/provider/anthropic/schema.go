package anthropic

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

// maxSchema bounds a schema, before and after its references have been put in their places, in bytes.
const maxSchema = 256 << 10

// problem is what a schema holds that cannot be said in the API's subset, and where: a JSON pointer into the schema.
type problem struct{ pointer, why string }

// formats are the formats of strings that the API knows (reference/providers.md §3.3, 2026-11-30).
var formats = []string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}

// silent are keywords that constrain nothing.
var silent = []string{"$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "examples", "deprecated", "readOnly", "writeOnly"}

// reduce writes a schema in the subset that output_config.format and strict tools take: references in their places, every
// object closed, and what the subset has no keyword for said in the description. Whatever fits the result fits the schema,
// but for what its descriptions say. A schema that would lose its meaning, such as a map or a recursive one, is a problem.
func reduce(schema jsontext.Value) (jsontext.Value, *problem) {
	if len(schema) > maxSchema {
		return nil, &problem{"", "the schema is too large"}
	}
	root := gjson.ParseBytes(schema)
	r := &reducer{definitions: definitions(root)}
	out := r.schema(nil, "", root)
	return out, r.problem
}

type reducer struct {
	definitions map[string]gjson.Result // by the references that name them
	open        []string                // the references that are being put in their places
	problem     *problem
}

// definitions are the members of a schema's $defs and definitions.
func definitions(root gjson.Result) map[string]gjson.Result {
	all := map[string]gjson.Result{}
	for _, list := range []string{"$defs", "definitions"} {
		root.Get(list).ForEach(func(key, value gjson.Result) bool {
			all["#/"+list+"/"+escape(key.Str)] = value
			return true
		})
	}
	return all
}

func (r *reducer) fail(pointer, why string) {
	if r.problem == nil {
		r.problem = &problem{pointer, why}
	}
}

func (r *reducer) schema(b []byte, at string, v gjson.Result) []byte {
	ref := v.Get("$ref")
	switch all := v.Get("allOf"); {
	case r.problem != nil:
		return b
	case len(b) > maxSchema:
		r.fail(at, "the schema is too large")
		return b
	case v.Type == gjson.True:
		return append(b, `{}`...)
	case !v.IsObject():
		r.fail(at, "is not a schema that this provider takes")
		return b
	case ref.Exists():
		return r.reference(b, at, ref.Str)
	case len(all.Array()) == 1 && !v.Get("properties").Exists():
		return r.schema(b, at+"/allOf/0", all.Get("0"))
	}
	w := writer{b: append(b, '{')}
	v.ForEach(func(key, value gjson.Result) bool {
		r.keyword(&w, at, v, key.Str, value)
		return r.problem == nil
	})
	r.close(&w, at, v)
	w.describe(v.Get("description").Str)
	return append(w.b, '}')
}

// writer writes the members of an object.
type writer struct {
	b      []byte
	alters bool     // anyOf has been written
	notes  []string // what the description must say
}

func (w *writer) name(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = appendString(w.b, name)
	w.b = append(w.b, ':')
}

func (w *writer) raw(name, value string) {
	w.name(name)
	w.b = append(w.b, value...)
}

func (w *writer) describe(description string) {
	if len(w.notes) > 0 {
		description = strings.TrimSpace(description + " (" + strings.Join(w.notes, "; ") + ")")
	}
	if description != "" {
		w.name("description")
		w.b = appendString(w.b, description)
	}
}

// keyword writes one keyword of a schema.
func (r *reducer) keyword(w *writer, at string, v gjson.Result, name string, value gjson.Result) {
	at += "/" + escape(name)
	switch {
	case name == "description", name == "additionalProperties", slices.Contains(silent, name):
	case name == "type", name == "title", name == "default", name == "enum", name == "required":
		w.raw(name, value.Raw)
	case name == "const":
		if !v.Get("type").Exists() {
			w.raw("type", `"`+typeOf(value)+`"`)
		}
		w.raw("enum", "["+value.Raw+"]")
	case name == "format" && slices.Contains(formats, value.Str):
		w.raw(name, value.Raw)
	case name == "properties":
		r.properties(w, at, value)
	case name == "items" && !value.IsArray():
		w.name(name)
		w.b = r.schema(w.b, at, value)
	case (name == "anyOf" || name == "oneOf") && !w.alters:
		w.alters = true
		r.alternatives(w, at, value)
	case name == "allOf", name == "anyOf", name == "oneOf", name == "patternProperties":
		r.fail(at, "is not taken by this provider")
	default:
		w.notes = append(w.notes, name+": "+value.Raw)
	}
}

func (r *reducer) properties(w *writer, at string, value gjson.Result) {
	w.name("properties")
	inner := writer{b: append(w.b, '{')}
	value.ForEach(func(key, property gjson.Result) bool {
		inner.name(key.Str)
		inner.b = r.schema(inner.b, at+"/"+escape(key.Str), property)
		return r.problem == nil
	})
	w.b = append(inner.b, '}')
}

func (r *reducer) alternatives(w *writer, at string, value gjson.Result) {
	w.name("anyOf")
	w.b = append(w.b, '[')
	for i, one := range value.Array() {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = r.schema(w.b, at+"/"+strconv.Itoa(i), one)
	}
	w.b = append(w.b, ']')
}

// close closes an object: it has the members that it names and no others. One that names none could not hold anything.
func (r *reducer) close(w *writer, at string, v gjson.Result) {
	more, properties := v.Get("additionalProperties"), v.Get("properties")
	if !more.Exists() && !properties.Exists() && !slices.ContainsFunc(v.Get("type").Array(), func(t gjson.Result) bool { return t.Str == "object" }) {
		return
	}
	if more.IsObject() || !properties.Exists() && more.Type != gjson.False {
		r.fail(at, "an object whose members have no fixed names is not taken by this provider")
	}
	w.raw("additionalProperties", "false")
}

// reference writes the schema that a reference names in its place.
func (r *reducer) reference(b []byte, at, ref string) []byte {
	if slices.Contains(r.open, ref) || ref == "#" {
		r.fail(at, "a schema that refers to itself is not taken by this provider")
		return b
	}
	target, ok := r.definitions[ref]
	if !ok {
		r.fail(at, "refers to no definition of the schema")
		return b
	}
	r.open = append(r.open, ref)
	b = r.schema(b, at, target)
	r.open = r.open[:len(r.open)-1]
	return b
}

func typeOf(v gjson.Result) string {
	switch v.Type {
	case gjson.String:
		return "string"
	case gjson.Number:
		return "number"
	case gjson.True, gjson.False:
		return "boolean"
	case gjson.Null:
		return "null"
	default:
		if v.IsArray() {
			return "array"
		}
		return "object"
	}
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// escape writes a name as a token of a JSON pointer.
func escape(name string) string { return pointerEscapes.Replace(name) }
