package main

import (
	"time"

	"spillway/internal/breaker"
)

const (
	warmUp     = time.Minute
	outageTime = time.Minute
	aftermath  = 90 * time.Second
	errorRate  = 0.10
	// errorTime is how long a run of errors is watched: less at the high rates, where there is more to see of it.
	errorTime     = 10 * time.Minute
	errorTimeBusy = 2 * time.Minute
	busy          = 10 // requests a second
)

// kind is how the provider fails during an outage.
type kind string

const (
	// refusing answers 503 within 20 to 200 ms; the gateway retries once.
	refusing kind = "refusing"
	// silent never answers; the gateway gives up at the first-content limit and does not retry.
	silent kind = "silent"
)

// outage is what one outage of a minute cost.
type outage struct {
	// calls of the failing primary, without inFlight: those that were on their way when the circuit opened.
	calls, inFlight int
	// usedAgain is from the recovery to the first call of the primary after it, closed to the closing of the circuit.
	// Never stands for more than we watched.
	usedAgain, closed time.Duration
	// probes is how many were on their way at once, at most.
	probes int
}

// never is what did not happen while we watched.
const never = time.Hour

// runOutage lets a healthy primary fail for a minute.
func runOutage(seed uint64, c cell, k kind) outage {
	down, up := epoch.Add(warmUp), epoch.Add(warmUp+outageTime)
	w := newWorld(seed, c.environments, provider{silent: k == silent, down: between(down, up)})
	end := up.Add(aftermath)
	w.poisson(c.rate, end)
	w.runUntil(up)
	for w.now.Before(end) && w.outage(down, up).closed == never {
		w.runUntil(w.now.Add(time.Second))
	}
	return w.outage(down, up)
}

func between(from, to time.Time) func(time.Time) bool {
	return func(t time.Time) bool { return !t.Before(from) && t.Before(to) }
}

// outage sums a run up.
func (w *world) outage(down, up time.Time) outage {
	o := outage{usedAgain: never, closed: never, probes: w.mostProbes}
	opened := w.now
	for _, t := range w.changes {
		switch {
		case t.To == breaker.Open && t.At.After(down) && t.At.Before(opened):
			opened = t.At
		case t.To == breaker.Closed && t.At.After(up) && o.closed == never:
			o.closed = t.At.Sub(up)
		}
	}
	for _, c := range w.calls {
		switch {
		case c.began.Before(down):
		case !c.began.Before(up):
			o.usedAgain = min(o.usedAgain, c.began.Sub(up))
		case c.began.Before(opened) && c.ended.After(opened):
			o.inFlight++
		default:
			o.calls++
		}
	}
	return o
}

// openings is how often a circuit opened that should not have, and opened again because its probe failed.
type openings struct {
	first, again int
	watched      time.Duration
}

// runErrors lets a primary fail one call in ten. The first minute does not count: it begins with an empty store.
func runErrors(seed uint64, c cell) openings {
	o := openings{watched: errorTime}
	if c.rate >= busy {
		o.watched = errorTimeBusy
	}
	w := newWorld(seed, c.environments, provider{errors: errorRate})
	end := epoch.Add(warmUp + o.watched)
	w.poisson(c.rate, end)
	w.runUntil(end)
	for _, t := range w.changes {
		switch {
		case t.To != breaker.Open || t.At.Sub(epoch) < warmUp:
		case t.From == breaker.Closed:
			o.first++
		default:
			o.again++
		}
	}
	return o
}

// runF15 is the fault suite's pattern: down for a minute, 26 requests 4 s apart, in turn over environments that each
// served a request before.
func runF15(seed uint64, environments int) outage {
	down := epoch.Add(warmUp)
	up := down.Add(outageTime)
	w := newWorld(seed, environments, provider{down: between(down, up)})
	before := w.between(100*time.Millisecond, 45*time.Second)
	for _, e := range w.envs {
		w.after(warmUp-before-w.between(0, 2*time.Second), e.request)
	}
	for i := range 26 {
		w.after(warmUp+time.Duration(i)*4*time.Second, w.envs[i%environments].request)
	}
	w.runUntil(up.Add(aftermath))
	return w.outage(down, up)
}
