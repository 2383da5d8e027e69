package trace

import (
	"context"
	"sync"
)

// remembered is how many traces a Memory holds.
const remembered = 1000

// Memory is a Store for one process: tests, and a stack without a table. It holds the latest thousand. The zero value is
// ready.
type Memory struct {
	mu     sync.Mutex
	traces map[Key]Trace // guarded by mu
	order  []Key         // as they were first written; guarded by mu
}

var _ Store = (*Memory)(nil)

// Put implements Store.
func (m *Memory) Put(_ context.Context, organization string, t Trace) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.traces == nil {
		m.traces = map[Key]Trace{}
	}
	k := Key{organization, t.RequestID}
	if _, ok := m.traces[k]; !ok {
		m.order = append(m.order, k)
	}
	m.traces[k] = t
	if len(m.order) > remembered {
		delete(m.traces, m.order[0])
		m.order = append(m.order[:0], m.order[1:]...)
	}
	return nil
}

// Get implements Store.
func (m *Memory) Get(_ context.Context, k Key) (*Trace, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t, ok := m.traces[k]; ok {
		return &t, nil
	}
	return nil, nil
}
