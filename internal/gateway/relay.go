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
	if f.answer != nil && !j.req.Stream {
		f.answer.Usage = f.used() // what the provider did not count is estimated, as in a stream
		j.delivered(out.whole(f.answer))
		return
	}
	j.status = 200
	switch failure := f.pump(out, j.idle()); {
	case failure == nil:
		j.delivered(out.finish(f.used(), nil))
	case failure.Class == fault.Cancelled:
		f.broken, j.outcome = failure, string(fault.ClientClosed)
	default:
		f.broken, j.outcome = failure, "interrupted"
		_ = out.finish(f.used(), j.interruption(f, failure)) // the client may be gone as well; the record tells the rest
		g.report(j, f.permit, g.outcome(j, failure, f.permit.Began))
	}
}

// delivered ends the journey of an answer that came whole; err says that the client had left.
func (j *journey) delivered(err error) {
	j.outcome, j.status, j.whole = "answered", 200, true
	if err != nil {
		j.outcome = string(fault.ClientClosed)
	}
}

// pump sends the held events and then everything that comes, until the end of the answer.
func (f *found) pump(out *outlet, idle time.Duration) *fault.Failure {
	f.dog.commit(idle)
	for _, ev := range f.held {
		f.watch(idle)
		if failure := f.pass(out, ev); failure != nil {
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
			f.ended = true
			return f.conclude(out)
		}
		if err != nil {
			var failure *fault.Failure
			if !errors.As(err, &failure) {
				panic("a reply returned an error that is no failure, which provider.Reply excludes")
			}
			return failure
		}
		f.note(ev)
		if ev.Content() {
			f.first() // a stream that was committed by its length may have had none
		}
		f.watch(idle)
		if failure := f.beyond(ev); failure != nil {
			return failure
		}
		if failure := f.pass(out, ev); failure != nil {
			return failure
		}
	}
}

// errStreamLimit is a stream that is longer than the platform would deliver.
var errStreamLimit = errors.New("the stream is longer than an answer may be")

// beyond ends a stream that reaches the limit of an answer; nil while it does not.
func (f *found) beyond(ev *chat.Event) *fault.Failure {
	f.relayed += len(ev.Raw)
	if f.maxStream == 0 || f.relayed <= f.maxStream {
		return nil
	}
	return unusable(f.policy, fault.PhasePostContent, errStreamLimit)
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

// watch gives the stream its time to the next event: little once all choices have ended.
func (f *found) watch(idle time.Duration) {
	if f.over() {
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
