// Package media decides the life of a media job: a video or a piece of music that a provider makes in minutes. It is pure: a
// Job is a value, Limits.Next takes an event and the time and returns the next value or says why there is none. Jobs live
// behind Store, where each step is one conditional write.
//
//	queued ──▶ submitting ──▶ running ──▶ succeeded | failed | cancelled | expired
//	  │  ▲         │  │          ▲
//	  │  └─refused─┘  └▶ uncertain ┘ (found again by the provider's lookup; never submitted again by itself)
//	  └▶ cancelled | expired
//
// A job is submitted once. Whoever has claimed it may submit; when it is not known whether the provider has accepted the
// job it is uncertain, and stays so until the provider is asked or its deadline passes.
package media

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// State is the state of a job.
type State string

// The states (contract.md §8).
const (
	// Queued: accepted by us, not sent to any provider yet.
	Queued State = "queued"
	// Submitting: its owner is sending it to a provider.
	Submitting State = "submitting"
	// Running: a provider has accepted it.
	Running State = "running"
	// Uncertain: nobody knows whether a provider has accepted it.
	Uncertain State = "uncertain"
	Succeeded State = "succeeded"
	Failed    State = "failed"
	Cancelled State = "cancelled"
	Expired   State = "expired"
)

// edges are all changes of state that there are.
var edges = map[State][]State{
	Queued:     {Submitting, Cancelled, Expired},
	Submitting: {Running, Queued, Failed, Uncertain},
	Running:    {Succeeded, Failed, Cancelled, Expired},
	Uncertain:  {Running, Failed, Expired},
}

// Terminal reports whether a state is the last one.
func (s State) Terminal() bool { return len(edges[s]) == 0 }

// States are all states, in the order of a life.
func States() []State {
	return []State{Queued, Submitting, Running, Uncertain, Succeeded, Failed, Cancelled, Expired}
}

// Kind is what a job makes.
type Kind string

// The kinds.
const (
	Video Kind = "video"
	Music Kind = "music"
)

// Job is one media job at one moment.
type Job struct {
	ID           string
	Organization string
	Kind         Kind
	State        State
	// Version counts the changes. A store replaces a job only if its version is still the one that was read.
	Version uint64
	// Stamp is of the execution's step that made the last change, and of no other: whoever does not know whether it was made finds it there.
	Stamp string

	// Model is what the client asked for, Channel, Provider and Credential who serves it; empty until it is submitted.
	Model, Channel, Provider, Credential string
	// Routing is how it came to them.
	Routing Routing
	// Request is the client's body as written. Of one that is too long it is Abridged, and all of it is in the bucket, packed: Whole.
	Request []byte
	Whole   *Kept
	// Key and Fingerprint are the Idempotency-Key's: the job is bound to it whatever its end.
	Key, Fingerprint string
	// Callback is where the terminal state is told; empty: nowhere. EventID is the id of that event, made with the job,
	// so that it is the same however often it is sent.
	Callback, EventID string
	// Tells counts the tellings so far, and TellAt is when the next one is due; zero: none is. The job itself is the outbox
	// of its event: a message that is lost is sent again for as long as TellAt stands.
	// ToldAt is when the callback took it; zero: it did not.
	Tells          int
	TellAt, ToldAt time.Time
	// Untold says that the callback took none of the tellings, and that no more follows.
	Untold bool

	// Owner holds the right to submit until LeaseUntil. It has a meaning only while submitting.
	Owner      string
	LeaseUntil time.Time
	// Submits counts the calls that may have created a job at a provider, Refusals those that surely did not.
	Submits, Refusals int
	// Attempts counts the calls that were made to submit it, whatever came of them.
	Attempts int
	// RefusedBy are those who have refused it, in their order: each is asked once. A job from before their names were kept has only
	// their number, so that it may be shorter than Refusals.
	RefusedBy []Refuser
	// Upstream is the provider's handle on the job: what its adapter needs to ask for it.
	Upstream string

	// Seq is the number of the poll that is due. A message of an earlier one is a duplicate.
	Seq uint64
	// PollFailures counts those in a row.
	PollFailures int
	NextPollAt   time.Time
	// Progress is in percent; 0: unknown.
	Progress int
	// Strange is the provider's word for a state that nobody knows; empty: none was seen.
	Strange string
	// CancelAsked says that the provider was asked to cancel and has not confirmed it.
	CancelAsked bool
	// LastError is what went wrong last: why a channel refused it, nobody is asked to take it, nobody knows where it is, a poll failed, or why it ended; zero:
	// nothing did. It is for people, who wonder about a job that goes on.
	LastError Error

	CreatedAt, UpdatedAt, FinishedAt time.Time
	Deadline                         time.Time

	// Error says why it did not succeed. Result is what it made. Cost is what the provider asks for it. All belong to a terminal
	// state.
	Error  *Error
	Result *Result
	Cost   Cost
}

// Cost is what a job cost at its provider. The zero value is not known, which is not the same as zero.
type Cost struct {
	// Known says that Nano can be charged; it is in billionths of a US dollar.
	Known bool
	Nano  int64
	// Basis says how it is known: "listed", a price and what was asked for; "unmade", no provider has begun. Empty: it is not known.
	Basis string
	// Version is the price table's.
	Version string
}

// Unmade is the cost of a job that no provider has begun.
func Unmade() Cost { return Cost{Known: true, Basis: "unmade"} }

// Routing is how a job came to who serves it.
type Routing struct {
	// Reason names the channels that were looked at when one was last chosen, or none could be, each with why it was passed over:
	// `a:open;b:refused;c:ok`. Until then they stand as the configuration has them.
	Reason string
	// Served is the name of the model at the channel; empty: none serves it.
	Served string
	// Fallback says that the channel is not the first one that could, CredentialFallback that the credential is not its first.
	Fallback, CredentialFallback bool
}

// Refuser is who surely has not taken a job: a channel, with a credential, by its alias.
type Refuser struct{ Channel, Credential string }

// Error is why a job ended without a result. Code is one of contract.md §2 and the media words of §8.
type Error struct {
	Code    string
	Message string
	Class   string
}

// Kept is where the gateway has put what a client sent. Size and digest are of what was sent, not of how it is packed.
type Kept struct {
	Object string
	Size   int64
	SHA256 string
}

// Result is where the gateway has copied what a job made.
type Result struct {
	Object      string
	ContentType string
	Size        int64
	SHA256      string
}

// New is a job that is queued, and has the default's time.
func New(id, organization string, kind Kind, model string, request []byte, eventID string, now time.Time) Job {
	return Job{ID: id, Organization: organization, Kind: kind, State: Queued, Model: model, Request: request, EventID: eventID, CreatedAt: now, UpdatedAt: now,
		Deadline: now.Add(Lifetime)}
}

// ErrNoEdge says that an event means nothing in the job's state: a duplicate, or one that comes too late. The job is as it was.
var ErrNoEdge = errors.New("the job's state knows no such step")

// Event is what can happen to a job.
type Event interface {
	apply(Job, time.Time, Limits) (Job, error)
}

// Claim takes the right to submit.
type Claim struct {
	Owner                         string
	Channel, Provider, Credential string
	// Refusals is how many had refused the job when the channel was chosen: a choice that another refusal has overtaken is made anew.
	Refusals int
	Routing  Routing
	// Uncalled says that the answer is known, so that no call follows.
	Uncalled bool
}

// Accepted says that the provider has the job. It follows a claim by the same owner, or a look at an uncertain one.
type Accepted struct {
	Owner    string // empty: found by the provider's lookup
	Upstream string
	// PollIn is when to ask first.
	PollIn time.Duration
}

// Refused says that the provider surely does not have it, and that another channel may be tried.
type Refused struct {
	Owner string
	Error Error
}

// Lost says that nobody knows whether the provider has it. Owner is empty where the lease has run out.
type Lost struct {
	Owner string
	Error Error
}

// Pending says that the provider is at work.
type Pending struct {
	Seq      uint64
	Progress int
	// Strange is the provider's word when it is not known.
	Strange string
	PollIn  time.Duration
}

// PollFailed says that the provider could not be asked.
type PollFailed struct {
	Seq    uint64
	PollIn time.Duration
	Error  Error
}

// Done says that the result has been copied.
type Done struct {
	Result Result
	Cost   Cost
}

// Ended says that the job ends without a result, as failed, cancelled or expired.
type Ended struct {
	State State
	Error Error
	// Owner is who submits, for a job that ends while it is submitted.
	Owner string
	// Cost is what it cost all the same. A job that ends while it is queued cost nothing.
	Cost Cost
}

// AskedToCancel says that the provider was asked.
type AskedToCancel struct{}

// Nudged says that the sweeper has done what it can for a job for now, such as sending its message again: what the job waits for is
// due from now on, and others that wait for longer are looked at before it.
type Nudged struct{}

// Waiting says that nobody is asked to take a queued job for now, and why: in words, and by Routing.Reason of each channel.
type Waiting struct {
	Error  Error
	Reason string
}

// Told says that the callback has taken the event, or wants none. N is the telling's number, Job.Tells before it.
type Told struct {
	N int
	// Unwanted says that it does not want it.
	Unwanted bool
}

// NotTold says that the callback did not take it.
type NotTold struct {
	N  int
	In time.Duration
}

// Next is Limits.Next with the defaults.
func (j Job) Next(e Event, now time.Time) (Job, error) { return Limits{}.Next(j, e, now) }

// to is the only place where a state is assigned.
func (j Job) to(s State, now time.Time) (Job, error) {
	if !slices.Contains(edges[j.State], s) {
		return j, fmt.Errorf("from %s to %s: %w", j.State, s, ErrNoEdge)
	}
	j.State = s
	if s != Submitting {
		j.Owner, j.LeaseUntil = "", time.Time{}
	}
	if s.Terminal() {
		j.FinishedAt, j.NextPollAt = now, time.Time{}
		if j.Callback != "" {
			j.TellAt = now
		}
	}
	return j, nil
}

func (e Claim) apply(j Job, now time.Time, l Limits) (Job, error) {
	if e.Refusals != j.Refusals {
		return j, ErrNoEdge
	}
	j, err := j.to(Submitting, now)
	if err != nil {
		return j, err
	}
	j.Owner, j.LeaseUntil = e.Owner, now.Add(l.SubmitLease)
	j.Channel, j.Provider, j.Credential, j.Routing = e.Channel, e.Provider, e.Credential, e.Routing
	j.Submits++
	if !e.Uncalled {
		j.Attempts++
	}
	return j, nil
}

// owned reports whether an owner's event may still move the job.
func (j Job) owned(owner string) bool { return j.State == Submitting && j.Owner == owner }

func (e Accepted) apply(j Job, now time.Time, _ Limits) (Job, error) {
	if !j.owned(e.Owner) && (j.State != Uncertain || e.Owner != "") {
		return j, ErrNoEdge
	}
	j, err := j.to(Running, now)
	if err != nil {
		return j, err
	}
	j.Upstream, j.Seq, j.NextPollAt = e.Upstream, 1, now.Add(e.PollIn)
	return j, nil
}

func (e Refused) apply(j Job, now time.Time, _ Limits) (Job, error) {
	if !j.owned(e.Owner) {
		return j, ErrNoEdge
	}
	j, err := j.to(Queued, now)
	j.Submits--
	j.Refusals++
	j.RefusedBy = append(slices.Clip(j.RefusedBy), Refuser{Channel: j.Channel, Credential: j.Credential})
	j.Channel, j.Provider, j.Credential, j.Routing = "", "", "", Routing{Reason: j.Routing.Reason}
	j.LastError = e.Error
	return j, err
}

func (e Lost) apply(j Job, now time.Time, _ Limits) (Job, error) {
	if e.Owner == "" && (j.State != Submitting || now.Before(j.LeaseUntil)) || e.Owner != "" && !j.owned(e.Owner) {
		return j, ErrNoEdge
	}
	j.LastError = e.Error
	return j.to(Uncertain, now)
}

// due reports whether a poll is the one that the job waits for.
func (j Job) due(seq uint64) bool { return j.State == Running && j.Seq == seq }

// worn reports whether the poll that is due is the last one that may be made.
func (j Job) worn(l Limits) bool { return j.Seq >= uint64(l.MaxPolls) } //nolint:gosec // a count

func (e Pending) apply(j Job, now time.Time, l Limits) (Job, error) {
	if !j.due(e.Seq) {
		return j, ErrNoEdge
	}
	if j.worn(l) {
		return Ended{State: Failed, Error: Error{Code: "provider_timeout", Message: "the provider was asked too often without an end"}}.apply(j, now, l)
	}
	j.Seq++
	j.PollFailures, j.NextPollAt = 0, now.Add(e.PollIn)
	j.Progress = max(j.Progress, min(e.Progress, 99))
	if e.Strange != "" {
		j.Strange = e.Strange
	}
	return j, nil
}

func (e PollFailed) apply(j Job, now time.Time, l Limits) (Job, error) {
	if !j.due(e.Seq) {
		return j, ErrNoEdge
	}
	j.PollFailures++
	j.LastError = e.Error
	if j.PollFailures >= l.MaxPollFailures || j.worn(l) {
		return Ended{State: Failed, Error: e.Error}.apply(j, now, l)
	}
	j.Seq++
	j.NextPollAt = now.Add(e.PollIn)
	return j, nil
}

func (e Done) apply(j Job, now time.Time, _ Limits) (Job, error) {
	j, err := j.to(Succeeded, now)
	if err != nil {
		return j, err
	}
	r := e.Result
	j.Result, j.Progress, j.Cost = &r, 100, e.Cost
	return j, nil
}

func (e Ended) apply(j Job, now time.Time, _ Limits) (Job, error) {
	if e.State == Succeeded || !e.State.Terminal() || j.State == Submitting && !j.owned(e.Owner) {
		return j, ErrNoEdge
	}
	cost := e.Cost
	if j.State == Queued {
		cost = Unmade()
	}
	j, err := j.to(e.State, now)
	if err != nil {
		return j, err
	}
	j.Cost = cost
	if j.LastError = e.Error; e.Error != (Error{}) {
		why := e.Error
		j.Error = &why
	}
	return j, nil
}

func (AskedToCancel) apply(j Job, _ time.Time, _ Limits) (Job, error) {
	if j.State != Running || j.CancelAsked {
		return j, ErrNoEdge
	}
	j.CancelAsked = true
	return j, nil
}

func (Nudged) apply(j Job, now time.Time, _ Limits) (Job, error) {
	switch {
	case j.State == Queued, j.State == Uncertain: // they are looked at by their last change, which this is
	case j.State == Running && !j.NextPollAt.After(now):
		j.NextPollAt = now
	case !j.TellAt.IsZero() && !j.TellAt.After(now):
		j.TellAt = now
	default: // it has gone on meanwhile
		return j, ErrNoEdge
	}
	return j, nil
}

func (e Waiting) apply(j Job, _ time.Time, _ Limits) (Job, error) {
	if j.State != Queued {
		return j, ErrNoEdge
	}
	j.LastError, j.Routing.Reason = e.Error, e.Reason
	return j, nil
}

// telling reports whether a telling is the one that the job waits for.
func (j Job) telling(n int) bool { return !j.TellAt.IsZero() && j.Tells == n }

func (e Told) apply(j Job, now time.Time, _ Limits) (Job, error) {
	if !j.telling(e.N) {
		return j, ErrNoEdge
	}
	j.Tells++
	j.TellAt = time.Time{}
	if !e.Unwanted {
		j.ToldAt = now
	}
	return j, nil
}

func (e NotTold) apply(j Job, now time.Time, l Limits) (Job, error) {
	if !j.telling(e.N) {
		return j, ErrNoEdge
	}
	if j.Tells++; j.Tells >= l.MaxTells {
		j.TellAt, j.Untold = time.Time{}, true
		return j, nil
	}
	j.TellAt = now.Add(e.In)
	return j, nil
}
