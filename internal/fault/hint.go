package fault

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// excessive stands for a wait beyond any use: a year. Long enough for every comparison, short enough to add to a time.
const excessive = 365 * 24 * time.Hour

// dateLayouts are the three forms of an HTTP date (RFC 9110 §5.6.7).
var dateLayouts = []string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC}

// HintFromHeaders reads the retry hint of an answer's headers (policy.md §4): retry-after-ms and x-ms-retry-after-ms in
// milliseconds, then retry-after as seconds (integer or float) or as an HTTP date relative to now. get returns a
// header's value by its lower-case name, "" when absent. Words, negative numbers, NaN and infinities are no hint.
func HintFromHeaders(get func(name string) string, now time.Time) Hint {
	for _, name := range []string{"retry-after-ms", "x-ms-retry-after-ms"} {
		if h, ok := hintFromNumber(get(name), time.Millisecond, name); ok {
			return h
		}
	}
	const name = "retry-after"
	value := strings.TrimSpace(get(name))
	if h, ok := hintFromNumber(value, time.Second, name); ok {
		return h
	}
	for _, layout := range dateLayouts {
		if t, err := time.Parse(layout, value); err == nil {
			return Hint{Known: true, Wait: min(max(t.Sub(now), 0), excessive), Source: name}
		}
	}
	return Hint{}
}

// hintFromNumber reads a decimal number of units. A number too large for a float or for a duration is excessive, never
// wrapped around.
func hintFromNumber(value string, unit time.Duration, source string) (Hint, bool) {
	value = strings.TrimSpace(value)
	if value == "" || strings.Trim(value, "0123456789.eE+") != "" {
		return Hint{}, false // also "-1", "NaN", "Inf", hexadecimal floats and words
	}
	f, err := strconv.ParseFloat(value, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return Hint{}, false
	}
	if f >= float64(excessive/unit) {
		return Hint{Known: true, Wait: excessive, Excessive: true, Source: source}, true
	}
	return Hint{Known: true, Wait: time.Duration(f * float64(unit)), Source: source}, true
}

// ShouldRetryFromHeader reads x-should-retry; nil for anything but the exact words.
func ShouldRetryFromHeader(value string) *bool {
	switch value {
	case "true", "false":
		b := value == "true"
		return &b
	}
	return nil
}
