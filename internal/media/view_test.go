package media_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/media"
)

func rendered(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

func TestViews(t *testing.T) {
	asked := queued()
	asked.Request = []byte(`{"model":"veo","prompt":"a lighthouse","seconds":"8","size":"1280x720"}`)
	claimed, _ := asked.Next(media.Claim{Owner: "o1", Channel: "google/veo", Provider: "google", Credential: "main"}, start)
	running, _ := claimed.Next(media.Accepted{Owner: "o1", Upstream: "https://provider.test/op?sig=S1", PollIn: time.Second}, start)
	done, err := running.Next(media.Done{Result: media.Result{Object: "media/acme/x", ContentType: "video/mp4", Size: 5, SHA256: "ab"}}, start.Add(time.Minute))
	require.NoError(t, err)
	expired, _ := running.Next(media.Ended{State: media.Expired}, start.Add(time.Minute))
	filtered, _ := running.Next(media.Ended{State: media.Failed, Error: media.Error{Code: "content_filter", Message: "refused", Class: "content_policy"}}, start)

	t.Run("a queued job", func(t *testing.T) {
		assert.JSONEq(t, `{"id":"job_1","object":"media.job","kind":"video","status":"queued","model":"veo","progress":0,"created_at":1893456000,
			"finished_at":null,"deadline":1893457800,"error":null,"result":null}`, rendered(t, asked.View()))
		assert.JSONEq(t, `{"id":"job_1","object":"video","status":"queued","progress":0,"created_at":1893456000,"completed_at":null,"expires_at":null,
			"model":"veo","prompt":"a lighthouse","seconds":"8","size":"1280x720","error":null,"remixed_from_video_id":null}`, rendered(t, asked.VideoView()))
	})
	t.Run("one that succeeded has its result, without where it is kept", func(t *testing.T) {
		assert.JSONEq(t, `{"id":"job_1","object":"media.job","kind":"video","status":"succeeded","model":"veo","progress":100,"created_at":1893456000,
			"finished_at":1893456060,"deadline":1893457800,"error":null,"result":{"content_type":"video/mp4","size":5,"sha256":"ab"}}`, rendered(t, done.View()))
		v := done.VideoView()
		assert.Equal(t, "completed", v.Status)
		assert.EqualValues(t, 1893456060, *v.CompletedAt)
	})
	t.Run("one that did not says why", func(t *testing.T) {
		assert.Equal(t, &media.ViewError{Code: "content_filter", Message: "refused"}, filtered.View().Error)
		assert.Equal(t, &media.ViewError{Code: "expired", Message: "the job is expired"}, expired.VideoView().Error)
		assert.Equal(t, "failed", expired.VideoView().Status)
		assert.Nil(t, expired.VideoView().CompletedAt)
	})
	t.Run("one that was asked to be cancelled says so while it runs", func(t *testing.T) {
		cancelling, err := running.Next(media.AskedToCancel{}, start)
		require.NoError(t, err)
		const says = "the provider was asked to cancel the job, and has not said that it has; until then the job may still succeed"
		assert.Equal(t, says, cancelling.View().Message)
		assert.Equal(t, says, cancelling.VideoView().Message)
		ended, err := cancelling.Next(media.Ended{State: media.Cancelled}, start)
		require.NoError(t, err)
		assert.Empty(t, ended.View().Message)
	})
	t.Run("one of which nobody knows says so, and is not called failed", func(t *testing.T) {
		lost, err := claimed.Next(media.Lost{Owner: "o1", Error: media.Error{Code: "provider_unavailable", Message: "the provider answered with an error: network"}}, start)
		require.NoError(t, err)
		const says = "nobody knows whether the provider has taken the job (the provider answered with an error: network); it is not submitted again, " +
			"and expires at its deadline unless it is found before. An order with another Idempotency-Key may be paid for twice"
		assert.Equal(t, says, lost.View().Message)
		assert.Equal(t, says, lost.VideoView().Message)
		assert.Nil(t, lost.View().Error)
		assert.Equal(t, media.Uncertain, lost.View().Status)
		assert.Equal(t, "in_progress", lost.VideoView().Status)
		for _, j := range []media.Job{asked, claimed, running, done, expired, filtered} {
			assert.NotContains(t, rendered(t, j.View())+rendered(t, j.VideoView()), `"message":"nobody`)
		}
	})
	t.Run("one that waits for a provider says why", func(t *testing.T) {
		waiting, err := asked.Next(media.Waiting{Error: media.Error{Code: "provider_unavailable", Message: "all are failing", Class: "server_error"}}, start)
		require.NoError(t, err)
		assert.Equal(t, "no provider has taken the job yet (all are failing); it is tried again until its deadline", waiting.View().Message)
		assert.Equal(t, waiting.View().Message, waiting.VideoView().Message)
		assert.Nil(t, waiting.View().Error)
		assert.Equal(t, "queued", waiting.VideoView().Status)
		claimed, err := waiting.Next(media.Claim{Owner: "o1"}, start)
		require.NoError(t, err)
		assert.Empty(t, claimed.View().Message)
	})
	t.Run("nothing of a provider is in any view", func(t *testing.T) {
		for _, j := range []media.Job{asked, claimed, running, done, expired, filtered} {
			for _, v := range []any{j.View(), j.VideoView()} {
				for _, secret := range []string{"S1", "provider.test", "google", "media/acme", "main", "o1"} {
					assert.NotContains(t, rendered(t, v), `"`+secret)
					assert.NotContains(t, rendered(t, v), "sig=")
				}
			}
		}
	})
	t.Run("every state has a word of OpenAI's", func(t *testing.T) {
		for _, s := range media.States() {
			assert.Contains(t, []string{"queued", "in_progress", "completed", "failed"}, media.Job{State: s}.VideoView().Status, s)
		}
	})
	t.Run("a view that is told again is the same", func(t *testing.T) {
		done.TellAt = start
		again, err := done.Next(media.NotTold{N: 0}, start.Add(time.Hour))
		require.NoError(t, err)
		assert.Equal(t, rendered(t, done.View()), rendered(t, again.View()))
	})
}
