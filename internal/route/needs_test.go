package route_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/chat"
	"spillway/internal/route"
)

// TestNeeds: what a request holds is what a channel must be able to do. Each channel of the catalog lacks one feature.
func TestNeeds(t *testing.T) {
	features := []string{"tools", "forced_tool", "allowed_tools", "custom_tools", "tool_choice_none_with_history", "functions", "web_search",
		"images", "remote_images", "audio", "audio_out", "files", "file_ids", "remote_files", "plain_http", "json_schema", "json_object", "schema_with_tools",
		"n", "logprobs", "reasoned_logprobs", "logit_bias", "penalties", "stop", "blank_stop", "prefill", "stream"}
	var channels []string
	for _, f := range features {
		channels = append(channels, `{"name": "no-`+f+`", "provider": "p", "models": ["m"], "cannot": ["`+f+`"], "credentials": [{"alias": "k", "secret": "env:K"}]}`)
	}
	c := load(t, `{"version": "v", "providers": [{"name": "p", "kind": "openai", "base_url": "http://p/v1"}], "channels": [`+strings.Join(channels, ",")+`],
		"organizations": [{"name": "all", "models": ["*"]}]}`)
	user := func(parts ...chat.Part) chat.Message { return chat.Message{Role: chat.User, Parts: parts} }
	function := []chat.Tool{{Name: "f"}}
	called := []chat.Message{{Role: chat.Assistant, Calls: []chat.ToolCall{{ID: "a"}}}, {Role: chat.ToolRole, CallID: "a"}}
	member := func(name, value string) chat.Request {
		return chat.Request{Members: []chat.Member{{Name: name, Value: []byte(value)}}}
	}
	file := func(p chat.Part) chat.Request {
		p.Kind = chat.FilePart
		return chat.Request{Messages: []chat.Message{user(p)}}
	}
	half, none := 0.5, 0.0
	for name, test := range map[string]struct {
		request chat.Request
		needs   string
	}{
		"text":                         {chat.Request{Messages: []chat.Message{user(chat.Part{Kind: chat.TextPart, Text: "Hi"})}}, ""},
		"tools":                        {chat.Request{Tools: function}, "tools"},
		"tools that may not be called": {chat.Request{Tools: function, Choice: chat.ToolChoice{Mode: chat.ChoiceNone}}, "tools"},
		"a tool that must be called":   {chat.Request{Tools: function, Choice: chat.ToolChoice{Mode: chat.ChoiceRequired}}, "tools forced_tool"},
		"a tool that is named":         {chat.Request{Tools: function, Choice: chat.ToolChoice{Mode: chat.ChoiceNamed, Name: "f"}}, "tools forced_tool"},
		"a choice among no tools":      {chat.Request{Choice: chat.ToolChoice{Mode: chat.ChoiceRequired}}, ""},
		"a custom tool":                {chat.Request{Tools: []chat.Tool{{Name: "f"}, {Name: "g", Custom: true}}}, "tools custom_tools"},
		"calls in the history":         {chat.Request{Messages: called}, "tools"},
		"some of the tools":            {chat.Request{Tools: function, Choice: chat.ToolChoice{Mode: chat.ChoiceAllowed, Allowed: []string{"f"}}}, "tools allowed_tools"},
		"some of the tools, of which one must be called": {chat.Request{Tools: function,
			Choice: chat.ToolChoice{Mode: chat.ChoiceAllowed, Allowed: []string{"f"}, Required: true}}, "tools allowed_tools forced_tool"},
		"no call any more, after some": {chat.Request{Tools: function, Messages: called, Choice: chat.ToolChoice{Mode: chat.ChoiceNone}},
			"tools tool_choice_none_with_history"},
		"functions of old":            {member("functions", `[{"name":"f"}]`), "functions"},
		"no functions of old":         {member("functions", `[ ]`), ""},
		"a function of old is called": {member("function_call", `{"name":"f"}`), "functions"},
		"a function of old may be":    {member("function_call", `"auto"`), ""},
		"a search":                    {member("web_search_options", `{}`), "web_search"},
		"no search":                   {member("web_search_options", `null`), ""},
		"a spoken answer":             {member("modalities", `["text", "audio"]`), "audio_out"},
		"a voice":                     {member("audio", `{"voice":"alloy"}`), "audio_out"},
		"a written answer":            {member("modalities", `["text"]`), ""},
		"an image":                    {chat.Request{Messages: []chat.Message{user(chat.Part{Kind: chat.TextPart}, chat.Part{Kind: chat.ImagePart})}}, "images"},
		"audio and a file":            {chat.Request{Messages: []chat.Message{user(chat.Part{Kind: chat.AudioPart}), user(chat.Part{Kind: chat.FilePart})}}, "audio files"},
		"a remote image, which the gateway can fetch": {chat.Request{Messages: []chat.Message{user(chat.Part{Kind: chat.ImagePart, URL: "https://a.test/x.png"})}}, "images"},
		"a file that the provider keeps":              {file(chat.Part{FileID: "file-1"}), "files file_ids"},
		"a file at an address":                        {file(chat.Part{FileID: "https://a.test/x.pdf"}), "files"},
		"a file that is here":                         {file(chat.Part{Data: "eA==", FileID: "file-1"}), "files"},
		"a schema":                                    {chat.Request{Format: &chat.Format{Kind: chat.FormatSchema}}, "json_schema"},
		"any JSON object":                             {chat.Request{Format: &chat.Format{Kind: chat.FormatObject}}, "json_object"},
		"text as a format":                            {chat.Request{Format: &chat.Format{Kind: chat.FormatText}}, ""},
		"a schema beside tools":                       {chat.Request{Tools: function, Format: &chat.Format{Kind: chat.FormatSchema}}, "tools json_schema schema_with_tools"},
		"any JSON beside tools":                       {chat.Request{Tools: function, Format: &chat.Format{Kind: chat.FormatObject}}, "tools json_object schema_with_tools"},
		"a penalty":                                   {chat.Request{FrequencyPenalty: &half}, "penalties"},
		"the other penalty":                           {chat.Request{FrequencyPenalty: &none, PresencePenalty: &half}, "penalties"},
		"penalties of nothing":                        {chat.Request{FrequencyPenalty: &none, PresencePenalty: &none}, ""},
		"a stop sequence":                             {chat.Request{Stop: []string{"END"}}, "stop"},
		"a blank stop sequence":                       {chat.Request{Stop: []string{"END", "\n"}}, "stop blank_stop"},
		"an effort":                                   {chat.Request{Effort: "xhigh"}, ""},
		"log probabilities of a model that does not reason": {chat.Request{LogProbs: true, Effort: "none"}, "logprobs"},
		"what may be left out": {chat.Request{Temperature: &half, TopP: &half, Seed: new(int64), OneCall: true, User: "u",
			Members: []chat.Member{{Name: "verbosity", Value: []byte(`"low"`)}, {Name: "prediction", Value: []byte(`{}`)}, {Name: "store", Value: []byte("true")}}}, ""},
		"two choices":                    {chat.Request{Choices: 2}, "n"},
		"one choice":                     {chat.Request{Choices: 1}, ""},
		"log probabilities":              {chat.Request{LogProbs: true}, "logprobs reasoned_logprobs"},
		"a bias":                         {chat.Request{Members: []chat.Member{{Name: "logit_bias", Value: []byte(`{"50256":-100}`)}}}, "logit_bias"},
		"an empty bias":                  {chat.Request{Members: []chat.Member{{Name: "logit_bias", Value: []byte(`{}`)}}}, ""},
		"no bias":                        {chat.Request{Members: []chat.Member{{Name: "logit_bias", Value: []byte(`null`)}}}, ""},
		"an assistant has the last word": {chat.Request{Messages: []chat.Message{user(), {Role: chat.Assistant}}}, "prefill"},
		"an assistant does not":          {chat.Request{Messages: []chat.Message{{Role: chat.Assistant}, user()}}, ""},
		"a stream":                       {chat.Request{Stream: true}, "stream"},
	} {
		t.Run(name, func(t *testing.T) {
			test.request.Models = []chat.RequestedModel{"m"}
			p, refused := route.Resolve(c, c.Organizations["all"], &test.request, middle, nil)
			require.Nil(t, refused)
			needed := map[string]bool{}
			for _, f := range strings.Fields(test.needs) {
				needed[f] = true
			}
			require.Len(t, p.Considered, len(features))
			for i, f := range features {
				want := route.OK
				if needed[f] {
					want = route.Reason("no_" + f)
				}
				assert.Equal(t, route.Considered{Channel: "no-" + f, Reason: want}, p.Considered[i])
			}
		})
	}
}

// TestByTheTable: what each kind of API and model lacks makes its channel be passed by, with the reason and the member of
// the request that needs it.
func TestByTheTable(t *testing.T) {
	tools, user := []chat.Tool{{Name: "f"}}, []chat.Message{{Role: chat.User}}
	set := func(change func(*chat.Request)) *chat.Request {
		r := models("m")
		r.Messages, r.Tools = user, tools
		change(r)
		return r
	}
	schema := set(func(r *chat.Request) { r.Format = &chat.Format{Kind: chat.FormatSchema} })
	stop := set(func(r *chat.Request) { r.Stop = []string{"END"} })
	n := set(func(r *chat.Request) { r.Choices = 2 })
	for name, test := range map[string]struct {
		kind, vendor, model string
		request             *chat.Request
		reason              route.Reason
		param               string
	}{
		"Claude and a blank stop": {"anthropic", "anthropic", "claude-sonnet-5", set(func(r *chat.Request) { r.Stop = []string{" "} }), "no_blank_stop", "stop"},
		"Claude and a stop":       {"anthropic", "anthropic", "claude-sonnet-5", stop, route.OK, ""},
		"Claude and somebody's file": {"anthropic", "anthropic", "claude-sonnet-5", set(func(r *chat.Request) {
			r.Messages = []chat.Message{{Role: chat.User, Parts: []chat.Part{{Kind: chat.TextPart}, {Kind: chat.FilePart, FileID: "file-1"}}}}
		}), "no_file_ids", "messages[0].content[1].file.file_id"},
		"Claude and a search": {"anthropic", "anthropic", "claude-sonnet-5", set(func(r *chat.Request) {
			r.Members = []chat.Member{{Name: "web_search_options", Value: []byte("{}")}}
		}), "no_web_search", "web_search_options"},
		"a Claude that is not forced, and some tools of which it must call one": {"anthropic", "anthropic", "claude-opus-5-5", set(func(r *chat.Request) {
			r.Choice = chat.ToolChoice{Mode: chat.ChoiceAllowed, Allowed: []string{"f"}, Required: true}
		}), "no_forced_tool", "tool_choice"},
		"a Claude that is":                                  {"anthropic", "anthropic", "claude-opus-5", set(func(r *chat.Request) { r.Choice.Mode = chat.ChoiceRequired }), route.OK, ""},
		"Claude and a schema, by a tool":                    {"anthropic", "anthropic", "claude-sonnet-4-20250514", schema, route.OK, ""},
		"Claude and any JSON":                               {"anthropic", "anthropic", "claude-sonnet-5", set(func(r *chat.Request) { r.Format = &chat.Format{Kind: chat.FormatObject} }), "no_json_object", "response_format"},
		"more than Claude writes":                           {"anthropic", "anthropic", "claude-haiku-4-5", set(func(r *chat.Request) { r.MaxTokens = 64_001 }), route.OutputTooLong, "max_completion_tokens"},
		"a Gemini before 3, schema and tools":               {"gemini", "gemini", "gemini-2.5-pro", schema, "no_schema_with_tools", "response_format"},
		"a Gemini since 3, schema and tools":                {"gemini", "gemini", "gemini-3.8-flash", schema, route.OK, ""},
		"Gemini and two choices":                            {"gemini", "gemini", "gemini-3.8-flash", n, "no_n", "n"},
		"a GPT that does not reason, two choices and tools": {"openai", "openai", "gpt-4o", n, route.OK, ""},
		"a GPT whose tools need the Responses API":          {"openai", "openai", "gpt-5.4-mini", n, "no_n", "n"},
		"the same without tools":                            {"openai", "openai", "gpt-5.4-mini", set(func(r *chat.Request) { r.Tools, r.Choices = nil, 2 }), route.OK, ""},
		"a GPT that always needs it":                        {"openai", "openai", "gpt-5.5-pro", set(func(r *chat.Request) { r.Tools, r.Choices = nil, 2 }), "no_n", "n"},
		"a GPT that reasons and a stop":                     {"openai", "azure", "gpt-5", stop, "no_stop", "stop"},
		"log probabilities of one that may do without reasoning": {"openai", "openai", "gpt-5.1",
			set(func(r *chat.Request) { r.LogProbs, r.Effort = true, "none" }), route.OK, ""},
		"and of the same when it reasons": {"openai", "openai", "gpt-5.1", set(func(r *chat.Request) { r.LogProbs = true }), "no_reasoned_logprobs", "logprobs"},
		"DeepSeek and a schema":           {"openai", "deepseek", "deepseek-chat", schema, "no_json_schema", "response_format"},
		"Groq and two choices":            {"openai", "groq", "openai/gpt-oss-120b", n, "no_n", "n"},
		"Mistral and a bias": {"openai", "mistral", "mistral-large-latest", set(func(r *chat.Request) {
			r.Members = []chat.Member{{Name: "logit_bias", Value: []byte(`{"1":1}`)}}
		}), "no_logit_bias", "logit_bias"},
		"xAI and a penalty":                  {"openai", "xai", "grok-4.5", set(func(r *chat.Request) { p := 1.0; r.PresencePenalty = &p }), "no_penalties", "presence_penalty"},
		"a copy of OpenAI's and a free tool": {"openai", "generic", "up-1", set(func(r *chat.Request) { r.Tools = []chat.Tool{{Name: "f"}, {Name: "g", Custom: true}} }), "no_custom_tools", "tools[1]"},
		"a copy of OpenAI's and two choices": {"openai", "generic", "up-1", n, route.OK, ""},
		"a conversation that surely is too long": {"openai", "openai", "gpt-4o-mini", set(func(r *chat.Request) {
			r.Messages = []chat.Message{{Role: chat.User, Parts: []chat.Part{{Kind: chat.TextPart, Text: strings.Repeat("x", 6*128_001)}}}}
		}), route.TooLong, "messages"},
	} {
		t.Run(name, func(t *testing.T) {
			c := load(t, `{"version": "v", "providers": [{"name": "p", "kind": "`+test.kind+`", "vendor": "`+test.vendor+`", "base_url": "http://p/v1"}],
				"channels": [{"name": "c", "provider": "p", "models": ["`+test.model+`"], "credentials": [{"alias": "k", "secret": "env:K"}]}],
				"routes": [{"alias": "m", "models": ["`+test.model+`"]}], "organizations": [{"name": "all", "models": ["*"]}]}`)
			p, refused := route.Resolve(c, c.Organizations["all"], test.request, middle, nil)
			require.Nil(t, refused)
			assert.Equal(t, []route.Considered{{Channel: "c", Reason: test.reason}}, p.Considered)
			param, needed := p.Needs.Param(test.reason)
			assert.Equal(t, test.param, param)
			assert.Equal(t, test.reason != route.OK, needed, "it is the request's own")
		})
	}
}

// TestWhatMayBeDropped: a parameter that the operator has a channel drop makes no request pass it by.
func TestWhatMayBeDropped(t *testing.T) {
	c := load(t, `{"version": "v", "providers": [{"name": "p", "kind": "gemini", "base_url": "http://p/v1"}],
		"channels": [{"name": "c", "provider": "p", "models": ["gemini-3-flash"], "drops": ["logit_bias"], "credentials": [{"alias": "k", "secret": "env:K"}]}],
		"organizations": [{"name": "all", "models": ["*"]}]}`)
	r := models("gemini-3-flash")
	r.Members = []chat.Member{{Name: "logit_bias", Value: []byte(`{"1":1}`)}}
	p, refused := route.Resolve(c, c.Organizations["all"], r, middle, nil)
	require.Nil(t, refused)
	assert.Equal(t, "c:ok", p.String())
}

// TestTheEstimateCounts: everything that surely takes tokens makes the estimate larger, at 6 bytes a token and 85 tokens
// an attachment.
func TestTheEstimateCounts(t *testing.T) {
	const bytes = 600
	text := strings.Repeat("x", bytes)
	message := func(m chat.Message) chat.Request { return chat.Request{Messages: []chat.Message{m}} }
	part := func(p chat.Part) chat.Request { return message(chat.Message{Role: chat.User, Parts: []chat.Part{p}}) }
	for name, test := range map[string]struct {
		request chat.Request
		want    int64
	}{
		"nothing":                             {chat.Request{}, 0},
		"a text":                              {part(chat.Part{Kind: chat.TextPart, Text: text}), 100},
		"a refusal as a part":                 {part(chat.Part{Kind: chat.RefusalPart, Text: text}), 100},
		"a refusal":                           {message(chat.Message{Refusal: text}), 100},
		"a call":                              {message(chat.Message{Calls: []chat.ToolCall{{Arguments: text}}}), 100},
		"a tool":                              {chat.Request{Tools: []chat.Tool{{Description: text, Parameters: []byte(text)}}}, 200},
		"a schema of the answer":              {chat.Request{Format: &chat.Format{Schema: []byte(text)}}, 100},
		"an image, whatever its size":         {part(chat.Part{Kind: chat.ImagePart, URL: "data:image/png;base64," + text}), 85},
		"a file, whatever its size":           {part(chat.Part{Kind: chat.FilePart, Data: text}), 85},
		"a clip, whatever its length":         {part(chat.Part{Kind: chat.AudioPart, Data: text}), 85},
		"reasoning that only its vendor gets": {message(chat.Message{Thinking: []chat.Thinking{{Text: text}}}), 0},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, route.NeedsOf(&test.request).Input)
		})
	}
}
