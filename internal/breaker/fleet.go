package breaker

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// refreshAfter is the age at which a snapshot is read anew during an upstream call.
	refreshAfter = time.Second
	// defaultWait is the longest that planning waits for a snapshot that is too old (policy.md §6).
	defaultWait = 25 * time.Millisecond
	// defaultPatience bounds one call of the store. It is what a failed attempt may wait for the sum of all.
	defaultPatience = 250 * time.Millisecond
	// settling is how long a write of ours may be missing in a snapshot that is read eventually consistently.
	settling = 5 * time.Second
)

// Fleet keeps the circuits and holds of one environment in step with those of all the others. Without a Store it is a
// Memory. The zero value is ready; its fields must be set before use. It is safe for concurrent use. It starts goroutines
// only within a Visit, whose End waits for them.
//
// What it costs a request, in calls of the store that the request waits for: none while the snapshot is fresh and the
// providers are healthy; one read, at most 25 ms and beside other reads, when it is older than 5 s; one write for a
// failure; one write more when a circuit changes, and one for the lease of a probe. Everything else happens beside an upstream call. The store's errors
// change no answer: the environment's own circuits go on.
type Fleet struct {
	Own   Memory
	Store Store
	// Wait is the longest that a request waits for a snapshot that is too old; 0: 25 ms.
	Wait time.Duration
	// Patience bounds each call of the store; 0: 250 ms.
	Patience time.Duration
	// Lost is told of each call of the store that failed: "tell", "swap", "hold", "snapshot". nil: nobody is.
	Lost func(call string, err error)

	mu      sync.Mutex
	latest  Snapshot      // guarded by mu, read-only once set
	readAt  time.Time     // when the reading of latest began; guarded by mu
	number  uint64        // of the latest reading; guarded by mu
	reading chan struct{} // closed when the reading that is under way has ended; nil: none is. Guarded by mu
	doubt   bool          // a call failed since the latest reading began; guarded by mu
}

// Visit is one request's dealings with the fleet. It is used by one goroutine, and ended with End.
type Visit struct {
	fleet *Fleet
	ctx   context.Context
	ready <-chan struct{} // nil: nothing to wait for
	began time.Time
	work  sync.WaitGroup

	mu    sync.Mutex
	later []Transition // what changed beside the call; guarded by mu
}

// Begin opens a visit, and begins to read a snapshot that is older than a second: beside whatever the request does
// meanwhile. ctx ends the visit's calls of the store; the request's own end does not, since what it learned is for others.
func (f *Fleet) Begin(ctx context.Context, now time.Time) *Visit {
	v := &Visit{fleet: f, ctx: context.WithoutCancel(ctx), began: now}
	if f.Store == nil {
		return v
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	age := now.Sub(f.readAt)
	tooOld := age > SnapshotFresh || f.doubt
	if f.reading == nil && (tooOld || age > refreshAfter) {
		f.reading, f.doubt = make(chan struct{}), false
		v.work.Go(func() { f.read(v.ctx, now) })
	}
	if tooOld {
		v.ready = f.reading
	}
	return v
}

// Ready waits until the snapshot that the visit began to read is there, if the one before is too old to be used, and never
// longer than Fleet.Wait since Begin.
func (v *Visit) Ready() {
	if v.ready == nil {
		return
	}
	left := time.NewTimer(cmp.Or(v.fleet.Wait, defaultWait) - time.Since(v.began))
	defer left.Stop()
	select {
	case <-v.ready:
	case <-left.C:
	}
	v.ready = nil
}

// End waits for what the visit still has on its way, all of it at most for Fleet.Patience. The transitions that came of it
// are the caller's to emit.
func (v *Visit) End() []Transition {
	v.work.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.later
}

// read takes over a snapshot.
func (f *Fleet) read(ctx context.Context, began time.Time) {
	var s Snapshot
	err := f.call(ctx, "snapshot", func(ctx context.Context) (err error) {
		s, err = f.Store.Snapshot(ctx)
		return err
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.reading)
	f.reading = nil
	f.readAt = began // also when it failed: a store that is down is asked once a second, not by every request
	if err == nil {
		f.latest = s
		f.number++
	}
}

// patience bounds what one thing takes in the store, however many calls it is.
func (f *Fleet) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, cmp.Or(f.Patience, defaultPatience))
}

// call makes one bounded call of the store. ErrChanged is an answer, not an error.
func (f *Fleet) call(ctx context.Context, name string, do func(context.Context) error) error {
	ctx, cancel := f.patience(ctx)
	defer cancel()
	err := do(ctx)
	if err != nil && !errors.Is(err, ErrChanged) && f.Lost != nil {
		f.Lost(name, err)
	}
	return err
}

// Look says of each key whether it may be called, for planning. It takes no lease and waits for nothing.
func (v *Visit) Look(now time.Time, keys []Key) []View {
	m := &v.fleet.Own
	m.mu.Lock()
	defer m.mu.Unlock()
	views := make([]View, len(keys))
	for i, k := range keys {
		v.fleet.sync(now, k)
		views[i] = m.view(now, k)
	}
	return views
}

// Admit asks, right before a call, whether it may be made; see Memory.Admit. The lease of a probe is taken in the store,
// so that one environment has it; when the store does not answer it is this environment's own.
func (v *Visit) Admit(now time.Time, k Key, firstContent time.Duration) Permit {
	f, m := v.fleet, &v.fleet.Own
	m.mu.Lock()
	f.sync(now, k)
	e := m.kept[k]
	if view := m.view(now, k); f.Store == nil || e == nil || view.Reason != OK || view.State == Closed {
		defer m.mu.Unlock()
		return m.admit(now, k, firstContent)
	}
	known := e.circuit
	m.mu.Unlock()

	next, ts := known.Next(Ask{FirstContent: firstContent}, now, 0)
	changed, err := v.swap(v.ctx, k, known.Version, next, now)
	if errors.Is(err, ErrChanged) {
		f.adopt(now, k, changed)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e = m.entry(now, k); err != nil && (errors.Is(err, ErrChanged) || e != nil && e.circuit.Version != known.Version) {
		return m.outrun(now, k)
	}
	return m.lent(now, k, next, ts)
}

// outrun is the permit of a probe whose lease somebody else has taken, in this environment or another. Also when that
// probe has ended already: this request does not insist. The lock is held.
func (m *Memory) outrun(now time.Time, k Key) Permit {
	p := Permit{View: m.view(now, k), Began: now}
	if p.Reason == OK {
		p.Reason, p.Until = Probing, now
	}
	return p
}

// lent is the permit of a probe whose lease has been taken. The lock is held.
func (m *Memory) lent(now time.Time, k Key, leased Circuit, ts []Transition) Permit {
	p := Permit{View: View{Key: k, Reason: OK, State: leased.State}, Began: now, Allowed: true, Probe: true, Transitions: named(ts, k)}
	if e := m.entry(now, k); e != nil {
		if e.circuit.Version <= leased.Version {
			e.replace(leased, now)
		}
		p.LastClass = e.pulse.lastClass
	}
	p.call = &call{attempt: leased.Attempt(now)}
	return p
}

// Report tells what became of a permitted call; see Memory.Report. A failure is told to the store, and the sum of all
// that it returns decides: that is waited for, at most for Fleet.Patience. Everything else is told beside the call, and
// what it changes is returned by End.
func (v *Visit) Report(now time.Time, p Permit, o Outcome, random float64) []Transition {
	if v.fleet.Store == nil {
		return v.fleet.Own.Report(now, p, o, random)
	}
	told, ok := v.fleet.hear(now, p, o)
	if !ok {
		return nil
	}
	v.share(now, told)
	switch e := told.event.(type) {
	case Failure:
		if told.counted {
			return v.judge(now, p.Key, e, random)
		}
	case Success:
		if told.counted {
			v.tellLater(now, p.Key)
			return nil
		}
	}
	if _, failed := told.event.(Failure); failed && told.probe {
		v.work.Wait() // its own success comes first, where it broke later
		return v.move(now, p.Key, told.event, random)
	}
	if told.probe {
		v.work.Go(func() {
			ts := v.move(now, p.Key, told.event, random)
			v.mu.Lock()
			defer v.mu.Unlock()
			v.later = append(v.later, ts...)
		})
	}
	return nil
}

// heard is what an outcome means.
type heard struct {
	event Event
	// counted says that the outcome counts in a closed circuit, probe that the holder of a lease has judged its call.
	counted, probe bool
	// held is the key whose holds have changed to holds; heldChanged says that there is one.
	held        Key
	holds       Holds
	heldChanged bool
	// watch says that the failure began a watch.
	watch   bool
	key     Key
	circuit Circuit
}

// hear takes an outcome into the environment's own records, and leaves the judging of a failure open.
func (f *Fleet) hear(now time.Time, p Permit, o Outcome) (heard, bool) {
	m := &f.Own
	if !p.Allowed || p.call == nil {
		return heard{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.call.ended || (p.call.succeeded && o.Success) {
		return heard{}, false
	}
	h := heard{key: p.Key}
	h.held, h.holds, h.heldChanged = m.holdAnew(now, p, o)
	e := m.entry(now, p.Key)
	if e == nil {
		p.call.judged(o)
		return h, h.heldChanged
	}
	e.pulse = e.pulse.after(o, p.call.attempts(), now)
	if p.Began.Before(e.made) {
		p.call.attempt.Place = 0 // of an order that is forgotten
	}
	h.event, h.probe = p.call.event(o), p.call.attempt.Lease != 0
	attempts := p.call.attempts()
	p.call.judged(o)
	if e.circuit.State != Closed || stale(e.circuit, p.call.attempt) {
		return h, true
	}
	switch ev := h.event.(type) {
	case Failure:
		watching := e.circuit.Watched(now)
		e.circuit = e.circuit.Count(ev, now)
		e.owed = e.owed.Saw(now, attempts, ev.Weight)
		h.counted, h.watch, h.circuit = true, !watching, e.circuit
	case Success:
		e.circuit, _ = e.circuit.Next(ev, now, 0)
		e.owed = e.owed.Saw(now, attempts, 0)
		h.counted = true
	default:
		e.circuit, _ = e.circuit.Next(ev, now, 0)
	}
	f.doubtful(e)
	return h, true
}

// doubtful has the next visit read the snapshot when the latest call failed: the others may have opened the circuit.
func (f *Fleet) doubtful(e *entry) {
	if !e.circuit.Doubtful() {
		return
	}
	f.mu.Lock()
	f.doubt = true
	f.mu.Unlock()
}

// share tells the others of a hold that has changed and of a watch that has begun, beside the upstream call that follows.
// A crash before that leaves them without: the next refusal, or the next failure, tells them.
func (v *Visit) share(now time.Time, h heard) {
	f := v.fleet
	if h.heldChanged {
		v.work.Go(func() {
			if err := f.call(v.ctx, "hold", func(ctx context.Context) error { return f.Store.Hold(ctx, h.held, h.holds, now) }); err != nil {
				f.keepHold(h.held, h.holds)
			}
		})
	}
	if h.watch {
		v.work.Go(func() {
			if changed, err := v.swap(v.ctx, h.key, h.circuit.Version, h.circuit, now); errors.Is(err, ErrChanged) {
				f.adopt(now, h.key, changed)
			}
		})
	}
}

// keepHold keeps a hold that the store does not know of from being lifted by the next snapshot.
func (f *Fleet) keepHold(k Key, h Holds) {
	f.Own.mu.Lock()
	defer f.Own.mu.Unlock()
	if e := f.Own.kept[k]; e != nil {
		e.heldAt = h.end()
	}
}

// judge tells a counted failure, and judges by the sum. When the store does not answer, by the environment's own window.
func (v *Visit) judge(now time.Time, k Key, failure Failure, random float64) []Transition {
	m := &v.fleet.Own
	ctx, cancel := v.fleet.patience(v.ctx)
	defer cancel()
	version, sum, err := v.tell(ctx, now, k)
	m.mu.Lock()
	e := m.entry(now, k)
	if e == nil {
		m.mu.Unlock()
		return nil
	}
	known := e.circuit
	if err == nil && known.Version != version { // replaced by others meanwhile: the sum is of another time
		m.mu.Unlock()
		return nil
	}
	shared := known
	if err == nil {
		shared.Window = sum
	}
	next, ts := known.Returned(shared, failure, now, random)
	if len(ts) == 0 {
		m.mu.Unlock()
		return nil
	}
	if err != nil {
		e.replace(next, now)
		m.mu.Unlock()
		return named(ts, k)
	}
	m.mu.Unlock()
	return v.replaced(ctx, now, k, known.Version, next, ts)
}

// move applies a probe's verdict.
func (v *Visit) move(now time.Time, k Key, ev Event, random float64) []Transition {
	m := &v.fleet.Own
	m.mu.Lock()
	e := m.entry(now, k)
	if e == nil {
		m.mu.Unlock()
		return nil
	}
	known := e.circuit
	m.mu.Unlock()
	next, ts := known.Next(ev, now, random)
	if next.Version == known.Version {
		return nil
	}
	return v.replaced(v.ctx, now, k, known.Version, next, ts)
}

// replaced writes a circuit that has changed, here and in the store. Where somebody else has changed it meanwhile, theirs
// counts. Where the store does not answer, the change is this environment's own: the store's circuit goes on by its own
// times, a lease in it ends by itself.
func (v *Visit) replaced(ctx context.Context, now time.Time, k Key, old uint64, next Circuit, ts []Transition) []Transition {
	f, m := v.fleet, &v.fleet.Own
	changed, err := v.swap(ctx, k, old, next, now)
	if errors.Is(err, ErrChanged) {
		f.adopt(now, k, changed)
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(now, k)
	ours := e != nil && e.circuit.Version == old
	if ours {
		e.replace(next, now)
	}
	if err != nil && !ours { // another request of this environment was first
		return nil
	}
	return named(ts, k)
}

// swap is a bounded Swap. A store whose version is lower than the environment's own did not hear of the latest change,
// because it was down at that time: it gets this one instead.
func (v *Visit) swap(ctx context.Context, k Key, old uint64, next Circuit, now time.Time) (changed Circuit, err error) {
	ctx, cancel := v.fleet.patience(ctx)
	defer cancel()
	for range 2 {
		err = v.fleet.call(ctx, "swap", func(ctx context.Context) (err error) {
			changed, err = v.fleet.Store.Swap(ctx, k, old, next, now)
			return err
		})
		if !errors.Is(err, ErrChanged) || changed.Version >= old {
			break
		}
		old = changed.Version
	}
	return changed, err
}

// tell tells what the environment owes to a circuit, and returns the sum of all.
func (v *Visit) tell(ctx context.Context, now time.Time, k Key) (version uint64, sum Window, err error) {
	f, m := v.fleet, &v.fleet.Own
	m.mu.Lock()
	e := m.entry(now, k)
	if e == nil {
		m.mu.Unlock()
		return 0, Window{}, ErrChanged
	}
	var reported []Bucket
	e.owed, reported = e.owed.Tell(now)
	version = e.circuit.Version
	m.mu.Unlock()
	var told Told
	err = f.call(ctx, "tell", func(ctx context.Context) (err error) {
		told, err = f.Store.Tell(ctx, k, version, reported, now)
		return err
	})
	if err == nil && told.Successor != nil && told.Successor.Version > version {
		f.adopt(now, k, *told.Successor)
	}
	return version, told.Window, err
}

// tellLater tells the successes of a watched circuit, at most once per 5 s, beside the rest of the answer.
func (v *Visit) tellLater(now time.Time, k Key) {
	m := &v.fleet.Own
	m.mu.Lock()
	e := m.kept[k]
	due := e != nil && e.owed.Due(now, e.circuit.Watched(now))
	m.mu.Unlock()
	if due {
		v.work.Go(func() { _, _, _ = v.tell(v.ctx, now, k) })
	}
}

// sync takes over what the latest snapshot says of a key, once for each reading. The lock of the Memory is held.
func (f *Fleet) sync(now time.Time, k Key) {
	if f.Store == nil {
		return
	}
	f.mu.Lock()
	latest, number := f.latest, f.number
	f.mu.Unlock()
	for _, key := range [...]Key{k, k.Channel()} {
		e := f.Own.kept[key]
		if number == 0 || e == nil && len(latest) == 0 || e != nil && e.synced == number {
			continue
		}
		entry, known := latest[key.String()]
		if e == nil && !known {
			continue
		}
		if e = f.Own.entry(now, key); e != nil {
			e.synced = number
			e.adopt(entry, now)
		}
	}
}

// adopt takes over a circuit that somebody else has changed.
func (f *Fleet) adopt(now time.Time, k Key, shared Circuit) {
	f.Own.mu.Lock()
	defer f.Own.mu.Unlock()
	if e := f.Own.entry(now, k); e != nil && !e.ahead(shared, now) {
		e.adoptCircuit(shared, now)
	}
}

// ahead reports whether a shared circuit is the past: its version is lower than the environment's own, and that is not so
// old that the store may have forgotten it.
func (e *entry) ahead(shared Circuit, now time.Time) bool {
	return shared.Version < e.circuit.Version && now.Sub(e.changed) < ForgetAfter/2
}

// adopt takes over what a snapshot says. It may be older than what the environment has done itself; a hold of its own
// counts until the snapshot had time to show it.
func (e *entry) adopt(shared Entry, now time.Time) {
	if !e.ahead(shared.Circuit, now) {
		e.adoptCircuit(shared.Circuit, now)
	}
	if now.Sub(e.heldAt) > settling {
		refused := e.holds.refusedAt
		e.holds = shared.Holds
		e.holds.refusedAt = refused
	}
}

func (e *entry) adoptCircuit(shared Circuit, now time.Time) {
	before := e.circuit
	e.circuit = before.Adopt(shared)
	if e.circuit.Version != before.Version || e.circuit.State != before.State {
		e.changed, e.owed = now, Owed{} // what was owed is of another time
	}
}

// replace sets a circuit that this environment has changed.
func (e *entry) replace(c Circuit, now time.Time) {
	if c.State != e.circuit.State {
		e.owed = Owed{}
	}
	e.circuit, e.changed = c, now
}

// named gives transitions their key.
func named(ts []Transition, k Key) []Transition {
	for i := range ts {
		ts[i].Key = k
	}
	return ts
}
