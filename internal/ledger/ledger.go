// Package ledger keeps an agent's tool calls from taking effect twice (contract.md §7). An application that is about to
// do something for a model asks for the call's key first; whoever gets it does the thing and says how it went, and
// everybody who comes later is given the result instead of doing it again. It is pure: the entry, what is said of the call
// and the time go in, a decision comes out. Entries live behind Store.
//
//	absent ──started──▶ started ──succeeded──▶ succeeded ──(retention)──▶ absent
//	   ▲                   │
//	   └──────failed───────┘ free: the next one that starts has it
//
// What a crashed owner leaves behind stays started: nobody but the application knows whether the effect happened, so no
// time of ours frees the key. It is free when its owner says `failed`, or when Retention has passed. An owner that comes
// back under its name may say `started` again, and learns by the status that it had: 200 instead of 201.
package ledger

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// Retention is how long an entry is kept after its last change. It is checked in code: the table's own TTL may lag.
	Retention = 7 * 24 * time.Hour
	// MaxKey and MaxOwner are in characters, MaxResult in bytes of JSON without white space.
	MaxKey    = 255
	MaxOwner  = 255
	MaxResult = 300_000
	// RetryAfter is what somebody else is told to wait for an owner: nobody knows how long a tool takes.
	RetryAfter = 5 * time.Second
)

// Key names a tool call within its scope. Two organizations never share one.
type Key struct {
	Organization string
	Key          string
}

// State is how a tool call stands.
type State string

// The states.
const (
	// Started: its owner is doing it, or died doing it.
	Started State = "started"
	// Succeeded: it took effect; nobody does it again.
	Succeeded State = "succeeded"
	// Failed: it took no effect, and is free.
	Failed State = "failed"
)

// Entry is what is known of a tool call.
type Entry struct {
	Key   Key
	State State
	Owner string
	// Result is what its owner kept of the effect; nil unless it succeeded with one.
	Result jsontext.Value
	// StartedAt is when the owner had the key; of a call that nobody started, when it succeeded.
	StartedAt time.Time
	UpdatedAt time.Time
	ExpiresAt time.Time
	// Token is that of the saying that wrote the entry.
	Token string
	// Version counts the changes, so that each is made to what was decided upon. The first is 1.
	Version uint64
}

// Live reports whether the entry counts: there is one, and it is not past its retention.
func (e *Entry) Live(now time.Time) bool { return e != nil && now.Before(e.ExpiresAt) }

// Said is what a caller says of a tool call.
type Said struct {
	State State
	Owner string
	// Result may be given with Succeeded only.
	Result jsontext.Value
	// Token names this very saying: it is new for each, and tells what it wrote itself from what another one did.
	Token string
}

// Verdict is what becomes of what was said.
type Verdict string

// The verdicts.
const (
	// Yours: the caller is the first that started the call, and does it.
	Yours Verdict = "yours"
	// Noted: the owner said something, and it stands so now, or stood so before.
	Noted Verdict = "noted"
	// Done: the call succeeded before; its result is the answer to anything.
	Done Verdict = "done"
	// Taken: another owner has it.
	Taken Verdict = "taken"
)

// Decision is a verdict with the entry that the caller is shown.
type Decision struct {
	Verdict Verdict
	Entry   Entry
	// Write says that Entry is still to be written, in the place of the one that was decided upon.
	Write bool
}

// Decide judges what is said of a call by the entry that stands there; nil: there is none.
//
// A success is recorded also on a free key, and also when nobody had started the call: that it took effect is known then,
// and a refusal would only have it done again. A failure of a call that nobody has changes nothing. What this very saying
// wrote, by a write whose outcome was unknown, is told by its token, and judged as written.
func Decide(k Key, there *Entry, s Said, now time.Time) Decision {
	now = now.Truncate(time.Millisecond) // as every store keeps it
	next := Entry{Key: k, State: s.State, Owner: s.Owner, Result: s.Result, StartedAt: now, UpdatedAt: now, ExpiresAt: now.Add(Retention),
		Token: s.Token, Version: 1}
	if there != nil {
		next.Version = there.Version + 1
	}
	switch live := there.Live(now); {
	case live && s.Token != "" && there.Token == s.Token:
		return Decision{Verdict: written(s), Entry: *there}
	case !live && s.State == Failed:
		return Decision{Verdict: Noted, Entry: next}
	case !live:
		return Decision{Verdict: written(s), Entry: next, Write: true}
	case there.State == Failed && s.State == Failed:
		return Decision{Verdict: Noted, Entry: *there}
	case there.State == Failed:
		return Decision{Verdict: written(s), Entry: next, Write: true}
	case there.State == Succeeded:
		return Decision{Verdict: Done, Entry: *there}
	case there.Owner != s.Owner:
		return Decision{Verdict: Taken, Entry: *there}
	case s.State == Started:
		return Decision{Verdict: Noted, Entry: *there}
	default:
		next.StartedAt = there.StartedAt
		return Decision{Verdict: Noted, Entry: next, Write: true}
	}
}

// written is the verdict on what is written: a start is written only where nobody has the call.
func written(s Said) Verdict {
	if s.State == Started {
		return Yours
	}
	return Noted
}
