package ledger

import (
	"context"
	"errors"
	"time"
)

// ErrChanged says that an entry is no longer the one that was decided upon.
var ErrChanged = errors.New("the entry has changed")

// Store keeps the entries. An implementation must be safe for concurrent use and linearizable for each key: of two callers
// that swap the same version exactly one succeeds. It must be durable when Swap returns without an error. It must bound its
// waiting by the context and must not repeat a write by itself unless it knows that the first one was not applied. An
// error other than ErrChanged means that the outcome is unknown: the caller reads.
type Store interface {
	// Get returns the entry of a key as it is, also one past its time; nil: there is none. It must see every write
	// that was acknowledged before it began.
	Get(ctx context.Context, k Key) (*Entry, error)
	// Swap writes an entry in the place of one of the version before it: of version 1, where there is none. Otherwise it
	// must write nothing and return ErrChanged.
	Swap(ctx context.Context, e Entry) error
}

// turns bounds how often a saying is decided anew because somebody else was faster, or a write's outcome is unknown.
const turns = 4

// Say decides and writes what is said of a tool call. An error means that the outcome is unknown or that nothing was
// written; saying the same again is safe.
//
// A crash after the write leaves the entry as it was written, and the caller without an answer: it says the same again, and
// a success that was stored is its result then.
func Say(ctx context.Context, store Store, k Key, s Said, now time.Time) (Decision, error) {
	var lost error
	for range turns {
		there, err := store.Get(ctx, k)
		if err != nil {
			return Decision{}, errors.Join(err, lost)
		}
		d := Decide(k, there, s, now)
		if !d.Write {
			return d, nil
		}
		if err = store.Swap(ctx, d.Entry); err == nil {
			return d, nil
		}
		if !errors.Is(err, ErrChanged) {
			lost = err
		}
	}
	return Decision{}, errors.Join(errors.New("the entry changes too fast"), lost)
}
