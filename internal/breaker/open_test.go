package breaker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"spillway/internal/breaker"
	"spillway/internal/fault"
)

// An open circuit lets nothing through until its time has passed, and no outcome moves it.

func TestOpenLastsAsLongAsItSays(t *testing.T) {
	openFor := func(hint time.Duration, random float64) time.Duration {
		l := newLine()
		l.fails(2)
		f := failure(l.call())
		f.Hint = hint
		l.Circuit, _ = l.Next(f, l.now, random)
		assert.Equal(t, breaker.Open, l.State)
		return l.Until.Sub(l.now)
	}
	cases := map[string]struct {
		hint   time.Duration
		random float64
		want   time.Duration
	}{
		"half a minute":                      {0, 0.5, 30 * second},
		"a tenth less":                       {0, 0, 27 * second},
		"a tenth more":                       {0, 0.999999999, 33 * second},
		"a shorter hint does not shorten it": {5 * second, 0.5, 30 * second},
		"a longer hint is kept":              {45 * second, 0.5, 45 * second},
		"a hint beyond reason is cut":        {365 * 24 * time.Hour, 0.5, time.Hour},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			assert.InDelta(t, c.want, openFor(c.hint, c.random), float64(time.Millisecond))
		})
	}
}

func TestOpeningTellsWhy(t *testing.T) {
	l := newLine()
	l.fails(2)
	l.next(breaker.Failure{Attempt: l.call(), Class: fault.Overloaded, Weight: 1})
	assert.Equal(t, []breaker.Transition{{From: breaker.Closed, To: breaker.Open, Cause: breaker.FailureRate, Class: fault.Overloaded,
		At: l.now, Until: l.now.Add(30 * second)}}, l.changes)
	assert.Equal(t, fault.Overloaded, l.Class)
	assert.Equal(t, l.now, l.OpenedAt)
}

func TestOpenIsMovedByNoOutcome(t *testing.T) {
	l := newLine()
	inFlight := l.calls(4)
	l.fail(inFlight[0])
	l.fail(inFlight[1])
	l.wait(second).fails(3)
	assert.Equal(t, breaker.Open, l.State)
	before := l.Circuit
	l.wait(10 * second)
	l.ok(inFlight[2])
	f := failure(inFlight[3])
	f.Hint = time.Hour
	l.next(f)
	l.next(breaker.NoVerdict{Attempt: inFlight[3]})
	assert.Equal(t, before, l.Circuit)
}

func TestOpenLendsNoLeaseBeforeItsTime(t *testing.T) {
	l := openedLine(t).wait(30*second - 1)
	assert.False(t, l.Callable(l.now))
	before := l.Circuit
	l.call()
	assert.Equal(t, before, l.Circuit)

	l.wait(1)
	assert.True(t, l.Callable(l.now))
	probe := l.call()
	assert.NotZero(t, probe.Lease)
	assert.Equal(t, []breaker.Cause{breaker.ProbeDue}, l.causes())
	assert.Equal(t, l.now.Add(limit+15*second), l.Lease.Until)
}
