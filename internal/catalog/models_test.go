package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/catalog"
	"spillway/internal/chat"
)

func TestByResponses(t *testing.T) {
	tools := &chat.Request{Tools: []chat.Tool{{Name: "f"}}}
	for name, test := range map[string]struct {
		responses catalog.Responses
		request   *chat.Request
		want      bool
	}{
		"never, whatever the request":           {catalog.ResponsesNever, tools, false},
		"with tools":                            {catalog.ResponsesWithTools, tools, true},
		"with an effort that only that API has": {catalog.ResponsesWithTools, &chat.Request{Effort: "max"}, true},
		"with a search, which is a tool there":  {catalog.ResponsesWithTools, &chat.Request{Members: []chat.Member{{Name: "web_search_options", Value: []byte("{}")}}}, true},
		"with no search":                        {catalog.ResponsesWithTools, &chat.Request{Members: []chat.Member{{Name: "web_search_options", Value: []byte("null")}}}, false},
		"with neither":                          {catalog.ResponsesWithTools, &chat.Request{Effort: "high"}, false},
		"always":                                {catalog.ResponsesAlways, &chat.Request{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, catalog.Capabilities{Responses: test.responses}.ByResponses(test.request))
		})
	}
}

// TestKnownModels: what is known of the current models, one row a family and vendor.
func TestKnownModels(t *testing.T) {
	const never, withTools, always = catalog.ResponsesNever, catalog.ResponsesWithTools, catalog.ResponsesAlways
	for _, want := range []struct {
		kind, vendor       string
		model              chat.RoutedModel
		context, maxOutput int64
		responses          catalog.Responses
		can, cannot        []catalog.Feature
	}{
		{"openai", "openai", "gpt-4o-mini-2024-07-18", 128_000, 16_384, never, []catalog.Feature{catalog.Images, catalog.JSONSchema, catalog.Stop, catalog.Choices}, []catalog.Feature{catalog.Audio, catalog.CustomTools}},
		{"openai", "openai", "ft:gpt-4.1-mini:acme::1", 1_047_576, 32_768, never, []catalog.Feature{catalog.LogProbs}, []catalog.Feature{catalog.WebSearch}},
		{"openai", "openai", "gpt-4o-audio-preview", 128_000, 16_384, never, []catalog.Feature{catalog.Audio, catalog.AudioOut}, []catalog.Feature{catalog.Images}},
		{"openai", "openai", "o3", 200_000, 100_000, never, []catalog.Feature{catalog.Images, catalog.Tools}, []catalog.Feature{catalog.Stop, catalog.LogProbs, catalog.LogitBias, catalog.Penalties}},
		{"openai", "openai", "o3-mini", 200_000, 100_000, never, []catalog.Feature{catalog.Stop}, []catalog.Feature{catalog.Images}},
		{"openai", "openai", "o3-pro-2025-06-10", 200_000, 100_000, always, nil, []catalog.Feature{catalog.Choices, catalog.Stop}},
		{"openai", "openai", "o4-mini-deep-research", 200_000, 100_000, always, nil, nil},
		{"openai", "openai", "gpt-5-2025-08-07", 400_000, 128_000, never, []catalog.Feature{catalog.CustomTools, catalog.Choices}, []catalog.Feature{catalog.LogProbs}},
		{"openai", "openai", "gpt-5-chat-latest", 128_000, 16_384, never, []catalog.Feature{catalog.LogProbs, catalog.Stop}, nil},
		{"openai", "openai", "gpt-5-codex", 0, 0, always, nil, nil},
		{"openai", "openai", "gpt-5.1-codex-max", 0, 0, always, nil, nil},
		{"openai", "openai", "gpt-5-pro", 400_000, 0, always, nil, nil},
		{"openai", "openai", "gpt-5.1", 400_000, 128_000, never, []catalog.Feature{catalog.LogProbs}, []catalog.Feature{catalog.ReasonedLogProbs}},
		{"openai", "openai", "gpt-5.3", 400_000, 128_000, never, nil, nil},
		{"openai", "openai", "gpt-5.4-mini", 400_000, 128_000, withTools, []catalog.Feature{catalog.Choices, catalog.WebSearch}, nil},
		{"openai", "azure", "gpt-5.5", 1_050_000, 128_000, withTools, nil, []catalog.Feature{catalog.WebSearch}},
		{"openai", "openai", "gpt-5.5-pro", 1_050_000, 128_000, always, nil, nil},
		{"openai", "openai", "gpt-5.6-luna", 1_050_000, 128_000, withTools, nil, nil},
		{"openai", "openai", "gpt-5.6-cyber", 0, 0, always, nil, nil},
		{"openai", "openai", "gpt-6-astra", 1_050_000, 128_000, withTools, nil, []catalog.Feature{catalog.Stop, catalog.LogProbs}},
		{"openai", "openai", "gpt-6.1-sol", 1_050_000, 128_000, withTools, nil, nil},
		{"openai", "openai", "gpt-7-sol", 0, 0, withTools, nil, []catalog.Feature{catalog.Stop}},
		{"openai", "azure", "our-deployment", 0, 0, never, []catalog.Feature{catalog.Stop, catalog.Images}, []catalog.Feature{catalog.CustomTools}},
		{"openai", "generic", "gpt-5.6-sol", 0, 0, never, []catalog.Feature{catalog.Stop, catalog.Choices, catalog.JSONSchema}, []catalog.Feature{catalog.CustomTools, catalog.FileIDs, catalog.AllowedTools}},
		{"openai", "openrouter", "openai/gpt-5.4", 0, 0, never, []catalog.Feature{catalog.WebSearch}, []catalog.Feature{catalog.FileIDs}},
		{"openai", "mistral", "mistral-large-2512", 262_144, 0, never, []catalog.Feature{catalog.Images, catalog.Choices}, []catalog.Feature{catalog.LogProbs, catalog.Files}},
		{"openai", "groq", "meta-llama/llama-4-scout-17b-16e-instruct", 131_072, 0, never, []catalog.Feature{catalog.Images, catalog.JSONSchema}, []catalog.Feature{catalog.Choices, catalog.SchemaWithTools}},
		{"openai", "groq", "llama-3.3-70b-versatile", 0, 0, never, []catalog.Feature{catalog.JSONObject}, []catalog.Feature{catalog.Images, catalog.JSONSchema}},
		{"openai", "deepseek", "deepseek-v4-pro", 1_000_000, 384_000, never, []catalog.Feature{catalog.JSONObject, catalog.Tools}, []catalog.Feature{catalog.JSONSchema, catalog.Images}},
		{"openai", "xai", "grok-4.5", 500_000, 0, never, []catalog.Feature{catalog.Images}, []catalog.Feature{catalog.Stop}},
		{"openai", "together", "meta-llama/Llama-4-Maverick", 0, 0, never, []catalog.Feature{catalog.JSONSchema}, []catalog.Feature{catalog.CustomTools}},
		{"openai", "gemini", "gemini-2.5-flash", 1_048_576, 65_536, never, []catalog.Feature{catalog.Images}, []catalog.Feature{catalog.SchemaWithTools, catalog.Files}},

		{"anthropic", "anthropic", "claude-sonnet-5-5-20261101", 1_000_000, 128_000, never, []catalog.Feature{catalog.Stop, catalog.JSONSchema, catalog.Files}, []catalog.Feature{catalog.ForcedTool, catalog.Prefill}},
		{"anthropic", "anthropic", "claude-opus-5-20260901", 1_000_000, 128_000, never, []catalog.Feature{catalog.ForcedTool}, []catalog.Feature{catalog.Prefill}},
		{"anthropic", "anthropic", "claude-haiku-5-5", 0, 128_000, never, []catalog.Feature{catalog.ForcedTool}, []catalog.Feature{catalog.Prefill}},
		{"anthropic", "azure", "claude-fable-5-1", 1_000_000, 128_000, never, nil, []catalog.Feature{catalog.ForcedTool}},
		{"anthropic", "anthropic", "claude-sonnet-4-6", 1_000_000, 128_000, never, nil, []catalog.Feature{catalog.Prefill}},
		{"anthropic", "anthropic", "claude-sonnet-4-5-20250929", 200_000, 64_000, never, []catalog.Feature{catalog.Prefill, catalog.ForcedTool}, []catalog.Feature{catalog.Choices, catalog.JSONObject, catalog.Audio}},
		{"anthropic", "bedrock", "us.anthropic.claude-opus-4-1-20250805-v1:0", 200_000, 32_000, never, []catalog.Feature{catalog.Prefill}, nil},
		{"anthropic", "anthropic", "claude-3-haiku-20240307", 200_000, 4096, never, []catalog.Feature{catalog.Prefill}, nil},
		{"anthropic", "anthropic", "claude-next", 0, 128_000, never, []catalog.Feature{catalog.ForcedTool}, []catalog.Feature{catalog.Prefill}},

		{"gemini", "gemini", "gemini-2.5-pro", 1_048_576, 65_536, never, []catalog.Feature{catalog.RemoteImages, catalog.Audio}, []catalog.Feature{catalog.SchemaWithTools, catalog.Choices, catalog.Prefill}},
		{"gemini", "gemini", "gemini-2.0-flash", 0, 0, never, nil, []catalog.Feature{catalog.RemoteImages, catalog.SchemaWithTools}},
		{"gemini", "gemini", "gemini-3.8-flash", 1_048_576, 65_536, never, []catalog.Feature{catalog.SchemaWithTools, catalog.JSONObject}, []catalog.Feature{catalog.FileIDs, catalog.WebSearch}},
		{"gemini", "gemini", "publishers/google/models/gemini-2.5-pro", 1_048_576, 65_536, never, nil, []catalog.Feature{catalog.SchemaWithTools}},
		{"gemini", "gemini", "gemini-2.5-computer-use-preview", 0, 0, never, []catalog.Feature{catalog.RemoteImages}, []catalog.Feature{catalog.SchemaWithTools}},
		{"gemini", "gemini", "gemini-flash-latest", 0, 0, never, []catalog.Feature{catalog.SchemaWithTools}, nil},
		{"gemini", "gemini", "gemini-2.5-flash-preview-tts", 0, 0, never, nil, []catalog.Feature{catalog.Tools}},
		{"gemini", "gemini", "tunedModels/ours", 0, 0, never, []catalog.Feature{catalog.Tools}, []catalog.Feature{catalog.SchemaWithTools, catalog.RemoteImages}},
	} {
		t.Run(want.kind+" "+want.vendor+" "+string(want.model), func(t *testing.T) {
			got := catalog.CapabilitiesOf(want.kind, want.vendor, want.model)
			assert.Equal(t, want.context, got.Context, "context")
			assert.Equal(t, want.maxOutput, got.MaxOutput, "output")
			assert.Equal(t, want.responses, got.Responses)
			assert.Zero(t, got.DefaultOutput, "only an operator says how long an answer is that has no limit")
			for _, f := range want.can {
				assert.False(t, got.Lacks(f), "lacks %s", f)
			}
			for _, f := range want.cannot {
				assert.True(t, got.Lacks(f), "has %s", f)
			}
		})
	}
}

// TestTheOperatorsOwnValuesWin: what gateway.yaml says of a channel stands in the place of what is known, an empty list and
// a limit of 0 too; but no word of it gives an API words that it does not have.
func TestTheOperatorsOwnValuesWin(t *testing.T) {
	of := func(t *testing.T, kind, model, members string) catalog.Capabilities {
		c, err := catalog.Load([]byte(`{"version":"v","providers":[{"name":"p","kind":"`+kind+`","vendor":"`+kind+`","base_url":"https://p/v1"}],
			"channels":[{"provider":"p","models":["`+model+`"],`+members+`"credentials":[{"alias":"a","secret":"env:KEY"}]}]}`), func(string) string { return "k" })
		require.NoError(t, err)
		return c.Channels[0].Capabilities
	}
	t.Run("nothing said", func(t *testing.T) {
		got := of(t, "anthropic", "claude-opus-5-5", "")
		assert.Equal(t, catalog.CapabilitiesOf("anthropic", "anthropic", "claude-opus-5-5"), got)
		assert.True(t, got.Lacks(catalog.ForcedTool))
	})
	t.Run("it can more than is known", func(t *testing.T) {
		got := of(t, "anthropic", "claude-opus-5-5", `"cannot":[],`)
		assert.False(t, got.Lacks(catalog.ForcedTool))
		assert.True(t, got.Lacks(catalog.Choices), "the API has no words for it")
	})
	t.Run("it can something else than is known", func(t *testing.T) {
		got := of(t, "anthropic", "claude-opus-5-5", `"cannot":["images"],`)
		assert.True(t, got.Lacks(catalog.Images))
		assert.False(t, got.Lacks(catalog.ForcedTool), "a list replaces the whole list")
	})
	t.Run("limits", func(t *testing.T) {
		got := of(t, "openai", "gpt-4o", `"context":1000,"max_output":100,`)
		assert.Equal(t, []int64{1000, 100, 100}, []int64{got.Context, got.MaxOutput, got.DefaultOutput})
	})
	t.Run("no limits", func(t *testing.T) {
		got := of(t, "openai", "gpt-4o", `"context":0,"max_output":0,`)
		assert.Equal(t, []int64{0, 0, 0}, []int64{got.Context, got.MaxOutput, got.DefaultOutput})
	})
	t.Run("the Responses API", func(t *testing.T) {
		assert.Equal(t, catalog.ResponsesWithTools, of(t, "openai", "gpt-5.6-sol", "").Responses)
		assert.Equal(t, catalog.ResponsesNever, of(t, "openai", "gpt-5.6-sol", `"responses":"never",`).Responses)
		assert.Equal(t, catalog.ResponsesAlways, of(t, "openai", "gpt-4o", `"responses":"always",`).Responses)
	})
}

// TestLacking: a model lacks what it cannot do and what its API cannot say, and where every request goes through the
// Responses API also what that cannot; where only some do, it lacks that for those.
func TestLacking(t *testing.T) {
	c := catalog.Capabilities{Cannot: []catalog.Feature{catalog.Images}, Unsayable: []catalog.Feature{catalog.Choices, catalog.Images},
		UnsayableByResponses: []catalog.Feature{catalog.Stop}}
	tools := &chat.Request{Tools: []chat.Tool{{Name: "f"}}}
	for responses, want := range map[catalog.Responses]struct {
		all       []catalog.Feature
		withTools bool
	}{
		catalog.ResponsesNever:     {[]catalog.Feature{catalog.Images, catalog.Choices}, false},
		catalog.ResponsesWithTools: {[]catalog.Feature{catalog.Images, catalog.Choices}, true},
		catalog.ResponsesAlways:    {[]catalog.Feature{catalog.Images, catalog.Choices, catalog.Stop}, true},
	} {
		c.Responses = responses
		assert.Equal(t, want.all, c.Lacking(), responses)
		assert.Equal(t, want.withTools, c.LacksFor(tools, catalog.Stop), responses)
	}
}

func TestEffort(t *testing.T) {
	of := func(efforts ...string) catalog.Capabilities { return catalog.Capabilities{Efforts: efforts} }
	for name, c := range map[string]struct {
		can         catalog.Capabilities
		asked, want string
	}{
		"one that it has":                        {of("low", "high"), "low", "low"},
		"none, where it cannot but reason":       {of("low", "medium", "high"), "none", "low"},
		"the nearest below":                      {of("low", "medium", "high"), "max", "high"},
		"the greater of two as near":             {of("low", "high"), "medium", "high"},
		"the least, where it has a lesser word":  {of("none", "low", "medium"), "minimal", "low"},
		"a model of which nothing is known":      {of(), "xhigh", "xhigh"},
		"a word of nobody's":                     {of("low"), "enormous", "enormous"},
		"no effort at all":                       {of("low"), "", ""},
		"a known model that has all but minimal": {catalog.CapabilitiesOf("openai", "openai", "gpt-6-astra"), "none", "low"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, c.can.Effort(c.asked)) })
	}
}

// TestWhatAKindIsFor: a request for one thing passes the channels by that make another.
func TestWhatAKindIsFor(t *testing.T) {
	for _, c := range []struct {
		kind, model         string
		chat, videos, music bool
	}{
		{"openai", "gpt-6.1", true, false, false},
		{"anthropic", "claude-opus-5-5", true, false, false},
		{"gemini", "gemini-3.1-flash", true, false, false},
		{"veo", "veo-3.1-generate-preview", false, true, false},
		{"fal", "fal-ai/veo3.1", false, true, false},
		{"fal", "elevenlabs/music/v2", false, false, true},
		{"elevenlabs", "music_v2", false, false, true},
		{"veo", "nobody-knows-it", false, true, false},
		{"fal", "nobody-knows-it", false, true, false},
		{"elevenlabs", "nobody-knows-it", false, false, true},
	} {
		t.Run(c.kind+" "+c.model, func(t *testing.T) {
			can := catalog.CapabilitiesOf(c.kind, c.kind, chat.RoutedModel(c.model))
			assert.Equal(t, []bool{c.chat, c.videos, c.music}, []bool{!can.Lacks(catalog.Chat), !can.Lacks(catalog.Videos), !can.Lacks(catalog.Music)})
		})
	}
}
