package runtimeapi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Front is one function with its pool of environments. It is an http.Handler, the function URL, and takes raw events
// through Invoke. Safe for concurrent use. Close must be called; it ends every process.
type Front struct {
	fn             Function
	stdout, stderr output
	prestart       int
	roundRobin     bool
	limits         Limits
	bandwidth      *Bandwidth // nil: not shaped
	strict         bool
	initLimit      time.Duration

	mu           sync.Mutex
	all          map[*environment]struct{} // those of which a process or a goroutine is left
	unburied     sync.WaitGroup            // one for each of all
	live         []*environment            // those that count against the cap, in the order they were booted
	idle         []*environment            // the part of live that waits for an event, the one used last at the end
	boots        int
	initErr      error // how the last init failed
	initFailedAt time.Time
	violations   []Violation
	closed       bool
}

// initHold is how long after a failed init no further process is started: requests in between get the same failure.
// A function that cannot start would otherwise be started by every retry of its clients.
const initHold = time.Second

var (
	// ErrThrottled: all environments are busy and the cap is reached. Lambda's TooManyRequestsException.
	ErrThrottled = errors.New("rate exceeded: every environment is busy")
	// ErrTooLarge: the event is over 6 MB. Lambda's RequestTooLargeException.
	ErrTooLarge = fmt.Errorf("request must be smaller than %d bytes", maxPayload)
	// ErrClosed: the Front was closed before or during the invocation.
	ErrClosed = errors.New("the function is closed")
)

// FunctionError says how an invocation failed inside its environment.
type FunctionError struct {
	// Type is what the function reported, or the platform's own: Sandbox.Timedout, Runtime.ExitError,
	// Runtime.InitError, Runtime.TruncatedResponse, Runtime.InvalidResponse, Function.ResponseSizeTooLarge.
	Type    string
	Message string
	Payload []byte // the function's own report, JSON as it was sent; nil if the platform found the error
}

func (e *FunctionError) Error() string { return e.Type + ": " + e.Message }

// New checks fn and boots the environments that Prestart asks for.
func New(fn Function, options ...Option) (*Front, error) {
	f := &Front{fn: fn.withDefaults(), initLimit: initLimit, all: map[*environment]struct{}{}}
	for _, option := range options {
		option(f)
	}
	if err := errors.Join(f.fn.check(), checkShape(f.limits, f.bandwidth)); err != nil {
		return nil, fmt.Errorf("checking function %q: %w", fn.Name, err)
	}
	f.limits = f.limits.withDefaults()
	if f.prestart > f.fn.Concurrency {
		return nil, fmt.Errorf("checking function %q: %d environments to prestart exceed the cap of %d", fn.Name, f.prestart, f.fn.Concurrency)
	}
	var err error
	if f.fn.Bootstrap, err = filepath.Abs(f.fn.Bootstrap); err != nil {
		return nil, fmt.Errorf("locating bootstrap: %w", err)
	}
	if f.fn.Dir, err = filepath.Abs(f.fn.Dir); err != nil {
		return nil, fmt.Errorf("locating task root: %w", err)
	}
	f.stdout, f.stderr = newOutputs(fn.Stdout, fn.Stderr)
	for range f.prestart {
		if err := f.bootIdle(); err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("prestarting function %q: %w", fn.Name, err)
		}
	}
	return f, nil
}

func (f *Front) bootIdle() error {
	f.mu.Lock()
	e := f.reserve()
	f.mu.Unlock()
	if err := e.boot(); err != nil {
		return err
	}
	e.rest()
	return nil
}

// Invoke hands the function one event and returns the bytes it answered, whatever its Mode. A failure inside the
// environment is a *FunctionError; others are ErrThrottled, ErrTooLarge, ErrClosed. When ctx ends Invoke returns its
// error at once, but the function runs on to its end: Lambda cannot call an invocation back.
func (f *Front) Invoke(ctx context.Context, event []byte) ([]byte, error) {
	return f.InvokeTraced(ctx, newTraceID(), event)
}

// InvokeTraced is Invoke with a trace header of the caller's: what its event is a consequence of.
func (f *Front) InvokeTraced(ctx context.Context, trace string, event []byte) ([]byte, error) {
	if len(event) > maxPayload {
		return nil, ErrTooLarge
	}
	answer := &collected{limit: f.limits.Buffered}
	inv := newInvocation(newID(), trace, event, answer)
	if err := f.start(inv); err != nil {
		return nil, err
	}
	select {
	case err := <-inv.done:
		inv.settle()
		if err != nil {
			return nil, err
		}
		return answer.body, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// start puts inv before an environment; its outcome arrives in inv.done.
func (f *Front) start(inv *invocation) error {
	for {
		e, fresh, err := f.acquire()
		if err != nil {
			return err
		}
		if e.dispatch(inv) {
			return nil
		}
		// The process died after its `next`. Another idle environment may be alive, but processes that die as soon as
		// they are ready are not started over and over.
		if fresh {
			return &FunctionError{Type: "Runtime.ExitError", Message: "the process exited after its init"}
		}
	}
}

// acquire takes an idle environment, or boots one.
func (f *Front) acquire() (e *environment, fresh bool, err error) {
	f.mu.Lock()
	if n := len(f.idle); n > 0 && !f.closed {
		i := n - 1
		if f.roundRobin {
			i = 0
		}
		e = f.idle[i]
		f.idle = slices.Delete(f.idle, i, i+1)
		f.mu.Unlock()
		return e, false, nil
	}
	switch {
	case f.closed:
		err = ErrClosed
	case len(f.live) >= f.fn.Concurrency:
		err = ErrThrottled
	case f.initErr != nil && time.Since(f.initFailedAt) < initHold:
		err = f.initErr
	default:
		e = f.reserve()
	}
	f.mu.Unlock()
	if err != nil {
		return nil, false, err
	}
	return e, true, e.boot()
}

// reserve takes a place in the pool for an environment that has no process yet. f.mu is held.
func (f *Front) reserve() *environment {
	e := newEnvironment(f)
	f.live = append(f.live, e)
	f.all[e] = struct{}{}
	f.unburied.Add(1)
	return e
}

// forget ends what reserve began: nothing of e is left.
func (f *Front) forget(e *environment) {
	f.mu.Lock()
	delete(f.all, e)
	f.mu.Unlock()
	close(e.buried)
	f.unburied.Done()
}

// release makes e available; e waits in its `next`.
func (f *Front) release(e *environment) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.Contains(f.live, e) {
		f.idle = append(f.idle, e)
	}
}

// retire frees e's place in the pool for good; its process may still have to die. It can be called more than once.
func (f *Front) retire(e *environment) {
	f.mu.Lock()
	defer f.mu.Unlock()
	is := func(other *environment) bool { return other == e }
	f.live = slices.DeleteFunc(f.live, is)
	f.idle = slices.DeleteFunc(f.idle, is)
}

func (f *Front) noteBoot() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.boots++
}

func (f *Front) noteInitFailure(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.initErr, f.initFailedAt = err, time.Now()
}

func (f *Front) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// Close ends every environment as Lambda does, SIGTERM first for those that registered an extension, and returns when
// no process and no goroutine is left. Invocations under way fail. The error is always nil; it can be called again.
func (f *Front) Close() error {
	f.mu.Lock()
	f.closed = true
	all := slices.Collect(maps.Keys(f.all))
	f.mu.Unlock()
	for _, e := range all {
		e.shutDown()
	}
	f.unburied.Wait()
	return nil
}

// Environment is a snapshot of one process.
type Environment struct {
	PID    int
	Served int  // invocations that are over
	Busy   bool // initialising, or between an event and the next `next`
	Frozen bool
}

// Environments lists the running processes, oldest first.
func (f *Front) Environments() []Environment {
	f.mu.Lock()
	live := slices.Clone(f.live)
	f.mu.Unlock()
	var all []Environment
	for _, e := range live {
		if now := e.snapshot(); now.PID != 0 {
			all = append(all, now)
		}
	}
	return all
}

// Kill ends the environment with that process id by SIGKILL and returns when it is gone and its place is free.
func (f *Front) Kill(pid int) error {
	f.mu.Lock()
	live := slices.Clone(f.live)
	f.mu.Unlock()
	for _, e := range live {
		if e.snapshot().PID == pid {
			f.retire(e)
			e.kill()
			<-e.buried
			return nil
		}
	}
	return fmt.Errorf("no environment has process id %d", pid)
}

// Boots counts the processes started since New.
func (f *Front) Boots() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.boots
}

// logf writes one line of the platform's own.
func (f *Front) logf(format string, args ...any) {
	fmt.Fprintf(f.stderr, format+"\n", args...)
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func newTraceID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return fmt.Sprintf("Root=1-%08x-%x;Sampled=0", time.Now().Unix(), b)
}
