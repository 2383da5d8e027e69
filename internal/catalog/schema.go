package catalog

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
)

// Schema is a JSON Schema (draft 2020-12) of the file, made of the same tags that Load checks it by. It is for editors:
// what refers to something by its name, and what must not stand twice, only Load checks.
func Schema() []byte {
	root := schemaOf(reflect.TypeFor[file]())
	root.Dialect, root.Title = "https://json-schema.org/draft/2020-12/schema", "Spillway configuration"
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("catalog: encoding the schema: " + err.Error()) // numbers, texts and lists of them
	}
	return append(text, '\n')
}

type schema struct {
	Dialect       string             `json:"$schema,omitempty"`
	Title         string             `json:"title,omitempty"`
	Description   string             `json:"description,omitempty"`
	Type          string             `json:"type,omitempty"`
	Enum          []string           `json:"enum,omitempty"`
	Pattern       string             `json:"pattern,omitempty"`
	Format        string             `json:"format,omitempty"`
	MinLength     int                `json:"minLength,omitempty"`
	MaxLength     int                `json:"maxLength,omitempty"`
	Minimum       *float64           `json:"minimum,omitempty"`
	Above         *float64           `json:"exclusiveMinimum,omitempty"`
	Maximum       *float64           `json:"maximum,omitempty"`
	Default       any                `json:"default,omitempty"`
	Properties    map[string]*schema `json:"properties,omitempty"`
	Required      []string           `json:"required,omitempty"`
	PropertyNames *schema            `json:"propertyNames,omitempty"`
	MaxProperties int                `json:"maxProperties,omitempty"`
	Additional    any                `json:"additionalProperties,omitempty"` // a schema, or false
	Items         *schema            `json:"items,omitempty"`
	MinItems      int                `json:"minItems,omitempty"`
	MaxItems      int                `json:"maxItems,omitempty"`
}

// schemaOf describes one of the structs of the file.
func schemaOf(t reflect.Type) *schema {
	s := &schema{Type: "object", Properties: map[string]*schema{}, Additional: false}
	for _, m := range membersOf(t) {
		of := m.schema(t.Field(m.index).Type)
		of.Description = m.tag.Get("doc")
		if text, ok := m.tag.Lookup("default"); ok {
			of.Default = defaultOf(of.Type, text)
		}
		s.Properties[m.name] = of
		if m.required {
			s.Required = append(s.Required, m.name)
		}
	}
	return s
}

// schema describes a value of type t that obeys the rule.
func (r rule) schema(t reflect.Type) *schema {
	switch t.Kind() {
	case reflect.Pointer:
		return r.schema(t.Elem())
	case reflect.Struct:
		return schemaOf(t)
	case reflect.Slice:
		s := &schema{Type: "array", Items: r.schema(t.Elem()), MaxItems: r.many}
		if r.required {
			s.MinItems = 1
		}
		return s
	case reflect.Map:
		s := &schema{Type: "object", Additional: r.schema(t.Elem()), MaxProperties: r.many}
		if words := vocabularies[t.Key()].words; words != nil {
			s.PropertyNames = &schema{Enum: words}
		}
		return s
	case reflect.String:
		return r.textSchema()
	case reflect.Bool:
		return &schema{Type: "boolean"}
	case reflect.Float64:
		return r.numberSchema("number")
	case reflect.Int, reflect.Int64:
		return r.numberSchema("integer")
	default:
		panic(fmt.Sprintf("catalog: a member of the file has the type %v", t)) // the tests make the schema
	}
}

func (r rule) textSchema() *schema {
	if len(r.words.words) > 0 {
		return &schema{Type: "string", Enum: slices.Clone(r.words.words)}
	}
	s := &schema{Type: "string", MinLength: 1, MaxLength: r.length}
	if r.form != nil {
		s.Pattern, s.Format = r.form.pattern, r.form.format
	}
	return s
}

func (r rule) numberSchema(kind string) *schema {
	bound := func(n float64) *float64 {
		if math.IsInf(n, 0) {
			return nil
		}
		return &n
	}
	return &schema{Type: kind, Minimum: bound(r.min), Above: bound(r.above), Maximum: bound(r.max)}
}

// defaultOf is the default of a tag as a value of a JSON type.
func defaultOf(kind, text string) any {
	switch kind {
	case "boolean":
		return text == "true"
	case "string":
		return text
	default:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			panic("catalog: a default of the file: " + err.Error()) // the tests make the schema
		}
		return n
	}
}
