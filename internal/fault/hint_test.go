package fault_test

import (
	"net/textproto"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"spillway/internal/fault"
)

// now is B11's clock.
var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// headers gives a lookup over "Name: value" lines.
func headers(lines ...string) func(string) string {
	h := textproto.MIMEHeader{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ":")
		h.Set(name, strings.TrimSpace(value))
	}
	return h.Get
}

// TestHintFromHeaders is B11, the table of reference/providers.md §2.1, and policy.md §4, which wins over both.
func TestHintFromHeaders(t *testing.T) {
	known := func(wait time.Duration, source string) fault.Hint {
		return fault.Hint{Known: true, Wait: wait, Source: source}
	}
	excessive := func(source string) fault.Hint {
		return fault.Hint{Known: true, Wait: fault.Excessive, Excessive: true, Source: source}
	}
	const after = "retry-after"
	for name, c := range map[string]struct {
		lines []string
		want  fault.Hint
	}{
		"a: whole seconds":                   {[]string{"Retry-After: 2"}, known(2*time.Second, after)},
		"b: milliseconds win":                {[]string{"Retry-After: 1", "retry-after-ms: 250"}, known(250*time.Millisecond, "retry-after-ms")},
		"Azure's milliseconds win":           {[]string{"Retry-After: 1", "x-ms-retry-after-ms: 250"}, known(250*time.Millisecond, "x-ms-retry-after-ms")},
		"fractions of milliseconds":          {[]string{"retry-after-ms: 1.5"}, known(1500*time.Microsecond, "retry-after-ms")},
		"c: half a second":                   {[]string{"Retry-After: 0.5"}, known(500*time.Millisecond, after)},
		"d: zero is a value":                 {[]string{"Retry-After: 0"}, known(0, after)},
		"zero milliseconds are a value":      {[]string{"retry-after-ms: 0", "Retry-After: 9"}, known(0, "retry-after-ms")},
		"e: negative":                        {[]string{"Retry-After: -1"}, fault.Hint{}},
		"f: a date":                          {[]string{"Retry-After: Tue, 01 Jan 2030 00:00:02 GMT"}, known(2*time.Second, after)},
		"a date in RFC 850":                  {[]string{"Retry-After: Tuesday, 01-Jan-30 00:00:02 GMT"}, known(2*time.Second, after)},
		"a date in asctime":                  {[]string{"Retry-After: Tue Jan  1 00:00:02 2030"}, known(2*time.Second, after)},
		"g: a past date":                     {[]string{"Retry-After: Wed, 21 Oct 2015 07:28:00 GMT"}, known(0, after)},
		"a date far ahead":                   {[]string{"Retry-After: Fri, 31 Dec 9999 23:59:59 GMT"}, excessive(after)},
		"h: more than a duration can hold":   {[]string{"Retry-After: 9223372037"}, excessive(after)},
		"i: half an hour is not cut":         {[]string{"Retry-After: 1800"}, known(30*time.Minute, after)},
		"7999 s are not cut":                 {[]string{"Retry-After: 7999"}, known(7999*time.Second, after)},
		"j: a word":                          {[]string{"Retry-After: soon"}, fault.Hint{}},
		"j: not a number":                    {[]string{"Retry-After: NaN"}, fault.Hint{}},
		"j: infinity":                        {[]string{"Retry-After: Inf"}, fault.Hint{}},
		"j: infinity in full":                {[]string{"Retry-After: +Infinity"}, fault.Hint{}},
		"j: beyond a float is excessive":     {[]string{"Retry-After: 1e400"}, excessive(after)},
		"j: a date in the year 99999":        {[]string{"Retry-After: Fri, 01 Jan 99999 00:00:00 GMT"}, fault.Hint{}},
		"empty":                              {[]string{"Retry-After:"}, fault.Hint{}},
		"absent":                             {nil, fault.Hint{}},
		"hexadecimal":                        {[]string{"Retry-After: 0x10"}, fault.Hint{}},
		"digits with an underscore":          {[]string{"Retry-After: 1_000"}, fault.Hint{}},
		"no digits":                          {[]string{"Retry-After: e"}, fault.Hint{}},
		"a bad one leaves the next its turn": {[]string{"retry-after-ms: soon", "Retry-After: 3"}, known(3*time.Second, after)},
		"words leave the reset its turn": {[]string{"Retry-After: soon", "x-ratelimit-remaining-requests: 0", "x-ratelimit-reset-requests: 1s"},
			known(time.Second, "x-ratelimit-reset-requests")},
		"retry-after wins over a reset": {[]string{"Retry-After: 3", "x-ratelimit-remaining-requests: 0", "x-ratelimit-reset-requests: 1s"}, known(3*time.Second, after)},

		"a reset of an exhausted dimension": {[]string{"x-ratelimit-remaining-tokens: 0", "x-ratelimit-reset-tokens: 6m0s"}, known(6*time.Minute, "x-ratelimit-reset-tokens")},
		"a reset in fractions":              {[]string{"x-ratelimit-remaining-tokens: 0", "x-ratelimit-reset-tokens: 2m59.56s"}, known(2*time.Minute+59560*time.Millisecond, "x-ratelimit-reset-tokens")},
		"a reset in milliseconds":           {[]string{"x-ratelimit-remaining-requests: 0", "x-ratelimit-reset-requests: 12ms"}, known(12*time.Millisecond, "x-ratelimit-reset-requests")},
		"a reset of what is left":           {[]string{"x-ratelimit-remaining-requests: 3", "x-ratelimit-reset-requests: 1s"}, fault.Hint{}},
		"a reset of nobody knows what":      {[]string{"x-ratelimit-reset-requests: 1s"}, fault.Hint{}},
		"only the exhausted one counts": {[]string{"x-ratelimit-remaining-requests: 0", "x-ratelimit-reset-requests: 1s", "x-ratelimit-remaining-tokens: 7",
			"x-ratelimit-reset-tokens: 9s"}, known(time.Second, "x-ratelimit-reset-requests")},
		"of two exhausted ones the later": {[]string{"x-ratelimit-remaining-requests: 0", "x-ratelimit-reset-requests: 1s", "x-ratelimit-remaining-tokens: 0",
			"x-ratelimit-reset-tokens: 9s"}, known(9*time.Second, "x-ratelimit-reset-tokens")},
		"a negative reset":        {[]string{"x-ratelimit-remaining-requests: 0", "x-ratelimit-reset-requests: -1s"}, fault.Hint{}},
		"a reset beyond counting": {[]string{"x-ratelimit-remaining-requests: 0", "x-ratelimit-reset-requests: 99999999h"}, excessive("x-ratelimit-reset-requests")},
		"a long reset":            {[]string{"x-ratelimit-remaining-requests: 0", "x-ratelimit-reset-requests: 99999h"}, excessive("x-ratelimit-reset-requests")},
		"RFC 3339": {[]string{"anthropic-ratelimit-tokens-remaining: 0", "anthropic-ratelimit-tokens-reset: 2030-01-01T00:00:20Z"},
			known(20*time.Second, "anthropic-ratelimit-tokens-reset")},
		"an epoch in seconds": {[]string{"anthropic-ratelimit-unified-status: rejected", "anthropic-ratelimit-unified-reset: 1893456010"},
			known(10*time.Second, "anthropic-ratelimit-unified-reset")},
		"an epoch of a limit that still holds": {[]string{"anthropic-ratelimit-unified-status: allowed", "anthropic-ratelimit-unified-reset: 1893456010"}, fault.Hint{}},
		"an epoch in milliseconds":             {[]string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1893456001500"}, known(1500*time.Millisecond, "x-ratelimit-reset")},
		"a past epoch":                         {[]string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1741305600000"}, known(0, "x-ratelimit-reset")},
		"a number too small for an epoch":      {[]string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 30"}, fault.Hint{}},
		"a number too large for an epoch":      {[]string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 9223372036854775807"}, excessive("x-ratelimit-reset")},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, fault.HintFromHeaders(headers(c.lines...), now))
		})
	}
}

func TestHintFromText(t *testing.T) {
	for message, want := range map[string]time.Duration{
		"Rate limit reached on requests per min. Please try again in 4s. Visit https://example.com": 4 * time.Second,
		"Please try again in 359ms.":                   359 * time.Millisecond,
		"Please try again in 2m59.56s. More":           fault.MaxTextHint,
		"Please try again in 59.5s":                    59500 * time.Millisecond,
		"Please try again in 0s":                       0,
		"Please try again in 9999999h":                 fault.MaxTextHint,
		"Please try again in -4s":                      -1,
		"Please try again in a minute.":                -1,
		"Please try again in 4 seconds":                -1,
		"Please try again in .":                        -1,
		"You must retry again in 4s":                   -1,
		"Please retry-try again in 4s":                 -1,
		"Please retry in 4s":                           -1,
		"":                                             -1,
		"Our servers are busy. Please try again later": -1,
	} {
		got := fault.HintFromText(message)
		if want < 0 {
			assert.Equal(t, fault.Hint{}, got, "%q", message)
			continue
		}
		assert.Equal(t, fault.Hint{Known: true, Wait: want, Source: "message"}, got, "%q", message)
	}
}

// TestHintFrom is the order of policy.md §4: headers, body, resets.
func TestHintFrom(t *testing.T) {
	const (
		google     = `{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.074824224s"}]}}`
		googleDay  = `{"error":{"code":429,"details":[{"retryDelay":"26s"},{"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]}}`
		inStream   = `{"error":{"code":"rate_limit_exceeded","message":"m","headers":{"Retry-After":"3","RETRY-AFTER-MS":2500}}}`
		openRouter = `{"error":{"code":429,"message":"m","availability":{"retry_after":4.5}}}`
		resetsAt   = `{"error":{"code":403,"message":"m","metadata":{"resets_at":"2030-01-01T01:00:00Z"}}}`
		regain     = `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2030-01-02 at 00:00 UTC."}}`
		reset      = "x-ratelimit-reset-requests: 9s"
		spent      = "x-ratelimit-remaining-requests: 0"
	)
	known := func(wait time.Duration, source string) fault.Hint {
		return fault.Hint{Known: true, Wait: wait, Source: source}
	}
	for name, c := range map[string]struct {
		lines []string
		body  string
		want  fault.Hint
	}{
		"a header before the body":                      {[]string{"retry-after: 2"}, google, known(2*time.Second, "retry-after")},
		"a header that is zero before the body":         {[]string{"retry-after: 0"}, google, known(0, "retry-after")},
		"a header that is a word leaves it to the body": {[]string{"retry-after: soon"}, google, known(34074824224, "retryDelay")},
		"the body before a reset":                       {[]string{spent, reset}, google, known(34074824224, "retryDelay")},
		"a reset where the body says nothing":           {[]string{spent, reset}, `{"error":{"code":429}}`, known(9*time.Second, "x-ratelimit-reset-requests")},
		"a reset of what is left, and nothing":          {[]string{reset}, `{"error":{"code":429}}`, fault.Hint{}},
		"Google: zero is a value":                       {nil, `{"error":{"details":[{"retryDelay":"0s"}]}}`, known(0, "retryDelay")},
		"Google: a negative delay":                      {nil, `{"error":{"details":[{"retryDelay":"-3s"}]}}`, fault.Hint{}},
		"Google: a delay in words":                      {nil, `{"error":{"details":[{"retryDelay":"soon"}]}}`, fault.Hint{}},
		"Google: a delay beyond counting":               {nil, `{"error":{"details":[{"retryDelay":"99999999999999999999s"}]}}`, fault.Hint{Known: true, Wait: fault.Excessive, Excessive: true, Source: "retryDelay"}},
		"Google: a quota by the day has no delay":       {nil, googleDay, fault.Hint{}},
		"Google: a quota by the day, and a header":      {[]string{"retry-after: 7"}, googleDay, known(7*time.Second, "retry-after")},
		"the headers of the original error":             {nil, inStream, known(2500*time.Millisecond, "error.headers")},
		"a header before those of the original error":   {[]string{"retry-after: 1"}, inStream, known(time.Second, "retry-after")},
		"a reset in the headers of the original error":  {nil, `{"error":{"code":429,"metadata":{"headers":{"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1893456001500"}}}}`, known(1500*time.Millisecond, "x-ratelimit-reset")},
		"OpenRouter: seconds":                           {nil, openRouter, known(4500*time.Millisecond, "availability.retry_after")},
		"OpenRouter: seconds as a text":                 {nil, `{"error":{"availability":{"retry_after":"2"}}}`, known(2*time.Second, "availability.retry_after")},
		"OpenRouter: negative seconds":                  {nil, `{"error":{"availability":{"retry_after":-2}}}`, fault.Hint{}},
		"OpenRouter: a moment":                          {nil, resetsAt, known(time.Hour, "resets_at")},
		"OpenRouter: a moment as milliseconds":          {nil, `{"error":{"metadata":{"resets_at":1893456060000}}}`, known(time.Minute, "resets_at")},
		"OpenRouter: a moment that has passed":          {nil, `{"error":{"metadata":{"resets_at":"2029-12-31T00:00:00Z"}}}`, known(0, "resets_at")},
		"OpenRouter: no moment":                         {nil, `{"error":{"metadata":{"resets_at":"tomorrow"}}}`, fault.Hint{}},
		"Anthropic: regained access":                    {nil, regain, known(24*time.Hour, "regain access")},
		"nothing at all":                                {nil, ``, fault.Hint{}},
	} {
		t.Run(name, func(t *testing.T) {
			env, _ := fault.ParseEnvelope(c.body)
			got := fault.HintFrom(headers(c.lines...), env, now)
			assert.Equal(t, c.want, got)
			checkHint(t, got)
		})
	}
}

// TestResetFrom: only a stated reset counts, and only in a sentence that begins as Anthropic's does.
func TestResetFrom(t *testing.T) {
	said := func(message string) fault.Envelope { return fault.Envelope{Message: message} }
	for name, c := range map[string]struct {
		env  fault.Envelope
		want time.Duration // negative: none
	}{
		"with an hour":                 {said("You have reached your specified workspace API usage limits. You will regain access on 2030-02-01 at 06:30 UTC."), 31*24*time.Hour + 6*time.Hour + 30*time.Minute},
		"with a date alone":            {said("You have reached your specified API usage limits. You will regain access on 2030-01-03"), 48 * time.Hour},
		"in the past":                  {said("You have reached your API usage limits. You will regain access on 2029-12-01 at 00:00 UTC."), 0},
		"a date that is none":          {said("You have reached your API usage limits. You will regain access on Monday."), -1},
		"a month that is none":         {said("You have reached your API usage limits. You will regain access on 2030-13-01 at 00:00 UTC."), -1},
		"cut short":                    {said("You have reached your API usage limits. You will regain access on 2030-"), -1},
		"no date":                      {said("You have reached your API usage limits."), -1},
		"in a quotation of the user's": {said("messages.0: You have reached your limits. You will regain access on 2099-01-01 at 00:00 UTC."), -1},
		"nothing":                      {fault.Envelope{}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			got := fault.ResetFrom(c.env, now)
			assert.Equal(t, c.want >= 0, got.Known)
			assert.Equal(t, max(c.want, 0), got.Wait)
		})
	}
}

func TestShouldRetryFromHeader(t *testing.T) {
	yes, no := true, false
	for value, want := range map[string]*bool{"true": &yes, "false": &no, "": nil, "True": nil, "1": nil, " true": nil, "maybe": nil} {
		assert.Equal(t, want, fault.ShouldRetryFromHeader(value), "%q", value)
	}
}

// checkHint holds a hint to what every hint promises.
func checkHint(t assert.TestingT, h fault.Hint) {
	assert.GreaterOrEqual(t, h.Wait, time.Duration(0), "never negative")
	assert.LessOrEqual(t, h.Wait, fault.Excessive, "never beyond the cap")
	assert.Equal(t, h.Excessive, h.Wait == fault.Excessive)
	if !h.Known {
		assert.Equal(t, fault.Hint{}, h, "an unknown hint says nothing")
	} else {
		assert.NotEmpty(t, h.Source)
	}
}

// TestHintsOfNumbers: a number of milliseconds is that wait, up to the cap.
func TestHintsOfNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(0, 1<<40).Draw(t, "ms")
		d := time.Duration(ms) * time.Millisecond
		h := fault.HintFromHeaders(func(name string) string {
			if name == "retry-after-ms" {
				return strconv.FormatInt(ms, 10)
			}
			return ""
		}, now)
		checkHint(t, h)
		assert.Equal(t, min(d, fault.Excessive), h.Wait)
	})
}

func FuzzHint(f *testing.F) {
	for _, seed := range []string{"2", "0.5", "-1", "NaN", "1e400", "soon", "9223372037", "Tue, 01 Jan 2030 00:00:02 GMT", "Tuesday, 01-Jan-30 00:00:02 GMT",
		"Tue Jan  1 00:00:02 2030", "2m59.56s", "1893456001500", "2030-01-01T00:00:20Z", "0x1p4", "1e-400", "+5", "..", ""} {
		f.Add(seed, "0", seed, "Please try again in "+seed)
	}
	f.Fuzz(func(t *testing.T, value, left, reset, message string) {
		checkHint(t, fault.HintFromText(message))
		for _, name := range []string{"retry-after-ms", "x-ms-retry-after-ms", "retry-after"} {
			checkHint(t, fault.HintFromHeaders(func(asked string) string {
				if asked == name {
					return value
				}
				return ""
			}, now))
		}
		checkHint(t, fault.HintFromHeaders(func(asked string) string {
			switch {
			case strings.Contains(asked, "reset"):
				return reset
			case strings.Contains(asked, "remaining"), strings.Contains(asked, "status"):
				return left
			default:
				return value
			}
		}, now))
	})
}
