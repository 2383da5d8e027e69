// Package telemetry writes the gateway's records: one JSON line each, in the words of the contract (§10). A record never
// holds prompts, completions, keys, raw user ids or addresses of providers; what is not a field here cannot be logged.
package telemetry

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"slices"
	"time"

	"spillway/internal/chat"
)

// Recorder writes records. It is safe for concurrent use.
type Recorder struct{ log *slog.Logger }

// New makes a recorder that writes JSON lines of the level and above.
func New(w io.Writer, level slog.Level) *Recorder {
	return &Recorder{log: slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))}
}

// Attempt is one physical upstream call, finished.
type Attempt struct {
	RequestID  string
	Route      string
	N          int // 1 for the first call of the request
	Max        int
	Hop        int // how many candidates were moved to before this one
	Provider   string
	Channel    string
	Model      chat.RoutedModel
	Served     chat.ServedModel
	Region     string
	Credential string // its alias
	UpstreamID string
	Duration   time.Duration
	// FirstContent is the time to the first content; 0: there was none.
	FirstContent time.Duration
	Status       int
	// Class is empty on success.
	Class      string
	Type, Code string
	Evidence   string
	Hint       time.Duration
	HintSource string
	// Decision and Reason are what followed; "answered" on success.
	Decision, Reason string
	Wait             time.Duration
	Ambiguous        bool
	Committed        bool
	Usage            *chat.Usage
	PolicyVersion    string
	Remedy           string
	Tags             map[string]string
}

// Attempt records an upstream call.
func (r *Recorder) Attempt(a Attempt) {
	attrs := []slog.Attr{
		slog.String(KeyRequestID, a.RequestID), slog.String(KeyRoute, a.Route), slog.Int(KeyAttempt, a.N), slog.Int(KeyMaxAttempts, a.Max),
		slog.Int(KeyHop, a.Hop), slog.String(KeyProvider, a.Provider), slog.String(KeyChannel, a.Channel), slog.String(KeyModel, string(a.Model)),
		slog.String(KeyServedModel, string(a.Served)), slog.String(KeyCredential, a.Credential), slog.String(KeyProviderRequestID, a.UpstreamID),
		slog.Float64(KeyDurationMS, millis(a.Duration)), slog.Float64(KeyFirstContentMS, millis(a.FirstContent)), slog.Int(KeyStatus, a.Status),
		slog.String(KeyClass, a.Class), slog.String(KeyDecision, a.Decision), slog.String(KeyReason, a.Reason), slog.Bool(KeyCommitted, a.Committed),
		slog.Bool(KeyAmbiguous, a.Ambiguous), slog.String(KeyPolicyVersion, a.PolicyVersion)}
	if a.Region != "" {
		attrs = append(attrs, slog.String(KeyRegion, a.Region))
	}
	if a.Class != "" {
		attrs = append(attrs, slog.String(KeyType, clip(a.Type)), slog.String(KeyCode, clip(a.Code)), slog.String(KeyEvidence, a.Evidence),
			slog.Float64(KeyWaitMS, millis(a.Wait)), slog.String(KeyRemedy, a.Remedy))
	}
	if a.HintSource != "" {
		attrs = append(attrs, slog.Float64(KeyHintMS, millis(a.Hint)), slog.String(KeyHintSource, a.HintSource))
	}
	attrs = append(attrs, tags(a.Tags))
	attrs = append(attrs, usageAttrs(a.Usage)...)
	level := slog.LevelInfo
	if a.Class != "" {
		level = slog.LevelWarn
	}
	r.log.LogAttrs(context.Background(), level, "attempt_finished", attrs...)
}

// Request is one logical client call, finished.
type Request struct {
	RequestID    string
	Organization string
	Key          string // its alias
	Route        string
	Outcome      string // "answered", "interrupted", or an error code
	Status       int
	Provider     string
	Served       chat.ServedModel
	Attempts     int
	Fallback     bool
	Stream       bool
	Duration     time.Duration
	// Added is the time that failed attempts and waits took before the answering attempt began.
	Added         time.Duration
	Usage         *chat.Usage
	PolicyVersion string
	Tags          map[string]string
	// Cause is our own error text for a fault of ours; empty otherwise.
	Cause string
}

// Request records a client call.
func (r *Recorder) Request(q Request) {
	attrs := []slog.Attr{
		slog.String(KeyRequestID, q.RequestID), slog.String(KeyOrganization, q.Organization), slog.String(KeyKey, q.Key), slog.String(KeyRoute, q.Route),
		slog.String(KeyOutcome, q.Outcome), slog.Int(KeyStatus, q.Status), slog.String(KeyProvider, q.Provider),
		slog.String(KeyServedModel, string(q.Served)), slog.Int(KeyAttempts, q.Attempts), slog.Bool(KeyFallback, q.Fallback),
		slog.Bool(KeyStream, q.Stream), slog.Float64(KeyDurationMS, millis(q.Duration)), slog.Float64(KeyAddedMS, millis(q.Added)),
		slog.String(KeyPolicyVersion, q.PolicyVersion)}
	attrs = append(attrs, tags(q.Tags))
	if q.Cause != "" {
		attrs = append(attrs, slog.String(KeyCause, q.Cause))
	}
	attrs = append(attrs, usageAttrs(q.Usage)...)
	r.log.LogAttrs(context.Background(), slog.LevelInfo, "request_finished", attrs...)
}

// Alert tells an operator of a failure that only a person can repair.
func (r *Recorder) Alert(reason, provider, credential, remedy string) {
	r.log.LogAttrs(context.Background(), slog.LevelError, "alert", slog.String(KeyReason, reason), slog.String(KeyProvider, provider),
		slog.String(KeyCredential, credential), slog.String(KeyRemedy, remedy))
}

// Panicked records a recovered panic. stack is ours and holds no request data.
func (r *Recorder) Panicked(requestID, value, stack string) {
	r.log.LogAttrs(context.Background(), slog.LevelError, "panic", slog.String(KeyRequestID, requestID), slog.String(KeyCause, value), slog.String(KeyStack, stack))
}

// Notice records a finding about the configuration.
func (r *Recorder) Notice(text string) {
	r.log.LogAttrs(context.Background(), slog.LevelWarn, "configuration_notice", slog.String(KeyCause, text))
}

// tags are a client's own labels, in a group of their own: they cannot hide a key of ours. No tags give no attribute.
func tags(m map[string]string) slog.Attr {
	attrs := make([]slog.Attr, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		attrs = append(attrs, slog.String(name, m[name]))
	}
	return slog.Attr{Key: KeyTags, Value: slog.GroupValue(attrs...)}
}

func usageAttrs(u *chat.Usage) []slog.Attr {
	if u == nil {
		return nil
	}
	return []slog.Attr{slog.Int64(KeyPromptTokens, u.Prompt), slog.Int64(KeyCompletionTokens, u.Completion), slog.Int64(KeyCachedTokens, u.Cached)}
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// clip bounds a provider's word in a record.
func clip(s string) string {
	if len(s) > 80 {
		return s[:80]
	}
	return s
}
