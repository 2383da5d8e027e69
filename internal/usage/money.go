package usage

import (
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Nano is an amount of money in nano-dollars: 1 USD is 1e9. The largest is about 9.2 billion dollars.
type Nano int64

// Plus adds two amounts. A sum beyond the range stays at its end, so that many costs can never add up to a small one.
func (n Nano) Plus(m Nano) Nano {
	sum := n + m
	switch {
	case n > 0 && m > 0 && sum < 0:
		return math.MaxInt64
	case n < 0 && m < 0 && sum >= 0:
		return math.MinInt64
	}
	return sum
}

// String is the amount in dollars, exactly: "0.0000125".
func (n Nano) String() string {
	sign, abs := "", uint64(n)
	if n < 0 {
		sign, abs = "-", -abs
	}
	s := sign + strconv.FormatUint(abs/1e9, 10)
	if frac := abs % 1e9; frac > 0 {
		digits := strconv.FormatUint(frac, 10)
		s += "." + strings.TrimRight(strings.Repeat("0", 9-len(digits))+digits, "0")
	}
	return s
}

// picos sums quantities times rates in pico-dollars, without rounding and without overflow: a quantity and a rate have 63
// bits each, the sum has 128.
type picos struct{ hi, lo uint64 }

// add adds a quantity of tokens at a rate; neither is negative.
func (p *picos) add(tokens int64, rate Rate) {
	hi, lo := bits.Mul64(uint64(tokens), uint64(rate))
	var carry uint64
	p.lo, carry = bits.Add64(p.lo, lo, 0)
	p.hi, _ = bits.Add64(p.hi, hi, carry)
}

// nano rounds the sum to the nearest nano-dollar, halves up. It reports false for a sum beyond the range of Nano.
func (p picos) nano() (Nano, bool) {
	lo, carry := bits.Add64(p.lo, 500, 0)
	hi, _ := bits.Add64(p.hi, 0, carry)
	if hi >= 1000 {
		return 0, false
	}
	q, _ := bits.Div64(hi, lo, 1000)
	if q > math.MaxInt64 {
		return 0, false
	}
	return Nano(q), true
}
