package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"spillway/internal/settings"
)

// TestAToolLoopWhoseProvidersChange: a conversation in which every turn is answered by somebody else, because those before
// are down, and the last one by who began it. Each provider holds what it is sent to the rules of its API, and knows its own
// reasoning when it comes back.
func TestAToolLoopWhoseProvidersChange(t *testing.T) {
	var orders [][]string
	for _, o := range []string{"openai", "responses"} { // OpenAI's two formats
		orders = append(orders, []string{o, "anthropic", "google"}, []string{o, "google", "anthropic"}, []string{"anthropic", o, "google"},
			[]string{"anthropic", "google", o}, []string{"google", o, "anthropic"}, []string{"google", "anthropic", o})
	}
	for _, order := range orders {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %t", strings.Join(order, " then "), stream), func(t *testing.T) {
				l := newLoop(t, order)
				history := []any{map[string]any{"role": "user", "content": "Weather and time?"}}
				for turn, who := range []string{order[0], order[1], order[2], order[0]} {
					message := l.ask(t, stream, history, turn, who)
					calls := gjson.GetBytes(message, "tool_calls").Array()
					require.Len(t, calls, 2, "turn %d", turn)
					history = append(history, json.RawMessage(message))
					for _, c := range calls {
						history = append(history, map[string]any{"role": "tool", "tool_call_id": c.Get("id").Str, "content": "result of " + c.Get("function.name").Str})
					}
				}
				// The one that began is sent all four turns again, and both of its own as they were.
				l.ask(t, stream, history, 4, order[0])
				if first := l.vendors[order[0]]; first.signs {
					assert.Equal(t, first.issued[:2], first.returned, "its own reasoning comes back, in order and unchanged")
				}
			})
		}
	}
}

// loop is a gateway with three providers, of which some are down.
type loop struct {
	handler http.Handler
	order   []string
	vendors map[string]*vendor
	// called are those who were called, in order.
	called []string
}

// vendor is a provider that answers every turn with some reasoning and two calls.
type vendor struct {
	model string
	// path is where it takes requests.
	path string
	// check holds a body to the rules of the API, and returns the proofs of reasoning that came back with it.
	check func(*testing.T, gjson.Result) []string
	// signs says that its turns carry a proof of their reasoning, which must come back with them.
	signs bool
	// answer is the stream of one turn.
	answer func(turn int, proof string) string
	down   bool
	// issued are the proofs given out, returned those that the last call brought back.
	issued, returned []string
}

func newLoop(t *testing.T, order []string) *loop {
	t.Helper()
	l := &loop{order: order, vendors: map[string]*vendor{
		"openai":    {model: "gpt-4.1", path: "/openai/v1/chat/completions", check: checkOpenAI, answer: openAITurn},
		"responses": {model: "gpt-5.4", path: "/responses/v1/responses", check: checkResponses, signs: true, answer: responsesTurn},
		"anthropic": {model: "claude-opus-4-5", path: "/anthropic/v1/messages", check: checkAnthropic, signs: true, answer: anthropicTurn},
		"google":    {model: "gemini-3-flash", path: "/google/v1beta/models/gemini-3-flash:streamGenerateContent", check: checkGemini, signs: true, answer: geminiTurn},
	}}
	mux := http.NewServeMux()
	for name, v := range l.vendors {
		mux.HandleFunc("POST "+v.path, func(w http.ResponseWriter, r *http.Request) {
			l.called = append(l.called, name)
			body, _ := io.ReadAll(r.Body)
			v.take(t, w, body)
		})
	}
	upstream := httptest.NewServer(mux)
	t.Cleanup(upstream.Close)
	var models []string
	for _, name := range order {
		models = append(models, l.vendors[name].model)
	}
	list, err := json.Marshal(models)
	require.NoError(t, err)
	config := fmt.Sprintf(`{"version":"v","providers":[{"name":"openai","kind":"openai","vendor":"openai","base_url":"%[1]s/openai/v1"},
			{"name":"responses","kind":"openai","vendor":"openai","base_url":"%[1]s/responses/v1"},
			{"name":"anthropic","kind":"anthropic","vendor":"anthropic","base_url":"%[1]s/anthropic/v1"},{"name":"google","kind":"gemini","vendor":"gemini","base_url":"%[1]s/google/v1beta"}],
		"channels":[{"provider":"openai","models":["gpt-4.1"],"credentials":[{"alias":"a","secret":"env:KEY"}]},
			{"provider":"responses","models":["gpt-5.4"],"responses":"with_tools","credentials":[{"alias":"a","secret":"env:KEY"}]},
			{"provider":"anthropic","models":["claude-opus-4-5"],"credentials":[{"alias":"a","secret":"env:KEY"}]},
			{"provider":"google","models":["gemini-3-flash"],"credentials":[{"alias":"a","secret":"env:KEY"}]}],
		"routes":[{"alias":"fast","models":%[2]s,"max_retries":0}],"organizations":[{"name":"o","models":["*"]}],
		"keys":[{"sha256":"%[3]x","organization":"o"}]}`, upstream.URL, list, sha256.Sum256([]byte("sk-client")))
	l.handler, err = wire(settings.Settings{}, func(string) string { return "secret" }, func(string) ([]byte, error) { return []byte(config), nil }, io.Discard)
	require.NoError(t, err)
	return l
}

// take answers one call.
func (v *vendor) take(t *testing.T, w http.ResponseWriter, body []byte) {
	if !assert.True(t, gjson.ValidBytes(body), "the body is JSON: %s", body) {
		return
	}
	v.returned = v.check(t, gjson.ParseBytes(body))
	for _, proof := range v.returned {
		assert.Contains(t, v.issued, proof, "reasoning of somebody else: %s", body)
	}
	if v.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	turn := len(v.issued)
	proof := fmt.Sprintf("cHJvb2Y%sx%d", v.model[:3], turn)
	v.issued = append(v.issued, proof)
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, v.answer(turn, proof))
}

// ask makes one client call, which one provider must answer after those before it have failed, and returns the message.
func (l *loop) ask(t *testing.T, stream bool, history []any, turn int, who string) []byte {
	t.Helper()
	at := slices.Index(l.order, who)
	for i, name := range l.order {
		l.vendors[name].down = i < at
	}
	l.called = nil
	body, err := json.Marshal(map[string]any{"model": "fast", "stream": stream, "messages": history, "tools": []any{
		map[string]any{"type": "function", "function": map[string]any{"name": "get_weather", "parameters": map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}}}},
		map[string]any{"type": "function", "function": map[string]any{"name": "get_time", "parameters": map[string]any{"type": "object", "properties": map[string]any{}}}}}})
	require.NoError(t, err)
	got := chatWith(t, l.handler, string(body))
	require.Equal(t, who, got.Header().Get("X-LLM-Provider"), "turn %d", turn)
	require.Equal(t, fmt.Sprint(at > 0), got.Header().Get("X-LLM-Fallback"))
	require.Equal(t, l.order[:at+1], l.called, "turn %d: one call of each until one answers", turn)
	if !stream {
		require.Equal(t, "tool_calls", gjson.Get(got.Body.String(), "choices.0.finish_reason").Str)
		return []byte(gjson.Get(got.Body.String(), "choices.0.message").Raw)
	}
	return putTogether(t, got.Body.String())
}

// putTogether is the message of a stream, as a client keeps it for the next turn.
func putTogether(t *testing.T, body string) []byte {
	t.Helper()
	text, reasoning, finish := "", "", ""
	var details []json.RawMessage
	var calls []map[string]any
	for frame := range strings.SplitSeq(strings.TrimSuffix(body, "data: [DONE]\n\n"), "\n\n") {
		if frame == "" {
			continue
		}
		choice := gjson.Get(strings.TrimPrefix(frame, "data: "), "choices.0")
		require.True(t, choice.Exists(), frame)
		delta := choice.Get("delta")
		text += delta.Get("content").Str
		reasoning += delta.Get("reasoning_content").Str
		finish += choice.Get("finish_reason").Str
		for _, d := range delta.Get("reasoning_details").Array() {
			details = append(details, json.RawMessage(d.Raw))
		}
		for _, c := range delta.Get("tool_calls").Array() {
			if i := int(c.Get("index").Int()); i == len(calls) {
				calls = append(calls, map[string]any{"id": c.Get("id").Str, "type": "function", "function": map[string]any{"name": c.Get("function.name").Str, "arguments": ""}})
			}
			call := calls[c.Get("index").Int()]
			function := call["function"].(map[string]any) //nolint:forcetypeassert // made above
			function["arguments"] = fmt.Sprint(function["arguments"]) + c.Get("function.arguments").Str
			if extra := c.Get("extra_content"); extra.Exists() {
				call["extra_content"] = json.RawMessage(extra.Raw)
			}
		}
	}
	require.Equal(t, "tool_calls", finish)
	message := map[string]any{"role": "assistant", "content": text, "tool_calls": calls}
	if reasoning != "" {
		message["reasoning_content"] = reasoning
	}
	if details != nil {
		message["reasoning_details"] = details
	}
	raw, err := json.Marshal(message)
	require.NoError(t, err)
	return raw
}

// only asserts that an object has no members but those that the API knows: each of the three refuses what it does not know.
func only(t *testing.T, v gjson.Result, known ...string) {
	t.Helper()
	assert.True(t, v.IsObject(), v.Raw)
	v.ForEach(func(key, _ gjson.Result) bool {
		return assert.Contains(t, known, key.Str, "unknown parameter in %s", v.Raw)
	})
}

// openAITurn is a turn of a model that shows no reasoning.
func openAITurn(turn int, _ string) string {
	frame := func(delta, finish string) string {
		return fmt.Sprintf(`data: {"id":"chatcmpl-%d","object":"chat.completion.chunk","created":1,"model":"gpt-4.1","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`+"\n\n", turn, delta, finish)
	}
	return frame(`{"role":"assistant","content":"Let me see."}`, "null") +
		frame(fmt.Sprintf(`{"tool_calls":[{"index":0,"id":"call_w.%d","type":"function","function":{"name":"get_weather","arguments":"{\"city\":"}}]}`, turn), "null") +
		frame(`{"tool_calls":[{"index":0,"function":{"arguments":"\"Paris\"}"}}]}`, "null") +
		frame(fmt.Sprintf(`{"tool_calls":[{"index":1,"id":"call_t.%d","type":"function","function":{"name":"get_time","arguments":"{}"}}]}`, turn), "null") +
		frame(`{}`, `"tool_calls"`) + "data: [DONE]\n\n"
}

// checkOpenAI: reference/providers.md §3.1. That unknown members of a message are refused: "Unknown parameter:
// 'messages[2].tool_calls[0].index'", 2026-11-30.
func checkOpenAI(t *testing.T, body gjson.Result) []string {
	only(t, body, "model", "messages", "tools", "stream", "stream_options")
	var open []string // calls that wait for their result
	for _, m := range body.Get("messages").Array() {
		if m.Get("role").Str == "tool" {
			only(t, m, "role", "tool_call_id", "content")
			at := slices.Index(open, m.Get("tool_call_id").Str)
			if assert.GreaterOrEqual(t, at, 0, "a result without its call: %s", m.Raw) {
				open = slices.Delete(open, at, at+1)
			}
			continue
		}
		assert.Empty(t, open, "calls without their results before %s", m.Raw)
		only(t, m, "role", "content", "refusal", "name", "tool_calls", "audio", "function_call")
		for _, c := range m.Get("tool_calls").Array() {
			only(t, c, "id", "type", "function")
			only(t, c.Get("function"), "name", "arguments")
			assert.True(t, gjson.Parse(c.Get("function.arguments").Str).IsObject(), c.Raw)
			assert.NotContains(t, open, c.Get("id").Str)
			open = append(open, c.Get("id").Str)
		}
	}
	assert.Empty(t, open, "calls without their results at the end")
	return nil
}

// responsesTurn is a turn with a summary of encrypted reasoning, words and calls.
func responsesTurn(turn int, proof string) string {
	var b strings.Builder
	frame := func(kind, rest string) { fmt.Fprintf(&b, "event: %s\ndata: {\"type\":%[1]q%s}\n\n", kind, rest) }
	var done []string
	item := func(begun, ended, delta string) {
		at := fmt.Sprintf(`,"output_index":%d`, len(done))
		frame("response.output_item.added", at+`,"item":`+begun)
		kind, rest, _ := strings.Cut(delta, " ")
		frame(kind, at+rest)
		frame("response.output_item.done", at+`,"item":`+ended)
		done = append(done, ended)
	}
	call := func(id, name, arguments string) {
		form := fmt.Sprintf(`{"id":"fc_%s","type":"function_call","call_id":"call_r%[1]s","name":%q,"arguments":%%q}`, id, name)
		item(fmt.Sprintf(form, ""), fmt.Sprintf(form, arguments), fmt.Sprintf(`response.function_call_arguments.delta ,"delta":%q`, arguments))
	}
	response := func(status string) string {
		return fmt.Sprintf(`,"response":{"id":"resp_%d","object":"response","created_at":1,"status":%q,"error":null,"model":"gpt-5.4","output":[%s],"usage":{"input_tokens":3,"output_tokens":2}}`,
			turn, status, strings.Join(done, ","))
	}
	frame("response.created", response("in_progress"))
	item(`{"id":"rs_1","type":"reasoning","summary":[]}`,
		fmt.Sprintf(`{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Look it up."}],"encrypted_content":%q}`, proof),
		`response.reasoning_summary_text.delta ,"summary_index":0,"delta":"Look it up."`)
	item(`{"id":"msg_1","type":"message","role":"assistant","content":[]}`,
		`{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"output_text","text":"Let me see.","annotations":[]}]}`,
		`response.output_text.delta ,"content_index":0,"delta":"Let me see."`)
	call(fmt.Sprintf("w%d", turn), "get_weather", `{"city":"Paris"}`)
	call(fmt.Sprintf("t%d", turn), "get_time", `{}`)
	frame("response.completed", response("completed"))
	return b.String()
}

// checkResponses: reference/providers.md §3.2, columns and notes on the Responses API.
func checkResponses(t *testing.T, body gjson.Result) (proofs []string) {
	only(t, body, "model", "input", "tools", "include", "store", "stream", "stream_options")
	assert.Contains(t, body.Get("include").Raw, "reasoning.encrypted_content", "what is not kept has to be given back")
	assert.Equal(t, "false", body.Get("store").Raw)
	for _, tool := range body.Get("tools").Array() {
		only(t, tool, "type", "name", "description", "parameters", "strict")
		assert.True(t, tool.Get("parameters").IsObject() && tool.Get("strict").IsBool(), tool.Raw)
	}
	var open []string // calls that wait for their output
	reasoned := false
	for _, it := range body.Get("input").Array() {
		kind := it.Get("type").Str
		if kind != "function_call" && kind != "function_call_output" {
			assert.Empty(t, open, "calls without their outputs before %s", it.Raw)
		}
		assert.False(t, reasoned && kind != "function_call" && it.Get("role").Str != "assistant", "reasoning that nothing follows")
		reasoned = kind == "reasoning"
		switch kind {
		case "message":
			only(t, it, "type", "role", "content")
			if content := it.Get("content"); it.Get("role").Str == "assistant" && content.Type == gjson.String {
				continue // the simple form: output_text outside an item of the model's own is refused by strict servers
			}
			for _, c := range it.Get("content").Array() {
				assert.Equal(t, map[string]string{"user": "input_text", "assistant": "output_text"}[it.Get("role").Str], c.Get("type").Str, it.Raw)
			}
		case "reasoning":
			only(t, it, "type", "summary", "encrypted_content")
			assert.True(t, it.Get("summary").IsArray(), it.Raw)
			proofs = append(proofs, it.Get("encrypted_content").Str)
		case "function_call":
			only(t, it, "type", "call_id", "name", "arguments")
			assert.True(t, gjson.Parse(it.Get("arguments").Str).IsObject(), it.Raw)
			assert.NotContains(t, open, it.Get("call_id").Str)
			open = append(open, it.Get("call_id").Str)
		case "function_call_output":
			only(t, it, "type", "call_id", "output")
			at := slices.Index(open, it.Get("call_id").Str)
			if assert.GreaterOrEqual(t, at, 0, "an output without its call: %s", it.Raw) {
				open = slices.Delete(open, at, at+1)
			}
		default:
			assert.Fail(t, "an unknown item", it.Raw)
		}
	}
	assert.Empty(t, open, "calls without their outputs at the end")
	return proofs
}

// anthropicTurn is a turn with two blocks of reasoning, of which one is encrypted, and calls.
func anthropicTurn(turn int, proof string) string {
	var b strings.Builder
	frame := func(kind, rest string) { fmt.Fprintf(&b, "event: %s\ndata: {\"type\":%[1]q%s}\n\n", kind, rest) }
	block := func(index int, content, delta string) {
		frame("content_block_start", fmt.Sprintf(`,"index":%d,"content_block":%s`, index, content))
		if delta != "" {
			frame("content_block_delta", fmt.Sprintf(`,"index":%d,"delta":%s`, index, delta))
		}
		frame("content_block_stop", fmt.Sprintf(`,"index":%d`, index))
	}
	frame("message_start", fmt.Sprintf(`,"message":{"id":"msg_%d","model":"claude-opus-4-5","usage":{"input_tokens":3}}`, turn))
	block(0, fmt.Sprintf(`{"type":"thinking","thinking":"Look it up.","signature":"%s"}`, proof), "")
	block(1, fmt.Sprintf(`{"type":"redacted_thinking","data":"hidden-%s"}`, proof), "")
	block(2, `{"type":"text","text":"Let me see."}`, "")
	block(3, fmt.Sprintf(`{"type":"tool_use","id":"toolu_w%d","name":"get_weather","input":{}}`, turn), `{"type":"input_json_delta","partial_json":"{\"city\":\"Paris\"}"}`)
	block(4, fmt.Sprintf(`{"type":"tool_use","id":"toolu_t%d","name":"get_time","input":{}}`, turn), "")
	frame("message_delta", `,"delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":2}`)
	frame("message_stop", "")
	return b.String()
}

var toolUseID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// checkAnthropic: reference/providers.md §3.3.
func checkAnthropic(t *testing.T, body gjson.Result) (proofs []string) {
	only(t, body, "model", "max_tokens", "system", "messages", "tools", "tool_choice", "stream")
	assert.Positive(t, body.Get("max_tokens").Int())
	last := "assistant"
	var open []string
	used := map[string]bool{}
	for _, m := range body.Get("messages").Array() {
		only(t, m, "role", "content")
		assert.NotEqual(t, last, m.Get("role").Str, "the turns alternate, and the user begins")
		last = m.Get("role").Str
		content := m.Get("content").Array()
		assert.NotEmpty(t, content)
		if last == "user" {
			for _, c := range content[:min(len(open), len(content))] {
				only(t, c, "type", "tool_use_id", "content", "is_error")
				assert.Contains(t, open, c.Get("tool_use_id").Str, "the results come first in the turn after the calls: %s", m.Raw)
			}
			open = nil
		}
		for i, c := range content {
			switch c.Get("type").Str {
			case "text":
				assert.NotEmpty(t, strings.TrimSpace(c.Get("text").Str))
			case "thinking":
				only(t, c, "type", "thinking", "signature")
				assert.Equal(t, "Look it up.", c.Get("thinking").Str, "signed as it was")
				proofs = append(proofs, c.Get("signature").Str)
				hidden := content[i+1]
				assert.JSONEq(t, `{"type":"redacted_thinking","data":"hidden-`+c.Get("signature").Str+`"}`, hidden.Raw)
			case "redacted_thinking":
			case "tool_use":
				only(t, c, "type", "id", "name", "input")
				id := c.Get("id").Str
				assert.Regexp(t, toolUseID, id)
				assert.False(t, used[id], "an id for one call: %s", id)
				assert.True(t, c.Get("input").IsObject())
				used[id], open = true, append(open, id)
			case "tool_result":
				assert.Equal(t, "user", last)
			default:
				assert.Fail(t, "an unknown block", c.Raw)
			}
		}
	}
	assert.Equal(t, "user", last)
	return proofs
}

// geminiTurn is a turn with a thought, words and calls; the words and the first call are signed.
func geminiTurn(turn int, proof string) string {
	return fmt.Sprintf(`data: {"candidates":[{"content":{"parts":[{"text":"Look it up.","thought":true},{"text":"Let me see.","thoughtSignature":"words-%s"}]}}],"responseId":"r%d","modelVersion":"gemini-3-flash"}`+"\r\n\r\n", proof, turn) +
		fmt.Sprintf(`data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"get_weather","args":{"city":"Paris"}},"thoughtSignature":%q},{"functionCall":{"name":"get_time","args":{}}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2}}`+"\r\n\r\n", proof)
}

// checkGemini: reference/providers.md §3.4.
func checkGemini(t *testing.T, body gjson.Result) (proofs []string) {
	only(t, body, "contents", "systemInstruction", "tools", "toolConfig", "generationConfig")
	last := "model"
	var open, words []string
	for _, c := range body.Get("contents").Array() {
		only(t, c, "role", "parts")
		assert.NotEqual(t, last, c.Get("role").Str, "the turns alternate, and the user begins")
		last = c.Get("role").Str
		waiting := open
		open = nil
		for _, p := range c.Get("parts").Array() {
			only(t, p, "text", "thought", "functionCall", "functionResponse", "thoughtSignature")
			signature := p.Get("thoughtSignature").Str
			if call := p.Get("functionCall"); call.Exists() {
				only(t, call, "id", "name", "args")
				assert.True(t, call.Get("args").IsObject())
				assert.Equal(t, len(open) == 0, signature != "", "the first call of a step is signed: %s", c.Raw)
				open = append(open, call.Get("name").Str)
			}
			switch of, spoken := strings.CutPrefix(signature, "words-"); {
			case spoken:
				assert.True(t, p.Get("text").Exists())
				words = append(words, of)
			case signature != "" && signature != "skip_thought_signature_validator":
				proofs = append(proofs, signature)
			}
			if answer := p.Get("functionResponse"); answer.Exists() {
				only(t, answer, "id", "name", "response")
				if assert.NotEmpty(t, waiting, "a response without its call") {
					assert.Equal(t, waiting[0], answer.Get("name").Str, "the responses are those of the calls before, in their order")
					assert.JSONEq(t, `{"result":"result of `+waiting[0]+`"}`, answer.Get("response").Raw)
					waiting = waiting[1:]
				}
			}
		}
		assert.Empty(t, waiting, "every call has its response in the next turn")
	}
	assert.Equal(t, "user", last)
	assert.Equal(t, proofs, words, "the words are signed where the calls are")
	return proofs
}
