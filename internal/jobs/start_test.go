package jobs_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/fault"
	"spillway/internal/jobs"
	"spillway/internal/media"
	"spillway/internal/provider"
)

// withBox is a world in which one more provider answers with the work itself. Both count on their own.
func withBox(queued, box []submitted) (*world, *studio) {
	w := newWorld()
	w.studio.submit, w.studio.poll = queued, []polled{{Status: provider.Status{State: media.Succeeded, Artifact: &provider.Artifact{URL: "song"}}}}
	w.works["song"] = work{content: mp3}
	b := &studio{w: w, atOnce: true, submit: box}
	w.engine.Studios = map[string]provider.Studio{"fal": &w.studio, "elevenlabs": b}
	return w, b
}

func music(model string) jobs.Order {
	o := order()
	o.Kind, o.Model, o.Request = media.Music, model, []byte(`{"model":"m","prompt":"a shanty"}`)
	return o
}

func TestAFreshJobIsSubmittedAtOnceWhereThatIsQuick(t *testing.T) {
	throttled := submitted{err: status(429, fault.RateLimited)}
	for name, c := range map[string]struct {
		model       string
		queued, box []submitted
		posted      media.State // when the client is answered
		asked       int         // of the queue's provider by then
		waits       bool        // a message to submit it is on its way
		want        media.State
		submits     [2]int // in the end
	}{
		"a provider that makes it later":                                      {"veo", []submitted{accepted()}, nil, media.Running, 1, false, media.Succeeded, [2]int{1, 0}},
		"one that surely refuses, and the next":                               {"veo", []submitted{throttled, accepted()}, nil, media.Running, 2, false, media.Succeeded, [2]int{2, 0}},
		"one that may have it":                                                {"veo", []submitted{{err: lost()}}, nil, media.Uncertain, 1, false, media.Uncertain, [2]int{1, 0}},
		"a provider that answers with the work itself":                        {"song", nil, []submitted{{work: mp3}}, media.Queued, 0, true, media.Succeeded, [2]int{0, 1}},
		"one that surely refuses, and then one that answers with the work":    {"jingle", []submitted{throttled}, []submitted{{work: mp3}}, media.Queued, 1, true, media.Succeeded, [2]int{1, 1}},
		"one that answers with the work refuses: the next from there":         {"song", []submitted{accepted()}, []submitted{throttled}, media.Queued, 0, true, media.Succeeded, [2]int{1, 1}},
		"all refuse, the last one when nobody waits any more":                 {"jingle", []submitted{throttled}, []submitted{throttled}, media.Queued, 1, true, media.Failed, [2]int{1, 1}},
		"one that answers with the work breaks off: it is not made elsewhere": {"song", []submitted{accepted()}, []submitted{{err: lost()}}, media.Queued, 0, true, media.Uncertain, [2]int{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			w, box := withBox(c.queued, c.box)
			o := music(c.model)
			if c.model == "veo" {
				o = order()
				w.works["song"] = work{content: mp4}
			}
			j, fresh, err := w.engine.Begin(ctx, o)
			require.NoError(t, err)
			require.True(t, fresh)
			j, err = w.engine.Start(ctx, j)
			require.NoError(t, err)
			assert.Equal(t, c.posted, j.State)
			assert.Equal(t, j, w.job(t, j.ID))
			assert.Equal(t, c.asked, w.studio.submits)
			assert.Zero(t, box.submits, "no client waits for the work itself")
			waits := 0
			for _, d := range w.queue {
				if d.queue == "submits" {
					waits++
					assert.Zero(t, d.delay)
				}
			}
			assert.Equal(t, map[bool]int{true: 1, false: 0}[c.waits], waits)
			w.run(t, time.Minute)
			got := w.job(t, j.ID)
			assert.Equal(t, c.want, got.State)
			assert.Equal(t, c.submits, [2]int{w.studio.submits, box.submits})
			assert.LessOrEqual(t, w.studio.created[j.ID]+box.created[j.ID], 1)
			assert.Zero(t, w.failed)
		})
	}
	t.Run("one that answers with the work refuses late: the next such one has an invocation of its own, and does not lose the work", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, box := withBox(nil, []submitted{throttled, {work: mp3}})
			slow := lasting{box, 100 * time.Second}
			w.engine.Studios = map[string]provider.Studio{"fal": slow, "elevenlabs": slow}
			j, _, err := w.engine.Begin(ctx, music("song"))
			require.NoError(t, err)
			_, err = w.engine.Start(ctx, j)
			require.NoError(t, err)
			for n := 1; n <= 2; n++ {
				require.Len(t, w.queue, 1)
				m := w.queue[0]
				w.queue = nil
				invocation, cancel := context.WithTimeout(ctx, 150*time.Second)
				assert.Empty(t, w.engine.HandleBatch(invocation, []jobs.Record{{ID: m.id, Body: m.body}}))
				cancel()
				assert.Equal(t, n, box.submits)
			}
			assert.Equal(t, media.Succeeded, w.job(t, j.ID).State)
		})
	})
	t.Run("its message cannot be sent: it waits, and the sweeper sends one, to the same queue", func(t *testing.T) {
		w, box := withBox(nil, []submitted{{work: mp3}})
		w.broken["send"] = errors.New("the queue is away")
		j, _, err := w.engine.Begin(ctx, music("song"))
		require.NoError(t, err)
		j, err = w.engine.Start(ctx, j)
		require.NoError(t, err)
		assert.Equal(t, media.Queued, j.State)
		assert.NotEmpty(t, w.trouble)
		delete(w.broken, "send")
		w.now = w.now.Add(media.Overdue + time.Second)
		did, err := w.engine.Sweep(ctx, 10)
		require.NoError(t, err)
		assert.Equal(t, map[media.Task]int{media.Enqueue: 1}, did)
		require.Len(t, w.queue, 1)
		assert.Equal(t, "submits", w.queue[0].queue)
		w.run(t, time.Second)
		assert.Equal(t, media.Succeeded, w.job(t, j.ID).State)
		assert.Equal(t, 1, box.submits)
	})
	t.Run("one that is not queued any more stays as it is", func(t *testing.T) {
		w, j := running(t)
		got, err := w.engine.Start(ctx, j)
		require.NoError(t, err)
		assert.Equal(t, j, got)
		assert.Equal(t, 1, w.studio.submits)
	})
	t.Run("nobody makes it: the channels of a kind without an adapter do not count", func(t *testing.T) {
		w, _ := withBox([]submitted{accepted()}, nil)
		w.engine.Studios = map[string]provider.Studio{"fal": &w.studio}
		j, _, err := w.engine.Begin(ctx, music("song"))
		require.NoError(t, err)
		j, err = w.engine.Start(ctx, j)
		require.NoError(t, err)
		assert.Equal(t, media.Running, j.State)
		w.engine.Studios = nil
		o := music("song")
		o.Key = "k2"
		j, _, err = w.engine.Begin(ctx, o)
		require.NoError(t, err)
		_, err = w.engine.Start(ctx, j)
		require.ErrorIs(t, err, jobs.ErrNobody)
		assert.Empty(t, w.engine.HandleBatch(ctx, []jobs.Record{{ID: "m", Body: []byte(`{"do":"submit","organization":"acme","job":"` + j.ID + `"}`)}}), "and its message is done: the sweeper asks again")
	})
}

// lasting is a studio whose submits take so long, if they are let.
type lasting struct {
	*studio
	each time.Duration
}

func (l lasting) Submit(ctx context.Context, t provider.Task) (provider.Submission, error) {
	select {
	case <-time.After(l.each):
		return l.studio.Submit(ctx, t)
	case <-ctx.Done():
		l.studio.submits++
		return provider.Submission{}, failure(fault.Deadline, fault.Observation{Local: fault.OutOfTime, Sent: true, Phase: fault.PhaseSent})
	}
}
