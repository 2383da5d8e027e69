package main

import (
	"crypto/sha256"
	"encoding/json"
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

// twoProviders is a gateway with a Gemini and a server of OpenAI's dialect behind it, and what the first was sent.
type twoProviders struct {
	handler http.Handler
	gemini  []string
}

func newTwoProviders(t *testing.T) *twoProviders {
	t.Helper()
	g := &twoProviders{}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		if r.URL.Path != "/v1beta/models/gemini-3-flash:streamGenerateContent" {
			_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"},{"index":1,"delta":{"content":"b"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
			return
		}
		assert.Equal(t, "secret", r.Header.Get("X-Goog-Api-Key"))
		g.gemini = append(g.gemini, string(body))
		part := `{"functionCall":{"name":"get_weather","args":{"city":"Paris"}},"thoughtSignature":"c2ln"}`
		if len(g.gemini) > 1 {
			part = `{"text":"Windy."}`
		}
		_, _ = io.WriteString(w, `data: {"candidates":[{"content":{"parts":[`+part+`]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2}}`+"\r\n\r\n")
	}))
	t.Cleanup(upstream.Close)
	config := fmt.Sprintf(`{"version":"v","providers":[{"name":"google","kind":"gemini","vendor":"gemini","base_url":%q},{"name":"acme","kind":"openai","base_url":%q}],
		"channels":[{"provider":"google","models":["gemini-3-flash"],"credentials":[{"alias":"a","secret":"env:KEY"}]},
			{"provider":"acme","models":["up-1"],"credentials":[{"alias":"a","secret":"env:KEY"}]}],
		"routes":[{"alias":"fast","models":["gemini-3-flash","up-1"]}],"organizations":[{"name":"o","models":["*"]}],
		"keys":[{"sha256":"%x","organization":"o"}]}`, upstream.URL+"/v1beta", upstream.URL+"/v1", sha256.Sum256([]byte("sk-client")))
	var err error
	g.handler, err = wire(settings.Settings{}, func(string) string { return "secret" }, func(string) ([]byte, error) { return []byte(config), nil }, io.Discard)
	require.NoError(t, err)
	return g
}

func (g *twoProviders) chat(t *testing.T, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer sk-client")
	w := httptest.NewRecorder()
	g.handler.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	return w
}

// TestAToolLoopWithGemini: the signature of a call reaches the client and comes back to the provider with the call.
func TestAToolLoopWithGemini(t *testing.T) {
	g := newTwoProviders(t)
	const tools, ask = `"tools":[{"type":"function","function":{"name":"get_weather"}}]`, `{"role":"user","content":"Weather?"}`
	first := g.chat(t, `{"model":"fast",`+tools+`,"messages":[`+ask+`]}`)
	assert.Equal(t, "google", first.Header().Get("X-LLM-Provider"))
	message := gjson.Get(first.Body.String(), "choices.0.message")
	assert.Equal(t, "tool_calls", gjson.Get(first.Body.String(), "choices.0.finish_reason").Str)
	assert.JSONEq(t, `{"city":"Paris"}`, message.Get("tool_calls.0.function.arguments").Str)

	result, err := json.Marshal(map[string]string{"role": "tool", "tool_call_id": message.Get("tool_calls.0.id").Str, "content": "windy"})
	require.NoError(t, err)
	second := g.chat(t, `{"model":"fast","stream":true,`+tools+`,"messages":[`+ask+`,`+message.Raw+`,`+string(result)+`]}`)
	assert.Contains(t, second.Body.String(), `"content":"Windy."`)
	assert.True(t, strings.HasSuffix(second.Body.String(), "data: [DONE]\n\n"))
	require.Len(t, g.gemini, 2)
	assert.Equal(t, "c2ln", gjson.Get(g.gemini[1], "contents.1.parts.0.thoughtSignature").Str)
	assert.JSONEq(t, `{"role":"user","parts":[{"functionResponse":{"name":"get_weather","response":{"result":"windy"}}}]}`, gjson.Get(g.gemini[1], "contents.2").Raw)
}

// TestWhatAnAdapterCannotDoIsPassedBy: Gemini gives one choice, so that a request for two goes to the next candidate.
func TestWhatAnAdapterCannotDoIsPassedBy(t *testing.T) {
	g := newTwoProviders(t)
	got := g.chat(t, `{"model":"fast","n":2,"messages":[{"role":"user","content":"x"}]}`)
	assert.Equal(t, "acme", got.Header().Get("X-LLM-Provider"))
	assert.Contains(t, got.Header().Get("X-LLM-Routing-Reason"), "no_n")
	assert.Empty(t, g.gemini)
}
