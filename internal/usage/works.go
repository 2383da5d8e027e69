package usage

import (
	_ "embed"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

//go:embed works.txt
var works string

// Works is the price table of works that jobs make: videos and music. It is kept by hand, a line a model with its source and
// its date, and is searched where it lies, as a Table is. It is read-only and safe for concurrent use. The zero value knows
// no price.
//
// A line is a key, what is charged, the day on which that was seen, and where, separated by tabs. The key is provider/model;
// provider/*kind is for every model of the kind, which only the simulated provider may have; provider/ is for what holds of
// all its models. What is charged is
//
//	second 720p 0.4 4k 0.6; unasked 8 720p    dollars for a second of it, by its resolution; where the client asked for
//	                                          none, or for no length, the provider makes what stands behind "unasked"
//	second 0.1                                the same for every resolution
//	minute 0.6                                dollars for a minute that has begun
//	work 0.08                                 dollars for each, however long
//	blocked free                              a work that the provider's moderation refuses, costs nothing
//	=google                                   another name of a provider
//
// Whatever is not there is not known: a resolution without a price, a length that nobody asked for. Videos are priced with the sound that they are made with.
type Works struct{ table Table }

// EmbeddedWorks returns the table that this program was built with.
func EmbeddedWorks() Works { return Works{Table{works}} }

// Version names the table in records.
func (t Works) Version() string { return t.table.Version() }

// Work is what a client asked for.
type Work struct {
	// Kind is video or music.
	Kind string
	// Length and Resolution, such as 720p, are the zero value where none was asked for.
	Length     time.Duration
	Resolution string
}

// Charge prices a work that was made. It is listed, or unknown.
func (t Works) Charge(provider, model string, w Work) Charge {
	for _, key := range []string{model, "*" + w.Kind} {
		if list, ok := t.line(provider, key); ok {
			tariff, err := parseTariff(list)
			if cost, ok := tariff.cost(w); ok && err == nil {
				return Charge{Cost: cost, Basis: BasisListed}
			}
			break
		}
	}
	return Charge{Basis: BasisUnknown}
}

// Blocked is what a work costs that the provider's moderation refused: nothing where the provider says so, else unknown.
func (t Works) Blocked(provider string) Charge {
	if list, ok := t.line(provider, ""); ok && list == blockedFree {
		return Charge{Basis: BasisListed}
	}
	return Charge{Basis: BasisUnknown}
}

const blockedFree = "blocked free"

// line is what is charged for a key of a provider, which may have another name.
func (t Works) line(provider, key string) (string, bool) {
	if other, ok := t.field(provider + "/"); ok {
		if name, alias := strings.CutPrefix(other, "="); alias {
			provider = name
		}
	}
	return t.field(provider + "/" + key)
}

// field is the first field behind a key.
func (t Works) field(key string) (string, bool) {
	line, ok := t.table.line(key)
	list, _, _ := strings.Cut(line, "\t")
	return list, ok
}

// tariff is what is charged for a model.
type tariff struct {
	unit  string
	rates map[string]Rate // by resolution; "" for every one
	// unasked is what is made where nothing was asked for; its zero values are not known.
	unasked Work
}

// cost is what a work costs. Every one of its steps is exact: a rate is in micro-dollars, and a micro-dollar a second is a
// nano-dollar a millisecond.
func (t tariff) cost(w Work) (Nano, bool) {
	if w.Length == 0 {
		w.Length = t.unasked.Length
	}
	if w.Resolution == "" {
		w.Resolution = t.unasked.Resolution
	}
	rate, ok := t.rates[""]
	if !ok {
		rate, ok = t.rates[w.Resolution]
	}
	units := int64(1000)
	switch t.unit {
	case "second":
		units = w.Length.Milliseconds()
	case "minute":
		units *= int64(math.Ceil(w.Length.Minutes()))
	}
	if !ok || units <= 0 || int64(rate) > math.MaxInt64/units {
		return 0, false
	}
	return Nano(int64(rate) * units), true
}

var (
	errUnit    = errors.New("it is charged by the second, the minute or the work")
	errUnasked = errors.New("unasked is followed by seconds and a resolution, or one of them")
	errTwice   = errors.New("a resolution stands twice, or beside a price for all")
)

// parseTariff reads what is charged.
func parseTariff(list string) (tariff, error) {
	charged, unasked, also := strings.Cut(list, "; unasked ")
	fields := strings.Fields(charged)
	if len(fields) < 2 || fields[0] != "second" && fields[0] != "minute" && fields[0] != "work" {
		return tariff{}, errUnit
	}
	t := tariff{unit: fields[0], rates: map[string]Rate{}}
	if fields = fields[1:]; len(fields) == 1 {
		fields = []string{"", fields[0]}
	}
	for ; len(fields) >= 2; fields = fields[2:] {
		rate, err := parseRate(fields[1])
		if err != nil {
			return tariff{}, err
		}
		if _, twice := t.rates[fields[0]]; twice {
			return tariff{}, errTwice
		}
		t.rates[fields[0]] = rate
	}
	if len(fields) != 0 {
		return tariff{}, fmt.Errorf("%q has no price", fields[0])
	}
	if also {
		return t, t.parseUnasked(unasked)
	}
	return t, nil
}

func (t *tariff) parseUnasked(text string) error {
	fields := strings.Fields(text)
	if len(fields) == 0 || len(fields) > 2 {
		return errUnasked
	}
	if seconds, err := strconv.ParseUint(fields[0], 10, 16); err == nil && seconds > 0 {
		t.unasked.Length = time.Duration(seconds) * time.Second
		fields = fields[1:]
	}
	if len(fields) == 0 {
		return nil
	}
	if _, priced := t.rates[fields[0]]; !priced || len(fields) > 1 {
		return errUnasked
	}
	t.unasked.Resolution = fields[0]
	return nil
}
