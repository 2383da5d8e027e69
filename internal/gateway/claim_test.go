package gateway_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/idempotency"
	"spillway/internal/provider"
	"spillway/internal/simulate"
)

var theKey = idempotency.Key{Organization: "org", Key: "k"}

// stored is what a store knows of the key.
func stored(t *testing.T, s idempotency.Store) *idempotency.Record {
	t.Helper()
	r, err := s.Get(t.Context(), theKey)
	require.NoError(t, err)
	return r
}

// tardy is a store in which the first claim is written after it was given up: when the second one arrives.
type tardy struct {
	idempotency.Memory
	first *idempotency.Record
	calls int
}

func (s *tardy) Claim(ctx context.Context, r idempotency.Record, now time.Time) (*idempotency.Record, error) {
	if s.calls++; s.calls == 1 {
		s.first = &r
		return nil, errors.New("the connection broke")
	}
	if s.first != nil {
		_, _ = s.Memory.Claim(ctx, *s.first, now)
		s.first = nil
	}
	return s.Memory.Claim(ctx, r, now)
}

// muddled is a store with a record that is neither there nor not.
type muddled struct {
	idempotency.Memory
	calls int
}

func (s *muddled) Claim(_ context.Context, r idempotency.Record, _ time.Time) (*idempotency.Record, error) {
	s.calls++
	r.Owner, r.ExpiresAt = "somebody", time.Time{}
	return &r, nil
}

func TestAClaimFindsItsEnd(t *testing.T) {
	t.Run("a claim that is written late is ours all the same", func(t *testing.T) {
		store := &tardy{}
		inBubble(t, settings{claims: store}, func(t *testing.T, w *world) {
			w.provider.Script("a-1", alpha.says("Hello"))
			assert.Equal(t, 200, w.do(t, keyed("k", asks("alone", false))).status)
			assert.Equal(t, 2, store.calls)
			assert.Equal(t, idempotency.Completed, stored(t, store).Status)
		})
	})
	t.Run("a key that is free and cannot be had is given up", func(t *testing.T) {
		store := &muddled{}
		inBubble(t, settings{claims: store}, func(t *testing.T, w *world) {
			assert.Equal(t, 503, w.do(t, keyed("k", asks("alone", false))).status)
			assert.Equal(t, 3, store.calls)
		})
	})
	t.Run("a finished answer is replayed while the table takes no writes", func(t *testing.T) {
		writable := true
		store := &flaky{Store: &idempotency.Memory{}, hook: func(call string) (bool, error) {
			if call == "claim" && !writable {
				return false, errors.New("throttled")
			}
			return true, nil
		}}
		inBubble(t, settings{claims: store}, func(t *testing.T, w *world) {
			w.provider.Script("a-1", alpha.says("Hello"))
			require.Equal(t, 200, w.do(t, keyed("k", asks("alone", false))).status)
			writable = false
			again := w.do(t, keyed("k", asks("alone", false)))
			assert.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
			assert.Zero(t, again.returned)
		})
	})
}

// TestAWaitHasItsEnds: for another request with the key.
func TestAWaitHasItsEnds(t *testing.T) {
	running := func(t *testing.T, w *world, store idempotency.Store) {
		t.Helper()
		f, err := idempotency.Of("POST", "/v1/chat/completions", "", []byte(asks("alone", false)))
		require.NoError(t, err)
		there, err := store.Claim(t.Context(), idempotency.Claiming(theKey, f, "another", "req_1", false, time.Now().Add(2*time.Minute), time.Now()), time.Now())
		require.NoError(t, err)
		require.Nil(t, there)
	}
	for name, c := range map[string]struct {
		request  request
		status   int
		outcome  string
		returned time.Duration
	}{
		"the client's own deadline": {request: keyed("k", asks("alone", false), "Prefer", "wait=30", "X-Llm-Timeout-Ms", "2000"), status: 409, outcome: "idempotency_conflict", returned: 2 * time.Second},
		"what it asked for":         {request: keyed("k", asks("alone", false), "Prefer", "wait=4", "X-Llm-Timeout-Ms", "20000"), status: 409, outcome: "idempotency_conflict", returned: 4 * time.Second},
		"the platform's deadline":   {request: request{header: keyed("k", "", "Prefer", "wait=30").header, body: asks("alone", false), deadline: 3 * time.Second}, outcome: "provider_timeout", status: 504, returned: 3 * time.Second},
		"the client leaves":         {request: request{header: keyed("k", "", "Prefer", "wait=30").header, body: asks("alone", false), leaves: departure{after: 5 * time.Second}}, outcome: "client_closed_request", status: 499, returned: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			store := &idempotency.Memory{}
			inBubble(t, settings{claims: store}, func(t *testing.T, w *world) {
				running(t, w, store)
				o := w.do(t, c.request)
				assert.Equal(t, c.returned, o.returned)
				assert.Equal(t, c.status, o.status)
				assert.Contains(t, o.raw, `"outcome":"`+c.outcome+`"`)
				assert.Equal(t, "another", stored(t, store).Owner, "it touches nothing")
			})
		})
	}
}

func TestHowLongAClaimSaysThatItLasts(t *testing.T) {
	for name, c := range map[string]struct {
		stream bool
		more   []string
		route  string
		lasts  time.Duration
	}{
		"a plain request: its deadline and a margin":            {lasts: 125 * time.Second},
		"one with a shorter deadline of its own":                {more: []string{"X-Llm-Timeout-Ms", "20000"}, lasts: 25 * time.Second},
		"one whose own deadline is longer than the route's":     {more: []string{"X-Llm-Timeout-Ms", "500000"}, lasts: 125 * time.Second},
		"one whose route gives it more":                         {route: `"timeout_ms": 300000`, lasts: 305 * time.Second},
		"a stream: one lease":                                   {stream: true, lasts: 90 * time.Second},
		"a stream with a deadline that is shorter than a lease": {stream: true, more: []string{"X-Llm-Timeout-Ms", "20000"}, lasts: 25 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			store := &idempotency.Memory{}
			inBubble(t, settings{claims: store, route: c.route}, func(t *testing.T, w *world) {
				w.provider.Script("a-1", late(time.Second, alpha.says("Hello")))
				r := keyed("k", asks("alone", c.stream), c.more...)
				answered := make(chan struct{})
				go func() {
					defer close(answered)
					w.do(t, r)
				}()
				began := time.Now()
				time.Sleep(500 * time.Millisecond)
				assert.Equal(t, c.lasts, stored(t, store).InProgressUntil.Sub(began))
				<-answered
			})
		})
	}
}

// stubborn is a store whose first renewals fail, or hang until their context ends.
type stubborn struct {
	idempotency.Memory
	fails int
	hangs bool

	mu    sync.Mutex
	start time.Time
	at    []time.Duration
}

func (s *stubborn) Renew(ctx context.Context, k idempotency.Key, owner string, until time.Time) error {
	s.mu.Lock()
	s.at = append(s.at, time.Since(s.start))
	n := len(s.at)
	s.mu.Unlock()
	switch {
	case s.hangs:
		<-ctx.Done()
		return ctx.Err()
	case n <= s.fails:
		return errors.New("throttled")
	}
	return s.Memory.Renew(ctx, k, owner, until)
}

func TestRenewals(t *testing.T) {
	drip := func(n int) simulate.Reply {
		frames := []string{alpha.role()}
		for range n {
			frames = append(frames, alpha.text("piece "))
		}
		return simulate.Events(10*time.Second, simulate.Complete, append(frames, alpha.finish("stop"), done)...)
	}
	t.Run("one that fails is made again soon", func(t *testing.T) {
		store := &stubborn{fails: 2}
		inBubble(t, settings{claims: store}, func(t *testing.T, w *world) {
			store.start = time.Now()
			w.provider.Script("a-1", drip(7))
			o := w.do(t, keyed("k", asks("alone", true)))
			assert.Equal(t, "stored", lastIdempotency(o))
			assert.Equal(t, []time.Duration{30 * time.Second, 35 * time.Second, 40 * time.Second, 70 * time.Second}, store.at)
		})
	})
	t.Run("of a plain request, too, whose route gives it more time", func(t *testing.T) {
		store := &stubborn{fails: 2}
		inBubble(t, settings{claims: store, route: `"timeout_ms": 300000`}, func(t *testing.T, w *world) {
			store.start = time.Now()
			w.provider.Script("a-1", drip(3))
			o := w.do(t, keyed("k", asks("alone", false)))
			assert.Equal(t, "stored", lastIdempotency(o))
			assert.Equal(t, []time.Duration{0, 5 * time.Second, 10 * time.Second}, store.at)
		})
	})
	t.Run("one that hangs does not hold up the end", func(t *testing.T) {
		store := &stubborn{hangs: true}
		inBubble(t, settings{claims: store}, func(t *testing.T, w *world) {
			store.start = time.Now()
			reply := alpha.says("Hel", "lo")
			reply.Stream[2].After = 30200 * time.Millisecond
			w.provider.Script("a-1", reply)
			o := w.do(t, keyed("k", asks("alone", true)))
			assert.Equal(t, []time.Duration{30 * time.Second}, store.at)
			assert.Equal(t, "stored", lastIdempotency(o))
			assert.Equal(t, o.pieces[len(o.pieces)-1].at, o.returned)
			assert.Equal(t, 30200*time.Millisecond, o.returned, "the renewal was under way")
		})
	})
	t.Run("none is made when the request is over", func(t *testing.T) {
		store := &stubborn{}
		inBubble(t, settings{claims: store}, func(t *testing.T, w *world) {
			w.provider.Script("a-1", alpha.says("Hello"))
			w.do(t, keyed("k", asks("alone", true)))
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			assert.Empty(t, store.at)
		})
	})
}

// TestWhatEndsAKeyedStreamFreesItsKey: everything but a whole answer does, and nothing is renewed any more.
func TestWhatEndsAKeyedStreamFreesItsKey(t *testing.T) {
	long := strings.Repeat("x", 3000)
	for name, c := range map[string]struct {
		settings settings
		reply    []simulate.Reply
	}{
		"a panic in the middle":                  {settings{adapter: func(p provider.Provider) provider.Provider { return &fragile{Provider: p, next: 3} }}, one(alpha.says("Hel", "lo ", "world"))},
		"a panic before the first content":       {settings{adapter: func(p provider.Provider) provider.Provider { return &fragile{Provider: p, inCall: true} }}, nil},
		"a stream that is too long":              {settings{maxStream: 5000}, one(alpha.says(long, long, long))},
		"a refusal in a stream that is open":     {settings{route: `"hold_ms": 1000`}, one(late(5*time.Second, fails(400, "invalid_request_error", "content_policy_violation")))},
		"a failure in a stream that is open":     {settings{route: `"hold_ms": 1000`}, one(late(5*time.Second, fails(401, "invalid_request_error", "invalid_api_key")))},
		"an answer for which there is no place":  {settings{}, one(says(noise(600_000)))},
		"an idle stream":                         {settings{route: `"idle_ms": 1000`}, one(simulate.Events(0, simulate.Stall, alpha.role(), alpha.text("Hel")))},
		"a stream that breaks off in the middle": {settings{}, one(cut(alpha.role(), alpha.text("Hel")))},
	} {
		t.Run(name, func(t *testing.T) {
			store := &stubborn{}
			c.settings.claims = store
			inBubble(t, c.settings, func(t *testing.T, w *world) {
				w.provider.Script("a-1", c.reply...)
				o := w.do(t, keyed("k", asks("alone", true)))
				assert.Equal(t, "released", lastIdempotency(o), o.raw)
				assert.Nil(t, stored(t, store))
				time.Sleep(2 * time.Minute)
				assert.Empty(t, store.at)
			})
		})
	}
	t.Run("an answer in a stream that was opened early is kept as it was sent", func(t *testing.T) {
		inBubble(t, settings{claims: &idempotency.Memory{}, route: `"hold_ms": 1000`}, func(t *testing.T, w *world) {
			w.provider.Script("a-1", late(20*time.Second, alpha.says("Hel", "lo")))
			first := w.do(t, keyed("k", asks("alone", true)))
			require.Contains(t, first.body, ": ka\n")
			again := w.do(t, keyed("k", asks("alone", true)))
			assert.Equal(t, strings.ReplaceAll(first.body, ": ka\n", ""), again.body, "without the comments that broke its silence")
			assert.Equal(t, first.header.Get("Content-Type"), again.header.Get("Content-Type"))
		})
	})
}
