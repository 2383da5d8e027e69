package wire_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/provider/wire"
)

func TestJSONWritesABody(t *testing.T) {
	type body struct {
		Text   string         `json:"text,omitzero"`
		Schema jsontext.Value `json:"schema,omitzero"`
	}
	for name, tc := range map[string]struct {
		value any
		want  string // empty: it cannot be written
	}{
		"what HTML knows stays as it is":        {body{Text: "a < b && c > d"}, `{"text":"a < b && c > d"}`},
		"a value that was JSON before":          {body{Schema: jsontext.Value(`{"a":"<","a":1}`)}, `{"schema":{"a":"<","a":1}}`},
		"nothing":                               {body{}, `{}`},
		"bytes that are not UTF-8 are replaced": {body{Text: "a\xffb"}, `{"text":"a\ufffdb"}`},
		"a value that is no JSON":               {body{Schema: jsontext.Value(`{`)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := wire.JSON(tc.value)
			if tc.want == "" {
				assert.Error(t, err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, string(got))
		})
	}
}
