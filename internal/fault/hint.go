package fault

import (
	"errors"
	"slices"
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

// HintFrom is the hint of an answer (policy.md §4): the wait that its headers ask for, else the one in its body, else the
// reset of an exhausted dimension, of which the last one counts. get returns a header's value by its lower-case name, ""
// when absent. Words, negative numbers, NaN and infinities are no hint; zero and a moment that has passed are one. The
// last resort of the order, the sentence "try again in 4s", is read by Classify, for a throttle only.
func HintFrom(get func(name string) string, env Envelope, now time.Time) Hint {
	original := func(name string) string { return env.said.headers[name] }
	if h := hintFromRetryAfter(get, now); h.Known {
		return h
	}
	if h := hintFromBody(env, original, now); h.Known {
		return h
	}
	if h := hintFromResets(get, now); h.Known {
		return h
	}
	return hintFromResets(original, now)
}

// ResetFrom is when the provider says that a spent allowance is restored, which is more than when to ask again:
// OpenRouter's resets_at, and Anthropic's "You will regain access on 2026-09-01 at 00:00 UTC".
func ResetFrom(env Envelope, now time.Time) Hint {
	if wait, ok := untilMoment(env.said.resets, now); ok {
		return hintOf(wait, "resets_at")
	}
	return hintFromRegain(env.Message, now)
}

// hintFromRetryAfter reads retry-after-ms and x-ms-retry-after-ms in milliseconds, then retry-after as seconds (integer or
// float) or as an HTTP date.
func hintFromRetryAfter(get func(name string) string, now time.Time) Hint {
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
	return Hint{}
}

// hintFromBody reads what the body says: Google's delay, the headers of the original error inside a stream, and
// OpenRouter's own words.
func hintFromBody(env Envelope, original func(name string) string, now time.Time) Hint {
	if wait, ok := duration(env.said.delay); ok && !lasts(env.Details) {
		return hintOf(wait, googleDelay)
	}
	if h := hintFromRetryAfter(original, now); h.Known {
		h.Source = "error.headers"
		return h
	}
	if h, ok := hintFromNumber(env.said.after, time.Second, "availability.retry_after"); ok {
		return h
	}
	return ResetFrom(env, now)
}

// googleDelay is the source of a hint from a RetryInfo.
const googleDelay = "retryDelay"

// lasts reports whether a Google quota stays empty however short the delay that comes with it: one by the day
// (https://github.com/googleapis/python-genai/issues/1875, 2026-11-30), or one of nothing.
func lasts(details []string) bool {
	return slices.ContainsFunc(details, func(d string) bool { return d == noQuota || strings.Contains(d, "PerDay") })
}

// hintFromResets is the latest reset among the exhausted dimensions.
func hintFromResets(get func(name string) string, now time.Time) Hint {
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

// untilReset reads a reset header: a Go duration, an RFC 3339 time, or an epoch.
func untilReset(value string, now time.Time) (time.Duration, bool) {
	if wait, ok := duration(value); ok {
		return wait, true
	}
	return untilMoment(value, now)
}

// untilMoment reads an RFC 3339 time, or an epoch in seconds or milliseconds. A number too small for an epoch of this
// century is not understood.
func untilMoment(value string, now time.Time) (time.Duration, bool) {
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

// duration reads a Go duration that is not negative; one that is too long to be held is excessive.
func duration(value string) (time.Duration, bool) {
	d, err := time.ParseDuration(value)
	if err == nil {
		return d, d >= 0
	}
	// The form is right and only the number too large, if it can be read with every number cut to one digit.
	short := make([]byte, 0, len(value))
	for i := range len(value) {
		if !digit(value[i]) || i == 0 || !digit(value[i-1]) {
			short = append(short, value[i])
		}
	}
	d, err = time.ParseDuration(string(short))
	return excessive, err == nil && d >= 0 && !strings.HasPrefix(value, "-")
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// Anthropic says when its own limit on spending is lifted in the sentence that refuses the request, and nowhere else
// (https://github.com/anthropics/claude-code/issues/2127, 2026-11-30).
const (
	limitReached = "You have reached your "
	regainAccess = "You will regain access on "
)

func hintFromRegain(message string, now time.Time) Hint {
	if !strings.HasPrefix(message, limitReached) {
		return Hint{} // the sentence may stand in a text that somebody quotes
	}
	_, when, _ := strings.Cut(message, regainAccess)
	for _, layout := range []string{"2006-01-02 at 15:04 UTC", time.DateOnly} {
		if len(when) >= len(layout) {
			if t, err := time.Parse(layout, when[:len(layout)]); err == nil {
				return hintOf(t.Sub(now), "regain access")
			}
		}
	}
	return Hint{}
}

// maxTextHint bounds what a sentence may ask for.
const maxTextHint = 60 * time.Second

// hintFromText reads the wait in the sentence "Please try again in 2m59.56s." of OpenAI and Groq, which comes without a
// header at times.
func hintFromText(message string) Hint {
	before, rest, ok := strings.Cut(message, "try again in ")
	if !ok || (before != "" && !strings.HasSuffix(before, " ")) {
		return Hint{}
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return !strings.ContainsRune("0123456789hms.", r) })
	if end >= 0 {
		rest = rest[:end]
	}
	wait, ok := duration(strings.TrimRight(rest, "."))
	if !ok {
		return Hint{}
	}
	return hintOf(min(wait, maxTextHint), "message")
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
