// Package telemetry writes the gateway's records: one JSON line each, in the words of the contract (§10). A record never
// holds prompts, completions, keys, raw user ids or addresses of providers; what is not a field here cannot be logged.
package telemetry

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"spillway/internal/chat"
)

// Recorder writes records. It is safe for concurrent use.
type Recorder struct {
	log *slog.Logger
	out io.Writer // takes whole lines

	mu      sync.Mutex
	alerted map[string]time.Time // by reason and credential: when it was last told
}

// New makes a recorder that writes JSON lines: records of the level and above, and metrics always.
func New(w io.Writer, level slog.Level) *Recorder {
	w = &lockedWriter{w: w}
	return &Recorder{log: slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})), out: w, alerted: map[string]time.Time{}}
}

// lockedWriter keeps the lines of two loggers apart.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
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
	Cost             Cost
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
	attrs = append(attrs, a.Cost.attrs()...)
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
	// Class is the class that ended the request; empty when it was answered.
	Class string
	// FirstContent is the time from the request's start to the first content; 0: there was none.
	FirstContent time.Duration
	// User and Conversation are keyed digests; empty: the client named none.
	User, Conversation string
	// Cost is what the client is charged for, Wasted what the failed attempts cost, in billionths of a US dollar.
	Cost   Cost
	Wasted int64
	// Idempotency is what became of the Idempotency-Key: "stored", "released", "replayed", or "store_failed" and
	// "release_failed" with StoreError. Empty: the request brought none.
	Idempotency string
	StoreError  string
	// Job and Kind are a media job's, that the request began or found; empty: it is for no job, or there is none.
	Job, Kind string
}

// Cost is what one attempt costs.
type Cost struct {
	// Known says that there is a price; a cost that is not known is not zero.
	Known bool
	// Nano is in billionths of a US dollar.
	Nano int64
	// Basis says whose figure it is: reported, listed.
	Basis string
	// Version is the price table's.
	Version string
}

func (c Cost) attrs() []slog.Attr {
	if c.Version == "" {
		return nil
	}
	attrs := []slog.Attr{slog.String(KeyPriceVersion, c.Version)}
	if c.Known {
		attrs = append(attrs, slog.Int64(KeyCost, c.Nano), slog.String(KeyCostBasis, c.Basis))
	}
	return attrs
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
	for _, a := range []slog.Attr{slog.String(KeyClass, q.Class), slog.String(KeyUser, q.User), slog.String(KeyConversation, q.Conversation),
		slog.String(KeyIdempotency, q.Idempotency), slog.String(KeyStoreError, q.StoreError), slog.String(KeyJob, q.Job), slog.String(KeyKind, q.Kind)} {
		if a.Value.String() != "" {
			attrs = append(attrs, a)
		}
	}
	if q.FirstContent > 0 {
		attrs = append(attrs, slog.Float64(KeyFirstContentMS, millis(q.FirstContent)))
	}
	attrs = append(attrs, q.Cost.attrs()...)
	if q.Wasted > 0 {
		attrs = append(attrs, slog.Int64(KeyWastedCost, q.Wasted))
	}
	r.log.LogAttrs(context.Background(), slog.LevelInfo, "request_finished", attrs...)
	r.Measure(q.measured())
}

// measured are the request's metrics.
func (q Request) measured() Measured {
	m := Measured{Route: q.Route, Provider: q.Provider, At: time.Now(), Values: []Value{{Requests, 1}, {Duration, millis(q.Duration)}}}
	add := func(metric Metric, amount float64, when bool) {
		if when {
			m.Values = append(m.Values, Value{metric, amount})
		}
	}
	add(Errors, 1, q.Outcome != "answered" && q.Outcome != "replayed")
	add(ErrorsOf(q.Class), 1, q.Class != "")
	add(Fallbacks, 1, q.Fallback)
	add(Recovered, 1, q.Outcome == "answered" && q.Attempts > 1)
	add(WastedCost, float64(q.Wasted)/1e9, q.Wasted > 0)
	add(FirstContent, millis(q.FirstContent), q.FirstContent > 0)
	return m
}

// alertEvery is how often an operator hears of the same reason and credential.
const alertEvery = time.Minute

// Alert tells an operator of a failure that only a person can repair: one record and one count, at most once a minute
// for the same reason and credential.
func (r *Recorder) Alert(now time.Time, reason, provider, credential, remedy string) {
	if !r.due(reason+"/"+provider+"/"+credential, now) {
		return
	}
	r.Measure(Measured{Reason: reason, Provider: provider, At: now, Values: []Value{{Alerts, 1}}})
	r.log.LogAttrs(context.Background(), slog.LevelError, "alert", slog.String(KeyReason, reason), slog.String(KeyProvider, provider),
		slog.String(KeyCredential, credential), slog.String(KeyRemedy, remedy))
}

// due reports whether an alert may be told again, and notes it. The map is bounded by the credentials there are.
func (r *Recorder) due(key string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.alerted[key]; ok && now.Sub(last) < alertEvery {
		return false
	}
	r.alerted[key] = now
	return true
}

// Decision is what was decided after a failed attempt, and on what evidence.
type Decision struct {
	Attempt
	Action    string // an id of this decision: the request's id and the attempt's number
	Operation string // "chat"
	// Eligible says that the class may fall back on this route.
	Eligible bool
	// BodyDigest is a keyed digest of the client's body: the same request is seen to be the same.
	BodyDigest string
}

// Decision records a decision.
func (r *Recorder) Decision(d Decision) {
	r.log.LogAttrs(context.Background(), slog.LevelInfo, "provider_decision",
		slog.String(KeyActionID, d.Action), slog.String(KeyRequestID, d.RequestID), slog.String(KeyRoute, d.Route), slog.String(KeyOperation, d.Operation),
		slog.String(KeyProvider, d.Provider), slog.String(KeyModel, string(d.Model)), slog.Int(KeyStatus, d.Status), slog.String(KeyType, clip(d.Type)),
		slog.String(KeyCode, clip(d.Code)), slog.String(KeyClass, d.Class), slog.Float64(KeyHintMS, millis(d.Hint)), slog.Int(KeyAttempt, d.N),
		slog.Int(KeyMaxAttempts, d.Max), slog.String(KeyDecision, d.Attempt.Decision), slog.String(KeyReason, d.Reason),
		slog.Bool(KeyFallbackEligible, d.Eligible), slog.Bool(KeyAmbiguous, d.Ambiguous), slog.String(KeyBodyDigest, d.BodyDigest),
		slog.String(KeyProviderRequestID, d.UpstreamID), slog.String(KeyRemedy, d.Remedy), slog.String(KeyPolicyVersion, d.PolicyVersion), tags(d.Tags))
}

// Transition records that a circuit has changed its state.
func (r *Recorder) Transition(now time.Time, provider, circuit, from, to, reason, class string) {
	r.log.LogAttrs(context.Background(), slog.LevelWarn, "circuit_transition", slog.String(KeyProvider, provider), slog.String(KeyCircuit, circuit),
		slog.String(KeyFrom, from), slog.String(KeyTo, to), slog.String(KeyReason, reason), slog.String(KeyClass, class))
	r.Measure(Measured{Provider: provider, At: now, Values: []Value{{Transitions, 1}}})
}

// StoreLost counts a call of the shared store that failed, and records it at most once a minute: the request that made it
// goes on without.
func (r *Recorder) StoreLost(call string, err error) {
	now := time.Now()
	r.Measure(Measured{Provider: "store", Reason: call, At: now, Values: []Value{{StoreErrors, 1}}})
	if r.due("store "+call, now) {
		r.log.LogAttrs(context.Background(), slog.LevelWarn, "store_lost", slog.String(KeyOperation, call), slog.String(KeyStoreError, err.Error()))
	}
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
	return []slog.Attr{slog.Int64(KeyPromptTokens, u.Prompt), slog.Int64(KeyCompletionTokens, u.Completion), slog.Int64(KeyCachedTokens, u.Cached),
		slog.Bool(KeyEstimated, u.Estimated)}
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// clip bounds a provider's word in a record.
func clip(s string) string {
	if len(s) > 80 {
		return s[:80]
	}
	return s
}
