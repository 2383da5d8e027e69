package breaker

import "math/bits"

// orderLength is how many of the latest calls are remembered in their order.
const orderLength = 64

// order remembers the verdicts on an environment's latest calls in the order in which the calls began. The order in which
// they end would deceive: a refusal takes 100 ms and an answer a second, so that among calls made at once the failures
// come in first, and for a second after an outage began the successes from before it still come in.
//
// Bit 0 of the masks is the call that began last. A call with no bit set succeeded.
type order struct {
	// last is the place of the call that began last, since the latest change of state the places after since.
	last, since           uint64
	pending, failed, void uint64
}

// next gives out the next place.
func (o order) next() order {
	o.last++
	o.pending = o.pending<<1 | 1
	o.failed <<= 1
	o.void <<= 1
	return o
}

// forget starts anew: nothing that began before counts any more.
func (o order) forget() order { return order{last: o.last, since: o.last} }

func (o order) succeeded(place uint64) order { return o.judge(place, nil) }
func (o order) failure(place uint64) order   { return o.judge(place, &o.failed) }

// without takes a call out that said nothing: its neighbours follow each other.
func (o order) without(place uint64) order { return o.judge(place, &o.void) }

// judge sets the call's bit in one of o's own masks; nil: in none. A call that is not remembered changes nothing.
func (o *order) judge(place uint64, in *uint64) order {
	age := o.last - place
	if age >= o.known() {
		return *o
	}
	bit := uint64(1) << age
	o.pending &^= bit
	if in != nil {
		*in |= bit
	}
	return *o
}

// known is how many calls are remembered.
func (o order) known() uint64 { return min(o.last-o.since, orderLength) }

// row is the longest row of failed calls. A success ends a row, and so does a call that is still on its way, since it may
// yet succeed.
func (o order) row() int {
	longest, row := 0, 0
	for i := range o.known() {
		switch bit := uint64(1) << i; {
		case o.failed&bit != 0:
			row++
			longest = max(longest, row)
		case o.void&bit == 0:
			row = 0
		}
	}
	return longest
}

// unanswered counts the calls that are still on their way.
func (o order) unanswered() int { return bits.OnesCount64(o.pending) }

// doubtful reports whether, of the calls that have been judged, the one that began last failed.
func (o order) doubtful() bool {
	open := o.pending | o.void
	for i := range o.known() {
		if bit := uint64(1) << i; open&bit == 0 {
			return o.failed&bit != 0
		}
	}
	return false
}
