package jobs

import (
	"cmp"
	"context"
	"errors"
	"time"

	"spillway/internal/catalog"
	"spillway/internal/fault"
	"spillway/internal/media"
	"spillway/internal/provider"
	"spillway/internal/route"
)

// asking bounds one question to a provider: how a job goes, whether it has one, and to cancel it.
const asking = 15 * time.Second

var errNoChannel = errors.New("the channel or the credential that has the job is not configured any more")

// expiry ends a job that is past its deadline, and says what is known of it: whether it was perhaps made, and why it got no further.
func expiry(j media.Job) media.Ended {
	why, last := "the job did not end before its deadline", j.LastError.Message
	switch {
	case j.State == media.Queued:
		why = "no provider took the job before its deadline"
	case j.State == media.Uncertain:
		why = "it never became known whether the provider had taken the job, and it was not submitted again"
	case j.PollFailures == 0:
		last = "" // it was answered since
	}
	if last != "" {
		why += "; the last that was heard: " + last
	}
	return media.Ended{State: media.Expired, Error: media.Error{Code: media.Gone, Message: why}}
}

// pollJob asks the provider of a running job once. What comes of it is either an end, which is written when the work has been
// copied, or the next poll, whose message is sent before it is written: a process that stops in between has two messages
// for one poll, and never none.
func (e *Engine) pollJob(ctx context.Context, j media.Job) error {
	if r, ok := made(j); ok {
		return e.end(ctx, j, media.Done{Result: r})
	}
	studio, c, err := e.whoHas(j)
	if err != nil {
		e.trouble(j, "asking its provider", err)
		return e.again(ctx, j, media.PollFailed{Seq: j.Seq, PollIn: e.repollIn(j, 0),
			Error: media.Error{Code: string(fault.NoProviderAvailable), Message: err.Error()}})
	}
	var status provider.Status
	f := e.call(poll, j, c, func(t provider.Task) (_ string, err error) {
		ctx, cancel := context.WithTimeout(ctx, asking)
		defer cancel()
		status, err = studio.Poll(ctx, t)
		return "", err
	})
	if a := status.Artifact; a != nil && a.Body != nil {
		defer a.Body.Close()
	}
	if f != nil {
		hint := time.Duration(0)
		if f.Hint.Known {
			hint = f.Hint.Wait
		}
		return e.again(ctx, j, media.PollFailed{Seq: j.Seq, PollIn: e.repollIn(j, hint), Error: errorOf(f)})
	}
	switch status.State {
	case media.Succeeded:
		return e.collect(ctx, j, status.Artifact)
	case media.Failed, media.Cancelled, media.Expired:
		why := status.Error
		if status.State == media.Failed {
			why.Code, why.Message = cmp.Or(why.Code, string(fault.ProviderError)), cmp.Or(why.Message, "the provider says that the job failed")
		}
		return e.end(ctx, j, media.Ended{State: status.State, Error: why})
	default:
		return e.again(ctx, j, media.Pending{Seq: j.Seq, Progress: status.Progress, Strange: status.Strange, PollIn: e.pollIn(j, status.Hint)})
	}
}

// collect ends a job whose work is there, and copies the work first: success is told by nobody who cannot show it.
func (e *Engine) collect(ctx context.Context, j media.Job, a *provider.Artifact) error {
	if a == nil {
		a = &provider.Artifact{}
	}
	result, why := e.keep(ctx, j, *a)
	switch {
	case why == nil:
		return e.end(ctx, j, media.Done{Result: result})
	case why.final:
		return e.end(ctx, j, media.Ended{State: media.Failed, Error: why.Error})
	default:
		e.trouble(j, "copying its result: "+why.Message, why.cause)
		return e.again(ctx, j, media.PollFailed{Seq: j.Seq, PollIn: e.repollIn(j, 0), Error: why.Error})
	}
}

// end writes an end. That another execution has written one is no error: its own is the only one.
func (e *Engine) end(ctx context.Context, j media.Job, event media.Event) error {
	_, err := e.late(e.step(ctx, j, event))
	return err
}

// again arranges for the next poll of a job that goes on. One that is past its deadline does not.
func (e *Engine) again(ctx context.Context, j media.Job, event media.Event) error {
	now := e.now()
	if !now.Before(j.Deadline) {
		return e.giveUp(ctx, j)
	}
	next, err := e.limits().Next(j, event, now)
	if err != nil {
		return err //nolint:wrapcheck // it names the edge
	}
	if next.State == media.Running {
		e.send(ctx, next, poll, next.NextPollAt.Sub(now))
	}
	return e.end(ctx, j, event)
}

// pollIn is when a running job is asked for again: at its deadline for the last time.
func (e *Engine) pollIn(j media.Job, hint time.Duration) time.Duration {
	return min(e.limits().PollIn(j.Seq, hint, e.random()), max(j.Deadline.Sub(e.now()), 0))
}

// repollIn is the same for one whose poll failed.
func (e *Engine) repollIn(j media.Job, hint time.Duration) time.Duration {
	return min(e.limits().RepollIn(j.Seq, hint, e.random()), max(j.Deadline.Sub(e.now()), 0))
}

// giveUp ends a job that is past its deadline. The provider is asked to stop; whether it does is its own to say.
func (e *Engine) giveUp(ctx context.Context, j media.Job) error {
	if j.State == media.Running {
		_, _ = e.askToCancel(ctx, j)
	}
	return e.end(ctx, j, expiry(j))
}

// askToCancel asks the provider of a running job to stop.
func (e *Engine) askToCancel(ctx context.Context, j media.Job) (confirmed bool, f *fault.Failure) {
	studio, c, err := e.whoHas(j)
	if err != nil {
		f = &fault.Failure{Class: fault.Unknown}
		f.Cause = err
		return false, f
	}
	f = e.call("cancel", j, c, func(t provider.Task) (_ string, err error) {
		ctx, cancel := context.WithTimeout(ctx, asking)
		defer cancel()
		confirmed, err = studio.Cancel(ctx, t)
		return "", err
	})
	return confirmed && f == nil, f
}

// whoHas is who was given the job.
func (e *Engine) whoHas(j media.Job) (provider.Studio, route.Candidate, error) {
	ch := e.Catalog.ByName(j.Channel)
	if ch == nil {
		return nil, route.Candidate{}, errNoChannel
	}
	studio := e.Studios[ch.Provider.Kind]
	if studio == nil {
		return nil, route.Candidate{}, errNoStudio
	}
	var found *catalog.Credential
	for _, c := range ch.Credentials {
		if c.Alias == j.Credential && (c.Organization == "" || c.Organization == j.Organization) {
			found = c
		}
	}
	if found == nil && j.Credential != "" {
		return nil, route.Candidate{}, errNoChannel
	}
	return studio, route.Candidate{Channel: ch, Credential: found}, nil
}
