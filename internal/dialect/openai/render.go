package openai

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"spillway/internal/chat"
	"spillway/internal/dialect"
	"spillway/internal/fault"
	"spillway/internal/sse"
)

// stream renders the events of one answer as chat.completion.chunk frames. It is used by one goroutine.
type stream struct {
	head    dialect.Head
	created int64
	named   bool         // a chunk has been rendered: id and time stay as they are
	opened  map[int]bool // choices whose role has been sent
	details map[int]int  // how many reasoning_details have been sent of each choice
	// custom are the calls of free-text tools: only a call's first fragment says that it is one.
	custom map[callAt]bool
	// before is what stands before the choices in the last frame that was passed on, rendered what became of it: nearly
	// always the next frame begins the same.
	before   string
	rendered []byte
	buf      []byte
}

// callAt is where a tool call stands in an answer.
type callAt struct{ choice, index int }

// NewStream begins a stream.
func (Chat) NewStream(h dialect.Head) dialect.Stream {
	return &stream{head: h, created: h.Created.Unix(), opened: map[int]bool{}, details: map[int]int{}}
}

// Event renders one event; nil when it holds nothing for the client. The bytes are valid until the next call.
func (s *stream) Event(ev *chat.Event) []byte {
	s.identify(ev)
	if len(ev.Deltas) == 0 {
		return nil
	}
	s.named = true
	s.buf = s.buf[:0]
	if ev.Dialect == chat.OpenAIChat && !ev.Rebuilt && !ev.Whole {
		s.buf = append(s.buf, "data: "...)
		s.buf = s.passOn(s.buf, ev)
		s.buf = append(s.buf, "\n\n"...)
		return s.buf
	}
	for i := range ev.Deltas {
		s.buf = s.delta(s.buf, &ev.Deltas[i])
	}
	return s.buf
}

// identify takes the id and the time from the events up to the first that is rendered; all chunks carry the same.
func (s *stream) identify(ev *chat.Event) {
	if s.named {
		return
	}
	if ev.ID != "" {
		s.head.ID = ev.ID
	}
	if ev.Created != 0 {
		s.created = ev.Created
	}
}

// passOn writes a frame of the same dialect member by member: what the provider added stays, what the gateway owns is
// replaced, usage waits for its own chunk, padding stays behind, and a top-level `error` never goes out (openai-go takes even
// null for a failure).
func (s *stream) passOn(b []byte, ev *chat.Event) []byte {
	raw, start := oneLine(ev.Raw), len(b)
	from := 0
	if s.before != "" && strings.HasPrefix(raw, s.before) {
		from, b = len(s.before), append(b, s.rendered...)
	} else {
		b = s.appendHead(b)
	}
	members(raw, from, func(m member) {
		switch m.name {
		case "id", "object", "created", "model", "usage", "error", "obfuscation":
			return
		}
		if m.name == "choices" && from == 0 {
			s.before, s.rendered = raw[:m.at], append(s.rendered[:0], b[start:]...)
		}
		b = append(append(append(b, ','), m.rawName...), ':')
		if m.name == "choices" && s.rolesDiffer(ev, m.value) {
			b = s.appendChoices(b, gjson.Parse(m.value))
		} else {
			b = append(b, m.value...)
		}
	})
	for i := range ev.Deltas {
		s.opened[ev.Deltas[i].Choice] = true
	}
	return append(b, '}')
}

// appendRawName appends a comma and a member's name as it was written.
func appendRawName(b []byte, name gjson.Result) []byte {
	b = append(b, ',')
	b = append(b, name.Raw...)
	return append(b, ':')
}

// rolesDiffer reports whether the choices of a frame may lack a role that the client needs, or repeat one.
func (s *stream) rolesDiffer(ev *chat.Event, choices string) bool {
	for i := range ev.Deltas {
		if !s.opened[ev.Deltas[i].Choice] {
			return true
		}
	}
	return strings.Contains(choices, `role"`) // without the first quote it is found faster, and no less
}

// appendChoices writes choices as they are, but with the role in the first delta of each and in no other.
func (s *stream) appendChoices(b []byte, choices gjson.Result) []byte {
	b = append(b, '[')
	for i, choice := range choices.Array() {
		if i > 0 {
			b = append(b, ',')
		}
		index := choice.Get("index").Int()
		b = append(b, `{"index":`...)
		b = strconv.AppendInt(b, index, 10)
		choice.ForEach(func(key, value gjson.Result) bool {
			switch key.Str {
			case "index":
			case "delta":
				b = s.appendDeltaOf(appendRawName(b, key), int(index), value)
			default:
				b = append(appendRawName(b, key), value.Raw...)
			}
			return true
		})
		b = append(b, '}')
	}
	return append(b, ']')
}

func (s *stream) appendDeltaOf(b []byte, choice int, delta gjson.Result) []byte {
	start := len(b)
	if !s.opened[choice] {
		b = append(b, `,"role":"assistant"`...)
	}
	delta.ForEach(func(key, value gjson.Result) bool {
		if key.Str != "role" {
			b = append(appendRawName(b, key), value.Raw...)
		}
		return true
	})
	if len(b) == start {
		return append(b, `{}`...)
	}
	b[start] = '{' // in place of the first comma
	return append(b, '}')
}

func (s *stream) appendHead(b []byte) []byte {
	b = append(b, `{"id":`...)
	b = appendString(b, s.head.ID)
	b = append(b, `,"object":"chat.completion.chunk","created":`...)
	b = strconv.AppendInt(b, s.created, 10)
	b = append(b, `,"model":`...)
	return appendString(b, string(s.head.Model))
}

// delta writes a delta from its meaning: one chunk for what it adds, and one for its end.
func (s *stream) delta(b []byte, d *chat.Delta) []byte {
	if d.Text != "" || d.Refusal != "" || d.Reasoning != "" || len(d.Tools) > 0 || len(d.Thinking) > 0 || d.LogProbs != "" || !s.opened[d.Choice] {
		b = s.openChunk(b, d.Choice)
		if !s.opened[d.Choice] {
			s.opened[d.Choice] = true
			b = append(b, `"role":"assistant",`...)
		}
		b = append(s.appendDelta(b, d), '}')
		s.details[d.Choice] += len(d.Thinking)
		if d.LogProbs != "" {
			b = append(b, `,"logprobs":`...)
			b = append(b, oneLine(d.LogProbs)...)
		}
		b = append(b, `,"finish_reason":null}]}`+"\n\n"...)
	}
	if d.Finish != "" {
		b = s.openChunk(b, d.Choice)
		b = append(b, `},"finish_reason":`...)
		b = appendString(b, string(d.Finish))
		if d.Native != "" {
			b = append(b, `,"native_finish_reason":`...)
			b = appendString(b, d.Native)
		}
		b = append(b, "}]}\n\n"...)
	}
	return b
}

func (s *stream) openChunk(b []byte, choice int) []byte {
	b = append(b, "data: "...)
	b = s.appendHead(b)
	b = append(b, `,"choices":[{"index":`...)
	b = strconv.AppendInt(b, int64(choice), 10)
	return append(b, `,"delta":{`...)
}

// appendDelta writes the members of a delta, separated by commas and without one at the end.
func (s *stream) appendDelta(b []byte, d *chat.Delta) []byte {
	if d.Reasoning != "" {
		b = append(b, `"reasoning_content":`...)
		b = append(appendString(b, d.Reasoning), ',')
	}
	if len(d.Thinking) > 0 {
		b = append(appendDetails(b, d.Thinking, s.details[d.Choice]), ',')
	}
	if d.Refusal != "" {
		b = append(b, `"refusal":`...)
		b = append(appendString(b, d.Refusal), ',')
	}
	if len(d.Tools) > 0 {
		b = append(b, `"tool_calls":[`...)
		for i, t := range d.Tools {
			if i > 0 {
				b = append(b, ',')
			}
			b = s.appendToolDelta(b, d.Choice, t)
		}
		b = append(b, `],`...)
	}
	if d.Text != "" || (d.Reasoning == "" && d.Refusal == "" && len(d.Tools) == 0 && len(d.Thinking) == 0) {
		b = append(b, `"content":`...)
		b = append(appendString(b, d.Text), ',')
	}
	return b[:len(b)-1]
}

func (s *stream) appendToolDelta(b []byte, choice int, t chat.ToolDelta) []byte {
	at := callAt{choice, t.Index}
	if t.Custom {
		if s.custom == nil {
			s.custom = map[callAt]bool{}
		}
		s.custom[at] = true
	}
	custom := s.custom[at]
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(t.Index), 10)
	if t.ID != "" {
		b = append(b, `,"id":`...)
		b = append(appendString(b, t.ID), `,"type":"`+kindOf(custom)+`"`...)
	}
	b = append(b, `,"`+kindOf(custom)+`":{`...)
	if t.Name != "" {
		b = append(b, `"name":`...)
		b = append(appendString(b, t.Name), ',')
	}
	b = append(b, textOf(custom)...)
	b = appendString(b, t.Arguments)
	b = append(b, '}')
	return append(appendSignature(b, t.Signature), '}')
}

// kindOf and textOf are the words for a function's call and for that of a free-text tool.
func kindOf(custom bool) string {
	if custom {
		return "custom"
	}
	return "function"
}

func textOf(custom bool) string {
	if custom {
		return `"input":`
	}
	return `"arguments":`
}

// appendSignature appends the proof of the reasoning behind a call, which a client returns with the call, where Google's own
// OpenAI endpoint has it (https://ai.google.dev/gemini-api/docs/openai, 2026-11-30).
func appendSignature(b []byte, signature string) []byte {
	if signature == "" {
		return b
	}
	b = append(b, `,"extra_content":{"google":{"thought_signature":`...)
	return append(appendString(b, signature), `}}`...)
}

// End renders the end of a whole stream: the usage chunk if the client asked for it, and [DONE].
func (s *stream) End(u *chat.Usage) []byte {
	b := s.buf[:0]
	if s.head.IncludeUsage && u != nil {
		b = append(b, "data: "...)
		b = s.appendHead(b)
		b = append(b, `,"choices":[],"usage":`...)
		b = appendUsage(b, *u)
		b = append(b, "}\n\n"...)
	}
	return append(b, sse.Done...)
}

// Interrupt renders the end of a stream that is not whole: one error event that every SDK takes for a failure, and
// [DONE] so that no client waits.
func (s *stream) Interrupt(e *fault.Error, u *chat.Usage) []byte {
	b := append(s.buf[:0], `data: {"error":{"message":`...)
	b = appendString(b, e.Message)
	b = append(b, `,"type":"upstream_error","param":null,"code":`...)
	b = appendString(b, string(e.Code))
	b = appendText(b, "provider", e.Provider)
	b = appendText(b, "class", string(e.Class))
	b = append(b, `,"retry_safe":`...)
	b = strconv.AppendBool(b, !e.Unsafe)
	b = append(b, `,"partial":`...)
	b = strconv.AppendBool(b, e.Partial)
	if u != nil {
		b = append(b, `,"usage":`...)
		b = appendUsage(b, *u)
	}
	b = append(b, "}}\n\n"...)
	return append(b, sse.Done...)
}

// AppendAnswer renders a whole plain answer.
func (Chat) AppendAnswer(b []byte, a *chat.Answer, h dialect.Head) []byte {
	if a.Raw != "" && a.Dialect == chat.OpenAIChat {
		return passAnswerOn(b, a, h)
	}
	b = append(appendAnswerHead(b, a, h), `,"choices":[`...)
	for i, c := range a.Choices {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendChoice(b, c)
	}
	b = append(b, ']')
	if a.Usage != nil {
		b = append(b, `,"usage":`...)
		b = appendUsage(b, *a.Usage)
	}
	return append(appendExtras(b, a), '}')
}

// passAnswerOn writes a plain answer of the same dialect member by member. Usage that the provider left out is added.
func passAnswerOn(b []byte, a *chat.Answer, h dialect.Head) []byte {
	b = appendAnswerHead(b, a, h)
	counted := false
	gjson.Parse(oneLine(a.Raw)).ForEach(func(key, value gjson.Result) bool {
		switch {
		case key.Str == "usage" && !value.IsObject():
		case key.Str == "id", key.Str == "object", key.Str == "created", key.Str == "model", key.Str == "error":
		default:
			counted = counted || key.Str == "usage"
			b = append(appendRawName(b, key), value.Raw...)
		}
		return true
	})
	if !counted && a.Usage != nil {
		b = appendUsage(append(b, `,"usage":`...), *a.Usage)
	}
	return append(b, '}')
}

// appendAnswerHead begins a plain answer with the members that every one has.
func appendAnswerHead(b []byte, a *chat.Answer, h dialect.Head) []byte {
	id, created := a.ID, a.Created
	if id == "" {
		id = h.ID
	}
	if created == 0 {
		created = h.Created.Unix()
	}
	b = append(b, `{"id":`...)
	b = appendString(b, id)
	b = append(b, `,"object":"chat.completion","created":`...)
	b = strconv.AppendInt(b, created, 10)
	b = append(b, `,"model":`...)
	return appendString(b, string(h.Model))
}

// appendExtras adds what a streamed answer's frames say of the whole: members that are the same in each of them.
func appendExtras(b []byte, a *chat.Answer) []byte {
	if a.Frame == "" || a.Dialect != chat.OpenAIChat {
		return b
	}
	frame := gjson.Parse(oneLine(a.Frame))
	if !frame.IsObject() {
		return b // some servers begin with something else, which has no members
	}
	frame.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "id", "object", "created", "model", "choices", "usage", "error", "obfuscation":
			return true
		}
		b = append(b, ',')
		b = append(b, key.Raw...)
		b = append(b, ':')
		b = append(b, value.Raw...)
		return true
	})
	return b
}

func appendChoice(b []byte, c chat.AnswerChoice) []byte {
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(c.Index), 10)
	b = append(b, `,"message":{"role":"assistant","content":`...)
	if c.Text == "" && (len(c.Calls) > 0 || c.Refusal != "") {
		b = append(b, `null`...)
	} else {
		b = appendString(b, c.Text)
	}
	b = append(b, `,"refusal":`...)
	if c.Refusal == "" {
		b = append(b, `null`...)
	} else {
		b = appendString(b, c.Refusal)
	}
	b = appendText(b, "reasoning_content", c.Reasoning)
	if len(c.Thinking) > 0 {
		b = appendDetails(append(b, ','), c.Thinking, 0)
	}
	if len(c.Calls) > 0 {
		b = append(b, `,"tool_calls":[`...)
		for i, call := range c.Calls {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"id":`...)
			b = appendString(b, call.ID)
			b = append(b, `,"type":"`+kindOf(call.Custom)+`","`+kindOf(call.Custom)+`":{"name":`...)
			b = appendString(b, call.Name)
			b = append(append(b, ','), textOf(call.Custom)...)
			b = append(appendString(b, call.Arguments), '}')
			b = append(appendSignature(b, call.Signature), '}')
		}
		b = append(b, ']')
	}
	b = append(b, `},"logprobs":`...)
	b = appendLogProbs(b, c.LogProbs)
	b = append(b, `,"finish_reason":`...)
	b = appendString(b, string(c.Finish))
	b = appendText(b, "native_finish_reason", c.Native)
	return append(b, '}')
}

// appendLogProbs joins the token lists of the frames' logprobs.
func appendLogProbs(b []byte, frames []string) []byte {
	if len(frames) == 0 {
		return append(b, `null`...)
	}
	b = append(b, '{')
	for i, list := range []string{"content", "refusal"} {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, list)
		b = append(b, ':')
		start := len(b)
		for _, f := range frames {
			for _, token := range gjson.Get(oneLine(f), list).Array() { // null is no token
				if len(b) == start {
					b = append(b, '[')
				} else {
					b = append(b, ',')
				}
				b = append(b, token.Raw...)
			}
		}
		if len(b) == start {
			b = append(b, `null`...)
		} else {
			b = append(b, ']')
		}
	}
	return append(b, '}')
}

func appendUsage(b []byte, u chat.Usage) []byte {
	if u.Raw != "" && u.RawDialect == chat.OpenAIChat {
		return append(b, oneLine(u.Raw)...)
	}
	b = append(b, `{"prompt_tokens":`...)
	b = strconv.AppendInt(b, u.Prompt, 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, u.Completion, 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, u.Total(), 10)
	b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
	b = strconv.AppendInt(b, u.Cached, 10)
	if u.CacheWrite > 0 {
		b = append(b, `,"cache_write_tokens":`...)
		b = strconv.AppendInt(b, u.CacheWrite, 10)
	}
	b = append(b, `},"completion_tokens_details":{"reasoning_tokens":`...)
	b = strconv.AppendInt(b, u.Reasoning, 10)
	b = append(b, '}')
	if u.Estimated {
		b = append(b, `,"estimated":true`...)
	}
	return append(b, '}')
}

// AppendError renders an error as a JSON body.
func (Chat) AppendError(b []byte, e *fault.Error, requestID string) []byte {
	b = append(b, `{"error":{"message":`...)
	b = appendString(b, e.Message)
	b = append(b, `,"type":`...)
	b = appendString(b, e.Type())
	b = append(b, `,"param":`...)
	if e.Param == "" {
		b = append(b, `null`...)
	} else {
		b = appendString(b, e.Param)
	}
	b = append(b, `,"code":`...)
	b = appendString(b, string(e.Code))
	b = appendText(b, "provider", e.Provider)
	b = appendText(b, "class", string(e.Class))
	b = append(b, `,"retryable":`...)
	b = strconv.AppendBool(b, e.Retryable)
	if e.RetryAfter > 0 {
		b = append(b, `,"retry_after":`...)
		b = strconv.AppendInt(b, e.RetrySeconds(), 10)
	}
	b = appendText(b, "request_id", requestID)
	if e.ProviderStatus != 0 {
		b = append(b, `,"provider_status":`...)
		b = strconv.AppendInt(b, int64(e.ProviderStatus), 10)
	}
	b = appendText(b, "provider_code", e.ProviderCode)
	if len(e.Attempts) > 0 {
		b = append(b, `,"attempts":[`...)
		for i, a := range e.Attempts {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendTried(b, a)
		}
		b = append(b, ']')
	}
	return append(b, "}}\n"...)
}

func appendTried(b []byte, a fault.Tried) []byte {
	b = append(b, `{"provider":`...)
	b = appendString(b, a.Provider)
	b = append(b, `,"model":`...)
	b = appendString(b, a.Model)
	b = append(b, `,"status":`...)
	if a.Status == 0 {
		b = append(b, `null`...)
	} else {
		b = strconv.AppendInt(b, int64(a.Status), 10)
	}
	b = append(b, `,"class":`...)
	b = appendString(b, string(a.Class))
	b = append(b, `,"n":`...)
	b = strconv.AppendInt(b, int64(a.N), 10)
	return append(b, '}')
}

// appendText appends `,"name":"value"`, or nothing for an empty value.
func appendText(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	b = append(b, ',')
	b = appendString(b, name)
	b = append(b, ':')
	return appendString(b, value)
}

var lineEnds = strings.NewReplacer("\r", " ", "\n", " ")

// oneLine is a provider's JSON as it may be passed on: a line end in it, which can only be white space, would end a line
// of the event stream, and a byte that is not UTF-8 would break the client's decoder. Nearly always it is raw itself.
func oneLine(raw string) string {
	if !utf8.ValidString(raw) {
		raw = strings.ToValidUTF8(raw, "\ufffd")
	}
	if strings.IndexByte(raw, '\n') >= 0 || strings.IndexByte(raw, '\r') >= 0 {
		raw = lineEnds.Replace(raw)
	}
	return raw
}

// appendString appends a JSON string. Invalid UTF-8 is replaced, so that the result is always JSON.
func appendString(b []byte, s string) []byte {
	out, _ := jsontext.AppendQuote(b, s)
	return out
}
