package gateway

import (
	"errors"
	"io"
	"time"

	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/retry"
)

// relay passes a committed answer on to its end. An upstream failure becomes the stream's last event; a client that has
// left ends the upstream call.
func (g *Gateway) relay(j *journey, f *found, out *outlet) {
	j.outcome, j.status = "answered", 200
	if f.answer != nil && !j.req.Stream {
		if out.whole(f.answer) != nil {
			j.outcome = string(fault.ClientClosed)
		}
		return
	}
	switch failure := f.pump(out, j.idle()); {
	case failure == nil:
		if out.finish(f.usage, nil) != nil {
			j.outcome = string(fault.ClientClosed)
		}
	case failure.Class == fault.Cancelled:
		f.broken, j.outcome = failure, string(fault.ClientClosed)
	default:
		f.broken, j.outcome = failure, "interrupted"
		_ = out.finish(f.usage, g.interruption(f, failure)) // the client may be gone as well; the record tells the rest
	}
}

// pump sends the held events and then everything that comes, until the end of the answer.
func (f *found) pump(out *outlet, idle time.Duration) *fault.Failure {
	f.dog.commit(idle)
	for _, ev := range f.held {
		f.watch(ev, idle)
		if failure := f.send(out, ev); failure != nil {
			return failure
		}
	}
	f.held = nil
	if f.ended {
		return nil
	}
	for {
		ev, err := f.reply.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			var failure *fault.Failure
			if !errors.As(err, &failure) {
				panic("a reply returned an error that is no failure, which provider.Reply excludes")
			}
			return failure
		}
		f.note(ev)
		f.watch(ev, idle)
		if failure := f.send(out, ev); failure != nil {
			return failure
		}
	}
}

// send sends one event. A client that is gone ends the upstream call.
func (f *found) send(out *outlet, ev *chat.Event) *fault.Failure {
	f.sentTool = f.sentTool || ev.HasTool()
	err := out.event(ev)
	if err == nil {
		return nil
	}
	f.cancel(fault.Left)
	return &fault.Failure{Observation: fault.Observation{Local: fault.Left, Phase: fault.PhasePostContent, Sent: true, Cause: err},
		Class: fault.Cancelled, Evidence: fault.ByLocalCause}
}

// watch gives the stream its time to the next event: little once a choice has ended, since only usage is to come then.
func (f *found) watch(ev *chat.Event, idle time.Duration) {
	if ev.Finished() {
		idle = min(idle, retry.AfterFinish)
	}
	f.dog.wait(idle)
}

func (j *journey) idle() time.Duration {
	if d := j.route.Policy.Idle; d > 0 {
		return d
	}
	return retry.DefaultIdle
}
