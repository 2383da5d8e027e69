package media

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// Memory is a Store for one process. The zero value is ready.
type Memory struct {
	mu   sync.Mutex
	jobs map[string]Job // by id, guarded by mu
}

var _ Store = (*Memory)(nil)

// Create implements Store.
func (m *Memory) Create(_ context.Context, j Job) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.jobs[j.ID]; ok {
		return ErrChanged
	}
	if m.jobs == nil {
		m.jobs = map[string]Job{}
	}
	m.jobs[j.ID] = j
	return nil
}

// Get implements Store.
func (m *Memory) Get(_ context.Context, organization, id string) (*Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j, ok := m.jobs[id]
	if !ok || j.Organization != organization {
		return nil, nil
	}
	return &j, nil
}

// Replace implements Store.
func (m *Memory) Replace(_ context.Context, next Job) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j, ok := m.jobs[next.ID]; !ok || j.Version+1 != next.Version || j.Organization != next.Organization {
		return ErrChanged
	}
	m.jobs[next.ID] = next
	return nil
}

// List implements Store.
func (m *Memory) List(_ context.Context, organization string, s State, limit int) ([]Job, error) {
	return m.some(limit, func(j Job) bool { return j.Organization == organization && (s == "" || j.State == s) },
		func(a, b Job) int { return b.CreatedAt.Compare(a.CreatedAt) }), nil
}

// Open implements Store.
func (m *Memory) Open(_ context.Context, before time.Time, limit int) ([]Job, error) {
	return m.some(limit, func(j Job) bool { at := j.LookAt(); return !at.IsZero() && at.Before(before) },
		func(a, b Job) int { return a.LookAt().Compare(b.LookAt()) }), nil
}

// some are the jobs that are meant, in an order.
func (m *Memory) some(limit int, is func(Job) bool, order func(a, b Job) int) []Job {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Job
	for _, j := range m.jobs {
		if is(j) {
			out = append(out, j)
		}
	}
	slices.SortFunc(out, func(a, b Job) int {
		return cmp.Or(order(a, b), cmp.Compare(a.ID, b.ID))
	})
	return out[:min(limit, len(out))]
}
