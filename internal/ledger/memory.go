package ledger

import (
	"context"
	"sync"
)

// Memory is a Store for one process: tests, and a stack without a table. The zero value is ready.
type Memory struct {
	mu      sync.Mutex
	entries map[Key]Entry // guarded by mu
}

var _ Store = (*Memory)(nil)

// Get implements Store.
func (m *Memory) Get(_ context.Context, k Key) (*Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.entries[k]; ok {
		return &e, nil
	}
	return nil, nil
}

// Swap implements Store.
func (m *Memory) Swap(_ context.Context, e Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entries[e.Key].Version != e.Version-1 {
		return ErrChanged
	}
	if m.entries == nil {
		m.entries = map[Key]Entry{}
	}
	m.entries[e.Key] = e
	return nil
}
