package breaker

import "time"

// closed counts, and judges at every failure.
type closed struct{}

func (closed) succeeded(c Circuit, e Success, now time.Time) (Circuit, []Transition) {
	if stale(c, e.Attempt) {
		return c, nil
	}
	c.Window = c.Window.Add(now, 1, 0)
	c.order = c.order.succeeded(e.Place)
	return c, nil
}

func (closed) failed(c Circuit, e Failure, now time.Time, random float64) (Circuit, []Transition) {
	if stale(c, e.Attempt) {
		return c, nil
	}
	return c.Count(e, now).Judge(e, now, random)
}

func (closed) unjudged(c Circuit, e NoVerdict) Circuit {
	c.order = c.order.without(e.Place)
	return c
}

func (closed) asked(c Circuit, _ Ask, _ time.Time) (Circuit, []Transition) {
	c.order = c.order.next()
	return c, nil
}
