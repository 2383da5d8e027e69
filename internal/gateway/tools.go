package gateway

import (
	"cmp"
	"errors"
	"slices"

	"spillway/internal/chat"
	"spillway/internal/contract"
	"spillway/internal/fault"
	"spillway/internal/provider"
)

// wholeCalls is a reply whose tool calls come in one piece, after all their arguments have arrived and can be read
// (contract.md §6, tool_deltas: whole). What arrives of a call before is withheld, so that it neither commits a stream
// nor reaches the client if the stream is cut.
type wholeCalls struct {
	provider.Reply
	policy *fault.Policy
	// contract is what each call must keep; nil: no more than being readable.
	contract *contract.Contract
	// whole says that a call that its token limit cut off does not keep the contract.
	whole   bool
	pending []pendingCall
	size    int // of the arguments withheld so far
	// counted is the provider's count since the last part of a call; nil: none has come. Whoever counts what the calls add
	// has to know that it holds them, although they come behind it.
	counted *chat.Usage
	event   chat.Event
	after   *chat.Event // an event that waits behind the calls it ends
}

type pendingCall struct {
	choice    int
	call      chat.ToolDelta
	arguments []byte
}

// Next returns the next event without the parts of calls, or the calls that have become whole.
func (w *wholeCalls) Next() (*chat.Event, error) {
	if ev := w.after; ev != nil {
		w.after = nil
		return ev, nil
	}
	ev, err := w.Reply.Next()
	if err != nil {
		return nil, err
	}
	took := w.take(ev)
	w.count(ev, took)
	if w.size > maxWhole {
		return nil, tooLarge(w.policy)
	}
	calls, err := w.release(ev)
	if err != nil {
		return nil, err
	}
	if calls != nil {
		w.after = ev.Clone()
		return calls, nil
	}
	ev.Withheld = took
	return ev, nil
}

// take moves the parts of calls out of an event.
func (w *wholeCalls) take(ev *chat.Event) (took bool) {
	for i := range ev.Deltas {
		d := &ev.Deltas[i]
		for _, t := range d.Tools {
			w.add(d.Choice, t)
			took = true
		}
		d.Tools = d.Tools[:0]
	}
	if !took {
		return false
	}
	ev.Rebuilt = true // the frame as sent still holds the parts
	ev.Deltas = slices.DeleteFunc(ev.Deltas, func(d chat.Delta) bool {
		return d.Text == "" && d.Refusal == "" && d.Reasoning == "" && d.Finish == "" && !d.Media && len(d.Thinking) == 0 && d.LogProbs == ""
	})
	return true
}

// count keeps the count that holds all the parts so far.
func (w *wholeCalls) count(ev *chat.Event, took bool) {
	if took {
		w.counted = nil
	}
	if ev.Usage != nil {
		u := *ev.Usage
		w.counted = &u
	}
}

func (w *wholeCalls) add(choice int, t chat.ToolDelta) {
	w.size += len(t.Arguments)
	for i := range w.pending {
		if p := &w.pending[i]; p.choice == choice && p.call.Index == t.Index {
			p.arguments = append(p.arguments, t.Arguments...)
			p.call.Name = cmp.Or(p.call.Name, t.Name) // some name a call later than its id
			return
		}
	}
	w.pending = append(w.pending, pendingCall{choice: choice, call: t, arguments: []byte(t.Arguments)})
}

var errUnreadableCall = errors.New("a tool call's arguments are not JSON")

// release makes one event of the calls of the choices that an event ends; nil when there are none.
func (w *wholeCalls) release(end *chat.Event) (*chat.Event, error) {
	w.event = chat.Event{ID: end.ID, Created: end.Created, Model: end.Model, Usage: w.counted, Rebuilt: true}
	rest := w.pending[:0]
	for _, p := range w.pending {
		at := slices.IndexFunc(end.Deltas, func(d chat.Delta) bool { return d.Choice == p.choice && d.Finish != "" })
		if at < 0 {
			rest = append(rest, p)
			continue
		}
		if p.call.Arguments = string(p.arguments); !p.call.Custom {
			p.call.Arguments = cmp.Or(p.call.Arguments, "{}")
		}
		if err := w.check(&p.call, end.Deltas[at].Finish); err != nil {
			return nil, err
		}
		w.event.Deltas = append(w.event.Deltas, chat.Delta{Choice: p.choice, Tools: []chat.ToolDelta{p.call}})
	}
	if w.pending = rest; len(w.event.Deltas) == 0 {
		return nil, nil
	}
	return &w.event, nil
}

// check holds a whole call to what every call must be, and to the contract.
func (w *wholeCalls) check(c *chat.ToolDelta, finish chat.FinishReason) error {
	var broken error
	switch cut, unreadable := finish == chat.FinishLength, !c.Custom && !readable(c.Arguments); {
	case cut && unreadable:
		broken = &contract.Violation{Kind: contract.Truncated, Pointer: "/function/arguments"}
	case cut && w.whole:
		broken = w.contract.CheckTruncatedCall(c.Name, c.Arguments)
	case unreadable:
		return unusable(w.policy, fault.PhasePostContent, errUnreadableCall)
	case claims(finish):
		broken = w.contract.CheckCall(c.Name, c.Arguments)
	}
	if broken != nil {
		return breach(w.policy, broken)
	}
	return nil
}
