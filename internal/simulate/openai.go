package simulate

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// answerText is the whole healthy answer: 60 words, each of them one token.
const answerText = "When the river rises behind the dam, a spillway opens a second path: the extra water leaves " +
	"the reservoir over a broad concrete lip, runs down a smooth channel beside the wall, loses its force " +
	"in a deep stilling basin, and returns to the riverbed below, calm and spent, so that the dam stays whole " +
	"and the valley never floods."

// Answer is the text that "sim-ok" gives when the request limits nothing.
func Answer() string { return answerText }

// Tokens is Answer in the pieces in which it is streamed.
func Tokens() []string { return words(answerText) }

// words cuts before each space, so that the pieces join to the text.
func words(text string) []string {
	var out []string
	for len(text) > 0 {
		end := strings.IndexByte(text[1:], ' ') + 1
		if end == 0 {
			end = len(text)
		}
		out = append(out, text[:end])
		text = text[end:]
	}
	return out
}

// request is what the faults need to know of any request, in any wire format.
type request struct {
	model         string
	stream        bool
	usage         bool // the stream is to end with a usage event
	limit         int  // tokens; 0 is none
	choices       int  // ≥ 1
	text          string
	call          *toolCall       // the answer is this call
	schema        json.RawMessage // the answer is an object of this schema
	endsAssistant bool            // the last message is the assistant's
	promptTokens  int
}

type toolCall struct {
	name      string
	arguments string
}

// draft is a healthy answer in parts, so that a fault can break it anywhere.
// Frames are payloads of events; plain is the same answer as one body.
type draft struct {
	open    []string // before the first content
	content []string // one token each (one token of each choice, in turn)
	finish  []string // finish reason, then usage if asked for
	done    string   // the end mark
	plain   string
}

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

// text of a message's content: a string, or the text parts of an array.
func (m chatMessage) text() string {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(m.Content, &parts) // content of another shape has no text
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
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
	last := in.Messages[len(in.Messages)-1]
	r := request{
		model:         in.Model,
		stream:        in.Stream,
		usage:         in.StreamOptions.IncludeUsage,
		limit:         max(in.MaxTokens, in.MaxCompletionTokens),
		choices:       max(in.N, 1),
		endsAssistant: last.Role == "assistant",
		call:          in.toolCall(),
	}
	for _, m := range in.Messages {
		r.promptTokens += 4 + len(m.text())/4
	}
	switch in.ResponseFormat.Type {
	case "json_schema":
		r.schema = in.ResponseFormat.JSONSchema.Schema
	case "json_object":
		r.schema = json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string"}}}`)
	}
	r.text = answerText
	if r.schema != nil {
		r.text = satisfy(r.schema)
	}
	return r, nil
}

func invalid(message string) *failure {
	return &failure{status: 400, typ: "invalid_request_error", message: message}
}

// toolCall is the call that the request leads to: a forced one, or one about the
// weather that the user asked for and that has no result yet.
func (in chatRequest) toolCall() *toolCall {
	if len(in.Tools) == 0 {
		return nil
	}
	var word string
	var named struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	_ = json.Unmarshal(in.ToolChoice, &word)  // one of the two is
	_ = json.Unmarshal(in.ToolChoice, &named) // of another shape
	name := "get_weather"
	switch {
	case named.Function.Name != "":
		name = named.Function.Name
	case word == "required":
	case word == "none" || !in.asksWeather():
		return nil
	}
	tool := in.Tools[0]
	for _, t := range in.Tools {
		if t.Function.Name == name {
			tool = t
		}
	}
	return &toolCall{name: tool.Function.Name, arguments: satisfy(tool.Function.Parameters)}
}

func (in chatRequest) asksWeather() bool {
	last := in.Messages[len(in.Messages)-1]
	return last.Role == "user" && strings.Contains(strings.ToLower(last.text()), "weather")
}

func (openAIChat) refuse(f failure) Reply {
	body := f.body
	if body == "" {
		body = encode(map[string]errorObject{"error": f.object()})
	}
	return Reply{Status: f.status, Header: f.header, Body: body}
}

func (o openAIChat) answer(r request, id string) draft {
	c := completion{id: "chatcmpl-" + id, created: time.Now().Unix(), request: r}
	if r.call != nil {
		c.pieces, c.reason = fragments(r.call.arguments), "tool_calls"
	} else if r.schema != nil {
		c.pieces, c.reason = fragments(r.text), "stop"
	} else {
		c.pieces, c.reason = words(r.text), "stop"
	}
	if r.limit > 0 && r.limit < len(c.pieces) {
		c.pieces, c.reason = c.pieces[:r.limit], "length"
	}
	return draft{
		open:    c.openFrames(),
		content: c.contentFrames(),
		finish:  c.finishFrames(),
		done:    "[DONE]",
		plain:   c.plain(),
	}
}

// fragments cuts JSON into pieces of six characters.
func fragments(text string) []string {
	var out []string
	runes := []rune(text)
	for len(runes) > 0 {
		n := min(6, len(runes))
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}

// completion is one answer on its way to frames or to a body.
type completion struct {
	id      string
	created int64
	request request
	pieces  []string
	reason  string
}

func (c completion) openFrames() []string {
	var out []string
	for i := range c.request.choices {
		delta := map[string]any{"role": "assistant", "content": ""}
		out = append(out, c.chunk(i, delta, nil))
	}
	return out
}

func (c completion) contentFrames() []string {
	var out []string
	if c.request.call != nil {
		for i := range c.request.choices {
			call := map[string]any{
				"index": 0, "id": c.callID(i), "type": "function",
				"function": map[string]any{"name": c.request.call.name, "arguments": ""},
			}
			out = append(out, c.chunk(i, map[string]any{"tool_calls": []any{call}}, nil))
		}
	}
	for _, piece := range c.pieces {
		for i := range c.request.choices {
			delta := map[string]any{"content": piece}
			if c.request.call != nil {
				call := map[string]any{"index": 0, "function": map[string]any{"arguments": piece}}
				delta = map[string]any{"tool_calls": []any{call}}
			}
			out = append(out, c.chunk(i, delta, nil))
		}
	}
	return out
}

func (c completion) finishFrames() []string {
	var out []string
	for i := range c.request.choices {
		out = append(out, c.chunk(i, map[string]any{}, c.reason))
	}
	if c.request.usage {
		out = append(out, c.frame([]any{}, c.usage()))
	}
	return out
}

// chunk is one event of one choice.
func (c completion) chunk(index int, delta map[string]any, reason any) string {
	return c.frame([]any{map[string]any{
		"index": index, "delta": delta, "logprobs": nil, "finish_reason": reason,
	}}, nil)
}

// frame has a usage member only when the request asked for usage.
func (c completion) frame(choices []any, usage any) string {
	out := map[string]any{
		"id": c.id, "object": "chat.completion.chunk", "created": c.created,
		"model": c.request.model, "system_fingerprint": fingerprint, "choices": choices,
	}
	if c.request.usage {
		out["usage"] = usage
	}
	return encode(out)
}

func (c completion) plain() string {
	var choices []any
	for i := range c.request.choices {
		message := map[string]any{"role": "assistant", "content": strings.Join(c.pieces, ""), "refusal": nil}
		if call := c.request.call; call != nil {
			message["content"] = nil
			message["tool_calls"] = []any{map[string]any{
				"id": c.callID(i), "type": "function",
				"function": map[string]any{"name": call.name, "arguments": strings.Join(c.pieces, "")},
			}}
		}
		choices = append(choices, map[string]any{
			"index": i, "message": message, "logprobs": nil, "finish_reason": c.reason,
		})
	}
	return encode(map[string]any{
		"id": c.id, "object": "chat.completion", "created": c.created, "model": c.request.model,
		"system_fingerprint": fingerprint, "choices": choices, "usage": c.usage(),
	})
}

func (c completion) callID(choice int) string {
	return fmt.Sprintf("call_%s_%d", strings.TrimPrefix(c.id, "chatcmpl-"), choice)
}

func (c completion) usage() map[string]any {
	prompt, out := c.request.promptTokens, len(c.pieces)*c.request.choices
	return map[string]any{
		"prompt_tokens": prompt, "completion_tokens": out, "total_tokens": prompt + out,
		"prompt_tokens_details":     map[string]any{"cached_tokens": 0},
		"completion_tokens_details": map[string]any{"reasoning_tokens": 0},
	}
}

const fingerprint = "fp_simulated"

// halfChunk is a chunk that stops in the middle of its JSON.
func halfChunk(frame string) string { return frame[:len(frame)/2] }
