package breaker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"spillway/internal/breaker"
	"spillway/internal/fault"
)

// TestWhatNeverHappensToACircuit throws calls, verdicts and time at a circuit, in any order, and holds it to what must
// hold at every step.
func TestWhatNeverHappensToACircuit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLine()
		var pending []breaker.Attempt
		leases := map[uint64]time.Time{} // on their way, not judged, with their end
		weighed := false
		step := func() {
			before, changes := l.Circuit, len(l.changes)
			var judged breaker.Attempt
			switch action := rapid.IntRange(0, 5).Draw(t, "action"); {
			case action == 0:
				l.wait(time.Duration(rapid.Int64Range(1, 20_000).Draw(t, "ms")) * time.Millisecond)
				return
			case action <= 2 || len(pending) == 0:
				if !l.Callable(l.now) {
					l.call()
					assert.Equal(t, before, l.Circuit, "nothing is let through")
					return
				}
				a := l.call()
				if a.Lease != 0 {
					for n, end := range leases {
						assert.False(t, l.now.Before(end), "lease %d lives while %d is lent", n, a.Lease)
					}
					leases[a.Lease] = l.now.Add(limit + 15*second)
				}
				pending = append(pending, a)
			default:
				i := rapid.IntRange(0, len(pending)-1).Draw(t, "which")
				judged = pending[i]
				weight := rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "weight")
				again := false
				switch rapid.SampledFrom([]string{"success", "failure", "nothing"}).Draw(t, "verdict") {
				case "success":
					l.ok(judged)
					again = rapid.Bool().Draw(t, "may break later")
				case "failure":
					l.next(breaker.Failure{Attempt: judged, Class: fault.ServerError, Weight: weight})
					weighed = weighed || weight > 0
				default:
					l.next(breaker.NoVerdict{Attempt: judged})
				}
				delete(leases, judged.Lease)
				if !again {
					pending = append(pending[:i], pending[i+1:]...)
				}
				if !before.OpenedAt.IsZero() && !judged.Began.After(before.OpenedAt) {
					assert.Equal(t, before.State, l.State, "an attempt from before the opening moves nothing")
					assert.Equal(t, before.Window, l.Window)
				}
				if before.State != breaker.Closed && judged.Lease == 0 {
					assert.Equal(t, before, l.Circuit, "only the holder of a lease moves what is not closed")
				}
			}
			for _, c := range l.changes[changes:] {
				assert.Equal(t, before.State, c.From)
				assert.Equal(t, l.State, c.To)
				assert.Equal(t, l.now, c.At)
			}
			if l.State != before.State {
				assert.Len(t, l.changes, changes+1, "a change is told once")
				assert.Greater(t, l.Version, before.Version)
			}
			if !weighed {
				assert.Equal(t, breaker.Closed, l.State, "what weighs nothing opens nothing")
			}
			if l.State == breaker.Open && before.State != breaker.Open {
				assert.Positive(t, l.Opens)
				assert.WithinDuration(t, l.now.Add(75*second), l.Until, 57*second, "27 s to 2 min 12 s")
			}
		}
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			step()
		}
	})
}
