// Package storetest holds what every implementation of a store must do, one function for each store interface. The tests of
// the memory, of the embedded emulator, of moto and of any other endpoint run the same functions. It is linked into no
// function.
package storetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/idempotency"
)

// key is one that no other test uses: stores may be shared.
func key(organization string) idempotency.Key {
	return idempotency.Key{Organization: organization, Key: fmt.Sprintf("key %016x / é", rand.Uint64())}
}

// truncated is a time as every store keeps it: milliseconds, and seconds for what ends a record.
func truncated(t time.Time) time.Time { return t.Truncate(time.Second).UTC() }

func claiming(k idempotency.Key, owner string, now time.Time) idempotency.Record {
	return idempotency.Claiming(k, "F", owner, "req_"+owner, false, now.Add(2*time.Minute), now)
}

// Idempotency runs what every idempotency.Store must do.
func Idempotency(t *testing.T, s idempotency.Store) {
	ctx := t.Context()
	now := truncated(time.Now())
	claim := func(t *testing.T, r idempotency.Record, at time.Time) *idempotency.Record {
		t.Helper()
		there, err := s.Claim(ctx, r, at)
		require.NoError(t, err)
		return there
	}
	get := func(t *testing.T, k idempotency.Key) *idempotency.Record {
		t.Helper()
		r, err := s.Get(ctx, k)
		require.NoError(t, err)
		return r
	}
	result := idempotency.Result{Status: 200, Header: map[string]string{"Content-Type": "application/json", "X-Llm-Provider": "a"}, Body: []byte("\x1f\x8bbody"), Size: 9}

	t.Run("a free key is claimed, and read back as it was written", func(t *testing.T) {
		r := claiming(key("acme"), "o1", now)
		require.Nil(t, claim(t, r, now))
		assert.Equal(t, &r, get(t, r.Key))
	})
	t.Run("a key that nobody used is absent", func(t *testing.T) {
		assert.Nil(t, get(t, key("acme")))
	})
	t.Run("a claimed key is refused with the record that stands there, and stays as it is", func(t *testing.T) {
		r := claiming(key("acme"), "o1", now)
		require.Nil(t, claim(t, r, now))
		other := claiming(r.Key, "o2", now)
		assert.Equal(t, &r, claim(t, other, now))
		assert.Equal(t, &r, get(t, r.Key))
	})
	t.Run("B36 f: two organizations do not share a key", func(t *testing.T) {
		r := claiming(key("acme"), "o1", now)
		require.Nil(t, claim(t, r, now))
		other := claiming(idempotency.Key{Organization: "other", Key: r.Key.Key}, "o2", now)
		assert.Nil(t, claim(t, other, now))
	})
	t.Run("names that run together are different keys", func(t *testing.T) {
		a := claiming(idempotency.Key{Organization: "a", Key: "b#" + key("").Key}, "o1", now)
		b := claiming(idempotency.Key{Organization: "a#b", Key: a.Key.Key[2:]}, "o2", now)
		require.Nil(t, claim(t, a, now))
		assert.Nil(t, claim(t, b, now))
	})
	t.Run("a finished record is replayed with all it had", func(t *testing.T) {
		r := claiming(key("acme"), "o1", now)
		require.Nil(t, claim(t, r, now))
		require.NoError(t, s.Complete(ctx, r.Key, "o1", result, now))
		there := claim(t, claiming(r.Key, "o2", now), now)
		require.NotNil(t, there)
		assert.Equal(t, idempotency.Decision{Verdict: idempotency.Replay, Result: &result}, idempotency.Decide(there, "F", "o2", now))
	})
	t.Run("a result that is kept as an object names it", func(t *testing.T) {
		r := claiming(key("acme"), "o1", now)
		require.Nil(t, claim(t, r, now))
		large := idempotency.Result{Status: 200, Header: map[string]string{"Content-Type": "text/event-stream"}, Stream: true, Size: 5e6,
			Object: &idempotency.Object{Name: "results/x", SHA256: "ab", Size: 4e5}}
		require.NoError(t, s.Complete(ctx, r.Key, "o1", large, now))
		assert.Equal(t, &large, get(t, r.Key).Result)
	})
	t.Run("a result that is too large for a record is an error, and the record stays in progress", func(t *testing.T) {
		r := claiming(key("acme"), "o1", now)
		require.Nil(t, claim(t, r, now))
		large := result
		large.Body = make([]byte, idempotency.MaxItem+1)
		require.Error(t, s.Complete(ctx, r.Key, "o1", large, now))
		assert.Equal(t, idempotency.InProgress, get(t, r.Key).Status)
	})
	t.Run("a released key is free", func(t *testing.T) {
		r := claiming(key("acme"), "o1", now)
		require.Nil(t, claim(t, r, now))
		require.NoError(t, s.Release(ctx, r.Key, "o1"))
		assert.Nil(t, get(t, r.Key))
		assert.Nil(t, claim(t, claiming(r.Key, "o2", now), now))
	})
	t.Run("a renewed record lives longer", func(t *testing.T) {
		r := claiming(key("acme"), "o1", now)
		require.Nil(t, claim(t, r, now))
		until := now.Add(200 * time.Second)
		require.NoError(t, s.Renew(ctx, r.Key, "o1", until))
		assert.True(t, until.Equal(get(t, r.Key).InProgressUntil))
		assert.NotNil(t, claim(t, claiming(r.Key, "o2", now), now.Add(130*time.Second)))
	})
	t.Run("B35 b, e: a dead owner's record is taken over, and the old owner changes nothing any more", func(t *testing.T) {
		r := claiming(key("acme"), "o1", now)
		require.Nil(t, claim(t, r, now))
		later := r.InProgressUntil.Add(time.Second)
		taken := claiming(r.Key, "o2", later)
		require.Nil(t, claim(t, taken, later))
		require.ErrorIs(t, s.Complete(ctx, r.Key, "o1", result, later), idempotency.ErrLost)
		require.ErrorIs(t, s.Renew(ctx, r.Key, "o1", later.Add(time.Hour)), idempotency.ErrLost)
		require.ErrorIs(t, s.Release(ctx, r.Key, "o1"), idempotency.ErrLost)
		assert.Equal(t, &taken, get(t, r.Key))
	})
	t.Run("a dead owner's record is not taken over by another request", func(t *testing.T) {
		r := claiming(key("acme"), "o1", now)
		require.Nil(t, claim(t, r, now))
		later := r.InProgressUntil.Add(time.Second)
		other := claiming(r.Key, "o2", later)
		other.Fingerprint = "G"
		there := claim(t, other, later)
		require.NotNil(t, there)
		assert.Equal(t, idempotency.Mismatch, idempotency.Decide(there, "G", "o2", later).Verdict)
	})
	t.Run("B35 c: a record in progress without an end is live until it expires", func(t *testing.T) {
		r := claiming(key("acme"), "o1", now)
		r.InProgressUntil = time.Time{}
		require.Nil(t, claim(t, r, now))
		assert.Equal(t, &r, claim(t, claiming(r.Key, "o2", now), now.Add(time.Hour)))
		assert.Nil(t, claim(t, claiming(r.Key, "o3", now), now.Add(25*time.Hour)))
	})
	t.Run("B35 d: a record past its retention that was not swept yet is absent to a claim", func(t *testing.T) {
		r := claiming(key("acme"), "o1", now)
		require.Nil(t, claim(t, r, now))
		require.NoError(t, s.Complete(ctx, r.Key, "o1", result, now))
		assert.NotNil(t, claim(t, claiming(r.Key, "o2", now), now.Add(23*time.Hour)))
		assert.Nil(t, claim(t, claiming(r.Key, "o3", now), now.Add(25*time.Hour)))
	})
	t.Run("a finished record is nobody's to change", func(t *testing.T) {
		r := claiming(key("acme"), "o1", now)
		require.Nil(t, claim(t, r, now))
		require.NoError(t, s.Complete(ctx, r.Key, "o1", result, now))
		require.ErrorIs(t, s.Complete(ctx, r.Key, "o1", result, now), idempotency.ErrLost)
		require.ErrorIs(t, s.Renew(ctx, r.Key, "o1", now.Add(time.Hour)), idempotency.ErrLost)
		require.ErrorIs(t, s.Release(ctx, r.Key, "o1"), idempotency.ErrLost)
		require.ErrorIs(t, s.Release(ctx, key("acme"), "o1"), idempotency.ErrLost)
	})
	t.Run("of fifty that claim a key at once one gets it, also with clocks two seconds apart, and when a dead owner's is taken over", func(t *testing.T) {
		k := key("acme")
		for round, at := range []time.Time{now, now.Add(200 * time.Second)} {
			var winners atomic.Int32
			var all sync.WaitGroup
			for i := range 50 {
				all.Go(func() {
					mine := at.Add(time.Duration(i%5-2) * time.Second)
					there, err := s.Claim(ctx, claiming(k, fmt.Sprintf("o%d-%d", round, i), mine), mine)
					assert.NoError(t, err)
					if there == nil {
						winners.Add(1)
					}
				})
			}
			all.Wait()
			assert.EqualValues(t, 1, winners.Load())
		}
	})
}
