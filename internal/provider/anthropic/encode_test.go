package anthropic_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"spillway/internal/chat"
	dialect "spillway/internal/dialect/openai"
	"spillway/internal/provider/anthropic"
	"spillway/internal/simulate/conversation"
)

// FuzzEncode: whatever a client asks, the request stays as it was, and what is sent is what the API takes: turns that
// alternate and begin with the user's, no text without content, and results that belong to the calls before them.
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
		sent, refused := anthropic.Encode(adapter.Call(req, conversation.Channel{Model: model}))
		require.Equal(t, untouched, req)
		if refused != "" {
			return
		}
		require.True(t, jsontext.Value(sent).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)))
		checkTurns(t, gjson.ParseBytes(sent).Get("messages").Array())
	})
}

func checkTurns(t *testing.T, turns []gjson.Result) {
	t.Helper()
	require.NotEmpty(t, turns)
	var open []string
	for i, turn := range turns {
		require.Equal(t, []string{"user", "assistant"}[i%2], turn.Get("role").Str)
		require.NotEmpty(t, turn.Get("content").Array())
		var results, calls []string
		for n, b := range turn.Get("content").Array() {
			switch b.Get("type").Str {
			case "text":
				require.NotEmpty(t, strings.TrimSpace(b.Get("text").Str))
			case "tool_use":
				calls = append(calls, b.Get("id").Str)
			case "tool_result":
				require.Len(t, results, n, "a result stands behind other content")
				results = append(results, b.Get("tool_use_id").Str)
			}
		}
		require.ElementsMatch(t, open, results)
		open = calls
	}
	require.Empty(t, open)
}

// TestLargeRequestsAreWrittenInTime: no list that a client may make long is searched again and again.
func TestLargeRequestsAreWrittenInTime(t *testing.T) {
	const many = 20_000
	var calls, results, tools strings.Builder
	for i := range many {
		fmt.Fprintf(&calls, `{"id":"%s","function":{"name":"f%d"}},`, strings.NewReplacer("0", "!", "1", ".").Replace(fmt.Sprintf("%015b", i)), i)
		fmt.Fprintf(&results, `,{"role":"tool","tool_call_id":"%s","content":"x"}`, strings.NewReplacer("0", "!", "1", ".").Replace(fmt.Sprintf("%015b", i)))
		fmt.Fprintf(&tools, `{"type":"function","function":{"name":"f%d"}},`, i)
	}
	list := strings.TrimSuffix(tools.String(), ",")
	var wide strings.Builder
	for i := range 40 {
		fmt.Fprintf(&wide, `"d%d":{"type":"object","properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%[2]d"}}},`, i, i+1)
	}
	for name, tt := range map[string]struct{ body, refused string }{
		"calls whose ids come out the same": {`"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[` + strings.TrimSuffix(calls.String(), ",") + `]}` + results.String() + `]`, ""},
		"as many tools as are allowed":      {`"messages":[{"role":"user","content":"x"}],"tools":[` + list + `],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[` + list + `]}}`, ""},
		"a schema whose references double": {`"messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"$ref":"#/$defs/d0","$defs":{` + wide.String() + `"d40":{"type":"string"}}}}}`,
			"response_format.json_schema.schema"},
	} {
		t.Run(name, func(t *testing.T) {
			req := conversation.Parse(t, `{"model":"fast",`+tt.body+`}`)
			began := time.Now()
			body, refused := anthropic.Encode(adapter.Call(req, conversation.Channel{}))
			assert.Less(t, time.Since(began), 5*time.Second)
			assert.Equal(t, tt.refused == "", refused == "", refused)
			assert.True(t, strings.HasPrefix(refused, tt.refused), refused)
			assert.Equal(t, tt.refused == "", len(body) > 0)
		})
	}
}

// TestDropsOfWhatThereAreNoWordsFor: what a channel drops is not refused, as the route takes it that it is not.
func TestDropsOfWhatThereAreNoWordsFor(t *testing.T) {
	for name, asked := range map[string]string{"n": `"n":2`, "logprobs": `"logprobs":true`, "logit_bias": `"logit_bias":{"1":1}`} {
		t.Run(name, func(t *testing.T) {
			req := conversation.Parse(t, `{"model":"fast","messages":[{"role":"user","content":"x"}],`+asked+`}`)
			_, refused := anthropic.Encode(adapter.Call(req, conversation.Channel{}))
			assert.Equal(t, name, refused)
			body, refused := anthropic.Encode(adapter.Call(req, conversation.Channel{Drops: []string{name}}))
			assert.Empty(t, refused)
			assert.NotEmpty(t, body)
		})
	}
}

// TestOneRequestForEveryCandidate: what one candidate's channel leaves out is there for the next.
func TestOneRequestForEveryCandidate(t *testing.T) {
	req := conversation.Parse(t, `{"model":"fast","messages":[{"role":"user","content":"x"}],"temperature":0.5,"stop":"END"}`)
	_, _ = anthropic.Encode(adapter.Call(req, conversation.Channel{Drops: []string{"temperature", "stop"}}))
	body, _ := anthropic.Encode(adapter.Call(req, conversation.Channel{}))
	assert.JSONEq(t, `{"model":"claude-sonnet-4-5","max_tokens":4096,"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],
		"temperature":0.5,"stop_sequences":["END"],"stream":true}`, string(body))
	assert.Equal(t, chat.OpenAIChat, req.Dialect)
}
