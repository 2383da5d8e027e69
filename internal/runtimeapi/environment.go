package runtimeapi

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// invocation is one event on its way through an environment.
type invocation struct {
	id, trace string
	event     []byte
	deadline  time.Time // set when an environment takes it
	answer    answer

	done  chan error    // receives the outcome, once
	over  chan struct{} // closed when the environment asked for the next event, or is gone
	ended sync.Once
}

// answer takes what the function answers. An invocation sees at most one call of receive.
type answer interface {
	// receive reads the request that carries the answer to its end and returns why it is not a good one. errCut: the
	// request broke off. It must go on reading when whoever asked has left.
	receive(r *http.Request) error
	// cut must unblock a receive that waits for whoever asked to take the answer, now or later, and leave alone what is
	// done after receive. It may be called at any time.
	cut()
}

func newInvocation(id, trace string, event []byte, a answer) *invocation {
	return &invocation{id: id, trace: trace, event: event, answer: a, done: make(chan error, 1), over: make(chan struct{})}
}

func (inv *invocation) end() { inv.ended.Do(func() { close(inv.over) }) }

// settle waits for the environment to ask for its next event, which follows the answer within a fraction of a
// millisecond. Without it a client that sends its next request on the heels of an answer would find the environment
// still busy. A function that works on after its answer holds its client no longer than the bound.
func (inv *invocation) settle() {
	bound := time.NewTimer(50 * time.Millisecond)
	defer bound.Stop()
	select {
	case <-inv.over:
	case <-bound.C:
	}
}

// A phase is where an environment stands: starting → idle → running → answering → answered → idle. It enters idle by a
// `next`, running by dispatch, answering when a response or an error begins to arrive, answered when it has arrived or
// the deadline has passed without one.
type phase int

const (
	starting phase = iota
	idle
	running
	answering
	answered
)

// environment is one process of the bootstrap and its Runtime API.
type environment struct {
	front  *Front
	ready  chan struct{} // closed at the first `next`
	gone   chan struct{} // closed when the process is reaped, or was never started
	buried chan struct{} // closed when nothing of the environment is left

	api    *http.Server
	calls  sync.WaitGroup // Runtime API calls under way; added to under mu while !closed
	stderr tail

	mu        sync.Mutex
	cmd       *exec.Cmd // nil: no process yet
	phase     phase
	current   *invocation        // in running, answering, answered
	parked    chan<- *invocation // the `next` that waits; buffered, and receives at most once
	deadline  *time.Timer        // of current
	killer    *time.Timer        // SIGKILL after SIGTERM
	extension string             // identifier of the registered extension; "": none
	frozen    bool
	closed    bool   // the process is reaped; no further call of the API is let in
	reason    string // why the platform ends it; "": it ends by itself
	initError string // what the process reported as its init error
	initErr   error  // why there was no first `next`; readable once gone is closed
	served    int
}

func newEnvironment(f *Front) *environment {
	return &environment{front: f, ready: make(chan struct{}), gone: make(chan struct{}), buried: make(chan struct{})}
}

// boot starts the process and returns when it has asked for its first event. It then is idle but neither frozen nor in
// the pool.
func (e *environment) boot() error {
	if err := e.spawn(); err != nil {
		e.front.retire(e)
		close(e.gone)
		e.front.forget(e)
		err = &FunctionError{Type: "Runtime.InitError", Message: err.Error()}
		e.front.noteInitFailure(err)
		return err
	}
	limit := time.NewTimer(e.front.initLimit)
	defer limit.Stop()
	select {
	case <-e.ready:
		return nil
	case <-limit.C:
		e.endFor(fmt.Sprintf("init timed out after %.2f seconds", e.front.initLimit.Seconds()))
		e.kill()
		<-e.gone
	case <-e.gone:
	}
	return e.initErr
}

func (e *environment) spawn() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("opening runtime API: %w", err)
	}
	fn := e.front.fn
	logStream := time.Now().UTC().Format("2006/01/02") + "/[" + version + "]" + strings.ReplaceAll(newID(), "-", "")
	cmd := exec.Command(fn.Bootstrap)
	cmd.Dir = fn.Dir
	cmd.Env = fn.environ(listener.Addr().String(), logStream)
	cmd.Stdout = e.front.stdout
	cmd.Stderr = io.MultiWriter(&e.stderr, e.front.stderr)
	cmd.WaitDelay = time.Second // for a grandchild that holds the pipes

	e.api = &http.Server{Handler: e.routes(), ErrorLog: log.New(io.Discard, "", 0)}
	serving := make(chan struct{})
	go func() {
		defer close(serving)
		_ = e.api.Serve(listener)
	}()
	if err := start(cmd); err != nil {
		_ = e.api.Close()
		<-serving
		return fmt.Errorf("starting bootstrap: %w", err)
	}
	e.front.noteBoot()
	e.mu.Lock()
	e.cmd = cmd
	e.mu.Unlock()
	go e.watch(serving)
	if e.front.isClosed() { // Close has not seen the process
		e.shutDown()
	}
	return nil
}

// watch waits for the process to end and clears up after it.
func (e *environment) watch(serving <-chan struct{}) {
	defer e.front.forget(e)
	err := e.cmd.Wait()
	e.front.retire(e)
	e.bury(err)
	_ = e.api.Close()
	<-serving
	e.calls.Wait()
}

// bury closes the books of a process that has ended: an event it had taken and not answered has failed.
func (e *environment) bury(waitErr error) {
	how := "exit status 0"
	if waitErr != nil {
		how = waitErr.Error()
	}
	e.mu.Lock()
	e.closed = true
	at, inv, reason := e.phase, e.current, e.reason
	if e.killer != nil {
		e.killer.Stop()
	}
	// The deadline stays for an answer that is still being handed on to a slow client.
	if e.deadline != nil && at != answering {
		e.deadline.Stop()
	}
	switch at {
	case starting:
		e.initErr = e.initFailure(how)
	case running:
		e.phase = answered // an answer that is still in the socket comes too late
	}
	e.mu.Unlock()

	switch {
	case reason == closing:
	case at == starting:
		e.front.noteInitFailure(e.initErr)
		e.front.logf("%v", e.initErr)
	case reason == "":
		e.front.logf("%sError: Runtime exited with error: %s", requestLabel(inv), how)
	}
	if at == running {
		inv.done <- exitError(reason, how)
	}
	if inv != nil {
		inv.end()
	}
	close(e.gone)
}

func requestLabel(inv *invocation) string {
	if inv == nil {
		return ""
	}
	return "RequestId: " + inv.id + " "
}

func exitError(reason, how string) error {
	if reason == closing {
		return ErrClosed
	}
	return &FunctionError{Type: "Runtime.ExitError", Message: "Runtime exited with error: " + how}
}

// initFailure words why there was no first `next`: what the process reported, or how it ended, and its last output.
// e.mu is held.
func (e *environment) initFailure(how string) error {
	if e.reason == closing {
		return ErrClosed
	}
	message := "the process ended before its first next: " + how
	if e.reason != "" {
		message = e.reason
	}
	if e.initError != "" {
		message = "the process reported " + e.initError
	}
	if last := e.stderr.String(); last != "" {
		message += "\nlast output: " + last
	}
	return &FunctionError{Type: "Runtime.InitError", Message: message}
}

// dispatch hands inv to the process and starts its deadline. It reports false if the process is gone; inv is then
// untouched.
func (e *environment) dispatch(inv *invocation) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.phase != idle || e.reason != "" {
		return false
	}
	e.phase, e.current = running, inv
	timeout := e.front.fn.Timeout
	inv.deadline = time.Now().Add(timeout)
	e.deadline = time.AfterFunc(timeout, func() { e.expire(inv) })
	if e.frozen {
		e.frozen = false
		e.signal(syscall.SIGCONT)
	}
	if e.parked != nil {
		e.parked <- inv
		e.parked = nil
	}
	return true
}

// rest freezes an idle environment, if the function asks for it, and puts it into the pool. In this order: until it is
// in the pool nobody hands it an event, so that the SIGSTOP cannot follow the SIGCONT of that event.
func (e *environment) rest() {
	e.mu.Lock()
	if e.front.fn.Freeze && e.phase == idle {
		e.frozen = true
		e.signal(syscall.SIGSTOP)
	}
	e.mu.Unlock()
	e.front.release(e)
}

// expire ends the environment whose invocation is past its deadline. As in Lambda nothing the function answers from
// now on reaches anybody, not even what it writes on SIGTERM.
func (e *environment) expire(inv *invocation) {
	e.mu.Lock()
	if e.current != inv || e.phase == idle {
		e.mu.Unlock()
		return
	}
	if e.closed { // only a slow client is left, which takes an answer whose process is gone
		e.mu.Unlock()
		inv.answer.cut()
		return
	}
	unanswered := e.phase == running
	if unanswered {
		e.phase = answered
	}
	if e.reason == "" {
		e.reason = "timed out"
	}
	e.mu.Unlock()

	err := e.timeout()
	e.front.retire(e)
	e.front.logf("RequestId: %s %s", inv.id, err.Message)
	if unanswered {
		inv.done <- err
	}
	e.terminate()
}

func (e *environment) timeout() *FunctionError {
	return &FunctionError{
		Type:    "Sandbox.Timedout",
		Message: fmt.Sprintf("Task timed out after %.2f seconds", e.front.fn.Timeout.Seconds()),
	}
}

const closing = "closing"

// shutDown ends the environment because the Front is closed.
func (e *environment) shutDown() {
	e.endFor(closing)
	e.terminate()
}

// endFor notes why the environment is about to be ended; it gets no further event. The first reason stays.
func (e *environment) endFor(reason string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reason == "" {
		e.reason = reason
	}
}

// terminate sends SIGTERM and soon SIGKILL to a process with an extension, SIGKILL to others. Nothing it answers from
// now on is passed on.
// https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html#runtimes-lifecycle-shutdown (2026-11)
func (e *environment) terminate() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current != nil {
		e.current.answer.cut()
	}
	if e.extension == "" {
		e.signal(syscall.SIGKILL)
		return
	}
	if e.closed || e.killer != nil {
		return
	}
	e.killer = time.AfterFunc(killGrace, e.kill)
	e.signal(syscall.SIGTERM)
	e.signal(syscall.SIGCONT) // a stopped process takes its SIGTERM only now
	e.frozen = false
}

func (e *environment) kill() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current != nil {
		e.current.answer.cut()
	}
	e.signal(syscall.SIGKILL)
}

// signal cannot reach another process that was given the same id: os.Process refuses when its own is reaped. e.mu is
// held.
func (e *environment) signal(s os.Signal) {
	if e.cmd != nil {
		_ = e.cmd.Process.Signal(s)
	}
}

func (e *environment) snapshot() Environment {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cmd == nil {
		return Environment{}
	}
	return Environment{PID: e.cmd.Process.Pid, Served: e.served, Busy: e.phase != idle, Frozen: e.frozen}
}
