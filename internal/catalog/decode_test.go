package catalog_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/catalog"
	"spillway/internal/catalog/source"
)

func TestLoadReportsEveryProblem(t *testing.T) {
	const provider = `"version":"v","providers":[{"name":"sim","kind":"openai","base_url":"http://sim/v1"}]`
	tests := map[string]struct {
		document string
		want     []string
	}{
		"nothing is no document":                     {"", []string{"is no JSON: EOF"}},
		"what ends too early is no JSON":             {`{"version":"v"`, []string{"is no JSON: line 1: unexpected EOF"}},
		"what is no JSON says the line":              {"{\n\"version\":\n tru}", []string{"is no JSON: line 3: invalid character '}' in literal true (expecting 'e')"}},
		"nothing may follow":                         {`{"version":"v"} {}`, []string{"is no JSON: something follows its end"}},
		"a document is an object":                    {`[]`, []string{"must be a group of members, not a list"}},
		"a version must be there":                    {`{}`, []string{"version: is required"}},
		"an empty one is none":                       {`{"version":""}`, []string{"version: is required"}},
		"nor is null":                                {`{"version":null}`, []string{"version: is required"}},
		"a number is no text":                        {`{"version":1}`, []string{"version: must be a text, not a number: put it in quotes"}},
		"a member stands once":                       {`{"version":"v","version":"w"}`, []string{"version: stands twice"}},
		"an optional member has a value":             {`{"version":"v","keys":null}`, []string{"keys: is empty: give it a value or leave it out"}},
		"a long text is cut off":                     {`{"version":"` + strings.Repeat("é", 65) + `"}`, []string{"version: is longer than 64 characters"}},
		"an unknown member":                          {`{"version":"v","upstreams":[{"a":[1,{}]}],"keys":[]}`, []string{"upstreams: is not a member that is known here"}},
		"an unknown member with an odd name":         {`{"version":"v","a b\n":1}`, []string{`"a b\n": is not a member that is known here`}},
		"a misspelt member is read as what it means": {`{"version":"v","provider":[{"name":"a/b"}]}`, []string{`provider: is not a member that is known here (did you mean "providers"?)`, `provider[0].name: a name has no slash: it is what stands before the slash of provider/model`, "provider[0].kind: is required", "provider[0].base_url: is required"}},
		"wrong types, each at its path": {`{"version":"v","providers":{},"channels":[5,{"provider":true,"models":["m",{}],"byok_only":"yes","weight":"1","credentials":"c"}]}`, []string{
			"providers: must be a list, not a group of members",
			"channels[0]: must be a group of members, not a number",
			"channels[1].provider: must be a text, not true or false",
			"channels[1].models[1]: must be a text, not a group of members",
			"channels[1].byok_only: must be true or false, not a text",
			"channels[1].weight: must be a number, not a text",
			"channels[1].credentials: must be a list, not a text",
		}},
		"numbers out of bounds, each at its path": {`{` + provider + `,"channels":[{"provider":"sim","models":["m"],"weight":0,"context":-1,"priority":1.5,"credentials":[{"alias":"a","secret":"env:A","weight":1e4}]}],"routes":[{"alias":"r","models":["m"],"max_attempts":0,"timeout_ms":99999999999999999999999,"retry":{"auth":11}}]}`, []string{
			"channels[0].weight: 0 must be above 0 and at most 1000",
			"channels[0].context: -1 is not from 0 to 100000000",
			"channels[0].priority: 1.5 must be a whole number",
			"channels[0].credentials[0].weight: 1e4 must be above 0 and at most 1000",
			"routes[0].max_attempts: 0 is not from 1 to 10",
			"routes[0].timeout_ms: 99999999999999999999999 is not from 0 to 900000",
			"routes[0].retry.auth: 11 is not from 0 to 10",
		}},
		"unknown words, each with the nearest known one": {`{` + provider + `,"channels":[{"provider":"sim","models":["m"],"cannot":["tool","fly"],"upstream_stream":"never","credentials":[{"alias":"a","secret":"env:A"}]}],"routes":[{"alias":"r","models":["m"],"commit":"compete","retry":{"rate_limted":1},"fallback_on":["any","auth","x_ray"],"do_not_fallback_on":["any"]}]}`, []string{
			`channels[0].cannot[0]: "tool" is not a feature (did you mean "tools"?)`,
			`channels[0].cannot[1]: "fly" is not a feature`,
			`channels[0].upstream_stream: "never" is not one of: always, as_client`,
			`routes[0].commit: "compete" is not one of: first_delta, prefix, complete (did you mean "complete"?)`,
			`routes[0].retry.rate_limted: "rate_limted" is not a class (did you mean "rate_limited"?)`,
			`routes[0].fallback_on[2]: "x_ray" is not a class`,
			`routes[0].do_not_fallback_on[0]: "any" is not a class`,
		}},
		"a secret itself is refused and not repeated": {`{` + provider + `,"channels":[{"provider":"sim","models":["m"],"credentials":[{"alias":"a","secret":"sk-live-1234"},{"alias":"b","secret":"env:sk-live-1234"}]}],"keys":[{"sha256":"sk-mine","organization":"o"}],"organizations":[{"name":"o"}]}`, []string{
			"channels[0].credentials[0].secret: must be a reference such as env:NAME, never the secret itself",
			"channels[0].credentials[1].secret: must be a reference such as env:NAME, never the secret itself",
			"keys[0].sha256: must be the 64 lower-case hexadecimal digits of the key's SHA-256, never the key itself",
		}},
		"what the document has wrong and what it means, at once": {`{"version":"v","routes":[{"alias":"auto","models":["gpt"],"idle_ms":-1}],"organizations":[{"name":"o","when_not_enabled":"default_model"}]}`, []string{
			"routes[0].idle_ms: -1 is not from 0 to 900000",
			`routes[0].alias: "auto" cannot be an alias`,
			`routes[0].models[0]: no channel serves "gpt"`,
			"organizations[0].when_not_enabled: default_model needs a default_model",
		}},
		"nothing that only follows is reported: a provider without a name could be the one": {`{"version":"v","providers":[{"kind":"openai","base_url":"http://a"}],"channels":[{"provider":"sim","models":["m"],"credentials":[{"alias":"a","secret":"env:A"}]}],"routes":[{"alias":"r","models":["m"]}],"keys":[]}`, []string{
			"providers[0].name: is required",
		}},
		"nothing that only follows is reported: a provider that is unknown has its channels": {`{` + provider + `,"channels":[{"provider":"sin","models":["m"],"credentials":[{"alias":"a","secret":"env:A"}]}],"routes":[{"alias":"r","models":["m"]}]}`, []string{
			`channels[0].provider: "sin" is not a provider (did you mean "sim"?)`,
		}},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) {
			_, err := catalog.Load([]byte(test.document), func(string) string { return "set" })
			problems, ok := errors.AsType[catalog.Problems](err)
			require.True(t, ok, "%v is no Problems", err)
			var got []string
			for _, p := range problems {
				got = append(got, p.String())
			}
			assert.Equal(t, test.want, got)
			assert.Equal(t, strings.Join(test.want, "\n"), err.Error())
			assert.NotContains(t, err.Error(), "sk-")
		})
	}
}

func TestLoadRefusesWhatIsTooLarge(t *testing.T) {
	_, err := catalog.Load([]byte(`{"version":"v"}`+strings.Repeat(" ", 4<<20)), os.Getenv)
	assert.EqualError(t, err, "4194319 bytes are more than the 4194304 that a configuration may have")

	many := `{"version":"v","providers":[` + strings.Repeat(`{"name":"p","kind":"openai","base_url":"http://p"},`, 100) + `{}]}`
	_, err = catalog.Load([]byte(many), os.Getenv)
	assert.ErrorContains(t, err, "providers: holds 101, at most 100 are allowed")
}

func TestCover(t *testing.T) {
	problems := catalog.Problems{{Path: "routes[1].models"}, {Path: "keys[1]"}}
	tests := map[string]struct {
		path catalog.Path
		want bool
	}{
		"the place itself":                 {"routes[1].models", true},
		"what lies in it":                  {"routes[1].models[0]", true},
		"what it lies in":                  {"routes[1]", false},
		"a name that only begins the same": {"routes[1].models_too", false},
		"an index that begins the same":    {"keys[11]", false},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) { assert.Equal(t, test.want, problems.Cover(test.path)) })
	}
	assert.True(t, catalog.Problems{{Message: "is no JSON"}}.Cover("version"), "the whole document holds everything")
}

// A cold start pays for this: keep it under a millisecond.
func BenchmarkLoad(b *testing.B) {
	data, err := source.Read("../../infra/gateway.yaml")
	require.NoError(b, err)
	for b.Loop() {
		if _, err := catalog.Load(data, os.Getenv); err != nil {
			b.Fatal(err)
		}
	}
}
