package media

import (
	"context"
	"errors"
	"time"
)

// ErrChanged says that a job was not written because it has changed meanwhile, or because one of its id is there.
var ErrChanged = errors.New("the job has changed meanwhile")

// Store keeps the jobs. An implementation must be safe for concurrent use, linearizable for each job, and durable when a
// method returns without an error. It must bound its waiting by the context and must not repeat a write by itself. An
// error other than ErrChanged leaves open whether the write was applied: the caller reads.
// Times are kept to the millisecond, in UTC, and LastError as the Error of a job that ended without a result.
type Store interface {
	// Create writes a job that is not there; otherwise ErrChanged.
	Create(ctx context.Context, j Job) error
	// Get returns a job; nil: there is none of this id in this organization. It must see every acknowledged write.
	Get(ctx context.Context, organization, id string) (*Job, error)
	// Replace writes the next value of a job if its version is still one below; otherwise ErrChanged.
	Replace(ctx context.Context, next Job) error
	// List returns an organization's jobs, newest first, of one state or, where it is empty, of all; at most limit. It may
	// be some seconds behind, and need not look for those of one state behind some thousand newer ones.
	List(ctx context.Context, organization string, s State, limit int) ([]Job, error)
	// Open returns jobs whose LookAt came before the time, those that wait for longest first; at most limit. It may be some
	// seconds behind. A job that cannot be read must keep no other from being found: beside an error there may be jobs.
	Open(ctx context.Context, before time.Time, limit int) ([]Job, error)
}

// LookAt is when what a job waits for is due: its poll, its submit, its telling, the end of its lease or its deadline; zero: it
// waits for nothing. Stores find jobs by it, and know no limits: how late a job may be is Limits.Sweep's to say. Those that
// are found too early have come after all that are late, so that they keep nobody from being looked at.
func (j Job) LookAt() time.Time {
	at := j.Deadline
	switch {
	case j.State.Terminal():
		return j.TellAt
	case j.State == Submitting:
		return j.LeaseUntil
	case j.State == Running && j.NextPollAt.Before(at):
		at = j.NextPollAt
	case (j.State == Queued || j.State == Uncertain) && j.UpdatedAt.Before(at):
		at = j.UpdatedAt
	}
	return at
}
