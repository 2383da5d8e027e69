package breaker_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/breaker"
	"spillway/internal/fault"
	"spillway/internal/storetest"
)

// environments are fleets over one store.
func environments(n int, s breaker.Store) []*breaker.Fleet {
	all := make([]*breaker.Fleet, n)
	for i := range all {
		all[i] = &breaker.Fleet{Store: s}
	}
	return all
}

var (
	fleetKey = breaker.Key{Provider: "alpha", Model: "a-1", Credential: "main"}
	down     = breaker.Outcome{Class: fault.ServerError, Weight: 1}
	refused  = breaker.Outcome{Class: fault.Auth, Status: 401, Code: "invalid_api_key", Hold: fault.Remember, HoldFor: 5 * time.Minute}
)

// request is one request with one call; called is false when the circuit did not let it through.
func request(t *testing.T, f *breaker.Fleet, o breaker.Outcome) (called, probe bool, ts []breaker.Transition) {
	t.Helper()
	v := f.Begin(t.Context(), time.Now())
	v.Ready()
	p := v.Admit(time.Now(), fleetKey, 10*time.Second)
	if !p.Allowed {
		return false, false, append(ts, v.End()...)
	}
	ts = append(p.Transitions, v.Report(time.Now(), p, o, middle)...)
	return true, p.Probe, append(ts, v.End()...)
}

func view(t *testing.T, f *breaker.Fleet) breaker.View {
	t.Helper()
	v := f.Begin(t.Context(), time.Now())
	defer v.End()
	v.Ready()
	return v.Look(time.Now(), []breaker.Key{fleetKey})[0]
}

func TestTheSumOfAllOpensTheCircuitForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := environments(8, &storetest.Health{})
		for _, f := range all { // each has served a request before
			request(t, f, breaker.Succeeded())
		}
		time.Sleep(4 * time.Second)
		calls, opened := 0, 0
		for i := range 24 {
			called, _, ts := request(t, all[i%8], down)
			if called {
				calls++
			}
			opened += len(ts)
			time.Sleep(100 * time.Millisecond)
		}
		assert.Equal(t, 1, opened, "one environment opens it")
		assert.LessOrEqual(t, calls, 8+3, "whoever has not seen a failure calls once at most")
		for _, f := range all {
			assert.Equal(t, breaker.IsOpen, view(t, f).Reason)
		}
	})
}

func TestOneProbeAtATimeAcrossTheFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := environments(8, &storetest.Health{})
		for range 6 {
			request(t, all[0], down)
		}
		time.Sleep(40 * time.Second)
		var probes, calls atomic.Int32
		var wait sync.WaitGroup
		for i := range 50 {
			wait.Go(func() {
				v := all[i%8].Begin(t.Context(), time.Now())
				defer v.End()
				v.Ready()
				p := v.Admit(time.Now(), fleetKey, 10*time.Second)
				if !p.Allowed {
					return
				}
				calls.Add(1)
				if p.Probe {
					probes.Add(1)
				}
				time.Sleep(time.Second)
				v.Report(time.Now(), p, breaker.Succeeded(), middle)
			})
		}
		wait.Wait()
		assert.EqualValues(t, 1, probes.Load(), "F25")
		assert.EqualValues(t, 1, calls.Load())

		time.Sleep(6 * time.Second) // the others hear of the free lease with the next snapshot
		_, probe, ts := request(t, all[3], breaker.Succeeded())
		assert.True(t, probe)
		require.Len(t, ts, 1)
		assert.Equal(t, breaker.ProbesSucceeded, ts[0].Cause)
		time.Sleep(2 * time.Second)
		for _, f := range all {
			called, probe, _ := request(t, f, breaker.Succeeded())
			assert.True(t, called)
			assert.False(t, probe, "it is closed for all")
		}
	})
}

func TestASlowCallFromBeforeTheOpeningChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &storetest.Health{}
		all := environments(2, store)
		slow := all[1].Begin(t.Context(), time.Now())
		p := slow.Admit(time.Now(), fleetKey, 10*time.Second)
		require.True(t, p.Allowed)
		time.Sleep(time.Second)
		for range 6 {
			request(t, all[0], down)
		}
		before := view(t, all[0])
		require.Equal(t, breaker.IsOpen, before.Reason)
		time.Sleep(20 * time.Second)
		assert.Empty(t, slow.Report(time.Now(), p, down, middle))
		slow.End()
		assert.Equal(t, before.Until, view(t, all[0]).Until)
		assert.Equal(t, before.Until, view(t, all[1]).Until)
	})
}

func TestAStoreThatIsDownChangesNoAnswer(t *testing.T) {
	broken := errors.New("the store is down")
	for name, hook := range map[string]func(string) (bool, error){
		"nothing is applied":               func(string) (bool, error) { return false, broken },
		"everything is applied and denied": func(string) (bool, error) { return true, broken },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lost atomic.Int32
				f := &breaker.Fleet{Store: &storetest.Health{Hook: hook}, Lost: func(string, error) { lost.Add(1) }}
				called, _, _ := request(t, f, breaker.Succeeded())
				assert.True(t, called)
				var opened []breaker.Transition
				for range 6 {
					_, _, ts := request(t, f, down)
					opened = append(opened, ts...)
				}
				require.Len(t, opened, 1, "its own circuit still works")
				assert.Equal(t, breaker.IsOpen, view(t, f).Reason)
				time.Sleep(40 * time.Second)
				_, probe, _ := request(t, f, breaker.Succeeded())
				assert.True(t, probe)
				_, _, ts := request(t, f, breaker.Succeeded())
				require.Len(t, ts, 1)
				assert.Equal(t, breaker.Closed, ts[0].To)
				assert.Positive(t, lost.Load())
			})
		})
	}
}

// slowStore answers after a while.
type slowStore struct {
	storetest.Health
	takes time.Duration
}

func (s *slowStore) Snapshot(ctx context.Context) (breaker.Snapshot, error) {
	select {
	case <-time.After(s.takes):
		return s.Health.Snapshot(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestWhatARequestWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{takes: 10 * time.Millisecond}
		f := &breaker.Fleet{Store: store}
		waited := func() time.Duration {
			began := time.Now()
			v := f.Begin(t.Context(), began)
			v.Ready()
			d := time.Since(began)
			v.End()
			return d
		}
		assert.Equal(t, 10*time.Millisecond, waited(), "the first request of an environment reads")
		assert.Zero(t, waited(), "fresh: no read at all")
		assert.Equal(t, 1, store.Calls["snapshot"])
		time.Sleep(3 * time.Second)
		assert.Zero(t, waited(), "up to 5 s old: it is read beside the upstream call")
		assert.Equal(t, 2, store.Calls["snapshot"])
		time.Sleep(6 * time.Second)
		assert.Equal(t, 10*time.Millisecond, waited(), "older: it is waited for")
		time.Sleep(6 * time.Second)
		store.takes = time.Second
		assert.Equal(t, 25*time.Millisecond, waited(), "but never for longer than 25 ms")
		assert.Empty(t, store.Calls["tell"]+store.Calls["swap"]+store.Calls["hold"])
	})
}

func TestHealthyProvidersCostNoWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &storetest.Health{}
		f := &breaker.Fleet{Store: store}
		for range 1000 {
			request(t, f, breaker.Succeeded())
			time.Sleep(10 * time.Millisecond)
		}
		assert.Zero(t, store.Calls["tell"]+store.Calls["swap"]+store.Calls["hold"])
		assert.LessOrEqual(t, store.Calls["snapshot"], 11, "one a second")

		request(t, f, down)
		assert.Equal(t, map[string]int{"snapshot": store.Calls["snapshot"], "tell": 1, "swap": 1}, store.Calls, "a failure: one write, and the first of a window begins a watch beside it")
		for range 1000 {
			request(t, f, breaker.Succeeded())
			time.Sleep(10 * time.Millisecond)
		}
		assert.InDelta(t, 3, store.Calls["tell"], 1, "while it is watched successes are told once per 5 s")
	})
}

func TestWhatOneEnvironmentHoldsAllHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &storetest.Health{}
		all := environments(2, store)
		assert.Equal(t, breaker.OK, view(t, all[1]).Reason)
		request(t, all[0], refused)
		time.Sleep(6 * time.Second)
		v := view(t, all[1])
		assert.Equal(t, breaker.HeldAuth, v.Reason)
		require.NotNil(t, v.Remembered)
		assert.Equal(t, 401, v.Remembered.Status)

		require.NoError(t, func() error {
			_, err := breaker.Operate(t.Context(), store, fleetKey, breaker.OrderReset, 0, time.Now())
			return err
		}())
		time.Sleep(6 * time.Second)
		for _, f := range all {
			assert.Equal(t, breaker.OK, view(t, f).Reason, "an operator lifts it")
		}
	})
	t.Run("a hold that the store does not know of stays with the environment", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &storetest.Health{Hook: func(call string) (bool, error) {
				if call == "hold" {
					return false, errors.New("throttled")
				}
				return true, nil
			}}
			f := &breaker.Fleet{Store: store}
			request(t, f, refused)
			time.Sleep(time.Minute)
			assert.Equal(t, breaker.HeldAuth, view(t, f).Reason)
		})
	})
}

func TestOperatorsOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &storetest.Health{}
		all := environments(3, store)
		order := func(o breaker.Order, length time.Duration) []breaker.Transition {
			t.Helper()
			ts, err := breaker.Operate(t.Context(), store, fleetKey, o, length, time.Now())
			require.NoError(t, err)
			time.Sleep(6 * time.Second)
			return ts
		}
		ts := order(breaker.OrderOpen, time.Hour)
		require.Len(t, ts, 1)
		assert.Equal(t, breaker.ByOperator, ts[0].Cause)
		assert.Equal(t, fleetKey, ts[0].Key)
		for _, f := range all {
			assert.Equal(t, breaker.IsOpen, view(t, f).Reason)
		}
		order(breaker.OrderReset, 0)
		order(breaker.OrderHold, time.Hour)
		for _, f := range all {
			v := view(t, f)
			assert.Equal(t, breaker.Throttled, v.Reason)
			assert.WithinDuration(t, time.Now().Add(time.Hour), v.Until, 10*time.Second)
		}
		order(breaker.OrderReset, 0)
		for _, f := range all {
			called, probe, _ := request(t, f, breaker.Succeeded())
			assert.True(t, called)
			assert.False(t, probe)
		}
	})
	t.Run("an order comes after what an environment does at the same moment", func(t *testing.T) {
		store := &storetest.Health{}
		f := &breaker.Fleet{Store: store}
		turns := 0
		store.Hook = func(call string) (bool, error) {
			if call == "swap" && turns == 0 {
				turns++
				go func() {
					for range 6 {
						request(t, f, down)
					}
				}()
			}
			return true, nil
		}
		_, err := breaker.Operate(t.Context(), store, fleetKey, breaker.OrderOpen, time.Hour, time.Now())
		assert.NoError(t, err)
	})
}

func TestAStoreThatComesBackHearsOfWhatItMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &storetest.Health{Hook: func(string) (bool, error) { return false, errors.New("down") }}
		all := environments(2, store)
		for range 6 {
			request(t, all[0], down)
		}
		time.Sleep(40 * time.Second)
		store.Hook = nil
		_, probe, _ := request(t, all[0], down)
		assert.True(t, probe)
		time.Sleep(6 * time.Second)
		assert.Equal(t, breaker.IsOpen, view(t, all[1]).Reason)
	})
}

// TestAnOldSnapshotDoesNotUndoWhatTheEnvironmentDid: a snapshot is read eventually consistently.
func TestAnOldSnapshotDoesNotUndoWhatTheEnvironmentDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lagging := &laggingStore{}
		f := &breaker.Fleet{Store: lagging}
		request(t, f, breaker.Succeeded())
		for range 6 {
			request(t, f, down)
		}
		require.Equal(t, breaker.IsOpen, view(t, f).Reason)
		for range 5 {
			time.Sleep(2 * time.Second)
			assert.Equal(t, breaker.IsOpen, view(t, f).Reason)
		}
	})
}

// laggingStore shows nothing in its snapshots.
type laggingStore struct{ storetest.Health }

func (*laggingStore) Snapshot(context.Context) (breaker.Snapshot, error) { return nil, nil }

// hanging is a store of which some calls never answer, and the others take a while.
type hanging struct {
	storetest.Health
	hangs map[string]bool
	takes time.Duration
}

func (s *hanging) wait(ctx context.Context, call string) error {
	takes := s.takes
	if s.hangs[call] {
		takes = time.Hour
	}
	select {
	case <-time.After(takes):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *hanging) Tell(ctx context.Context, k breaker.Key, version uint64, reported []breaker.Bucket, now time.Time) (breaker.Told, error) {
	if err := s.wait(ctx, "tell"); err != nil {
		return breaker.Told{}, err
	}
	return s.Health.Tell(ctx, k, version, reported, now)
}

func (s *hanging) Swap(ctx context.Context, k breaker.Key, old uint64, next breaker.Circuit, now time.Time) (breaker.Circuit, error) {
	if err := s.wait(ctx, "swap"); err != nil {
		return breaker.Circuit{}, err
	}
	return s.Health.Swap(ctx, k, old, next, now)
}

func (s *hanging) Hold(ctx context.Context, k breaker.Key, h breaker.Holds, now time.Time) error {
	if err := s.wait(ctx, "hold"); err != nil {
		return err
	}
	return s.Health.Hold(ctx, k, h, now)
}

// TestAFailureWaitsOncePatienceAtMostAndASuccessNever: whatever the store does. The rest is waited for at the end.
func TestAFailureWaitsOncePatienceAtMostAndASuccessNever(t *testing.T) {
	const patience = 250 * time.Millisecond
	for name, store := range map[string]*hanging{
		"everything hangs":                     {hangs: map[string]bool{"tell": true, "swap": true, "hold": true}},
		"the sum comes late, the change hangs": {hangs: map[string]bool{"swap": true}, takes: 200 * time.Millisecond},
		"all of it is slow":                    {takes: 240 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &breaker.Fleet{Store: store}
				step := func(o breaker.Outcome) (admit, report, end time.Duration, probe bool, ts []breaker.Transition) {
					v := f.Begin(t.Context(), time.Now())
					began := time.Now()
					p := v.Admit(began, fleetKey, 10*time.Second)
					require.True(t, p.Allowed)
					admit = time.Since(began)
					ts = append(ts, p.Transitions...)
					began = time.Now()
					ts = append(ts, v.Report(began, p, o, middle)...)
					report = time.Since(began)
					began = time.Now()
					ts = append(ts, v.End()...)
					return admit, report, time.Since(began), p.Probe, ts
				}
				var opened []breaker.Transition
				for len(opened) == 0 {
					admit, report, end, _, ts := step(down)
					assert.Zero(t, admit)
					assert.LessOrEqual(t, report, patience)
					assert.LessOrEqual(t, report+end, 2*patience)
					opened = append(opened, ts...)
				}
				assert.Len(t, opened, 1)
				time.Sleep(40 * time.Second)
				for i := range 2 {
					admit, report, end, probe, ts := step(breaker.Succeeded())
					assert.True(t, probe)
					assert.LessOrEqual(t, admit, patience, "the lease is asked for")
					assert.Zero(t, report, "a success waits for nothing")
					assert.LessOrEqual(t, end, patience)
					if i == 1 {
						require.NotEmpty(t, ts)
						assert.Equal(t, breaker.Closed, ts[len(ts)-1].To)
					}
				}
			})
		})
	}
}

// TestRequestsOfOneEnvironmentAtOnce: they share a circuit, and a store that answers none of them.
func TestRequestsOfOneEnvironmentAtOnce(t *testing.T) {
	for name, store := range map[string]*hanging{
		"the store hangs":               {hangs: map[string]bool{"tell": true, "swap": true, "hold": true}},
		"the store is slow":             {takes: 100 * time.Millisecond},
		"the sum comes, no change does": {hangs: map[string]bool{"swap": true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &breaker.Fleet{Store: store}
				var mu sync.Mutex
				var changes []breaker.Transition
				probes, admitted := 0, 0
				atOnce := func(n int, o breaker.Outcome) {
					var all sync.WaitGroup
					for range n {
						all.Go(func() {
							v := f.Begin(t.Context(), time.Now())
							p := v.Admit(time.Now(), fleetKey, 10*time.Second)
							time.Sleep(time.Second)
							ts := append(p.Transitions, v.Report(time.Now(), p, o, middle)...)
							ts = append(ts, v.End()...)
							mu.Lock()
							defer mu.Unlock()
							changes = append(changes, ts...)
							if p.Allowed {
								admitted++
							}
							if p.Probe {
								probes++
							}
						})
					}
					all.Wait()
				}
				atOnce(20, down)
				require.Len(t, changes, 1, "it is opened once")
				time.Sleep(40 * time.Second)
				admitted = 0
				atOnce(20, breaker.Succeeded())
				assert.Equal(t, 1, probes, "one of them is the probe")
				assert.Equal(t, 1, admitted)
				assert.Len(t, changes, 2)
			})
		})
	}
}

// TestAProbeThatBreaksAfterItsContentReopens: its success is told beside the call, and comes first all the same.
func TestAProbeThatBreaksAfterItsContentReopens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &breaker.Fleet{Store: &hanging{takes: 50 * time.Millisecond}}
		for range 6 {
			request(t, f, down)
		}
		time.Sleep(40 * time.Second)
		v := f.Begin(t.Context(), time.Now())
		p := v.Admit(time.Now(), fleetKey, 10*time.Second)
		require.True(t, p.Probe)
		assert.Empty(t, v.Report(time.Now(), p, breaker.Succeeded(), middle))
		ts := append(v.Report(time.Now(), p, down, middle), v.End()...)
		require.Len(t, ts, 1)
		assert.Equal(t, breaker.Open, ts[0].To)
		assert.Equal(t, breaker.IsOpen, view(t, f).Reason)
	})
}
