// Package trace is the story of one request for whoever asks for it later: which candidates there were, every attempt with
// its class, wait, duration and cost, and how it ended. It holds nothing of prompts, answers, keys or users. The package is
// pure: what a trace shows, and which requests leave one. Traces live behind Store.
//
// A request leaves a trace when something went wrong on its way, or when it is drawn for the sample. One that was refused
// before its route was known leaves none: its answer says everything. A replayed answer leaves none either, so that the trace
// of the request that it repeats stays.
package trace

import (
	"context"
	"time"
	"unicode/utf8"
)

// Retention is how long a trace is kept. It is checked in code: the table's own TTL may lag by days.
const Retention = 7 * 24 * time.Hour

// What a trace may hold, so that it always fits an item of 400 KB, even where JSON takes six bytes for each one.
const (
	maxAttempts = 32
	maxChannels = 64
	// maxText bounds what a provider wrote, in bytes. Names of ours have bounds of their own.
	maxText = 128
)

// Key names a trace. A request id is the client's choice and may repeat: the trace that is written last counts.
type Key struct {
	Organization string
	RequestID    string
}

// Reason is why a trace is kept.
type Reason string

// The reasons, in the order in which they are looked for.
const (
	Failed             Reason = "failed"
	FellBack           Reason = "fallback"
	CredentialFallback Reason = "credential_fallback"
	Retried            Reason = "retried"
	Sampled            Reason = "sampled"
	// NotKept is the zero value.
	NotKept Reason = ""
)

// Course is how a request went.
type Course struct {
	// Failed: the client did not get a whole answer. FellBack and CredentialFallback: from another channel, or with another
	// credential, than the first. Retried: with more than one call.
	Failed, FellBack, CredentialFallback, Retried bool
}

// Keep decides whether a request leaves a trace. sample is the fraction of the unremarkable ones that do; random, from
// [0, 1), is drawn only when it matters.
func Keep(c Course, sample float64, random func() float64) Reason {
	switch {
	case c.Failed:
		return Failed
	case c.FellBack:
		return FellBack
	case c.CredentialFallback:
		return CredentialFallback
	case c.Retried:
		return Retried
	case sample > 0 && random() < sample:
		return Sampled
	default:
		return NotKept
	}
}

// Trace is the story of a request, as a client gets it. Times are in milliseconds, costs in billionths of a US dollar.
type Trace struct {
	Object    string `json:"object"` // "request.trace"
	RequestID string `json:"request_id"`
	Kept      Reason `json:"kept"`

	Route     string    `json:"route"`
	Stream    bool      `json:"stream"`
	StartedAt time.Time `json:"started_at"`
	ExpiresAt time.Time `json:"expires_at"`

	// Outcome is "answered", "interrupted", or an error code; Class the class that ended the request, empty when it was
	// answered.
	Outcome string `json:"outcome"`
	Status  int    `json:"status"`
	Class   string `json:"class,omitempty"`
	// Provider is the last one tried, Model the one that it said it served.
	Provider           string `json:"provider,omitempty"`
	Model              string `json:"model,omitempty"`
	Fallback           bool   `json:"fallback"`
	CredentialFallback bool   `json:"credential_fallback"`
	// Calls is how many physical calls there were.
	Calls int `json:"calls"`

	// Duration is to the end of the answer, FirstContent to its first content, 0: there was none; Added is what failed
	// attempts and waits took before the answering attempt began.
	Duration     float64 `json:"duration_ms"`
	FirstContent float64 `json:"first_content_ms"`
	Added        float64 `json:"added_ms"`
	// Cost is what the client is charged for, null where no price is known; Wasted is what the failed attempts cost.
	Cost         *int64 `json:"cost_nano_usd"`
	Wasted       int64  `json:"wasted_cost_nano_usd"`
	PriceVersion string `json:"price_version,omitempty"`

	PolicyVersion string            `json:"policy_version"`
	ConfigVersion string            `json:"config_version"`
	Tags          map[string]string `json:"tags,omitempty"`

	// Considered are the channels in their order, each with why it was or was not a candidate.
	Considered []Channel `json:"considered"`
	// Attempts are in their order.
	Attempts []Attempt `json:"attempts"`
	// Shortened says that there were more channels or attempts than a trace holds.
	Shortened bool `json:"shortened,omitempty"`
}

// Channel is a channel that was considered.
type Channel struct {
	Channel string `json:"channel"`
	Reason  string `json:"reason"`
}

// Attempt is one physical call, or what a hold answered in its place.
type Attempt struct {
	// N counts the calls; what was answered from memory has the number of the call before it.
	N          int  `json:"attempt"`
	FromMemory bool `json:"from_memory,omitempty"`
	// At is when it began, since the request's start.
	At         float64 `json:"at_ms"`
	Channel    string  `json:"channel"`
	Provider   string  `json:"provider"`
	Model      string  `json:"model"`
	Served     string  `json:"served_model,omitempty"`
	Region     string  `json:"region,omitempty"`
	Credential string  `json:"credential"` // its alias

	Status int `json:"status,omitempty"`
	// Class is empty on success. Type and Code are the provider's words.
	Class     string `json:"class,omitempty"`
	Type      string `json:"type,omitempty"`
	Code      string `json:"code,omitempty"`
	Ambiguous bool   `json:"ambiguous,omitempty"`
	// Decision is what followed, "answered" on success; Wait how long was waited before it.
	Decision string  `json:"decision"`
	Reason   string  `json:"reason,omitempty"`
	Wait     float64 `json:"wait_ms"`
	Hint     float64 `json:"hint_ms,omitempty"` // what the provider asked to be waited

	Duration          float64 `json:"duration_ms"`
	FirstContent      float64 `json:"first_content_ms,omitempty"`
	ProviderRequestID string  `json:"provider_request_id,omitempty"`
	Usage             *Usage  `json:"usage,omitempty"` // nil: none that is known of
	// Cost is null where no price is known; without a usage it is 0.
	Cost *int64 `json:"cost_nano_usd"`
}

// Usage is what a call used, in tokens.
type Usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Cached     int64 `json:"cached_tokens"`
	Estimated  bool  `json:"estimated"`
}

// Full reports whether no more attempts need to be noted: a trace would not hold them.
func Full(attempts []Attempt) bool { return len(attempts) > maxAttempts }

// Sealed is the trace as it is kept: with what it is called, for how long, and within its bounds.
func (t Trace) Sealed() Trace {
	t.Object = "request.trace"
	t.StartedAt = t.StartedAt.UTC().Truncate(time.Millisecond)
	t.ExpiresAt = t.StartedAt.Add(Retention).Truncate(time.Second)
	t.Model = clip(t.Model)
	t.Considered, t.Attempts = append([]Channel{}, t.Considered...), append([]Attempt{}, t.Attempts...)
	if len(t.Considered) > maxChannels {
		t.Considered, t.Shortened = t.Considered[:maxChannels], true
	}
	if Full(t.Attempts) {
		t.Attempts, t.Shortened = t.Attempts[:maxAttempts], true
	}
	for i := range t.Attempts {
		a := &t.Attempts[i]
		for _, s := range []*string{&a.Served, &a.Type, &a.Code, &a.ProviderRequestID} {
			*s = clip(*s)
		}
	}
	return t
}

// clip bounds a text without cutting a character.
func clip(s string) string {
	if len(s) <= maxText {
		return s
	}
	for s = s[:maxText]; !utf8.ValidString(s) && len(s) > maxText-utf8.UTFMax; s = s[:len(s)-1] {
	}
	return s
}

// Live reports whether the trace counts: there is one, and it is not past its retention.
func (t *Trace) Live(now time.Time) bool { return t != nil && now.Before(t.ExpiresAt) }

// Store keeps the traces. An implementation must be safe for concurrent use and durable when Put returns without an error,
// and must bound its waiting by the context. It may lose a trace when it returns an error; nobody writes it again.
type Store interface {
	// Put writes a sealed trace, in the place of an earlier one of the same request id.
	Put(ctx context.Context, organization string, t Trace) error
	// Get returns the trace of a key as it is, also one past its time; nil: there is none. It must see every write
	// that was acknowledged before it began.
	Get(ctx context.Context, k Key) (*Trace, error)
}
