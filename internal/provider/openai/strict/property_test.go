package strict_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"spillway/internal/provider/openai/strict"
)

func compile(t require.TestingT, schema []byte) *jsonschema.Schema {
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(schema)))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("mem:///s.json", document))
	s, err := c.Compile("mem:///s.json")
	require.NoError(t, err, "%s", schema)
	return s
}

// TestWhatFitsTheResultFitsTheSchema, whatever the schema.
func TestWhatFitsTheResultFitsTheSchema(t *testing.T) {
	said := 0
	rapid.Check(t, func(t *rapid.T) {
		schema, err := json.Marshal(drawObject(t, 3))
		require.NoError(t, err)
		closed, ok := strict.Schema(schema)
		if !ok {
			return
		}
		said++
		before, after := compile(t, schema), compile(t, closed)
		for range 10 {
			if v := drawValue(t, 3); after.Validate(v) == nil {
				require.NoError(t, before.Validate(v), "%v fits %s and not %s", v, closed, schema)
			}
		}
	})
	require.Positive(t, said)
}

var names = rapid.SampledFrom([]string{"a", "b"})

// drawObject makes an object's schema, often one that can be said.
func drawObject(t *rapid.T, depth int) map[string]any {
	properties, required := map[string]any{}, []string{}
	for range rapid.IntRange(0, 2).Draw(t, "members") {
		name := names.Draw(t, "name")
		if properties[name] != nil {
			continue
		}
		properties[name] = drawSchema(t, depth-1)
		if rapid.IntRange(0, 4).Draw(t, "optional") > 0 {
			required = append(required, name)
		}
	}
	s := map[string]any{"type": "object", "properties": properties, "required": required}
	if rapid.IntRange(0, 4).Draw(t, "extra") == 0 {
		s["additionalProperties"] = rapid.SampledFrom([]any{true, false, map[string]any{"type": "null"}}).Draw(t, "additional")
	}
	return s
}

func drawSchema(t *rapid.T, depth int) map[string]any {
	if depth == 0 {
		return map[string]any{"type": "integer", "minimum": rapid.IntRange(0, 2).Draw(t, "minimum")}
	}
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		return drawObject(t, depth)
	case 1:
		return map[string]any{"type": "array", "items": drawSchema(t, depth-1)}
	case 2:
		return map[string]any{"anyOf": []any{drawSchema(t, depth-1), map[string]any{"type": "null"}}}
	case 3:
		return map[string]any{"$ref": "#"}
	default:
		return map[string]any{rapid.SampledFrom([]string{"enum", "not", "allOf"}).Draw(t, "word"): []any{map[string]any{"type": "null"}}}
	}
}

func drawValue(t *rapid.T, depth int) any {
	switch kind := rapid.IntRange(0, 4).Draw(t, "value"); {
	case kind < 3 && depth > 0:
		o := map[string]any{}
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			o[rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")] = drawValue(t, depth-1)
		}
		return o
	case kind == 3 && depth > 0:
		return []any{drawValue(t, depth-1)}
	case kind == 4:
		return nil
	default:
		return float64(rapid.IntRange(0, 3).Draw(t, "number"))
	}
}
