package breaker

import (
	"time"

	"spillway/internal/fault"
)

const (
	// waitable is the longest hint that a request waits for itself (contract.md §3.5).
	waitable = 5 * time.Second
	// statedReset is what a hint must exceed to be the reset of a quota. A shorter one, next to a quota's code, is the
	// provider's rate limiter speaking out of habit (policy.md §4: a per-day quota wins over its own short retryDelay).
	statedReset = time.Minute
	// maxHold bounds every hold: nothing is believed for longer without asking again.
	maxHold = 24 * time.Hour
)

// FromMemory is the evidence of a class that a hold remembered.
const FromMemory fault.Evidence = "memory"

// Holds are the holds of one credential, or those of a channel. The zero value holds nothing. Both run out by themselves.
type Holds struct {
	// ThrottledUntil ends the pause that the provider asked for. Until then the candidate is skipped.
	ThrottledUntil time.Time
	// Remembered is the answer that is given without a call until Remembered.Until. The candidate keeps its place.
	Remembered Remembered

	refusedAt time.Time // of the latest throttle whose hint a request was to wait for itself
}

// Remembered is a provider's answer that it would give again.
type Remembered struct {
	Class  fault.Class
	Status int
	Code   string
	Since  time.Time
	Until  time.Time
}

// Failure is the remembered answer as the result of an attempt that was not made, with the rest of the hold as its hint.
// provider is the provider's kind, as in fault.Observation.
func (r Remembered) Failure(provider string, now time.Time) *fault.Failure {
	return &fault.Failure{
		Observation: fault.Observation{Provider: provider, Status: r.Status, Code: r.Code, Phase: fault.PhaseConnect, Parsed: r.Code != "",
			Hint: fault.Hint{Known: true, Wait: max(r.Until.Sub(now), 0), Source: "hold"}},
		Class:    r.Class,
		Evidence: FromMemory,
	}
}

// Reason is the hold's word: held_auth, held_quota, held_model_unavailable.
func (r Remembered) Reason() Reason { return "held_" + Reason(r.Class) }

// Throttled reports whether the candidate is to be skipped.
func (h Holds) Throttled(now time.Time) bool { return now.Before(h.ThrottledUntil) }

// Answers reports whether the candidate is answered from memory.
func (h Holds) Answers(now time.Time) bool { return now.Before(h.Remembered.Until) }

// end is when the last of them has run out.
func (h Holds) end() time.Time {
	if h.Remembered.Until.After(h.ThrottledUntil) {
		return h.Remembered.Until
	}
	return h.ThrottledUntil
}

// None reports whether nothing is held.
func (h Holds) None(now time.Time) bool { return !h.Throttled(now) && !h.Answers(now) }

// After is the holds after an outcome of an attempt that began then.
func (h Holds) After(o Outcome, began, now time.Time) Holds {
	switch {
	case o.Stale:
	case o.Success:
		return h.lifted()
	case o.Hold == fault.Throttle:
		return h.throttle(o.hinted(), began, now)
	case o.Hold == fault.Remember:
		h.Remembered = Remembered{Class: o.Class, Status: o.Status, Code: o.Code, Since: now, Until: now.Add(holdFor(o))}
	}
	return h
}

// lifted is what a success leaves: the key works and the account has money. A throttle hold stays, since the success may
// be that of a call from before it.
func (h Holds) lifted() Holds {
	if c := h.Remembered.Class; c == fault.Auth || c == fault.Quota {
		h.Remembered = Remembered{}
	}
	h.refusedAt = time.Time{}
	return h
}

// throttle holds for a hint that nobody waits for. One that the request waits for itself holds only when a call that
// began after such a refusal was refused again: until then other requests may try, and wait, on their own.
func (h Holds) throttle(hint time.Duration, began, now time.Time) Holds {
	again := !h.refusedAt.IsZero() && !began.Before(h.refusedAt) && now.Sub(h.refusedAt) <= WindowLength
	h.refusedAt = now
	if hint <= waitable && !again {
		return h
	}
	if until := now.Add(min(hint, maxHold)); until.After(h.ThrottledUntil) {
		h.ThrottledUntil = until
	}
	return h
}

// holdFor is how long an answer is remembered: a quota until its stated reset, everything else for the class's time.
func holdFor(o Outcome) time.Duration {
	if o.Class == fault.Quota && o.hinted() > statedReset {
		return min(o.hinted(), maxHold)
	}
	return o.HoldFor
}

// heldKey is what an outcome's hold is kept under: a missing model is missing for every credential of the channel.
func heldKey(k Key, c fault.Class) Key {
	if c == fault.ModelUnavailable {
		return k.Channel()
	}
	return k
}
