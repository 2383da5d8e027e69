package simulate

import (
	"encoding/json"
	"strings"
)

const (
	// maxSchemaDepth ends a schema that refers to itself.
	maxSchemaDepth = 16
	// maxMinimum bounds the items and characters that a schema can demand.
	maxMinimum = 1000
)

// satisfy is a JSON text that a simple schema accepts: required members (all of
// them when none is required), enum, const, items and bounds are obeyed, local
// $refs followed; of alternatives the first is taken. Patterns and formats are
// not understood. No schema is an empty object.
func satisfy(schema json.RawMessage) string {
	var root map[string]any
	if json.Unmarshal(schema, &root) != nil || root == nil {
		return "{}"
	}
	return encode(sample{root}.value(root, "", 0))
}

type sample struct{ root map[string]any }

func (s sample) value(node map[string]any, name string, depth int) any {
	if depth > maxSchemaDepth {
		return nil
	}
	if ref, ok := node["$ref"].(string); ok {
		return s.value(s.resolve(ref), name, depth+1)
	}
	if v, ok := node["const"]; ok {
		return v
	}
	if all, ok := node["enum"].([]any); ok && len(all) > 0 {
		return all[0]
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		if all, ok := node[key].([]any); ok && len(all) > 0 {
			return s.value(s.alternative(all, depth), name, depth+1)
		}
	}
	switch typeOf(node) {
	case "object":
		return s.object(node, depth)
	case "array":
		return s.array(node, name, depth)
	case "integer", "number":
		return atLeast(node, "minimum", 1)
	case "boolean":
		return true
	case "null":
		return nil
	}
	return text(node, name)
}

// alternative takes the first; deep inside a recursive schema the last, which by
// custom is the null that ends it.
func (s sample) alternative(all []any, depth int) map[string]any {
	pick := all[0]
	if depth > maxSchemaDepth/2 {
		pick = all[len(all)-1]
	}
	node, _ := pick.(map[string]any)
	return node
}

func (s sample) object(node map[string]any, depth int) any {
	properties, _ := node["properties"].(map[string]any)
	required, _ := node["required"].([]any)
	if len(required) == 0 {
		for name := range properties {
			required = append(required, name)
		}
	}
	out := map[string]any{}
	for _, member := range required {
		name, _ := member.(string)
		property, _ := properties[name].(map[string]any)
		out[name] = s.value(property, name, depth+1)
	}
	return out
}

func (s sample) array(node map[string]any, name string, depth int) any {
	items, _ := node["items"].(map[string]any)
	if depth > maxSchemaDepth/2 {
		return []any{}
	}
	out := []any{}
	for range int(min(atLeast(node, "minItems", 1), maxMinimum)) {
		out = append(out, s.value(items, name, depth+1))
	}
	return out
}

// resolve follows "#/a/b"; anything else is an empty schema.
func (s sample) resolve(ref string) map[string]any {
	node := s.root
	for _, step := range strings.Split(strings.TrimPrefix(ref, "#"), "/") {
		if step != "" {
			node, _ = node[step].(map[string]any)
		}
	}
	return node
}

func typeOf(node map[string]any) string {
	switch t := node["type"].(type) {
	case string:
		return strings.ToLower(t) // Google's older schemas shout
	case []any:
		if len(t) > 0 {
			first, _ := t[0].(string)
			return first
		}
	}
	if node["properties"] != nil {
		return "object"
	}
	return "string"
}

func atLeast(node map[string]any, bound string, otherwise float64) float64 {
	if v, ok := node[bound].(float64); ok {
		return v
	}
	return otherwise
}

// text is a word that fits the member's name, long enough for minLength.
func text(node map[string]any, name string) string {
	word := map[string]string{"city": "Lisbon", "location": "Lisbon", "unit": "celsius"}[name]
	if word == "" {
		word = "spillway"
	}
	for float64(len(word)) < min(atLeast(node, "minLength", 0), maxMinimum) {
		word += " " + word
	}
	if longest, ok := node["maxLength"].(float64); ok && float64(len(word)) > longest {
		word = word[:int(longest)]
	}
	return word
}
