package breaker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"spillway/internal/breaker"
)

// A half-open circuit lets one probe at a time through; two successes close it, one failure opens it again for longer.

func TestTwoSuccessesClose(t *testing.T) {
	l, probe := probingLine(t)
	l.wait(second).ok(probe)
	assert.Equal(t, breaker.HalfOpen, l.State)
	assert.True(t, l.Callable(l.now), "the next may probe at once")
	second := l.call()
	assert.NotEqual(t, probe.Lease, second.Lease)
	l.ok(second)
	assert.Equal(t, breaker.Closed, l.State)
	assert.Equal(t, []breaker.Cause{breaker.ProbeDue, breaker.ProbesSucceeded}, l.causes())
	assert.Zero(t, l.Opens)
}

func TestOneFailureOpensForLonger(t *testing.T) {
	l, probe := probingLine(t)
	var lengths []time.Duration
	for range 9 {
		l.fail(probe)
		assert.Equal(t, breaker.Open, l.State)
		lengths = append(lengths, l.Until.Sub(l.now).Round(second/10))
		l.wait(l.Until.Sub(l.now))
		probe = l.call()
	}
	assert.Equal(t, []time.Duration{37500 * time.Millisecond, 46900 * time.Millisecond, 58600 * time.Millisecond, 73200 * time.Millisecond,
		91600 * time.Millisecond, 114400 * time.Millisecond, 120 * second, 120 * second, 120 * second}, lengths)
	assert.Equal(t, breaker.ProbeFailed, l.changes[1].Cause)

	l.ok(probe)
	l.ok(l.call())
	l.fails(20)
	assert.Equal(t, breaker.Open, l.State)
	assert.Equal(t, 30*second, l.Until.Sub(l.OpenedAt), "closed in between, it begins anew")
}

func TestOneProbeAtATime(t *testing.T) {
	l, _ := probingLine(t)
	before := l.Circuit
	l.wait(limit + 15*second - 1)
	assert.False(t, l.Callable(l.now))
	l.call()
	assert.Equal(t, before, l.Circuit)
	l.wait(1)
	assert.True(t, l.Callable(l.now), "the lease runs out by itself")
}

func TestALapsedProbe(t *testing.T) {
	cases := map[string]struct {
		taken  bool // somebody else has the lease by then
		happen func(*line, breaker.Attempt)
		want   breaker.State
	}{
		"is still heard while nobody took over": {false, (*line).fail, breaker.Open},
		"cannot open what another one probes":   {true, (*line).fail, breaker.HalfOpen},
		"cannot help to close it either": {true, func(l *line, a breaker.Attempt) {
			l.ok(a)
			l.ok(a)
		}, breaker.HalfOpen},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l, probe := probingLine(t)
			l.wait(time.Minute)
			if c.taken {
				assert.NotEqual(t, probe.Lease, l.call().Lease)
			}
			c.happen(l, probe)
			assert.Equal(t, c.want, l.State)
			assert.Equal(t, c.taken, l.Lease.Live(l.now))
		})
	}
}

func TestAProbeThatSaysNothingFreesTheLease(t *testing.T) {
	l, probe := probingLine(t)
	l.next(breaker.NoVerdict{Attempt: probe})
	assert.Equal(t, breaker.HalfOpen, l.State)
	assert.Zero(t, l.Passed)
	assert.True(t, l.Callable(l.now))
	other := l.call()
	l.next(breaker.NoVerdict{Attempt: probe})
	assert.False(t, l.Callable(l.now), "only one's own lease can be freed")
	l.next(failure(other))
	assert.Equal(t, breaker.Open, l.State)
}

func TestOnlyTheProbeIsHeard(t *testing.T) {
	l := newLine()
	old := l.calls(3)
	l.wait(second).fails(4)
	assert.Equal(t, breaker.Open, l.State)
	l.wait(30 * second)
	l.call()
	before := l.Circuit
	l.fail(old[0])
	l.ok(old[1])
	l.next(breaker.NoVerdict{Attempt: old[2]})
	stranger := breaker.Attempt{Began: l.now} // of an environment that did not know of the opening
	l.fail(stranger)
	l.ok(stranger)
	assert.Equal(t, before, l.Circuit)
}

func TestAProbeThatBreaksAfterItsContentOpensAgain(t *testing.T) {
	l, probe := probingLine(t)
	l.ok(probe)
	other := l.call()
	f := failure(probe)
	f.AfterContent = true
	l.wait(second).next(f)
	assert.Equal(t, breaker.Open, l.State)
	l.ok(other)
	assert.Equal(t, breaker.Open, l.State, "the other probe began before this opening")

	l.wait(l.Until.Sub(l.now)).call()
	l.next(f)
	assert.Equal(t, breaker.HalfOpen, l.State, "and so did this one, which has been heard")
}

// TestClosingIsGivenCredit: three failures open a circuit of which nothing is known, and not one that has just closed.
func TestClosingIsGivenCredit(t *testing.T) {
	l, probe := probingLine(t)
	l.ok(probe)
	l.ok(l.call())
	l.fails(4)
	assert.Equal(t, breaker.Closed, l.State)
	l.fails(1)
	assert.Equal(t, breaker.Open, l.State, "but five in a row")
}

// TestAfterClosingTheOldTimeIsOver: neither its failures nor those of calls from before the opening count.
func TestAfterClosingTheOldTimeIsOver(t *testing.T) {
	l := newLine()
	old := l.calls(20)
	l.wait(second).fails(20)
	assert.Equal(t, breaker.Open, l.State)
	l.wait(30 * second)
	l.ok(l.call())
	l.ok(l.call())
	assert.Equal(t, breaker.Closed, l.State)
	before := l.Circuit
	for _, a := range old {
		l.fail(a)
	}
	assert.Equal(t, before, l.Circuit)
	_, weight := l.Window.Sum(l.now)
	assert.Zero(t, weight)
}
