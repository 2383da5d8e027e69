package contract_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	oracle "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"spillway/internal/chat"
	"spillway/internal/contract"
)

// values are held to every schema.
var values = []string{`null`, `true`, `0`, `1`, `1.0`, `-3`, `2.5`, `6`, `""`, `"a"`, `"ab"`, `"añb"`, `"b-12"`, `[]`, `[1]`, `[1,2]`, `[1,"a"]`, `["a","a"]`, `[1,1.0]`,
	`[[1],[1]]`, `[null,true]`, `{}`, `{"a":1}`, `{"a":"a"}`, `{"a":null,"b":2}`, `{"a":1,"b":"x","c":[]}`, `{"b":1}`, `{"ab":1}`, `{"a":{"a":{"a":null}}}`, `{"a":{"a":{"a":7}}}`,
	`{"kind":"x","a":1}`, `{"kind":"y","b":"z"}`, `{"kind":"y"}`, `{"items":[{"name":"n","price":1},{"name":"m"}]}`, `{"items":[{"price":1}]}`, `[{"a":1},{"b":1}]`, `{"a~b/c":1}`}

// schemas are such as clients and their libraries write, and each keyword by itself.
var schemas = []string{
	`true`, `false`, `{}`, `{"not":{}}`, `{"type":"integer"}`, `{"type":"number"}`, `{"type":["string","null"]}`, `{"enum":[1,"a",null,[1,1],{"a":1}]}`, `{"const":null}`, `{"const":{"a":1.0}}`,
	`{"minimum":1,"maximum":2.5}`, `{"exclusiveMinimum":1,"exclusiveMaximum":6}`, `{"multipleOf":3}`, `{"minLength":2,"maxLength":3}`, `{"pattern":"^[a-z]-\\d+$"}`, `{"pattern":"a"}`,
	`{"minItems":1,"maxItems":1}`, `{"uniqueItems":true}`, `{"items":{"type":"integer"}}`, `{"prefixItems":[{"type":"integer"}],"items":false}`, `{"prefixItems":[{"type":"integer"},{"type":"string"}]}`,
	`{"contains":{"const":1}}`, `{"contains":{"type":"integer"},"minContains":2}`, `{"contains":{"type":"integer"},"maxContains":1}`, `{"contains":{"type":"integer"},"minContains":0}`,
	`{"prefixItems":[{}],"unevaluatedItems":false}`, `{"contains":{"const":1},"unevaluatedItems":{"type":"string"}}`, `{"minProperties":1,"maxProperties":2}`, `{"required":["a"]}`, `{"required":[]}`,
	`{"properties":{"a":{"type":"integer"}}}`, `{"properties":{"a":{}},"additionalProperties":false}`, `{"properties":{"a":{}},"additionalProperties":{"type":"string"}}`,
	`{"patternProperties":{"^a":{"type":"integer"}}}`, `{"patternProperties":{"^a":{}},"additionalProperties":false}`, `{"propertyNames":{"maxLength":1}}`, `{"propertyNames":{"pattern":"~"}}`,
	`{"dependentRequired":{"a":["b"]}}`, `{"dependentSchemas":{"a":{"properties":{"b":{"type":"integer"}}}}}`, `{"allOf":[{"minimum":1},{"maximum":1}]}`, `{"anyOf":[{"type":"string"},{"minimum":2}]}`,
	`{"oneOf":[{"type":"integer"},{"minimum":2}]}`, `{"not":{"type":"object"}}`, `{"if":{"type":"integer"},"then":{"minimum":1},"else":{"type":"string"}}`, `{"if":{"required":["a"]},"then":{"required":["b"]}}`,
	`{"allOf":[{"properties":{"a":{}}}],"unevaluatedProperties":false}`, `{"anyOf":[{"properties":{"a":{"type":"integer"}}},{"properties":{"b":{}}}],"unevaluatedProperties":false}`,
	`{"$ref":"#/$defs/a","$defs":{"a":{"type":"integer"}}}`, `{"$ref":"#/$defs/a%25b~1c","minimum":1,"$defs":{"a%b/c":{"type":"integer"}}}`, `{"$ref":"#n","$defs":{"a":{"$anchor":"n","type":"string"}}}`,
	`{"type":"object","properties":{"a":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["a"],"additionalProperties":false}`, `{"properties":{"a":{"$ref":"#/properties/b"},"b":{"type":"integer"}}}`,
	`{"anyOf":[{"properties":{"kind":{"const":"x"},"a":{}},"required":["kind","a"],"additionalProperties":false},{"properties":{"kind":{"const":"y"},"b":{}},"required":["kind","b"],"additionalProperties":false}]}`,
	`{"properties":{"items":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"price":{"type":"number"}},"required":["name"]}}},"required":["items"]}`,
	`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"integer"}],"additionalItems":{"type":"string"}}`,
	`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{"type":"integer"}},"$ref":"#/definitions/a","minimum":5}`,
	`{"$schema":"http://json-schema.org/draft-07/schema","dependencies":{"a":["b"],"b":{"required":["a"]}}}`,
	`{"$schema":"https://json-schema.org/draft/2019-09/schema","$id":"https://example.com/s","title":"t","description":"d","default":7,"examples":[1],"x-own":{"type":7},"type":"object"}`,
}

// same holds our verdict to that of the other implementation.
func same(t require.TestingT, schema, value string) {
	check, err := contract.Checks([]byte(schema))
	require.NoError(t, err, schema)
	document, err := oracle.UnmarshalJSON(strings.NewReader(schema))
	require.NoError(t, err)
	c := oracle.NewCompiler()
	require.NoError(t, c.AddResource("mem:///s.json", document))
	reference, err := c.Compile("mem:///s.json")
	require.NoError(t, err, schema)
	instance, err := oracle.UnmarshalJSON(strings.NewReader(value))
	require.NoError(t, err)
	want, got := reference.Validate(instance), check(value)
	if (want == nil) != (got == nil) {
		require.Fail(t, "verdicts differ", "%s against %s: got %v, want %v", value, schema, got, want)
	}
}

func TestVerdictsAreThoseOfAnotherImplementation(t *testing.T) {
	for _, schema := range schemas {
		t.Run(schema, func(t *testing.T) {
			for _, value := range values {
				same(t, schema, value)
			}
		})
	}
}

func TestVerdictsOnMadeUpSchemas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schema := encode(drawSchema(t, 3))
		for range 8 {
			same(t, schema, encode(drawValue(t, 3)))
		}
	})
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("made of JSON values only: %v", err))
	}
	return string(b)
}

var names = rapid.SampledFrom([]string{"a", "b", "c"})

func drawValue(t *rapid.T, depth int) any {
	kinds := []string{"null", "bool", "number", "string", "object", "array"}
	if depth == 0 {
		kinds = kinds[:4]
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "bool":
		return rapid.Bool().Draw(t, "flag")
	case "number":
		return rapid.SampledFrom([]float64{0, 1, 2, 2.5, -1}).Draw(t, "number")
	case "string":
		return rapid.SampledFrom([]string{"", "a", "ab", "abc"}).Draw(t, "text")
	case "object":
		o := map[string]any{}
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			o[names.Draw(t, "name")] = drawValue(t, depth-1)
		}
		return o
	case "array":
		a := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			a = append(a, drawValue(t, depth-1))
		}
		return a
	}
	return nil
}

func drawSchema(t *rapid.T, depth int) any {
	s := map[string]any{}
	for range rapid.IntRange(1, 3).Draw(t, "keywords") {
		drawKeyword(t, s, depth)
	}
	if depth == 3 {
		s["$defs"] = map[string]any{"d": drawSchema(t, 1)}
	}
	return s
}

func drawKeyword(t *rapid.T, s map[string]any, depth int) {
	plain := []string{"type", "types", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "required",
		"dependentRequired", "minItems", "maxItems", "minContains", "maxContains", "uniqueItems", "minProperties", "maxProperties", "format"}
	holding := []string{"properties", "additionalProperties", "items", "prefixItems", "contains", "anyOf", "allOf", "oneOf", "not", "if", "then", "else", "unevaluatedProperties", "unevaluatedItems", "patternProperties", "propertyNames", "dependentSchemas", "ref"}
	all := plain
	if depth > 1 {
		all = append(append([]string{}, plain...), holding...)
	}
	switch name := rapid.SampledFrom(all).Draw(t, "keyword"); name {
	case "type":
		s[name] = rapid.SampledFrom([]string{"null", "boolean", "object", "array", "number", "string", "integer"}).Draw(t, "type")
	case "types": // as SDKs write what may be null
		s["type"] = []string{rapid.SampledFrom([]string{"boolean", "object", "array", "number", "string", "integer"}).Draw(t, "type"), "null"}
	case "format": // an annotation, as it is to providers
		s[name] = rapid.SampledFrom([]string{"date-time", "email", "uuid", "nothing"}).Draw(t, "format")
	case "multipleOf":
		s[name] = rapid.IntRange(1, 3).Draw(t, "factor")
	case "dependentRequired":
		s[name] = map[string]any{names.Draw(t, "property"): []string{names.Draw(t, "required")}}
	case "enum":
		s[name] = []any{drawValue(t, 1), drawValue(t, 1)}
	case "const":
		s[name] = drawValue(t, 1)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains", "minProperties", "maxProperties":
		s[name] = rapid.IntRange(0, 2).Draw(t, "bound")
	case "pattern":
		s[name] = rapid.SampledFrom([]string{"^a", "b$", "^.?$"}).Draw(t, "pattern")
	case "required":
		s[name] = []string{names.Draw(t, "required")}
	case "uniqueItems":
		s[name] = true
	case "properties", "dependentSchemas":
		s[name] = map[string]any{names.Draw(t, "property"): drawSchema(t, depth-1)}
	case "patternProperties":
		s[name] = map[string]any{"^[ab]$": drawSchema(t, depth-1)}
	case "prefixItems", "anyOf", "allOf", "oneOf":
		s[name] = []any{drawSchema(t, depth-1), drawSchema(t, depth-1)}
	case "ref":
		s["$ref"] = "#/$defs/d"
	default:
		s[name] = drawSchema(t, depth-1)
	}
}

// FuzzCheck: whatever a client writes as its schema and a model as its answer, the check ends with a verdict that repeats
// nothing of the answer.
func FuzzCheck(f *testing.F) {
	for i, s := range schemas {
		f.Add(s, values[i%len(values)])
	}
	f.Add(doubling, nested(60))
	f.Add(`{"$ref":"#"}`, `1`)
	f.Fuzz(func(t *testing.T, schema, text string) {
		c, refused := contract.Compile(schemaRequest(schema))
		if refused != nil {
			require.NotEmpty(t, refused.Param)
			return
		}
		err := c.Check(&chat.Answer{Choices: []chat.AnswerChoice{says(text)}})
		if err == nil {
			require.True(t, json.Valid([]byte(text)), "%q is no JSON", text)
			return
		}
		v, ok := errors.AsType[*contract.Violation](err)
		require.True(t, ok)
		require.True(t, v.Schema == "" || strings.HasPrefix(v.Schema, "/"), "%q is no pointer", v.Schema)
		require.NotEqual(t, contract.NotObject, v.Kind)
	})
}
