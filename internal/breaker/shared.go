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

// Store keeps the circuits that several environments share. An implementation must be safe for concurrent use, must bound
// its own waiting, and must not retry by itself: the caller's request goes on without it. An error leaves the caller with
// the circuit it knows (a store that is down fails open). Whether a write that failed was applied may stay unknown: a
// report told twice counts twice, within one window; a circuit replaced unknowingly is found out by the next ErrChanged.
//
// Memory needs none. A shared one counts through Owed and Tell, judges what Tell returns with Circuit.Judge, and replaces
// circuits with Swap; the simulation runs exactly this.
type Store interface {
	// Tell adds the buckets to the circuit's window, as Circuit.Merge does, and returns the circuit with the sum. Each
	// bucket must be added atomically; the buckets of two callers may interleave.
	Tell(ctx context.Context, k Key, reported []Bucket, now time.Time) (Circuit, error)
	// Swap replaces the circuit if its version is still old, and otherwise returns ErrChanged with the circuit as it
	// is. It must be linearizable: of two callers with the same old version one wins. The window of the replaced
	// circuit must be lost with it.
	Swap(ctx context.Context, k Key, old uint64, next Circuit) (Circuit, error)
	// Snapshot returns the circuits that are not plainly closed. It may be some seconds behind.
	Snapshot(ctx context.Context) (map[Key]Circuit, error)
}

// Merge is the circuit after a report: what a store's atomic ADD makes of it. It judges nothing.
func (c Circuit) Merge(reported []Bucket, now time.Time) Circuit {
	c.Window = c.Window.Merge(now, reported)
	for _, b := range reported {
		if b.Weight > 0 {
			return c.watched(now)
		}
	}
	return c
}

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
	if shared.Version == own.Version && shared.State == own.State {
		own.WatchUntil = shared.WatchUntil
		return own
	}
	shared.Window, shared.order = Window{}, own.order.forget()
	if own.OpenedAt.After(shared.OpenedAt) {
		shared.OpenedAt = own.OpenedAt
	}
	return shared
}

// Returned is the shared circuit as a Tell returned it, judged with the environment's own order of calls: the sum of all
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
