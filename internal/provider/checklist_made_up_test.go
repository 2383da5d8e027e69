package provider_test

import (
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// madeUp is a repository with one kind of provider, acme, that has all that it needs and nothing else.
func madeUp() fstest.MapFS {
	const request = `-- request --
{"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": [{"type": "image_url"}]}, {"role": "tool"}],
 "tools": [{}], "tool_choice": "required", "response_format": {"json_schema": {}}, "max_tokens": 1, "reasoning_effort": "low"}
-- upstream --
{}
`
	files := map[string]string{
		"infra/gateway.schema.json":                  `{"properties": {"providers": {"items": {"properties": {"kind": {"enum": ["acme"]}}}}}}`,
		"infra/gateway.yaml":                         "# acme (https://acme.test/v1)\n",
		"functions/gateway/wire.go":                  "\t\"acme\": &acme.Provider{},\n",
		"internal/fault/policy.json":                 `{"rows": [{"provider": "acme"}]}`,
		"internal/fault/testdata/answers/acme.txtar": "-- auth --\n401\n",
		"internal/catalog/models.json":               `{"apis": [{"api": "acme"}], "models": [{"kinds": ["acme"]}]}`,
		"internal/usage/prices.txt":                  "abc/x\tin 1\nacme/x\tin 1\n",
		"internal/simulate/acme.go":                  "package simulate\n",
		"internal/simulate/suite/formats.go":         "{kind: \"acme\"},\n",
		"README.md":                                  "Built: `acme`.\n",

		"internal/provider/wire/wire.go":              "package wire\n",
		"internal/provider/acme/encode.go":            "package acme\n",
		"internal/provider/acme/decode.go":            "package acme\n",
		"internal/provider/acme/conversation_test.go": "package acme_test\n",
		"internal/provider/acme/decode_test.go":       "package acme_test\n\nfunc FuzzDecode(f *testing.F) {}\n",

		"internal/provider/acme/testdata/clean/streamed.txtar": request + "-- reply --\n200 text/event-stream\n\ndata: x\n" +
			"-- events --\ncontent 0: text \"x\"; tool[0] tool[1] reasoning \"x\" finish length\n-- usage --\nprompt 2, cached 1,\n-- info --\nskipped: 1\n",
		"internal/provider/acme/testdata/clean/plain.txtar": "-- reply --\n200 application/json\n\n{}\n-- events --\ncontent 0: text \"x\"; tool[0] finish content_filter\n",

		"internal/provider/acme/testdata/failures/stream_error_first.txtar": "-- reply --\n200 text/event-stream\n\ndata: {\"error\":1}\n" +
			"-- failure --\nclass: server_error\nin stream: true\nphase: pre_content\n",
		"internal/provider/acme/testdata/failures/stream_error_later.txtar": "-- reply --\n200 text/event-stream\n\ndata: {\"error\":1}\n" +
			"-- events --\ncontent 0:\n-- failure --\nclass: quota\nin stream: true\nphase: post_content\n",
		"internal/provider/acme/testdata/failures/stream_cut.txtar": "-- reply, cut --\n200 text/event-stream\n\ndata: x\n" +
			"-- events --\ncontent 0:\n-- failure --\nclass: network\nlocal cause: broken\n",
		"internal/provider/acme/testdata/failures/stream_stops.txtar": "-- reply --\n200 text/event-stream\n\ndata: x\n" +
			"-- events --\ncontent 0:\n-- info --\nskipped: 2\n-- failure --\nclass: network\nlocal cause: broken\n",
		"internal/provider/acme/testdata/failures/stream_empty.txtar": "-- reply --\n200 text/event-stream\n\n-- failure --\nclass: auth\n",
		"internal/provider/acme/testdata/failures/plain_error.txtar":  "-- reply --\n200 application/json\n\n{\"error\":1}\n-- failure --\nclass: context_length\n",
		"internal/provider/acme/testdata/failures/page.txtar":         "-- reply --\n502 text/html\n\n<html>\n-- failure --\nclass: rate_limited\nhint: 1s\n",
		"internal/provider/acme/testdata/failures/mistake.txtar":      "-- failure --\nclass: invalid_request\n",
		"internal/provider/acme/testdata/failures/model.txtar":        "-- failure --\nclass: model_unavailable\n",
	}
	repository := fstest.MapFS{}
	for name, text := range files {
		repository[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return repository
}

// TestTheListFindsEachLack: a list that nothing can be missing from is no list. Each file of a provider that has everything is
// taken away, and its lack is told; and so is each situation.
func TestTheListFindsEachLack(t *testing.T) {
	require.Equal(t, []string{"acme"}, kindsOf(madeUp()))
	require.Empty(t, lacking(madeUp(), "acme"))

	for _, c := range []struct{ without, want string }{
		{"infra/gateway.schema.json", "internal/catalog/file.go: the word acme"},
		{"infra/gateway.yaml", "infra/gateway.yaml: the kind"},
		{"functions/gateway/wire.go", "functions/gateway/wire.go: an entry"},
		{"internal/fault/policy.json", "internal/fault/policy.json: rows"},
		{"internal/fault/testdata/answers/acme.txtar", "internal/fault/testdata/answers/acme.txtar: "},
		{"internal/usage/prices.txt", "internal/usage/prices.txt: the prices of acme"},
		{"internal/simulate/acme.go", "internal/simulate/acme.go: "},
		{"internal/simulate/suite/formats.go", "internal/simulate/suite/formats.go: rows"},
		{"README.md", "README.md: the kind"},
		{"internal/provider/acme/encode.go", "internal/provider/acme/encode.go"},
		{"internal/provider/acme/decode.go", "internal/provider/acme/decode.go"},
		{"internal/provider/acme/conversation_test.go", "internal/provider/acme/conversation_test.go"},
		{"internal/provider/acme/decode_test.go", "internal/provider/acme: a fuzz target FuzzDecode"},
	} {
		t.Run("without "+c.without, func(t *testing.T) {
			repository := madeUp()
			delete(repository, c.without)
			assert.Contains(t, strings.Join(lacking(repository, "acme"), "\n"), c.want)
		})
	}
	t.Run("without its capabilities", func(t *testing.T) {
		repository := madeUp()
		repository["internal/catalog/models.json"].Data = []byte(`{"apis": [{"api": "other"}], "models": [{"kinds": ["other"]}]}`)
		assert.Equal(t, []string{"internal/catalog/models.json: what the API has no words for",
			"internal/catalog/models.json: rows of its models, one of them for any other"}, lacking(repository, "acme"))
	})
	for _, s := range situations {
		t.Run("without "+s.name, func(t *testing.T) {
			repository, gone := madeUp(), false
			maps.DeleteFunc(repository, func(name string, f *fstest.MapFile) bool {
				is := strings.Contains(name, "/"+s.folder+"/") && s.is(parse(s.folder, string(f.Data)))
				gone = gone || is
				return is
			})
			require.True(t, gone)
			assert.Contains(t, lacking(repository, "acme"), "internal/provider/acme/testdata/"+s.folder+": a conversation with "+s.name)
		})
	}
}

// TestAFolderAloneIsNoProvider: somebody has begun one, and knows now what is left to do.
func TestAFolderAloneIsNoProvider(t *testing.T) {
	repository := fstest.MapFS{"internal/provider/new/new.go": &fstest.MapFile{Data: []byte("package new\n")}}
	require.Equal(t, []string{"new"}, kindsOf(repository))
	lacks := lacking(repository, "new")
	assert.Len(t, lacks, 4+len(situations)+11)
}

// TestAFormatInsideAProviderIsHeldToTheSame: such as OpenAI's second API.
func TestAFormatInsideAProviderIsHeldToTheSame(t *testing.T) {
	repository := madeUp()
	repository["internal/provider/acme/second/conversation_test.go"] = &fstest.MapFile{Data: []byte("package second_test\n")}
	lacks := lacking(repository, "acme")
	assert.Contains(t, lacks, "internal/provider/acme/second/decode.go")
	assert.Contains(t, lacks, "internal/provider/acme/second/testdata/clean: a conversation with a text that is streamed")
}
