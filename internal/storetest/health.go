package storetest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/breaker"
	"spillway/internal/fault"
)

// Health is a breaker.Store in memory, with the conduct of a table: a window for each version of a circuit, a conditional
// write on the version, a snapshot of everything else. The zero value is ready.
type Health struct {
	// Hook, when it is set, is asked before each call ("tell", "swap", "hold", "snapshot") whether it takes effect and
	// which error it returns: a write that is applied and fails is what a time-out looks like.
	Hook func(call string) (apply bool, err error)

	mu       sync.Mutex
	snapshot breaker.Snapshot
	windows  map[string]breaker.Window
	// Calls counts the calls by name. Read it when nothing runs.
	Calls map[string]int
}

var _ breaker.Store = (*Health)(nil)

// hook counts a call and asks the hook. The lock is held.
func (h *Health) hook(call string) (apply bool, err error) {
	if h.Calls == nil {
		h.Calls, h.snapshot, h.windows = map[string]int{}, breaker.Snapshot{}, map[string]breaker.Window{}
	}
	h.Calls[call]++
	if h.Hook == nil {
		return true, nil
	}
	return h.Hook(call)
}

func windowKey(k breaker.Key, version uint64) string { return fmt.Sprintf("%s@%d", k, version) }

// Tell implements breaker.Store.
func (h *Health) Tell(_ context.Context, k breaker.Key, version uint64, reported []breaker.Bucket, now time.Time) (breaker.Told, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	apply, err := h.hook("tell")
	name := windowKey(k, version)
	if apply {
		h.windows[name] = h.windows[name].Merge(now, reported)
	}
	told := breaker.Told{Window: h.windows[name]}
	if there := h.snapshot[k.String()].Circuit; there.Version > version {
		told.Successor = &there
	}
	return told, err
}

// Swap implements breaker.Store.
func (h *Health) Swap(_ context.Context, k breaker.Key, old uint64, next breaker.Circuit, _ time.Time) (breaker.Circuit, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	apply, err := h.hook("swap")
	entry := h.snapshot[k.String()]
	if apply && entry.Circuit.Version != old {
		return entry.Circuit, breaker.ErrChanged
	}
	if apply {
		if next.Version != old {
			h.windows[windowKey(k, next.Version)] = next.Window
		}
		entry.Circuit = next.Shared()
		h.snapshot[k.String()] = entry
	}
	return entry.Circuit, err
}

// Hold implements breaker.Store.
func (h *Health) Hold(_ context.Context, k breaker.Key, holds breaker.Holds, _ time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	apply, err := h.hook("hold")
	if apply {
		entry := h.snapshot[k.String()]
		entry.Holds = holds.Shared()
		h.snapshot[k.String()] = entry
	}
	return err
}

// Snapshot implements breaker.Store.
func (h *Health) Snapshot(context.Context) (breaker.Snapshot, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := h.hook("snapshot"); err != nil {
		return nil, err
	}
	return maps.Clone(h.snapshot), nil
}

// healthKey is a key that no other test uses.
func healthKey() breaker.Key {
	return breaker.Key{Provider: "alpha", Model: fmt.Sprintf("org/model-%016x", rand.Uint64()), Region: "eu", Credential: "main"}
}

// Circuits runs what every breaker.Store must do.
func Circuits(t *testing.T, s breaker.Store) {
	ctx := t.Context()
	now := truncated(time.Now())
	entry := func(t *testing.T, k breaker.Key) (breaker.Entry, bool) {
		t.Helper()
		all, err := s.Snapshot(ctx)
		require.NoError(t, err)
		e, ok := all[k.String()]
		return e, ok
	}
	slot := breaker.SlotOf(now)
	opened := func(version uint64) breaker.Circuit {
		return breaker.Circuit{State: breaker.Open, Version: version, OpenedAt: now, Until: now.Add(30 * time.Second), Opens: 1, Class: fault.Overloaded}
	}

	t.Run("what is told adds up, each in its bucket, and the sum is returned", func(t *testing.T) {
		k := healthKey()
		_, err := s.Tell(ctx, k, 0, []breaker.Bucket{{Slot: slot, Attempts: 3, Weight: 1}, {Slot: slot - 1, Attempts: 2}}, now)
		require.NoError(t, err)
		sum, err := s.Tell(ctx, k, 0, []breaker.Bucket{{Slot: slot, Attempts: 1, Weight: 0.5}}, now)
		require.NoError(t, err)
		assert.ElementsMatch(t, []breaker.Bucket{{Slot: slot, Attempts: 4, Weight: 1.5}, {Slot: slot - 1, Attempts: 2}}, sum.Window.Buckets(now))
	})
	t.Run("a window belongs to one version, and two keys share none", func(t *testing.T) {
		k := healthKey()
		for _, at := range []struct {
			key     breaker.Key
			version uint64
		}{{k, 0}, {k, 1}, {healthKey(), 0}} {
			sum, err := s.Tell(ctx, at.key, at.version, []breaker.Bucket{{Slot: slot, Attempts: 1, Weight: 1}}, now)
			require.NoError(t, err)
			attempts, _ := sum.Window.Sum(now)
			assert.Equal(t, 1, attempts)
		}
	})
	t.Run("only the newest twelve buckets are returned", func(t *testing.T) {
		k := healthKey()
		for i := range int64(30) {
			at := now.Add(time.Duration(i) * 5 * time.Second)
			sum, err := s.Tell(ctx, k, 0, []breaker.Bucket{{Slot: slot + i, Attempts: 1, Weight: 1}}, at)
			require.NoError(t, err)
			attempts, _ := sum.Window.Sum(at)
			assert.EqualValues(t, min(i+1, 12), attempts)
		}
	})
	t.Run("two hundred reports of twenty that tell at once lose nothing", func(t *testing.T) {
		k := healthKey()
		var all sync.WaitGroup
		for range 20 { // more at once than that moto's server does not bear
			all.Go(func() {
				for range 10 {
					_, err := s.Tell(ctx, k, 0, []breaker.Bucket{{Slot: slot, Attempts: 1, Weight: 0.5}}, now)
					assert.NoError(t, err)
				}
			})
		}
		all.Wait()
		sum, err := s.Tell(ctx, k, 0, []breaker.Bucket{{Slot: slot, Attempts: 1, Weight: 0.5}}, now)
		require.NoError(t, err)
		attempts, weight := sum.Window.Sum(now)
		assert.Equal(t, 201, attempts)
		assert.InDelta(t, 100.5, weight, 1e-9)
	})
	t.Run("a key that nobody changed is not in the snapshot", func(t *testing.T) {
		_, ok := entry(t, healthKey())
		assert.False(t, ok)
	})
	t.Run("a circuit is replaced under its version and read back whole", func(t *testing.T) {
		k := healthKey()
		half := breaker.Circuit{State: breaker.HalfOpen, Version: 2, OpenedAt: now, Opens: 3, Passed: 1, Class: fault.Timeout,
			Lease: breaker.Lease{Number: 2, Until: now.Add(25 * time.Second)}}
		for i, c := range []breaker.Circuit{opened(1), half} {
			_, err := s.Swap(ctx, k, uint64(i), c, now)
			require.NoError(t, err)
			e, ok := entry(t, k)
			require.True(t, ok)
			assert.Equal(t, c, e.Circuit)
		}
	})
	t.Run("a circuit that has changed is not replaced, and returned as it is", func(t *testing.T) {
		k := healthKey()
		_, err := s.Swap(ctx, k, 0, opened(1), now)
		require.NoError(t, err)
		for _, old := range []uint64{0, 2, 10, 11} {
			there, err := s.Swap(ctx, k, old, opened(old+1), now)
			require.ErrorIs(t, err, breaker.ErrChanged)
			assert.Equal(t, opened(1), there)
		}
	})
	t.Run("who tells of a version that has been replaced hears of its successor", func(t *testing.T) {
		k := healthKey()
		report := []breaker.Bucket{{Slot: slot, Attempts: 1, Weight: 1}}
		told, err := s.Tell(ctx, k, 0, report, now)
		require.NoError(t, err)
		assert.Nil(t, told.Successor)
		_, err = s.Swap(ctx, k, 0, opened(1), now)
		require.NoError(t, err)
		told, err = s.Tell(ctx, k, 0, report, now)
		require.NoError(t, err)
		require.NotNil(t, told.Successor)
		assert.Equal(t, opened(1), *told.Successor)
	})
	t.Run("a watch keeps the version, and the next change still fits", func(t *testing.T) {
		k := healthKey()
		watched := breaker.Circuit{WatchUntil: now.Add(time.Minute)}
		_, err := s.Swap(ctx, k, 0, watched, now)
		require.NoError(t, err)
		e, _ := entry(t, k)
		assert.True(t, e.Circuit.Watched(now))
		_, err = s.Swap(ctx, k, 0, opened(1), now)
		require.NoError(t, err)
	})
	t.Run("a circuit that closes begins with the window it brings, and stays in the snapshot with its version", func(t *testing.T) {
		k := healthKey()
		_, err := s.Swap(ctx, k, 0, opened(1), now)
		require.NoError(t, err)
		closed := breaker.Circuit{Version: 2, OpenedAt: now, Window: breaker.Window{}.Add(now, 10, 0)}
		_, err = s.Swap(ctx, k, 1, closed, now)
		require.NoError(t, err)
		e, ok := entry(t, k)
		require.True(t, ok)
		assert.EqualValues(t, 2, e.Circuit.Version)
		sum, err := s.Tell(ctx, k, 2, []breaker.Bucket{{Slot: slot, Attempts: 1, Weight: 1}}, now)
		require.NoError(t, err)
		attempts, _ := sum.Window.Sum(now)
		assert.Equal(t, 11, attempts)
	})
	t.Run("holds are set, replaced and lifted, beside the circuit", func(t *testing.T) {
		k := healthKey()
		_, err := s.Swap(ctx, k, 0, opened(1), now)
		require.NoError(t, err)
		for _, h := range []breaker.Holds{
			{ThrottledUntil: now.Add(time.Minute)},
			{Remembered: breaker.Remembered{Class: fault.Auth, Status: 401, Code: "invalid_api_key", Since: now, Until: now.Add(5 * time.Minute)}},
			{},
		} {
			require.NoError(t, s.Hold(ctx, k, h, now))
			e, _ := entry(t, k)
			assert.Equal(t, breaker.Entry{Circuit: opened(1), Holds: h}, e)
		}
		channel := k.Channel()
		h := breaker.Holds{Remembered: breaker.Remembered{Class: fault.ModelUnavailable, Status: 404, Since: now, Until: now.Add(5 * time.Minute)}}
		require.NoError(t, s.Hold(ctx, channel, h, now))
		e, _ := entry(t, channel)
		assert.Equal(t, h, e.Holds)
	})
	t.Run("of thirty that ask for a lease at once one gets it", func(t *testing.T) {
		k := healthKey()
		_, err := s.Swap(ctx, k, 0, opened(1), now)
		require.NoError(t, err)
		var winners atomic.Int32
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				next := breaker.Circuit{State: breaker.HalfOpen, Version: 3, OpenedAt: now, Opens: 1, Lease: breaker.Lease{Number: 3, Until: now.Add(time.Duration(i+1) * time.Second)}}
				_, err := s.Swap(ctx, k, 1, next, now)
				if err == nil {
					winners.Add(1)
				} else {
					assert.ErrorIs(t, err, breaker.ErrChanged)
				}
			})
		}
		all.Wait()
		assert.EqualValues(t, 1, winners.Load())
	})
}
