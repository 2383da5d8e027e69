package catalog

import (
	"math"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// everyMember calls check for each member of the file, with the name of its struct.
func everyMember(t reflect.Type, check func(where string, f reflect.StructField, m member)) {
	for i, m := range membersOf(t) {
		f := t.Field(i)
		check(t.Name()+"."+m.name, f, m)
		inner := f.Type
		if inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			everyMember(inner, check)
		}
	}
}

func TestTagsOfTheFile(t *testing.T) {
	known := []string{"json", "doc", "required", "many", "min", "max", "above", "oneof", "form", "default"}
	tag := regexp.MustCompile(`(\w+):"(?:[^"\\]|\\.)*"`)
	everyMember(reflect.TypeFor[file](), func(where string, f reflect.StructField, m member) {
		for _, match := range tag.FindAllStringSubmatch(string(f.Tag), -1) {
			assert.Contains(t, known, match[1], where)
		}
		assert.Regexp(t, `^[a-z][a-z0-9_]*$`, m.name, where)
		assert.Regexp(t, `^[A-Z"a-z].*[.a-zA-Z0-9]$`, m.tag.Get("doc"), where)
		item := f.Type
		if kind := item.Kind(); kind == reflect.Slice || kind == reflect.Map {
			assert.Positive(t, m.many, "%s: how many", where)
			item = item.Elem()
		}
		if item.Kind() == reflect.Pointer {
			item = item.Elem()
		}
		if item.Kind() == reflect.Int || item.Kind() == reflect.Int64 || item.Kind() == reflect.Float64 {
			assert.False(t, math.IsInf(max(m.min, m.above), 0) || math.IsInf(m.max, 0), "%s: a number has bounds on both sides", where)
		}
		if name, ok := m.tag.Lookup("form"); ok {
			assert.NotNil(t, forms[name], "%s: form %s", where, name)
		}
		if word, ok := m.tag.Lookup("default"); ok && item.Kind() == reflect.String {
			assert.True(t, slices.Contains(m.words.words, word), "%s: default %s", where, word)
		}
	})
}

// What Load accepts and what the schema tells an editor are the same.
func TestFormsAgreeWithTheirPatterns(t *testing.T) {
	digest := "ef260e9aa3c673af240d17a2660480361a8e081d1ffeca2a5ed0e3219fc18567"
	samples := []string{"sim", "a/b", "env:A", "env:_a1", "env:", "env:1A", "env:A-B", "env:A B", "A", "Env:A", digest, digest[1:], "EF" + digest[2:], "gg" + digest[2:]}
	for name, f := range forms {
		if f.pattern == "" {
			continue
		}
		pattern := regexp.MustCompile(f.pattern)
		for _, s := range samples {
			assert.Equal(t, pattern.MatchString(s), f.is(s), "%s of %q", name, s)
		}
	}
}
