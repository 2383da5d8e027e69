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
func (m *Memory) List(_ context.Context, organization string, w Wanted) (Page, error) {
	order := func(a, b Job) int {
		if !w.OldestFirst {
			a, b = b, a
		}
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	}
	all := m.some(func(j Job) bool {
		return j.Organization == organization && w.Takes(j) && (w.After == nil || order(*w.After, j) < 0)
	}, order)
	if len(all) <= w.Limit {
		return Page{Jobs: all}, nil
	}
	return Page{Jobs: all[:w.Limit], More: true, Last: all[w.Limit-1].ID}, nil
}

// Open implements Store.
func (m *Memory) Open(_ context.Context, before time.Time, limit int) ([]Job, error) {
	all := m.some(func(j Job) bool { at := j.LookAt(); return !at.IsZero() && at.Before(before) },
		func(a, b Job) int { return cmp.Or(a.LookAt().Compare(b.LookAt()), cmp.Compare(a.ID, b.ID)) })
	return all[:min(limit, len(all))], nil
}

// some are the jobs that are meant, in an order.
func (m *Memory) some(is func(Job) bool, order func(a, b Job) int) []Job {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Job
	for _, j := range m.jobs {
		if is(j) {
			out = append(out, j)
		}
	}
	slices.SortFunc(out, order)
	return out
}
