package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"spillway/internal/media"
)

const (
	// writing bounds one step's calls of the store, also past the end of the work that led to it: what a provider has said must
	// not be lost for a deadline. What it has said to a submit is known nowhere else: by what name it has the job, or that it surely
	// has not. That is tried to be written for as long as the lease's spare time allows.
	writing  = 3 * time.Second
	clinging = 8 * time.Second
	// maxWrites is how often a step is tried that others run ahead of. firstPause is the pause after a store's first error, doubled
	// after each, up to slowPause.
	maxWrites  = 5
	firstPause = 50 * time.Millisecond
	slowPause  = time.Second
)

// errGone says that a job is not there any more, which only an operator's hand can do.
var errGone = errors.New("the job is not there")

// step applies an event to a job and writes what comes of it. Where the job has changed meanwhile, and is still in the state for
// which the event was meant, the event is applied to what it has become. Where the outcome of a write is not known the job is read. The error is media.ErrNoEdge, with the job as it
// is now, when the event comes too late: it changes nothing.
func (e *Engine) step(ctx context.Context, j media.Job, event media.Event) (media.Job, error) {
	within := writing
	if toSubmit(event) {
		within = clinging
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	from := j.State
	event = e.priced(j, event)
	now, stamp := e.now(), e.token() // the same each time, so that a write of ours is known again
	for try, pause := 1, firstPause; ; try, pause = try+1, min(2*pause, slowPause) {
		next, err := e.limits().Next(j, event, now)
		if err != nil {
			return j, err //nolint:wrapcheck // it names the edge
		}
		next.Stamp = stamp
		if err = e.Jobs.Replace(ctx, next); err == nil {
			e.wrote(ctx, j, next)
			return next, nil
		}
		there, unread := e.Jobs.Get(ctx, j.Organization, j.ID)
		switch {
		case unread != nil: // the next try asks again
		case there == nil:
			return j, errGone
		case there.Stamp == stamp:
			e.wrote(ctx, j, *there)
			return *there, nil
		case there.State != from:
			return *there, media.ErrNoEdge
		default:
			j = *there
		}
		overtaken := errors.Is(err, media.ErrChanged) && unread == nil
		if overtaken && try >= maxWrites || !overtaken && sleep(ctx, pause) != nil {
			return j, fmt.Errorf("writing the job: %w", err)
		}
	}
}

// toSubmit reports whether an event is what a provider has said to a submit.
func toSubmit(event media.Event) bool {
	switch e := event.(type) {
	case media.Accepted, media.Refused:
		return true
	case media.Ended:
		return e.Owner != ""
	default:
		return false
	}
}

// wrote does what follows a change: at the end of a job its callback is told. A message that is lost here is sent again by the
// sweeper, since the job says that its telling is due.
func (e *Engine) wrote(ctx context.Context, before, after media.Job) {
	e.changed(before, after)
	if !before.State.Terminal() && after.State.Terminal() && !after.TellAt.IsZero() {
		e.send(ctx, after, tell, 0)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // nobody reads it
	}
}
