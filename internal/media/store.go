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
	// List returns those of an organization's jobs that are wanted, by the time they were made and then by their ids, so that no
	// two have the same place. It may be some seconds behind, and need not look through more than some thousand jobs for one page.
	List(ctx context.Context, organization string, w Wanted) (Page, error)
	// Open returns jobs whose LookAt came before the time, those that wait for longest first; at most limit. It may be some
	// seconds behind. A job that cannot be read must keep no other from being found: beside an error there may be jobs.
	Open(ctx context.Context, before time.Time, limit int) ([]Job, error)
}

// Wanted says which jobs a list is to have, and where it begins.
type Wanted struct {
	State State // empty: any
	Kind  Kind  // empty: any
	// After is the job behind which the list goes on; only its ID and CreatedAt count. nil: the list has its beginning.
	After *Job
	// OldestFirst turns the list round, which else has the newest first.
	OldestFirst bool
	// Limit is the most jobs of a page; at least 1.
	Limit int
}

// Takes reports whether a job is among those that are wanted, wherever it stands.
func (w Wanted) Takes(j Job) bool {
	return (w.State == "" || j.State == w.State) && (w.Kind == "" || j.Kind == w.Kind)
}

// Page is a piece of a list.
type Page struct {
	Jobs []Job
	// More says that jobs behind Last may be wanted. It is exact, unless a store has looked through as many as it does for one page:
	// then the page may be short, or empty, and whether there are more is not known.
	More bool
	// Last is the id of the job behind which the next page begins; empty where there is no more.
	Last string
	// Unread is why one of the jobs could not be read, as an operator's hand or another version may have left it. It is left out, and
	// keeps no other from being listed. nil: all could be.
	Unread error
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
