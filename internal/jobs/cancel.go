package jobs

import (
	"context"

	"spillway/internal/media"
)

// Cancelled is what a wish to cancel came to.
type Cancelled string

// What it can come to (contract.md §8).
const (
	// Confirmed: the job is cancelled. Asked: its provider was asked to. Over: it has ended already. NotNow: it is being submitted,
	// or nobody knows where it is; it can be tried again.
	Confirmed Cancelled = "confirmed"
	Asked     Cancelled = "asked"
	Over      Cancelled = "over"
	NotNow    Cancelled = "not_now"
)

// maxLooks is how often a job that changes under the wish is looked at.
const maxLooks = 3

// Cancel ends a job at the client's wish, and returns it as it has become; nil: there is none of this id in the organization. The
// error is the store's.
func (e *Engine) Cancel(ctx context.Context, organization, id string) (*media.Job, Cancelled, error) {
	there, err := e.read(ctx, organization, id)
	if err != nil || there == nil {
		return nil, "", err //nolint:wrapcheck // the store says what it did
	}
	j := *there
	if j.State.Terminal() {
		return &j, Over, nil
	}
	for range maxLooks {
		before := j.State
		if j, err = e.cancelAs(ctx, j); err != nil {
			return nil, "", err
		}
		switch {
		case j.State == media.Cancelled:
			return &j, Confirmed, nil
		case j.State.Terminal():
			return &j, Over, nil
		case j.CancelAsked:
			return &j, Asked, nil
		case j.State == before:
			return &j, NotNow, nil
		}
	}
	return &j, NotNow, nil
}

// read reads a job within the time of a step: a table that does not answer must keep neither a client waiting nor
// the rest of a batch.
func (e *Engine) read(ctx context.Context, organization, id string) (*media.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, writing)
	defer cancel()
	return e.Jobs.Get(ctx, organization, id) //nolint:wrapcheck // the store says what it did
}

// cancelAs cancels a job in the state that it is in. A provider that could not be asked has changed nothing.
func (e *Engine) cancelAs(ctx context.Context, j media.Job) (media.Job, error) {
	var event media.Event = media.Ended{State: media.Cancelled, Error: media.Error{Code: "cancelled", Message: "the job was cancelled"}}
	if j.State == media.Running {
		confirmed, f := e.askToCancel(ctx, j)
		switch {
		case f != nil:
			return j, nil
		case !confirmed:
			event = media.AskedToCancel{}
		}
	}
	return e.late(e.step(ctx, j, event))
}
