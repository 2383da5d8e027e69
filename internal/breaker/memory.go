package breaker

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"spillway/internal/fault"
)

// defaultMax is how many keys a Memory keeps unless told otherwise, at about 1 KB each.
const defaultMax = 1024

// Memory keeps the circuits and holds of one environment. The zero value is ready. It is safe for concurrent use, starts
// no goroutine, does no I/O, and holds its lock for a few map look-ups.
//
// Times passed to it must not run backwards by much; a wall clock is fine.
type Memory struct {
	// Max is how many keys are kept; 0: 1024. When it is reached a key that is plainly closed makes room, the one unused
	// for longest. Where none is, the new key goes unrecorded and its calls are let through. Set it before use.
	Max int

	mu   sync.Mutex
	kept map[Key]*entry // guarded by mu, as is what it points to
}

// entry is what is known of one key. The key of a channel has holds only.
type entry struct {
	circuit Circuit
	holds   Holds
	pulse   pulse
	made    time.Time
	used    time.Time

	// Of a Fleet: what the store has not been told yet, the number of the reading of the snapshot that has been taken
	// over, when the circuit's version was changed or adopted, and when the holds were changed here.
	owed    Owed
	synced  uint64
	changed time.Time
	heldAt  time.Time
}

// View is what is known of one key at one moment.
type View struct {
	Key   Key
	State State
	// Reason is OK when the candidate may be called.
	Reason Reason
	// Until ends what Reason says: the probe time, the end of the running probe's lease, or the end of the hold. Zero
	// for OK.
	Until time.Time
	// LastClass is the latest failure's, and where only others saw one that of the opening; empty: none was seen.
	LastClass fault.Class
	// Remembered is set when the candidate keeps its place and is answered from memory.
	Remembered *Remembered
}

// Skip reports whether the candidate is to be left out: neither called nor answered from memory.
func (v View) Skip() bool { return v.Reason != OK && v.Remembered == nil }

// Permit is the answer to Admit. A permit that allows a call must be reported, even when the call is never made (as an
// outcome of weight 0): until then a probe keeps others away, though no longer than its lease. The zero value allows
// nothing.
type Permit struct {
	// View says why not, when the call is not allowed.
	View
	Allowed bool
	// Probe says that the call is the one that is let through to find out. It must not be repeated.
	Probe bool
	Began time.Time
	// Transitions are what taking the lease changed: the caller's to emit.
	Transitions []Transition

	call *call
}

// call is what has been reported of an attempt. It is guarded by the Memory's lock.
type call struct {
	attempt   Attempt
	succeeded bool
	ended     bool // nothing more is heard
}

// Look says of each key whether it may be called, for planning. It takes no lease and waits for nothing.
func (m *Memory) Look(now time.Time, keys []Key) []View {
	m.mu.Lock()
	defer m.mu.Unlock()
	views := make([]View, len(keys))
	for i, k := range keys {
		views[i] = m.view(now, k)
	}
	return views
}

// Admit asks, right before a call, whether it may be made; firstContent is how long it may take to its first content. Of
// a circuit whose probe is due it takes the lease.
func (m *Memory) Admit(now time.Time, k Key, firstContent time.Duration) Permit {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.admit(now, k, firstContent)
}

// admit is Admit with the lock held.
func (m *Memory) admit(now time.Time, k Key, firstContent time.Duration) Permit {
	p := Permit{View: m.view(now, k), Began: now}
	if p.Reason != OK {
		return p
	}
	p.Allowed, p.call = true, &call{attempt: Attempt{Began: now}}
	if e := m.entry(now, k); e != nil {
		e.circuit, p.Transitions = e.circuit.Next(Ask{FirstContent: firstContent}, now, 0)
		p.Transitions = named(p.Transitions, k)
		p.call.attempt = e.circuit.Attempt(now)
		p.State, p.Probe = e.circuit.State, e.circuit.State != Closed
	}
	return p
}

// Report tells what became of a permitted call. A call is reported when it is judged: at its first content or whole
// answer as a success, or as a failure. After a success a failure may follow, of a stream that broke later; it weighs the
// same, and the attempt is not counted again. Anything beyond that is ignored. random is in [0, 1).
//
// The transitions are the caller's to emit. One to Open ends the request's own retries of the candidate.
func (m *Memory) Report(now time.Time, p Permit, o Outcome, random float64) []Transition {
	if !p.Allowed || p.call == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.call.ended || (p.call.succeeded && o.Success) {
		return nil
	}
	m.holdAnew(now, p, o)
	e := m.entry(now, p.Key)
	if e == nil {
		return nil
	}
	e.pulse = e.pulse.after(o, p.call.attempts(), now)
	if p.Began.Before(e.made) {
		p.call.attempt.Place = 0 // of an order that is forgotten
	}
	var ts []Transition
	e.circuit, ts = e.circuit.Next(p.call.event(o), now, random)
	p.call.judged(o)
	return named(ts, p.Key)
}

// event is the outcome in the circuit's words.
func (c *call) event(o Outcome) Event {
	switch {
	case o.Success:
		return Success{c.attempt}
	case o.weight() > 0:
		return Failure{Attempt: c.attempt, Class: o.Class, Weight: o.weight(), Hint: o.hinted(), AfterContent: c.succeeded}
	default:
		return NoVerdict{c.attempt}
	}
}

// attempts is what the next outcome counts as: an attempt counts once.
func (c *call) attempts() int {
	if c.succeeded {
		return 0
	}
	return 1
}

func (c *call) judged(o Outcome) {
	c.succeeded = c.succeeded || o.Success
	c.ended = !o.Success
}

// holdAnew keeps what an outcome says of the credential or the channel, and reports the holds that have changed by it.
func (m *Memory) holdAnew(now time.Time, p Permit, o Outcome) (k Key, h Holds, changed bool) {
	k = p.Key
	if o.Hold == fault.Remember {
		k = heldKey(p.Key, o.Class)
	}
	e := m.entry(now, k)
	if e == nil {
		return k, h, false
	}
	before := e.holds
	e.holds = before.After(o, p.Began, now)
	changed = e.holds.ThrottledUntil != before.ThrottledUntil || e.holds.Remembered != before.Remembered
	if changed {
		e.heldAt = now
	}
	return k, e.holds, changed
}

// view looks at one key. A remembered answer comes first: a refused key must not hide behind an open circuit and the
// fallback that follows it. Of a circuit and a throttle the later end counts.
func (m *Memory) view(now time.Time, k Key) View {
	v := View{Key: k, Reason: OK}
	if channel := m.kept[k.Channel()]; channel != nil {
		v = v.remembering(channel.holds, now)
	}
	e := m.kept[k]
	if e == nil {
		return v
	}
	v.State = e.circuit.State
	if v.Remembered == nil {
		v.LastClass = cmp.Or(e.pulse.lastClass, e.circuit.Class) // another environment may have seen the failures
		v = v.skipping(e, now)
	}
	return v.remembering(e.holds, now)
}

func (v View) skipping(e *entry, now time.Time) View {
	if e.holds.Throttled(now) {
		v.Reason, v.Until = Throttled, e.holds.ThrottledUntil
	}
	if e.circuit.Callable(now) {
		return v
	}
	until := e.circuit.Until
	v.Reason = IsOpen
	if v.State == HalfOpen {
		v.Reason, until = Probing, e.circuit.Lease.Until
	}
	if until.After(v.Until) {
		v.Until = until
	}
	return v
}

func (v View) remembering(h Holds, now time.Time) View {
	if !h.Answers(now) {
		return v
	}
	r := h.Remembered
	v.Remembered, v.Reason, v.Until, v.LastClass = &r, r.Reason(), r.Until, r.Class
	return v
}

// Snapshot lists what is known of every key, sorted by key, for operators.
func (m *Memory) Snapshot(now time.Time) []Health {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]Health, 0, len(m.kept))
	for k, e := range m.kept {
		v := m.view(now, k)
		attempts, failures := e.pulse.window.Sum(now)
		out = append(out, Health{Key: k, State: v.State, Reason: v.Reason, Until: v.Until, Attempts: attempts, Failures: int(failures),
			LastClass: v.LastClass, LastError: e.pulse.lastError, ConsecutiveOpens: e.circuit.Opens})
	}
	slices.SortFunc(out, func(a, b Health) int { return cmp.Compare(a.Key.String(), b.Key.String()) })
	return out
}

// entry is the key's entry, made if there is room for it; nil when there is none.
func (m *Memory) entry(now time.Time, k Key) *entry {
	e := m.kept[k]
	if e == nil {
		if !m.room(now) {
			return nil
		}
		e = &entry{made: now}
		m.kept[k] = e
	}
	e.used = now
	return e
}

// room makes room for one more key and reports whether there is any.
func (m *Memory) room(now time.Time) bool {
	if m.kept == nil {
		m.kept = map[Key]*entry{}
	}
	if len(m.kept) < cmp.Or(m.Max, defaultMax) {
		return true
	}
	var victim Key
	var oldest *entry
	for k, e := range m.kept {
		if e.plain(now) && (oldest == nil || e.used.Before(oldest.used)) {
			victim, oldest = k, e
		}
	}
	if oldest == nil {
		return false
	}
	delete(m.kept, victim)
	return true
}

// plain reports whether forgetting the entry changes no decision: closed, not held, and no failure in its window.
func (e *entry) plain(now time.Time) bool {
	_, weight := e.circuit.Window.Sum(now)
	return e.circuit.State == Closed && weight == 0 && e.holds.None(now)
}
