package jobs_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/fault"
	"spillway/internal/jobs"
	"spillway/internal/media"
	"spillway/internal/provider"
	"spillway/internal/redact"
)

// TestWhichMessagesComeAgain: five times, and a message is among the dead letters. Only what somebody has to look at may get there: what
// can never be handled, and what failed for want of the table or the bucket. What a provider, a callback or a queue does is no
// reason: the job says what comes next.
func TestWhichMessagesComeAgain(t *testing.T) {
	const again, done = true, false
	queued := func(t *testing.T, w *world, o jobs.Order) media.Job {
		j, _, err := w.engine.Begin(ctx, o)
		require.NoError(t, err)
		return j
	}
	posted := func(t *testing.T, w *world) media.Job { return w.post(t, order()) }
	ended := func(t *testing.T, w *world) media.Job {
		j := w.post(t, order())
		w.studio.poll = []polled{{Status: provider.Status{State: media.Failed}}}
		require.Empty(t, w.engine.HandleBatch(ctx, []jobs.Record{{ID: "m", Body: polling(j, 1)}}))
		return j
	}
	for name, c := range map[string]struct {
		do  string
		job func(t *testing.T, w *world) media.Job
		but func(w *world)
		seq uint64
		it  bool
	}{
		"a submit": {"submit", func(t *testing.T, w *world) media.Job { return queued(t, w, order()) }, nil, 0, done},
		"a submit that every channel refuses": {"submit", func(t *testing.T, w *world) media.Job { return queued(t, w, order()) },
			func(w *world) { w.studio.submit = []submitted{{err: status(429, fault.RateLimited)}} }, 0, done},
		"a submit that may have been taken": {"submit", func(t *testing.T, w *world) media.Job { return queued(t, w, order()) },
			func(w *world) { w.studio.submit = []submitted{{err: lost()}} }, 0, done},
		"a submit of what nobody makes": {"submit", func(t *testing.T, w *world) media.Job {
			o := order()
			o.Model = "unheard-of"
			return queued(t, w, o)
		}, nil, 0, done},
		"a submit without any adapter": {"submit", func(t *testing.T, w *world) media.Job { return queued(t, w, order()) },
			func(w *world) { w.engine.Studios = nil }, 0, done},
		"a submit past the deadline": {"submit", func(t *testing.T, w *world) media.Job { return queued(t, w, order()) },
			func(w *world) { w.now = w.now.Add(time.Hour) }, 0, done},
		"a submit of what is submitted already": {"submit", posted, nil, 0, done},
		"a submit whose long request the bucket does not give out": {"submit", func(t *testing.T, w *world) media.Job { return queued(t, w, pictured(40<<10)) },
			func(w *world) { w.broken["open"] = errors.New("the bucket is away") }, 0, again},
		"a submit while the queue is away": {"submit", func(t *testing.T, w *world) media.Job { return queued(t, w, order()) },
			func(w *world) { w.broken["send"] = errors.New("the queue is away") }, 0, done},
		"a poll":                               {"poll", posted, nil, 1, done},
		"a poll from before":                   {"poll", posted, nil, 0, done},
		"a poll of what is over":               {"poll", ended, nil, 1, done},
		"a poll that the provider fails":       {"poll", posted, func(w *world) { w.studio.poll = []polled{{err: status(502, fault.ServerError)}} }, 1, done},
		"a poll while the queue is away":       {"poll", posted, func(w *world) { w.broken["send"] = errors.New("the queue is away") }, 1, done},
		"a poll whose work cannot be copied":   {"poll", posted, func(w *world) { w.studio.poll, w.broken["put"] = []polled{succeeded()}, errors.New("away") }, 1, done},
		"a poll of a channel that is gone":     {"poll", posted, func(w *world) { w.engine.Studios = nil }, 1, done},
		"a poll past the deadline":             {"poll", posted, func(w *world) { w.now = w.now.Add(time.Hour) }, 1, done},
		"a poll while the table is not read":   {"poll", posted, func(w *world) { w.broken["get"] = errors.New("the table is away") }, 1, again},
		"a poll while the table takes nothing": {"poll", posted, func(w *world) { w.broken["replace"] = errors.New("the table is away") }, 1, again},
		"a poll whose handling panics":         {"poll", posted, func(w *world) { w.engine.Studios = map[string]provider.Studio{"fal": panicking{}} }, 1, again},
		"a telling":                            {"tell", ended, nil, 0, done},
		"a telling of what is not over":        {"tell", posted, nil, 0, done},
		"a telling that nobody takes":          {"tell", ended, func(w *world) { w.answer = func(int) (int, error) { return 500, errors.New("?") } }, 0, done},
		"a telling without a secret":           {"tell", ended, func(w *world) { w.engine.Signing = func(string) redact.Secret { return redact.Secret{} } }, 0, done},
		"what no version of ours asks for":     {"dance", posted, nil, 0, again},
		"a poll of a job that is not there": {"poll", func(t *testing.T, w *world) media.Job {
			j := posted(t, w)
			j.ID = "job_none"
			return j
		}, nil, 1, again},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // a table that is away is waited for
				w := newWorld()
				w.studio.submit, w.studio.poll = []submitted{accepted()}, []polled{pending()}
				j := c.job(t, w)
				if c.but != nil {
					c.but(w)
				}
				body := fmt.Appendf(nil, `{"do":%q,"organization":"acme","job":%q,"seq":%d}`, c.do, j.ID, c.seq)
				assert.Equal(t, c.it, len(w.engine.HandleBatch(ctx, []jobs.Record{{ID: "m", Body: body}})) > 0)
			})
		})
	}
}
