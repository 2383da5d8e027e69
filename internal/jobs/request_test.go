package jobs_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/jobs"
	"spillway/internal/media"
)

// pictured is an order with a picture of so many bytes, which nothing makes shorter.
func pictured(size int) jobs.Order {
	noise := make([]byte, size)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(noise)
	o := order()
	o.Request = fmt.Appendf(nil, `{"model":"veo","prompt":"a lighthouse","seconds":"8","size":"1280x720","input_reference":"data:image/png;base64,%s"}`,
		base64.StdEncoding.EncodeToString(noise))
	return o
}

func TestALongRequestStandsInTheBucket(t *testing.T) {
	for name, c := range map[string]struct {
		size int
		kept bool
	}{"1 KB": {1 << 10, false}, "20 KB": {20 << 10, false}, "40 KB": {40 << 10, true}, "300 KB": {300 << 10, true}, "3 MB": {3 << 20, true}} {
		t.Run("a picture of "+name, func(t *testing.T) {
			w := newWorld()
			w.studio.submit, w.studio.poll = []submitted{accepted()}, []polled{succeeded()}
			o := pictured(c.size)
			j, fresh, err := w.engine.Begin(ctx, o)
			require.NoError(t, err)
			require.True(t, fresh)
			assert.Equal(t, c.kept, j.Whole != nil)
			assert.Len(t, w.objects, map[bool]int{true: 1, false: 0}[c.kept])
			assert.Less(t, len(w.job(t, j.ID).Request), 32<<10+1, "what every poll writes")
			if c.kept {
				assert.JSONEq(t, `{"model":"veo","prompt":"a lighthouse","seconds":"8","size":"1280x720"}`, string(j.Request))
				assert.Less(t, len(w.objects[j.Whole.Object]), len(o.Request)*4/5, "it is packed")
				assert.True(t, strings.HasPrefix(j.Whole.Object, "media/acme/"+j.ID+"/request-"))
			}
			v := j.VideoView()
			assert.Equal(t, []string{`"a lighthouse"`, `"8"`, `"1280x720"`}, []string{string(v.Prompt), string(v.Seconds), string(v.Size)})
			j, err = w.engine.Start(ctx, j)
			require.NoError(t, err)
			assert.Equal(t, media.Running, j.State)
			require.Len(t, w.studio.sent, 1)
			assert.True(t, w.studio.sent[0] == string(o.Request), "the provider's adapter gets it as the client wrote it")
			assert.Less(t, len(w.job(t, j.ID).Request), 32<<10+1)
		})
	}
	t.Run("the process stops anywhere while the job begins: the repeat has one job, which is submitted once, as a whole", func(t *testing.T) {
		o := pictured(300 << 10)
		for fuse := 1; fuse <= 8; fuse++ {
			w := newWorld()
			w.studio.submit, w.studio.poll = []submitted{accepted()}, []polled{pending()}
			w.fuse = fuse
			func() {
				defer func() { _ = recover() }()
				_, _, _ = w.engine.Begin(ctx, o)
			}()
			w.fuse = 0
			j, fresh, err := w.engine.Begin(ctx, o)
			require.NoError(t, err)
			if fresh {
				_, err = w.engine.Start(ctx, j)
			} else {
				assert.Empty(t, w.engine.HandleBatch(ctx, []jobs.Record{{ID: "m", Body: fmt.Appendf(nil, `{"do":"submit","organization":"acme","job":%q}`, j.ID)}}))
			}
			require.NoError(t, err)
			require.Len(t, w.studio.sent, 1)
			assert.True(t, w.studio.sent[0] == string(o.Request))
			assert.Len(t, w.objects, 1, "the second one is the first")
		}
	})
	t.Run("the bucket does not take it: there is no job, and nothing is submitted", func(t *testing.T) {
		w := newWorld()
		w.broken["put"] = errors.New("the bucket is away")
		_, fresh, err := w.engine.Begin(ctx, pictured(40<<10))
		require.ErrorContains(t, err, "keeping the request")
		assert.False(t, fresh)
		open, err := w.memory.Open(ctx, start.AddDate(1, 0, 0), 10)
		require.NoError(t, err)
		assert.Empty(t, open)
		w.broken = map[string]error{}
		j, _, err := w.engine.Begin(ctx, pictured(40<<10))
		require.NoError(t, err)
		w.broken["put"] = errors.New("the bucket is away")
		again, fresh, err := w.engine.Begin(ctx, pictured(40<<10))
		require.NoError(t, err, "whose job is there has it")
		assert.False(t, fresh)
		assert.Equal(t, j, again)
	})
	t.Run("the bucket does not give it out: it stays queued, unclaimed, and is submitted when it does", func(t *testing.T) {
		w := newWorld()
		w.studio.submit, w.studio.poll = []submitted{accepted()}, []polled{pending()}
		j, _, err := w.engine.Begin(ctx, pictured(40<<10))
		require.NoError(t, err)
		packed := w.objects[j.Whole.Object]
		for name, spoil := range map[string]func(){
			"away":          func() { w.broken["open"] = errors.New("the bucket is away") },
			"gone":          func() { delete(w.objects, j.Whole.Object) },
			"cut short":     func() { w.objects[j.Whole.Object] = packed[:len(packed)/2] },
			"another thing": func() { w.objects[j.Whole.Object] = []byte(mp4) },
		} {
			spoil()
			got, err := w.engine.Start(ctx, j)
			require.Error(t, err, name)
			assert.Equal(t, j, got)
			assert.Equal(t, j, w.job(t, j.ID))
			w.broken, w.objects[j.Whole.Object] = map[string]error{}, packed
		}
		assert.Zero(t, w.studio.submits)
		got, err := w.engine.Start(ctx, j)
		require.NoError(t, err)
		assert.Equal(t, media.Running, got.State)
	})
	t.Run("another body of the same key is refused, and spoils nothing", func(t *testing.T) {
		w := newWorld()
		w.studio.submit, w.studio.poll = []submitted{accepted()}, []polled{pending()}
		o := pictured(40 << 10)
		j, _, err := w.engine.Begin(ctx, o)
		require.NoError(t, err)
		other := pictured(41 << 10)
		other.Fingerprint = "G"
		_, _, err = w.engine.Begin(ctx, other)
		require.ErrorIs(t, err, jobs.ErrConflict)
		_, err = w.engine.Start(ctx, j)
		require.NoError(t, err)
		assert.True(t, w.studio.sent[0] == string(o.Request))
	})
}
