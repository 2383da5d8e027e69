package gateway

import (
	"context"
	"sync"
	"time"

	"spillway/internal/fault"
)

// watchdog ends an attempt that is silent for too long, by cancelling its context with the cause. It is armed anew at
// every sign of life.
type watchdog struct {
	cancel context.CancelCauseFunc
	soft   time.Time // the request's own end; zero once the answer is committed

	mu    sync.Mutex
	timer *time.Timer // nil: not armed yet
	until time.Time
	cause fault.Local
}

func newWatchdog(cancel context.CancelCauseFunc, soft time.Time) *watchdog {
	return &watchdog{cancel: cancel, soft: soft}
}

// allow gives the provider d from now, or the rest of the request if that is shorter: then it is the request's time
// that ran out, and not the provider that was silent.
func (w *watchdog) allow(d time.Duration) {
	cause := fault.Silent
	if !w.soft.IsZero() {
		if rest := time.Until(w.soft); rest <= d {
			d, cause = rest, fault.OutOfTime
		}
	}
	w.arm(d, cause)
}

// wait gives d from now whatever the request's own end is.
func (w *watchdog) wait(d time.Duration) { w.arm(d, fault.Silent) }

// commit lifts the request's own end: a committed stream is bounded by its silence and by the platform.
func (w *watchdog) commit(idle time.Duration) {
	w.soft = time.Time{}
	w.arm(idle, fault.Silent)
}

func (w *watchdog) arm(d time.Duration, cause fault.Local) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until, w.cause = time.Now().Add(d), cause
	if w.timer == nil {
		w.timer = time.AfterFunc(d, w.bark)
		return
	}
	w.timer.Reset(d)
}

// bark runs when the timer fires. A timer that fired while it was being armed anew says nothing.
func (w *watchdog) bark() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Now().Before(w.until) {
		return
	}
	w.cancel(w.cause)
}

func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until = time.Now().Add(time.Hour)
	if w.timer != nil {
		w.timer.Stop()
	}
}
