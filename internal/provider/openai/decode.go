package openai

import (
	"bytes"
	"cmp"
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

// drainFor bounds the wait for the last bytes of an answer that is already complete, so that its connection can be kept.
const drainFor = 100 * time.Millisecond

// reply decodes one answer: an event stream, or one plain body.
type reply struct {
	p    *Provider
	call provider.Call
	x    *wire.Exchange
	info provider.Info

	stream *sse.Reader // nil: a plain body
	event  chat.Event
	usage  chat.Usage
	calls  calls

	thoughts thoughts

	content  bool // something that a user would see has been decoded
	choices  choices
	hasUsage bool // usage came with the last finish reason, or after it
	done     bool // the wire format's end has been read
	spent    bool // the body has been read to its end
	closed   bool
}

func (r *reply) Info() provider.Info { return r.info }

// Close releases the connection. A complete answer's last bytes are read for a moment first.
func (r *reply) Close() {
	if r.closed {
		return
	}
	r.closed = true
	if r.complete() && !r.spent && r.stream != nil {
		stop := time.AfterFunc(drainFor, func() { _ = r.x.Body.Close() })
		for _, err := r.stream.Next(); err == nil; _, err = r.stream.Next() {
			continue
		}
		stop.Stop()
	}
	_ = r.x.Body.Close()
}

// Next returns the next event.
func (r *reply) Next() (*chat.Event, error) {
	if r.stream == nil {
		return r.nextPlain()
	}
	for {
		if r.complete() && r.hasUsage {
			return nil, io.EOF
		}
		frame, err := r.stream.Next()
		if err != nil {
			r.spent = true
			return nil, r.ended(err)
		}
		data := string(bytes.TrimSpace(frame.Data))
		if data == "[DONE]" {
			return nil, r.ended(io.EOF)
		}
		whole := r.complete()
		ev, err := r.frame(data)
		switch {
		case err != nil && whole:
			return nil, io.EOF // whatever this is, the answer was whole before it
		case err != nil:
			return nil, err
		}
		if ev != nil {
			return ev, nil
		}
	}
}

// complete reports whether the answer is whole: every choice that was asked for has ended or, when the stream says that
// it is over, every choice that there was (some servers give one whatever n is).
func (r *reply) complete() bool {
	n := r.choices.ended
	return n > 0 && (n >= r.call.Request.Choices || (r.done && n == len(r.choices.over)))
}

// ended judges the end of a stream. Whatever the connection does after the last finish reason, the answer is whole.
func (r *reply) ended(err error) error {
	if errors.Is(err, io.EOF) {
		r.done = true
	}
	if r.complete() {
		return io.EOF
	}
	if r.content && r.info.Malformed == 0 && !errors.Is(err, sse.ErrTooLong) {
		return r.p.fail(r.call, r.broken(err, fault.PhasePostContent))
	}
	return r.unusable(err)
}

// broken describes an answer that did not come whole, whose id may stand in what came of it.
func (r *reply) broken(err error, phase fault.Phase) fault.Observation {
	o := r.x.Broken(err, phase)
	o.RequestID = r.info.RequestID
	return o
}

// unusable is a 2xx that gave no answer; one that was ended by ourselves keeps its cause.
func (r *reply) unusable(err error) *fault.Failure {
	o := r.broken(err, r.phase())
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
	r.event = chat.Event{Raw: data, Dialect: chat.OpenAIChat, Deltas: r.event.Deltas[:0]}
	wasComplete, hadUsage := r.complete(), r.hasUsage
	if f := r.read(gjson.Parse(data), "delta"); f != nil {
		return nil, f
	}
	r.event.Whole = r.event.Whole && !r.event.Rebuilt
	r.hasUsage = r.event.Usage != nil || (wasComplete && hadUsage)
	if r.event.Content() {
		r.content = true
	}
	return &r.event, nil
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
	r.done = true
	if !wire.Valid(body) {
		return nil, r.unusable(errors.New("the body is not JSON"))
	}
	r.event = chat.Event{Raw: body, Dialect: chat.OpenAIChat, Whole: true}
	if f := r.read(gjson.Parse(body), "message"); f != nil {
		return nil, f
	}
	if len(r.choices.over) == 0 || r.choices.ended < len(r.choices.over) {
		return nil, r.unusable(errors.New("the body has no choice, or one without message or end"))
	}
	r.event.Whole = !r.event.Rebuilt // a body that was normalised must not be passed on as it is
	return &r.event, nil
}

// cutPlain is a plain body that did not arrive whole: nothing of it has been used.
func (r *reply) cutPlain(err error) *fault.Failure {
	o := r.broken(err, fault.PhaseHeaders)
	if errors.Is(err, sse.ErrTooLong) {
		o.Local = fault.NoAnswer
	}
	return r.p.fail(r.call, o)
}

// read fills the event from a frame or a body. It fails when the provider says that it failed.
func (r *reply) read(root gjson.Result, member string) *fault.Failure {
	var failed gjson.Result
	answers := false // it is an answer, or a part of one
	root.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "id":
			r.event.ID = value.String()
			if r.info.RequestID == "" && fault.IDInBody(r.call.Channel.Provider.Vendor) {
				r.info.RequestID = r.event.ID
			}
		case "created":
			r.event.Created = value.Int()
		case "model":
			r.event.Model = chat.ServedModel(value.String())
		case "error":
			failed = value
		case "usage":
			answers = true
			r.readUsage(value)
		case "x_groq":
			answers = true
			if e := r.readGroq(value); isError(e) {
				failed = e
			}
		case "choices":
			answers = true
			value.ForEach(func(_, choice gjson.Result) bool {
				if e := r.readChoice(choice, member); isError(e) {
					failed = e
				}
				return true
			})
		}
		return true
	})
	if env, parsed := errorIn(root, failed, answers); parsed || isError(failed) {
		return r.failed(env, parsed)
	}
	for i := range r.event.Deltas {
		switch d := &r.event.Deltas[i]; {
		case failedFinish[d.Native]:
			return r.failed(fault.Envelope{Code: d.Native}, true)
		case strange(d.Native) && !r.content && !says(d):
			return r.unusable(errors.New("the answer ended with a word that nobody knows"))
		}
	}
	if len(r.calls.seen) > maxCalls {
		return r.unusable(errors.New("the answer has too many tool calls"))
	}
	return nil
}

// says reports whether a delta adds anything to a choice.
func says(d *chat.Delta) bool {
	return d.Text != "" || d.Refusal != "" || d.Reasoning != "" || d.Media || len(d.Tools) > 0
}

func isError(v gjson.Result) bool {
	return v.IsObject() || (v.Type == gjson.String && v.Str != "")
}

// errorIn finds the error in a frame or a body: the member that holds one, or the whole of what is no part of an answer.
func errorIn(root, member gjson.Result, answers bool) (env fault.Envelope, parsed bool) {
	switch {
	case len(root.Raw) > fault.MaxErrorBody && !answers, len(member.Raw) > fault.MaxErrorBody:
		return env, false // says nothing that could be understood
	case member.IsObject():
		return fault.ParseErrorMember(member.Raw)
	case !answers: // beside an error that is a text may stand its code
		return fault.ParseEnvelope(root.Raw)
	case isError(member):
		return fault.ParseErrorMember(member.Raw)
	default:
		return env, false
	}
}

// failed classifies an error inside a 200.
func (r *reply) failed(env fault.Envelope, parsed bool) *fault.Failure {
	o := r.x.Answered()
	o.Phase, o.Parsed, o.InStream, o.RequestID = r.phase(), parsed, true, r.info.RequestID
	o.Read(env, r.x.Header.Get, time.Now())
	if env.Status != 0 {
		o.Status = env.Status
	}
	return r.p.fail(r.call, o)
}

// readChoice adds what a choice says to the event. It returns the choice's member `error`, if it has one.
func (r *reply) readChoice(choice gjson.Result, member string) (failed gjson.Result) {
	d := chat.Delta{}
	var body, other gjson.Result
	choice.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "index":
			d.Choice = int(value.Int())
		case "finish_reason":
			d.Finish, d.Native = finishReason(value.String())
			if d.Native != "" || (d.Finish == "" && value.Type == gjson.String) {
				r.event.Rebuilt = true // a word that OpenAI's clients do not know
			}
		case "logprobs":
			if value.IsObject() {
				d.LogProbs = value.Raw
			}
		case member:
			body = value
		case "delta", "message":
			other = value
		case "error":
			failed = value
		}
		return true
	})
	if !body.IsObject() && other.IsObject() && !r.content {
		// A server that answers one shape in the other.
		body, r.event.Rebuilt, r.event.Whole = other, true, member == "delta"
	}
	r.readBody(&d, body)
	if d.Finish == chat.FinishStop && r.calls.made(d.Choice) {
		// Some say stop although the model waits for a tool (Gemini's endpoint; OpenAI where the tool was named).
		d.Finish, d.Native, r.event.Rebuilt = chat.FinishToolCalls, cmp.Or(d.Native, "stop"), true
	}
	if d.Finish != "" && !r.choices.over[d.Choice] && r.calls.close(&d) {
		r.event.Rebuilt = true
	}
	if r.keep(&d, body.IsObject(), member) {
		r.event.Deltas = append(r.event.Deltas, d)
	}
	return failed
}

// readBody reads a delta, or the message of a plain body.
func (r *reply) readBody(d *chat.Delta, body gjson.Result) {
	body.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "content":
			r.readContent(d, value)
		case "refusal":
			d.Refusal = value.Str
		case "reasoning_content", "reasoning":
			if d.Reasoning == "" {
				d.Reasoning = value.Str
			}
		case "reasoning_details":
			r.thoughts.read(d, value)
		case "tool_calls":
			r.readCalls(d, value)
		case "audio", "images":
			d.Media = value.IsObject() || value.IsArray()
		}
		return true
	})
}

// choices are the choices that an answer has shown. The zero value has none.
type choices struct {
	over  map[int]bool // index → whether it has ended
	ended int          // how many of them have
}

// see notes a choice, and whether it has ended by now. One that has ended stays so.
func (c *choices) see(index int, over bool) {
	before, seen := c.over[index]
	if seen && (before || !over) {
		return
	}
	if c.over == nil {
		c.over = map[int]bool{}
	}
	c.over[index] = over
	if over {
		c.ended++
	}
}

// keep notes a delta and reports whether there is anything in it to pass on. A choice without a delta breaks clients, a
// plain one without a message is none, and what is said again after a choice's end is not passed on.
func (r *reply) keep(d *chat.Delta, hasBody bool, member string) bool {
	over := r.choices.over[d.Choice]
	if over {
		d.Finish, d.Native = "", ""
	}
	r.choices.see(d.Choice, d.Finish != "" && (hasBody || member == "delta"))
	if hasBody && !over {
		return true
	}
	r.event.Rebuilt = true
	return says(d) || d.Finish != ""
}

// readContent reads a content value: a string, or a list of parts of text and thinking (Mistral's reasoning models), which
// OpenAI's clients do not know.
func (r *reply) readContent(d *chat.Delta, v gjson.Result) {
	if !v.IsArray() {
		d.Text = v.Str
		return
	}
	r.event.Rebuilt = true
	v.ForEach(func(_, part gjson.Result) bool {
		d.Text += part.Get("text").Str
		for _, thought := range part.Get("thinking.#.text").Array() {
			d.Reasoning += thought.Str
		}
		return true
	})
}

// readGroq reads Groq's own member: its id of the call, the usage of a stream, and an error, which is returned. In a plain
// answer its usage counts the hardware's caches, and not what is billed.
func (r *reply) readGroq(v gjson.Result) (failed gjson.Result) {
	if r.info.RequestID == "" {
		r.info.RequestID = v.Get("id").Str
	}
	if usage := v.Get("usage"); usage.Get("prompt_tokens").Exists() {
		r.readUsage(usage)
	}
	return v.Get("error")
}
