package fault

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// excessive stands for a wait beyond any use: a year. Long enough for every comparison, short enough to add to a time.
const excessive = 365 * 24 * time.Hour

// dateLayouts are the three forms of an HTTP date (RFC 9110 §5.6.7).
var dateLayouts = []string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC}

// dimensions are the limits that providers report in headers (reference/providers.md §2.2, 2026-11-30): a header that
// says what is left, how it looks when nothing is, and the header that says when there will be more.
var dimensions = []struct{ left, spent, reset string }{
	{"x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests"},
	{"x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens"},
	{"anthropic-ratelimit-requests-remaining", "0", "anthropic-ratelimit-requests-reset"},
	{"anthropic-ratelimit-tokens-remaining", "0", "anthropic-ratelimit-tokens-reset"},
	{"anthropic-ratelimit-input-tokens-remaining", "0", "anthropic-ratelimit-input-tokens-reset"},
	{"anthropic-ratelimit-output-tokens-remaining", "0", "anthropic-ratelimit-output-tokens-reset"},
	{"anthropic-ratelimit-unified-status", "rejected", "anthropic-ratelimit-unified-reset"},
	{"x-ratelimit-remaining", "0", "x-ratelimit-reset"},
}

// HintFromHeaders reads the retry hint of an answer's headers (policy.md §4): retry-after-ms and x-ms-retry-after-ms in
// milliseconds, then retry-after as seconds (integer or float) or as an HTTP date relative to now, then the reset of the
// dimensions that are exhausted, of which the last one counts. get returns a header's value by its lower-case name, ""
// when absent. Words, negative numbers, NaN and infinities are no hint.
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
			return hintOf(t.Sub(now), name)
		}
	}
	var longest Hint
	for _, d := range dimensions {
		if get(d.left) != d.spent {
			continue
		}
		if wait, ok := untilReset(get(d.reset), now); ok && (!longest.Known || wait > longest.Wait) {
			longest = hintOf(wait, d.reset)
		}
	}
	return longest
}

// hintOf is the hint of a wait: a past one is a hint to come back at once, one beyond counting is excessive.
func hintOf(wait time.Duration, source string) Hint {
	return Hint{Known: true, Wait: min(max(wait, 0), excessive), Excessive: wait >= excessive, Source: source}
}

// untilReset reads a reset header: a Go duration, an RFC 3339 time, or an epoch in seconds or milliseconds. A number too
// small for an epoch of this century is not understood.
func untilReset(value string, now time.Time) (time.Duration, bool) {
	if d, err := time.ParseDuration(value); err == nil {
		return d, d >= 0
	}
	if t, err := time.Parse(time.RFC3339, value); err == nil {
		return t.Sub(now), true
	}
	switch n, err := strconv.ParseInt(value, 10, 64); {
	case err != nil || n < 1e9:
		return 0, false
	case n >= 1e12:
		return time.UnixMilli(n).Sub(now), true
	default:
		return time.Unix(n, 0).Sub(now), true
	}
}

// maxTextHint bounds what a sentence may ask for.
const maxTextHint = 60 * time.Second

var tryAgain = regexp.MustCompile(`\btry again in ([0-9hms.]+)`)

// hintFromText reads the wait in the sentence "Please try again in 2m59.56s." of OpenAI and Groq, which comes without a
// header at times.
func hintFromText(message string) Hint {
	m := tryAgain.FindStringSubmatch(message)
	if m == nil {
		return Hint{}
	}
	d, err := time.ParseDuration(strings.TrimRight(m[1], "."))
	if err != nil {
		return Hint{}
	}
	return hintOf(min(d, maxTextHint), "message")
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
		return hintOf(excessive, source), true
	}
	return hintOf(time.Duration(f*float64(unit)), source), true
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
