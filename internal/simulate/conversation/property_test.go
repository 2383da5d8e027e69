package conversation

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"spillway/internal/provider/wire"
)

// TestAStreamedCallAndTheSameCallUnstreamedAreEqual: any answer, written in each provider's format, whole or in frames, cut
// into any pieces on its way, is the same to a client: message, reasoning, calls, finish reason and usage.
func TestAStreamedCallAndTheSameCallUnstreamedAreEqual(t *testing.T) {
	const plain, streaming = `{"model":"fast","messages":[{"role":"user","content":"x"}]}`, `{"model":"fast","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"x"}]}`
	for who, write := range writers {
		t.Run(who, func(t *testing.T) {
			a := adapters[who]
			rapid.Check(t, func(rt *rapid.T) {
				want := drawAnswer(rt)
				pieces := rapid.SliceOfN(rapid.IntRange(1, 200), 1, 20).Draw(rt, "pieces")
				for _, mode := range []struct {
					name, body string
					upstream   bool // whether the upstream call streams
					wishes     map[string]string
				}{
					{"plain over a plain call", plain, false, nil},
					{"plain over a stream", plain, true, nil},
					{"a stream", streaming, true, nil},
					{"a stream of whole calls", streaming, true, map[string]string{"X-LLM-Tool-Deltas": "whole"}},
					{"a stream held back until its end", streaming, true, map[string]string{"X-LLM-Commit": "complete"}},
				} {
					r := Reply{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: write.whole(want)}
					if mode.upstream {
						r.Header.Set("Content-Type", "text/event-stream")
						r.Body = write.frames(want, func(s string) []string { return drawCuts(rt, s) })
					}
					n := 0
					got := a.serve(t, mode.body, Channel{Plain: !mode.upstream, Client: mode.wishes}, arriving(r, func(int) int { n++; return pieces[n%len(pieces)] }))
					require.Equal(rt, want.meaning(), inOneSpelling(rt, got.meaning(rt)), "%s of %s", mode.name, r.Body)
				}
			})
		})
	}
}

// inOneSpelling is a meaning whose arguments are spelt as we spell JSON: a decoder may spell them its own way.
func inOneSpelling(t *rapid.T, m Meaning) Meaning {
	for i := range m.Choices {
		for j := range m.Choices[i].Calls {
			c := &m.Choices[i].Calls[j]
			var v any
			require.NoError(t, json.Unmarshal([]byte(c.Arguments), &v))
			c.Arguments = asJSON(v)
		}
	}
	return m
}

// arriving is a provider whose reply comes in the pieces that cut gives.
func arriving(r Reply, cut func(int) int) func(testing.TB) *wire.Client {
	return func(t testing.TB) *wire.Client {
		s := &script{cut: cut, rest: r.raw(), asked: make(chan struct{}), over: make(chan struct{})}
		client := &wire.Client{Dial: func(context.Context, string, string) (net.Conn, error) { return s, nil }}
		t.Cleanup(client.Close)
		return client
	}
}

// drawn is an answer of no format.
type drawn struct {
	said Said
	used Counts
}

func (d drawn) meaning() Meaning { return Meaning{Choices: []Said{d.said}, Usage: d.used} }

func drawAnswer(t *rapid.T) (d drawn) {
	d.said.Reasoning = rapid.StringN(0, 12, -1).Draw(t, "reasoning")
	d.said.Calls = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Made {
		arguments := map[string]any{}
		if rapid.Bool().Draw(t, "has arguments") {
			arguments = map[string]any{"a": rapid.StringN(0, 12, -1).Draw(t, "a"), "b": []any{1, nil, map[string]any{}}}
		}
		return Made{Name: rapid.StringMatching(`[a-z_]{1,8}`).Draw(t, "name"), Arguments: asJSON(arguments)}
	}), 0, 3).Draw(t, "calls")
	if len(d.said.Calls) == 0 {
		d.said.Calls = nil
	}
	d.said.Text = rapid.StringN(min(1, 1-min(1, len(d.said.Calls))), 20, -1).Draw(t, "text")
	d.said.Finish = rapid.SampledFrom([]string{"stop", "length", "content_filter"}).Draw(t, "finish")
	if len(d.said.Calls) > 0 && d.said.Finish == "stop" {
		d.said.Finish = "tool_calls"
	}
	d.used.Reasoning = rapid.Int64Range(0, 50).Draw(t, "reasoning tokens")
	d.used.Completion = d.used.Reasoning + rapid.Int64Range(1, 50).Draw(t, "other tokens")
	d.used.Cached = rapid.Int64Range(0, 50).Draw(t, "cached")
	d.used.Prompt = d.used.Cached + rapid.Int64Range(1, 50).Draw(t, "not cached")
	return d
}

// drawCuts cuts a text anywhere between its characters; a piece may be empty.
func drawCuts(t *rapid.T, s string) (pieces []string) {
	for runes := []rune(s); len(runes) > 0; {
		n := rapid.IntRange(0, len(runes)).Draw(t, "cut")
		if len(pieces) > 8 {
			n = len(runes)
		}
		pieces, runes = append(pieces, string(runes[:n])), runes[n:]
	}
	return pieces
}

// writer writes an answer in a provider's format: whole, and in frames, with its texts cut by cut.
type writer struct {
	whole  func(drawn) string
	frames func(d drawn, cut func(string) []string) string
}

// writers write the formats of reference/providers.md §4.
var writers = map[string]writer{
	"openai":    {wholeOpenAI, framesOpenAI},
	"responses": {wholeResponses, framesResponses},
	"anthropic": {wholeAnthropic, framesAnthropic},
	"gemini":    {wholeGemini, framesGemini},
}

type object = map[string]any

func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts and numbers
	}
	return string(b)
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func callID(i int) string { return fmt.Sprintf("call_%d", i) }

func openAIUsage(d drawn) object {
	return object{"prompt_tokens": d.used.Prompt, "completion_tokens": d.used.Completion, "total_tokens": d.used.Prompt + d.used.Completion,
		"prompt_tokens_details": object{"cached_tokens": d.used.Cached}, "completion_tokens_details": object{"reasoning_tokens": d.used.Reasoning}}
}

func wholeOpenAI(d drawn) string {
	message := object{"role": "assistant", "content": d.said.Text, "reasoning_content": d.said.Reasoning}
	var calls []any
	for i, c := range d.said.Calls {
		calls = append(calls, object{"id": callID(i), "type": "function", "function": object{"name": c.Name, "arguments": c.Arguments}})
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	return asJSON(object{"id": "chatcmpl-1", "created": 1, "model": "m", "choices": []any{object{"index": 0, "message": message, "finish_reason": d.said.Finish}}, "usage": openAIUsage(d)})
}

func framesOpenAI(d drawn, cut func(string) []string) string {
	var b strings.Builder
	frame := func(delta object, finish any) {
		fmt.Fprintf(&b, "data: %s\n\n", asJSON(object{"id": "chatcmpl-1", "created": 1, "model": "m", "choices": []any{object{"index": 0, "delta": delta, "finish_reason": finish}}}))
	}
	frame(object{"role": "assistant", "content": ""}, nil)
	for _, s := range cut(d.said.Reasoning) {
		frame(object{"reasoning_content": s}, nil)
	}
	for _, s := range cut(d.said.Text) {
		frame(object{"content": s}, nil)
	}
	for i, c := range d.said.Calls {
		frame(object{"tool_calls": []any{object{"index": i, "id": callID(i), "type": "function", "function": object{"name": c.Name, "arguments": ""}}}}, nil)
		for _, s := range cut(c.Arguments) {
			frame(object{"tool_calls": []any{object{"index": i, "function": object{"arguments": s}}}}, nil)
		}
	}
	frame(object{}, d.said.Finish)
	fmt.Fprintf(&b, "data: %s\n\ndata: [DONE]\n\n", asJSON(object{"id": "chatcmpl-1", "created": 1, "model": "m", "choices": []any{}, "usage": openAIUsage(d)}))
	return b.String()
}

// item is one item of a Responses output: as it begins, its texts and the name of their events, and as it ends.
type item struct {
	begun, ended object
	text, event  string
}

func responseItems(d drawn) (items []item) {
	if s := d.said.Reasoning; s != "" {
		items = append(items, item{object{"type": "reasoning", "id": "rs_1", "summary": []any{}},
			object{"type": "reasoning", "id": "rs_1", "summary": []any{object{"type": "summary_text", "text": s}}}, s, "response.reasoning_summary_text.delta"})
	}
	if d.said.Text != "" {
		items = append(items, item{object{"type": "message", "id": "msg_1", "role": "assistant", "content": []any{}},
			object{"type": "message", "id": "msg_1", "role": "assistant", "content": []any{object{"type": "output_text", "text": d.said.Text, "annotations": []any{}}}}, d.said.Text, "response.output_text.delta"})
	}
	for i, c := range d.said.Calls {
		call := func(arguments string) object {
			return object{"type": "function_call", "id": "fc_" + callID(i), "call_id": callID(i), "name": c.Name, "arguments": arguments}
		}
		items = append(items, item{call(""), call(c.Arguments), c.Arguments, "response.function_call_arguments.delta"})
	}
	return items
}

func response(d drawn, items []item) object {
	output := make([]any, 0, len(items))
	for _, it := range items {
		output = append(output, it.ended)
	}
	r := object{"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed", "output": output, "usage": object{
		"input_tokens": d.used.Prompt, "input_tokens_details": object{"cached_tokens": d.used.Cached},
		"output_tokens": d.used.Completion, "output_tokens_details": object{"reasoning_tokens": d.used.Reasoning}}}
	if reason := map[string]string{"length": "max_output_tokens", "content_filter": "content_filter"}[d.said.Finish]; reason != "" {
		r["status"], r["incomplete_details"] = "incomplete", object{"reason": reason}
	}
	return r
}

func wholeResponses(d drawn) string { return asJSON(response(d, responseItems(d))) }

func framesResponses(d drawn, cut func(string) []string) string {
	var b strings.Builder
	frame := func(kind string, members object) {
		members["type"] = kind
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", kind, asJSON(members))
	}
	items := responseItems(d)
	frame("response.created", object{"response": object{"id": "resp_1", "created_at": 1, "model": "m", "status": "in_progress", "output": []any{}}})
	for i, it := range items {
		frame("response.output_item.added", object{"output_index": i, "item": it.begun})
		for _, s := range cut(it.text) {
			frame(it.event, object{"output_index": i, "item_id": it.begun["id"], "content_index": 0, "summary_index": 0, "delta": s})
		}
		frame("response.output_item.done", object{"output_index": i, "item": it.ended})
	}
	whole := response(d, items)
	frame(fmt.Sprint("response.", whole["status"]), object{"response": whole})
	return b.String()
}

// block is one block of Anthropic's: as it begins, its text and the name of its deltas, and as it is whole.
type block struct {
	begun, whole object
	text, delta  string
	member       string
}

func blocks(d drawn) (all []block) {
	if s := d.said.Reasoning; s != "" {
		all = append(all, block{object{"type": "thinking", "thinking": "", "signature": "c2ln"}, object{"type": "thinking", "thinking": s, "signature": "c2ln"}, s, "thinking_delta", "thinking"})
	}
	if d.said.Text != "" {
		all = append(all, block{object{"type": "text", "text": ""}, object{"type": "text", "text": d.said.Text}, d.said.Text, "text_delta", "text"})
	}
	for i, c := range d.said.Calls {
		all = append(all, block{object{"type": "tool_use", "id": callID(i), "name": c.Name, "input": object{}},
			object{"type": "tool_use", "id": callID(i), "name": c.Name, "input": raw(c.Arguments)}, c.Arguments, "input_json_delta", "partial_json"})
	}
	return all
}

func anthropicInput(d drawn) object {
	return object{"input_tokens": d.used.Prompt - d.used.Cached, "cache_read_input_tokens": d.used.Cached, "output_tokens": 0}
}

func anthropicStop(d drawn) string {
	return map[string]string{"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}[d.said.Finish]
}

func wholeAnthropic(d drawn) string {
	content := []any{}
	for _, b := range blocks(d) {
		content = append(content, b.whole)
	}
	usage := anthropicInput(d)
	usage["output_tokens"], usage["output_tokens_details"] = d.used.Completion, object{"thinking_tokens": d.used.Reasoning}
	return asJSON(object{"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": anthropicStop(d), "usage": usage})
}

func framesAnthropic(d drawn, cut func(string) []string) string {
	var b strings.Builder
	frame := func(kind string, members object) {
		members["type"] = kind
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", kind, asJSON(members))
	}
	frame("message_start", object{"message": object{"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []any{}, "usage": anthropicInput(d)}})
	for i, k := range blocks(d) {
		frame("content_block_start", object{"index": i, "content_block": k.begun})
		for _, s := range cut(k.text) {
			frame("content_block_delta", object{"index": i, "delta": object{"type": k.delta, k.member: s}})
		}
		frame("content_block_stop", object{"index": i})
	}
	frame("message_delta", object{"delta": object{"stop_reason": anthropicStop(d)},
		"usage": object{"output_tokens": d.used.Completion, "output_tokens_details": object{"thinking_tokens": d.used.Reasoning}}})
	frame("message_stop", object{})
	return b.String()
}

func geminiFrame(d drawn, parts []any, last bool) string {
	c := object{"index": 0, "content": object{"role": "model", "parts": parts}}
	f := object{"candidates": []any{c}, "responseId": "r", "modelVersion": "m"}
	if last {
		c["finishReason"] = map[string]string{"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}[d.said.Finish]
		f["usageMetadata"] = object{"promptTokenCount": d.used.Prompt, "cachedContentTokenCount": d.used.Cached,
			"candidatesTokenCount": d.used.Completion - d.used.Reasoning, "thoughtsTokenCount": d.used.Reasoning}
	}
	return asJSON(f)
}

// geminiParts are the parts of an answer. A call is always one part.
func geminiParts(d drawn, cut func(string) []string) (parts []any) {
	for _, s := range cut(d.said.Reasoning) {
		parts = append(parts, object{"text": s, "thought": true})
	}
	for _, s := range cut(d.said.Text) {
		parts = append(parts, object{"text": s})
	}
	for _, c := range d.said.Calls {
		parts = append(parts, object{"functionCall": object{"name": c.Name, "args": raw(c.Arguments)}})
	}
	return parts
}

func wholeGemini(d drawn) string {
	return geminiFrame(d, geminiParts(d, func(s string) []string { return []string{s} }), true)
}

func framesGemini(d drawn, cut func(string) []string) string {
	var b strings.Builder
	parts := geminiParts(d, cut)
	for i, p := range parts {
		fmt.Fprintf(&b, "data: %s\r\n\r\n", geminiFrame(d, []any{p}, i == len(parts)-1))
	}
	return b.String()
}
