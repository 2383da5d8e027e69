package breaker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"spillway/internal/breaker"
	"spillway/internal/storetest"
)

// laggard shows in its snapshots, for as long as it lags, what was there when that began.
type laggard struct {
	storetest.Health
	mu   sync.Mutex
	seen breaker.Snapshot // nil: it does not lag
}

func (s *laggard) Snapshot(ctx context.Context) (breaker.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen != nil {
		return s.seen, nil
	}
	return s.Health.Snapshot(ctx)
}

func (s *laggard) lag(t *rapid.T) {
	now, err := s.Health.Snapshot(t.Context())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen != nil || err != nil {
		s.seen = nil
		return
	}
	s.seen = now
}

// probe is a probe on its way.
type probe struct {
	visit  *breaker.Visit
	fleet  int
	permit breaker.Permit
	until  time.Time // the end of its lease
}

// TestNeverTwoLiveLeases throws calls, verdicts, operators' orders and time at several environments over one store. While
// the store answers, and also while it does what it is told and says otherwise, one probe at a time is made by all of
// them; when it is down, by each.
func TestNeverTwoLiveLeases(t *testing.T) {
	broken := errors.New("the store is down")
	for name, mode := range map[string]struct {
		hook   func(string) (bool, error)
		shared bool
	}{
		"the store answers":                       {shared: true},
		"everything is applied and denied":        {hook: func(string) (bool, error) { return true, broken }, shared: true},
		"nothing is applied: one of each at most": {hook: func(string) (bool, error) { return false, broken }},
	} {
		t.Run(name, func(t *testing.T) {
			probed := 0
			rapid.Check(t, func(t *rapid.T) {
				store := &laggard{}
				store.Hook = mode.hook
				all := environments(rapid.IntRange(2, 4).Draw(t, "environments"), store)
				now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
				var pending []probe
				ended := func(i int) { pending = append(pending[:i:i], pending[i+1:]...) }
				call := func() {
					i := rapid.IntRange(0, len(all)-1).Draw(t, "environment")
					v := all[i].Begin(t.Context(), now)
					v.End() // the snapshot is there
					const firstContent = 10 * time.Second
					p := v.Admit(now, fleetKey, firstContent)
					if !p.Allowed {
						return
					}
					made := probe{visit: v, fleet: i, permit: p}
					if p.Probe {
						probed++
						made.until = now.Add(firstContent + 15*time.Second)
						for _, other := range pending {
							if other.permit.Probe && (mode.shared || other.fleet == i) {
								assert.False(t, now.Before(other.until), "a lease is live until %s, and another is given at %s", other.until, now)
							}
						}
					}
					pending = append(pending, made)
				}
				for range rapid.IntRange(20, 120).Draw(t, "steps") {
					switch action := rapid.IntRange(0, 9).Draw(t, "action"); {
					case action == 0:
						now = now.Add(time.Duration(rapid.Int64Range(1, 40_000).Draw(t, "ms")) * time.Millisecond)
					case action == 1 && mode.shared:
						store.lag(t)
					case action == 2 && mode.hook == nil:
						o := rapid.SampledFrom([]breaker.Order{breaker.OrderOpen, breaker.OrderReset}).Draw(t, "order")
						if _, err := breaker.Operate(t.Context(), &store.Health, fleetKey, o, 20*time.Second, now); err == nil {
							for i := range pending {
								pending[i].until = time.Time{} // the order has ended whatever lease there was
							}
						}
					case action <= 5 || len(pending) == 0:
						call()
					default:
						i := rapid.IntRange(0, len(pending)-1).Draw(t, "which")
						outcome := rapid.SampledFrom([]breaker.Outcome{down, down, down, breaker.Succeeded(), {}}).Draw(t, "outcome")
						pending[i].visit.Report(now, pending[i].permit, outcome, middle)
						pending[i].visit.End()
						ended(i)
					}
					now = now.Add(time.Millisecond)
				}
			})
			require.Positive(t, probed, "nothing was tried")
		})
	}
}

// TestManyRequestsAtOnce is for the race detector: several environments with many requests each.
func TestManyRequestsAtOnce(t *testing.T) {
	store := &storetest.Health{}
	all := environments(4, store)
	outcomes := []breaker.Outcome{breaker.Succeeded(), down, refused, {}}
	var wait sync.WaitGroup
	for i := range 64 {
		wait.Go(func() {
			for n := range 30 {
				f := all[i%len(all)]
				v := f.Begin(t.Context(), time.Now())
				v.Ready()
				v.Look(time.Now(), []breaker.Key{fleetKey})
				if p := v.Admit(time.Now(), fleetKey, time.Second); p.Allowed {
					v.Report(time.Now(), p, outcomes[(i+n)%2], middle)
					v.Report(time.Now(), p, outcomes[(i*n)%len(outcomes)], middle)
				}
				v.End()
			}
		})
	}
	wait.Add(1)
	go func() {
		defer wait.Done()
		for range 20 {
			_, _ = breaker.Operate(t.Context(), store, fleetKey, breaker.OrderReset, 0, time.Now())
			for _, f := range all {
				f.Own.Snapshot(time.Now())
			}
		}
	}()
	wait.Wait()
}
