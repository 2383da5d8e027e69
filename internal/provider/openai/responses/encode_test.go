package responses_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	dialect "spillway/internal/dialect/openai"
	"spillway/internal/provider/openai/responses"
	"spillway/internal/simulate/conversation"
)

const (
	functions = `"tools":[{"type":"function","function":{"name":"f"}},{"type":"custom","custom":{"name":"c"}}]`
	asks      = `"messages":[{"role":"user","content":"x"}]`
)

// body is a client's body with some members beside the least.
func body(members ...string) string {
	return `{"model":"fast",` + strings.Join(append(members, asks), ",") + `}`
}

// TestWhatIsAskedInTheWordsOfTheAPI: one member of the client's, and the one that is sent for it; empty: none.
func TestWhatIsAskedInTheWordsOfTheAPI(t *testing.T) {
	for name, tt := range map[string]struct{ model, asked, path, want, dropped string }{
		"tools may be called":                         {"", functions + `,"tool_choice":"auto"`, "tool_choice", `"auto"`, ""},
		"tools must not be called":                    {"", functions + `,"tool_choice":"none"`, "tool_choice", `"none"`, ""},
		"one of the tools must be called":             {"", functions + `,"tool_choice":"required"`, "tool_choice", `"required"`, ""},
		"this function must be called":                {"", functions + `,"tool_choice":{"type":"function","function":{"name":"f"}}`, "tool_choice", `{"type":"function","name":"f"}`, ""},
		"this free-text tool must be called":          {"", functions + `,"tool_choice":{"type":"custom","custom":{"name":"c"}}`, "tool_choice", `{"type":"custom","name":"c"}`, ""},
		"some tools may be called":                    {"", functions + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"custom","custom":{"name":"c"}},{"type":"function","function":{"name":"f"}}]}}`, "tool_choice", `{"type":"allowed_tools","mode":"auto","tools":[{"type":"custom","name":"c"},{"type":"function","name":"f"}]}`, ""},
		"one of some tools must be called":            {"", functions + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"f"}}]}}`, "tool_choice", `{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"}]}`, ""},
		"nothing is said of how tools are used":       {"", functions, "tool_choice", ``, ""},
		"a choice without tools":                      {"", `"tool_choice":"auto"`, "tool_choice", ``, ""},
		"one call at a time":                          {"", functions + `,"parallel_tool_calls":false`, "parallel_tool_calls", `false`, ""},
		"several calls at a time":                     {"", functions + `,"parallel_tool_calls":true`, "parallel_tool_calls", ``, ""},
		"one call at a time of no tools":              {"", `"tools":[],"parallel_tool_calls":false`, "parallel_tool_calls", ``, ""},
		"a function without parameters":               {"", functions, "tools.0", `{"type":"function","name":"f","parameters":{"type":"object","properties":{}},"strict":false}`, ""},
		"a free-text tool":                            {"", functions, "tools.1", `{"type":"custom","name":"c"}`, ""},
		"an effort":                                   {"", `"reasoning_effort":"xhigh"`, "reasoning", `{"effort":"xhigh"}`, ""},
		"no effort named":                             {"", ``, "reasoning", ``, ""},
		"text is text":                                {"", `"response_format":{"type":"text"}`, "text", ``, ""},
		"any object":                                  {"", `"response_format":{"type":"json_object"}`, "text", `{"format":{"type":"json_object"}}`, ""},
		"a schema that is not strict":                 {"", `"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{}}}`, "text.format", `{"type":"json_schema","name":"s","schema":{},"strict":false}`, ""},
		"verbosity":                                   {"", `"verbosity":"high"`, "text", `{"verbosity":"high"}`, ""},
		"a limit":                                     {"", `"max_tokens":16`, "max_output_tokens", `16`, ""},
		"a limit below the least":                     {"", `"max_completion_tokens":15`, "max_output_tokens", `16`, "max_completion_tokens"},
		"no limit":                                    {"", ``, "max_output_tokens", ``, ""},
		"who asks":                                    {"", `"safety_identifier":"` + strings.Repeat("u", 64) + `"`, "safety_identifier", `"` + strings.Repeat("u", 64) + `"`, ""},
		"who asks, too long":                          {"", `"safety_identifier":"` + strings.Repeat("u", 65) + `"`, "safety_identifier", ``, "safety_identifier"},
		"the provider keeps the answer":               {"", `"store":true`, "store", `true`, ""},
		"the provider keeps nothing":                  {"", `"store":false`, "store", `false`, ""},
		"the provider is not told to keep the answer": {"", ``, "store", `false`, ""},
		"reasoning comes back":                        {"o3", ``, "include", `["reasoning.encrypted_content"]`, ""},
		"but not what the provider keeps":             {"o3", `"store":true`, "include", ``, ""},
		"and not of a model that does not reason":     {"gpt-4.1", ``, "include", ``, ""},
		"a temperature":                               {"gpt-4.1", `"temperature":0`, "temperature", `0`, ""},
		"a temperature while it reasons":              {"gpt-5.4", `"temperature":0,"reasoning_effort":"low"`, "temperature", ``, "temperature"},
		"a temperature while it does not":             {"gpt-5.4", `"temperature":0,"reasoning_effort":"none"`, "temperature", `0`, ""},
		"a temperature for what always reasons":       {"gpt-6.1-sol", `"temperature":0,"reasoning_effort":"none"`, "temperature", ``, "temperature"},
		"probabilities of what it reasoned":           {"gpt-5", `"logprobs":true,"top_logprobs":2`, "top_logprobs", ``, "logprobs,top_logprobs"},
		"a part of the probability":                   {"gpt-4.1", `"top_p":0.1`, "top_p", `0.1`, ""},
		"the probabilities of tokens":                 {"gpt-4.1", `"logprobs":true`, "include", `["message.output_text.logprobs"]`, ""},
		"those of other tokens too":                   {"gpt-4.1", `"logprobs":true,"top_logprobs":2`, "top_logprobs", `2`, ""},
		"none of them, said in words":                 {"gpt-5", `"logprobs":false`, "top_logprobs", ``, ""},
		"penalties":                                   {"gpt-4.1", `"frequency_penalty":1,"presence_penalty":0`, "frequency_penalty", ``, "frequency_penalty,presence_penalty"},
		"a seed":                                      {"gpt-4.1", `"seed":1`, "seed", ``, "seed"},
		"no biases":                                   {"", `"logit_bias":{ }`, "logit_bias", ``, ""},
		"text alone":                                  {"", `"modalities":["text"]`, "modalities", ``, ""},
		"what nobody knows":                           {"", `"of_tomorrow":{"x":1}`, "of_tomorrow", ``, "of_tomorrow"},
	} {
		t.Run(name, func(t *testing.T) {
			members := []string{tt.asked}
			if tt.asked == "" {
				members = nil
			}
			sent, dropped, refused := responses.Encode(adapter.Call(conversation.Parse(t, body(members...)), conversation.Channel{Model: tt.model}))
			require.Empty(t, refused)
			assert.Equal(t, tt.want, gjson.GetBytes(sent, tt.path).Raw)
			assert.Equal(t, tt.dropped, strings.Join(dropped, ","))
		})
	}
}

// TestWhatTheChannelDoesNotTakeIsNotSent: each parameter alone, with the member that would be sent for it.
func TestWhatTheChannelDoesNotTakeIsNotSent(t *testing.T) {
	for name, tt := range map[string]struct{ asked, path string }{
		"max_tokens":            {`"max_tokens":100`, "max_output_tokens"},
		"max_completion_tokens": {`"max_completion_tokens":100`, "max_output_tokens"},
		"temperature":           {`"temperature":1`, "temperature"},
		"top_p":                 {`"top_p":1`, "top_p"},
		"logprobs":              {`"logprobs":true`, "include"},
		"top_logprobs":          {`"logprobs":true,"top_logprobs":2`, "top_logprobs"},
		"reasoning_effort":      {`"reasoning_effort":"low"`, "reasoning"},
		"verbosity":             {`"verbosity":"low"`, "text"},
		"user":                  {`"user":"u"`, "safety_identifier"},
		"safety_identifier":     {`"safety_identifier":"u"`, "safety_identifier"},
		"parallel_tool_calls":   {functions + `,"parallel_tool_calls":false`, "parallel_tool_calls"},
		"tool_choice":           {functions + `,"tool_choice":"required"`, "tool_choice"},
		"response_format":       {`"response_format":{"type":"json_object"}`, "text"},
		"metadata":              {`"metadata":{"a":"b"}`, "metadata"},
		"service_tier":          {`"service_tier":"flex"`, "service_tier"},
		"prompt_cache_key":      {`"prompt_cache_key":"k"`, "prompt_cache_key"},
	} {
		t.Run(name, func(t *testing.T) {
			req := conversation.Parse(t, body(tt.asked))
			sent, _, _ := responses.Encode(adapter.Call(req, conversation.Channel{Model: "gpt-4.1"}))
			assert.True(t, gjson.GetBytes(sent, tt.path).Exists(), "it is sent where the channel takes it")
			sent, dropped, _ := responses.Encode(adapter.Call(req, conversation.Channel{Model: "gpt-4.1", Drops: []string{name}}))
			assert.False(t, gjson.GetBytes(sent, tt.path).Exists())
			assert.Equal(t, []string{name}, dropped)
		})
	}
	for name, asked := range map[string]string{"stop": `"stop":"END"`, "n": `"n":2`, "logit_bias": `"logit_bias":{"1":1}`} {
		t.Run(name+", which the API has no word for either", func(t *testing.T) {
			_, dropped, refused := responses.Encode(adapter.Call(conversation.Parse(t, body(asked)), conversation.Channel{Drops: []string{name}}))
			assert.Empty(t, refused)
			assert.Equal(t, []string{name}, dropped)
		})
	}
	t.Run("store", func(t *testing.T) {
		sent, dropped, _ := responses.Encode(adapter.Call(conversation.Parse(t, body(`"store":true`)), conversation.Channel{Drops: []string{"store"}}))
		assert.Equal(t, "false", gjson.GetBytes(sent, "store").Raw)
		assert.Equal(t, []string{"store"}, dropped)
	})
}

func TestWhatCannotBeSaidIsRefused(t *testing.T) {
	for want, asked := range map[string]string{
		"n":                      `"n":2`,
		"stop":                   `"stop":"END"`,
		"logit_bias":             `"logit_bias":{"1":-100}`,
		"modalities":             `"modalities":["text","audio"]`,
		"audio":                  `"audio":{"format":"mp3","voice":"a"}`,
		"functions":              `"functions":[]`,
		"function_call":          `"function_call":"auto"`,
		"messages[0].content[1]": `"messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"input_audio","input_audio":{"data":"AAAA","format":"mp3"}}]}]`,
		"messages[1].role":       `"messages":[{"role":"user","content":"x"},{"role":"function","name":"f","content":"y"}]`,
		"messages":               `"messages":[{"role":"assistant","content":null}]`,
	} {
		t.Run(want, func(t *testing.T) {
			text := body(asked)
			if strings.HasPrefix(asked, `"messages"`) {
				text = `{"model":"fast",` + asked + `}`
			}
			sent, _, refused := responses.Encode(adapter.Call(conversation.Parse(t, text), conversation.Channel{}))
			assert.Equal(t, want, refused)
			assert.Empty(t, sent)
		})
	}
}

// TestReasoningGoesBackToTheAccountThatGaveIt: from an answer to the client and from there to the next call.
func TestReasoningGoesBackToTheAccountThatGaveIt(t *testing.T) {
	gave := adapter.Call(hello(t), conversation.Channel{Plain: true})
	got := adapter.Replay(t, jsonReply(`{"status":"completed","output":[{"type":"reasoning","encrypted_content":"secret"},{"type":"message","content":[{"type":"output_text","text":"Hi"}]}]}`), gave, whole)
	require.Nil(t, got.Failure)
	require.Len(t, got.Answer.Choices[0].Thinking, 1)
	req := hello(t)
	req.Messages = append(req.Messages, chat.Message{Role: chat.Assistant, Parts: []chat.Part{{Kind: chat.TextPart, Text: "Hi"}}, Thinking: got.Answer.Choices[0].Thinking})
	for name, tt := range map[string]struct {
		other  *catalog.Credential
		vendor string
		want   string
	}{
		"the same account":              {nil, "", "secret"},
		"a key with another name":       {&catalog.Credential{Alias: "second"}, "", ""},
		"a key of one of our clients":   {&catalog.Credential{Alias: "main", Organization: "org"}, "", ""},
		"another vendor's of that name": {nil, "azure", ""},
	} {
		t.Run(name, func(t *testing.T) {
			next := adapter.Call(req, conversation.Channel{Vendor: tt.vendor})
			if tt.other != nil {
				next.Credential = tt.other
			}
			sent, _, refused := responses.Encode(next)
			require.Empty(t, refused)
			assert.Equal(t, tt.want, gjson.GetBytes(sent, `input.#(type=="reasoning").encrypted_content`).Str)
		})
	}
}

// FuzzEncode: whatever a client asks, the request stays as it was, and what is sent is what the API takes: an input that is
// not empty, results that belong to calls before them, and ids that are neither too long nor the same.
func FuzzEncode(f *testing.F) {
	for _, c := range conversation.Load(f, "clean", "failures") {
		f.Add([]byte(c.Body()), c.Channel(f).Model)
	}
	f.Fuzz(func(t *testing.T, body []byte, model string) {
		req, refusal := dialect.Chat{}.Parse(body)
		if refusal != nil {
			return
		}
		untouched, _ := dialect.Chat{}.Parse(body)
		sent, _, refused := responses.Encode(adapter.Call(req, conversation.Channel{Model: model}))
		require.Equal(t, untouched, req)
		if refused != "" {
			return
		}
		require.True(t, jsontext.Value(sent).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)))
		checkInput(t, gjson.GetBytes(sent, "input").Array())
	})
}

func checkInput(t *testing.T, items []gjson.Result) {
	t.Helper()
	require.NotEmpty(t, items)
	kinds := map[string]string{} // of the calls, by id
	for i, item := range items {
		kind, id := item.Get("type").Str, item.Get("call_id").Str
		switch kind {
		case "message":
			require.NotEmpty(t, item.Get("content").Array())
		case "reasoning":
			require.NotEqual(t, "reasoning", items[len(items)-1].Get("type").Str, "nothing follows")
			require.True(t, item.Get("summary").IsArray())
		case "function_call", "custom_tool_call":
			require.NotContains(t, kinds, id)
			require.LessOrEqual(t, len(id), 64)
			kinds[id] = kind
		default:
			require.Equal(t, kinds[id]+"_output", kind, "item %d", i)
			require.True(t, item.Get("output").Exists())
		}
	}
}

// TestLargeRequestsAreWrittenInTime: no list that a client may make long is searched again and again.
func TestLargeRequestsAreWrittenInTime(t *testing.T) {
	const many = 20_000
	var turns, tools, allowed strings.Builder
	for i := range many {
		fmt.Fprintf(&turns, `,{"role":"assistant","tool_calls":[{"id":"call_%d","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"call_%[1]d","content":"x"}`, i%(many/2))
		fmt.Fprintf(&tools, `,{"type":"function","function":{"name":"f%d"}}`, i)
		fmt.Fprintf(&allowed, `,{"type":"function","function":{"name":"f%d"}}`, many-i)
	}
	for name, text := range map[string]string{
		"calls whose ids come again":   `{"model":"fast","messages":[{"role":"user","content":"x"}` + turns.String() + `]}`,
		"as many tools as are allowed": body(`"tools":[`+tools.String()[1:]+`]`, `"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[`+allowed.String()[1:]+`]}}`),
	} {
		t.Run(name, func(t *testing.T) {
			req := conversation.Parse(t, text)
			began := time.Now()
			sent, _, refused := responses.Encode(adapter.Call(req, conversation.Channel{}))
			assert.Less(t, time.Since(began), 5*time.Second)
			assert.Empty(t, refused)
			assert.NotEmpty(t, sent)
		})
	}
}
