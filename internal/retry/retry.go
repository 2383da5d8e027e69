// Package retry decides what follows a failed attempt: the same candidate again, another credential, the next
// candidate, or the end. It is pure: the attempts made so far, the failure, the time and a random number go in, a
// decision with its reason comes out. Waiting and calling is the gateway's part.
package retry

import (
	"math"
	"time"

	"spillway/internal/catalog"
	"spillway/internal/fault"
)

// Limits bounds the attempts of one request. Default holds the contract's numbers.
type Limits struct {
	// MaxRetries is how often one candidate is called again after its first call.
	MaxRetries int
	// MaxFallbacks is how many further candidates may be tried.
	MaxFallbacks int
	// MaxAttempts caps all physical calls of a request, the first one included.
	MaxAttempts int
	// Base, Factor and Cap shape the backoff: min(Cap, Base × Factor^n), n = 0 first, ± 50 %.
	Base   time.Duration
	Factor float64
	Cap    time.Duration
	// MaxHint is the longest provider hint that is worth waiting for inside a request.
	MaxHint time.Duration
	// MinUseful is the least time an attempt must have left to be started.
	MinUseful time.Duration
	// FullJitter draws the backoff from zero to its full length, instead of ± 50 %.
	FullJitter bool

	// Retries replaces MaxRetries for single classes.
	Retries map[fault.Class]int
	// FallbackOn lets classes fall back that would fail fast, FallbackOnAny all of them; NoFallbackOn forbids it.
	FallbackOn, NoFallbackOn map[fault.Class]bool
	FallbackOnAny            bool
	// RetrySilence and RetryStream500 choose one more call of the same candidate where the default is the next one.
	RetrySilence, RetryStream500 bool
}

// Default is contract.md §3.5 and §3.6.
func Default() Limits {
	return Limits{MaxRetries: 1, MaxFallbacks: 2, MaxAttempts: 4, Base: 200 * time.Millisecond, Factor: 2, Cap: 2 * time.Second,
		MaxHint: 5 * time.Second, MinUseful: time.Second}
}

// For is Default with a route's own policy.
func For(r *catalog.Route) Limits {
	l := Default()
	replace := func(into *int, by *int) {
		if by != nil {
			*into = *by
		}
	}
	replace(&l.MaxRetries, r.MaxRetries)
	replace(&l.MaxFallbacks, r.MaxFallbacks)
	replace(&l.MaxAttempts, r.MaxAttempts)
	if r.MinUseful > 0 {
		l.MinUseful = r.MinUseful
	}
	l.FullJitter, l.Retries = r.FullJitter, r.Retries
	l.FallbackOn, l.NoFallbackOn, l.FallbackOnAny = r.FallbackOn, r.NoFallbackOn, r.FallbackOnAny
	l.RetrySilence, l.RetryStream500 = r.RetrySilence, r.RetryStream500
	return l
}

// fallsBack reports whether the route lets a class fall back that fails fast by default.
func (l Limits) fallsBack(c fault.Class) bool { return l.FallbackOnAny || l.FallbackOn[c] }

// Eligible reports whether a class may move to another candidate at all.
func (l Limits) Eligible(rule fault.Rule) bool {
	switch {
	case l.NoFallbackOn[rule.Class], rule.Action == fault.Stop:
		return false
	case rule.Action == fault.Fail, rule.Action == fault.NextCredential:
		return l.fallsBack(rule.Class)
	default:
		return true
	}
}

// retries is how often a candidate may be called again after a failure of the class.
func (l Limits) retries(c fault.Class) int {
	if n, ok := l.Retries[c]; ok {
		return n
	}
	return l.MaxRetries
}

// Step is what to do next.
type Step string

// The steps.
const (
	// Again calls the same candidate once more, after Wait.
	Again Step = "retry"
	// Next moves to the next eligible candidate, at once.
	Next Step = "fallback"
	// Hop moves to the next credential of the same channel, at once.
	Hop Step = "next_credential"
	// End ends the chain: the failure is the result.
	End Step = "fail"
)

// Reason says why a step was chosen. Logs, metrics and tests use the same words.
type Reason string

// The reasons.
const (
	Transient       Reason = "transient"
	Hinted          Reason = "hinted"
	StaleConnection Reason = "stale_connection"
	RetriesUsed     Reason = "retries_used"
	KeptForOthers   Reason = "attempts_kept_for_others"
	HintTooLong     Reason = "hint_too_long"
	ProviderSaysNo  Reason = "provider_says_no_retry"
	SilentProvider  Reason = "silent_provider"
	StreamedError   Reason = "stream_500"
	NeverSame       Reason = "never_same_candidate"
	OtherCredential Reason = "other_credential"
	AttemptsUsed    Reason = "attempts_used"
	FallbacksUsed   Reason = "fallbacks_used"
	NoCandidate     Reason = "no_candidate_left"
	NoTime          Reason = "no_time_left"
	FailFast        Reason = "fail_fast"
	Irrepairable    Reason = "nobody_waits"
	ReplayUnsafe    Reason = "replay_unsafe"
	LargerCandidate Reason = "larger_candidate"
	NoLargerContext Reason = "no_larger_context"
	RegenerateOnce  Reason = "regenerate_once"
	LargerLimit     Reason = "larger_limit"
	InlinedContent  Reason = "inlined_content"
	NoLargerLimit   Reason = "no_larger_limit"
	RouteFallsBack  Reason = "route_falls_back"
	RouteForbids    Reason = "route_forbids_fallback"
	CircuitOpened   Reason = "circuit_opened"
)

// Decision is a step with its reason.
type Decision struct {
	Step Step
	// Wait is how long to wait before the step; only Again waits.
	Wait   time.Duration
	Reason Reason
}

// Progress is what a request has done so far, the failed attempt included.
type Progress struct {
	// Attempts counts physical calls.
	Attempts int
	// Retries counts the calls of the current candidate after its first one. A replay of a stale connection is none.
	Retries int
	// Replayed says that the current candidate's stale connection has been replayed already.
	Replayed bool
	// Fallbacks counts the candidates after the first one that were moved to.
	Fallbacks int
}

// Failed describes the failure to decide on.
type Failed struct {
	*fault.Failure
	Rule fault.Rule
	// Streaming says that the client asked for a stream.
	Streaming bool
	// ReplayUnsafe says that the work must not be repeated once it may have been done.
	ReplayUnsafe bool
	// Opened says that this failure opened the candidate's circuit.
	Opened bool
	// Truncated says that the answer was cut off by its output limit, Larger that the candidate can be given a larger one.
	// A call under the same limit would end alike.
	Truncated, Larger bool
	// Inlined says that the next call holds the content itself that the provider could not read at its address.
	Inlined bool
	// Final says that no candidate can repair it for this request, whatever the class says.
	Final bool
	// NoRetries and NoShare say that the route's bucket for retries, or for moves to a fallback, is empty.
	NoRetries, NoShare bool
}

// throttled reports whether it is the credential that is at its limit, so that another one of the channel may serve.
func (f Failed) throttled() bool { return f.Rule.Hold == fault.Throttle }

// insisted reports whether the provider asks for a retry that the status alone does not get. What it said in words of its
// own stands; money, keys, the caller's mistakes and refusals stand in any case (policy.md §3).
func (f Failed) insisted() bool {
	switch f.Class {
	case fault.Auth, fault.Quota, fault.InvalidRequest, fault.ContentPolicy:
		return false
	}
	return f.ShouldRetry != nil && *f.ShouldRetry && (f.Evidence == fault.ByStatus || f.Evidence == fault.ByNothing)
}

// Ahead is what could still be tried.
type Ahead struct {
	// Candidates counts the eligible untried candidates of other channels.
	Candidates int
	// Larger counts those of them whose declared context is larger than the failed one's.
	Larger int
	// Credentials counts the untried credentials of the same channel.
	Credentials int
}

// Decide says what follows a failure. now and deadline are on one clock; random is in [0, 1).
func Decide(l Limits, p Progress, f Failed, ahead Ahead, now, deadline time.Time, random float64) Decision {
	switch {
	case f.Final:
		return Decision{Step: End, Reason: FailFast}
	case f.Rule.Action == fault.Stop:
		return Decision{Step: End, Reason: Irrepairable}
	case f.ReplayUnsafe && f.Ambiguous:
		return Decision{Step: End, Reason: ReplayUnsafe}
	case p.Attempts >= l.MaxAttempts:
		return Decision{Step: End, Reason: AttemptsUsed}
	case deadline.Sub(now) < l.MinUseful:
		return Decision{Step: End, Reason: NoTime}
	}
	switch f.Rule.Action {
	case fault.Retry, fault.Regenerate:
		d := again(l, p, f, ahead, now, deadline, random)
		if d.Step == Again {
			return d
		}
		if f.throttled() && ahead.Credentials > 0 {
			return Decision{Step: Hop, Reason: d.Reason}
		}
		return onward(l, p, f, ahead.Candidates, d.Reason)
	case fault.Fallback:
		return onward(l, p, f, ahead.Candidates, NeverSame)
	case fault.NextCredential:
		if ahead.Credentials > 0 {
			return Decision{Step: Hop, Reason: OtherCredential}
		}
	case fault.Larger:
		if ahead.Larger > 0 {
			return onward(l, p, f, ahead.Larger, LargerCandidate)
		}
		if !l.fallsBack(f.Class) {
			return Decision{Step: End, Reason: NoLargerContext}
		}
	}
	return failFast(l, p, f, ahead, now, deadline, random)
}

// failFast ends the chain, unless the route or the provider says otherwise.
func failFast(l Limits, p Progress, f Failed, ahead Ahead, now, deadline time.Time, random float64) Decision {
	if l.Retries[f.Class] > 0 || f.insisted() || f.Inlined {
		if d := again(l, p, f, ahead, now, deadline, random); d.Step == Again {
			return d
		}
	}
	if l.fallsBack(f.Class) {
		return onward(l, p, f, ahead.Candidates, RouteFallsBack)
	}
	return Decision{Step: End, Reason: FailFast}
}

// again decides on one more call of the same candidate. When it says anything but Again, its reason is why not.
func again(l Limits, p Progress, f Failed, ahead Ahead, now, deadline time.Time, random float64) Decision {
	if f.Stale() && !p.Replayed {
		return Decision{Step: Again, Reason: StaleConnection}
	}
	no := func(r Reason) Decision { return Decision{Step: End, Reason: r} }
	allowed := 0
	if l.Eligible(f.Rule) {
		allowed = max(min(ahead.Candidates, l.MaxFallbacks-p.Fallbacks), 0)
	}
	others := allowed
	if f.throttled() {
		others += ahead.Credentials
	}
	switch {
	case f.ShouldRetry != nil && !*f.ShouldRetry && !f.Inlined: // it speaks of the same request
		return no(ProviderSaysNo)
	case f.Opened:
		return no(CircuitOpened)
	case f.Truncated && !f.Larger:
		return no(NoLargerLimit)
	case f.Silence() && allowed > 0 && !l.RetrySilence:
		return no(SilentProvider)
	case f.Streaming && f.Class == fault.ServerError && f.Status == 500 && !f.InStream && !l.RetryStream500:
		return no(StreamedError)
	case p.Retries >= l.retries(f.Class):
		return no(RetriesUsed)
	case f.NoRetries:
		return no(QuotaEmpty)
	case l.MaxAttempts-p.Attempts <= others:
		return no(KeptForOthers)
	}
	wait, reason := Backoff(l, p.Retries, random), Transient
	if f.Hint.Known {
		if f.Hint.Wait > l.MaxHint {
			return no(HintTooLong)
		}
		wait, reason = AfterHint(f.Hint.Wait, random), Hinted
	}
	if f.Silence() || f.Class == fault.ContractViolation || f.Inlined {
		wait = 0 // the time has passed already, or nothing is overloaded
	}
	if deadline.Sub(now)-wait < l.MinUseful {
		return no(NoTime)
	}
	switch {
	case f.Inlined:
		reason = InlinedContent
	case f.Truncated:
		reason = LargerLimit
	case f.Class == fault.ContractViolation:
		reason = RegenerateOnce
	}
	return Decision{Step: Again, Wait: wait, Reason: reason}
}

// onward decides on the next candidate; because is why the same one is not called again.
func onward(l Limits, p Progress, f Failed, candidates int, because Reason) Decision {
	switch {
	case l.NoFallbackOn[f.Class]:
		return Decision{Step: End, Reason: RouteForbids}
	case candidates == 0 && because == NeverSame:
		return Decision{Step: End, Reason: NoCandidate}
	case candidates == 0:
		return Decision{Step: End, Reason: because}
	case p.Fallbacks >= l.MaxFallbacks:
		return Decision{Step: End, Reason: FallbacksUsed}
	case f.NoShare:
		return Decision{Step: End, Reason: ShareEmpty}
	default:
		return Decision{Step: Next, Reason: because}
	}
}

// Backoff is the wait before retry n (0 first): min(Cap, Base × Factor^n), moved by up to half of it either way by
// random in [0, 1), or with FullJitter drawn from zero to all of it.
func Backoff(l Limits, n int, random float64) time.Duration {
	d := min(float64(l.Cap), float64(l.Base)*math.Pow(l.Factor, float64(n)))
	if l.FullJitter {
		return time.Duration(d * random)
	}
	return time.Duration(d * (0.5 + random))
}

// AfterHint is the wait for a provider's hint: the whole of it plus up to 10 %, at most 250 ms more, never less. A hint
// of nothing still spreads the callers over 100 to 200 ms.
func AfterHint(hint time.Duration, random float64) time.Duration {
	if hint <= 0 {
		return 100*time.Millisecond + time.Duration(random*float64(100*time.Millisecond))
	}
	return hint + time.Duration(random*float64(min(hint/10, 250*time.Millisecond)))
}
