package gateway

import (
	"context"
	"sync"
	"time"

	"spillway/internal/chat"
	"spillway/internal/fault"
)

// aliveEvery is how long an open stream may be silent before the client gets a comment (contract.md §4).
const aliveEvery = 15 * time.Second

// outlet is the client's end of a request. It keeps an open stream alive with comments, and opens a stream that has no
// content yet when the route's hold_ms asks for it. The timer's goroutine and the journey share the client under the
// lock; after close the timer sends nothing any more.
type outlet struct {
	client Client
	// gone ends the request when a comment finds out that the client has left. It is set before the timer runs.
	gone context.CancelFunc

	mu     sync.Mutex
	timer  *time.Timer // nil: not running
	last   time.Time   // when something was sent
	opened bool        // the status line of a stream is sent
	closed bool
	err    error // the first failed write: the client has left
}

// openAfter opens the stream with comments if nothing has been sent by then. Until the first content candidates may
// still change; only the status cannot.
func (o *outlet) openAfter(d time.Duration, head func() Head) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.timer = time.AfterFunc(d, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.closed || o.opened || o.err != nil {
			return
		}
		o.opened = true
		if o.err = o.client.Open(head()); o.err == nil {
			o.err = o.client.Alive()
		}
		if o.err != nil {
			o.gone()
			return
		}
		o.keepAlive()
	})
}

// keepAlive arms the timer. The lock is held.
func (o *outlet) keepAlive() {
	if o.timer != nil {
		o.timer.Stop()
	}
	o.last = time.Now()
	o.timer = time.AfterFunc(aliveEvery, o.tick)
}

func (o *outlet) tick() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.err != nil {
		return
	}
	quiet := time.Since(o.last)
	if quiet >= aliveEvery {
		if o.err = o.client.Alive(); o.err != nil {
			o.gone()
			return
		}
		o.last, quiet = time.Now(), 0
	}
	o.timer.Reset(aliveEvery - quiet)
}

// commit begins the answer of one candidate.
func (o *outlet) commit(h Head, stream bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = o.client.Commit(h)
	}
	if stream && o.err == nil {
		o.opened = true
		o.keepAlive()
	}
	return o.err
}

// refuse answers with an error: with its own status, or inside a stream that is open already.
func (o *outlet) refuse(h Head, e *fault.Error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.end()
	switch {
	case o.err != nil: // nobody is there
	case o.opened:
		o.err = o.client.Interrupt(e, nil)
	default:
		o.client.Refuse(h, e)
	}
}

func (o *outlet) event(ev *chat.Event) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = o.client.Event(ev)
		o.last = time.Now()
	}
	return o.err
}

func (o *outlet) whole(a *chat.Answer) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = o.client.Whole(a)
	}
	return o.err
}

// finish ends a stream: whole without an error, cut with one.
func (o *outlet) finish(u *chat.Usage, e *fault.Error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.end()
	switch {
	case o.err != nil:
	case e != nil:
		o.err = o.client.Interrupt(e, u)
	default:
		o.err = o.client.End(u)
	}
	return o.err
}

// close stops the timer. It may be called more than once.
func (o *outlet) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.end()
}

// end stops the timer. The lock is held.
func (o *outlet) end() {
	o.closed = true
	if o.timer != nil {
		o.timer.Stop()
	}
}
