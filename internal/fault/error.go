package fault

import "time"

// Error is what a caller of the gateway sees: one of our codes and a sentence of ours. Only package edge turns it into
// bytes. The zero value of an optional field means that it is not shown.
type Error struct {
	Code Code
	// Message is written for the caller. It is never another program's text, except a provider's own validation
	// message where that explains the caller's mistake.
	Message string
	// Param names the field of the request that is wrong.
	Param string
	// Status overrides the code's own HTTP status (route option surface: upstream_status).
	Status int

	Class     Class
	Retryable bool
	// RetryAfter is when it is worth coming back; 0: unknown. Sent as whole seconds, rounded up.
	RetryAfter time.Duration

	// Provider, Model, ProviderStatus and ProviderCode describe the last provider tried.
	Provider       string
	Model          string
	ProviderStatus int
	ProviderCode   string
	// Attempts has one entry per candidate and class, in order.
	Attempts []Tried

	// Partial says, of an error inside a stream, that a part of the answer was delivered before it.
	Partial bool
	// Unsafe marks an in-stream error after which the same request must not simply be sent again: part of a tool
	// call, or of a server-side tool's work, was already delivered.
	Unsafe bool

	// Cause is for the log only.
	Cause error
}

// Tried sums up the calls of one candidate that ended in the same class.
type Tried struct {
	Provider string
	Model    string
	Status   int
	Class    Class
	N        int
}

// Error is for the log.
func (e *Error) Error() string {
	if e.Cause != nil {
		return string(e.Code) + ": " + e.Message + ": " + e.Cause.Error()
	}
	return string(e.Code) + ": " + e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// HTTPStatus is the status to answer with.
func (e *Error) HTTPStatus() int {
	if e.Status != 0 {
		return e.Status
	}
	return e.Code.Status()
}

// RetrySeconds is RetryAfter in whole seconds, rounded up; 0 when nothing is known.
func (e *Error) RetrySeconds() int64 {
	return int64((max(e.RetryAfter, 0) + time.Second - 1) / time.Second)
}

// Type is the error's `type`, in the words that OpenAI and Anthropic share.
func (e *Error) Type() string { return typeOf(e.HTTPStatus(), e.Class) }

// Invalid is a request that we refuse ourselves: 400, naming the field.
func Invalid(param, message string) *Error {
	return &Error{Code: ValidationFailed, Param: param, Message: message}
}
