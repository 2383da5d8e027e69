package anthropic

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/tidwall/gjson"

	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/provider"
	"spillway/internal/provider/wire"
	"spillway/internal/sse"
)

const (
	// maxPlain is the largest plain answer that is read, in bytes.
	maxPlain = 32 << 20
	// drainFor bounds the wait for the last bytes of an answer that is already complete, so that its connection can be kept.
	drainFor = 100 * time.Millisecond
)

// reply decodes one answer: an event stream, or one plain body.
type reply struct {
	p    *Provider
	call provider.Call
	x    *wire.Exchange
	info provider.Info
	// answerTool is the tool whose input is the answer; empty: none.
	answerTool string

	stream *sse.Reader // nil: a plain body
	event  chat.Event
	delta  chat.Delta
	usage  usage
	blocks blocks

	id      string
	model   chat.ServedModel
	reason  string // the stop_reason, once it has come
	refusal string // what a refusal says of itself

	content bool // something that a user would see has been decoded
	done    bool // message_stop, or the end of a plain body, has been read
	spent   bool // the body has been read to its end
	closed  bool
}

func (r *reply) Info() provider.Info { return r.info }

// Close releases the connection. A complete answer's last bytes are read for a moment first.
func (r *reply) Close() {
	if r.closed {
		return
	}
	r.closed = true
	if r.done && !r.spent && r.stream != nil {
		stop := time.AfterFunc(drainFor, func() { _ = r.x.Body.Close() })
		for _, err := r.stream.Next(); err == nil; _, err = r.stream.Next() {
			continue
		}
		stop.Stop()
	}
	_ = r.x.Body.Close()
}

// Next returns the next event. Frames that say nothing, such as a ping or the begin of an empty block, make none.
func (r *reply) Next() (*chat.Event, error) {
	if r.stream == nil {
		return r.nextPlain()
	}
	for !r.done {
		frame, err := r.stream.Next()
		if err != nil {
			r.spent = true
			return nil, r.ended(err)
		}
		ev, err := r.frame(string(bytes.TrimSpace(frame.Data)))
		if ev != nil || err != nil {
			return ev, err
		}
	}
	return nil, io.EOF
}

// ended is a stream that ends without message_stop.
func (r *reply) ended(err error) *fault.Failure {
	if r.content && r.info.Malformed == 0 && !errors.Is(err, sse.ErrTooLong) {
		return r.p.fail(r.call, r.x.Broken(err, fault.PhasePostContent))
	}
	return r.unusable(err)
}

// unusable is a 2xx that gave no answer; one that was ended by ourselves keeps its cause.
func (r *reply) unusable(err error) *fault.Failure {
	o := r.x.Broken(err, r.phase())
	if o.Local == fault.Broken {
		o.Local = fault.NoAnswer
	}
	o.InStream = true
	return r.p.fail(r.call, o)
}

func (r *reply) phase() fault.Phase {
	if r.content {
		return fault.PhasePostContent
	}
	return fault.PhasePreContent
}

var errMalformed = errors.New("a frame of the stream is not JSON")

// frame decodes one frame. A nil event without an error is a frame to pass over.
func (r *reply) frame(data string) (*chat.Event, error) {
	if data == "" {
		return nil, nil
	}
	if !wire.Valid(data) {
		if r.info.Malformed++; r.info.Malformed > 1 {
			return nil, r.unusable(errMalformed)
		}
		return nil, nil
	}
	r.begin()
	if err := r.read(gjson.Parse(data)); err != nil {
		return nil, err
	}
	return r.finished(), nil
}

// begin begins an event.
func (r *reply) begin() {
	r.event = chat.Event{Deltas: r.event.Deltas[:0]}
	r.delta = chat.Delta{Tools: r.delta.Tools[:0]}
}

// finished is the event that has been read; nil when there is nothing in it.
func (r *reply) finished() *chat.Event {
	d := &r.delta
	if d.Text != "" || d.Refusal != "" || d.Reasoning != "" || len(d.Tools) > 0 || len(d.Thinking) > 0 || d.Finish != "" {
		r.event.Deltas = append(r.event.Deltas, *d)
	}
	if len(r.event.Deltas) == 0 && r.event.Usage == nil && r.event.ID == "" {
		return nil
	}
	r.event.ID, r.event.Model = r.id, r.model
	r.content = r.content || r.event.Content()
	return &r.event
}

// read reads a frame into the event.
func (r *reply) read(f gjson.Result) error {
	switch kind := f.Get("type").Str; {
	case kind == "error" || isError(f.Get("error")):
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
		return r.unusable(errors.New("the answer has too many tool calls, or too long ones"))
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
		return r.unusable(errors.New("the answer ended without a stop reason"))
	case !known && !r.content && d.Text == "" && len(d.Tools) == 0:
		return r.unusable(errors.New("the answer ended with a word that nobody knows"))
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
	r.done = true
	return nil
}

func isError(v gjson.Result) bool {
	return v.IsObject() || (v.Type == gjson.String && v.Str != "")
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
	o := r.x.Answered()
	o.Phase, o.Parsed, o.InStream, o.RequestID = r.phase(), parsed, true, r.info.RequestID
	o.Read(env, r.x.Header.Get, time.Now())
	switch status := statuses[env.Type]; {
	case status != 0:
		o.Status = status
	case env.Status != 0:
		o.Status = env.Status
	}
	return r.p.fail(r.call, o)
}

// nextPlain decodes a plain body as one event, and then its end.
func (r *reply) nextPlain() (*chat.Event, error) {
	if r.done {
		return nil, io.EOF
	}
	body, err := r.readPlain()
	if err != nil {
		return nil, r.cutPlain(err)
	}
	if !wire.Valid(body) {
		return nil, r.unusable(errors.New("the body is not JSON"))
	}
	root := gjson.Parse(body)
	switch content := root.Get("content"); {
	case root.Get("type").Str == "error" || isError(root.Get("error")):
		return nil, r.failed(root)
	case !content.IsArray():
		return nil, r.unusable(errors.New("the body is no message"))
	}
	if err := r.readMessage(root); err != nil {
		return nil, err
	}
	ev := r.finished()
	return ev, nil
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
		return r.unusable(errors.New("the answer has too many tool calls, or too long ones"))
	}
	r.readStop(m)
	return r.finish()
}

// readPlain reads a whole plain body.
func (r *reply) readPlain() (string, error) {
	body, err := io.ReadAll(io.LimitReader(r.x.Body, maxPlain+1))
	if err != nil {
		return "", err
	}
	if len(body) > maxPlain {
		return "", sse.ErrTooLong
	}
	return string(body), nil
}

// cutPlain is a plain body that did not arrive whole: nothing of it has been used.
func (r *reply) cutPlain(err error) *fault.Failure {
	o := r.x.Broken(err, fault.PhaseHeaders)
	if errors.Is(err, sse.ErrTooLong) {
		o.Local = fault.NoAnswer
	}
	return r.p.fail(r.call, o)
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
