package openai_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"spillway/internal/dialect/openai"
)

// member is a member of an object as members gives it.
type member struct{ name, rawName, value string }

func membersOf(object string) (all []member) {
	openai.Members(object, func(name, rawName, value string) { all = append(all, member{name, rawName, value}) })
	return all
}

func TestMembersAreFoundAsTheyAreWritten(t *testing.T) {
	tests := map[string]struct {
		object string
		want   []member
	}{
		"none":                           {`{}`, nil},
		"one of each kind":               {`{"a":1,"b":"x","c":null,"d":[1,2],"e":{"f":true}}`, []member{{"a", `"a"`, `1`}, {"b", `"b"`, `"x"`}, {"c", `"c"`, `null`}, {"d", `"d"`, `[1,2]`}, {"e", `"e"`, `{"f":true}`}}},
		"white space everywhere":         {" {\n \"a\" :\t1 , \"b\":[ ] }\r\n", []member{{"a", `"a"`, `1`}, {"b", `"b"`, `[ ]`}}},
		"braces and quotes in strings":   {`{"a":"}\"],","b":["{\\","]"]}`, []member{{"a", `"a"`, `"}\"],"`}, {"b", `"b"`, `["{\\","]"]`}}},
		"a name that is written escaped": {`{"err\u006fr":null}`, []member{{"error", `"err\u006fr"`, `null`}}},
		"an empty name":                  {`{"":{}}`, []member{{"", `""`, `{}`}}},
		"a name that stands twice":       {`{"a":1,"a":2}`, []member{{"a", `"a"`, `1`}, {"a", `"a"`, `2`}}},
		"no object":                      {`[{"a":1}]`, nil},
		"nothing":                        {``, nil},
		"text that breaks off":           {`{"a":1,"b`, []member{{"a", `"a"`, `1`}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, membersOf(tc.object)) })
	}
}

// FuzzMembers: in what is JSON the same members are found as a parser finds; anything else does no harm.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{`{"a":1,"b":"\"}","c":[{"d":"]"}]}`, " {\n\"a\" : null }", `{"\u0061":{}}`, `{"a"`, `{"a":}`, `{"a":"\`, `{":"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		found := membersOf(text)
		if !gjson.Valid(text) {
			return
		}
		if !gjson.Parse(text).IsObject() {
			require.Empty(t, found)
			return
		}
		var want []member
		gjson.Parse(text).ForEach(func(key, value gjson.Result) bool {
			want = append(want, member{key.Str, key.Raw, value.Raw})
			return true
		})
		require.Equal(t, want, found)
	})
}
