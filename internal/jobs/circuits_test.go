package jobs_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/breaker"
	"spillway/internal/fault"
	"spillway/internal/jobs"
	"spillway/internal/storetest"
	"spillway/internal/telemetry"
)

// environment is a process with circuits of its own, beside others that share a store.
type environment struct {
	*world
	log   bytes.Buffer
	posts int
	last  string // the id of the latest order's job
}

func inFleet(store breaker.Store) *environment {
	e := &environment{world: newWorld()}
	e.engine.Now = time.Now
	e.studio.poll = []polled{pending()}
	e.engine.Health = &jobs.Circuits{Fleet: &breaker.Fleet{Store: store}, Policy: fault.Default(), To: telemetry.New(&e.log, slog.LevelInfo)}
	return e
}

// order orders one more video, whose submit is answered so, and tells who was asked and what has become of the job.
func (e *environment) order(t *testing.T, answers ...submitted) string {
	t.Helper()
	e.posts++
	e.studio.submit, e.studio.submits, e.studio.asked = answers, 0, nil
	o := order()
	o.Key = fmt.Sprint("k", e.posts)
	j, _, err := e.engine.Begin(ctx, o)
	require.NoError(t, err)
	e.last = j.ID
	j, err = e.engine.Start(ctx, j)
	if err != nil {
		require.ErrorIs(t, err, jobs.ErrNobody)
	}
	return fmt.Sprintf("%s: %s", strings.Join(e.studio.asked, ", "), j.State)
}

func (e *environment) transitions(t *testing.T) (all []string) {
	t.Helper()
	for line := range strings.Lines(readable(t, e.log.String())) {
		if _, rest, ok := strings.Cut(line, "circuit_transition "); ok {
			all = append(all, strings.TrimSpace(rest))
		}
	}
	return all
}

func TestSubmitsAndCircuits(t *testing.T) {
	down, well := submitted{err: status(503, fault.ServerError)}, accepted()
	const ofOne, ofTwo = "one: running", "two: running"
	for name, store := range map[string]func() breaker.Store{"alone": func() breaker.Store { return nil }, "with a store": func() breaker.Store { return &storetest.Health{} }} {
		t.Run(name+": an outage takes the first orders, then the next channel serves, and a probe finds out that it is over", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := inFleet(store())
				assert.Equal(t, ofOne, e.order(t, well))
				for range 3 { // it is not known whether these are made
					time.Sleep(time.Second)
					assert.Equal(t, "one: uncertain", e.order(t, down))
				}
				for range 20 {
					time.Sleep(time.Second)
					assert.Equal(t, ofTwo, e.order(t, well))
				}
				time.Sleep(14 * time.Second) // 30 s ± 10 % after the opening
				assert.Equal(t, "one: uncertain", e.order(t, down), "the probe")
				assert.Equal(t, ofTwo, e.order(t, well))
				time.Sleep(42 * time.Second)
				assert.Equal(t, ofOne, e.order(t, well), "the next probe")
				time.Sleep(time.Second)
				assert.Equal(t, ofOne, e.order(t, well))
				for range 5 {
					time.Sleep(time.Second)
					assert.Equal(t, ofOne, e.order(t, well))
				}
				ts := e.transitions(t)
				require.Len(t, ts, 5, ts)
				for i, want := range []string{"from=closed to=open", "from=open to=half_open", "from=half_open to=open", "from=open to=half_open", "from=half_open to=closed"} {
					assert.Contains(t, ts[i], "circuit=one/veo//main ")
					from, to, _ := strings.Cut(want, " ")
					assert.Contains(t, ts[i], from)
					assert.Contains(t, ts[i], to)
				}
			})
		})
	}
	t.Run("what one environment has learned, another one heeds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &storetest.Health{}
			gateway, poller := inFleet(store), inFleet(store)
			for range 3 {
				assert.Equal(t, "one: uncertain", gateway.order(t, down))
			}
			time.Sleep(6 * time.Second)
			assert.Equal(t, ofTwo, poller.order(t, well))
			time.Sleep(30 * time.Second)
			assert.Equal(t, ofOne, poller.order(t, well), "its probe")
			assert.Equal(t, ofOne, gateway.order(t, well))
		})
	})
	t.Run("a pause that the provider asked for is kept by all, and after it the first is asked again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := inFleet(nil)
			limited := submitted{err: failure(fault.RateLimited, fault.Observation{Status: 429, Sent: true, Parsed: true, Hint: fault.Hint{Known: true, Wait: time.Minute}})}
			assert.Equal(t, "one, two: running", e.order(t, limited, well))
			assert.Equal(t, ofTwo, e.order(t, well))
			time.Sleep(61 * time.Second)
			assert.Equal(t, ofOne, e.order(t, well))
		})
	})
	t.Run("a key that is refused is not called again until its hold is over, and each order says so", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := inFleet(nil)
			e.engine.Record = &jobs.Records{To: telemetry.New(&e.log, slog.LevelInfo), Policy: fault.Default()}
			refused := submitted{err: status(401, fault.Auth)}
			assert.Equal(t, "one, two: running", e.order(t, refused, well))
			assert.Equal(t, ofTwo, e.order(t, well))
			assert.Equal(t, 3, strings.Count(e.log.String(), `"msg":"attempt_finished"`), "an answer from memory is no attempt")
			assert.Equal(t, 2, strings.Count(e.log.String(), `"reason":"refused"`))
			time.Sleep(5*time.Minute + time.Second)
			assert.Equal(t, ofOne, e.order(t, well))
		})
	})
	t.Run("that a job waits is recorded once, and each call as an attempt", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := inFleet(nil)
			e.engine.Record = &jobs.Records{To: telemetry.New(&e.log, slog.LevelInfo), Policy: fault.Default()}
			for range 3 {
				assert.Equal(t, "one: uncertain", e.order(t, down))
			}
			for range 3 {
				assert.Equal(t, "two: uncertain", e.order(t, down))
			}
			assert.Equal(t, ": queued", e.order(t, well))
			j := e.job(t, e.last)
			for range 3 {
				_, err := e.engine.Submit(ctx, j)
				require.ErrorIs(t, err, jobs.ErrNobody)
			}
			assert.Equal(t, 1, strings.Count(e.log.String(), `"from":"queued","to":"queued","reason":"waits"`))
			assert.Equal(t, 6, strings.Count(e.log.String(), `"msg":"attempt_finished"`))
		})
	})
	t.Run("organizations' own keys have circuits of their own", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := inFleet(nil)
			for range 3 {
				assert.Equal(t, "one: uncertain", e.order(t, down))
			}
			assert.Equal(t, ofTwo, e.order(t, well))
			e.studio.asked = nil
			o := order()
			o.Organization = "bring"
			j, _, err := e.engine.Begin(ctx, o)
			require.NoError(t, err)
			j, err = e.engine.Start(ctx, j)
			require.NoError(t, err)
			assert.Equal(t, "own", j.Credential)
		})
	})
	t.Run("a provider that says nothing for as long as a submit may take is failing, too", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := inFleet(nil)
			limit := func(f *fault.Failure, stalled bool) breaker.State {
				fleet := &breaker.Fleet{}
				circuits := &jobs.Circuits{Fleet: fleet, Policy: fault.Default(), To: telemetry.New(&e.log, slog.LevelError)}
				v := circuits.Visit(ctx)
				defer v.End()
				c := candidates("one main")[0]
				for range 5 {
					if p := v.Admit(c, time.Minute); p != nil {
						p.Report(f, stalled)
						p.Report(f, stalled)
						p.Free()
					}
				}
				return v.Look(candidates("one main"))[0].State
			}
			mute := &fault.Failure{Class: fault.Deadline}
			assert.Equal(t, breaker.Open, limit(mute, true))
			assert.Equal(t, breaker.Closed, limit(mute, false))
			assert.Equal(t, breaker.Closed, limit(nil, false))
		})
	})
	t.Run("the store of the health is away: everybody goes on alone, and nobody waits for long", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := inFleet(speechless{})
			for range 3 {
				assert.Equal(t, "one: uncertain", e.order(t, down))
			}
			began := time.Now()
			assert.Equal(t, ofTwo, e.order(t, well))
			assert.LessOrEqual(t, time.Since(began), time.Second)
		})
	})
	t.Run("polls read nothing of the health", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &storetest.Health{}
			e := inFleet(store)
			e.engine.Now = func() time.Time { return e.now } // as its queue has it
			assert.Equal(t, ofOne, e.order(t, well))
			read := map[string]int{"snapshot": 1}
			assert.Equal(t, read, store.Calls, "a submit reads the snapshot, if it has none that is fresh")
			e.run(t, 10*time.Minute)
			require.Greater(t, e.studio.polls, 5)
			assert.Equal(t, read, store.Calls)
		})
	})
}

// speechless is a store that answers nobody.
type speechless struct{}

func (speechless) Snapshot(ctx context.Context) (breaker.Snapshot, error) { return nil, hang(ctx) }

func (speechless) Tell(ctx context.Context, _ breaker.Key, _ uint64, _ []breaker.Bucket, _ time.Time) (breaker.Told, error) {
	return breaker.Told{}, hang(ctx)
}

func (speechless) Swap(ctx context.Context, _ breaker.Key, _ uint64, _ breaker.Circuit, _ time.Time) (breaker.Circuit, error) {
	return breaker.Circuit{}, hang(ctx)
}

func (speechless) Hold(ctx context.Context, _ breaker.Key, _ breaker.Holds, _ time.Time) error {
	return hang(ctx)
}

func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}
