package usage

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rate is a price in micro-dollars: for a million tokens, which is pico-dollars for one token, or for an hour of audio.
type Rate int64

// Unit is what a rate is the price of.
type Unit uint8

// The units. All but AudioHour are tokens.
const (
	Input Unit = iota
	Output
	CacheRead
	CacheWrite   // kept for five minutes, or for as long as the provider keeps it by default
	CacheWrite1h // kept for an hour
	AudioInput
	AudioOutput
	ImageInput
	ImageOutput
	AudioHour
	units
)

// unitNames are the units as the table writes them.
var unitNames = [units]string{"in", "out", "read", "write", "write1h", "audio-in", "audio-out", "image-in", "image-out", "hour"}

func (u Unit) String() string { return unitNames[u] }

func parseUnit(name string) (Unit, bool) {
	for u, have := range unitNames {
		if have == name {
			return Unit(u), true
		}
	}
	return 0, false
}

// Rates are what the units of one model cost at one moment. The zero value prices nothing.
type Rates struct {
	rate [units]Rate
	set  uint16 // one bit a unit
}

// Of returns the rate of a unit, and whether the model has one.
func (r Rates) Of(u Unit) (Rate, bool) { return r.rate[u], r.set&(1<<u) != 0 }

func (r *Rates) put(u Unit, rate Rate) { r.rate[u], r.set = rate, r.set|1<<u }

// over lays the rates of a tier over those of its period.
func (r *Rates) over(tier Rates) {
	for u := range units {
		if rate, ok := tier.Of(u); ok {
			r.put(u, rate)
		}
	}
}

// Price is a model's price list: a line of the table, read when it is asked. The zero value prices nothing.
//
// A list is blocks separated by "; ", each a condition and rates in dollars, "in 2 out 10 read 0.2". The first block has
// no condition. "from 2027-01-01" holds from that day on (UTC) and "daily 00:30-16:30" every day between these times
// (UTC; past midnight when the end is the smaller): of the blocks that hold, the last one counts, alone. "over 272000"
// belongs to the block before it and reprices the whole quantity of the units it names when the request has more input
// tokens than that, output tokens included.
type Price struct{ list string }

// At returns the rates that hold at a time for a request of so many input tokens, cached ones included. It reports false
// for a list that cannot be read, which the embedded table has none of.
func (p Price) At(now time.Time, input int64) (Rates, bool) {
	var out Rates
	if p.list == "" {
		return out, false
	}
	holds := false
	for text := range strings.SplitSeq(p.list, "; ") {
		b, err := parseBlock(text)
		if err != nil {
			return Rates{}, false
		}
		switch {
		case b.kind != tier:
			if b.holds(now) {
				out, holds = b.rates, true
			} else {
				holds = false
			}
		case holds && input > b.above:
			out.over(b.rates)
		}
	}
	return out, true
}

// check reports what is wrong with a list.
func (p Price) check() error {
	above, first := int64(-1), true
	for text := range strings.SplitSeq(p.list, "; ") {
		b, err := parseBlock(text)
		switch {
		case err != nil:
			return fmt.Errorf("reading the block %q: %w", text, err)
		case first != (b.kind == always):
			return fmt.Errorf("the block %q: the first one, and no other, has no condition", text)
		case b.kind == tier && b.above <= above:
			return fmt.Errorf("the block %q: tiers must ascend", text)
		case b.kind == tier:
			above = b.above
		default:
			above = -1
		}
		first = false
	}
	return nil
}

// condition is the kind of a block.
type condition uint8

const (
	always condition = iota
	from
	daily
	tier
)

// block is a block of a list; of its limits only those of its kind are set.
type block struct {
	kind       condition
	since      time.Time
	begin, end int // minutes of a day
	above      int64
	rates      Rates
}

// holds reports whether a period holds at a time.
func (b *block) holds(now time.Time) bool {
	switch b.kind {
	case from:
		return !now.Before(b.since)
	case daily:
		now = now.UTC()
		at := now.Hour()*60 + now.Minute()
		if b.end < b.begin {
			return at >= b.begin || at < b.end
		}
		return at >= b.begin && at < b.end
	default:
		return true
	}
}

func parseBlock(text string) (block, error) {
	var b block
	word, rest, _ := strings.Cut(text, " ")
	var err error
	switch word {
	case "from":
		b.kind = from
		word, rest, _ = strings.Cut(rest, " ")
		b.since, err = time.Parse(time.DateOnly, word)
	case "daily":
		b.kind = daily
		word, rest, _ = strings.Cut(rest, " ")
		b.begin, b.end, err = parseSpan(word)
	case "over":
		b.kind = tier
		word, rest, _ = strings.Cut(rest, " ")
		b.above, err = strconv.ParseInt(word, 10, 64)
	default:
		rest = text
	}
	if err != nil {
		return block{}, err
	}
	b.rates, err = parseRates(rest)
	return b, err
}

// parseSpan reads "00:30-16:30" as minutes of a day.
func parseSpan(text string) (begin, end int, err error) {
	first, second, _ := strings.Cut(text, "-")
	if begin, err = parseMinute(first); err != nil {
		return 0, 0, err
	}
	end, err = parseMinute(second)
	return begin, end, err
}

func parseMinute(text string) (int, error) {
	t, err := time.Parse("15:04", text)
	return t.Hour()*60 + t.Minute(), err
}

var errNoRates = errors.New("no rates")

// parseRates reads "in 2 out 10".
func parseRates(text string) (Rates, error) {
	var r Rates
	for text != "" {
		var name, amount string
		name, text, _ = strings.Cut(text, " ")
		amount, text, _ = strings.Cut(text, " ")
		u, ok := parseUnit(name)
		if !ok {
			return Rates{}, fmt.Errorf("%q is not a unit", name)
		}
		rate, err := parseRate(amount)
		if err != nil {
			return Rates{}, err
		}
		r.put(u, rate)
	}
	if r.set == 0 {
		return Rates{}, errNoRates
	}
	return r, nil
}

// parseRate reads an amount of dollars with at most nine digits before the point and at most six after it.
func parseRate(dollars string) (Rate, error) {
	whole, frac, point := strings.Cut(dollars, ".")
	if len(whole) == 0 || len(whole) > 9 || len(frac) > 6 || point != (frac != "") || !digits(whole) || !digits(frac) {
		return 0, fmt.Errorf("%q is not an amount", dollars)
	}
	var n int64
	for _, c := range []byte(whole) {
		n = n*10 + int64(c-'0')
	}
	for i := range 6 {
		n *= 10
		if i < len(frac) {
			n += int64(frac[i] - '0')
		}
	}
	return Rate(n), nil
}

func digits(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
