package breaker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"spillway/internal/breaker"
)

// TestTheReturnedSumDecides: no environment sees three failures, and together they open the circuit.
func TestTheReturnedSumDecides(t *testing.T) {
	var shared breaker.Circuit
	for i := range 3 {
		own := newLine()
		own.wait(time.Duration(i) * time.Second)
		f := failure(own.call())
		own.Circuit = own.Count(f, own.now)
		_, report := breaker.Owed{}.Saw(own.now, 1, 1).Tell(own.now)
		shared.Window = shared.Window.Merge(own.now, report)

		alone, changes := own.Judge(f, own.now, middle)
		assert.Empty(t, changes)
		assert.Equal(t, breaker.Closed, alone.State)
		next, changes := own.Returned(shared, f, own.now, middle)
		if i < 2 {
			assert.Empty(t, changes)
			continue
		}
		assert.Equal(t, breaker.FailureRate, changes[0].Cause)
		assert.Equal(t, shared.Version+1, next.Version)
	}
}

// TestWhatTheOthersSawHoldsTheCircuitClosed: three failures here are few among the successes that they told.
func TestWhatTheOthersSawHoldsTheCircuitClosed(t *testing.T) {
	own := newLine()
	own.fails(2)
	f := failure(own.call())
	own.Circuit = own.Count(f, own.now)
	shared := breaker.Circuit{Window: breaker.Window{}.Merge(own.now, []breaker.Bucket{{Slot: breaker.SlotOf(start), Attempts: 20, Weight: 3}})}
	_, changes := own.Returned(shared, f, own.now, middle)
	assert.Empty(t, changes)
	_, changes = own.Judge(f, own.now, middle)
	assert.Len(t, changes, 1, "with the store down its own window decides")
}

// TestARowIsOnesOwn: the order of calls stays in the environment, whatever the store returns.
func TestARowIsOnesOwn(t *testing.T) {
	own := newLine()
	own.oks(100)
	var changes []breaker.Transition
	for range 4 {
		f := failure(own.wait(time.Millisecond).call())
		own.Circuit = own.Count(f, own.now)
		shared := breaker.Circuit{Window: breaker.Window{}.Merge(own.now, []breaker.Bucket{{Slot: breaker.SlotOf(start), Attempts: 1000, Weight: 4}})}
		_, changes = own.Returned(shared, f, own.now, middle)
	}
	assert.Equal(t, breaker.FailuresInARow, changes[0].Cause)
}

func TestAnEnvironmentTellsWhatItOwes(t *testing.T) {
	var o breaker.Owed
	assert.False(t, o.Due(start, true), "it owes nothing")
	for i := range 70 {
		o = o.Saw(start.Add(time.Duration(i)*time.Second), 1, 0)
	}
	now := start.Add(69 * time.Second)
	assert.False(t, o.Due(now, false), "nobody watches")
	assert.True(t, o.Due(now, true))
	o, report := o.Tell(now)
	told := 0
	for _, b := range report {
		told += b.Attempts
		assert.Equal(t, 5, b.Attempts, "each in its bucket")
	}
	assert.Equal(t, 60, told, "what is older than the window is dropped")
	o = o.Saw(now, 1, 0)
	assert.False(t, o.Due(now.Add(5*time.Second-1), true), "once per 5 s")
	assert.True(t, o.Due(now.Add(5*time.Second), true))
}

func TestAdoptingASharedCircuit(t *testing.T) {
	shared := openedLine(t)
	own := newLine()
	old := own.calls(6)
	own.wait(time.Millisecond)
	own.Circuit = own.Adopt(shared.Circuit)
	assert.Equal(t, breaker.Open, own.State)
	assert.Equal(t, shared.Until, own.Until)
	returned := newLine()
	returned.Circuit = breaker.Circuit{Version: 7, Window: breaker.Window{}.Merge(start, []breaker.Bucket{{Slot: breaker.SlotOf(start), Attempts: 50, Weight: 2}})}
	returned.Circuit = own.Adopt(returned.Circuit)
	assert.Empty(t, returned.Window.Buckets(start), "what the others saw is not one's own")

	// Plainly closed again, which a snapshot tells by leaving it out: the opening is remembered all the same, and calls
	// from before it do not make a row.
	own.Circuit = own.Adopt(breaker.Circuit{})
	assert.Equal(t, breaker.Closed, own.State)
	assert.Equal(t, shared.OpenedAt, own.OpenedAt)
	for _, a := range old {
		own.fail(a)
	}
	assert.Empty(t, own.changes)

	// The same state is no news: one's own counting goes on.
	own.wait(second).fails(1)
	known := own.Circuit
	own.Circuit = own.Adopt(breaker.Circuit{Version: known.Version, WatchUntil: start.Add(time.Hour)})
	assert.Equal(t, known.Window, own.Window)
	assert.Equal(t, start.Add(time.Hour), own.WatchUntil)
}

func TestDoubt(t *testing.T) {
	l := newLine()
	assert.False(t, l.Doubtful())
	early, late := l.call(), l.call()
	l.fail(late)
	assert.True(t, l.Doubtful())
	l.ok(early)
	assert.True(t, l.Doubtful(), "an earlier call's success says less")
	l.next(breaker.NoVerdict{Attempt: l.call()})
	assert.True(t, l.Doubtful(), "and one that says nothing, nothing")
	l.ok(l.call())
	assert.False(t, l.Doubtful())
}
