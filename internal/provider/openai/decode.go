package openai

import (
	"cmp"
	"errors"
	"io"

	"github.com/tidwall/gjson"

	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/provider/wire"
)

// reply decodes one answer: an event stream, or one plain body.
type reply struct {
	wire.Reply

	event chat.Event
	usage chat.Usage
	calls calls

	thoughts thoughts

	choices  choices
	hasUsage bool // usage came with the last finish reason, or after it
	over     bool // the stream says that it is, or has ended
}

// Close releases the connection.
func (r *reply) Close() {
	r.Done = r.complete()
	r.Reply.Close()
}

// Next returns the next event.
func (r *reply) Next() (*chat.Event, error) {
	switch {
	case !r.Streamed():
		return r.nextPlain()
	case r.complete() && r.hasUsage:
		return nil, io.EOF
	}
	text, err := r.Frame()
	if err != nil {
		return nil, r.ended(err)
	}
	whole := r.complete()
	ev, failure := r.frame(text)
	switch {
	case failure != nil && whole:
		return nil, io.EOF // whatever this is, the answer was whole before it
	case failure != nil:
		return nil, failure
	}
	return ev, nil
}

// complete reports whether the answer is whole: every choice that was asked for has ended or, when the stream says that
// it is over, every choice that there was (some servers give one whatever n is).
func (r *reply) complete() bool {
	n := r.choices.ended
	return n > 0 && (n >= r.Call.Request.Choices || (r.over && n == len(r.choices.over)))
}

// ended judges the end of a stream. Whatever the connection does after the last finish reason, the answer is whole.
func (r *reply) ended(err error) error {
	if errors.Is(err, io.EOF) {
		r.over = true
	}
	if r.complete() {
		return io.EOF
	}
	return r.Cut(err)
}

// frame decodes one frame.
func (r *reply) frame(data string) (*chat.Event, *fault.Failure) {
	r.event = chat.Event{Raw: data, Dialect: chat.OpenAIChat, Deltas: r.event.Deltas[:0]}
	wasComplete, hadUsage := r.complete(), r.hasUsage
	if f := r.read(gjson.Parse(data), "delta"); f != nil {
		return nil, f
	}
	r.event.Whole = r.event.Whole && !r.event.Rebuilt
	r.hasUsage = r.event.Usage != nil || (wasComplete && hadUsage)
	if r.event.Content() {
		r.Content = true
	}
	return &r.event, nil
}

// nextPlain decodes a plain body as one event, and then its end.
func (r *reply) nextPlain() (*chat.Event, error) {
	body, err := r.Plain()
	if err != nil {
		return nil, err
	}
	r.event = chat.Event{Raw: body, Dialect: chat.OpenAIChat, Whole: true}
	if f := r.read(gjson.Parse(body), "message"); f != nil {
		return nil, f
	}
	if len(r.choices.over) == 0 || r.choices.ended < len(r.choices.over) {
		return nil, r.Unusable("the body has no choice, or one without message or end")
	}
	r.event.Whole = !r.event.Rebuilt // a body that was normalised must not be passed on as it is
	return &r.event, nil
}

// read fills the event from a frame or a body. It fails when the provider says that it failed.
func (r *reply) read(root gjson.Result, member string) *fault.Failure {
	var failed gjson.Result
	answers := false // it is an answer, or a part of one
	root.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "id":
			r.event.ID = value.String()
			if r.Info().RequestID == "" && fault.IDInBody(r.Call.Channel.Provider.Vendor) {
				r.Identify(r.event.ID)
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
			if e := r.readGroq(value); wire.IsError(e) {
				failed = e
			}
		case "choices":
			answers = true
			value.ForEach(func(_, choice gjson.Result) bool {
				if e := r.readChoice(choice, member); wire.IsError(e) {
					failed = e
				}
				return true
			})
		}
		return true
	})
	if env, parsed := errorIn(root, failed, answers); parsed || wire.IsError(failed) {
		return r.Failed(env, parsed)
	}
	for i := range r.event.Deltas {
		switch d := &r.event.Deltas[i]; {
		case failedFinish[d.Native]:
			return r.Failed(fault.Envelope{Code: d.Native}, true)
		case strange(d.Native) && !r.Content && !d.Says():
			return r.Unusable("the answer ended with a word that nobody knows")
		}
	}
	if len(r.calls.seen) > maxCalls {
		return r.Unusable("the answer has too many tool calls")
	}
	return nil
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
	case wire.IsError(member):
		return fault.ParseErrorMember(member.Raw)
	default:
		return env, false
	}
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
	if !body.IsObject() && other.IsObject() && !r.Content {
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
	return d.Says() || d.Finish != ""
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
	r.Identify(v.Get("id").Str)
	if usage := v.Get("usage"); usage.Get("prompt_tokens").Exists() {
		r.readUsage(usage)
	}
	return v.Get("error")
}
