package breaker

import (
	"math"
	"time"

	"spillway/internal/fault"
)

// The numbers of policy.md §6.
const (
	// tripWeight, tripRecent and tripWindow are the failures that open a circuit: so much weight in the window, so large
	// a part of the known attempts of the last 10 s, and so large a part of the window's.
	tripWeight = 3
	tripRecent = 0.50
	tripWindow = 0.25
	// tripMany failures of the last 10 s do without the share of the window: at a high rate the window would take half a
	// minute to notice.
	tripMany = 10
	// tripRow failed calls in a row, as one environment saw them, open it as well; see rowFor.
	tripRow = 5
	// rowKnown is how many other attempts of the window tell the provider's error rate, and rowCalm and rowRough are the
	// rates up to which one call less, and as many, make the row.
	rowKnown = 20
	rowCalm  = 0.03
	rowRough = 0.06

	firstOpen  = 30 * time.Second
	openGrowth = 1.25
	maxOpen    = 2 * time.Minute
	openJitter = 0.10
	// maxHinted is the longest opening that a provider's hint may ask for. Past it one probe an hour costs nothing, and
	// a hint that is nonsense takes nobody out for longer.
	maxHinted = time.Hour

	// leaseMargin is what a lease lasts beyond the probe's first-content limit.
	leaseMargin = 15 * time.Second
	// closeAfter successful probes close the circuit.
	closeAfter = 2
	// closeCredit is how many successes a circuit is believed to have seen when it closes. Without it the first failures
	// to come in would open it again, in whatever environment, before a success could.
	closeCredit = 10
)

// Circuit is the state of one key at one moment. The zero value is a closed circuit that has seen nothing.
//
// It is a value. Closed, it counts; it opens when rule (a) or (b) of Judge says so. Open, it lets nothing through until
// Until; then the first Ask makes it half-open and takes the lease. Half-open, it lets one probe at a time through: two
// successes close it, one failure opens it again, for longer. Only the holder of the lease moves a half-open circuit, and
// an attempt that began before the latest opening moves nothing, now or later.
type Circuit struct {
	State State
	// Version counts the changes of state and lease. A store replaces a circuit only if the version is still the one
	// that was read.
	Version uint64
	// Window holds the known attempts since the latest change of state.
	Window Window
	// OpenedAt is the latest opening; zero: never opened.
	OpenedAt time.Time
	// Until is when a probe is due. It has a meaning only while open.
	Until time.Time
	// Opens counts openings since the circuit was last closed; 0 while closed.
	Opens int
	// Passed counts the probes that succeeded since the circuit became half-open.
	Passed int
	Lease  Lease
	// Class is the class of the failure that opened it last.
	Class fault.Class
	// WatchUntil is set by the first failure of a window. Until then environments that see only successes report them
	// as well, so that the failures can be told as a part of something.
	WatchUntil time.Time

	// order is of one environment. It is not shared.
	order order
}

// Lease is the right to make one probe. It ends by itself.
type Lease struct {
	// Number is the version at which the lease was taken, so that no two are alike; 0: nobody holds it.
	Number uint64
	Until  time.Time
}

// Live reports whether somebody's probe may still be on its way.
func (l Lease) Live(now time.Time) bool { return l.Number != 0 && now.Before(l.Until) }

// Event is what can happen to a circuit: Success, Failure, NoVerdict or Ask.
type Event interface {
	apply(s behaviour, c Circuit, now time.Time, random float64) (Circuit, []Transition)
}

// Attempt is what the events of a call have in common.
type Attempt struct {
	// Began is when the call was let through.
	Began time.Time
	// Lease is the number of the lease under which it was made; 0: it was no probe.
	Lease uint64
	// Place is its place in the environment's order; 0: it has none.
	Place uint64
}

// Success is an attempt's first content, or its whole answer.
type Success struct{ Attempt }

// Failure is a failed attempt that counts.
type Failure struct {
	Attempt
	Class fault.Class
	// Weight is the class's: 1 or 0.5. A failure of weight 0 is taken for NoVerdict.
	Weight float64
	// Hint is how long the provider wants to be left alone; 0: it did not say.
	Hint time.Duration
	// AfterContent says that the attempt was counted as a Success before.
	AfterContent bool
}

// NoVerdict is the end of an attempt that says nothing of the provider: the caller's fault, a cancellation, our own
// deadline.
type NoVerdict struct{ Attempt }

// Ask says that a call is about to be made. A closed circuit notes its place in the order; of one whose probe is due it
// takes the lease. Circuit.Attempt is then the call.
type Ask struct {
	// FirstContent is how long the probe may take to its first content, by which it is judged.
	FirstContent time.Duration
}

func (e Success) apply(s behaviour, c Circuit, now time.Time, _ float64) (Circuit, []Transition) {
	return s.succeeded(c, e, now)
}

func (e Failure) apply(s behaviour, c Circuit, now time.Time, random float64) (Circuit, []Transition) {
	if e.Weight <= 0 {
		return s.unjudged(c, NoVerdict{e.Attempt}), nil
	}
	return s.failed(c, e, now, random)
}

func (e NoVerdict) apply(s behaviour, c Circuit, _ time.Time, _ float64) (Circuit, []Transition) {
	return s.unjudged(c, e), nil
}

func (e Ask) apply(s behaviour, c Circuit, now time.Time, _ float64) (Circuit, []Transition) {
	return s.asked(c, e, now)
}

// behaviour is how one state answers each event. It assigns no state: that is Circuit.to.
type behaviour interface {
	succeeded(Circuit, Success, time.Time) (Circuit, []Transition)
	failed(Circuit, Failure, time.Time, float64) (Circuit, []Transition)
	unjudged(Circuit, NoVerdict) Circuit
	asked(Circuit, Ask, time.Time) (Circuit, []Transition)
}

var behaviours = [...]behaviour{Closed: closed{}, Open: open{}, HalfOpen: halfOpen{}}

// Next is the circuit after an event, with what changed on the way. random is in [0, 1) and spreads the openings of
// many circuits.
func (c Circuit) Next(e Event, now time.Time, random float64) (Circuit, []Transition) {
	return e.apply(behaviours[c.State], c, now, random)
}

// Attempt is the call that an Ask has just let through: with its place while closed, with the lease otherwise.
func (c Circuit) Attempt(now time.Time) Attempt {
	if c.State == Closed {
		return Attempt{Began: now, Place: c.order.last}
	}
	return Attempt{Began: now, Lease: c.Lease.Number}
}

// Callable reports whether a call would be let through now: always while closed; otherwise when a probe is due and
// nobody else is making one.
func (c Circuit) Callable(now time.Time) bool {
	switch c.State {
	case Open:
		return !now.Before(c.Until)
	case HalfOpen:
		return !c.Lease.Live(now)
	default:
		return true
	}
}

// Count counts a failure of a closed circuit without judging it.
func (c Circuit) Count(f Failure, now time.Time) Circuit {
	attempts := 1
	if f.AfterContent {
		attempts = 0
	}
	c.order = c.order.failure(f.Place)
	c.Window = c.Window.Add(now, attempts, f.Weight)
	return c.watched(now)
}

// watched begins a watch unless one is running.
func (c Circuit) watched(now time.Time) Circuit {
	if !now.Before(c.WatchUntil) {
		c.WatchUntil = now.Add(WindowLength)
	}
	return c
}

// Judge opens a closed circuit if its failures ask for it; f is the latest of them, already counted. It is a step of its
// own because with a shared store the counting is done there, and the returned sum decides.
//
// (a) At least 3 weighted failures in the window, at least 50 % of the attempts of the last 10 s, and either 25 % of the
// window's or 10 within these 10 s. Up to ten calls of this environment that are still on their way count as attempts of
// the last 10 s: refusals come in faster than the answers to calls made beside them.
//
// (b) 5 failed calls in a row in this environment, in the order in which they began: 4 when the window knows the provider
// as healthy, 6 when it has many errors.
func (c Circuit) Judge(f Failure, now time.Time, random float64) (Circuit, []Transition) {
	switch {
	case c.State != Closed || stale(c, f.Attempt):
		return c, nil
	case c.inARow(now):
		return c.open(FailuresInARow, f, now, random)
	case c.tripped(now):
		return c.open(FailureRate, f, now, random)
	default:
		return c, nil
	}
}

// inARow is rule (b).
func (c Circuit) inARow(now time.Time) bool {
	row := c.order.row()
	attempts, weight := c.Window.Sum(now)
	return row >= rowFor(attempts-row, weight-float64(row))
}

// rowFor is how long a row of failures must be, by what the window knows besides it: so long that a provider with that
// error rate would show one about once in a million calls.
func rowFor(attempts int, weight float64) int {
	switch rate := max(weight, 0) / float64(max(attempts, 1)); {
	case attempts < rowKnown:
		return tripRow
	case rate <= rowCalm:
		return tripRow - 1
	case rate <= rowRough:
		return tripRow
	default:
		return tripRow + 1
	}
}

// tripped is rule (a).
func (c Circuit) tripped(now time.Time) bool {
	attempts, weight := c.Window.Sum(now)
	recentAttempts, recentWeight := c.Window.Recent(now)
	recentAttempts += min(c.order.unanswered(), tripMany)
	return weight >= tripWeight && recentWeight > 0 && recentWeight >= tripRecent*float64(recentAttempts) &&
		(weight >= tripWindow*float64(attempts) || recentWeight >= tripMany)
}

// open begins an opening: how long it lasts grows with each one that follows another without a close between them.
func (c Circuit) open(why Cause, f Failure, now time.Time, random float64) (Circuit, []Transition) {
	c.Opens++
	c.OpenedAt, c.Class = now, f.Class
	c.Until = now.Add(max(openFor(c.Opens, random), min(f.Hint, maxHinted)))
	return c.to(Open, why, now)
}

// openFor is the length of the nth opening in a row: 30 s × 1.25^(n-1), at most 2 min, ± 10 %.
func openFor(n int, random float64) time.Duration {
	d := min(float64(maxOpen), float64(firstOpen)*math.Pow(openGrowth, float64(n-1)))
	return time.Duration(d * (1 - openJitter + 2*openJitter*random))
}

// to is the only place where a state is assigned. What was counted in the old state does not reach the new one.
func (c Circuit) to(s State, why Cause, now time.Time) (Circuit, []Transition) {
	t := Transition{From: c.State, To: s, Cause: why, At: now}
	if s == Open {
		t.Class, t.Until = c.Class, c.Until
	}
	c.State = s
	c.Version++
	c.Window, c.WatchUntil, c.order = Window{}, time.Time{}, c.order.forget()
	if s == Closed {
		c.Opens = 0
		c.Window = c.Window.Add(now, closeCredit, 0)
	}
	c.Passed, c.Lease = 0, Lease{}
	return c, []Transition{t}
}

// lend gives the lease away. The version it is taken at is its number.
func (c Circuit) lend(e Ask, now time.Time) Circuit {
	c.Version++
	c.Lease = Lease{Number: c.Version, Until: now.Add(e.FirstContent + leaseMargin)}
	return c
}

// free takes the lease back before its time.
func (c Circuit) free() Circuit {
	c.Version++
	c.Lease = Lease{}
	return c
}

// stale reports whether an attempt began before the latest opening: whatever it learned is of the time before.
func stale(c Circuit, a Attempt) bool { return !c.OpenedAt.IsZero() && !a.Began.After(c.OpenedAt) }
