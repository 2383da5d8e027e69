package retry

import "time"

// The contract's limits of an attempt (§3.4).
const (
	DefaultFirstContent = 10 * time.Second
	DefaultStall        = 20 * time.Second
	DefaultIdle         = 600 * time.Second
	// DefaultRequest is the time of a whole request, and for a stream the time to its first content.
	DefaultRequest = 120 * time.Second
	// AfterFinish is how long usage or [DONE] is waited for after a finish reason.
	AfterFinish = 1500 * time.Millisecond
	// plainReserve is what a call that does not stream leaves of the rest for another candidate.
	plainReserve = 20 * time.Second
	// tokensPerSecond: one more second of patience for each so many estimated input tokens.
	tokensPerSecond = 8000
)

// Turn describes the attempt whose limits are asked for.
type Turn struct {
	// Own is the channel's own limit; 0: the default.
	Own time.Duration
	// InputTokens is the estimated size of the request.
	InputTokens int64
	// Others says that another eligible candidate is left and may still be tried.
	Others bool
	// First says that this is the candidate's first call.
	First bool
	// Rest is the time left of the request.
	Rest time.Duration
}

// FirstContent is how long the first content of a streamed attempt may take. While another candidate is left it is the
// channel's limit, by default longer for a long input.
func (l Limits) FirstContent(t Turn) time.Duration {
	if !t.Others {
		return l.last(t)
	}
	if t.Own > 0 {
		return min(t.Own, t.Rest)
	}
	return min(DefaultFirstContent+time.Duration(t.InputTokens/tokensPerSecond)*time.Second, t.Rest)
}

// Plain is how long an attempt may take that does not stream. While another candidate is left it is the channel's limit,
// by default what leaves the next one its time.
func (l Limits) Plain(t Turn) time.Duration {
	if !t.Others {
		return l.last(t)
	}
	if t.Own > 0 {
		return min(t.Own, t.Rest)
	}
	return max(t.Rest-plainReserve, min(l.MinUseful, t.Rest))
}

// last is the limit of the last candidate: its first call gets half of what can be used, or the channel's own limit if
// that is shorter, and a second one all the rest.
func (l Limits) last(t Turn) time.Duration {
	if !t.First {
		return t.Rest
	}
	half := max((t.Rest-l.MinUseful)/2, min(l.MinUseful, t.Rest))
	if t.Own > 0 {
		return min(t.Own, half)
	}
	return half
}
