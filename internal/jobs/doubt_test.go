package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/fault"
	"spillway/internal/jobs"
	"spillway/internal/media"
)

// forgetful is a store that applies every write and loses every second answer.
type forgetful struct {
	media.Store
	writes int
}

var errLost = errors.New("the answer was lost")

func (f *forgetful) Create(ctx context.Context, j media.Job) error {
	return errors.Join(f.Store.Create(ctx, j), errLost)
}

func (f *forgetful) Replace(ctx context.Context, j media.Job) error {
	err := f.Store.Replace(ctx, j)
	if f.writes++; err == nil && f.writes%2 == 1 {
		return errLost
	}
	return err
}

// TestAWriteWhoseAnswerIsLost is known again by reading: it is made once, and what follows it happens once.
func TestAWriteWhoseAnswerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.engine.Jobs = &forgetful{Store: w.engine.Jobs}
		w.studio.submit, w.studio.poll = []submitted{accepted()}, []polled{pending(), succeeded()}
		j := w.post(t, order())
		assert.Equal(t, media.Running, j.State)
		begun := w.job(t, j.ID)
		require.Equal(t, 1, w.studio.submits)
		w.run(t, 0)
		w.now = begun.NextPollAt
		for range 4 {
			w.run(t, 10*time.Second)
		}
		got := w.job(t, j.ID)
		assert.Equal(t, media.Succeeded, got.State)
		assert.Equal(t, 1, w.studio.submits)
		assert.Equal(t, 2, w.studio.polls)
		assert.Len(t, w.told, 1)
		assert.Len(t, w.changes, 5, "claimed, accepted, polled, done, told: each is recorded once")
		assert.EqualValues(t, 5, got.Version)
	})
}

// away is a store that answers nothing for a while after its first write.
type away struct {
	media.Store
	until time.Time // zero: it has not been written yet
	whole time.Duration
}

func (a *away) Get(ctx context.Context, organization, id string) (*media.Job, error) {
	if time.Now().Before(a.until) {
		return nil, errLost
	}
	return a.Store.Get(ctx, organization, id)
}

func (a *away) Replace(ctx context.Context, j media.Job) error {
	if time.Now().Before(a.until) {
		return errLost
	}
	if a.until.IsZero() {
		a.until = time.Now().Add(a.whole)
	}
	return a.Store.Replace(ctx, j)
}

// TestATableThatIsAwayWhileAJobIsAccepted: what the provider calls the job is known nowhere else, and is not let go of for some seconds.
// After that it is lost, and the job is one of which nobody knows.
func TestATableThatIsAwayWhileAJobIsAccepted(t *testing.T) {
	for name, c := range map[string]struct {
		away   time.Duration
		answer submitted
		want   media.State
	}{
		"for six seconds":                          {6 * time.Second, accepted(), media.Running},
		"for twelve seconds":                       {12 * time.Second, accepted(), media.Uncertain},
		"for six seconds, and it is refused":       {6 * time.Second, submitted{err: status(429, fault.RateLimited)}, media.Failed},
		"for six seconds, and it is a mistake":     {6 * time.Second, submitted{err: status(400, fault.InvalidRequest)}, media.Failed},
		"for six seconds, and the work is in hand": {6 * time.Second, submitted{work: mp4}, media.Succeeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.studio.submit, w.studio.poll = []submitted{c.answer}, []polled{pending()}
				w.engine.Now = nil
				j, _, err := w.engine.Begin(ctx, order())
				require.NoError(t, err)
				w.engine.Jobs = &away{Store: w.engine.Jobs, whole: c.away}
				begun := time.Now()
				_, err = w.engine.Start(ctx, j)
				assert.Equal(t, c.want != media.Uncertain, err == nil)
				assert.Less(t, time.Since(begun), 10*time.Second, "its lease has so much to spare")
				time.Sleep(media.SubmitLease)
				_, err = w.engine.Sweep(ctx, 10)
				require.NoError(t, err)
				assert.Equal(t, c.want, w.job(t, j.ID).State)
				assert.LessOrEqual(t, w.studio.created[j.ID], 1)
			})
		})
	}
}

// mute is a store that never answers, and muteBucket such a bucket.
type (
	mute       struct{ media.Store }
	muteBucket struct{ jobs.Objects }
)

func (mute) Get(ctx context.Context, _, _ string) (*media.Job, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (muteBucket) Open(ctx context.Context, _ string) (io.ReadCloser, int64, string, error) {
	<-ctx.Done()
	return nil, 0, "", ctx.Err()
}

// TestWhatDoesNotAnswerKeepsNobodyWaiting, who would be let go of only by the end of the whole invocation.
func TestWhatDoesNotAnswerKeepsNobodyWaiting(t *testing.T) {
	t.Run("a table, while a job is cancelled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.engine.Jobs = mute{}
			begun := time.Now()
			_, _, err := w.engine.Cancel(ctx, "acme", "job_1")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.LessOrEqual(t, time.Since(begun), 3*time.Second)
		})
	})
	t.Run("a table, while a batch is handled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.engine.Jobs = mute{}
			invocation, cancel := context.WithTimeout(ctx, 150*time.Second)
			defer cancel()
			begun := time.Now()
			body := []byte(`{"do":"poll","organization":"acme","job":"job_1","seq":1}`)
			assert.Equal(t, []string{"m1", "m2"}, w.engine.HandleBatch(invocation, []jobs.Record{{ID: "m1", Body: body}, {ID: "m2", Body: body}}))
			assert.LessOrEqual(t, time.Since(begun), 3*time.Second)
		})
	})
	t.Run("a bucket, while a long order is submitted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			o := order()
			o.Request = []byte(`{"model":"veo","prompt":"p","input_reference":"data:image/png;base64,` + strings.Repeat("A", 40<<10) + `"}`)
			j, _, err := w.engine.Begin(ctx, o)
			require.NoError(t, err)
			w.engine.Objects = muteBucket{}
			begun := time.Now()
			j, err = w.engine.Start(ctx, j)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, media.Queued, j.State)
			assert.LessOrEqual(t, time.Since(begun), 10*time.Second)
		})
	})
}

// stuck is a queue that never answers.
type stuck struct{}

func (stuck) Send(ctx context.Context, _ []byte, _ time.Duration) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestAQueueThatDoesNotAnswerKeepsTheSweeperFromNothingElse: jobs end at their deadlines all the same.
func TestAQueueThatDoesNotAnswerKeepsTheSweeperFromNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.engine.Now = nil
		w.studio.submit, w.studio.poll = []submitted{accepted()}, []polled{pending()}
		o := order()
		o.Key = "over"
		over := w.post(t, o)
		time.Sleep(media.Lifetime - 3*time.Minute)
		for i := range 500 {
			o.Key = fmt.Sprint("waits", i)
			_, _, err := w.engine.Begin(ctx, o)
			require.NoError(t, err)
		}
		time.Sleep(4 * time.Minute)
		w.engine.Submits, w.engine.Polls, w.engine.Tells = stuck{}, stuck{}, stuck{}
		invocation, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		begun := time.Now()
		did, err := w.engine.Sweep(invocation, 1000)
		require.NoError(t, err)
		assert.Equal(t, media.Expired, w.job(t, over.ID).State)
		assert.Equal(t, 1, did[media.GiveUp])
		assert.Less(t, time.Since(begun), 20*time.Second)
	})
}

// TestALongOrderWhoseClientLeaves is submitted all the same.
func TestALongOrderWhoseClientLeaves(t *testing.T) {
	w := newWorld()
	w.studio.submit, w.studio.poll = []submitted{accepted()}, []polled{pending()}
	w.engine.Objects = heeding{w.engine.Objects}
	o := order()
	o.Request = []byte(`{"model":"veo","prompt":"p","input_reference":"data:image/png;base64,` + strings.Repeat("A", 40<<10) + `"}`)
	j, _, err := w.engine.Begin(ctx, o)
	require.NoError(t, err)
	client, leave := context.WithCancel(ctx)
	leave()
	j, err = w.engine.Start(client, j)
	require.NoError(t, err)
	assert.Equal(t, media.Running, j.State)
}

// heeding is a bucket that does nothing for who has left.
type heeding struct{ jobs.Objects }

func (h heeding) Open(ctx context.Context, name string) (io.ReadCloser, int64, string, error) {
	if ctx.Err() != nil {
		return nil, 0, "", ctx.Err()
	}
	return h.Objects.Open(ctx, name)
}

// closed is a bucket that takes nothing for a while.
type closed struct {
	jobs.Objects
	until time.Time
}

func (c closed) Put(ctx context.Context, name, contentType string, body io.Reader, size int64) error {
	if time.Now().Before(c.until) {
		return errLost
	}
	return c.Objects.Put(ctx, name, contentType, body, size)
}

// TestABucketThatIsAwayWhileAWorkIsInHand: the work is paid for and there once, and is not let go of for some seconds.
func TestABucketThatIsAwayWhileAWorkIsInHand(t *testing.T) {
	for away, want := range map[time.Duration]media.State{5 * time.Second: media.Succeeded, time.Minute: media.Failed} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.studio.submit = []submitted{{work: mp4}}
			w.engine.Objects = closed{w.engine.Objects, time.Now().Add(away)}
			j := w.post(t, order())
			assert.Equal(t, want, j.State, away)
			assert.Equal(t, 1, w.studio.submits)
		})
	}
}

// FuzzMessage hands anything to a batch: it is reported or done, and never panics.
func FuzzMessage(f *testing.F) {
	for _, s := range []string{`{"do":"poll","organization":"acme","job":"job_1","seq":1}`, `{"do":"submit","organization":"acme","job":"job_1"}`, `{`, `[]`, `{"seq":-1}`, "\xff", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		w := newWorld()
		failed := w.engine.HandleBatch(t.Context(), []jobs.Record{{ID: "m", Body: body}})
		assert.Equal(t, []string{"m"}, failed, "there is no job at all")
		assert.Empty(t, w.panics)
		assert.Zero(t, w.studio.submits+w.studio.polls+len(w.told)+len(w.queue))
	})
}
