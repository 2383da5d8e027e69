package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"spillway/internal/fault"
	"spillway/internal/media"
	"spillway/internal/provider"
)

// sweepers is how many jobs are looked after at a time.
const sweepers = 8

// Sweep looks after at most limit jobs that nobody else does any more: it sends lost messages again, ends leases and jobs that are past
// their time, and asks about jobs of which nobody knows. It returns how many it did what for, also beside the error of what could not be found or read. It may run as often and
// beside as many others as it likes: what it writes is conditional, and what it sends twice is a duplicate. It stops when less
// than 5 s are left; the next one goes on. What asks a provider comes last, so that one that hangs keeps no other job waiting.
func (e *Engine) Sweep(ctx context.Context, limit int) (map[media.Task]int, error) {
	if end, limited := ctx.Deadline(); limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-reserve))
		defer cancel()
	}
	now := e.now()
	open, err := e.Jobs.Open(ctx, now, limit)
	if err != nil {
		err = fmt.Errorf("looking for jobs: %w", err)
	}
	var mu sync.Mutex
	did := map[media.Task]int{}
	var wait sync.WaitGroup
	slots := make(chan struct{}, sweepers)
	var unsent atomic.Int32
	for _, errand := range e.errands(open, now) {
		j, task := errand.job, errand.task
		if messages[task] && unsent.Load() >= sweepers {
			continue // the queue is away, and would use up the time of those that need none
		}
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wait.Go(func() {
			defer func() { <-slots }()
			if !e.fence(j.ID, func() error { return e.lookAfter(ctx, j, task, &unsent) }) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			did[task]++
		})
	}
	wait.Wait()
	return did, err
}

// errand is what a sweep has to do for a job.
type errand struct {
	job  media.Job
	task media.Task
}

// asks are the tasks that may call a provider.
var asks = map[media.Task]int{media.Unlease: 1, media.Reconcile: 1, media.GiveUp: 1}

// messages are the tasks that are done by a message.
var messages = map[media.Task]bool{media.Enqueue: true, media.Tell: true}

// errands are what there is to do, the quick ones first and then those that wait for a provider, each in the order of their waiting.
func (e *Engine) errands(open []media.Job, now time.Time) []errand {
	var all []errand
	for _, j := range open {
		if task := e.limits().Sweep(j, now); task != media.Nothing {
			all = append(all, errand{j, task})
		}
	}
	slices.SortStableFunc(all, func(a, b errand) int { return cmp.Compare(asks[a.task], asks[b.task]) })
	return all
}

// awaited is the message that a job waits for; of one that is over it is that its end is told.
var awaited = map[media.State]string{media.Queued: submit, media.Running: poll, media.Succeeded: tell, media.Failed: tell, media.Cancelled: tell, media.Expired: tell}

// lookAfter does one task, and counts the messages that could not be sent. The job may have changed since it was found: what is written
// then comes too late.
func (e *Engine) lookAfter(ctx context.Context, j media.Job, task media.Task, unsent *atomic.Int32) error {
	switch task {
	case media.Enqueue, media.Tell:
		if e.send(ctx, j, awaited[j.State], 0) {
			return e.end(ctx, j, media.Nudged{})
		}
		unsent.Add(1)
	case media.GiveUp:
		if j.State == media.Running {
			return e.lastLook(ctx, j)
		}
		return e.end(ctx, j, expiry(j))
	case media.Unlease:
		j, err := e.step(ctx, j, media.Lost{Error: media.Error{Code: string(fault.InternalError), Message: "whoever submitted it did not say what became of it"}})
		if err != nil {
			_, err = e.late(j, err)
			return err
		}
		if e.limits().Sweep(j, e.now()) == media.Reconcile {
			return e.reconcile(ctx, j)
		}
	case media.Reconcile:
		return e.reconcile(ctx, j)
	}
	return nil
}

// lastLook asks for a job whose time is up: it may be there, and nobody has looked. One at which that panics ends all the same: it
// would again each minute, and its client would never be told.
func (e *Engine) lastLook(ctx context.Context, j media.Job) (err error) {
	if !e.fence(j.ID, func() error { err = e.pollJob(ctx, j); return nil }) {
		return e.end(ctx, j, expiry(j))
	}
	return err
}

// reconcile asks the provider whether it has a job of which nobody knows. One whose provider cannot tell, or cannot be asked, stays
// uncertain until its deadline, and stands behind the others for the next sweep.
func (e *Engine) reconcile(ctx context.Context, j media.Job) error {
	studio, c, err := e.whoHas(j)
	if err != nil {
		return e.end(ctx, j, media.Nudged{}) // there is nobody to ask
	}
	finder, ok := studio.(provider.Finder)
	if !ok {
		return e.end(ctx, j, media.Nudged{})
	}
	var upstream string
	var found bool
	f := e.call("find", j, c, func(t provider.Task) (_ string, err error) {
		ctx, cancel := context.WithTimeout(ctx, asking)
		defer cancel()
		upstream, found, err = finder.Find(ctx, t)
		return "", err
	})
	switch {
	case f != nil:
		return e.end(ctx, j, media.Nudged{}) // the next sweep asks again
	case !found:
		return e.end(ctx, j, media.Ended{State: media.Failed, Cost: media.Unmade(), Error: media.Error{Code: string(fault.ProviderUnavailable),
			Message: "the provider did not take the job", Class: string(fault.Network)}})
	}
	in := e.limits().PollIn(0, 0, e.random())
	j, err = e.step(ctx, j, media.Accepted{Upstream: upstream, PollIn: in})
	if errors.Is(err, media.ErrNoEdge) {
		return nil
	}
	if err == nil {
		e.send(ctx, j, poll, in)
	}
	return err
}
