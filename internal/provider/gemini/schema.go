package gemini

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

// keywords are those of JSON Schema that are sent on (https://ai.google.dev/gemini-api/docs/structured-output, 2026-11-30).
// The others are left out: an answer is held to the client's own schema, not to this one. References are put in place of
// their names, and const becomes an enum of one.
var keywords = map[string]bool{"type": true, "format": true, "title": true, "description": true, "enum": true, "items": true, "prefixItems": true,
	"minItems": true, "maxItems": true, "minimum": true, "maximum": true, "anyOf": true, "oneOf": true, "properties": true,
	"additionalProperties": true, "required": true}

const (
	// maxSchema bounds a schema as given and with its references put in place, in bytes; the others bound the work for it:
	// how many schemas are looked at, how many places are referred to, and how many references lead to one schema.
	maxSchema = 256 << 10
	maxSteps  = 20_000
	maxPlaces = 1_000
	maxChain  = 100
)

// reducer writes a schema with the keywords that Gemini knows.
type reducer struct {
	root   gjson.Result
	out    []byte
	steps  int
	places map[string]gjson.Result // what references point to
	// at and why are where and why the schema cannot be written; why is empty while it can.
	at, why string
}

// schema reduces a client's schema. One that refers to itself, or to what is not in it, is refused with the JSON pointer of
// the place.
func (e *encoder) schema(param string, raw []byte) jsontext.Value {
	r := &reducer{root: gjson.ParseBytes(raw), places: map[string]gjson.Result{}}
	if len(raw) > maxSchema {
		r.fail("", "the schema is too large")
	}
	r.schema(r.root, "", []string{"#"})
	if r.why != "" {
		e.refuse(param+"#"+r.at, "%s", r.why)
	}
	return r.out
}

func (r *reducer) fail(at, why string) {
	if r.why == "" {
		r.at, r.why = at, why
	}
}

// member is a keyword of a schema with its place, and the references that led to it.
type member struct {
	name  string
	value gjson.Result
	at    string
	refs  []string
	// constant marks a const, which is an enum without a list.
	constant bool
}

// schema writes one schema.
func (r *reducer) schema(v gjson.Result, at string, refs []string) {
	if r.why != "" {
		return
	}
	if !v.IsObject() { // true and false are schemas too
		if v.Type == gjson.False {
			r.fail(at, "this provider knows no schema that nothing fits")
		}
		r.out = append(r.out, "{}"...)
		return
	}
	if len(r.out) > maxSchema {
		r.fail(at, "the schema is too large with its references put in place")
		return
	}
	members := r.members(nil, v, at, refs)
	typed := slices.ContainsFunc(members, func(m member) bool { return m.name == "type" })
	start := len(r.out)
	for _, m := range members {
		r.member(m, typed)
	}
	if len(r.out) == start {
		r.out = append(r.out, ',')
	}
	if r.out[start] == ',' {
		r.out[start] = '{' // in place of the first comma
	}
	r.out = append(r.out, '}')
}

// members collects the keywords of a schema, with those of the schema that it refers to or consists of. The first of a name
// counts, so that what stands beside a reference goes before it.
func (r *reducer) members(list []member, v gjson.Result, at string, refs []string) []member {
	if r.steps++; r.steps > maxSteps {
		r.fail(at, "the schema is too large with its references put in place")
	}
	if r.why != "" {
		return list
	}
	add := func(m member) {
		if !slices.ContainsFunc(list, func(have member) bool { return have.name == m.name }) {
			list = append(list, m)
		}
	}
	var referred, all gjson.Result
	v.ForEach(func(key, value gjson.Result) bool {
		switch {
		case key.Str == "$ref":
			referred = value
		case key.Str == "allOf":
			all = value
		case key.Str == "const":
			add(member{name: "enum", value: value, constant: true})
		case keywords[key.Str]:
			add(member{name: key.Str, value: value, at: at + "/" + key.Str, refs: refs})
		}
		return true
	})
	if all.Exists() {
		if parts := all.Array(); len(parts) == 1 && all.IsArray() {
			list = r.members(list, parts[0], at+"/allOf/0", refs)
		} else {
			r.fail(at+"/allOf", "this provider knows no schema of several that must all fit")
		}
	}
	if referred.Exists() {
		list = r.referred(list, referred.Str, at+"/$ref", refs)
	}
	return list
}

// referred collects the keywords of what a reference points to.
func (r *reducer) referred(list []member, ref, at string, refs []string) []member {
	if slices.Contains(refs, ref) {
		r.fail(at, "this provider knows no schema that refers to itself")
		return list
	}
	if len(refs) > maxChain || len(r.places) > maxPlaces {
		r.fail(at, "the schema has too many references")
		return list
	}
	target, known := r.places[ref]
	if !known {
		target = resolve(r.root, ref)
		r.places[ref] = target
	}
	if !target.Exists() {
		r.fail(at, "the reference leads nowhere inside the schema")
		return list
	}
	return r.members(list, target, strings.TrimPrefix(ref, "#"), append(slices.Clone(refs), ref))
}

// member writes a comma, a keyword and its value.
func (r *reducer) member(m member, typed bool) {
	if m.constant {
		r.constant(m, typed)
		return
	}
	r.name(m.name)
	switch m.name {
	case "properties":
		r.properties(m)
	case "items":
		if m.value.IsArray() { // drafts before 2020 have here what is called prefixItems since
			r.fail(m.at, "a list of schemas is called prefixItems")
		}
		r.schema(m.value, m.at, m.refs)
	case "additionalProperties":
		if m.value.IsBool() {
			r.out = append(r.out, m.value.Raw...)
		} else {
			r.schema(m.value, m.at, m.refs)
		}
	case "prefixItems", "anyOf", "oneOf":
		r.list(m)
	default:
		r.out = append(r.out, m.value.Raw...)
	}
}

func (r *reducer) name(name string) {
	r.out = append(r.out, ',')
	r.out, _ = jsontext.AppendQuote(r.out, name)
	r.out = append(r.out, ':')
}

// constant writes a const as an enum of one, with its type where the schema names none.
func (r *reducer) constant(m member, typed bool) {
	if kind := kindOf(m.value); !typed && kind != "" {
		r.name("type")
		r.out, _ = jsontext.AppendQuote(r.out, kind)
	}
	r.name("enum")
	r.out = append(append(append(r.out, '['), m.value.Raw...), ']')
}

func kindOf(v gjson.Result) string {
	switch {
	case v.Type == gjson.String:
		return "string"
	case v.Type == gjson.Number && strings.ContainsAny(v.Raw, ".eE"):
		return "number"
	case v.Type == gjson.Number:
		return "integer"
	case v.IsBool():
		return "boolean"
	default:
		return ""
	}
}

func (r *reducer) properties(m member) {
	start := len(r.out)
	m.value.ForEach(func(key, value gjson.Result) bool {
		r.name(key.String())
		r.schema(value, m.at+"/"+escape(key.String()), m.refs)
		return r.why == ""
	})
	if len(r.out) == start {
		r.out = append(r.out, ',')
	}
	r.out[start] = '{'
	r.out = append(r.out, '}')
}

func (r *reducer) list(m member) {
	r.out = append(r.out, '[')
	for i, value := range m.value.Array() {
		if i > 0 {
			r.out = append(r.out, ',')
		}
		r.schema(value, m.at+"/"+strconv.Itoa(i), m.refs)
	}
	r.out = append(r.out, ']')
}

// escape writes a name as a token of a JSON pointer.
func escape(name string) string { return pointerOut.Replace(name) }

var (
	pointerOut = strings.NewReplacer("~", "~0", "/", "~1")
	pointerIn  = strings.NewReplacer("~1", "/", "~0", "~")
)

// resolve finds what a reference inside the schema points to; nothing for any other.
func resolve(root gjson.Result, ref string) (found gjson.Result) {
	pointer, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return found
	}
	if plain, err := url.PathUnescape(pointer); err == nil {
		pointer = plain
	}
	found = root
	for token := range strings.SplitSeq(pointer, "/") {
		found = child(found, pointerIn.Replace(token))
	}
	return found
}

func child(v gjson.Result, name string) (found gjson.Result) {
	i := 0
	v.ForEach(func(key, value gjson.Result) bool {
		if (v.IsArray() && strconv.Itoa(i) == name) || (v.IsObject() && key.String() == name) {
			found = value
		}
		i++
		return !found.Exists()
	})
	return found
}
