package simulate

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// anthropic is POST /v1/messages.
// Shapes: reference/providers.md §1.2, §3.3, §4.3 (anthropic-sdk-go v2.15.0, 2026-11-24).
type anthropic struct{}

func (anthropic) name() string { return "anthropic" }

func (anthropic) peek(body []byte) (model string, stream bool) { return openAIChat{}.peek(body) }

func (anthropic) identify(n int) http.Header { return http.Header{"Request-Id": {RequestID(n)}} }

// admit wants the two headers that the API demands.
func (anthropic) admit(h http.Header) *failure {
	switch key := h.Get("X-Api-Key"); {
	case key == "":
		return &failure{kind: noKey}
	case strings.HasPrefix(key, "bad"):
		return &failure{kind: badKey}
	case h.Get("Anthropic-Version") == "":
		return invalid("anthropic-version: header is required")
	}
	return nil
}

// anthropicWords: reference/providers.md §1.2 (2026-11-30). code is the error_code of the details.
var anthropicWords = map[kind]spelling{
	badRequest:     {status: 400, typ: "invalid_request_error"},
	badPath:        {status: 404, typ: "not_found_error"},
	badMethod:      {status: 405, typ: "invalid_request_error"},
	noKey:          {status: 401, typ: "authentication_error", message: "x-api-key header is required"},
	badKey:         {status: 401, typ: "authentication_error", message: "invalid x-api-key"},
	rejectedKey:    {status: 401, typ: "authentication_error", message: "invalid x-api-key"},
	noModel:        {status: 404, typ: "not_found_error"},
	throttled:      {status: 429, typ: "rate_limit_error", message: "This request would exceed your organization's rate limit. Please try again later."},
	noQuota:        {status: 429, typ: "rate_limit_error", code: "enforced_spend_limit_reached", message: "You have reached your API usage limits: your organization has crossed its monthly API usage threshold."},
	serverError:    {status: 500, typ: "api_error", message: "Internal server error"},
	unavailable:    {status: 503, typ: "api_error", message: "Service temporarily unavailable"},
	overloaded:     {status: 529, typ: "overloaded_error", message: "Overloaded"},
	contextLength:  {status: 400, typ: "invalid_request_error", message: "prompt is too long: 210000 tokens > 200000 maximum"},
	contentPolicy:  {status: 400, typ: "invalid_request_error", message: "Output blocked by content filtering policy"},
	prefillRefused: {status: 400, typ: "invalid_request_error", message: "This model does not support assistant message prefill. The conversation must end with a user message."},
}

func anthropicError(f failure, n int) (status int, body json.RawMessage) {
	s := f.spell(anthropicWords)
	var details json.RawMessage
	if s.code != "" {
		details = object("error_code", s.code)
	}
	return s.status, object("type", "error", "error", object("details", details, "type", s.typ, "message", s.message), "request_id", RequestID(n))
}

func (anthropic) refuse(f failure, n int) Reply {
	status, body := anthropicError(f, n)
	return Reply{Status: status, Header: f.retryAfter(), Body: string(body)}
}

// failed says so in the first event.
func (anthropic) failed(a answer, f failure) draft {
	_, body := anthropicError(f, a.n)
	return draft{open: []frame{{name: "error", data: string(body)}}, plain: string(body)}
}

// empty has neither a block nor a reason why it stopped. With a reason it would be an
// answer: a turn that ends with nothing to say.
func (anthropic) empty(a answer) draft {
	w := messageWriter{answer: a}
	return draft{open: []frame{w.started()}, finish: []frame{w.stopped()}, plain: string(w.message(list(), nil, w.usage(0, 0)))}
}

func (anthropic) answer(a answer) draft {
	w := messageWriter{answer: a}
	d := draft{open: []frame{w.started()}, plain: w.plain()}
	for i, b := range w.blocks() {
		start := w.event("content_block_start", "index", i, "content_block", b.start)
		if i == 0 && b.text {
			d.open = append(d.open, start, w.event("ping"))
		} else {
			d.content = append(append(d.content, d.finish...), start)
		}
		for _, delta := range b.deltas {
			d.content = append(d.content, w.event("content_block_delta", "index", i, "delta", delta))
		}
		d.finish = []frame{w.event("content_block_stop", "index", i)}
	}
	d.finish = append(d.finish, w.delta(), w.stopped())
	return d
}

// messageWriter writes one message as events or as a body.
type messageWriter struct{ answer }

func (messageWriter) event(kind string, members ...any) frame {
	return frame{name: kind, data: string(object(append([]any{"type", kind}, members...)...))}
}

// block is one block of content: as it starts, as it grows, and whole.
type block struct {
	text   bool
	start  json.RawMessage
	deltas []json.RawMessage
	whole  json.RawMessage
}

func (w messageWriter) blocks() (all []block) {
	if len(w.thinking) > 0 {
		all = append(all, w.thinkingBlock())
	}
	for k, call := range w.calls {
		all = append(all, w.toolUse(k, call))
	}
	if len(w.calls) == 0 {
		b := block{text: true, start: object("type", "text", "text", ""), whole: object("type", "text", "text", w.said())}
		for _, piece := range w.text {
			b.deltas = append(b.deltas, object("type", "text_delta", "text", piece))
		}
		all = append(all, b)
	}
	return all
}

func (w messageWriter) thinkingBlock() block {
	signature := seal(w.thoughts())
	b := block{start: object("type", "thinking", "thinking", "", "signature", ""),
		whole: object("type", "thinking", "thinking", w.thoughts(), "signature", signature)}
	for _, piece := range w.thinking {
		b.deltas = append(b.deltas, object("type", "thinking_delta", "thinking", piece))
	}
	b.deltas = append(b.deltas, object("type", "signature_delta", "signature", signature))
	return b
}

// toolUse has an object for its input when it is whole; one that the limit cut, which
// is none, is empty then.
func (w messageWriter) toolUse(k int, call calling) block {
	head := []any{"type", "tool_use", "id", fmt.Sprintf("toolu_%s_%d", w.id(), k), "name", call.name, "input"}
	input := json.RawMessage(call.arguments())
	if !isObject(input) {
		input = object()
	}
	b := block{start: object(append(head, object())...), whole: object(append(head, input)...)}
	for _, piece := range call.pieces {
		b.deltas = append(b.deltas, object("type", "input_json_delta", "partial_json", piece))
	}
	return b
}

func (w messageWriter) started() frame {
	return w.event("message_start", "message", w.message(list(), nil, w.usage(1, 0)))
}

func (w messageWriter) usage(output, thinking int) json.RawMessage {
	return object("input_tokens", w.promptTokens, "cache_creation_input_tokens", 0, "cache_read_input_tokens", 0,
		"output_tokens", output, "output_tokens_details", object("thinking_tokens", thinking), "service_tier", "standard")
}

func (w messageWriter) delta() frame {
	return w.event("message_delta", "delta", object("stop_reason", w.reason(), "stop_sequence", nil),
		"usage", object("output_tokens", w.tokens(), "output_tokens_details", object("thinking_tokens", len(w.thinking))))
}

func (w messageWriter) stopped() frame { return w.event("message_stop") }

func (w messageWriter) message(content []json.RawMessage, reason any, usage json.RawMessage) json.RawMessage {
	return object("id", "msg_"+w.id(), "type", "message", "role", "assistant", "model", w.model, "content", content,
		"stop_reason", reason, "stop_sequence", nil, "usage", usage)
}

func (w messageWriter) plain() string {
	var content []json.RawMessage
	for _, b := range w.blocks() {
		content = append(content, b.whole)
	}
	return string(w.message(content, w.reason(), w.usage(w.tokens(), len(w.thinking))))
}

func (w messageWriter) reason() string {
	switch {
	case w.cut:
		return "max_tokens"
	case len(w.calls) > 0:
		return "tool_use"
	}
	return "end_turn"
}
