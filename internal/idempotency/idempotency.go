// Package idempotency decides what a repeated request gets: nothing new, the stored result, a refusal, or its turn. It is
// pure: the record, the fingerprint and the time go in, a decision comes out. Records live behind Store.
//
// A record is written before any provider is contacted. It names its owner, the one execution that may finish it, and a
// time at which the owner is surely dead; every later write is conditional on the owner, so that an old owner that
// finishes late changes nothing.
//
//	absent ──Claim──▶ in_progress ──Complete──▶ completed ──(retention)──▶ absent
//	                  │        ▲
//	                  ├─Release┘ absent: the same key runs anew
//	                  └─(in_progress_until passes)──Claim by another──▶ in_progress
package idempotency

import (
	"math"
	"time"
)

const (
	// Retention is how long a result is kept. It is checked in code: the table's own TTL may lag by days.
	Retention = 24 * time.Hour
	// Margin is added to a plain request's deadline: a killed request frees its key that long after it.
	Margin = 5 * time.Second
	// StreamLease is how long a stream's record stays in progress unless it is renewed, every RenewEvery.
	StreamLease = 90 * time.Second
	RenewEvery  = 30 * time.Second
	// MaxKey is the longest key, in characters.
	MaxKey = 255
	// maxRetryAfter bounds what a client is told to wait for a request in flight.
	maxRetryAfter = 5 * time.Second
)

// Key is a client's key within its scope. Two organizations never share one.
type Key struct {
	Organization string
	Key          string
}

// Status is the state of a record.
type Status string

// The states of a record. There is no third one: what ended without a result is released, and so absent.
const (
	InProgress Status = "in_progress"
	Completed  Status = "completed"
)

// Record is what is known of one key.
type Record struct {
	Key         Key
	Status      Status
	Fingerprint Fingerprint
	// Owner is the execution that may finish the record: its fencing token, new for each claim.
	Owner string
	// RequestID is the owner's request id, for whoever reads the table.
	RequestID string
	CreatedAt time.Time
	// InProgressUntil is when the owner is surely dead. Zero in a record that another version wrote without one: it is
	// then live until ExpiresAt.
	InProgressUntil time.Time
	// ExpiresAt ends the record whatever its state.
	ExpiresAt time.Time
	// Result is set when the record is completed.
	Result *Result
}

// Result is an answer as the client got it.
type Result struct {
	Status int
	// Header are the headers to send again, by canonical name; the content type among them.
	Header map[string]string
	// Stream says that it was an event stream, and is sent again as one.
	Stream bool
	// Body is the gzipped body; nil when it is kept as an Object.
	Body []byte
	// Object is where a body is kept that is too large for the record; nil: Body has it.
	Object *Object
	// Size is the body's length before gzip, in bytes.
	Size int64
}

// Object is a body kept outside the record. It is written before the record that names it, so that a record never names
// one that is not there.
type Object struct {
	Name string
	// SHA256 is the hexadecimal digest of the object's bytes, which are gzipped.
	SHA256 string
	Size   int64
}

// Live reports whether the record counts: it is not past its retention.
func (r *Record) Live(now time.Time) bool { return r != nil && now.Before(r.ExpiresAt) }

// Abandoned reports whether the record's owner is surely dead.
func (r *Record) Abandoned(now time.Time) bool {
	return r.Status == InProgress && !r.InProgressUntil.IsZero() && !now.Before(r.InProgressUntil)
}

// FreeFor reports whether a claim of a request with a fingerprint may replace the record: it is past its time, or it is
// the same request's and its owner is dead.
func (r *Record) FreeFor(f Fingerprint, now time.Time) bool {
	return !r.Live(now) || r.Fingerprint == f && r.Abandoned(now)
}

// Verdict is what becomes of a request that brings a key.
type Verdict string

// The verdicts.
const (
	// Run: the record is ours, or may be claimed.
	Run Verdict = "run"
	// Replay: the request has been answered; its result is sent again.
	Replay Verdict = "replay"
	// InFlight: the same request is running; come back, or wait.
	InFlight Verdict = "in_flight"
	// Mismatch: the key was used for another request.
	Mismatch Verdict = "mismatch"
)

// Decision is a verdict with what it needs.
type Decision struct {
	Verdict Verdict
	// RetryAfter is set for InFlight: at least a second, at most five.
	RetryAfter time.Duration
	// Result is set for Replay.
	Result *Result
}

// Decide judges a request with a fingerprint by the record that stands under its key; nil: there is none. The fingerprint is
// compared before the state, so that a key that is reused for another request is told so whether the first is still
// running or not. owner is the asking execution's own token: a record of its own is its to run.
func Decide(r *Record, f Fingerprint, owner string, now time.Time) Decision {
	switch {
	case !r.Live(now):
		return Decision{Verdict: Run}
	case r.Owner == owner && r.Status == InProgress:
		return Decision{Verdict: Run}
	case r.Fingerprint != f:
		return Decision{Verdict: Mismatch}
	case r.Status == Completed:
		return Decision{Verdict: Replay, Result: r.Result}
	case r.Abandoned(now):
		return Decision{Verdict: Run}
	default:
		return Decision{Verdict: InFlight, RetryAfter: retryAfter(r, now)}
	}
}

// retryAfter is min(5, seconds left), at least 1 (contract.md §5).
func retryAfter(r *Record, now time.Time) time.Duration {
	left := maxRetryAfter
	if !r.InProgressUntil.IsZero() {
		left = min(left, r.InProgressUntil.Sub(now))
	}
	return time.Duration(math.Ceil(max(left, time.Second).Seconds())) * time.Second
}

// Claiming is the record of a request that is about to run. deadline is its hard end; a stream's record is renewed instead,
// and never past the deadline's margin.
func Claiming(k Key, f Fingerprint, owner, requestID string, stream bool, deadline, now time.Time) Record {
	r := Record{Key: k, Status: InProgress, Fingerprint: f, Owner: owner, RequestID: requestID, CreatedAt: now, ExpiresAt: now.Add(Retention)}
	r.InProgressUntil = Until(stream, deadline, now)
	return r
}

// Until is how long a record is in progress from now on: to the deadline and a margin, and a stream's for one lease at
// most.
func Until(stream bool, deadline, now time.Time) time.Time {
	end := deadline.Add(Margin)
	if lease := now.Add(StreamLease); stream && lease.Before(end) {
		return lease
	}
	return end
}
