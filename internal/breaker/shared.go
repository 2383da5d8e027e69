package breaker

import (
	"context"
	"errors"
	"time"
)

const (
	// SnapshotFresh is how old a snapshot may be to be used as it is (policy.md §6).
	SnapshotFresh = 5 * time.Second
	// reportEvery is how often an environment that sees only successes tells of them while a circuit is watched.
	reportEvery = 5 * time.Second
)

// ErrChanged says that a circuit was not replaced because its version had moved on.
var ErrChanged = errors.New("the circuit has changed meanwhile")

// Entry is what a store knows of one key. The zero value is a plainly closed circuit and no hold.
type Entry struct {
	Circuit Circuit
	Holds   Holds
}

// Snapshot is what a store knows, by Key.String. What it leaves out is plainly closed and not held.
type Snapshot map[string]Entry

// Told is the answer to a report.
type Told struct {
	// Window is the sum of all.
	Window Window
	// Successor is the circuit that has replaced the version that was told of; nil: none is known to have.
	Successor *Circuit
}

// Store keeps the circuits and holds that several environments share. An implementation must be safe for concurrent use,
// must bound its own waiting by the context, and must not repeat a write by itself: the caller's request goes on without
// it. An error leaves the caller with what it knows (a store that is down fails open). Whether a write that failed was
// applied may stay unknown: a report told twice counts twice, within one window; a circuit replaced unknowingly is found
// out by the next ErrChanged.
//
// A circuit's window and its state are kept apart: a window belongs to one version of the circuit, so that a change of
// state begins an empty one without another write.
type Store interface {
	// Tell adds the buckets to the window of one version of the circuit and returns the sum. Each bucket must be added
	// atomically; the buckets of two callers may interleave. Buckets that are older than a window may be dropped. Who
	// tells of a version that a Swap has replaced should be told so: it spares a call of a failing provider.
	Tell(ctx context.Context, k Key, version uint64, reported []Bucket, now time.Time) (Told, error)
	// Swap replaces the circuit if its version is still old, and otherwise returns ErrChanged with the circuit as it
	// is, or the zero value where that cannot be read. It must be linearizable: of two callers with the same old version one wins. The window of next must be
	// that of its version from then on. A circuit that the store does not know has version 0.
	Swap(ctx context.Context, k Key, old uint64, next Circuit, now time.Time) (Circuit, error)
	// Hold replaces the holds of a key, whoever wrote them; the zero value lifts them.
	Hold(ctx context.Context, k Key, h Holds, now time.Time) error
	// Snapshot returns what is not plainly closed, or held. It may be some seconds behind. A closed circuit must stay in
	// it for ForgetAfter after its last change, so that nobody takes an old version for a new one.
	Snapshot(ctx context.Context) (Snapshot, error)
}

// Shared is the part of a circuit that a store keeps beside its window.
func (c Circuit) Shared() Circuit {
	c.Window, c.order = Window{}, order{}
	return c
}

// Shared is the part of the holds that a store keeps.
func (h Holds) Shared() Holds {
	h.refusedAt = time.Time{}
	return h
}

// ForgetAfter is how long after its last change a closed circuit is forgotten by a store, and with it its version.
const ForgetAfter = 10 * time.Minute

// Watched reports whether a failure has made the environments report their successes.
func (c Circuit) Watched(now time.Time) bool { return now.Before(c.WatchUntil) }

// Doubtful reports whether the latest call this environment knows of, by when it began, failed. Then it reads the snapshot
// before the next call, whatever its age: the others may have opened the circuit by now.
func (c Circuit) Doubtful() bool { return c.order.doubtful() }

// Plain reports whether a snapshot leaves the circuit out.
func (c Circuit) Plain(now time.Time) bool { return c.State == Closed && !c.Watched(now) }

// Adopt is an environment's circuit after it has seen the shared one. A state that has changed replaces its own, and what
// it had counted in the old one with it; otherwise its own counting goes on. The latest opening is never forgotten, also
// not when the shared circuit is plainly closed and says nothing of it.
func (c Circuit) Adopt(shared Circuit) Circuit {
	own := c
	if own.agrees(shared) {
		own.WatchUntil = shared.WatchUntil
		return own
	}
	shared.Window, shared.order = Window{}, own.order.forget()
	if own.OpenedAt.After(shared.OpenedAt) {
		shared.OpenedAt = own.OpenedAt
	}
	return shared
}

// agrees reports whether a shared circuit is this one. Two environments that could not reach the store may each have made
// a circuit of one version.
func (c Circuit) agrees(shared Circuit) bool {
	return shared.Version == c.Version && shared.State == c.State && shared.Lease.Number == c.Lease.Number && (c.State != Open || shared.Until.Equal(c.Until))
}

// Returned is the circuit with the window that a Tell returned, judged with the environment's own order of calls: the sum of all
// for rule (a), what this environment saw for rule (b).
func (c Circuit) Returned(shared Circuit, f Failure, now time.Time, random float64) (Circuit, []Transition) {
	shared.order = c.order
	return shared.Judge(f, now, random)
}

// Owed is what an environment has seen of a shared circuit and not told yet. The zero value owes nothing.
type Owed struct {
	window Window
	toldAt time.Time
}

// Saw notes an attempt, judged now.
func (o Owed) Saw(now time.Time, attempts int, weight float64) Owed {
	o.window = o.window.Add(now, attempts, weight)
	return o
}

// Due reports whether successes are to be told now: only of a watched circuit, and at most once per 5 s. A failure is
// told at once and asks nobody.
func (o Owed) Due(now time.Time, watched bool) bool {
	return watched && now.Sub(o.toldAt) >= reportEvery && len(o.window.Buckets(now)) > 0
}

// Tell is what is owed, each attempt in the bucket in which it happened, and the account after that. What is older than
// the window is dropped. Where the telling fails, it is lost: the next report tells of what follows.
func (o Owed) Tell(now time.Time) (Owed, []Bucket) {
	return Owed{toldAt: now}, o.window.Buckets(now)
}
