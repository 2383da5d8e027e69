package gateway

import (
	"errors"
	"fmt"
	"slices"

	"spillway/internal/chat"
	"spillway/internal/contract"
	"spillway/internal/fault"
)

// verdict holds a live stream to the request's contract. The answer is put together beside the relay, and what ends a
// choice is held back until all have ended and the whole is known to keep the contract: no finish_reason is followed by
// an error (contract.md §4).
type verdict struct {
	answer chat.Assembler
	// ends are the events held back, finished is how many choices they end.
	ends     []*chat.Event
	finished int
}

// breach makes a broken contract a failure. It says nothing of the provider's health: the class weighs nothing.
func breach(p *fault.Policy, v error) *fault.Failure {
	return p.Classify(fault.Observation{Local: fault.Breach, Status: 200, Phase: fault.PhasePostContent, Sent: true, InStream: true, Cause: v})
}

// unusable makes a 200 whose content does not hold together a failure.
func unusable(p *fault.Policy, phase fault.Phase, cause error) *fault.Failure {
	return p.Classify(fault.Observation{Local: fault.NoAnswer, Status: 200, Phase: phase, Sent: true, InStream: true, Cause: cause})
}

// broken tells the caller where an answer breaks the contract; empty for every other failure.
func broken(f *fault.Failure) string {
	if v, ok := errors.AsType[*contract.Violation](f); ok {
		return " (" + v.Error() + ")"
	}
	return ""
}

// claims reports whether a choice that ends so claims to be what was asked for.
func claims(r chat.FinishReason) bool { return r == chat.FinishStop || r == chat.FinishToolCalls }

// judgeHeld ends the reading of a stream that is to be committed. One that is whole already can still be taken back, any
// other is held to the contract while it is relayed.
func (f *found) judgeHeld() error {
	if f.contract == nil {
		return nil
	}
	if !f.over() && !f.ended {
		f.verdict = &verdict{}
		return nil
	}
	var whole chat.Assembler
	for _, ev := range f.held {
		whole.Add(ev)
	}
	return f.judge(whole.Answer())
}

// judge holds a whole answer to the contract.
func (f *found) judge(a *chat.Answer) error {
	if err := f.cutOff(a); err != nil {
		return err
	}
	return f.contract.Check(a)
}

// cutOff holds what an answer's token limit cut off to what it must be: a call to be readable, whatever the route, since a
// client acts on it; and all of it to the contract, where the route wants that. The limit is the client's, and what it cuts
// off no fault of the provider's.
func (f *found) cutOff(a *chat.Answer) error {
	for i := range a.Choices {
		c := &a.Choices[i]
		if at := slices.IndexFunc(c.Calls, func(c chat.ToolCall) bool { return !legible(&c) }); at >= 0 && c.Finish == chat.FinishLength {
			return &contract.Violation{Kind: contract.Truncated, Pointer: fmt.Sprintf("/choices/%d/message/tool_calls/%d/function/arguments", c.Index, at)}
		}
	}
	if !f.whole {
		return nil
	}
	return f.contract.CheckTruncated(a)
}

// pass sends one event of a committed stream, unless it has to wait for the verdict.
func (f *found) pass(out *outlet, ev *chat.Event) *fault.Failure {
	v := f.verdict
	if v == nil {
		return f.send(out, ev)
	}
	v.answer.Add(ev)
	if !ev.Finished() {
		return f.send(out, ev)
	}
	v.ends = append(v.ends, ev.Clone())
	for i := range ev.Deltas {
		if ev.Deltas[i].Finish != "" {
			v.finished++
		}
	}
	if v.finished < f.choices {
		return nil
	}
	return f.conclude(out)
}

// conclude gives the verdict and sends what has waited for it. An answer that breaks the contract is read to its end, for
// the provider's own count of what it used.
func (f *found) conclude(out *outlet) *fault.Failure {
	v := f.verdict
	if v == nil {
		return nil
	}
	f.verdict = nil
	if err := f.judge(v.answer.Answer()); err != nil {
		f.drain()
		return breach(f.policy, err)
	}
	for _, ev := range v.ends {
		if failure := f.send(out, ev); failure != nil {
			return failure
		}
	}
	return nil
}

// drain reads a stream whose choices have ended. The watchdog gives it little time (watch).
func (f *found) drain() {
	for !f.ended {
		ev, err := f.reply.Next()
		if err != nil {
			return
		}
		f.note(ev)
	}
}
