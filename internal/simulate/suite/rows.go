package suite

import (
	"net/http"
	"time"

	"spillway/internal/simulate"
)

var live = map[Mode]Verdict{Live: Pass}

// Rows is the fault table. What each row demands is stated in the fault suite's
// specification; a row here is that sentence as data.
var Rows = []Row{
	{
		Name: "F01", Fault: "429 with Retry-After: 2, once",
		Candidates: []string{"sim-f01", "sim-ok"},
		Calls:      []string{"sim-f01", "sim-f01"},
		Classes:    []string{"rate_limited"},
		Conduct:    waits(2*time.Second, 3*time.Second),
		Recorded:   live,
	},
	{
		Name: "F02", Fault: "429 for ever, no hint",
		Candidates: []string{"sim-f02", "sim-ok"},
		Calls:      []string{"sim-f02", "sim-f02", "sim-ok"},
		Classes:    []string{"rate_limited", "rate_limited"},
		Conduct:    waits(50*time.Millisecond, 3*time.Second),
		Recorded:   live,
	},
	{
		Name: "F03 stream", Fault: "500 once, streaming",
		Candidates: []string{"sim-f03", "sim-ok"},
		Calls:      []string{"sim-f03", "sim-ok"},
		Classes:    []string{"server_error"},
		Recorded:   live,
	},
	{
		Name: "F03 plain", Fault: "500 once, not streaming",
		Candidates: []string{"sim-f03", "sim-ok"},
		Plain:      true,
		Calls:      []string{"sim-f03", "sim-f03"},
		Classes:    []string{"server_error"},
		Recorded:   live,
	},
	{
		Name: "F04", Fault: "503 for ever",
		Candidates: []string{"sim-f04", "sim-ok"},
		Calls:      []string{"sim-f04", "sim-f04", "sim-ok"},
		Classes:    []string{"server_error", "server_error"},
		Recorded:   live,
	},
	{
		Name: "F05", Fault: "TCP reset before headers, once",
		Candidates: []string{"sim-f05", "sim-ok"},
		Calls:      []string{"sim-f05", "sim-f05"},
		Classes:    []string{"network"},
		Recorded:   live,
	},
	{
		Name: "F06", Fault: "accepts, never answers",
		Candidates: []string{"sim-f06", "sim-ok"},
		Calls:      []string{"sim-f06", "sim-ok"},
		Classes:    []string{"timeout"},
		Within:     12 * time.Second,
		Conduct:    abandoned,
		Recorded:   live,
	},
	{
		Name: "F08", Fault: "stream cut after 40 of 60 tokens",
		Candidates: []string{"sim-f08", "sim-ok"},
		Calls:      []string{"sim-f08"},
		Classes:    []string{"network"},
		Conduct:    brokenOffAfter(40, "provider_disconnect", "network"),
		Recorded:   map[Mode]Verdict{Live: Safe},
	},
	{
		Name: "F10", Fault: "one malformed chunk",
		Candidates: []string{"sim-f10", "sim-ok"},
		Calls:      []string{"sim-f10"},
		Recorded:   live,
	},
	{
		Name: "F11", Fault: "no [DONE], the socket stays open",
		Candidates: []string{"sim-f11", "sim-ok"},
		Calls:      []string{"sim-f11"},
		Within:     2500 * time.Millisecond, // the answer takes 0.3 s, the end mark may be waited for 1.5 s
		Recorded:   live,
	},
	{
		Name: "F17", Fault: "overloaded inside a 200 stream, before content",
		Candidates: []string{"sim-f17", "sim-ok"},
		Calls:      []string{"sim-f17", "sim-f17", "sim-ok"},
		Classes:    []string{"overloaded", "overloaded"},
		Recorded:   live,
	},
	{
		// The body's type makes it a server error, and the class's default action
		// holds: the exception for streaming requests is for the status 500.
		Name: "F18a", Fault: "200 with an error body",
		Candidates: []string{"sim-f18a", "sim-ok"},
		Calls:      []string{"sim-f18a", "sim-f18a", "sim-ok"},
		Classes:    []string{"server_error", "server_error"},
		Recorded:   live,
	},
	{
		Name: "F18b", Fault: "200 with empty choices",
		Candidates: []string{"sim-f18b", "sim-ok"},
		Calls:      []string{"sim-f18b", "sim-f18b", "sim-ok"},
		Classes:    []string{"bad_response", "bad_response"},
		Recorded:   live,
	},
	{
		Name: "F18c", Fault: "200 with HTML",
		Candidates: []string{"sim-f18c", "sim-ok"},
		Calls:      []string{"sim-f18c", "sim-f18c", "sim-ok"},
		Classes:    []string{"bad_response", "bad_response"},
		Recorded:   live,
	},
	{
		Name: "F18d", Fault: "200 with zero bytes",
		Candidates: []string{"sim-f18d", "sim-ok"},
		Calls:      []string{"sim-f18d", "sim-f18d", "sim-ok"},
		Classes:    []string{"bad_response", "bad_response"},
		Recorded:   live,
	},
	{
		Name: "F23", Fault: "three candidates fail differently",
		Candidates: []string{"sim-f23a", "sim-f23b", "sim-f23c"},
		Right:      CleanError,
		Calls:      []string{"sim-f23a", "sim-f23a", "sim-f23b", "sim-f23c"},
		Classes:    []string{"overloaded", "overloaded", "server_error", "rate_limited"},
		Conduct:    listsAllCalls,
		Recorded:   live,
	},
	{
		Name: "F32", Fault: "cut after the 200, before the first token",
		Candidates: []string{"sim-f32", "sim-ok"},
		Calls:      []string{"sim-f32", "sim-f32", "sim-ok"},
		Classes:    []string{"bad_response", "bad_response"},
		Recorded:   live,
	},
}

// waits checks the time between the arrivals of the first call and of the second,
// which goes to the same candidate. The failures are answered at once, so that
// this is the wait.
func waits(least, most time.Duration) func(Observation, *Findings) {
	return func(o Observation, f *Findings) {
		if len(o.Calls) < 2 {
			return // that there are too few calls is reported already
		}
		waited := o.Calls[1].At.Sub(o.Calls[0].At)
		if waited < least || waited > most {
			f.addf("the second call came %s after the first, want %s to %s", waited.Round(time.Millisecond), least, most)
		}
	}
}

// abandoned checks that the gateway let go of the silent call instead of leaving
// it open behind the answer.
func abandoned(o Observation, f *Findings) {
	if len(o.Calls) > 0 && o.Calls[0].Outcome != simulate.OutcomeClientGone {
		f.addf("the silent call ended %q, want the gateway to close it", o.Calls[0].Outcome)
	}
}

// brokenOffAfter checks the event that ends a live stream: n tokens have been
// delivered, and the client is told that and why there are no more.
func brokenOffAfter(n int, code, class string) func(Observation, *Findings) {
	return func(o Observation, f *Findings) {
		s := parseStream(o.Body)
		f.text(n, s.text)
		if s.failure == nil {
			return
		}
		f.equal("error event: code", code, s.failure.Code)
		f.equal("error event: class", class, s.failure.Class)
		f.equal("error event: provider", "primary", s.failure.Provider)
		if s.failure.RetrySafe == nil || !*s.failure.RetrySafe {
			f.addf("error event: retry_safe must be true, only text was sent")
		}
	}
}

// listsAllCalls checks that the error shows each candidate's failure and ends in
// the last one's.
func listsAllCalls(o Observation, f *Findings) {
	e := parseError(o.Body)
	if e == nil {
		return // the outcome is broken and says so
	}
	f.equal("status", http.StatusTooManyRequests, o.Status)
	f.equal("error.code", "provider_rate_limited", e.Code)
	f.equal("error.class", "rate_limited", e.Class)
	f.equal("error.provider_code", "rate_limit_exceeded", e.ProviderCode)
	want := []attemptLine{
		{Provider: "primary", Model: "sim-f23a", Status: 503, Class: "overloaded", N: 2},
		{Provider: "backup", Model: "sim-f23b", Status: 502, Class: "server_error", N: 1},
		{Provider: "backup", Model: "sim-f23c", Status: 429, Class: "rate_limited", N: 1},
	}
	f.equal("error.attempts", want, e.Attempts)
}
