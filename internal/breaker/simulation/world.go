package main

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"time"

	"spillway/internal/breaker"
	"spillway/internal/fault"
)

// The conduct of the gateway around a circuit, as contract.md §3 has it.
const (
	firstContent = 10 * time.Second
	maxRetries   = 1
	baseBackoff  = 200 * time.Millisecond
	// refreshAfter is the age at which a snapshot is read anew during an upstream call.
	refreshAfter = time.Second
	// readTakes is how long that read takes.
	readTakes = 10 * time.Millisecond
)

// provider is how the primary behaves at one moment.
type provider struct {
	// down: every call fails.
	down func(time.Time) bool
	// silent: a failing call hangs until the first-content limit, and is not retried; otherwise it is refused at once.
	silent bool
	// errors is the part of the calls that fails while the provider is up.
	errors float64
}

// world is one run: environments that share a store and call one provider. It is single-threaded and knows no other
// time than its own.
type world struct {
	now      time.Time
	random   *rand.Rand
	provider provider
	store    *store
	envs     []*environment
	queue    queue

	// the run's record
	calls              []call
	changes            []breaker.Transition
	probes, mostProbes int // on their way: now, and at most
}

// call is one call of the primary, as the run's record has it.
type call struct {
	began, ended time.Time
}

// event is something that is due.
type event struct {
	at    time.Time
	order int // of two at the same time the earlier scheduled comes first
	run   func()
}

func newWorld(seed uint64, environments int, p provider) *world {
	w := &world{now: epoch, random: rand.New(rand.NewPCG(seed, uint64(environments))), provider: p}
	w.store = &store{windows: map[uint64]breaker.Window{}, now: func() time.Time { return w.now }}
	for range environments {
		w.envs = append(w.envs, &environment{world: w})
	}
	return w
}

// epoch is when every run begins: the start of a bucket, so that the runs differ by their seed alone.
var epoch = time.Unix(1_800_000_000, 0).UTC()

func (w *world) after(d time.Duration, run func()) {
	w.queue.scheduled++
	heap.Push(&w.queue, event{w.now.Add(d), w.queue.scheduled, run})
}

// runUntil lets everything happen that is due before the end.
func (w *world) runUntil(end time.Time) {
	for w.queue.Len() > 0 && w.queue.events[0].at.Before(end) {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.run()
	}
	w.now = end
}

// poisson sends requests at a rate, each to an environment drawn at random, until the end.
func (w *world) poisson(rate float64, end time.Time) {
	wait := time.Duration(w.random.ExpFloat64() / rate * float64(time.Second))
	if w.now.Add(wait).After(end) {
		return
	}
	w.after(wait, func() {
		w.envs[w.random.IntN(len(w.envs))].request()
		w.poisson(rate, end)
	})
}

// outcome draws what the provider makes of a call that begins now.
func (w *world) outcome() (ok bool, takes time.Duration) {
	down := w.provider.down != nil && w.provider.down(w.now)
	switch {
	case down && w.provider.silent:
		return false, firstContent
	case down || w.random.Float64() < w.provider.errors:
		return false, w.between(20*time.Millisecond, 200*time.Millisecond)
	default:
		return true, w.between(300*time.Millisecond, 1500*time.Millisecond)
	}
}

func (w *world) between(a, b time.Duration) time.Duration {
	return a + time.Duration(w.random.Float64()*float64(b-a))
}

// environment is one Lambda environment: its own circuit, what it owes to the shared one, and a snapshot of that.
type environment struct {
	world   *world
	circuit breaker.Circuit
	owed    breaker.Owed
	readAt  time.Time
	reading bool
}

// request is one client request: the primary, once more if that is allowed, and then the fallback, which is not our
// concern here.
func (e *environment) request() {
	switch age := e.world.now.Sub(e.readAt); {
	case age > breaker.SnapshotFresh, e.circuit.Doubtful():
		e.read()
	case age > refreshAfter && !e.reading:
		e.reading = true
		e.world.after(readTakes, func() { e.reading = false; e.read() })
	}
	e.try(0)
}

// read takes over what the snapshot says. A circuit that it leaves out is plainly closed.
func (e *environment) read() {
	snapshot, _ := e.world.store.Snapshot(context.Background())
	entry, ok := snapshot[theKey.String()]
	shared := entry.Circuit
	if !ok {
		shared = breaker.Circuit{Version: e.circuit.Version}
		if e.circuit.State != breaker.Closed {
			shared.Version = 0
		}
	}
	e.adopt(shared)
	e.readAt = e.world.now
}

func (e *environment) adopt(shared breaker.Circuit) {
	if shared.State != e.circuit.State {
		e.owed = breaker.Owed{} // of another time
	}
	e.circuit = e.circuit.Adopt(shared)
}

// try calls the primary if its circuit lets it.
func (e *environment) try(retries int) {
	w := e.world
	if !e.circuit.Callable(w.now) {
		return
	}
	ask := breaker.Ask{FirstContent: firstContent}
	if e.circuit.State == breaker.Closed {
		e.circuit, _ = e.circuit.Next(ask, w.now, 0)
	} else {
		if !e.swap(ask) {
			return
		}
		w.probes++
		w.mostProbes = max(w.mostProbes, w.probes)
	}
	a := e.circuit.Attempt(w.now)
	ok, takes := w.outcome()
	w.calls = append(w.calls, call{began: w.now, ended: w.now.Add(takes)})
	w.after(takes, func() {
		if a.Lease != 0 {
			w.probes--
		}
		if ok {
			e.succeeded(a)
			return
		}
		e.failed(a)
		if e.circuit.State == breaker.Closed && retries < maxRetries && takes < firstContent {
			w.after(time.Duration(float64(baseBackoff)*(0.5+w.random.Float64())), func() { e.try(retries + 1) })
		}
	})
}

func (e *environment) succeeded(a breaker.Attempt) {
	w := e.world
	if a.Lease != 0 {
		e.swap(breaker.Success{Attempt: a})
		return
	}
	if e.circuit.State != breaker.Closed {
		return
	}
	e.circuit, _ = e.circuit.Next(breaker.Success{Attempt: a}, w.now, 0)
	e.owed = e.owed.Saw(w.now, 1, 0)
	if e.owed.Due(w.now, e.circuit.Watched(w.now)) {
		e.tell()
	}
}

// failed tells the store, whose answer decides.
func (e *environment) failed(a breaker.Attempt) {
	w := e.world
	f := breaker.Failure{Attempt: a, Class: fault.ServerError, Weight: 1}
	if a.Lease != 0 {
		e.swap(f)
		return
	}
	if e.circuit.State != breaker.Closed || !a.Began.After(e.circuit.OpenedAt) {
		return
	}
	watching := e.circuit.Watched(w.now)
	e.circuit = e.circuit.Count(f, w.now)
	e.owed = e.owed.Saw(w.now, 1, 1)
	if !watching {
		e.watch()
	}
	told := e.circuit.Version
	sum := e.tell()
	shared := e.circuit
	if shared.Version != told {
		return // replaced by others meanwhile: the sum is of another time
	}
	shared.Window = sum
	if next, changes := e.circuit.Returned(shared, f, w.now, w.random.Float64()); len(changes) > 0 {
		e.replace(shared.Version, next, changes)
	}
}

// watch makes the others tell of their successes.
func (e *environment) watch() {
	_, _ = e.world.store.Swap(context.Background(), theKey, e.circuit.Version, e.circuit, e.world.now)
}

// tell tells what is owed and returns the sum of all.
func (e *environment) tell() breaker.Window {
	var reported []breaker.Bucket
	e.owed, reported = e.owed.Tell(e.world.now)
	told, _ := e.world.store.Tell(context.Background(), theKey, e.circuit.Version, reported, e.world.now)
	if told.Successor != nil {
		e.adopt(*told.Successor)
	}
	return told.Window
}

// swap applies an event to the circuit as it is known and reports whether the store agreed.
func (e *environment) swap(ev breaker.Event) bool {
	next, changes := e.circuit.Next(ev, e.world.now, e.world.random.Float64())
	if next.Version == e.circuit.Version {
		return false
	}
	return e.replace(e.circuit.Version, next, changes)
}

func (e *environment) replace(old uint64, next breaker.Circuit, changes []breaker.Transition) bool {
	now, err := e.world.store.Swap(context.Background(), theKey, old, next, e.world.now)
	if err != nil {
		e.adopt(now)
		return false
	}
	e.world.changes = append(e.world.changes, changes...)
	if next.State != e.circuit.State {
		e.owed = breaker.Owed{}
	}
	e.circuit = next
	return true
}

var theKey = breaker.Key{Provider: "primary"}

// store is the shared store of one circuit, with DynamoDB's conduct: an atomic ADD that returns the sum, a conditional
// write on the version, a snapshot of what is not plainly closed.
type store struct {
	circuit breaker.Circuit
	windows map[uint64]breaker.Window
	now     func() time.Time
}

var _ breaker.Store = (*store)(nil)

func (s *store) Tell(_ context.Context, _ breaker.Key, version uint64, reported []breaker.Bucket, now time.Time) (breaker.Told, error) {
	s.windows[version] = s.windows[version].Merge(now, reported)
	told := breaker.Told{Window: s.windows[version]}
	if version != s.circuit.Version {
		told.Successor = &s.circuit
	}
	return told, nil
}

func (s *store) Swap(_ context.Context, _ breaker.Key, old uint64, next breaker.Circuit, _ time.Time) (breaker.Circuit, error) {
	if s.circuit.Version != old {
		return s.circuit, breaker.ErrChanged
	}
	if next.Version != old {
		s.windows[next.Version] = next.Window
	}
	s.circuit = next.Shared()
	return next, nil
}

func (s *store) Hold(context.Context, breaker.Key, breaker.Holds, time.Time) error { return nil }

func (s *store) Snapshot(context.Context) (breaker.Snapshot, error) {
	if s.circuit.Plain(s.now()) {
		return nil, nil
	}
	return breaker.Snapshot{theKey.String(): {Circuit: s.circuit}}, nil
}

// queue is a heap of events by time.
type queue struct {
	events    []event
	scheduled int
}

func (q *queue) Len() int { return len(q.events) }
func (q *queue) Less(i, j int) bool {
	a, b := q.events[i], q.events[j]
	if a.at.Equal(b.at) {
		return a.order < b.order
	}
	return a.at.Before(b.at)
}
func (q *queue) Swap(i, j int) { q.events[i], q.events[j] = q.events[j], q.events[i] }
func (q *queue) Push(x any)    { q.events = append(q.events, x.(event)) }
func (q *queue) Pop() any {
	last := q.events[len(q.events)-1]
	q.events = q.events[:len(q.events)-1]
	return last
}
