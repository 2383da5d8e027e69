package breaker

import "time"

const (
	// slotLength is the length of one bucket, and buckets of them make the window (policy.md §6).
	slotLength = 5 * time.Second
	buckets    = 12
	// WindowLength is how far back a window looks.
	WindowLength = buckets * slotLength
	// recentSlots make "the last 10 s": the running bucket and the one before, 5 to 10 s.
	recentSlots = 2
	// aheadSlots is how far ahead of our clock another environment's may be, in whole buckets.
	aheadSlots = 1
)

// Bucket is what happened in one slot of time.
type Bucket struct {
	// Slot is the Unix time divided by 5 s.
	Slot int64
	// Attempts counts the attempts that say something of the provider, each once, when it was judged.
	Attempts int
	// Weight is the sum of the weights of failures. A stream that fails after its content counts here alone, since its
	// attempt was counted at the content; so Weight may be larger than Attempts.
	Weight float64
}

// Window holds the newest twelve buckets. The zero value is an empty one. It is a value: assigning copies it.
type Window struct {
	ring [buckets]Bucket
}

// SlotOf is the slot of a time.
func SlotOf(t time.Time) int64 { return t.Unix() / int64(slotLength/time.Second) }

// Add counts in the bucket of now.
func (w Window) Add(now time.Time, attempts int, weight float64) Window {
	return w.Merge(now, []Bucket{{Slot: SlotOf(now), Attempts: attempts, Weight: weight}})
}

// Merge adds reported buckets, each to the slot in which it happened. What is older than the window, or further ahead
// than two clocks may differ, is dropped. Merging is commutative, as an ADD in a store is.
func (w Window) Merge(now time.Time, reported []Bucket) Window {
	slot := SlotOf(now)
	for _, b := range reported {
		if !within(b.Slot, slot) {
			continue
		}
		own := &w.ring[uint64(b.Slot)%buckets]
		switch {
		case own.Slot == b.Slot:
			own.Attempts += b.Attempts
			own.Weight += b.Weight
		case own.Slot < b.Slot || !within(own.Slot, slot):
			*own = b
		}
	}
	return w
}

// Sum is the attempts and the weight of the window.
func (w Window) Sum(now time.Time) (attempts int, weight float64) {
	return w.since(now, buckets)
}

// Recent is the attempts and the weight of the last 10 s: of the running bucket and the one before.
func (w Window) Recent(now time.Time) (attempts int, weight float64) {
	return w.since(now, recentSlots)
}

// Buckets lists the buckets of the window that hold anything, in no order.
func (w Window) Buckets(now time.Time) []Bucket {
	var out []Bucket
	for _, b := range w.ring {
		if within(b.Slot, SlotOf(now)) && (b.Attempts != 0 || b.Weight != 0) {
			out = append(out, b)
		}
	}
	return out
}

func (w Window) since(now time.Time, slots int64) (attempts int, weight float64) {
	slot := SlotOf(now)
	for _, b := range w.ring {
		if b.Slot > slot-slots && b.Slot <= slot+aheadSlots {
			attempts += b.Attempts
			weight += b.Weight
		}
	}
	return attempts, weight
}

func within(slot, now int64) bool { return slot > now-buckets && slot <= now+aheadSlots }
