package jobs_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/fault"
	"spillway/internal/jobs"
	"spillway/internal/media"
)

// stops runs what a process does until its fuse has burnt down.
func (w *world) stops(t *testing.T, fuse int, do func()) {
	t.Helper()
	w.fuse = fuse
	assert.PanicsWithValue(t, crashed{}, do)
}

// TestRivals: whoever works at a job beside another one finds out, and leaves it as good as alone.
func TestRivals(t *testing.T) {
	t.Run("a channel that was chosen before another execution was refused by it is not asked again, and none is passed over", func(t *testing.T) {
		w := newWorld()
		w.studio.submit, w.studio.poll = []submitted{{err: status(429, fault.RateLimited)}, accepted()}, []polled{pending()}
		read, _, err := w.engine.Begin(ctx, order())
		require.NoError(t, err)
		w.stops(t, 7, func() { _, _ = w.engine.Submit(ctx, read) }) // it has written that the first one refused
		require.Equal(t, 1, w.job(t, read.ID).Refusals)
		j, err := w.engine.Submit(ctx, read)
		require.NoError(t, err)
		assert.Equal(t, media.Running, j.State)
		assert.Equal(t, []string{"one", "two"}, w.studio.asked)
	})
	t.Run("F30: an order that is repeated while its job is queued has it submitted, by one of all that repeat it", func(t *testing.T) {
		w := newWorld()
		w.studio.submit, w.studio.poll = []submitted{accepted()}, []polled{pending()}
		read, _, err := w.engine.Begin(ctx, order()) // and here the process stops
		require.NoError(t, err)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				j, fresh, err := w.engine.Begin(ctx, order())
				assert.NoError(t, err)
				assert.False(t, fresh)
				_, err = w.engine.Resume(ctx, j)
				assert.NoError(t, err)
			})
		}
		all.Go(func() { // it had not stopped after all
			_, err := w.engine.Start(ctx, read)
			assert.NoError(t, err)
		})
		all.Wait()
		assert.Equal(t, media.Running, w.job(t, read.ID).State)
		assert.Equal(t, 1, w.studio.submits)
	})
	t.Run("one that waits for the queue is left to it, however often it is repeated", func(t *testing.T) {
		w, box := withBox(nil, []submitted{{work: mp3}})
		j, _, err := w.engine.Begin(ctx, music("song"))
		require.NoError(t, err)
		_, err = w.engine.Start(ctx, j)
		require.NoError(t, err)
		got, err := w.engine.Resume(ctx, j)
		require.NoError(t, err)
		assert.Equal(t, media.Queued, got.State)
		assert.Zero(t, box.submits)
		assert.Len(t, w.queue, 1)
	})
	t.Run("old messages, as an operator brings them back from the dead letters, change nothing", func(t *testing.T) {
		w, j := running(t, polled{Status: succeeded().Status})
		w.run(t, time.Minute)
		over := w.job(t, j.ID)
		require.Equal(t, media.Succeeded, over.State)
		require.Len(t, w.told, 1)
		w.studio.polls, w.changes = 0, nil
		for _, m := range []string{`"do":"submit"`, `"do":"poll"`, `"do":"poll","seq":1`, `"do":"poll","seq":99`, `"do":"tell"`, `"do":"tell","seq":7`, `"do":"tell","seq":1,"since":"a later version"`} {
			body := []byte(`{` + m + `,"organization":"acme","job":"` + j.ID + `"}`)
			assert.Empty(t, w.engine.HandleBatch(ctx, []jobs.Record{{ID: "m", Body: body}}), m)
		}
		assert.Equal(t, over, w.job(t, j.ID))
		assert.Zero(t, w.studio.polls)
		assert.Equal(t, 1, w.studio.submits)
		assert.Len(t, w.told, 1)
		assert.Empty(t, w.queue)
		assert.Empty(t, w.changes)
	})
	t.Run("a message of a later version that asks for something unknown comes again, until that version takes it, and blocks nobody", func(t *testing.T) {
		w, j := running(t, pending())
		unknown := []byte(`{"do":"rehearse","organization":"acme","job":"` + j.ID + `"}`)
		assert.Equal(t, []string{"m1"}, w.engine.HandleBatch(ctx, []jobs.Record{{ID: "m1", Body: unknown}, {ID: "m2", Body: polling(j, 1)}}))
		assert.EqualValues(t, 2, w.job(t, j.ID).Seq)
	})
	for name, lost := range map[string]error{"at once": nil, "while the write of one is lost": context.DeadlineExceeded} {
		t.Run("two that end a job in the same millisecond are one end, which is recorded and told once: "+name, func(t *testing.T) {
			w, j := running(t, polled{Status: succeeded().Status})
			w.queue, w.changes = nil, nil
			w.engine.Jobs = &overtaken{Store: w.engine.Jobs, lost: lost, by: func() {
				_, what, err := w.engine.Cancel(ctx, j.Organization, j.ID)
				assert.NoError(t, err)
				assert.Equal(t, jobs.Confirmed, what)
			}}
			w.studio.cancel = func() (bool, error) { return true, nil }
			_, what, err := w.engine.Cancel(ctx, j.Organization, j.ID)
			require.NoError(t, err)
			assert.Equal(t, jobs.Confirmed, what)
			assert.Equal(t, 1, w.ends[j.ID])
			assert.Len(t, w.changes, 1)
			assert.Len(t, w.queue, 1)
		})
	}
}

// overtaken is a store before whose first write, which may be lost, another execution does something.
type overtaken struct {
	media.Store
	by   func()
	lost error
}

func (o *overtaken) Replace(ctx context.Context, next media.Job) error {
	if by := o.by; by != nil {
		o.by = nil
		if by(); o.lost != nil {
			return o.lost
		}
	}
	return o.Store.Replace(ctx, next)
}
