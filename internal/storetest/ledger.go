package storetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/ledger"
)

// Ledger runs what every ledger.Store must do.
func Ledger(t *testing.T, s ledger.Store) {
	ctx := t.Context()
	now := truncated(time.Now())
	fresh := func(organization string) ledger.Key {
		return ledger.Key{Organization: organization, Key: fmt.Sprintf("tool:send é:%016x/1#a", rand.Uint64())}
	}
	entry := func(k ledger.Key, version uint64) ledger.Entry {
		return ledger.Entry{Key: k, State: ledger.Started, Owner: "o1", StartedAt: now, UpdatedAt: now.Add(time.Millisecond), ExpiresAt: now.Add(time.Hour), Token: "t", Version: version}
	}
	get := func(t *testing.T, k ledger.Key) *ledger.Entry {
		t.Helper()
		e, err := s.Get(ctx, k)
		require.NoError(t, err)
		return e
	}
	say := func(t *testing.T, k ledger.Key, state ledger.State, owner, result string, at time.Time) ledger.Decision {
		t.Helper()
		said := ledger.Said{State: state, Owner: owner, Token: fmt.Sprint(rand.Uint64())}
		if result != "" {
			said.Result = jsontext.Value(result)
		}
		d, err := ledger.Say(ctx, s, k, said, at)
		require.NoError(t, err)
		return d
	}

	t.Run("a key that nobody used is absent", func(t *testing.T) { assert.Nil(t, get(t, fresh("acme"))) })
	t.Run("an entry is read back as it was written", func(t *testing.T) {
		e := entry(fresh("acme"), 1)
		require.NoError(t, s.Swap(ctx, e))
		assert.Equal(t, &e, get(t, e.Key))
		e.State, e.Result, e.Version = ledger.Succeeded, jsontext.Value(`{"n":9007199254740993,"é":[null,"\u0000"]}`), 2
		require.NoError(t, s.Swap(ctx, e))
		assert.Equal(t, &e, get(t, e.Key))
		e.State, e.Result, e.Version = ledger.Started, nil, 3
		require.NoError(t, s.Swap(ctx, e))
		assert.Equal(t, &e, get(t, e.Key), "nothing of the one before is left")
	})
	t.Run("an entry that has changed is not replaced", func(t *testing.T) {
		k := fresh("acme")
		require.ErrorIs(t, s.Swap(ctx, entry(k, 2)), ledger.ErrChanged, "there is none")
		first := entry(k, 1)
		require.NoError(t, s.Swap(ctx, first))
		for _, version := range []uint64{1, 3} {
			other := entry(k, version)
			other.Owner = "o2"
			require.ErrorIs(t, s.Swap(ctx, other), ledger.ErrChanged)
			assert.Equal(t, &first, get(t, k))
		}
	})
	t.Run("two organizations do not share a key, and names that run together are different", func(t *testing.T) {
		k := fresh("a")
		require.NoError(t, s.Swap(ctx, entry(k, 1)))
		require.NoError(t, s.Swap(ctx, entry(ledger.Key{Organization: "b", Key: k.Key}, 1)))
		require.NoError(t, s.Swap(ctx, entry(ledger.Key{Organization: "a#" + k.Key, Key: "x"}, 1)))
		require.NoError(t, s.Swap(ctx, entry(ledger.Key{Organization: "a", Key: k.Key + "#x"}, 1)))
	})
	t.Run("the longest key, owner and result fit", func(t *testing.T) {
		k := fresh(strings.Repeat("é", 64))
		k.Key = strings.Repeat("\U0001F600", ledger.MaxKey-len(k.Key)) + k.Key
		e := entry(k, 1)
		e.Owner, e.State = strings.Repeat("\U0001F600", ledger.MaxOwner), ledger.Succeeded
		e.Result = jsontext.Value(`"` + strings.Repeat("é", ledger.MaxResult/2-1) + `"`)
		require.NoError(t, s.Swap(ctx, e))
		assert.Equal(t, &e, get(t, k))
	})
	t.Run("a tool call from its start to its result", func(t *testing.T) {
		k := fresh("acme")
		assert.Equal(t, ledger.Yours, say(t, k, ledger.Started, "o1", "", now).Verdict)
		assert.Equal(t, ledger.Taken, say(t, k, ledger.Started, "o2", "", now).Verdict)
		assert.Equal(t, ledger.Noted, say(t, k, ledger.Failed, "o1", "", now).Verdict)
		assert.Equal(t, ledger.Yours, say(t, k, ledger.Started, "o2", "", now).Verdict)
		assert.Equal(t, ledger.Noted, say(t, k, ledger.Succeeded, "o2", `{"sent":1}`, now).Verdict)
		d := say(t, k, ledger.Started, "o1", "", now)
		assert.Equal(t, ledger.Done, d.Verdict)
		assert.JSONEq(t, `{"sent":1}`, string(d.Entry.Result))
		assert.Equal(t, ledger.Yours, say(t, k, ledger.Started, "o1", "", now.Add(8*24*time.Hour)).Verdict, "past its retention, and not swept yet")
	})
	t.Run("of fifty that start at once one has the call, whatever they are called, also when it is free again", func(t *testing.T) {
		k := fresh("acme")
		for round, named := range []func(int) string{func(i int) string { return fmt.Sprint(i) }, func(int) string { return "same" }} {
			var winners atomic.Int32
			var winner atomic.Value
			var all sync.WaitGroup
			for i := range 50 {
				all.Go(func() {
					said := ledger.Said{State: ledger.Started, Owner: named(i), Token: fmt.Sprint(round, i)}
					d, err := ledger.Say(ctx, s, k, said, now)
					if assert.NoError(t, err) && d.Verdict == ledger.Yours {
						winners.Add(1)
						winner.Store(said.Owner)
					}
				})
			}
			all.Wait()
			require.EqualValues(t, 1, winners.Load())
			say(t, k, ledger.Failed, winner.Load().(string), "", now)
		}
	})
}
