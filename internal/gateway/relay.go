package gateway

import (
	"errors"
	"io"
	"sync"
	"time"

	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/retry"
)

// aliveEvery is how long a committed stream may be silent before the client gets a comment.
const aliveEvery = 15 * time.Second

// relay passes a committed answer on to its end. An upstream failure becomes the stream's last event; a client that has
// left ends the upstream call.
func (g *Gateway) relay(j *journey, f *found, client Client) {
	j.outcome, j.status = "answered", 200
	if f.answer != nil {
		if client.Whole(f.answer) != nil {
			j.outcome = string(fault.ClientClosed)
		}
		return
	}
	out := &keptAlive{client: client}
	out.start()
	defer out.stop()
	usage, failure := f.pump(out, j.idle())
	out.stop()
	f.usage = usage
	switch {
	case failure == nil:
		if client.End(usage) != nil {
			j.outcome = string(fault.ClientClosed)
		}
	case failure.Class == fault.Cancelled:
		f.broken, j.outcome = failure, string(fault.ClientClosed)
	default:
		f.broken, j.outcome = failure, "interrupted"
		err := g.interruption(f, failure)
		_ = client.Interrupt(err, usage) // the client may be gone as well; the record tells the rest
	}
}

// pump sends the held events and then everything that comes, until the end of the answer.
func (f *found) pump(out *keptAlive, idle time.Duration) (*chat.Usage, *fault.Failure) {
	f.dog.commit(idle)
	for _, ev := range f.held {
		f.watch(ev, idle)
		if err := out.event(ev); err != nil {
			return f.usage, f.left(err)
		}
	}
	f.held = nil
	for {
		ev, err := f.reply.Next()
		if errors.Is(err, io.EOF) {
			return f.usage, nil
		}
		if err != nil {
			var failure *fault.Failure
			if !errors.As(err, &failure) {
				panic("a reply returned an error that is no failure: " + err.Error()) // provider.Reply excludes it
			}
			return f.usage, failure
		}
		f.note(ev)
		f.watch(ev, idle)
		if f.content.IsZero() && ev.Content() {
			f.content = time.Now()
		}
		if err := out.event(ev); err != nil {
			return f.usage, f.left(err)
		}
	}
}

// watch gives the stream its time to the next event: little once a choice has ended, since only usage is to come then.
func (f *found) watch(ev *chat.Event, idle time.Duration) {
	if ev.Finished() {
		idle = min(idle, retry.AfterFinish)
	}
	f.dog.wait(idle)
}

// left ends the upstream call of a client that is gone.
func (f *found) left(err error) *fault.Failure {
	f.cancel(fault.Left)
	return &fault.Failure{Observation: fault.Observation{Local: fault.Left, Phase: fault.PhasePostContent, Sent: true, Cause: err},
		Class: fault.Cancelled, Evidence: fault.ByLocalCause}
}

func (j *journey) idle() time.Duration {
	if d := j.route.Policy.Idle; d > 0 {
		return d
	}
	return retry.DefaultIdle
}

// keptAlive sends events, and a comment whenever there was none for a while. The timer's goroutine and the relay share
// the client under the lock; after stop nothing more is sent by the timer.
type keptAlive struct {
	client Client

	mu      sync.Mutex
	timer   *time.Timer
	last    time.Time
	stopped bool
	err     error
}

func (k *keptAlive) start() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = time.Now()
	k.timer = time.AfterFunc(aliveEvery, k.tick)
}

func (k *keptAlive) event(ev *chat.Event) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return k.err
	}
	k.last = time.Now()
	return k.client.Event(ev)
}

func (k *keptAlive) tick() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return
	}
	quiet := time.Since(k.last)
	if quiet >= aliveEvery {
		if k.err = k.client.Alive(); k.err != nil {
			return
		}
		k.last = time.Now()
		quiet = 0
	}
	k.timer.Reset(aliveEvery - quiet)
}

func (k *keptAlive) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	k.timer.Stop()
}
