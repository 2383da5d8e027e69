package idempotency

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// MaxItem is the size that a DynamoDB item may have, in bytes
// (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html, 2026-11-30): UTF-8 bytes of names and values.
const MaxItem = 409_600

// Memory is a Store for one process: tests, and a stack without a table. It enforces what the table would. The zero value
// is ready.
type Memory struct {
	mu      sync.Mutex
	records map[Key]Record // guarded by mu
}

var _ Store = (*Memory)(nil)

// Claim implements Store.
func (m *Memory) Claim(_ context.Context, r Record, now time.Time) (*Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if there, ok := m.records[r.Key]; ok && !there.FreeFor(r.Fingerprint, now) {
		return &there, nil
	}
	if m.records == nil {
		m.records = map[Key]Record{}
	}
	m.records[r.Key] = r
	return nil, nil
}

// Get implements Store.
func (m *Memory) Get(_ context.Context, k Key) (*Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.records[k]; ok {
		return &r, nil
	}
	return nil, nil
}

// Renew implements Store.
func (m *Memory) Renew(_ context.Context, k Key, owner string, until time.Time) error {
	return m.change(k, owner, func(r *Record) error {
		r.InProgressUntil = until
		return nil
	})
}

// Complete implements Store.
func (m *Memory) Complete(_ context.Context, k Key, owner string, result Result, now time.Time) error {
	return m.change(k, owner, func(r *Record) error {
		if n := result.itemSize(); n > MaxItem {
			return fmt.Errorf("storing the result: an item of %d bytes is larger than %d", n, MaxItem)
		}
		r.Status, r.Result, r.ExpiresAt = Completed, &result, now.Add(Retention)
		return nil
	})
}

// Release implements Store.
func (m *Memory) Release(_ context.Context, k Key, owner string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.records[k]; !ok || r.Status != InProgress || r.Owner != owner {
		return ErrLost
	}
	delete(m.records, k)
	return nil
}

func (m *Memory) change(k Key, owner string, set func(*Record) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.records[k]
	if !ok || r.Status != InProgress || r.Owner != owner {
		return ErrLost
	}
	if err := set(&r); err != nil {
		return err
	}
	m.records[k] = r
	return nil
}

// itemSize is a low estimate of what the result adds to an item.
func (r *Result) itemSize() int {
	n := len(r.Body)
	for name, value := range r.Header {
		n += len(name) + len(value)
	}
	return n
}
