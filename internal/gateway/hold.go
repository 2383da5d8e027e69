package gateway

import (
	"errors"
	"io"
	"time"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/retry"
)

const (
	// While no content has come, so much is held back (contract.md §4); past it the gateway commits.
	maxHeldEvents = 64
	maxHeldBytes  = 256 << 10
	// maxWhole is the largest answer that CommitComplete holds back.
	maxWhole = 8 << 20
)

// errTooLarge is an answer that cannot be held back whole.
var errTooLarge = errors.New("the answer is larger than can be held back")

// commitment says how much of an answer is held back before it is committed.
type commitment struct {
	policy catalog.Commit
	tokens int
	after  time.Duration
}

// read follows an attempt until the commitment is met: for a plain client and for CommitComplete to the end of the
// answer, else to its first content, or a prefix more. Until it returns every failure can still fall back. stall is the
// longest gap between contents.
func (f *found) read(c commitment, stream bool, stall time.Duration) error {
	var whole chat.Assembler
	toEnd := !stream || c.policy == catalog.CommitComplete
	for {
		ev, err := f.reply.Next()
		if errors.Is(err, io.EOF) && !f.content.IsZero() {
			f.ended = true
			break
		}
		if err != nil {
			return err // also io.EOF: a whole answer has content, if only a legitimate end
		}
		f.note(ev)
		f.breathe(ev, stall)
		if toEnd {
			whole.Add(ev)
		}
		if !stream {
			continue
		}
		f.held = append(f.held, ev.Clone())
		f.heldBytes += len(ev.Raw)
		switch {
		case toEnd && f.heldBytes > maxWhole:
			return errTooLarge
		case !toEnd && f.meets(c, ev):
			return f.judgeHeld()
		}
	}
	if !toEnd {
		return f.judgeHeld()
	}
	f.answer = whole.Answer()
	if err := f.cutOff(f.answer); err != nil {
		return err
	}
	if err := validate(f.answer); err != nil {
		return err
	}
	return f.contract.Check(f.answer)
}

// meets reports whether enough is held back to commit. Content that is withheld itself commits nothing.
func (f *found) meets(c commitment, ev *chat.Event) bool {
	f.sendable = f.sendable || ev.Content()
	if !f.sendable {
		if len(ev.Deltas) > 0 {
			f.heldEvents++
		} else {
			f.heldBytes -= len(ev.Raw) // what would not be forwarded does not count towards the bound
		}
		return f.heldEvents > maxHeldEvents || f.heldBytes > maxHeldBytes
	}
	if c.policy != catalog.CommitPrefix {
		return true
	}
	f.heldContents++
	return (c.tokens > 0 && f.heldContents >= c.tokens) || (c.after > 0 && time.Since(f.content) >= c.after)
}

// breathe notes a sign of life of an uncommitted answer and gives it time to the next one. Comments, pings and events
// without content are no signs of life.
func (f *found) breathe(ev *chat.Event, stall time.Duration) {
	if !ev.Content() && !ev.Withheld {
		return
	}
	f.first()
	if f.over() {
		f.dog.wait(retry.AfterFinish)
	} else {
		f.dog.allow(stall)
	}
}

// tooLarge makes errTooLarge a failure that no other candidate is tried for.
func tooLarge(p *fault.Policy) *fault.Failure {
	return unusable(p, fault.PhasePostContent, errTooLarge)
}
