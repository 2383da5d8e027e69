package chat

import (
	"slices"
	"strings"
)

// Answer is a whole answer, put together from its events.
type Answer struct {
	ID      string
	Created int64
	Model   ServedModel
	Choices []AnswerChoice
	Usage   *Usage
	// Raw is the provider's plain body in Dialect when it answered without streaming; empty otherwise.
	Raw     string
	Dialect Dialect
	// Frame is the first frame of a streamed answer in Dialect, for members that only it carries.
	Frame string
}

// AnswerChoice is one of the alternatives of an answer.
type AnswerChoice struct {
	Index     int
	Text      string
	Refusal   string
	Reasoning string
	Calls     []ToolCall
	Thinking  []Thinking
	Finish    FinishReason
	Native    string
	// LogProbs holds the logprobs objects of the frames, as written, in order.
	LogProbs []string
}

// Assembler puts the events of one answer together. The zero value is ready for use.
type Assembler struct {
	answer  Answer
	choices map[int]*building
}

type building struct {
	text, refusal, reasoning strings.Builder
	calls                    []*callBuilding
	finish                   FinishReason
	native                   string
	logprobs                 []string
	thinking                 []Thinking
}

type callBuilding struct {
	index               int
	id, name, signature string
	custom              bool
	args                strings.Builder
}

// Add takes the next event.
func (a *Assembler) Add(e *Event) {
	if a.answer.ID == "" {
		a.answer.ID = e.ID
	}
	if a.answer.Created == 0 {
		a.answer.Created = e.Created
	}
	if a.answer.Model == "" {
		a.answer.Model = e.Model
	}
	if e.Raw != "" {
		switch {
		case e.Whole:
			a.answer.Raw, a.answer.Dialect = e.Raw, e.Dialect
		case a.answer.Frame == "":
			a.answer.Frame, a.answer.Dialect = e.Raw, e.Dialect
		}
	}
	if e.Usage != nil {
		u := *e.Usage
		a.answer.Usage = &u
	}
	for i := range e.Deltas {
		a.addDelta(&e.Deltas[i])
	}
}

func (a *Assembler) addDelta(d *Delta) {
	if a.choices == nil {
		a.choices = make(map[int]*building, 1)
	}
	b := a.choices[d.Choice]
	if b == nil {
		b = &building{}
		a.choices[d.Choice] = b
	}
	b.text.WriteString(d.Text)
	b.refusal.WriteString(d.Refusal)
	b.reasoning.WriteString(d.Reasoning)
	if d.LogProbs != "" {
		b.logprobs = append(b.logprobs, d.LogProbs)
	}
	b.thinking = append(b.thinking, d.Thinking...)
	if d.Finish != "" {
		b.finish, b.native = d.Finish, d.Native
	}
	for _, t := range d.Tools {
		c := b.call(t.Index)
		if t.ID != "" {
			c.id = t.ID
		}
		if t.Name != "" {
			c.name = t.Name
		}
		c.custom = c.custom || t.Custom
		if t.Signature != "" {
			c.signature = t.Signature
		}
		c.args.WriteString(t.Arguments)
	}
}

func (b *building) call(index int) *callBuilding {
	for _, c := range b.calls {
		if c.index == index {
			return c
		}
	}
	c := &callBuilding{index: index}
	b.calls = append(b.calls, c)
	return c
}

// Answer returns what has been put together so far, choices by index, tool calls by index, "{}" for a call without
// arguments.
func (a *Assembler) Answer() *Answer {
	out := a.answer
	for index, b := range a.choices {
		slices.SortFunc(b.calls, func(x, y *callBuilding) int { return x.index - y.index })
		c := AnswerChoice{Index: index, Text: b.text.String(), Refusal: b.refusal.String(), Reasoning: b.reasoning.String(),
			Finish: b.finish, Native: b.native, LogProbs: b.logprobs,
			Thinking: b.thinking}
		for _, call := range b.calls {
			args := call.args.String()
			if strings.TrimSpace(args) == "" && !call.custom {
				args = "{}"
			}
			c.Calls = append(c.Calls, ToolCall{ID: call.id, Name: call.name, Custom: call.custom, Arguments: args, Signature: call.signature})
		}
		out.Choices = append(out.Choices, c)
	}
	slices.SortFunc(out.Choices, func(x, y AnswerChoice) int { return x.Index - y.Index })
	return &out
}

// Size is the number of bytes of text put together so far.
func (a *Assembler) Size() int {
	n := 0
	for _, b := range a.choices {
		n += b.text.Len() + b.refusal.Len() + b.reasoning.Len()
		for _, c := range b.calls {
			n += c.args.Len()
		}
	}
	return n
}
