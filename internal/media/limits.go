package media

import (
	"cmp"
	"time"
)

// The defaults of Limits.
const (
	Lifetime        = 30 * time.Minute
	SubmitLease     = 2 * time.Minute
	Overdue         = 2 * time.Minute
	FirstPoll       = 2 * time.Second
	SlowestPoll     = 60 * time.Second
	MaxPollFailures = 20
	MaxPolls        = 200
	MaxTells        = 8
)

// Limits bound the lives of jobs. What is zero in them is the default: the zero value is all defaults.
type Limits struct {
	// Lifetime is how long a job may take from its beginning.
	Lifetime time.Duration
	// SubmitLease is how long its owner may take to submit a job. After that nobody knows what became of it.
	SubmitLease time.Duration
	// Overdue is how late a poll, or a telling, may be before the sweeper sends its message again.
	Overdue time.Duration
	// FirstPoll is when a job is asked for first, and SlowestPoll the longest pause between two polls.
	FirstPoll, SlowestPoll time.Duration
	// MaxPollFailures in a row end a job, and MaxPolls bound it whatever happens.
	MaxPollFailures, MaxPolls int
	// MaxTells bounds how often the end of a job is told to a callback that does not take it.
	MaxTells int
}

// whole are the limits with the defaults in their places.
func (l Limits) whole() Limits {
	return Limits{Lifetime: cmp.Or(l.Lifetime, Lifetime), SubmitLease: cmp.Or(l.SubmitLease, SubmitLease), Overdue: cmp.Or(l.Overdue, Overdue),
		FirstPoll: cmp.Or(l.FirstPoll, FirstPoll), SlowestPoll: cmp.Or(l.SlowestPoll, SlowestPoll), MaxPollFailures: cmp.Or(l.MaxPollFailures, MaxPollFailures),
		MaxPolls: cmp.Or(l.MaxPolls, MaxPolls), MaxTells: cmp.Or(l.MaxTells, MaxTells)}
}

// Deadline is when a job that begins now must be over.
func (l Limits) Deadline(now time.Time) time.Time { return now.Add(l.whole().Lifetime) }

// Next is the job after an event, or ErrNoEdge.
func (l Limits) Next(j Job, e Event, now time.Time) (Job, error) {
	next, err := e.apply(j, now, l.whole())
	if err != nil {
		return j, err
	}
	next.Version++
	next.UpdatedAt = now
	return next, nil
}

// Sweep says what a job needs from the sweeper now. What has a message is left to it until it is overdue; a poll that is so far off
// that no message can wait for it has none, and is due on time.
func (l Limits) Sweep(j Job, now time.Time) Task {
	overdue := func(since time.Time) bool { return now.Sub(since) > l.whole().Overdue }
	switch {
	case j.State.Terminal():
		if !j.TellAt.IsZero() && overdue(j.TellAt) {
			return Tell
		}
		return Nothing
	case j.State == Submitting:
		if now.Before(j.LeaseUntil) {
			return Nothing
		}
		return Unlease // also past its deadline: what was perhaps submitted is not simply over
	case !now.Before(j.Deadline):
		return GiveUp
	case j.State == Uncertain:
		return Reconcile
	case j.State == Running && (overdue(j.NextPollAt) || !now.Before(j.NextPollAt) && j.NextPollAt.Sub(j.UpdatedAt) > MaxDelay), j.State == Queued && overdue(j.UpdatedAt):
		return Enqueue
	default:
		return Nothing
	}
}
