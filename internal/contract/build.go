package contract

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// The versions of JSON Schema that the library checks by, in its own words.
const (
	draft7    = "http://json-schema.org/draft-07/schema#"
	draft2020 = "https://json-schema.org/draft/2020-12/schema"
)

// builder makes the library's schema of a decoded one and checks what the library takes on trust. It stops at the first
// thing that cannot be checked.
type builder struct {
	draft    string
	nodes    map[string]*jsonschema.Schema // by JSON pointer
	anchors  map[string]*jsonschema.Schema
	places   map[*jsonschema.Schema]string
	refs     map[*jsonschema.Schema]*jsonschema.Schema
	programs map[string]int // of each regular expression, in instructions
	// instructions are those of all regular expressions together, each as often as it is written.
	instructions int
	// looking says whether a schema is being looked through for loops, or has been.
	looking map[*jsonschema.Schema]bool
	err     error
}

func newBuilder(tree any) *builder {
	b := &builder{nodes: map[string]*jsonschema.Schema{}, anchors: map[string]*jsonschema.Schema{}, places: map[*jsonschema.Schema]string{},
		refs: map[*jsonschema.Schema]*jsonschema.Schema{}, programs: map[string]int{}, looking: map[*jsonschema.Schema]bool{}}
	b.draft = draft2020
	if root, ok := tree.(map[string]any); ok {
		if v, given := root["$schema"]; given {
			b.draft = b.version(v)
		}
	}
	return b
}

// version maps the versions that mean the same for all that is checked onto the two that the library knows.
func (b *builder) version(v any) string {
	s, _ := v.(string)
	_, s, _ = strings.Cut(strings.TrimSuffix(s, "#"), "://")
	switch s {
	case "json-schema.org/draft-07/schema", "json-schema.org/draft-06/schema":
		return draft7
	case "json-schema.org/draft/2020-12/schema", "json-schema.org/draft/2019-09/schema":
		return draft2020
	}
	b.fail("/$schema", "names a version of JSON Schema that is not supported")
	return draft2020
}

func (b *builder) fail(at, why string) {
	if b.err == nil {
		b.err = &unsupported{at, why}
	}
}

// schema makes the schema at a pointer. It is never nil.
func (b *builder) schema(at string, v any, depth int) *jsonschema.Schema {
	s := &jsonschema.Schema{}
	if len(b.nodes) >= maxSchemaNodes || depth > maxSchemaDepth {
		b.fail(at, "is beyond the bounds of a schema")
	}
	if b.err != nil {
		return s
	}
	b.nodes[at], b.places[s] = s, at
	switch v := v.(type) {
	case bool:
		if !v {
			s.Not = &jsonschema.Schema{}
		}
	case map[string]any:
		if at == "" {
			s.Schema = b.draft
		}
		b.each(at, v, func(name, here string, value any) {
			if !b.reference(s, name, here, value) && !b.assertion(s, name, here, value) {
				b.applicator(s, name, here, value, depth+1)
			}
		})
		if s.Defs != nil && s.Definitions != nil {
			b.fail(at+"/definitions", "stands beside $defs; use one of them")
		}
	default:
		b.fail(at, "must be a schema: an object, true or false")
	}
	return s
}

// reference takes the keywords that name schemas and refer to them.
func (b *builder) reference(s *jsonschema.Schema, name, at string, v any) bool {
	switch name {
	case "$ref":
		if s.Ref = b.text(at, v); !strings.HasPrefix(s.Ref, "#") {
			b.fail(at, "refers to another document, and none is fetched")
		}
	case "$anchor":
		s.Anchor = b.text(at, v)
		if _, twice := b.anchors[s.Anchor]; twice || s.Anchor == "" {
			b.fail(at, "must be a name of its own")
		}
		b.anchors[s.Anchor] = s
	case "$id", "id":
		if name == "$id" && at != "/$id" { // the root's own name changes nothing
			b.fail(at, "gives a part of the schema a name of its own, which is not supported")
		}
	case "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary":
		b.fail(at, "is not supported")
	default:
		return false
	}
	return true
}

// assertion takes the keywords that say something of a value by themselves.
func (b *builder) assertion(s *jsonschema.Schema, name, at string, v any) bool {
	switch name {
	case "type":
		b.types(s, at, v)
	case "enum":
		s.Enum = append([]any{}, b.list(at, v)...)
	case "const":
		s.Const = &v
	case "multipleOf":
		s.MultipleOf = b.multiple(at, v)
	case "minimum":
		s.Minimum = b.number(at, v)
	case "maximum":
		s.Maximum = b.number(at, v)
	case "exclusiveMinimum":
		s.ExclusiveMinimum = b.number(at, v)
	case "exclusiveMaximum":
		s.ExclusiveMaximum = b.number(at, v)
	case "pattern":
		s.Pattern = b.text(at, v)
		b.pattern(at, s.Pattern)
	case "uniqueItems":
		s.UniqueItems = b.flag(at, v)
	case "required":
		s.Required = b.texts(at, v)
	case "dependentRequired":
		s.DependentRequired = map[string][]string{}
		b.each(at, v, func(key, here string, names any) { s.DependentRequired[key] = b.texts(here, names) })
	default:
		return b.bound(s, name, at, v)
	}
	return true
}

// bound takes the keywords that count.
func (b *builder) bound(s *jsonschema.Schema, name, at string, v any) bool {
	var into **int
	switch name {
	case "minLength":
		into = &s.MinLength
	case "maxLength":
		into = &s.MaxLength
	case "minItems":
		into = &s.MinItems
	case "maxItems":
		into = &s.MaxItems
	case "minContains":
		into = &s.MinContains
	case "maxContains":
		into = &s.MaxContains
	case "minProperties":
		into = &s.MinProperties
	case "maxProperties":
		into = &s.MaxProperties
	default:
		return false
	}
	*into = b.count(at, v)
	return true
}

// applicator takes the keywords that hold further schemas. All others, `format` among them, say nothing of a value.
func (b *builder) applicator(s *jsonschema.Schema, name, at string, v any, depth int) {
	var one **jsonschema.Schema
	switch name {
	case "additionalItems":
		one = &s.AdditionalItems
	case "contains":
		one = &s.Contains
	case "unevaluatedItems":
		one = &s.UnevaluatedItems
	case "additionalProperties":
		one = &s.AdditionalProperties
	case "propertyNames":
		one = &s.PropertyNames
	case "unevaluatedProperties":
		one = &s.UnevaluatedProperties
	case "not":
		one = &s.Not
	case "if":
		one = &s.If
	case "then":
		one = &s.Then
	case "else":
		one = &s.Else
	case "items":
		if _, tuple := v.([]any); tuple && b.draft == draft7 {
			s.ItemsArray = b.schemas(at, v, depth)
			return
		}
		one = &s.Items
	case "dependencies":
		b.dependencies(s, at, v, depth)
		return
	default:
		b.collection(s, name, at, v, depth)
		return
	}
	*one = b.schema(at, v, depth)
}

// collection takes the keywords that hold lists of schemas, or schemas by name.
func (b *builder) collection(s *jsonschema.Schema, name, at string, v any, depth int) {
	switch name {
	case "prefixItems":
		s.PrefixItems = b.schemas(at, v, depth)
	case "allOf":
		s.AllOf = b.schemas(at, v, depth)
	case "anyOf":
		s.AnyOf = b.schemas(at, v, depth)
	case "oneOf":
		s.OneOf = b.schemas(at, v, depth)
	case "$defs":
		s.Defs = b.named(at, v, depth)
	case "definitions":
		s.Definitions = b.named(at, v, depth)
	case "properties":
		s.Properties = b.named(at, v, depth)
	case "dependentSchemas":
		s.DependentSchemas = b.named(at, v, depth)
	case "patternProperties":
		s.PatternProperties = b.named(at, v, depth)
		b.each(at, v, func(pattern, here string, _ any) { b.pattern(here, pattern) })
	}
}

func (b *builder) dependencies(s *jsonschema.Schema, at string, v any, depth int) {
	if b.draft != draft7 {
		b.fail(at, "belongs to an older version of JSON Schema than the schema names")
		return
	}
	s.DependencyStrings, s.DependencySchemas = map[string][]string{}, map[string]*jsonschema.Schema{}
	b.each(at, v, func(key, here string, value any) {
		if _, names := value.([]any); names {
			s.DependencyStrings[key] = b.texts(here, value)
		} else {
			s.DependencySchemas[key] = b.schema(here, value, depth)
		}
	})
}

func (b *builder) schemas(at string, v any, depth int) []*jsonschema.Schema {
	out := []*jsonschema.Schema{}
	for i, item := range b.list(at, v) {
		out = append(out, b.schema(at+"/"+strconv.Itoa(i), item, depth))
	}
	if len(out) == 0 {
		b.fail(at, "must not be empty")
	}
	return out
}

func (b *builder) named(at string, v any, depth int) map[string]*jsonschema.Schema {
	out := map[string]*jsonschema.Schema{}
	b.each(at, v, func(name, here string, value any) { out[name] = b.schema(here, value, depth) })
	return out
}

func (b *builder) types(s *jsonschema.Schema, at string, v any) {
	names := []string{}
	if one, ok := v.(string); ok {
		s.Type, names = one, append(names, one)
	} else {
		names = b.texts(at, v)
		s.Types = names
	}
	for _, name := range names {
		if !slices.Contains([]string{"null", "boolean", "object", "array", "number", "string", "integer"}, name) {
			b.fail(at, "names a type that JSON does not have")
		}
	}
}

// pattern checks a regular expression: those that would have to look ahead or back are not in the language of the checker,
// whose cost is linear.
func (b *builder) pattern(at, text string) {
	if len(text) > maxPattern {
		b.fail(at, "is longer than a regular expression may be")
		return
	}
	if _, known := b.programs[text]; !known {
		re, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			b.fail(at, "is no regular expression that we can run")
			return
		}
		program, err := syntax.Compile(re.Simplify())
		if err != nil {
			b.fail(at, "is no regular expression that we can run")
			return
		}
		b.programs[text] = len(program.Inst)
	}
	if b.instructions += b.programs[text]; b.programs[text] > maxProgram || b.instructions > maxPrograms {
		b.fail(at, "is a regular expression that costs too much to run")
	}
}

func (b *builder) text(at string, v any) string {
	s, ok := v.(string)
	if !ok {
		b.fail(at, "must be a string")
	}
	return s
}

func (b *builder) texts(at string, v any) []string {
	out := []string{}
	for i, item := range b.list(at, v) {
		out = append(out, b.text(at+"/"+strconv.Itoa(i), item))
	}
	return out
}

func (b *builder) list(at string, v any) []any {
	list, ok := v.([]any)
	if !ok {
		b.fail(at, "must be a list")
	}
	return list
}

// each calls f for the members of an object, in order, so that the same schema always fails alike.
func (b *builder) each(at string, v any, f func(name, at string, v any)) {
	members, ok := v.(map[string]any)
	if !ok {
		b.fail(at, "must be an object")
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		f(name, at+"/"+escape(name), members[name])
	}
}

func (b *builder) flag(at string, v any) bool {
	flag, ok := v.(bool)
	if !ok {
		b.fail(at, "must be true or false")
	}
	return flag
}

func (b *builder) number(at string, v any) *float64 {
	n, ok := v.(float64)
	if !ok {
		b.fail(at, "must be a number")
	}
	return &n
}

// multiple is a multipleOf. The library divides in binary, where 19.99 is no multiple of 0.01: a fraction is taken, and not
// checked.
func (b *builder) multiple(at string, v any) *float64 {
	n := b.number(at, v)
	if *n <= 0 {
		b.fail(at, "must be more than 0")
	}
	if *n != math.Trunc(*n) {
		return nil
	}
	return n
}

func (b *builder) count(at string, v any) *int {
	n, ok := v.(float64)
	if !ok || n < 0 || n > math.MaxInt32 || n != math.Trunc(n) {
		b.fail(at, fmt.Sprintf("must be a whole number from 0 to %d", math.MaxInt32))
		n = 0
	}
	i := int(n)
	return &i
}

// link finds what each $ref refers to.
func (b *builder) link() {
	for _, at := range slices.Sorted(maps.Keys(b.nodes)) {
		s := b.nodes[at]
		if s.Ref == "" {
			continue
		}
		name, err := url.PathUnescape(s.Ref[1:])
		to := b.nodes[name]
		if name != "" && !strings.HasPrefix(name, "/") {
			to = b.anchors[name]
		}
		if err != nil || to == nil {
			b.fail(at+"/$ref", "refers to nothing in the schema")
			return
		}
		b.refs[s] = to
	}
}

// findLoops looks for schemas that look at a value by way of themselves, which would never end.
func (b *builder) findLoops() {
	for _, at := range slices.Sorted(maps.Keys(b.nodes)) {
		b.lookThrough(b.nodes[at])
	}
}

func (b *builder) lookThrough(s *jsonschema.Schema) {
	if now, seen := b.looking[s]; seen {
		if now {
			b.fail(b.places[s], "refers to itself without end")
		}
		return
	}
	b.looking[s] = true
	eachInPlace(s, b.refs[s], b.lookThrough)
	b.looking[s] = false
}

// escape writes a name as a step of a JSON pointer (RFC 6901 §3).
func escape(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}
