package breaker

import "time"

// halfOpen listens to the holder of the lease alone. A holder whose lease has run out is still heard until somebody else
// takes it: what it learned is newer than the opening.
type halfOpen struct{}

func (halfOpen) succeeded(c Circuit, e Success, now time.Time) (Circuit, []Transition) {
	if !holds(c, e.Attempt) {
		return c, nil
	}
	c = c.free()
	c.Passed++
	if c.Passed >= closeAfter {
		return c.to(Closed, ProbesSucceeded, now)
	}
	return c, nil
}

// failed opens again. A probe that was judged well at its content and broke afterwards does so too, though its lease is
// free by then.
func (halfOpen) failed(c Circuit, e Failure, now time.Time, random float64) (Circuit, []Transition) {
	broken := e.AfterContent && e.Lease != 0 && !stale(c, e.Attempt)
	if !holds(c, e.Attempt) && !broken {
		return c, nil
	}
	return c.open(ProbeFailed, e, now, random)
}

// unjudged frees the lease early, so that the next request may probe at once.
func (halfOpen) unjudged(c Circuit, e NoVerdict) Circuit {
	if !holds(c, e.Attempt) {
		return c
	}
	return c.free()
}

func (halfOpen) asked(c Circuit, e Ask, now time.Time) (Circuit, []Transition) {
	if !c.Callable(now) {
		return c, nil
	}
	return c.lend(e, now), nil
}

func holds(c Circuit, a Attempt) bool { return a.Lease != 0 && a.Lease == c.Lease.Number }
