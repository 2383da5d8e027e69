package suite

import (
	"slices"
	"strings"
	"time"

	"spillway/internal/simulate"
)

// all makes one check of several.
func all(checks ...func(Observation, *Findings)) func(Observation, *Findings) {
	return func(o Observation, f *Findings) {
		for _, check := range checks {
			check(o, f)
		}
	}
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

// lasts checks that the request was not over too soon; Step.Within bounds the other side.
func lasts(least time.Duration) func(Observation, *Findings) {
	return func(o Observation, f *Findings) {
		if o.Elapsed < least {
			f.addf("was over after %s, before its limit of %s could have passed", o.Elapsed.Round(time.Millisecond), least)
		}
	}
}

// startsBefore checks that no call was begun later than so long after the request:
// then too little of its time would have been left.
func startsBefore(limit time.Duration) func(Observation, *Findings) {
	return func(o Observation, f *Findings) {
		for _, c := range o.Calls {
			if after := c.At.Sub(o.Began); after > limit {
				f.addf("call %d was begun after %s, which leaves too little time", c.N, after.Round(time.Millisecond))
			}
		}
	}
}

// abandons checks that the gateway let go of its silent calls instead of leaving
// them open behind the answer.
func abandons(models ...string) func(Observation, *Findings) {
	return func(o Observation, f *Findings) {
		for _, c := range o.Calls {
			if slices.Contains(models, c.Model) && c.Outcome != simulate.OutcomeClientGone {
				f.addf("the silent call of %s ended %q, want the gateway to close it", c.Model, c.Outcome)
			}
		}
	}
}

// passesOver checks that the answer says that the candidate was not called, and why.
func passesOver(model string) func(Observation, *Findings) {
	return func(o Observation, f *Findings) {
		for reason := range strings.SplitSeq(o.Header.Get("X-LLM-Routing-Reason"), ";") {
			channel, why, _ := strings.Cut(reason, ":")
			if strings.HasSuffix(channel, "/"+model) && why != "" && why != "ok" {
				return
			}
		}
		f.addf("X-LLM-Routing-Reason %q does not say why %s was passed over", o.Header.Get("X-LLM-Routing-Reason"), model)
	}
}

// brokenOff is how a live stream ends that was cut: so much has been delivered,
// and the client is told that there is no more, and why.
type brokenOff struct {
	tokens int
	// inCall says that it was cut inside a tool call, which no client can take up.
	inCall      bool
	code, class string
}

func (b brokenOff) check(o Observation, f *Findings) {
	s := parseStream(o.Body)
	f.text(b.tokens, s.text)
	if b.inCall && len(o.Calls) > 0 {
		b.checkCall(s, formatOf(o.Calls[0].Model).wholeCalls, f)
	}
	if s.failure == nil {
		return // the outcome tells
	}
	f.equal("error event: code", b.code, s.failure.Code)
	f.equal("error event: class", b.class, s.failure.Class)
	f.equal("error event: provider", "primary", s.failure.Provider)
	if safe := s.failure.RetrySafe; safe != nil {
		f.equal("error event: retry_safe", !b.inCall, *safe)
	}
}

// checkCall: of a call that its format sends in one piece the whole is there, and the
// end of the answer is not.
func (b brokenOff) checkCall(s stream, whole bool, f *Findings) {
	if len(s.calls) != 1 {
		f.addf("%d tool calls, a part of one was sent", len(s.calls))
		return
	}
	if part := s.calls[0].Function.Arguments; !strings.HasPrefix(toolArguments, part) || (part == toolArguments) != whole {
		f.addf("arguments %q are not the part of the call's that was sent", part)
	}
}

// breaksContract checks how a live stream ends whose answer, sent as it came, is not
// what was asked for: the client is told, and may ask again.
func breaksContract(text string) func(Observation, *Findings) {
	return func(o Observation, f *Findings) {
		s := parseStream(o.Body)
		f.equal("text", text, s.text)
		if s.failure == nil {
			return // the outcome tells
		}
		f.equal("error event: code", "contract_violation", s.failure.Code)
		f.equal("error event: class", "contract_violation", s.failure.Class)
		f.equal("error event: provider", "primary", s.failure.Provider)
		if safe := s.failure.RetrySafe; safe != nil {
			f.equal("error event: retry_safe", true, *safe)
		}
	}
}

// inOnePiece checks that no client saw a part of a tool call.
func inOnePiece(o Observation, f *Findings) {
	for _, c := range parseStream(o.Body).calls {
		f.equal("pieces of the tool call", 1, c.parts)
	}
}

// refused is the error that a request ends in.
type refused struct {
	status      int
	code, class string
	retryable   bool
}

func (r refused) check(o Observation, f *Findings) {
	e := parseError(o.Body)
	if e == nil || e.Retryable == nil {
		return // the outcome is broken and says so
	}
	f.equal("status", r.status, o.Status)
	f.equal("error.code", r.code, e.Code)
	f.equal("error.class", r.class, e.Class)
	f.equal("error.retryable", r.retryable, *e.Retryable)
	f.equal("error.provider", o.Header.Get("X-LLM-Provider"), e.Provider)
}

// listsAllCalls checks that the error shows each candidate's failure.
func listsAllCalls(o Observation, f *Findings) {
	e := parseError(o.Body)
	if e == nil {
		return // the outcome is broken and says so
	}
	f.equal("error.provider_code", "rate_limit_exceeded", e.ProviderCode)
	want := []attemptLine{
		{Provider: "primary", Model: "sim-f23a", Status: 503, Class: "overloaded", N: 2},
		{Provider: "backup", Model: "sim-f23b", Status: 502, Class: "server_error", N: 1},
		{Provider: "backup", Model: "sim-f23c", Status: 429, Class: "rate_limited", N: 1},
	}
	f.equal("error.attempts", want, e.Attempts)
}

// alerts checks that the operator was told, once.
func alerts(reason string) func(Observation, *Findings) {
	return func(o Observation, f *Findings) {
		var reasons []string
		for _, r := range o.recorded("alert") {
			reasons = append(reasons, r.text("reason"))
		}
		f.equal("alerts", []string{reason}, reasons)
	}
}

// ambiguous checks that the records of the failed attempts say that the provider
// may have done the work.
func ambiguous(o Observation, f *Findings) {
	for _, r := range o.attempts() {
		f.equal("ambiguous, after "+r.text("class"), r.text("class") != "", r["ambiguous"])
	}
}

// books are the accounts of a request that was answered in the end. The client is
// charged for the answering attempt, the gateway bears what the failed ones cost.
type books struct {
	// waste says that the failed attempts cost something.
	waste bool
}

func (b books) check(o Observation, f *Findings) {
	wasted := 0.0
	var answering Record
	for _, r := range o.attempts() {
		if r.text("class") == "" {
			answering = r
			continue
		}
		wasted += r.number("cost_nano_usd")
	}
	if b.waste != (wasted > 0) {
		f.addf("the failed attempts cost %v nano-dollars", wasted)
	}
	if answering.number("cost_nano_usd") <= 0 {
		f.addf("the answering attempt has no cost")
	}
	for _, r := range o.recorded("request_finished") {
		f.equal("wasted cost", wasted, r.number("wasted_cost_nano_usd"))
		for _, key := range []string{"served_model", "prompt_tokens", "completion_tokens", "cost_nano_usd"} {
			f.equal(key+" of the request", answering[key], r[key])
		}
		f.equal("completion tokens", float64(len(simulate.Tokens())), r.number("completion_tokens"))
	}
}

// outage is a provider that is down from its first call on and then healthy again.
type outage struct {
	model string
	lasts time.Duration
	// calls are the most it may get while it is down.
	calls int
	// backWithin is how soon after its recovery it must serve again.
	backWithin time.Duration
}

func (w outage) check(all []Observation, f *Findings) {
	var calls []simulate.Call
	for _, o := range all {
		for _, c := range o.Calls {
			if c.Model == w.model {
				calls = append(calls, c)
			}
		}
	}
	if len(calls) == 0 {
		f.addf("%s was never called", w.model)
		return
	}
	recovery := calls[0].At.Add(w.lasts)
	during := 0
	var back time.Time
	for _, c := range calls {
		if c.At.Before(recovery) {
			during++
		} else if back.IsZero() {
			back = c.At
		}
	}
	if during > w.calls {
		f.addf("%d calls of %s during its outage, want at most %d", during, w.model, w.calls)
	}
	switch lag := back.Sub(recovery); {
	case back.IsZero():
		f.addf("%s was never used again", w.model)
	case lag > w.backWithin:
		f.addf("%s was used again %s after its recovery, want %s", w.model, lag.Round(time.Millisecond), w.backWithin)
	}
	if last := all[len(all)-1]; last.count(w.model) == 0 {
		f.addf("the last request was not served by %s, which is healthy", w.model)
	}
}
