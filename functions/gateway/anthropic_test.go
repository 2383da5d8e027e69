package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"spillway/internal/settings"
)

// claude is an Anthropic that calls a tool after some reasoning, and answers when it has the result. It keeps what it was
// sent.
type claude struct{ bodies []string }

func (c *claude) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.bodies = append(c.bodies, string(body))
	w.Header().Set("Content-Type", "text/event-stream")
	frame := func(data string) { _, _ = io.WriteString(w, "data: "+data+"\n\n") }
	frame(`{"type":"message_start","message":{"id":"msg_1","model":"claude-served","usage":{"input_tokens":3}}}`)
	if len(c.bodies) == 1 {
		frame(`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"Look it up","signature":"c2ln"}}`)
		frame(`{"type":"content_block_stop","index":0}`)
		frame(`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"get_weather","input":{}}}`)
		frame(`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"city\":\"Paris\"}"}}`)
		frame(`{"type":"content_block_stop","index":1}`)
		frame(`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":2}}`)
	} else {
		frame(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Windy."}}`)
		frame(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`)
	}
	frame(`{"type":"message_stop"}`)
}

// newClaude is a gateway with a Claude, and what answers requests that it cannot serve.
func newClaude(t *testing.T) (*claude, http.Handler) {
	t.Helper()
	c := &claude{}
	mux := http.NewServeMux()
	mux.Handle("POST /v1/messages", c)
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"},{"index":1,"delta":{"content":"b"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	})
	upstream := httptest.NewServer(mux)
	t.Cleanup(upstream.Close)
	config := fmt.Sprintf(`{"version":"v","providers":[{"name":"anthropic","kind":"anthropic","vendor":"anthropic","base_url":%q},{"name":"acme","kind":"openai","base_url":%[1]q}],
		"channels":[{"provider":"anthropic","models":["claude-opus-5-5"],"credentials":[{"alias":"a","secret":"env:KEY"}]},
			{"provider":"acme","models":["up-1"],"credentials":[{"alias":"a","secret":"env:KEY"}]}],
		"routes":[{"alias":"fast","models":["claude-opus-5-5","up-1"]}],"organizations":[{"name":"o","models":["*"]}],
		"keys":[{"sha256":"%x","organization":"o"}]}`, upstream.URL+"/v1", sha256.Sum256([]byte("sk-client")))
	h, err := wire(settings.Settings{}, func(string) string { return "secret" }, func(string) ([]byte, error) { return []byte(config), nil }, io.Discard)
	require.NoError(t, err)
	return c, h
}

// TestAToolLoopWithAnthropic: the reasoning before a call reaches the client, and comes back to the provider as it was.
func TestAToolLoopWithAnthropic(t *testing.T) {
	c, h := newClaude(t)
	const head = `{"model":"fast","tools":[{"type":"function","function":{"name":"get_weather"}}],"messages":[{"role":"user","content":"Weather?"}`
	first := chatWith(t, h, head+`]}`)
	assert.Equal(t, "anthropic", first.Header().Get("X-LLM-Provider"))
	assert.Equal(t, "claude-served", gjson.Get(first.Body.String(), "model").Str)
	message := gjson.Get(first.Body.String(), "choices.0.message")
	assert.Equal(t, "Look it up", message.Get("reasoning_content").Str)
	assert.JSONEq(t, `{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}`,
		gjson.Get(first.Body.String(), "usage").Raw)

	second := chatWith(t, h, head+`,`+message.Raw+`,{"role":"tool","tool_call_id":"toolu_1","content":"windy"}]}`)
	assert.Equal(t, "Windy.", gjson.Get(second.Body.String(), "choices.0.message.content").Str)
	require.Len(t, c.bodies, 2)
	assert.JSONEq(t, `[{"role":"user","content":[{"type":"text","text":"Weather?"}]},
		{"role":"assistant","content":[{"type":"thinking","thinking":"Look it up","signature":"c2ln"},{"type":"tool_use","id":"toolu_1","name":"get_weather","input":{"city":"Paris"}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"windy"}]}]`, gjson.Get(c.bodies[1], "messages").Raw)
}

// TestWhatAModelOfAnthropicsCannotDoIsPassedBy: no choices beside the first, and with this model no forced tool.
func TestWhatAModelOfAnthropicsCannotDoIsPassedBy(t *testing.T) {
	for name, tt := range map[string]struct{ body, reason string }{
		"two choices":   {`"n":2`, "no_n"},
		"a forced tool": {`"n":2,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required"`, "no_forced_tool"},
	} {
		t.Run(name, func(t *testing.T) {
			c, h := newClaude(t)
			got := chatWith(t, h, `{"model":"fast","messages":[{"role":"user","content":"x"}],`+tt.body+`}`)
			assert.Equal(t, "acme", got.Header().Get("X-LLM-Provider"))
			assert.Contains(t, got.Header().Get("X-LLM-Routing-Reason"), tt.reason)
			assert.Empty(t, c.bodies)
		})
	}
}

func chatWith(t *testing.T, h http.Handler, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer sk-client")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	return w
}
