package fault

import (
	"flag"
	"fmt"
	"go/format"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write table.go anew from policy.json")

// TestTableIsThatOfTheFile: table.go says what policy.json says.
func TestTableIsThatOfTheFile(t *testing.T) {
	file, err := decodePolicy(policyJSON)
	require.NoError(t, err)
	require.Empty(t, file.problems())
	source, err := format.Source(asGo(file))
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile("table.go", source, 0o644))
		return
	}
	written, err := os.ReadFile("table.go")
	require.NoError(t, err)
	const how = "write it anew: go test ./internal/fault -run TestTableIsThatOfTheFile -update"
	assert.Equal(t, string(source), string(written), how)
	assert.Equal(t, *file, table, how)
}

// asGo writes a table as Go data.
func asGo(file *policyFile) []byte {
	var b strings.Builder
	b.WriteString("// Code generated from policy.json by go test ./internal/fault -run TestTableIsThatOfTheFile -update. DO NOT EDIT.\n\n" +
		"package fault\n\nvar table = policyFile")
	writeValue(&b, reflect.ValueOf(*file))
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
					b.WriteString(strings.ReplaceAll(v.Field(i).Type().String(), "fault.", ""))
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
	case reflect.String:
		fmt.Fprintf(b, "%q", v.String())
	default:
		fmt.Fprintf(b, "%v", v.Interface())
	}
}
