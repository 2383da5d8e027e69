package responses

import (
	"io"
	"strings"

	"github.com/tidwall/gjson"

	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/provider/wire"
)

// reply decodes one answer: an event stream, or one plain body.
type reply struct {
	wire.Reply

	event  chat.Event
	delta  chat.Delta
	usage  chat.Usage
	output output

	id      string
	created int64
	model   chat.ServedModel
}

// Next returns the next event. Frames that say nothing, such as the begin of an empty message, make none.
func (r *reply) Next() (*chat.Event, error) {
	if !r.Streamed() {
		return r.nextPlain()
	}
	for !r.Done {
		text, err := r.Frame()
		if err != nil {
			return nil, r.Cut(err) // without a terminal event
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

const beyond = "the answer has too many items, or too long ones"

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
	r.event.ID, r.event.Created, r.event.Model = r.id, r.created, r.model
	r.Content = r.Content || r.event.Content()
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
		if wire.IsError(f.Get("error")) && !strings.HasPrefix(kind, "response.") { // of something between us and the provider
			return r.failed(f)
		}
	}
	if r.output.beyond {
		return r.Unusable(beyond)
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
		return r.Unusable(beyond)
	}
	if r.output.begun == 0 && !cut {
		return r.Unusable("the answer is complete and has nothing in it")
	}
	d.Finish, d.Native = chat.FinishStop, "completed"
	if r.output.calls > 0 {
		d.Finish = chat.FinishToolCalls
	}
	if cut {
		reason := v.Get("incomplete_details.reason").Str
		finish, known := incomplete[reason]
		if !known {
			if !r.Content && !d.Says() {
				return r.Unusable("the answer ended for a reason that nobody knows")
			}
			finish, reason = chat.FinishLength, "incomplete" // it was cut short all the same
		}
		d.Finish, d.Native = finish, reason
	}
	if d.Native == string(d.Finish) {
		d.Native = ""
	}
	r.Done = true
	return nil
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
	return r.Failed(env, parsed)
}

// nextPlain decodes a plain body as one event, and then its end.
func (r *reply) nextPlain() (*chat.Event, error) {
	body, err := r.Plain()
	if err != nil {
		return nil, err
	}
	r.begin()
	root := gjson.Parse(body)
	status := root.Get("status").Str
	switch {
	case wire.IsError(root.Get("error")), root.Get("type").Str == "error":
		return nil, r.failed(root)
	case !root.Get("output").IsArray(), status != "completed" && status != "incomplete":
		return nil, r.Unusable("the body is no response, or one that has not ended")
	}
	if err := r.finish(root, status == "incomplete"); err != nil {
		return nil, err
	}
	return r.finished(), nil
}

// readUsage reads the counts, of which cached and reasoning tokens are parts.
func (r *reply) readUsage(u gjson.Result) {
	count := func(path string) int64 { return max(u.Get(path).Int(), 0) }
	r.usage = chat.Usage{Prompt: count("input_tokens"), Completion: count("output_tokens"), Cached: count("input_tokens_details.cached_tokens"),
		CacheWrite: count("input_tokens_details.cache_write_tokens"), Reasoning: count("output_tokens_details.reasoning_tokens"), Raw: u.Raw}
	r.event.Usage = &r.usage
}
