package simulate

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// openAIChat is POST /v1/chat/completions.
// Shapes: OpenAI's OpenAPI 2.3.0 (2026-08-21), https://platform.openai.com/docs/api-reference/chat.
type openAIChat struct{}

type chatRequest struct {
	Model         string        `json:"model"`
	Messages      []chatMessage `json:"messages"`
	Stream        bool          `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxTokens           int             `json:"max_tokens"`
	MaxCompletionTokens int             `json:"max_completion_tokens"`
	N                   int             `json:"n"`
	Tools               []chatTool      `json:"tools"`
	ToolChoice          json.RawMessage `json:"tool_choice"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls"`
	ResponseFormat      struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type chatTool struct {
	Function struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
	} `json:"function"`
}

// neutral reads a message's content: a string, or the text parts of an array.
// Content of another shape says nothing.
func (m chatMessage) neutral() message {
	out := message{assistant: m.Role == "assistant", user: m.Role == "user"}
	if json.Unmarshal(m.Content, &out.text) == nil {
		return out
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	_ = json.Unmarshal(m.Content, &parts)
	for _, p := range parts {
		out.text += p.Text
		if p.Type == "image_url" {
			out.images++
		}
	}
	return out
}

func (openAIChat) name() string { return "" }

func (openAIChat) peek(body []byte) (model string, stream bool) {
	var head struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
	}
	_ = json.Unmarshal(body, &head) // a body that is no JSON names no model
	return head.Model, head.Stream
}

// admit takes any key that does not say that it is bad, and none.
func (openAIChat) admit(h http.Header) *failure {
	if strings.HasPrefix(h.Get("Authorization"), "Bearer bad") {
		return &failure{kind: badKey}
	}
	return nil
}

func (openAIChat) parse(body []byte) (request, *failure) {
	var in chatRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return request{}, invalid("We could not parse the JSON body of your request.")
	}
	switch {
	case in.Model == "":
		return request{}, invalid("you must provide a model parameter")
	case len(in.Messages) == 0:
		return request{}, invalid("Invalid 'messages': empty array. Expected an array with minimum length 1.")
	}
	a := asked{model: in.Model, stream: in.Stream, usage: in.StreamOptions.IncludeUsage, limit: max(in.MaxTokens, in.MaxCompletionTokens),
		choices: in.N, choice: in.choice(), oneCall: in.ParallelToolCalls != nil && !*in.ParallelToolCalls,
		anyObject: in.ResponseFormat.Type == "json_object"}
	if in.ResponseFormat.Type == "json_schema" {
		a.schema = in.ResponseFormat.JSONSchema.Schema
	}
	for _, m := range in.Messages {
		a.messages = append(a.messages, m.neutral())
	}
	for _, t := range in.Tools {
		a.tools = append(a.tools, tool{t.Function.Name, t.Function.Parameters})
	}
	return a.plan(), nil
}

// choice is a word or an object, so that one of the two readings fails.
func (in chatRequest) choice() choice {
	var word string
	var named struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	_ = json.Unmarshal(in.ToolChoice, &word)
	_ = json.Unmarshal(in.ToolChoice, &named)
	return choice{none: word == "none", required: word == "required", name: named.Function.Name}
}

func (openAIChat) refuse(f failure, _ int) Reply {
	if f.kind == rejectedKey {
		return Reply{Status: 400, Body: googleRejectedKey}
	}
	return openAIRefuse(f, openAIWords)
}

func (openAIChat) identify(n int) http.Header { return http.Header{"X-Request-Id": {RequestID(n)}} }

// failed opens a stream and puts the error's envelope into its next event.
func (o openAIChat) failed(a answer, f failure) draft {
	inside := o.refuse(f, a.n).Body
	return draft{open: append(o.answer(a).open, frame{data: inside}), plain: inside}
}

// empty has no choices.
func (openAIChat) empty(a answer) draft {
	c := completion{a}
	plain := c
	plain.choices = 0
	return draft{open: []frame{c.frame([]any{}, nil)}, done: openAIDone, plain: plain.plain()}
}

// openAIDone ends a stream of chunks.
var openAIDone = []frame{{data: "[DONE]"}}

func (openAIChat) answer(a answer) draft {
	c := completion{a}
	return draft{open: c.openFrames(), content: c.contentFrames(), finish: c.finishFrames(), done: openAIDone, plain: c.plain()}
}

// completion is one answer on its way to frames or to a body.
type completion struct{ answer }

func (c completion) reason() string {
	switch {
	case c.cut:
		return "length"
	case len(c.calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

func (c completion) openFrames() []frame {
	var out []frame
	for i := range c.choices {
		out = append(out, c.chunk(i, map[string]any{"role": "assistant", "content": ""}, nil))
	}
	return out
}

func (c completion) contentFrames() []frame {
	var out []frame
	each := func(delta func(choice int) map[string]any) {
		for i := range c.choices {
			out = append(out, c.chunk(i, delta(i), nil))
		}
	}
	for _, piece := range c.text {
		each(func(int) map[string]any { return map[string]any{"content": piece} })
	}
	for k, call := range c.calls {
		each(func(choice int) map[string]any {
			return calls(map[string]any{"index": k, "id": c.callID(choice, k), "type": "function",
				"function": map[string]any{"name": call.name, "arguments": ""}})
		})
		for _, piece := range call.pieces {
			each(func(int) map[string]any {
				return calls(map[string]any{"index": k, "function": map[string]any{"arguments": piece}})
			})
		}
	}
	return out
}

func calls(call map[string]any) map[string]any { return map[string]any{"tool_calls": []any{call}} }

func (c completion) finishFrames() []frame {
	var out []frame
	for i := range c.choices {
		out = append(out, c.chunk(i, map[string]any{}, c.reason()))
	}
	if c.usage {
		out = append(out, c.frame([]any{}, c.counts()))
	}
	return out
}

// chunk is one event of one choice.
func (c completion) chunk(index int, delta map[string]any, reason any) frame {
	return c.frame([]any{map[string]any{
		"index": index, "delta": delta, "logprobs": nil, "finish_reason": reason,
	}}, nil)
}

// frame has a usage member only when the request asked for usage.
func (c completion) frame(choices []any, usage any) frame {
	out := map[string]any{
		"id": "chatcmpl-" + c.id(), "object": "chat.completion.chunk", "created": c.created,
		"model": c.model, "system_fingerprint": fingerprint, "choices": choices,
	}
	if c.usage {
		out["usage"] = usage
	}
	return frame{data: encode(out)}
}

func (c completion) plain() string {
	var choices []any
	for i := range c.choices {
		message := map[string]any{"role": "assistant", "content": c.said(), "refusal": nil}
		if len(c.calls) > 0 {
			var all []any
			for k, call := range c.calls {
				all = append(all, map[string]any{"id": c.callID(i, k), "type": "function",
					"function": map[string]any{"name": call.name, "arguments": call.arguments()}})
			}
			message["content"], message["tool_calls"] = nil, all
		}
		choices = append(choices, map[string]any{
			"index": i, "message": message, "logprobs": nil, "finish_reason": c.reason(),
		})
	}
	return encode(map[string]any{
		"id": "chatcmpl-" + c.id(), "object": "chat.completion", "created": c.created, "model": c.model,
		"system_fingerprint": fingerprint, "choices": choices, "usage": c.counts(),
	})
}

// callID is different for each call of each choice.
func (c completion) callID(choice, call int) string {
	id := fmt.Sprintf("call_%s_%d", c.id(), choice)
	if call > 0 {
		id += fmt.Sprintf("_%d", call)
	}
	return id
}

func (c completion) counts() map[string]any {
	prompt, out := c.promptTokens, c.tokens()*c.choices
	return map[string]any{
		"prompt_tokens": prompt, "completion_tokens": out, "total_tokens": prompt + out,
		"prompt_tokens_details":     map[string]any{"cached_tokens": 0},
		"completion_tokens_details": map[string]any{"reasoning_tokens": 0},
	}
}

const fingerprint = "fp_simulated"
