package retry

import "sync"

// The reasons of empty buckets (contract.md §3.7).
const (
	// QuotaEmpty: the route's retries are used up for now; only a fallback is left.
	QuotaEmpty Reason = "retry_quota_empty"
	// ShareEmpty: the route has moved to fallbacks too often for now.
	ShareEmpty Reason = "fallback_share_empty"
)

const (
	// bucketSize is what a bucket holds, and begins with.
	bucketSize = 10
	// perSuccess is what a success gives back to the retries.
	perSuccess = 0.2
	// maxTenants bounds the memory; beyond it only buckets that are not full are kept.
	maxTenants = 4096
)

// Tenant is whose incident it is: one organization on one route. Another tenant's buckets are untouched by it.
type Tenant struct{ Organization, Route string }

// Buckets are a tenant's allowances. The zero value is not ready; Full is the start.
type Buckets struct {
	// Retries pays for calls of the same candidate, Moves for moves to a fallback after a failed attempt.
	Retries, Moves float64
}

// Full are untouched buckets.
func Full() Buckets { return Buckets{Retries: bucketSize, Moves: bucketSize} }

// Requested is after an own request: it may fall back once more.
func (b Buckets) Requested() Buckets {
	b.Moves = min(b.Moves+1, bucketSize)
	return b
}

// Succeeded is after an own success.
func (b Buckets) Succeeded() Buckets {
	b.Retries = min(b.Retries+perSuccess, bucketSize)
	return b
}

// Retried is after a retry.
func (b Buckets) Retried() Buckets {
	b.Retries = max(b.Retries-1, 0)
	return b
}

// Moved is after a move to a fallback.
func (b Buckets) Moved() Buckets {
	b.Moves = max(b.Moves-1, 0)
	return b
}

// NoRetries and NoMoves report whether a bucket cannot pay for one more.
func (b Buckets) NoRetries() bool { return b.Retries < 1 }

// NoMoves reports whether no move to a fallback can be paid for.
func (b Buckets) NoMoves() bool { return b.Moves < 1 }

// Shares keeps the buckets of all tenants of one environment, in memory: nothing is written, and the sum over the
// environments keeps the promise. The zero value is ready. It is safe for concurrent use.
type Shares struct {
	mu      sync.Mutex
	tenants map[Tenant]Buckets // absent: full
}

// Of are a tenant's buckets now.
func (s *Shares) Of(t Tenant) Buckets {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(t)
}

// Change replaces a tenant's buckets by what change makes of them, such as Buckets.Retried.
func (s *Shares) Change(t Tenant, change func(Buckets) Buckets) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := change(s.of(t))
	if b == Full() {
		delete(s.tenants, t)
		return
	}
	if s.tenants == nil {
		s.tenants = map[Tenant]Buckets{}
	}
	if _, known := s.tenants[t]; known || len(s.tenants) < maxTenants {
		s.tenants[t] = b
	}
}

func (s *Shares) of(t Tenant) Buckets {
	if b, ok := s.tenants[t]; ok {
		return b
	}
	return Full()
}
