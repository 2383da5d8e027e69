package gemini

import (
	"crypto/rand"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/provider/wire"
)

const (
	// endWait is how long the end of a stream is waited for after a finish reason (contract.md §3.4).
	endWait = 1500 * time.Millisecond
	// maxCalls is the largest number of tool calls in one answer, maxArguments bounds the arguments of one, in bytes.
	maxCalls     = 1024
	maxArguments = 2 << 20
)

// reply decodes one answer: an event stream, or one plain body. Gemini names a finish reason in any frame, at times in each
// of them, and has no terminal frame: the end of the answer is the end of the stream, and the finish reason comes out there.
type reply struct {
	wire.Reply
	newID func() string // nil: call_ and 26 random characters

	event chat.Event
	delta chat.Delta // of the event: Gemini gives one choice
	usage chat.Usage
	ids   map[string]bool

	parts    bool // the answer has words, be they empty
	calls    int
	native   string // the last finish reason; empty: none yet
	blocked  bool   // the prompt was refused
	hasUsage bool
	beyond   bool // more calls, or longer arguments, than any model makes

	grace   *time.Timer // ends the wait for the end of the stream
	expired atomic.Bool // it did
}

// Close releases the connection.
func (r *reply) Close() {
	if r.grace != nil {
		r.grace.Stop()
	}
	r.Reply.Close()
}

// Next returns the next event.
func (r *reply) Next() (*chat.Event, error) {
	switch {
	case r.Done:
		return nil, io.EOF
	case !r.Streamed():
		return r.nextPlain()
	}
	text, err := r.Frame()
	if err != nil {
		return r.ended(err)
	}
	r.begin()
	if f := r.read(gjson.Parse(text)); f != nil {
		return nil, f
	}
	r.Content = r.Content || r.delta.Says()
	r.awaitEnd()
	return r.filled(), nil
}

// awaitEnd bounds the wait for the end of a stream, which begins with the last frame that says anything.
func (r *reply) awaitEnd() {
	switch {
	case !r.finished():
	case r.grace == nil:
		r.grace = time.AfterFunc(endWait, func() {
			r.expired.Store(true)
			_ = r.Exchange.Body.Close()
		})
	default:
		r.grace.Reset(endWait)
	}
}

func (r *reply) finished() bool { return r.native != "" || r.blocked }

// ended judges the end of a stream: with a finish reason the answer is whole. A stream that was cut is not, although it has
// one: where each frame carries it, it says nothing of the rest.
func (r *reply) ended(err error) (*chat.Event, error) {
	if r.finished() && (errors.Is(err, io.EOF) || r.expired.Load()) {
		return r.end()
	}
	return nil, r.Cut(err)
}

// end hands out the finish reason.
func (r *reply) end() (*chat.Event, error) {
	reason := r.finish()
	if reason == "" {
		return nil, r.Unusable("the answer ended with nothing in it")
	}
	r.Done = true
	r.begin()
	r.delta.Finish, r.delta.Native = reason, r.native
	return r.filled(), nil
}

// begin empties the event for what comes next.
func (r *reply) begin() {
	r.event = chat.Event{ID: r.event.ID, Model: r.event.Model, Deltas: r.event.Deltas[:0]}
	r.delta = chat.Delta{}
}

// filled is the event with what was read since begin.
func (r *reply) filled() *chat.Event {
	if !r.delta.Empty() {
		r.event.Deltas = append(r.event.Deltas, r.delta)
	}
	if r.hasUsage {
		r.event.Usage = &r.usage
	}
	return &r.event
}

// nextPlain decodes a plain body as one event. A list of frames is what a stream is without alt=sse.
func (r *reply) nextPlain() (*chat.Event, error) {
	body, err := r.Plain()
	if err != nil {
		return nil, err
	}
	r.begin()
	root := gjson.Parse(body)
	frames := []gjson.Result{root}
	if root.IsArray() {
		frames = root.Array()
	}
	for _, frame := range frames {
		if f := r.read(frame); f != nil {
			return nil, f
		}
	}
	r.Content = r.delta.Says()
	reason := r.finish()
	if !r.finished() || reason == "" {
		return nil, r.Unusable("the body has no candidate, or one without an end or anything in it")
	}
	r.Done = true
	r.event.Whole = true
	r.delta.Finish, r.delta.Native = reason, r.native
	return r.filled(), nil
}

// read adds a frame to the event. It fails when the provider says that it failed.
func (r *reply) read(root gjson.Result) *fault.Failure {
	var failed gjson.Result
	answers := false // it is an answer, or a part of one
	root.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "responseId":
			r.event.ID = value.String()
			r.Identify(r.event.ID)
		case "modelVersion":
			r.event.Model = chat.ServedModel(value.String())
		case "error":
			failed = value
		case "usageMetadata":
			answers = true
			r.readUsage(value)
		case "promptFeedback":
			answers = true
			if word := value.Get("blockReason").String(); word != "" && r.native == "" {
				r.blocked, r.native = true, word
			}
		case "candidates":
			answers = true
			r.readCandidate(value.Get("0"))
		}
		return true
	})
	if env, parsed := errorIn(root, failed, answers); parsed || failed.IsObject() {
		return r.Failed(env, parsed)
	}
	switch {
	case failedFinish[r.native]:
		return r.Failed(fault.Envelope{Code: r.native}, true)
	case r.beyond:
		return r.Unusable("the answer has too many tool calls, or too long ones")
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
	case !answers:
		return fault.ParseEnvelope(root.Raw)
	default:
		return env, false
	}
}

func (r *reply) readCandidate(c gjson.Result) {
	if word := c.Get("finishReason").String(); word != "" {
		r.native, r.blocked = word, false
	}
	c.Get("content.parts").ForEach(func(_, p gjson.Result) bool {
		r.readPart(p)
		return !r.beyond
	})
}

// readPart adds a part to the delta. A signature of words, which often comes with none, is a reasoning block by itself; that
// of a call goes with the call. Images and executed code are never asked for, and have no place in a chat answer.
func (r *reply) readPart(p gjson.Result) {
	d := &r.delta
	text, signature := p.Get("text").String(), p.Get("thoughtSignature").String()
	thought := p.Get("thought").Bool()
	r.parts = r.parts || p.Get("text").Exists()
	switch call := p.Get("functionCall"); {
	case call.IsObject():
		r.readCall(call, signature)
		return
	case thought:
		d.Reasoning += text
	default:
		d.Text += text
	}
	if signature != "" {
		block := chat.Thinking{Vendor: Vendor, Signature: signature}
		if thought {
			block.Text = text
		}
		d.Thinking = append(d.Thinking, block)
	}
}

// readCall adds a call, which always comes whole.
func (r *reply) readCall(call gjson.Result, signature string) {
	t := chat.ToolDelta{Index: r.calls, ID: r.callID(call.Get("id").String()), Name: call.Get("name").String(), Arguments: compact(call.Get("args")),
		Signature: signature}
	r.calls++
	r.beyond = r.calls > maxCalls || len(t.Arguments) > maxArguments
	r.delta.Tools = append(r.delta.Tools, t)
}

// compact writes a call's arguments without white space; {} where there are none.
func compact(args gjson.Result) string {
	if !args.IsObject() {
		return "{}"
	}
	out, err := jsontext.AppendFormat(nil, []byte(args.Raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return args.Raw
	}
	return string(out)
}

// callID is the provider's own id of a call where it gave one that is not taken, else one that we make.
func (r *reply) callID(given string) string {
	if r.ids == nil {
		r.ids = map[string]bool{}
	}
	id := given
	for id == "" || r.ids[id] {
		id = r.madeID()
	}
	r.ids[id] = true
	return id
}

func (r *reply) madeID() string {
	if r.newID != nil {
		return r.newID()
	}
	return "call_" + rand.Text()
}

// readUsage reads the counts, each of which replaces what came before. Cached tokens are part of the prompt's; thoughts are
// counted beside the candidates, and the prompts of tools beside the prompt (reference/providers.md §3.4, 2026-11-30).
func (r *reply) readUsage(u gjson.Result) {
	if !u.IsObject() {
		return
	}
	count := func(name string) int64 { return max(u.Get(name).Int(), 0) }
	thoughts := count("thoughtsTokenCount")
	r.hasUsage = true
	r.usage = chat.Usage{Prompt: count("promptTokenCount") + count("toolUsePromptTokenCount"), Completion: count("candidatesTokenCount") + thoughts,
		Cached: count("cachedContentTokenCount"), Reasoning: thoughts}
}
