package anthropic

import (
	"cmp"
	"io"

	"github.com/tidwall/gjson"

	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/provider/wire"
)

// reply decodes one answer: an event stream, or one plain body.
type reply struct {
	wire.Reply
	// answerTool is the tool whose input is the answer; empty: none.
	answerTool string

	event  chat.Event
	delta  chat.Delta
	usage  usage
	blocks blocks

	id      string
	model   chat.ServedModel
	reason  string // the stop_reason, once it has come
	refusal string // what a refusal says of itself
}

// Next returns the next event. Frames that say nothing, such as a ping or the begin of an empty block, make none.
func (r *reply) Next() (*chat.Event, error) {
	if !r.Streamed() {
		return r.nextPlain()
	}
	for !r.Done {
		text, err := r.Frame()
		if err != nil {
			return nil, r.Cut(err) // without message_stop
		}
		r.begin()
		if err := r.read(gjson.Parse(text)); err != nil {
			return nil, err
		}
		if ev := r.finished(); ev != nil {
			return ev, nil
		}
	}
	return nil, io.EOF
}

// begin begins an event.
func (r *reply) begin() {
	r.event = chat.Event{Deltas: r.event.Deltas[:0]}
	r.delta = chat.Delta{Tools: r.delta.Tools[:0]}
}

// finished is the event that has been read; nil when there is nothing in it.
func (r *reply) finished() *chat.Event {
	if !r.delta.Empty() {
		r.event.Deltas = append(r.event.Deltas, r.delta)
	}
	if len(r.event.Deltas) == 0 && r.event.Usage == nil && r.event.ID == "" {
		return nil
	}
	r.event.ID, r.event.Model = r.id, r.model
	r.Content = r.Content || r.event.Content()
	return &r.event
}

// read reads a frame into the event.
func (r *reply) read(f gjson.Result) error {
	switch kind := f.Get("type").Str; {
	case kind == "error" || wire.IsError(f.Get("error")):
		return r.failed(f)
	case kind == "message_start":
		r.head(f.Get("message"))
	case kind == "content_block_start":
		r.blocks.start(&r.delta, r, f.Get("index").Int(), f.Get("content_block"))
	case kind == "content_block_delta":
		r.blocks.add(&r.delta, r, f.Get("index").Int(), f.Get("delta"))
	case kind == "content_block_stop":
		r.blocks.stop(&r.delta, f.Get("index").Int())
	case kind == "message_delta":
		r.blocks.stopAll(&r.delta)
		r.readStop(f.Get("delta"))
		r.readUsage(f.Get("usage"))
	case kind == "message_stop":
		return r.finish()
	}
	if r.blocks.beyond {
		return r.Unusable("the answer has too many tool calls, or too long ones")
	}
	return nil
}

// head reads what a message says of itself before its content.
func (r *reply) head(m gjson.Result) {
	r.id, r.model = m.Get("id").String(), chat.ServedModel(m.Get("model").String())
	r.event.ID = r.id
	r.readUsage(m.Get("usage"))
}

func (r *reply) readStop(v gjson.Result) {
	if reason := v.Get("stop_reason").Str; reason != "" {
		r.reason, r.refusal = reason, v.Get("stop_details.explanation").Str
	}
}

// stopReasons are Anthropic's words in ours (reference/providers.md §3.7, 2026-11-30).
var stopReasons = map[string]chat.FinishReason{
	"end_turn": chat.FinishStop, "stop_sequence": chat.FinishStop, "pause_turn": chat.FinishStop, "tool_use": chat.FinishToolCalls,
	"max_tokens": chat.FinishLength, "model_context_window_exceeded": chat.FinishLength, "refusal": chat.FinishContentFilter,
}

// finish ends the answer. The end is passed on with message_stop and not with the stop_reason before it, so that no client
// takes a stream that breaks off between the two for a whole answer.
func (r *reply) finish() error {
	d := &r.delta
	r.blocks.stopAll(d)
	finish, known := stopReasons[r.reason]
	switch {
	case r.reason == "":
		return r.Unusable("the answer ended without a stop reason")
	case !known && !r.Content && d.Text == "" && len(d.Tools) == 0:
		return r.Unusable("the answer ended with a word that nobody knows")
	case !known, finish == chat.FinishToolCalls, finish == chat.FinishStop:
		finish = chat.FinishStop
		if r.blocks.calls > 0 {
			finish = chat.FinishToolCalls
		}
	}
	d.Finish, d.Native = finish, r.reason
	if r.reason == "tool_use" && r.blocks.answered {
		d.Native = "" // the client knows nothing of that tool
	}
	if r.refusal != "" {
		d.Refusal += r.refusal
		told := r.usage.told
		r.event.Usage = &told // these words come after the count, and cost nothing
	}
	r.Done = true
	return nil
}

// statuses are those that the types of errors inside a stream stand for (reference/providers.md §1.2, 2026-11-30).
var statuses = map[string]int{"invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403,
	"not_found_error": 404, "conflict_error": 409, "request_too_large": 413, "rate_limit_error": 429, "api_error": 500, "timeout_error": 504,
	"overloaded_error": 529}

// failed classifies an error inside a 200.
func (r *reply) failed(f gjson.Result) *fault.Failure {
	var env fault.Envelope
	parsed := false
	if len(f.Raw) <= fault.MaxErrorBody {
		env, parsed = fault.ParseEnvelope(f.Raw)
	}
	env.Status = cmp.Or(statuses[env.Type], env.Status)
	return r.Failed(env, parsed)
}

// nextPlain decodes a plain body as one event, and then its end.
func (r *reply) nextPlain() (*chat.Event, error) {
	body, err := r.Plain()
	if err != nil {
		return nil, err
	}
	root := gjson.Parse(body)
	switch content := root.Get("content"); {
	case root.Get("type").Str == "error" || wire.IsError(root.Get("error")):
		return nil, r.failed(root)
	case !content.IsArray():
		return nil, r.Unusable("the body is no message")
	}
	if err := r.readMessage(root); err != nil {
		return nil, err
	}
	return r.finished(), nil
}

// readMessage reads a plain message as the stream of its blocks.
func (r *reply) readMessage(m gjson.Result) error {
	r.begin()
	r.head(m)
	index := int64(0)
	m.Get("content").ForEach(func(_, b gjson.Result) bool {
		r.blocks.start(&r.delta, r, index, b)
		r.blocks.stop(&r.delta, index)
		index++
		return !r.blocks.beyond
	})
	if r.blocks.beyond {
		return r.Unusable("the answer has too many tool calls, or too long ones")
	}
	r.readStop(m)
	return r.finish()
}

// usage adds up what the frames of an answer count. The counts of a stream are cumulative and may come twice.
type usage struct {
	input, written, read, output, thinking int64
	told                                   chat.Usage
}

func (r *reply) readUsage(v gjson.Result) {
	if !v.IsObject() {
		return
	}
	u := &r.usage
	for name, count := range map[string]*int64{"input_tokens": &u.input, "cache_creation_input_tokens": &u.written, "cache_read_input_tokens": &u.read,
		"output_tokens": &u.output, "output_tokens_details.thinking_tokens": &u.thinking} {
		*count = max(*count, v.Get(name).Int())
	}
	raw := u.told.Raw
	if raw == "" || v.Get("cache_creation").Exists() { // by how long a cache is kept, which has its price, is said there alone
		raw = v.Raw
	}
	// Anthropic counts cached input beside the rest of it.
	u.told = chat.Usage{Prompt: u.input + u.written + u.read, Completion: u.output, Cached: u.read, CacheWrite: u.written, Reasoning: u.thinking, Raw: raw}
	told := u.told
	r.event.Usage = &told
}
