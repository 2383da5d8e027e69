package main

import (
	"time"

	"spillway/internal/breaker"
)

const (
	warmUp     = time.Minute
	outageTime = time.Minute
	aftermath  = 90 * time.Second
	errorTime  = 10 * time.Minute
	errorRate  = 0.10
)

// outage is what one outage of a minute cost.
type outage struct {
	// calls of the failing primary, without those that were in flight when the circuit opened.
	calls, inFlight int
	// usedAgain is from the recovery to the first call of the primary after it, closed to the closing of the circuit;
	// negative: it did not happen while we watched.
	usedAgain, closed time.Duration
	opened            bool
}

// runOutage lets a healthy primary fail for a minute.
func runOutage(seed uint64, rate float64, environments int, silent bool) outage {
	down, up := epoch.Add(warmUp), epoch.Add(warmUp+outageTime)
	w := newWorld(seed, environments, provider{silent: silent, down: func(t time.Time) bool { return !t.Before(down) && t.Before(up) }})
	end := up.Add(aftermath)
	w.poisson(rate, end)
	w.runUntil(end)
	return w.outage(down, up)
}

func (w *world) outage(down, up time.Time) outage {
	o := outage{usedAgain: -1, closed: -1}
	var opened time.Time
	for _, t := range w.changes {
		switch {
		case t.To == breaker.Open && opened.IsZero() && !t.At.Before(down):
			opened, o.opened = t.At, true
		case t.To == breaker.Closed && !t.At.Before(up):
			o.closed = t.At.Sub(up)
		}
	}
	for _, c := range w.calls {
		switch {
		case c.began.Before(down):
		case !c.began.Before(up):
			if o.usedAgain < 0 {
				o.usedAgain = c.began.Sub(up)
			}
		case o.opened && c.began.Before(opened) && c.ended.After(opened):
			o.inFlight++
		default:
			o.calls++
		}
	}
	return o
}

// runErrors is the number of openings in ten minutes of a primary that is up and fails one call in ten.
func runErrors(seed uint64, rate float64, environments int) (openings int) {
	w := newWorld(seed, environments, provider{errors: errorRate})
	end := epoch.Add(warmUp + errorTime)
	w.poisson(rate, end)
	w.runUntil(end)
	for _, t := range w.changes {
		if t.To == breaker.Open && t.At.Sub(epoch) >= warmUp {
			openings++
		}
	}
	return openings
}

// runF15 is the fault suite's pattern: down for a minute, 26 requests 4 s apart, in turn over environments that each
// served a request before.
func runF15(seed uint64, environments int) outage {
	down := epoch.Add(warmUp)
	up := down.Add(outageTime)
	w := newWorld(seed, environments, provider{down: func(t time.Time) bool { return !t.Before(down) && t.Before(up) }})
	for i, e := range w.envs {
		w.after(warmUp-w.between(time.Second, 50*time.Second)-time.Duration(i)*time.Millisecond, e.request)
	}
	for i := range 26 {
		w.after(warmUp+time.Duration(i)*4*time.Second, w.envs[i%environments].request)
	}
	w.runUntil(up.Add(aftermath))
	return w.outage(down, up)
}
