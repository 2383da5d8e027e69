package idempotency

import (
	"context"
	"errors"
	"time"
)

// ErrLost says that a record is no longer the caller's: its owner is another, or it is gone.
var ErrLost = errors.New("the record has another owner")

// Store keeps the records. An implementation must be safe for concurrent use and linearizable for each key: of two callers
// that claim a key at the same time exactly one gets it. It must be durable when a method returns without an error. It
// must bound its waiting by the context and must not repeat a write by itself unless it knows that the first one was not
// applied. An error other than ErrLost means that the outcome is unknown: the caller reads.
type Store interface {
	// Claim writes the record if its key is free for it at now (Record.FreeFor) and then returns nil. Otherwise it must return the
	// record that stands there, as it was at the moment of the refusal or later, and write nothing.
	Claim(ctx context.Context, r Record, now time.Time) (*Record, error)
	// Get returns the record of a key as it is, also one past its time; nil: there is none. It must see every write
	// that was acknowledged before it began.
	Get(ctx context.Context, k Key) (*Record, error)
	// Renew sets InProgressUntil of a record that is in progress and the owner's; otherwise ErrLost.
	Renew(ctx context.Context, k Key, owner string, until time.Time) error
	// Complete stores the result of a record that is in progress and the owner's, for the retention from now on;
	// otherwise ErrLost. A Result with an Object must be written by the caller before.
	Complete(ctx context.Context, k Key, owner string, result Result, now time.Time) error
	// Release removes a record that is in progress and the owner's; otherwise ErrLost.
	Release(ctx context.Context, k Key, owner string) error
}

// Objects keeps bodies that are too large for a record. An object must be readable when Put returns. Put may overwrite an
// object of the same name: names hold the owner, so only its own execution does.
type Objects interface {
	Put(ctx context.Context, name, contentType string, body []byte) error
	// Get must fail when the object is larger than limit, in bytes.
	Get(ctx context.Context, name string, limit int64) ([]byte, error)
}
