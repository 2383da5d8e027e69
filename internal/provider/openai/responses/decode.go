package responses

import (
	"bytes"
	"errors"
	"io"
	"strings"
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

	stream *sse.Reader // nil: a plain body
	event  chat.Event
	delta  chat.Delta
	usage  chat.Usage
	output output

	id      string
	created int64
	model   chat.ServedModel

	content bool // something that a user would see has been decoded
	done    bool // a terminal event, or the end of a plain body, has been read
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

// Next returns the next event. Frames that say nothing, such as the begin of an empty message, make none.
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
		data := string(bytes.TrimSpace(frame.Data))
		if data == "[DONE]" { // the other API's end; whatever sends it here ends without having said how
			return nil, r.ended(io.EOF)
		}
		ev, err := r.frame(data)
		if ev != nil || err != nil {
			return ev, err
		}
	}
	return nil, io.EOF
}

// ended is a stream that ends without a terminal event.
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

var (
	errMalformed = errors.New("a frame of the stream is not JSON")
	errBeyond    = errors.New("the answer has too many items, or too long ones")
)

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
	if d.Text != "" || d.Refusal != "" || d.Reasoning != "" || len(d.Tools) > 0 || len(d.Thinking) > 0 || d.LogProbs != "" || d.Finish != "" {
		r.event.Deltas = append(r.event.Deltas, *d)
	}
	if len(r.event.Deltas) == 0 && r.event.Usage == nil && r.event.ID == "" {
		return nil
	}
	r.event.ID, r.event.Created, r.event.Model = r.id, r.created, r.model
	r.content = r.content || r.event.Content()
	return &r.event
}

// read reads a frame into the event. Types that it does not know are passed over: they tell of the provider's own tools, or
// repeat what has been said.
func (r *reply) read(f gjson.Result) error {
	d, at := &r.delta, f.Get("output_index").Int()
	switch kind := f.Get("type").Str; kind {
	case "response.created":
		r.head(f.Get("response"))
	case "response.output_item.added":
		r.output.add(d, r.id, at, f.Get("item"))
	case "response.output_text.delta":
		r.output.text(d, at, f.Get("delta").Str)
		logProbs(d, f.Get("logprobs"))
	case "response.refusal.delta":
		r.output.say(at, &d.Refusal, f.Get("delta").Str)
	case "response.reasoning_summary_text.delta":
		r.output.reason(d, at, part{kind, f.Get("summary_index").Int()}, f.Get("delta").Str)
	case "response.reasoning_text.delta":
		r.output.reason(d, at, part{kind, f.Get("content_index").Int()}, f.Get("delta").Str)
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		r.output.argue(d, at, f.Get("delta").Str)
	case "response.output_item.done":
		r.output.finish(d, r.id, at, f.Get("item"))
	case "response.completed", "response.incomplete":
		return r.finish(f.Get("response"), kind == "response.incomplete")
	case "response.failed", "error":
		return r.failed(f)
	default:
		if isError(f.Get("error")) && !strings.HasPrefix(kind, "response.") { // of something between us and the provider
			return r.failed(f)
		}
	}
	if r.output.beyond {
		return r.unusable(errBeyond)
	}
	return nil
}

// head reads what an answer says of itself.
func (r *reply) head(v gjson.Result) {
	if id := v.Get("id").String(); id != "" {
		r.id = id
	}
	if created := v.Get("created_at").Int(); created != 0 {
		r.created = created
	}
	if served := v.Get("model").String(); served != "" {
		r.model = chat.ServedModel(served)
	}
	r.event.ID = r.id
	if u := v.Get("usage"); u.IsObject() {
		r.readUsage(u)
	}
}

// incomplete are the reasons of an answer that is not complete, in our words (reference/providers.md §3.7, 2026-11-30).
var incomplete = map[string]chat.FinishReason{"max_output_tokens": chat.FinishLength, "content_filter": chat.FinishContentFilter}

// finish ends an answer. What no frame has said of its output yet is said now.
func (r *reply) finish(v gjson.Result, cut bool) error {
	d := &r.delta
	r.head(v)
	r.output.rest(d, r.id, v.Get("output"))
	if r.output.beyond {
		return r.unusable(errBeyond)
	}
	if r.output.begun == 0 && !cut {
		return r.unusable(errors.New("the answer is complete and has nothing in it"))
	}
	d.Finish, d.Native = chat.FinishStop, "completed"
	if r.output.calls > 0 {
		d.Finish = chat.FinishToolCalls
	}
	if cut {
		reason := v.Get("incomplete_details.reason").Str
		finish, known := incomplete[reason]
		if !known {
			if !r.content && !says(d) {
				return r.unusable(errors.New("the answer ended for a reason that nobody knows"))
			}
			finish, reason = chat.FinishLength, "incomplete" // it was cut short all the same
		}
		d.Finish, d.Native = finish, reason
	}
	if d.Native == string(d.Finish) {
		d.Native = ""
	}
	r.done = true
	return nil
}

// says reports whether a delta adds anything that a user would see.
func says(d *chat.Delta) bool {
	return d.Text != "" || d.Refusal != "" || d.Reasoning != "" || len(d.Tools) > 0
}

func isError(v gjson.Result) bool {
	return v.IsObject() || (v.Type == gjson.String && v.Str != "")
}

// failed classifies an error inside a 200: that of a failed response, that of an event `error`, whose members stand in it
// or in an object of its own, or a body that is one.
func (r *reply) failed(f gjson.Result) *fault.Failure {
	var env fault.Envelope
	parsed := false
	member := f.Get("response.error")
	if !member.IsObject() {
		member = f.Get("error")
	}
	switch {
	case member.IsObject() && len(member.Raw) <= fault.MaxErrorBody:
		env, parsed = fault.ParseErrorMember(member.Raw)
	case !member.IsObject() && len(f.Raw) <= fault.MaxErrorBody:
		env, parsed = fault.ParseEnvelope(f.Raw)
	}
	o := r.x.Answered()
	o.Phase, o.Parsed, o.InStream, o.RequestID = r.phase(), parsed, true, r.info.RequestID
	o.Read(env, r.x.Header.Get, time.Now())
	if env.Status != 0 {
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
	r.begin()
	root := gjson.Parse(body)
	status := root.Get("status").Str
	switch {
	case isError(root.Get("error")), root.Get("type").Str == "error":
		return nil, r.failed(root)
	case !root.Get("output").IsArray(), status != "completed" && status != "incomplete":
		return nil, r.unusable(errors.New("the body is no response, or one that has not ended"))
	}
	if err := r.finish(root, status == "incomplete"); err != nil {
		return nil, err
	}
	return r.finished(), nil
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

// readUsage reads the counts, of which cached and reasoning tokens are parts.
func (r *reply) readUsage(u gjson.Result) {
	count := func(path string) int64 { return max(u.Get(path).Int(), 0) }
	r.usage = chat.Usage{Prompt: count("input_tokens"), Completion: count("output_tokens"), Cached: count("input_tokens_details.cached_tokens"),
		CacheWrite: count("input_tokens_details.cache_write_tokens"), Reasoning: count("output_tokens_details.reasoning_tokens"), Raw: u.Raw}
	r.event.Usage = &r.usage
}
