package breaker

import "time"

// open waits. No outcome moves it: whatever ends now was let through before the opening, or by somebody who did not know
// of it yet.
type open struct{}

func (open) succeeded(c Circuit, _ Success, _ time.Time) (Circuit, []Transition) { return c, nil }

func (open) failed(c Circuit, _ Failure, _ time.Time, _ float64) (Circuit, []Transition) {
	return c, nil
}

func (open) unjudged(c Circuit, _ NoVerdict) Circuit { return c }

// asked makes the circuit half-open once its time has passed; who asked first holds the lease.
func (open) asked(c Circuit, e Ask, now time.Time) (Circuit, []Transition) {
	if !c.Callable(now) {
		return c, nil
	}
	c, ts := c.to(HalfOpen, ProbeDue, now)
	return c.lend(e, now), ts
}
