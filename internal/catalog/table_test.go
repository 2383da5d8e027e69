package catalog

import (
	"flag"
	"fmt"
	"go/format"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/fault"
)

// TestTableIsThatOfTheFile: table.go says what models.json says.
func TestTableIsThatOfTheFile(t *testing.T) {
	text, err := os.ReadFile("models.json")
	require.NoError(t, err)
	var file table
	require.Empty(t, decode(text, &file))
	source, err := format.Source(asGo(file))
	require.NoError(t, err)
	if flag.Lookup("update").Value.String() == "true" {
		require.NoError(t, os.WriteFile("table.go", source, 0o644))
		return
	}
	written, err := os.ReadFile("table.go")
	require.NoError(t, err)
	const how = "go test ./internal/catalog -update writes it anew"
	assert.Equal(t, string(source), string(written), how)
	assert.Equal(t, file, known, how)
}

// asGo writes the table as Go data.
func asGo(file table) []byte {
	var b strings.Builder
	b.WriteString("// Code generated from models.json by go test ./internal/catalog -update. DO NOT EDIT.\n\npackage catalog\n\nvar known = table")
	writeValue(&b, reflect.ValueOf(file))
	b.WriteString("\n")
	return []byte(b.String())
}

// writeValue writes a value without its type, and a struct without its zero fields, one row of a list a line.
func writeValue(b *strings.Builder, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		b.WriteString("{")
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				b.WriteString(v.Type().Field(i).Name + ": ")
				if v.Field(i).Kind() == reflect.Slice {
					b.WriteString(strings.ReplaceAll(v.Field(i).Type().String(), "catalog.", ""))
				}
				writeValue(b, v.Field(i))
				b.WriteString(", ")
			}
		}
		b.WriteString("}")
	case reflect.Slice:
		rows := v.Type().Elem().Kind() == reflect.Struct
		b.WriteString("{")
		for i := range v.Len() {
			if rows {
				b.WriteString("\n")
			}
			writeValue(b, v.Index(i))
			b.WriteString(",")
		}
		if rows {
			b.WriteString("\n")
		}
		b.WriteString("}")
	default:
		fmt.Fprintf(b, "%#v", v.Interface())
	}
}

func TestTheTableIsStrictlyRead(t *testing.T) {
	for name, c := range map[string]struct{ row, problem string }{
		"a fact without a source": {`{"models":["a"],"date":"2026-11-30"}`, "models[0].source: is required"},
		"a fact without a date":   {`{"models":["a"],"source":"s"}`, "models[0].date: is required"},
		"a date that is none":     {`{"models":["a"],"source":"s","date":"lately"}`, "models[0].date: is no date, such as 2026-12-31"},
		"a feature that is none":  {`{"models":["a"],"cannot":["image"],"source":"s","date":"2026-11-30"}`, `models[0].cannot[0]: "image" is not a feature (did you mean "images"?)`},
		"a vendor that is none":   {`{"models":["a"],"vendors":["opnai"],"source":"s","date":"2026-11-30"}`, `models[0].vendors[0]: "opnai" is not one of: ` + strings.Join(fault.Vendors(), ", ") + ` (did you mean "openai"?)`},
		"a member that is not known": {`{"models":["a"],"max_input":1,"source":"s","date":"2026-11-30"}`,
			`models[0].max_input: is not a member that is known here (did you mean "max_output"?)`},
		"a use of Responses that is none": {`{"models":["a"],"responses":"never","source":"s","date":"2026-11-30"}`, `models[0].responses: "never" is not one of: with_tools, always`},
	} {
		t.Run(name, func(t *testing.T) {
			var bad table
			problems := decode([]byte(`{"apis":[{"api":"openai","cannot":["n"],"source":"s","date":"2026-11-30"}],
				"vendors":[{"kind":"openai","vendors":["xai"],"cannot":["n"],"source":"s","date":"2026-11-30"}],"models":[`+c.row+`]}`), &bad)
			require.Len(t, problems, 1)
			assert.Equal(t, c.problem, problems[0].String())
		})
	}
}

// TestEveryFactHasItsSource: a source that says where, and a date that is not to come.
func TestEveryFactHasItsSource(t *testing.T) {
	check := func(what, source, date string) {
		day, err := time.Parse(time.DateOnly, date)
		require.NoError(t, err, what)
		assert.True(t, day.Year() >= 2026 && day.Before(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)), "%s: %s", what, date)
		named := strings.Contains(source, "§") || strings.Contains(source, "https://") || strings.Contains(source, "genai-prices") || strings.Contains(source, "catwalk")
		assert.True(t, named, "%s: %q names no section, address or package", what, source)
	}
	all := known
	for _, r := range all.APIs {
		check(r.API, r.Source, r.Date)
	}
	for _, r := range all.Vendors {
		check(string(r.Vendors[0]), r.Source, r.Date)
	}
	for _, r := range all.Models {
		check(r.Models[0], r.Source, r.Date)
	}
}

// TestEveryRowCounts: no row says twice what one above it says, and none stands behind a row that takes all its models.
func TestEveryRowCounts(t *testing.T) {
	all := known
	for at, r := range all.Models {
		for _, pattern := range r.Models {
			sample := strings.ReplaceAll(pattern, "*", "x")
			kinds, vendors := r.Kinds, r.Vendors
			if len(kinds) == 0 {
				kinds = []string{"openai", "anthropic", "gemini"}
			}
			if len(vendors) == 0 {
				vendors = []vendor{"openai", "anthropic", "gemini", fault.Generic}
			}
			reached := false
			for _, kind := range kinds {
				for _, of := range vendors {
					first := slices.IndexFunc(all.Models, func(r modelRow) bool { return r.of(kind, of, sample) })
					reached = reached || first == at
				}
			}
			assert.True(t, reached, "%s of %v is taken by a row before", pattern, r.Vendors)
		}
	}
}

// TestNobodyIsUnknown: every model of every kind and vendor comes to a row, so that what holds of the unknown is a decision.
func TestNobodyIsUnknown(t *testing.T) {
	all := known
	for _, kind := range []string{"anthropic", "gemini", "openai"} {
		for _, of := range fault.Vendors() {
			at := slices.IndexFunc(all.Models, func(r modelRow) bool { return r.of(kind, vendor(of), "never-heard-of") })
			require.GreaterOrEqual(t, at, 0, "%s of %s", kind, of)
			row := all.Models[at]
			assert.Equal(t, []string{"*"}, row.Models, "%s of %s", kind, of)
			assert.Zero(t, row.Context, "no limit is assumed of an unknown model")
		}
	}
	for _, api := range []string{"anthropic", "gemini", "openai", "responses"} {
		assert.NotEmpty(t, all.unsayable(api))
	}
}

func TestLike(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"gpt-5", "gpt-5", true}, {"gpt-5", "gpt-5-mini", false}, {"gpt-5*", "gpt-5", true}, {"gpt-5*", "gpt-5.4", true}, {"gpt-5*", "xgpt-5", false},
		{"*claude*", "us.anthropic.claude-x", true}, {"*claude*", "a/claude", true}, {"*claude*", "clau-de", false},
		{"gpt-*-cyber*", "gpt-5.5-cyber-preview", true}, {"gpt-*-cyber*", "gpt-cyber", false}, {"*", "", true}, {"", "", true}, {"", "a", false},
		{"*-latest", "gemini-latest", true}, {"*-latest", "gemini-latest-x", false},
	} {
		assert.Equal(t, c.want, like(c.pattern, c.text), "%q like %q", c.text, c.pattern)
	}
}
