package strict_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"spillway/internal/provider/openai/strict"
)

func TestSchema(t *testing.T) {
	deep := strings.Repeat(`{"type":"object","required":["a"],"properties":{"a":`, 11) + `{"type":"null"}` + strings.Repeat(`}}`, 11)
	for name, c := range map[string]struct {
		schema string
		// want is the closed schema; "": the subset cannot say it.
		want string
	}{
		"an open object is closed": {`{"type":"object","properties":{"x":{"type":"integer","minimum":1}},"required":["x"]}`,
			`{"type":"object","properties":{"x":{"type":"integer","minimum":1}},"required":["x"],"additionalProperties":false}`},
		"one that is open on purpose is closed too": {`{"type":"object","additionalProperties":true,"properties":{"x":{"const":1}},"required":["x"]}`,
			`{"type":"object","properties":{"x":{"const":1}},"required":["x"],"additionalProperties":false}`},
		"inside lists, alternatives and definitions": {`{"$schema":"s","type":"object","required":["l"],"properties":{"l":{"type":"array","items":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/d"}]}}},"$defs":{"d":{"type":["object","null"],"properties":{"y":{"enum":["a"]}},"required":["y"],"additionalProperties":false}}}`,
			`{"$schema":"s","type":"object","required":["l"],"properties":{"l":{"type":"array","items":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/d"}]}}},"$defs":{"d":{"type":["object","null"],"properties":{"y":{"enum":["a"]}},"required":["y"],"additionalProperties":false}},"additionalProperties":false}`},
		"no members":                   {`{"type":"object","properties":{}}`, `{"type":"object","properties":{},"additionalProperties":false}`},
		"a name with a quote":          {`{"type":"object","properties":{"\"":{"type":"null"}},"required":["\""]}`, `{"type":"object","properties":{"\"":{"type":"null"}},"required":["\""],"additionalProperties":false}`},
		"a member that may be missing": {`{"type":"object","properties":{"x":{"type":"integer"}}}`, ""},
		"one of two that may":          {`{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},"required":["x"]}`, ""},
		"a map":                        {`{"type":"object","properties":{},"additionalProperties":{"type":"string"}}`, ""},
		"an object of any members":     {`{"type":"object"}`, ""},
		"members of no object":         {`{"type":"object","required":["x"],"properties":{"x":{"properties":{"y":{}},"required":["y"]}}}`, ""},
		"a pattern":                    {`{"type":"object","properties":{"x":{"type":"string","pattern":"a"}},"required":["x"]}`, ""},
		"all of several":               {`{"type":"object","properties":{"x":{"allOf":[{"type":"string"}]}},"required":["x"]}`, ""},
		"words beside a reference":     {`{"type":"object","properties":{"x":{"$ref":"#","description":"d"}},"required":["x"]}`, ""},
		"another document":             {`{"type":"object","properties":{"x":{"$ref":"https://example.com"}},"required":["x"]}`, ""},
		"a list at the root":           {`{"type":"array","items":{"type":"string"}}`, ""},
		"alternatives at the root":     {`{"type":"object","properties":{},"anyOf":[{"type":"object","properties":{}}]}`, ""},
		"true":                         {`true`, ""},
		"a tuple":                      {`{"type":"object","properties":{"x":{"items":[{"type":"null"}]}},"required":["x"]}`, ""},
		"deeper than it may be":        {deep, ""},
		"larger than it may be":        {`{"type":"object","properties":{},"description":"` + strings.Repeat("x", 120_000) + `"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := strict.Schema([]byte(c.schema))
			assert.Equal(t, c.want != "", ok)
			if ok {
				assert.JSONEq(t, c.want, string(got))
			}
		})
	}
}
