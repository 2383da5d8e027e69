package chat

import "slices"

// FinishReason says why a choice ended, in OpenAI's words. The zero value means that it has not ended.
type FinishReason string

// The finish reasons a client can see.
const (
	FinishStop          FinishReason = "stop"
	FinishLength        FinishReason = "length"
	FinishToolCalls     FinishReason = "tool_calls"
	FinishContentFilter FinishReason = "content_filter"
)

// Usage counts tokens. Cached and reasoning tokens are parts of Prompt and Completion, never added to them.
type Usage struct {
	Prompt     int64
	Completion int64
	Cached     int64
	CacheWrite int64
	Reasoning  int64
	// Estimated marks counts that we made because the provider sent none.
	Estimated bool
	// Raw is the provider's own usage object, to be passed on within RawDialect; empty when there is none.
	Raw        string
	RawDialect Dialect
}

// Total is what a client sees as total_tokens.
func (u Usage) Total() int64 { return u.Prompt + u.Completion }

// Event is what one frame of an upstream answer said. A decoder owns the event that it returns and reuses it: it is
// valid until the next call, and Clone makes a copy to keep.
type Event struct {
	ID      string
	Created int64
	Model   ServedModel
	Deltas  []Delta
	// Usage is cumulative: the last one counts. Nil when the frame carried none.
	Usage *Usage

	// Raw is the frame as the provider wrote it, in Dialect. It may be passed on to a client of that dialect, member
	// by member, unless Rebuilt is set.
	Raw     string
	Dialect Dialect
	// Rebuilt says that Deltas were normalised and no longer say what Raw says.
	Rebuilt bool
	// Withheld says that a part of a tool call has arrived that is kept back until the call is whole.
	Withheld bool
	// Whole says that the provider answered with one plain body instead of a stream; Raw is that body.
	Whole bool
}

// Delta is what one frame adds to one choice.
type Delta struct {
	Choice    int
	Text      string
	Refusal   string
	Reasoning string
	Tools     []ToolDelta
	// LogProbs is the provider's logprobs object as written; empty: none.
	LogProbs string
	// Thinking is a reasoning block that has become whole. It is no content by itself.
	Thinking []Thinking
	// Media says that the frame carries audio or image data, which only Raw holds.
	Media  bool
	Finish FinishReason
	// Native is the provider's own word for Finish, where it differs.
	Native string
}

// Says reports whether the delta adds anything to what the choice says or calls.
func (d *Delta) Says() bool {
	return d.Text != "" || d.Refusal != "" || d.Reasoning != "" || d.Media || len(d.Tools) > 0
}

// Empty reports whether there is nothing in the delta to pass on, be it an end.
func (d *Delta) Empty() bool {
	return !d.Says() && len(d.Thinking) == 0 && d.LogProbs == "" && d.Finish == ""
}

// ToolDelta is a fragment of a tool call. ID and Name come with a call's first fragment only.
type ToolDelta struct {
	Index     int
	ID        string
	Name      string
	Arguments string
	// Custom marks a call of a free-text tool, with its first fragment.
	Custom bool
	// Signature comes with a call's first fragment only.
	Signature string
}

// Content reports whether the event holds something that a user of the answer would see, which is what commits a
// stream (policy.md §5): text, refusal, surfaced reasoning, a named tool call, media, or a legitimate end.
func (e *Event) Content() bool {
	for i := range e.Deltas {
		d := &e.Deltas[i]
		if d.Text != "" || d.Refusal != "" || d.Reasoning != "" || d.Media || d.Finish != "" {
			return true
		}
		for _, t := range d.Tools {
			if t.ID != "" || t.Name != "" {
				return true
			}
		}
	}
	return false
}

// Finished reports whether the event ends at least one choice.
func (e *Event) Finished() bool {
	return slices.ContainsFunc(e.Deltas, func(d Delta) bool { return d.Finish != "" })
}

// HasTool reports whether the event holds a part of a tool call.
func (e *Event) HasTool() bool {
	return slices.ContainsFunc(e.Deltas, func(d Delta) bool { return len(d.Tools) > 0 })
}

// Clone returns a copy that shares no memory that a decoder reuses.
func (e *Event) Clone() *Event {
	c := *e
	c.Deltas = slices.Clone(e.Deltas)
	for i := range c.Deltas {
		c.Deltas[i].Tools = slices.Clone(c.Deltas[i].Tools)
		c.Deltas[i].Thinking = slices.Clone(c.Deltas[i].Thinking)
	}
	if e.Usage != nil {
		u := *e.Usage
		c.Usage = &u
	}
	return &c
}
