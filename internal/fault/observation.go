package fault

import (
	"cmp"
	"time"
)

// Phase is how far an attempt had come when it failed.
type Phase string

// The phases of an attempt, in order.
const (
	PhaseConnect     Phase = "connect"
	PhaseSent        Phase = "sent"
	PhaseHeaders     Phase = "headers"
	PhasePreContent  Phase = "pre_content"
	PhasePostContent Phase = "post_content"
)

// Local is a cause that we saw ourselves, without any answer of the provider. The zero value means that the provider
// answered something.
type Local string

// The local causes.
const (
	// Dial covers DNS, refused connections, TLS and dial time-outs: nothing was sent.
	Dial Local = "dial"
	// Broken is a connection that ended after the request was written: reset, EOF, a body cut short.
	Broken Local = "broken"
	// Silent is our own timer for the first content, for the gap between contents, or for the whole attempt.
	Silent Local = "silent"
	// Left is a client that went away, or our own shutdown.
	Left Local = "left"
	// OutOfTime is the request's own deadline.
	OutOfTime Local = "out_of_time"
	// NoAnswer is a 2xx without a usable answer.
	NoAnswer Local = "no_answer"
	// Breach is an answer that breaks the client's contract.
	Breach Local = "breach"
	// Refused is a request that an adapter cannot put into the provider's words.
	Refused Local = "refused"
)

// Error makes a Local usable as the cause of a cancelled context.
func (l Local) Error() string { return "local cause: " + string(l) }

// Observation is the normalised record of one failed attempt (policy.md §1): facts only, no judgement.
type Observation struct {
	// Provider is the vendor whose rows of the table apply: one of Vendors.
	Provider string
	Local    Local
	// Status is the HTTP status; 0 when there was none. For an error inside a 200 it is the status that the error's
	// own code names, or 200.
	Status int
	// Type, Code and Details are the provider's structured words, as sent.
	Type    string
	Code    string
	Details []string
	// Message is the provider's text, at most 512 bytes, without markup. It is for the log and, where it explains a
	// caller's mistake, for the caller; it decides nothing but through an anchored sentence row.
	Message string
	Param   string
	Hint    Hint
	// Reset is when the provider says that a spent allowance is restored, whatever it says of when to ask again.
	Reset Hint
	// ShouldRetry is the provider's x-should-retry: nil when it sent none.
	ShouldRetry *bool
	RequestID   string
	Phase       Phase
	// Sent says that bytes of the request reached the connection.
	Sent bool
	// Reused says that the connection had carried an earlier request.
	Reused bool
	// Parsed says that the body was one of the known envelopes.
	Parsed bool
	// InStream says that the error came inside a 2xx.
	InStream bool
	// OwnKey says that the credential is the caller's own (BYOK).
	OwnKey bool
	// Cause is the Go error behind a local cause, for the log only. It may hold addresses.
	Cause error
}

// Read fills in what an error body says, and the hints that it and the headers give together. get returns a header's
// value by its lower-case name, "" when absent.
func (o *Observation) Read(env Envelope, get func(name string) string, now time.Time) {
	o.Type, o.Code, o.Details, o.Message, o.Param = env.Type, env.Code, env.Details, env.Message, env.Param
	o.Hint, o.Reset = HintFrom(get, env, now), ResetFrom(env, now)
	if o.ShouldRetry = ShouldRetryFromHeader(get("x-should-retry")); o.ShouldRetry == nil {
		o.ShouldRetry = env.Retryable
	}
	o.RequestID = cmp.Or(o.RequestID, env.RequestID)
}

// Evidence says what decided a class.
type Evidence string

// The kinds of evidence, strongest first.
const (
	ByLocalCause Evidence = "local_cause"
	ByRoute      Evidence = "route_row"
	ByCode       Evidence = "provider_code"
	BySentence   Evidence = "provider_sentence"
	ByGeneric    Evidence = "generic_code"
	ByStatus     Evidence = "status"
	ByNothing    Evidence = "nothing"
)

// Failure is a classified attempt. It is the error that crosses packages.
type Failure struct {
	Observation
	Class    Class
	Evidence Evidence
	// Ambiguous says that the provider may have done the work all the same.
	Ambiguous bool

	silent bool // a proxy reports that the provider said nothing
}

// Error is for the log. It holds no text of the provider.
func (f *Failure) Error() string {
	s := string(f.Class)
	if f.Code != "" {
		s += " (" + f.Code + ")"
	}
	return s
}

// Unwrap returns the local cause's Go error.
func (f *Failure) Unwrap() error { return f.Cause }

// Silence reports whether the provider said nothing until a timer ended the attempt: our own, or that of a proxy which
// tells so by its status.
func (f *Failure) Silence() bool { return f.Class == Timeout && (f.Local == Silent || f.silent) }

// unread is OpenAI's word for an image that it could not read at its address
// (https://platform.openai.com/docs/api-reference/responses-streaming, 2026-11-30).
const unread = "failed_to_download_image"

// Unread reports whether the provider could not read an image that the request names by address.
func (f *Failure) Unread() bool { return f.Class == InvalidRequest && f.Code == unread }

// Stale reports whether a kept-alive connection died before a single byte of an answer, which is normal after a
// frozen environment thaws and says nothing of the provider.
func (f *Failure) Stale() bool { return f.Local == Broken && f.Reused && f.Phase == PhaseSent }

// Hint is a provider's wish for when to come back.
type Hint struct {
	// Known says that there was a usable hint. A known Wait of 0 is a value: come back at once.
	Known bool
	// Wait is relative to the moment at which the answer arrived.
	Wait time.Duration
	// Excessive says that the hint was a number too large to count; Wait is then the largest we can hold.
	Excessive bool
	// Source names the header or field.
	Source string
}
