package openai_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"spillway/internal/chat"
	"spillway/internal/dialect"
	"spillway/internal/dialect/openai"
	"spillway/internal/fault"
	"spillway/internal/sse"
)

var head = dialect.Head{ID: "chatcmpl-own", Model: "served-1", Created: time.Unix(1700000000, 0), IncludeUsage: true}

// written is an event as a provider of this dialect wrote it.
func written(raw string, deltas ...chat.Delta) chat.Event {
	return chat.Event{ID: "chatcmpl-1", Created: 5, Raw: raw, Dialect: chat.OpenAIChat, Deltas: deltas}
}

// frames is the data of every event of a stream, which must be nothing but well-formed events of one line each.
func frames(t require.TestingT, stream []byte) []string {
	var out []string
	r := sse.NewReader(bytes.NewReader(stream), 0)
	for {
		ev, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.Empty(t, ev.Name)
		require.False(t, ev.Bare)
		require.False(t, ev.Unterminated)
		out = append(out, string(ev.Data))
	}
	var again []byte
	for _, data := range out {
		again = append(again, "data: "+data+"\n\n"...)
	}
	require.Equal(t, string(again), string(stream), "the stream holds more than its events")
	return out
}

func TestEventsOfAStreamAreRendered(t *testing.T) {
	const chunk = `{"id":"chatcmpl-own","object":"chat.completion.chunk","created":1700000000,"model":"served-1",`
	const theirs = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":5,"model":"served-1",`
	tests := map[string]struct {
		events []chat.Event
		want   []string
	}{
		"text from its meaning: the role first, once": {[]chat.Event{
			{Deltas: []chat.Delta{{}}}, {Deltas: []chat.Delta{{Text: "Hel"}}}, {Deltas: []chat.Delta{{Text: "lo"}}}, {Deltas: []chat.Delta{{Finish: chat.FinishStop}}}},
			[]string{
				chunk + `"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`,
				chunk + `"choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":null}]}`,
				chunk + `"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":null}]}`,
				chunk + `"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`}},
		"a whole answer at once becomes a stream": {[]chat.Event{{Whole: true, Raw: `{"choices":[]}`, Dialect: chat.OpenAIChat, ID: "chatcmpl-1", Created: 5,
			Deltas: []chat.Delta{{Text: "hi", LogProbs: `{"content":[]}`, Finish: chat.FinishLength, Native: "model_length"}}}},
			[]string{
				theirs + `"choices":[{"index":0,"delta":{"role":"assistant","content":"hi"},"logprobs":{"content":[]},"finish_reason":null}]}`,
				theirs + `"choices":[{"index":0,"delta":{},"finish_reason":"length","native_finish_reason":"model_length"}]}`}},
		"refusal, reasoning and tool calls": {[]chat.Event{
			{Deltas: []chat.Delta{{Reasoning: "hm"}}}, {Deltas: []chat.Delta{{Refusal: "no"}}},
			{Deltas: []chat.Delta{{Tools: []chat.ToolDelta{{ID: "c1", Name: "f"}, {Index: 1, ID: "c2", Name: "g", Arguments: "{}"}}}}},
			{Deltas: []chat.Delta{{Tools: []chat.ToolDelta{{Arguments: `{"x":1}`}}, Finish: chat.FinishToolCalls}}}},
			[]string{
				chunk + `"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"hm"},"finish_reason":null}]}`,
				chunk + `"choices":[{"index":0,"delta":{"refusal":"no"},"finish_reason":null}]}`,
				chunk + `"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":""}},` +
					`{"index":1,"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]},"finish_reason":null}]}`,
				chunk + `"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":1}"}}]},"finish_reason":null}]}`,
				chunk + `"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`}},
		"a call's signature goes with it": {[]chat.Event{{Deltas: []chat.Delta{{Tools: []chat.ToolDelta{{ID: "c1", Name: "f", Arguments: "{}", Signature: "c2ln"}, {Index: 1, ID: "c2", Name: "g"}}}}}},
			[]string{
				chunk + `"choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{}"},` +
					`"extra_content":{"google":{"thought_signature":"c2ln"}}},{"index":1,"id":"c2","type":"function","function":{"name":"g","arguments":""}}]},"finish_reason":null}]}`}},
		"two choices have a role each": {[]chat.Event{{Deltas: []chat.Delta{{Text: "a"}, {Choice: 1, Text: "b"}}}},
			[]string{
				chunk + `"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}]}`,
				chunk + `"choices":[{"index":1,"delta":{"role":"assistant","content":"b"},"finish_reason":null}]}`}},
		"a frame of this dialect is passed on but for what the gateway owns": {[]chat.Event{
			written(`{"id":"x","object":"o","created":1,"model":"m","system_fingerprint":"fp","choices":[{"index":0,"delta":{"content":"a","extra":[1]},"logprobs":null,"finish_reason":null}],"usage":null,"error":null,"obfuscation":"zz"}`,
				chat.Delta{Text: "a"})},
			[]string{theirs + `"system_fingerprint":"fp","choices":[{"index":0,"delta":{"role":"assistant","content":"a","extra":[1]},"logprobs":null,"finish_reason":null}]}`}},
		"the owned names are known by their meaning": {[]chat.Event{written(`{"err\u006fr":null,"mod\u0065l":"m","choices":[]}`, chat.Delta{})},
			[]string{theirs + `"choices":[]}`}},
		"a frame on several lines becomes one line": {[]chat.Event{written("{\n \"choices\":[\r\n{\"index\":0,\n\"delta\":{\"content\":\"a\\n\"}}]}", chat.Delta{Text: "a\n"})},
			[]string{theirs + `"choices":[{"index":0,"delta":{"role":"assistant","content":"a\n"}}]}`}},
		"a byte that is not UTF-8 is replaced": {[]chat.Event{written("{\"choices\":[{\"delta\":{\"content\":\"a\xffb\"}}]}", chat.Delta{Text: "a\xffb"})},
			[]string{theirs + "\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"a\ufffdb\"}}]}"}},
		"a frame that was normalised is not passed on as it was": {[]chat.Event{{Raw: `{"choices":[{"finish_reason":""}]}`, Dialect: chat.OpenAIChat, Rebuilt: true,
			Deltas: []chat.Delta{{Text: "a"}}}},
			[]string{chunk + `"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}]}`}},
		"after a passed frame the role is not said again": {[]chat.Event{written(`{"choices":[{"index":0,"delta":{"role":"assistant"}}]}`, chat.Delta{}),
			{Rebuilt: true, Deltas: []chat.Delta{{Text: "a"}}}},
			[]string{theirs + `"choices":[{"index":0,"delta":{"role":"assistant"}}]}`,
				theirs + `"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}`}},
		"an event without a choice is for the gateway only": {[]chat.Event{written(`{"choices":[],"prompt_filter_results":[]}`),
			{Usage: &chat.Usage{Prompt: 1}}}, nil},
		"a normalised event that adds nothing says nothing": {[]chat.Event{{Deltas: []chat.Delta{{Text: "a"}}}, {Rebuilt: true, Deltas: []chat.Delta{{}}}},
			[]string{chunk + `"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}]}`}},
		"id and time come from the first that has them, and stay": {[]chat.Event{
			{Dialect: chat.OpenAIChat, Raw: `{"id":"","choices":[]}`}, written(`{"choices":[{"delta":{}}]}`, chat.Delta{}),
			{ID: "chatcmpl-2", Created: 6, Dialect: chat.OpenAIChat, Raw: `{"choices":[{"delta":{}}]}`, Deltas: []chat.Delta{{}}}},
			[]string{theirs + `"choices":[{"index":0,"delta":{"role":"assistant"}}]}`, theirs + `"choices":[{"delta":{}}]}`}},
		"what a provider adds before the choices is each frame's own": {[]chat.Event{
			written(`{"a":1,"choices":[{"index":0,"delta":{"content":"a"}}],"z":1}`, chat.Delta{Text: "a"}),
			written(`{"a":1,"choices":[{"index":0,"delta":{"content":"b"}}],"z":2}`, chat.Delta{Text: "b"}),
			written(`{"a":1,"b":2,"choices":[{"index":0,"delta":{"content":"c"}}]}`, chat.Delta{Text: "c"}),
			written(`{"choices":[{"index":0,"delta":{"content":"d"}}]}`, chat.Delta{Text: "d"}),
			written(`{"a":1,"usage":{},"choices":[{"index":0,"delta":{"content":"e"}}]}`, chat.Delta{Text: "e"}),
			written(`{"a":1}`, chat.Delta{})},
			[]string{theirs + `"a":1,"choices":[{"index":0,"delta":{"role":"assistant","content":"a"}}],"z":1}`,
				theirs + `"a":1,"choices":[{"index":0,"delta":{"content":"b"}}],"z":2}`,
				theirs + `"a":1,"b":2,"choices":[{"index":0,"delta":{"content":"c"}}]}`,
				theirs + `"choices":[{"index":0,"delta":{"content":"d"}}]}`,
				theirs + `"a":1,"choices":[{"index":0,"delta":{"content":"e"}}]}`,
				theirs + `"a":1}`}},
		"a provider that says the role in every frame, or in none: the client gets it once a choice": {[]chat.Event{
			written(`{"choices":[{"index":0,"delta":{"role":"assistant","content":"a"}},{"index":1,"delta":{}}]}`, chat.Delta{Text: "a"}, chat.Delta{Choice: 1}),
			written(`{"choices":[{"index":0,"delta":{"role":"assistant","content":"b"}},{"index":1,"delta":{"role":"assistant"},"x":1}]}`, chat.Delta{Text: "b"}, chat.Delta{Choice: 1})},
			[]string{theirs + `"choices":[{"index":0,"delta":{"role":"assistant","content":"a"}},{"index":1,"delta":{"role":"assistant"}}]}`,
				theirs + `"choices":[{"index":0,"delta":{"content":"b"}},{"index":1,"delta":{},"x":1}]}`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := openai.Chat{}.NewStream(head)
			var out []byte
			for i := range tt.events {
				out = append(out, s.Event(&tt.events[i])...)
			}
			assert.Equal(t, tt.want, frames(t, out))
		})
	}
}

func TestAStreamEnds(t *testing.T) {
	const usage = `{"id":"chatcmpl-own","object":"chat.completion.chunk","created":1700000000,"model":"served-1","choices":[],"usage":`
	counted := chat.Usage{Prompt: 9, Completion: 4, Cached: 3, Reasoning: 2}
	tests := map[string]struct {
		include bool
		usage   *chat.Usage
		want    []string
	}{
		"with usage when the client asked": {true, &counted, []string{usage +
			`{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13,"prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":2}}}`, "[DONE]"}},
		"with the provider's own usage, on one line": {true, &chat.Usage{Prompt: 1, Raw: "{\"prompt_tokens\":1,\n\"cost\":0.5}", RawDialect: chat.OpenAIChat},
			[]string{usage + `{"prompt_tokens":1, "cost":0.5}}`, "[DONE]"}},
		"with our words for usage of another dialect": {true, &chat.Usage{Prompt: 1, Raw: `{"input_tokens":1}`, RawDialect: "another"}, []string{usage +
			`{"prompt_tokens":1,"completion_tokens":0,"total_tokens":1,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}`, "[DONE]"}},
		"without usage when the client did not ask": {false, &counted, []string{"[DONE]"}},
		"without usage when nobody knows it":        {true, nil, []string{"[DONE]"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := head
			h.IncludeUsage = tt.include
			assert.Equal(t, tt.want, frames(t, openai.Chat{}.NewStream(h).End(tt.usage)))
		})
	}
}

func TestAnInterruptedStreamSaysSoAndEnds(t *testing.T) {
	tests := map[string]struct {
		err   fault.Error
		usage *chat.Usage
		want  string
	}{
		"with all that is known": {fault.Error{Code: fault.ProviderDisconnect, Class: fault.Network, Message: "cut", Provider: "a", Partial: true}, &chat.Usage{Prompt: 1, Raw: `{"prompt_tokens":1}`, RawDialect: chat.OpenAIChat},
			`{"error":{"message":"cut","type":"upstream_error","param":null,"code":"provider_disconnect","provider":"a","class":"network","retry_safe":true,"partial":true,"usage":{"prompt_tokens":1}}}`},
		"after a part of a tool call": {fault.Error{Code: fault.StreamInterrupted, Class: fault.Timeout, Message: "silent", Partial: true, Unsafe: true}, nil,
			`{"error":{"message":"silent","type":"upstream_error","param":null,"code":"stream_interrupted","class":"timeout","retry_safe":false,"partial":true}}`},
		"before anything was delivered": {fault.Error{Code: fault.InternalError, Message: "ours"}, nil,
			`{"error":{"message":"ours","type":"upstream_error","param":null,"code":"internal_error","retry_safe":true,"partial":false}}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := openai.Chat{}.NewStream(head)
			s.Event(&chat.Event{Deltas: []chat.Delta{{Text: "half"}}})
			got := frames(t, s.Interrupt(&tt.err, tt.usage))
			require.Len(t, got, 2)
			assert.Equal(t, tt.want, got[0])
			assert.Equal(t, "[DONE]", got[1])
			// What the SDKs look at: openai-go fails on any `error` that exists, openai-python on one that is true.
			assert.True(t, gjson.Get(got[0], "error").IsObject())
			assert.False(t, gjson.Get(got[0], "choices").Exists())
			assert.NotContains(t, got[0], "finish_reason")
		})
	}
}

func TestAPlainAnswerIsRendered(t *testing.T) {
	tests := map[string]struct {
		answer chat.Answer
		want   string
	}{
		"a provider's own is passed on with the served model, and with what every answer has": {chat.Answer{ID: "chatcmpl-1", Dialect: chat.OpenAIChat,
			Raw: `{"id":"chatcmpl-1","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a","annotations":[]}}],"usage":{"total_tokens":3},"error":null,"service_tier":"default"}`},
			`{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"served-1","choices":[{"index":0,"message":{"role":"assistant","content":"a","annotations":[]}}],"usage":{"total_tokens":3},"service_tier":"default"}`},
		"usage that the provider left out is added": {chat.Answer{Dialect: chat.OpenAIChat, Raw: `{"choices":[],"usage":null}`, Usage: &chat.Usage{Prompt: 1, Completion: 2, Estimated: true}},
			`{"id":"chatcmpl-own","object":"chat.completion","created":1700000000,"model":"served-1","choices":[],
			"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0},"estimated":true}}`},
		"what was read from a cache and written to it": {chat.Answer{Choices: []chat.AnswerChoice{{Text: "a", Finish: chat.FinishStop}}, Usage: &chat.Usage{Prompt: 9, Completion: 2, Cached: 4, CacheWrite: 3, Reasoning: 1}},
			`{"id":"chatcmpl-own","object":"chat.completion","created":1700000000,"model":"served-1","choices":[{"index":0,"message":{"role":"assistant","content":"a","refusal":null},"logprobs":null,"finish_reason":"stop"}],
			"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":3},"completion_tokens_details":{"reasoning_tokens":1}}}`},
		"text from its parts": {chat.Answer{Choices: []chat.AnswerChoice{{Text: "a", Finish: chat.FinishStop}}, Usage: &chat.Usage{Prompt: 1, Completion: 2}},
			`{"id":"chatcmpl-own","object":"chat.completion","created":1700000000,"model":"served-1","choices":[{"index":0,"message":{"role":"assistant","content":"a","refusal":null},"logprobs":null,"finish_reason":"stop"}],
			"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}`},
		"with its id and time, and what every frame said": {chat.Answer{ID: "chatcmpl-1", Created: 5, Dialect: chat.OpenAIChat,
			Frame:   "{\"id\":\"x\",\"object\":\"o\",\"created\":1,\"model\":\"m\",\"system_fingerprint\":\"fp\",\"choices\":[],\"usage\":null,\"error\":null,\"obfuscation\":\"zz\",\n\"service_tier\":\"flex\"}",
			Choices: []chat.AnswerChoice{{Text: "", Finish: chat.FinishStop}}},
			`{"id":"chatcmpl-1","object":"chat.completion","created":5,"model":"served-1","choices":[{"index":0,"message":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":"stop"}],
			"system_fingerprint":"fp","service_tier":"flex"}`},
		"a first frame that is no object says nothing of the whole": {chat.Answer{Dialect: chat.OpenAIChat, Frame: `[1,{"a":2}]`, Choices: []chat.AnswerChoice{{Text: "a", Finish: chat.FinishStop}}},
			`{"id":"chatcmpl-own","object":"chat.completion","created":1700000000,"model":"served-1","choices":[{"index":0,"message":{"role":"assistant","content":"a","refusal":null},"logprobs":null,"finish_reason":"stop"}]}`},
		"a call's signature goes with it": {chat.Answer{Choices: []chat.AnswerChoice{{Finish: chat.FinishToolCalls, Calls: []chat.ToolCall{{ID: "c1", Name: "f", Arguments: `{}`, Signature: `c"2`}}}}},
			`{"id":"chatcmpl-own","object":"chat.completion","created":1700000000,"model":"served-1","choices":[{"index":0,"message":{"role":"assistant","content":null,"refusal":null,"tool_calls":[
			{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"c\"2"}}}]},"logprobs":null,"finish_reason":"tool_calls"}]}`},
		"tool calls without text": {chat.Answer{Choices: []chat.AnswerChoice{{Finish: chat.FinishToolCalls, Calls: []chat.ToolCall{{ID: "c1", Name: "f", Arguments: `{"x":1}`}, {ID: "c2", Name: "g", Arguments: `{}`}}}}},
			`{"id":"chatcmpl-own","object":"chat.completion","created":1700000000,"model":"served-1","choices":[{"index":0,"message":{"role":"assistant","content":null,"refusal":null,"tool_calls":[
			{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"}]}`},
		"refusal, reasoning, a native word and a second choice": {chat.Answer{Choices: []chat.AnswerChoice{{Refusal: "no", Reasoning: "hm", Finish: chat.FinishContentFilter, Native: "SAFETY"},
			{Index: 1, Text: "b", Finish: chat.FinishStop}}},
			`{"id":"chatcmpl-own","object":"chat.completion","created":1700000000,"model":"served-1","choices":[
			{"index":0,"message":{"role":"assistant","content":null,"refusal":"no","reasoning_content":"hm"},"logprobs":null,"finish_reason":"content_filter","native_finish_reason":"SAFETY"},
			{"index":1,"message":{"role":"assistant","content":"b","refusal":null},"logprobs":null,"finish_reason":"stop"}]}`},
		"logprobs of all frames, joined": {chat.Answer{Choices: []chat.AnswerChoice{{Text: "ab", Finish: chat.FinishStop, LogProbs: []string{
			`{"content":[{"token":"a","logprob":-0.1}],"refusal":null}`, `{"content":[]}`, "{\"content\":[{\"token\":\"b\",\n\"logprob\":-2}]}"}}}},
			`{"id":"chatcmpl-own","object":"chat.completion","created":1700000000,"model":"served-1","choices":[{"index":0,"message":{"role":"assistant","content":"ab","refusal":null},
			"logprobs":{"content":[{"token":"a","logprob":-0.1},{"token":"b","logprob":-2}],"refusal":null},"finish_reason":"stop"}]}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := string(openai.Chat{}.AppendAnswer(nil, &tt.answer, head))
			assert.JSONEq(t, tt.want, got)
			assert.NotContains(t, got, "\n")
			assert.Equal(t, 1, strings.Count(got, `"served-1"`))
		})
	}
}

func TestAnErrorIsRendered(t *testing.T) {
	tests := map[string]struct {
		err  fault.Error
		want string
	}{
		"param and code are there even when null": {fault.Error{Code: fault.NotFound, Message: "m"},
			`{"error":{"message":"m","type":"invalid_request_error","param":null,"code":"not_found","retryable":false,"request_id":"req_1"}}`},
		"a refused field": {*fault.Invalid("messages[0].role", "m"),
			`{"error":{"message":"m","type":"invalid_request_error","param":"messages[0].role","code":"validation_failed","retryable":false,"request_id":"req_1"}}`},
		"with every attempt": {fault.Error{Code: fault.ProviderError, Class: fault.Auth, Message: "m", Provider: "b", ProviderStatus: 401, ProviderCode: "invalid_api_key",
			Attempts: []fault.Tried{{Provider: "a", Model: "a-1", Status: 529, Class: fault.Overloaded, N: 2}, {Provider: "b", Model: "b-9", Class: fault.Network, N: 1}}},
			`{"error":{"message":"m","type":"api_error","param":null,"code":"provider_error","provider":"b","class":"auth","retryable":false,"request_id":"req_1","provider_status":401,"provider_code":"invalid_api_key",
			"attempts":[{"provider":"a","model":"a-1","status":529,"class":"overloaded","n":2},{"provider":"b","model":"b-9","status":null,"class":"network","n":1}]}}`},
		"the wait is whole seconds, rounded up": {fault.Error{Code: fault.ProviderRateLimited, Message: "m", Retryable: true, RetryAfter: 1100 * time.Millisecond},
			`{"error":{"message":"m","type":"rate_limit_error","param":null,"code":"provider_rate_limited","retryable":true,"retry_after":2,"request_id":"req_1"}}`},
		"overload has its own type": {fault.Error{Code: fault.ProviderUnavailable, Class: fault.Overloaded, Message: "m", Retryable: true},
			`{"error":{"message":"m","type":"overloaded_error","param":null,"code":"provider_unavailable","class":"overloaded","retryable":true,"request_id":"req_1"}}`},
		"the cause is for the log only": {fault.Error{Code: fault.InternalError, Message: "m", Cause: errors.New("dial tcp 10.0.0.1: key sk-1")},
			`{"error":{"message":"m","type":"api_error","param":null,"code":"internal_error","retryable":false,"request_id":"req_1"}}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := openai.Chat{}.AppendError(nil, &tt.err, "req_1")
			assert.JSONEq(t, tt.want, string(got))
			assert.True(t, bytes.HasSuffix(got, []byte("}\n")))
		})
	}
}

// text draws any string: also one that is not UTF-8, or holds line ends and quotes.
var text = rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	rapid.SampledFrom([]string{"", "\n\ndata: [DONE]\n\n", "\r", "\u2028", "\"", "\\", "\xff", "\x00", "</script>", "🌍"}))

// asUTF8 replaces every byte that is not UTF-8, as the renderer does.
func asUTF8(s string) string { return string([]rune(s)) }

var toolDelta = rapid.Custom(func(t *rapid.T) chat.ToolDelta {
	return chat.ToolDelta{Index: rapid.IntRange(0, 5).Draw(t, "index"), ID: text.Draw(t, "id"), Name: text.Draw(t, "name"), Arguments: text.Draw(t, "arguments"),
		Signature: text.Draw(t, "signature")}
})

// drawEvent draws an event from its meaning, or as a provider of this dialect wrote it, on one line or on many.
var drawEvent = rapid.Custom(func(t *rapid.T) chat.Event {
	d := chat.Delta{Choice: rapid.IntRange(0, 2).Draw(t, "choice"), Text: text.Draw(t, "text"), Refusal: text.Draw(t, "refusal"), Reasoning: text.Draw(t, "reasoning"),
		Tools: rapid.SliceOfN(toolDelta, 0, 3).Draw(t, "tools"), Finish: chat.FinishReason(text.Draw(t, "finish")), Native: text.Draw(t, "native")}
	ev := chat.Event{ID: text.Draw(t, "id"), Created: rapid.Int64().Draw(t, "created"), Deltas: []chat.Delta{d}}
	if !rapid.Bool().Draw(t, "written") {
		return ev
	}
	frame := map[string]any{"id": ev.ID, text.Draw(t, "member"): text.Draw(t, "value"), "error": nil,
		"choices": []any{map[string]any{"index": d.Choice, "delta": map[string]string{"content": d.Text}}}}
	raw, err := json.MarshalIndent(frame, "", rapid.SampledFrom([]string{"", "\t"}).Draw(t, "indent"))
	if err != nil {
		t.Fatal(err)
	}
	ev.Raw, ev.Dialect = string(raw), chat.OpenAIChat
	return ev
})

func TestWhateverAStreamHoldsItIsJSONAndItsTextIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOf(drawEvent).Draw(t, "events")
		s := openai.Chat{}.NewStream(dialect.Head{ID: text.Draw(t, "id"), Model: chat.ServedModel(text.Draw(t, "model")), Created: time.Unix(1, 0), IncludeUsage: true})
		var out []byte
		want := map[int]string{}
		for i := range events {
			d := &events[i].Deltas[0]
			want[d.Choice] += asUTF8(d.Text)
			out = append(out, s.Event(&events[i])...)
		}
		if rapid.Bool().Draw(t, "whole") {
			out = append(out, s.End(&chat.Usage{Prompt: 1})...)
		} else {
			out = append(out, s.Interrupt(&fault.Error{Code: fault.Code(text.Draw(t, "code")), Message: text.Draw(t, "message"), Provider: text.Draw(t, "provider")}, nil)...)
		}
		got := map[int]string{}
		all := frames(t, out)
		require.Equal(t, "[DONE]", all[len(all)-1])
		id := gjson.Get(all[0], "id").String()
		for i, data := range all[:len(all)-1] {
			require.True(t, json.Valid([]byte(data)) && utf8.ValidString(data), data)
			failed := gjson.Get(data, "error").Exists()
			if i == len(all)-2 && failed {
				continue
			}
			require.False(t, failed, "an ordinary chunk carries an error: %s", data)
			require.Equal(t, id, gjson.Get(data, "id").String())
			for _, c := range gjson.Get(data, "choices").Array() {
				got[int(c.Get("index").Int())] += c.Get("delta.content").String()
			}
		}
		for choice, text := range want {
			require.Equal(t, text, got[choice])
		}
	})
}

func TestWhateverAnAnswerHoldsItIsJSON(t *testing.T) {
	call := rapid.Custom(func(t *rapid.T) chat.ToolCall {
		return chat.ToolCall{ID: text.Draw(t, "id"), Name: text.Draw(t, "name"), Arguments: text.Draw(t, "arguments")}
	})
	rapid.Check(t, func(t *rapid.T) {
		a := chat.Answer{ID: text.Draw(t, "id"), Dialect: chat.OpenAIChat, Choices: []chat.AnswerChoice{{Text: text.Draw(t, "text"), Refusal: text.Draw(t, "refusal"),
			Reasoning: text.Draw(t, "reasoning"), Calls: rapid.SliceOfN(call, 0, 2).Draw(t, "calls"), Finish: chat.FinishReason(text.Draw(t, "finish")), Native: text.Draw(t, "native")}}}
		if rapid.Bool().Draw(t, "framed") {
			frame, err := json.Marshal(map[string]string{text.Draw(t, "member"): text.Draw(t, "value")})
			require.NoError(t, err)
			a.Frame = string(frame)
		}
		got := openai.Chat{}.AppendAnswer(nil, &a, head)
		require.True(t, json.Valid(got) && utf8.Valid(got), "%s", got)
		require.Equal(t, asUTF8(a.Choices[0].Text), gjson.GetBytes(got, "choices.0.message.content").String())
	})
}

func TestWhateverAnErrorHoldsItIsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := fault.Error{Code: fault.Code(text.Draw(t, "code")), Message: text.Draw(t, "message"), Param: text.Draw(t, "param"), Class: fault.Class(text.Draw(t, "class")),
			Provider: text.Draw(t, "provider"), ProviderCode: text.Draw(t, "provider code"), ProviderStatus: rapid.Int().Draw(t, "status"),
			Attempts: []fault.Tried{{Provider: text.Draw(t, "tried"), Model: text.Draw(t, "model"), Class: fault.Class(text.Draw(t, "tried class"))}}}
		got := openai.Chat{}.AppendError(nil, &e, text.Draw(t, "request id"))
		require.True(t, json.Valid(got) && utf8.Valid(got), "%s", got)
		require.Equal(t, asUTF8(e.Message), gjson.GetBytes(got, "error.message").String())
	})
}

// TestTheInputOfAFreeTextToolStaysItsOwn: only the first fragment of a call says what kind it is, and the others follow it.
func TestTheInputOfAFreeTextToolStaysItsOwn(t *testing.T) {
	s := openai.Chat{}.NewStream(head)
	var seen []string
	for _, tools := range [][]chat.ToolDelta{
		{{Index: 0, ID: "c1", Name: "run", Custom: true}, {Index: 1, ID: "c2", Name: "f"}},
		{{Index: 0, Arguments: "ls"}, {Index: 1, Arguments: "{}"}},
	} {
		frame := s.Event(&chat.Event{Deltas: []chat.Delta{{Tools: tools}}})
		seen = append(seen, gjson.GetBytes(frame[len("data: "):], "choices.0.delta.tool_calls").Raw)
	}
	assert.JSONEq(t, `[{"index":0,"id":"c1","type":"custom","custom":{"name":"run","input":""}},{"index":1,"id":"c2","type":"function","function":{"name":"f","arguments":""}}]`, seen[0])
	assert.JSONEq(t, `[{"index":0,"custom":{"input":"ls"}},{"index":1,"function":{"arguments":"{}"}}]`, seen[1])
}
