package clients

import (
	"context"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/tidwall/gjson"
)

// anthropicVendor has a model of each way to reason: with a budget, and adaptively.
var anthropicVendor = vendor{name: "anthropic", kind: "anthropic", base: "/v1", models: []string{"claude-sonnet-4-5", "claude-opus-4-8"},
	answer: anthropicAnswer, again: anthropicAgain, written: anthropicWritten}

// unnamed are members that the SDK has no words for: its version 2 speaks the API's version 2026-10-21, which has removed them.
// The gateway speaks 2023-06-01, where models of before claude-opus-4-7 take them
// (https://platform.claude.com/docs/en/api/versioning, 2026-11-30).
var unnamed = []string{"temperature", "top_p"}

// anthropicAgain: the decoder leaves out what it does not know, so that it is missing in what is sent again.
func anthropicAgain(ctx context.Context, url, _ string, body []byte, stream bool) (said, error) {
	var p anthropic.MessageNewParams
	if err := json.Unmarshal(body, &p); err != nil {
		return said{}, err
	}
	if err := settle(reflect.ValueOf(&p)); err != nil {
		return said{}, err
	}
	opts := []option.RequestOption{option.WithBaseURL(url), option.WithAPIKey(upstreamKey), option.WithMaxRetries(0)}
	for _, name := range unnamed {
		if v := gjson.GetBytes(body, name); v.Exists() {
			opts = append(opts, option.WithJSONSet(name, v.Value()))
		}
	}
	messages := anthropic.NewMessageService(opts...) // not NewClient, which reads the environment and the user's files
	if !stream {
		m, err := messages.New(ctx, p)
		if err != nil {
			return said{}, err
		}
		return saidByAnthropic(m), nil
	}
	events := messages.NewStreaming(ctx, p)
	var whole anthropic.Message
	for events.Next() {
		if err := whole.Accumulate(events.Current()); err != nil {
			return said{}, err
		}
	}
	return saidByAnthropic(&whole), events.Err()
}

func saidByAnthropic(m *anthropic.Message) said {
	s := said{prompt: m.Usage.InputTokens, completion: m.Usage.OutputTokens}
	for _, b := range m.Content {
		switch b := b.AsAny().(type) {
		case anthropic.TextBlock:
			s.text += b.Text
		case anthropic.ToolUseBlock:
			s.calls = append(s.calls, callOf(b.Name, string(b.Input)))
		}
	}
	switch m.StopReason {
	case anthropic.StopReasonEndTurn:
		s.finish = "stop"
	case anthropic.StopReasonToolUse:
		s.finish = "tool_calls"
	}
	return s
}

// anthropicWritten writes a body in the SDK's way: a tool's result that is a string as a list of one text, which the API takes
// for the same.
func anthropicWritten(body []byte) ([]byte, error) {
	var all map[string]any
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, err
	}
	for _, message := range all["messages"].([]any) {
		for _, block := range message.(object)["content"].([]any) {
			if b := block.(object); b["type"] == "tool_result" {
				if text, short := b["content"].(string); short {
					b["content"] = []any{object{"type": "text", "text": text}}
				}
			}
		}
	}
	return json.Marshal(all)
}

// anthropicAnswer is an answer as the Messages API gives it (https://docs.anthropic.com/en/api/messages-streaming,
// 2026-11-30).
func anthropicAnswer(s said, stream bool) (mediaType, body string) {
	blocks, reason := []object{}, "end_turn"
	if s.text != "" {
		blocks = append(blocks, object{"type": "text", "text": s.text})
	}
	for i, call := range s.calls {
		name, arguments, _ := strings.Cut(call, "{")
		reason = "tool_use"
		blocks = append(blocks, object{"type": "tool_use", "id": "toolu_" + strconv.Itoa(i), "name": name, "input": json.RawMessage("{" + arguments)})
	}
	message := object{"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-served", "content": blocks, "stop_reason": reason,
		"stop_sequence": nil, "usage": object{"input_tokens": s.prompt, "output_tokens": s.completion}}
	if !stream {
		return "application/json", text(message)
	}
	var b strings.Builder
	event := func(kind string, members object) {
		members["type"] = kind
		b.WriteString("event: " + kind + "\ndata: " + text(members) + "\n\n")
	}
	message["content"], message["stop_reason"], message["usage"] = []object{}, nil, object{"input_tokens": s.prompt, "output_tokens": 1}
	event("message_start", object{"message": message})
	for i, block := range blocks {
		said, delta := block["text"], object{"type": "text_delta"}
		begun := object{"type": "text", "text": ""}
		if block["type"] == "tool_use" {
			begun = object{"type": "tool_use", "id": block["id"], "name": block["name"], "input": object{}}
			said, delta["type"] = string(block["input"].(json.RawMessage)), "input_json_delta"
		}
		event("content_block_start", object{"index": i, "content_block": begun})
		for _, piece := range halves(said.(string)) {
			part := object{"type": delta["type"], "text": piece}
			if block["type"] == "tool_use" {
				part = object{"type": delta["type"], "partial_json": piece}
			}
			event("content_block_delta", object{"index": i, "delta": part})
		}
		event("content_block_stop", object{"index": i})
		event("ping", object{})
	}
	event("message_delta", object{"delta": object{"stop_reason": reason, "stop_sequence": nil}, "usage": object{"output_tokens": s.completion}})
	event("message_stop", object{})
	return "text/event-stream; charset=utf-8", b.String()
}

func halves(s string) []string { return []string{s[:len(s)/2], s[len(s)/2:]} }

// text is a JSON value.
func text(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err) // these are objects of ours
	}
	return string(out)
}
