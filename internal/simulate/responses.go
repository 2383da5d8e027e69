package simulate

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// openAIResponses is POST /v1/responses.
// Shapes: reference/providers.md §4.2 (2026-11-30); https://platform.openai.com/docs/api-reference/responses.
type openAIResponses struct{}

func (openAIResponses) name() string { return "responses" }

func (openAIResponses) peek(body []byte) (model string, stream bool) { return openAIChat{}.peek(body) }

func (openAIResponses) admit(h http.Header) *failure {
	if h.Get("Authorization") == "" {
		return &failure{kind: noKey}
	}
	return openAIChat{}.admit(h)
}

func (openAIResponses) refuse(f failure, _ int) Reply { return openAIRefuse(f, responsesWords) }

func (openAIResponses) identify(n int) http.Header { return openAIChat{}.identify(n) }

func (openAIResponses) answer(a answer) draft {
	w := &responseWriter{answer: a}
	d := draft{open: w.opened()}
	if len(a.thinking) > 0 {
		d.content = w.reasoning()
	}
	if len(a.calls) > 0 {
		d.content, d.finish = w.called(d.content)
	} else {
		open, pieces, end := w.message()
		if len(a.thinking) == 0 {
			d.open, open = append(d.open, open...), nil // nothing has been said yet
		}
		d.content, d.finish = append(append(d.content, open...), pieces...), end
	}
	d.finish = append(d.finish, w.ended())
	d.plain = string(w.response(w.status(), w.output))
	return d
}

// empty is completed without an item.
func (openAIResponses) empty(a answer) draft {
	a.thinking, a.text, a.calls, a.cut = nil, nil, nil, false
	w := &responseWriter{answer: a}
	return draft{open: w.opened(), finish: []frame{w.ended()}, plain: string(w.response("completed", nil))}
}

// failed ends in response.failed, whose error has a code and no type.
func (openAIResponses) failed(a answer, f failure) draft {
	s := f.spell(responsesWords)
	w := &responseWriter{answer: a, failure: object("code", s.code, "message", s.message)}
	plain := w.response("failed", nil)
	return draft{open: append(w.opened(), w.event("response.failed", "response", plain)), plain: string(plain)}
}

// responseWriter writes one response as events, which are numbered, and as a body.
type responseWriter struct {
	answer
	failure json.RawMessage // of the response; nil is none
	number  int             // of the next event
	output  []json.RawMessage
}

func (w *responseWriter) event(kind string, members ...any) frame {
	head := []any{"type", kind, "sequence_number", w.number}
	w.number++
	return frame{name: kind, data: string(object(append(head, members...)...))}
}

func (w *responseWriter) opened() []frame {
	begun := w.response("in_progress", nil)
	return []frame{w.event("response.created", "response", begun), w.event("response.in_progress", "response", begun)}
}

// status of the response at its end.
func (w *responseWriter) status() string {
	if w.cut {
		return "incomplete"
	}
	return "completed"
}

func (w *responseWriter) ended() frame {
	return w.event("response."+w.status(), "response", w.response(w.status(), w.output))
}

func (w *responseWriter) response(status string, output []json.RawMessage) json.RawMessage {
	var details, usage json.RawMessage
	if status == "incomplete" {
		details = object("reason", "max_output_tokens")
	}
	if status == "completed" || status == "incomplete" {
		usage = w.usage()
	}
	return object("id", "resp_"+w.id(), "object", "response", "created_at", w.created, "status", status, "error", w.failure,
		"incomplete_details", details, "model", w.model, "output", list(output...), "usage", usage)
}

func (w *responseWriter) usage() json.RawMessage {
	return object("input_tokens", w.promptTokens, "input_tokens_details", object("cached_tokens", 0),
		"output_tokens", w.tokens(), "output_tokens_details", object("reasoning_tokens", len(w.thinking)),
		"total_tokens", w.promptTokens+w.tokens())
}

// called writes the calls behind what there is. What comes after the last piece is
// apart: it belongs to the end of the answer.
func (w *responseWriter) called(content []frame) (_, finish []frame) {
	for k := range w.calls {
		content = append(append(content, finish...), w.callOpened(k))
		var pieces []frame
		pieces, finish = w.callPieces(k)
		content = append(content, pieces...)
	}
	return content, finish
}

func (w *responseWriter) message() (open, pieces, end []frame) {
	id, at := "msg_"+w.id(), len(w.output)
	part := func(text string) json.RawMessage {
		return object("type", "output_text", "text", text, "annotations", list())
	}
	item := func(status string, content ...json.RawMessage) json.RawMessage {
		return object("id", id, "type", "message", "status", status, "role", "assistant", "content", list(content...))
	}
	place := []any{"item_id", id, "output_index", at, "content_index", 0}
	open = []frame{
		w.event("response.output_item.added", "output_index", at, "item", item("in_progress")),
		w.event("response.content_part.added", append(place, "part", part(""))...),
	}
	for _, piece := range w.text {
		pieces = append(pieces, w.event("response.output_text.delta", append(place, "delta", piece)...))
	}
	whole := item(w.status(), part(w.said()))
	w.output = append(w.output, whole)
	return open, pieces, []frame{
		w.event("response.output_text.done", append(place, "text", w.said())...),
		w.event("response.content_part.done", append(place, "part", part(w.said()))...),
		w.event("response.output_item.done", "output_index", at, "item", whole),
	}
}

func (w *responseWriter) callItem(k int, status, arguments string) json.RawMessage {
	return object("type", "function_call", "id", fmt.Sprintf("fc_%s_%d", w.id(), k), "call_id", fmt.Sprintf("call_%s_%d", w.id(), k),
		"name", w.calls[k].name, "arguments", arguments, "status", status)
}

func (w *responseWriter) callOpened(k int) frame {
	return w.event("response.output_item.added", "output_index", len(w.output), "item", w.callItem(k, "in_progress", ""))
}

func (w *responseWriter) callPieces(k int) (pieces, end []frame) {
	at := len(w.output)
	place := []any{"item_id", fmt.Sprintf("fc_%s_%d", w.id(), k), "output_index", at}
	for _, piece := range w.calls[k].pieces {
		pieces = append(pieces, w.event("response.function_call_arguments.delta", append(place, "delta", piece)...))
	}
	arguments := w.calls[k].arguments()
	whole := w.callItem(k, w.status(), arguments)
	w.output = append(w.output, whole)
	return pieces, []frame{
		w.event("response.function_call_arguments.done", append(place, "arguments", arguments)...),
		w.event("response.output_item.done", "output_index", at, "item", whole),
	}
}

// reasoning is an item whose content is encrypted, so that only the provider can read
// it back. It has a summary if one was asked for.
func (w *responseWriter) reasoning() []frame {
	id, at := "rs_"+w.id(), len(w.output)
	out := []frame{w.event("response.output_item.added", "output_index", at, "item", object("id", id, "type", "reasoning", "summary", list()))}
	summary := list()
	if !w.hides {
		part := func(text string) json.RawMessage { return object("type", "summary_text", "text", text) }
		place := []any{"item_id", id, "output_index", at, "summary_index", 0}
		out = append(out, w.event("response.reasoning_summary_part.added", append(place, "part", part(""))...))
		for _, piece := range w.thinking {
			out = append(out, w.event("response.reasoning_summary_text.delta", append(place, "delta", piece)...))
		}
		out = append(out,
			w.event("response.reasoning_summary_text.done", append(place, "text", w.thoughts())...),
			w.event("response.reasoning_summary_part.done", append(place, "part", part(w.thoughts()))...))
		summary = list(part(w.thoughts()))
	}
	whole := object("id", id, "type", "reasoning", "summary", summary, "encrypted_content", seal(w.thoughts()))
	w.output = append(w.output, whole)
	return append(out, w.event("response.output_item.done", "output_index", at, "item", whole))
}

// responsesRequest is read strictly: a member that it does not have is an error, as
// it is at OpenAI.
type responsesRequest struct {
	Model             string            `json:"model"`
	Input             json.RawMessage   `json:"input"`
	Instructions      json.RawMessage   `json:"instructions"`
	Stream            bool              `json:"stream"`
	StreamOptions     json.RawMessage   `json:"stream_options"`
	MaxOutputTokens   *int              `json:"max_output_tokens"`
	Tools             []json.RawMessage `json:"tools"`
	ToolChoice        json.RawMessage   `json:"tool_choice"`
	ParallelToolCalls *bool             `json:"parallel_tool_calls"`
	Text              struct {
		Format struct {
			Type        string          `json:"type"`
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Schema      json.RawMessage `json:"schema"`
			Strict      *bool           `json:"strict"`
		} `json:"format"`
		Verbosity string `json:"verbosity"`
	} `json:"text"`
	Reasoning struct {
		Effort          string          `json:"effort"`
		Summary         string          `json:"summary"`
		GenerateSummary json.RawMessage `json:"generate_summary"`
	} `json:"reasoning"`
	Include            json.RawMessage `json:"include"`
	Store              *bool           `json:"store"`
	Temperature        json.RawMessage `json:"temperature"`
	TopP               json.RawMessage `json:"top_p"`
	TopLogprobs        json.RawMessage `json:"top_logprobs"`
	Metadata           json.RawMessage `json:"metadata"`
	User               json.RawMessage `json:"user"`
	SafetyIdentifier   json.RawMessage `json:"safety_identifier"`
	ServiceTier        json.RawMessage `json:"service_tier"`
	PromptCacheKey     json.RawMessage `json:"prompt_cache_key"`
	PromptCacheOptions json.RawMessage `json:"prompt_cache_options"`
	PromptCacheFor     json.RawMessage `json:"prompt_cache_retention"`
	Truncation         json.RawMessage `json:"truncation"`
	Background         json.RawMessage `json:"background"`
	Previous           json.RawMessage `json:"previous_response_id"`
	Conversation       json.RawMessage `json:"conversation"`
	MaxToolCalls       json.RawMessage `json:"max_tool_calls"`
	Moderation         json.RawMessage `json:"moderation"`
}

type responsesItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments *string         `json:"arguments"`
	Output    json.RawMessage `json:"output"`
	Summary   json.RawMessage `json:"summary"`
	Encrypted *string         `json:"encrypted_content"`
}

func (openAIResponses) parse(body []byte) (request, *failure) {
	var in responsesRequest
	if f := strictly(body, &in, "We could not parse the JSON body of your request.", "Unknown parameter: '%s'."); f != nil {
		return request{}, f
	}
	switch {
	case in.Model == "":
		return request{}, invalid("Missing required parameter: 'model'.")
	case in.MaxOutputTokens != nil && *in.MaxOutputTokens < 16:
		return request{}, invalid("Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16.")
	}
	a := asked{model: in.Model, stream: in.Stream, usage: true, thinks: in.Reasoning.Effort != "" && in.Reasoning.Effort != "none",
		hides: in.Reasoning.Summary == "", oneCall: in.ParallelToolCalls != nil && !*in.ParallelToolCalls, anyObject: in.Text.Format.Type == "json_object"}
	if in.MaxOutputTokens != nil {
		a.limit = *in.MaxOutputTokens
	}
	if a.messages = in.messages(); a.messages == nil {
		return request{}, invalid("Missing required parameter: 'input'.")
	}
	for _, check := range []func(*asked) *failure{in.items, in.tools, in.choose, in.format} {
		if f := check(&a); f != nil {
			return request{}, f
		}
	}
	return a.plan(), nil
}

// messages is an input that is one text; nil where there is none at all.
func (in responsesRequest) messages() []message {
	var text string
	switch {
	case len(in.Input) == 0:
		return nil
	case json.Unmarshal(in.Input, &text) == nil:
		return []message{{user: true, text: text}}
	}
	return []message{}
}

// items holds the input's items to the API's rules: each kind has its members, a
// call is answered, and an answer has its call.
func (in responsesRequest) items(a *asked) *failure {
	if len(a.messages) > 0 {
		return nil
	}
	var items []responsesItem
	if err := json.Unmarshal(in.Input, &items); err != nil {
		return invalid("Invalid type for 'input': expected one of an array of objects or string.")
	}
	if len(items) == 0 {
		return invalid("Invalid 'input': empty array. Expected an array with minimum length 1.")
	}
	open := map[string]bool{}
	for i, item := range items {
		m, f := item.neutral(fmt.Sprintf("input[%d]", i), open)
		if f != nil {
			return f
		}
		a.messages = append(a.messages, m)
	}
	for id, unanswered := range open {
		if unanswered {
			return invalid("No tool output found for function call " + id + ".")
		}
	}
	return nil
}

// neutral reads an item. open are the calls so far: true while there is no output.
func (item responsesItem) neutral(at string, open map[string]bool) (m message, f *failure) {
	switch item.Type {
	case "", "message":
		return item.message(at)
	case "function_call", "custom_tool_call":
		if item.CallID == "" || item.Name == "" || item.Type == "function_call" && item.Arguments == nil {
			return m, invalid("Missing required parameter: '" + at + ".call_id', '.name' or '.arguments'.")
		}
		if _, again := open[item.CallID]; again {
			return m, invalid("Duplicate function call with call_id " + item.CallID + ".")
		}
		open[item.CallID] = true
		return message{assistant: true}, nil
	case "function_call_output", "custom_tool_call_output":
		if _, called := open[item.CallID]; !called {
			return m, invalid("No tool call found for function call output with call_id " + item.CallID + ".")
		}
		open[item.CallID] = false
		if len(item.Output) == 0 {
			return m, invalid("Missing required parameter: '" + at + ".output'.")
		}
		return message{text: string(item.Output)}, nil
	case "reasoning":
		if len(item.Summary) == 0 {
			return m, invalid("Missing required parameter: '" + at + ".summary'.")
		}
		if item.Encrypted != nil && !sealed(*item.Encrypted) {
			return m, invalid("The encrypted content for item " + at + " could not be verified.")
		}
		return message{assistant: true}, nil
	case "item_reference":
		return m, invalid("Items are not persisted when `store` is set to false.")
	}
	return m, invalid(fmt.Sprintf("Invalid value: '%s'. Supported values are: 'message', 'function_call', … (%s.type)", item.Type, at))
}

// roleParts are the parts that each role may speak in.
var roleParts = map[string][]string{
	"user":      {"input_text", "input_image", "input_file", "input_audio"},
	"system":    {"input_text", "input_image", "input_file"},
	"developer": {"input_text", "input_image", "input_file"},
	"assistant": {"output_text", "refusal"},
}

func (item responsesItem) message(at string) (message, *failure) {
	m := message{assistant: item.Role == "assistant", user: item.Role == "user"}
	allowed, ok := roleParts[item.Role]
	if !ok {
		return m, invalid(fmt.Sprintf("Invalid value: '%s'. Supported values are: 'assistant', 'system', 'developer', and 'user'. (%s.role)", item.Role, at))
	}
	if json.Unmarshal(item.Content, &m.text) == nil {
		return m, nil
	}
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Refusal  string `json:"refusal"`
		ImageURL string `json:"image_url"`
		FileID   string `json:"file_id"`
	}
	if err := json.Unmarshal(item.Content, &parts); err != nil || parts == nil {
		return m, invalid("Invalid type for '" + at + ".content'.")
	}
	for k, p := range parts {
		where := fmt.Sprintf("%s.content[%d]", at, k)
		if !strings.Contains(" "+strings.Join(allowed, " ")+" ", " "+p.Type+" ") {
			return m, invalid(fmt.Sprintf("Invalid value: '%s'. Supported values are: '%s'. (%s.type)", p.Type, strings.Join(allowed, "', '"), where))
		}
		if p.Type == "input_image" {
			if m.images++; !validImageURL(p.ImageURL) && p.FileID == "" {
				return m, invalid("Invalid '" + where + ".image_url'. Expected a valid URL.")
			}
		}
		m.text += p.Text + p.Refusal
	}
	return m, nil
}

// tools must have all their members: what a chat request may leave out is required here.
func (in responsesRequest) tools(a *asked) *failure {
	for i, raw := range in.Tools {
		var members map[string]json.RawMessage
		var t struct {
			Type       string          `json:"type"`
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
		}
		if json.Unmarshal(raw, &members) != nil || json.Unmarshal(raw, &t) != nil {
			return invalid(fmt.Sprintf("Invalid type for 'tools[%d]'.", i))
		}
		if t.Type != "function" {
			continue // a hosted or a free-text tool, which is never called
		}
		for _, name := range []string{"name", "parameters", "strict"} {
			if _, ok := members[name]; !ok {
				return invalid(fmt.Sprintf("Missing required parameter: 'tools[%d].%s'.", i, name))
			}
		}
		a.tools = append(a.tools, tool{t.Name, t.Parameters})
	}
	return nil
}

func (in responsesRequest) choose(a *asked) *failure {
	var word string
	var named struct {
		Type string `json:"type"`
		Name string `json:"name"`
		Mode string `json:"mode"`
	}
	switch {
	case len(in.ToolChoice) == 0 || json.Unmarshal(in.ToolChoice, &word) == nil:
		a.choice = choice{none: word == "none", required: word == "required"}
		if !strings.Contains(" auto none required  ", " "+word+" ") {
			return invalid("Invalid value for 'tool_choice': '" + word + "'.")
		}
	case json.Unmarshal(in.ToolChoice, &named) != nil:
		return invalid("Invalid type for 'tool_choice'.")
	case named.Type == "function" && named.Name == "":
		return invalid("Missing required parameter: 'tool_choice.name'.")
	case named.Type == "function":
		a.choice.name = named.Name
	case named.Type == "allowed_tools":
		a.choice.required = named.Mode == "required"
	}
	if a.choice.name != "" && !declares(a.tools, a.choice.name) || a.choice.required && len(in.Tools) == 0 {
		return invalid("Tool choice '" + a.choice.name + "' not found in 'tools' parameter.")
	}
	return nil
}

func (in responsesRequest) format(a *asked) *failure {
	f := in.Text.Format
	switch f.Type {
	case "", "text", "json_object":
		return nil
	case "json_schema":
		if f.Name == "" || len(f.Schema) == 0 {
			return invalid("Missing required parameter: 'text.format.name' or 'text.format.schema'.")
		}
		a.schema = f.Schema
		return nil
	}
	return invalid("Invalid value: '" + f.Type + "'. Supported values are: 'json_object', 'json_schema', and 'text'. (text.format.type)")
}
