package breaker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"spillway/internal/breaker"
)

func TestAWindowForgets(t *testing.T) {
	w := breaker.Window{}.Add(start, 1, 1)
	seen := func(d time.Duration) [4]float64 {
		n, f := w.Sum(start.Add(d))
		rn, rf := w.Recent(start.Add(d))
		return [4]float64{float64(n), f, float64(rn), rf}
	}
	assert.Equal(t, [4]float64{1, 1, 1, 1}, seen(0))
	assert.Equal(t, [4]float64{1, 1, 1, 1}, seen(10*second-1), "the running bucket and the one before")
	assert.Equal(t, [4]float64{1, 1, 0, 0}, seen(10*second))
	assert.Equal(t, [4]float64{1, 1, 0, 0}, seen(60*second-1))
	assert.Equal(t, [4]float64{}, seen(60*second))
	assert.Empty(t, w.Buckets(start.Add(60*second)))
	assert.Equal(t, [4]float64{1, 1, 1, 1}, seen(-5*second), "another clock may be ahead by a bucket")
	assert.Equal(t, [4]float64{}, seen(-6*second), "and not by more")
}

// TestAReportLandsWhereItHappened: late, out of order, and never where another minute's bucket is newer.
func TestAReportLandsWhereItHappened(t *testing.T) {
	slot := breaker.SlotOf(start)
	w := breaker.Window{}.Add(start, 2, 1)
	w = w.Merge(start, []breaker.Bucket{{Slot: slot - 11, Attempts: 5}, {Slot: slot - 12, Attempts: 100}, {Slot: slot, Attempts: 3, Weight: 2}, {Slot: slot + 2, Attempts: 100}})
	n, f := w.Sum(start)
	assert.Equal(t, 10, n)
	assert.Equal(t, 3.0, f)
	w = w.Merge(start, []breaker.Bucket{{Slot: slot + 1, Attempts: 1}})
	n, _ = w.Sum(start)
	assert.Equal(t, 6, n, "the newest twelve: the eldest made room")
	w = w.Merge(start, []breaker.Bucket{{Slot: slot - 11, Attempts: 7}})
	n, _ = w.Sum(start)
	assert.Equal(t, 6, n, "and does not come back")
}

// TestTheOrderOfReportsDoesNotMatter, as that of ADDs in a store does not.
func TestTheOrderOfReportsDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bucket := rapid.Custom(func(t *rapid.T) breaker.Bucket {
			return breaker.Bucket{Slot: breaker.SlotOf(start) - rapid.Int64Range(-1, 13).Draw(t, "ago"), Attempts: rapid.IntRange(0, 9).Draw(t, "attempts"),
				Weight: float64(rapid.IntRange(0, 9).Draw(t, "halves")) / 2}
		})
		reports := rapid.SliceOfN(bucket, 0, 30).Draw(t, "reports")
		shuffled := rapid.Permutation(reports).Draw(t, "shuffled")
		cut := rapid.IntRange(0, len(reports)).Draw(t, "cut")
		at := start.Add(rapid.SampledFrom([]time.Duration{0, 4 * time.Second}).Draw(t, "at"))
		one := breaker.Window{}.Merge(at, reports)
		two := breaker.Window{}.Merge(at, shuffled[:cut]).Merge(at, shuffled[cut:])
		n1, w1 := one.Sum(at)
		n2, w2 := two.Sum(at)
		assert.Equal(t, n1, n2)
		assert.Equal(t, w1, w2)
	})
}
