package jobs

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"spillway/internal/media"
)

const (
	// reserve is what is left at the end of an invocation: no message is begun in it, and no work goes on, so that there is time
	// to write down what came of the work.
	reserve = 5 * time.Second
	// atOnce is how many messages of a batch are handled at a time.
	atOnce = 5
)

// Record is one message of a batch.
type Record struct {
	// ID is the queue's name for this delivery.
	ID   string
	Body []byte
}

// HandleBatch handles messages and returns the ids of those that have to come again: only these are reported to the queue, the
// others are done, also those that found nothing to do, and those whose provider, callback or next message failed: the job says
// what comes next. Those that failed for want of the table, or of a long request, come again; a queue that puts them aside
// after an hour of that loses nothing, since the sweeper sends them anew. One that can never be handled, because it cannot be read or its job is
// not there, is reported each time, until the queue puts it aside; it delays no other. A panic is its own message's
// failure. When less than 5 s are left no further one is begun, and the rest is reported.
func (e *Engine) HandleBatch(ctx context.Context, records []Record) (failed []string) {
	end, limited := ctx.Deadline()
	if limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-reserve))
		defer cancel()
	}
	done := make([]bool, len(records))
	var wait sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i, r := range records {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wait.Go(func() {
			defer func() { <-slots }()
			done[i] = e.fence(r.ID, func() error { return e.handle(ctx, r.Body) })
		})
	}
	wait.Wait()
	for i, r := range records {
		if !done[i] {
			failed = append(failed, r.ID)
		}
	}
	return failed
}

// fence does something for one message or job, whose failure is its own.
func (e *Engine) fence(id string, do func() error) (ok bool) {
	defer func() {
		if v := recover(); v != nil {
			ok = false
			if e.Record != nil {
				e.Record.Panicked(id, fmt.Sprintf("%T", v), string(debug.Stack())) // not the value, which may hold anything
			}
		}
	}()
	err := do()
	if err != nil && e.Record != nil {
		e.Record.Trouble(id, "handling a message", err)
	}
	return err == nil
}

// handle does what one message asks for, if it still is to be done: the job decides.
func (e *Engine) handle(ctx context.Context, body []byte) error {
	m, err := parse(body)
	if err != nil {
		return err
	}
	j, err := e.read(ctx, m.Organization, m.Job)
	switch {
	case err != nil:
		return fmt.Errorf("reading the job: %w", err)
	case j == nil:
		return fmt.Errorf("a message for a job that is not there: %w", errPoison)
	}
	switch m.Do {
	case submit:
		_, err := e.Submit(ctx, *j)
		if errors.Is(err, ErrNobody) {
			return nil // the sweeper asks again
		}
		return err
	case poll:
		if j.State != media.Running || m.Seq < j.Seq {
			return nil // a duplicate
		}
		// A message of a later poll is of one whose write is not there: it is as good as the old one.
		return e.pollJob(ctx, *j)
	case tell:
		return e.tellJob(ctx, *j, m.Seq)
	default:
		return fmt.Errorf("a message that asks for something unknown: %w", errPoison)
	}
}
