package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/catalog"
	"spillway/internal/fault"
	"spillway/internal/jobs"
	"spillway/internal/media"
	"spillway/internal/provider"
)

// TestTheSchemaNamesTheDefaults: what an operator reads beside a limit is what holds without it.
func TestTheSchemaNamesTheDefaults(t *testing.T) {
	var schema struct {
		Properties struct {
			Jobs struct {
				Properties map[string]struct{ Default int64 }
			}
		}
	}
	require.NoError(t, json.Unmarshal(catalog.Schema(), &schema))
	got := map[string]int64{}
	for name, m := range schema.Properties.Jobs.Properties {
		got[name] = m.Default
	}
	assert.Equal(t, map[string]int64{"deadline_ms": media.Lifetime.Milliseconds(), "lease_ms": media.SubmitLease.Milliseconds(), "overdue_ms": media.Overdue.Milliseconds(),
		"first_poll_ms": media.FirstPoll.Milliseconds(), "slowest_poll_ms": media.SlowestPoll.Milliseconds(), "max_poll_failures": media.MaxPollFailures,
		"max_polls": media.MaxPolls, "max_tells": media.MaxTells}, got)
}

// limited is a world whose configuration says how long jobs may take.
func limited(l catalog.Jobs) *world {
	w := newWorld()
	c := *w.engine.Catalog
	c.Jobs = l
	w.engine.Catalog = &c
	return w
}

func TestTheConfigurationLimitsJobs(t *testing.T) {
	short := catalog.Jobs{Deadline: 30 * time.Second, Lease: 4 * time.Second, Overdue: 2 * time.Second, FirstPoll: time.Second, SlowestPoll: 3 * time.Second,
		MaxPollFailures: 3, MaxPolls: 6, MaxTells: 2}
	begun := func(t *testing.T, w *world, polls ...polled) media.Job {
		w.studio.submit, w.studio.poll = []submitted{accepted()}, polls
		return w.post(t, order())
	}
	t.Run("polls come after 1, 2, 3, 3 … seconds, and six are the end", func(t *testing.T) {
		w := limited(short)
		j := begun(t, w, pending())
		w.run(t, time.Minute)
		got := w.job(t, j.ID)
		assert.Equal(t, media.Failed, got.State)
		assert.Equal(t, 6, w.studio.polls)
		assert.Equal(t, 15*time.Second, got.FinishedAt.Sub(start))
	})
	t.Run("so are three failures", func(t *testing.T) {
		w := limited(short)
		j := begun(t, w, polled{err: status(502, fault.ServerError)})
		w.run(t, time.Minute)
		assert.Equal(t, media.Failed, w.job(t, j.ID).State)
		assert.Equal(t, 3, w.studio.polls)
	})
	t.Run("and the deadline", func(t *testing.T) {
		l := short
		l.MaxPolls = 100
		w := limited(l)
		j := begun(t, w, pending())
		w.run(t, time.Minute)
		got := w.job(t, j.ID)
		assert.Equal(t, media.Expired, got.State)
		assert.Equal(t, start.Add(30*time.Second), got.FinishedAt)
		assert.Equal(t, start.Add(30*time.Second), got.Deadline)
	})
	t.Run("a callback that takes nothing is told twice", func(t *testing.T) {
		w := limited(short)
		w.answer = func(int) (int, error) { return 500, nil }
		begun(t, w, succeeded())
		w.run(t, time.Hour)
		assert.Len(t, w.told, 2)
	})
	t.Run("a lost message is sent again after two seconds", func(t *testing.T) {
		w := limited(short)
		j := begun(t, w, succeeded())
		w.queue = nil
		w.now = w.job(t, j.ID).NextPollAt.Add(2*time.Second + time.Millisecond)
		did, err := w.engine.Sweep(ctx, 10)
		require.NoError(t, err)
		assert.Equal(t, map[media.Task]int{media.Enqueue: 1}, did)
	})
	t.Run("a submit is broken off a second before its lease of four ends, and leaves a job of which nobody knows", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := limited(short)
			w.engine.Now = nil
			w.studio.submit = []submitted{accepted()}
			w.engine.Studios = map[string]provider.Studio{"fal": hanging{&w.studio}}
			begun := time.Now()
			j := w.post(t, order())
			assert.Equal(t, media.Uncertain, j.State)
			assert.Equal(t, 3*time.Second, time.Since(begun))
			assert.Equal(t, 4*time.Second, w.changes[0].LeaseUntil.Sub(begun))
		})
	})
}

// hanging is a provider that does not answer.
type hanging struct{ *studio }

func (hanging) Submit(ctx context.Context, _ provider.Task) (provider.Submission, error) {
	<-ctx.Done()
	return provider.Submission{}, failure(fault.Deadline, fault.Observation{Local: fault.OutOfTime, Sent: true})
}

// TestNobodyStarves: however many jobs wait for what the sweeper cannot give them, and however few it looks at, each is
// looked at in its turn.
func TestNobodyStarves(t *testing.T) {
	const crowd, limit = 60, 10
	for name, c := range map[string]struct {
		ahead  func(w *world) // what has become of the crowd
		submit submitted
		model  string
	}{
		"a crowd of which nobody knows, at a provider that cannot tell": {func(*world) {}, submitted{err: lost()}, "veo"},
		"a crowd that nobody can make":                                  {func(*world) {}, accepted(), "unheard-of"},
		"a crowd at a provider that does not say": {func(w *world) {
			w.canFind()
			w.studio.found = func() (string, bool, error) { return "", false, errors.New("busy") }
		}, submitted{err: lost()}, "veo"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c.ahead(w)
			w.studio.poll = []polled{pending()}
			post := func(key, model string, s submitted) media.Job {
				w.studio.submit, w.studio.submits = []submitted{s}, 0
				o := order()
				o.Key, o.Model = key, model
				j, _, err := w.engine.Begin(ctx, o)
				require.NoError(t, err)
				j, err = w.engine.Start(ctx, j)
				if model == "veo" {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, jobs.ErrNobody)
				}
				return j
			}
			for i := range crowd {
				post(fmt.Sprint("crowd", i), c.model, c.submit)
			}
			w.now = w.now.Add(time.Minute)
			late := post("late", "veo", accepted())
			w.queue = nil // its message is lost
			w.now = w.now.Add(2*time.Second + media.Overdue + time.Millisecond)
			for range crowd/limit + 1 {
				_, err := w.engine.Sweep(ctx, limit)
				require.NoError(t, err)
				w.now = w.now.Add(time.Second)
			}
			w.studio.poll, w.studio.polls = []polled{succeeded()}, 0
			w.run(t, time.Second)
			assert.Equal(t, media.Succeeded, w.job(t, late.ID).State)
		})
	}
}

// TestAProviderThatHangsKeepsNoOtherJobWaiting: a hundred of its jobs are past their deadline, and each is asked for a last time.
func TestAProviderThatHangsKeepsNoOtherJobWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.engine.Now = nil
		w.studio.submit = []submitted{accepted()}
		var hung []media.Job
		for i := range 100 {
			o := order()
			o.Key = fmt.Sprint("hung", i)
			hung = append(hung, w.post(t, o))
		}
		time.Sleep(media.Lifetime - media.Overdue - 5*time.Second)
		o := order()
		o.Key = "late"
		late := w.post(t, o)
		w.queue = nil // every message is lost
		time.Sleep(media.Overdue + 6*time.Second)
		w.engine.Studios = map[string]provider.Studio{"fal": slow{w}}
		within, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		did, err := w.engine.Sweep(within, 1000)
		require.NoError(t, err)
		assert.Equal(t, 1, did[media.Enqueue])
		assert.Less(t, did[media.GiveUp], len(hung), "there was no time for all")
		require.NotEmpty(t, w.queue)
		assert.Contains(t, string(w.queue[0].body), late.ID)
	})
}
