package telemetry

import (
	"context"
	"log/slog"
	"time"

	"spillway/internal/chat"
)

// JobCall is one physical call of a provider for a media job, finished: an attempt like those of requests.
type JobCall struct {
	Job string
	// Operation is submit, poll, cancel or find.
	Operation  string
	Provider   string
	Channel    string
	Credential string // its alias
	Model      chat.RoutedModel
	UpstreamID string
	Duration   time.Duration
	// Status is that of a failure; 0: there was none, or the call was answered.
	Status int
	// Class is empty where the call was answered, and so is what follows.
	Class, Evidence string
	Ambiguous       bool
	Hint            time.Duration
	HintSource      string
	// Decision is what follows for the job.
	Decision      string
	PolicyVersion string
	Remedy        string
}

// JobCalled records a call for a job.
func (r *Recorder) JobCalled(c JobCall) {
	attrs := []slog.Attr{
		slog.String(KeyJob, c.Job), slog.String(KeyOperation, c.Operation), slog.String(KeyProvider, c.Provider), slog.String(KeyChannel, c.Channel),
		slog.String(KeyModel, string(c.Model)), slog.String(KeyCredential, c.Credential), slog.String(KeyProviderRequestID, clip(c.UpstreamID)),
		slog.Float64(KeyDurationMS, millis(c.Duration)), slog.String(KeyClass, c.Class),
		slog.String(KeyDecision, c.Decision), slog.Bool(KeyAmbiguous, c.Ambiguous), slog.String(KeyPolicyVersion, c.PolicyVersion)}
	level := slog.LevelInfo
	if c.Class != "" {
		level = slog.LevelWarn
		attrs = append(attrs, slog.String(KeyEvidence, c.Evidence), slog.String(KeyRemedy, c.Remedy))
	}
	if c.Status != 0 {
		attrs = append(attrs, slog.Int(KeyStatus, c.Status))
	}
	if c.HintSource != "" {
		attrs = append(attrs, slog.Float64(KeyHintMS, millis(c.Hint)), slog.String(KeyHintSource, c.HintSource))
	}
	r.log.LogAttrs(context.Background(), level, "attempt_finished", attrs...)
}

// Job is a media job as records have it: nothing of what it is asked to make, of where its work lies or of whom it tells.
type Job struct {
	ID, Organization, Kind string
	// Model is what the client asked for; Provider, Channel and Credential are who serves it, empty before and after a refusal.
	Model, Provider, Channel, Credential string
	// Poll is the number of the poll that is due, or was last, PollFailures how many failed in a row.
	Poll                            uint64
	PollFailures, Submits, Refusals int
	// Fallback says that the channel is not the first one that could make it.
	Fallback bool
	Age      time.Duration
}

func (j Job) attrs() []slog.Attr {
	return []slog.Attr{slog.String(KeyJob, j.ID), slog.String(KeyOrganization, j.Organization), slog.String(KeyKind, j.Kind), slog.String(KeyModel, j.Model),
		slog.String(KeyProvider, j.Provider), slog.String(KeyChannel, j.Channel), slog.String(KeyCredential, j.Credential), slog.Uint64(KeyPoll, j.Poll),
		slog.Int(KeyPollFailures, j.PollFailures), slog.Int(KeySubmits, j.Submits), slog.Int(KeyRefusals, j.Refusals), slog.Bool(KeyFallback, j.Fallback)}
}

// JobChange is one change of a job.
type JobChange struct {
	Job
	From, To string
	// Reason is what happened, of an end the code of its error.
	Reason string
	// Quiet says that nothing but numbers have changed.
	Quiet bool
}

// JobChanged records a change of a job; a quiet one at the level of debugging.
func (r *Recorder) JobChanged(c JobChange) {
	level := slog.LevelInfo
	if c.Quiet {
		level = slog.LevelDebug
	}
	r.log.LogAttrs(context.Background(), level, "job_changed", append(c.attrs(), slog.String(KeyFrom, c.From), slog.String(KeyTo, c.To),
		slog.String(KeyReason, c.Reason), slog.Float64(KeyAgeMS, millis(c.Age)))...)
}

// JobEnd is the end of a job.
type JobEnd struct {
	Job
	// Outcome is succeeded, or the code of the error.
	Outcome string
	// State is the last one, Class what its error was classified as.
	State, Class string
	Size         int64 // of what it made, in bytes
	Cost         Cost
	At           time.Time
}

// JobFinished records the end of a job and counts it. An unknown cost is counted, too: it is not zero.
func (r *Recorder) JobFinished(e JobEnd) {
	attrs := append(e.attrs(), slog.String(KeyOutcome, e.Outcome), slog.String(KeyTo, e.State), slog.String(KeyClass, e.Class),
		slog.Float64(KeyDurationMS, millis(e.Age)), slog.Int64(KeySize, e.Size))
	r.log.LogAttrs(context.Background(), slog.LevelInfo, "job_finished", append(attrs, costOfEnd(e.Cost)...)...)

	provider := e.Provider
	if provider == "" {
		provider = nobody
	}
	r.Measure(Measured{Reason: e.Outcome, Provider: provider, At: e.At, Values: []Value{{JobsFinished, 1}}})
	m := Measured{Provider: provider, At: e.At, Values: []Value{{JobDuration, millis(e.Age)}}}
	if e.Cost.Known {
		m.Values = append(m.Values, Value{JobCost, float64(e.Cost.Nano) / 1e9})
	} else {
		m.Values = append(m.Values, Value{UnknownCosts, 1})
	}
	r.Measure(m)
}

// costOfEnd is a cost that stands in a record also where nobody knows it, as null.
func costOfEnd(c Cost) []slog.Attr {
	attrs := []slog.Attr{slog.Any(KeyCost, nil)}
	if c.Known {
		attrs = []slog.Attr{slog.Int64(KeyCost, c.Nano), slog.String(KeyCostBasis, c.Basis)}
	}
	if c.Version != "" {
		attrs = append(attrs, slog.String(KeyPriceVersion, c.Version))
	}
	return attrs
}

// nobody is the provider of what none has taken.
const nobody = "none"

// JobCounted counts something that happened to a job of a provider.
func (r *Recorder) JobCounted(metric Metric, provider string, at time.Time) {
	r.Measure(Measured{Provider: provider, At: at, Values: []Value{{metric, 1}}})
}

// JobWord warns of a word for a job's state that its adapter does not know.
func (r *Recorder) JobWord(job, provider, channel, word string) {
	r.log.LogAttrs(context.Background(), slog.LevelWarn, "unknown_status", slog.String(KeyJob, job), slog.String(KeyProvider, provider),
		slog.String(KeyChannel, channel), slog.String(KeyWord, clip(word)))
}

// JobTrouble warns of what went wrong with a job and is made up for; cause is in our own words.
func (r *Recorder) JobTrouble(job, doing, cause string) {
	r.log.LogAttrs(context.Background(), slog.LevelWarn, "job_trouble", slog.String(KeyJob, job), slog.String(KeyOperation, doing), slog.String(KeyCause, cause))
}
