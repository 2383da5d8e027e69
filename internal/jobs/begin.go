package jobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"spillway/internal/media"
)

// Order is what a client asks for with an Idempotency-Key.
type Order struct {
	Organization     string
	Key, Fingerprint string
	Kind             media.Kind
	Model            string
	Request          []byte
	// Callback is where the end is told; empty: nowhere.
	Callback string
}

// ErrConflict says that the key was used for another request.
var ErrConflict = errors.New("the key was used for another job")

// Begin makes the job of an order, or returns the one that its key is bound to: then fresh is false. The key makes the job's id, so
// that the job itself is the record of the key, in one write: there is no moment at which one is there without the
// other, and the key stays bound for as long as the job is kept, a month: longer than the 24 h of contract.md §5, after which a
// repeat would buy the same work again. It must be submitted by whoever gets it fresh; if that
// process stops before, whoever repeats the order may Resume it, and the sweeper has it submitted after 2 min. The error is ErrConflict, or the store's or the bucket's: then
// there may be a job, and whoever repeats the order with its key learns of it.
func (e *Engine) Begin(ctx context.Context, o Order) (j media.Job, fresh bool, err error) {
	j = media.New(idOfKey(o.Organization, o.Key), o.Organization, o.Kind, o.Model, o.Request, "evt_"+e.token(), e.now())
	j.Deadline = e.limits().Deadline(j.CreatedAt)
	j.Key, j.Fingerprint, j.Callback = o.Key, o.Fingerprint, o.Callback
	j.Routing.Reason = e.planOf(ctx, j).String()
	j, failed := e.keepRequest(ctx, j)
	if failed == nil {
		if failed = e.Jobs.Create(ctx, j); failed == nil {
			return j, true, nil
		}
	}
	there, err := e.Bound(ctx, o)
	switch {
	case err != nil:
		return j, false, err
	case there == nil:
		return j, false, fmt.Errorf("creating the job: %w", failed)
	default:
		return *there, there.EventID == j.EventID, nil // created after all, when it is ours
	}
}

// Bound returns the job that an order's key is bound to; nil: none. The error is ErrConflict, or the store's.
func (e *Engine) Bound(ctx context.Context, o Order) (*media.Job, error) {
	there, err := e.Jobs.Get(ctx, o.Organization, idOfKey(o.Organization, o.Key))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the job: %w", err)
	case there != nil && (there.Fingerprint != o.Fingerprint || there.Key != o.Key):
		return nil, ErrConflict
	default:
		return there, nil
	}
}

// idOfKey is the id of the job that a key is bound to. It is no secret: a job is shown to its organization alone.
func idOfKey(organization, key string) string {
	sum := sha256.Sum256([]byte(organization + "\x00" + key))
	return "job_" + hex.EncodeToString(sum[:16])
}
