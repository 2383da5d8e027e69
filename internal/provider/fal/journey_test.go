package fal_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/catalog"
	"spillway/internal/fault"
	"spillway/internal/media"
	"spillway/internal/provider"
	"spillway/internal/provider/fal"
	"spillway/internal/provider/wire"
	"spillway/internal/redact"
	"spillway/internal/simulate/conversation"
)

// TestAPollIsOneCall: COMPLETED says nothing of the result, which stands at another address. The job itself remembers between two
// polls that it is done, also where the result cannot be read the first time.
func TestAPollIsOneCall(t *testing.T) {
	script := []struct {
		call   string
		status int
		answer string
	}{
		{"POST /fal-ai/veo3.1", 200, `{"request_id":"r","status_url":"https://queue.fal.run/q/r/status","response_url":"https://queue.fal.run/q/r","cancel_url":"https://queue.fal.run/q/r/cancel"}`},
		{"GET /q/r/status", 202, `{"status":"IN_QUEUE"}`},
		{"GET /q/r/status", 200, `{"status":"COMPLETED"}`},
		{"GET /q/r", 502, `<html>`},
		{"GET /q/r", 200, `{"video":{"url":"https://v3.fal.media/a.mp4"}}`},
	}
	calls := 0
	studio := &fal.Studio{Desk: wire.Desk{Policy: fault.Default(), Wire: conversation.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !assert.Less(t, calls, len(script), "one call too many") {
			return
		}
		step := script[calls]
		calls++
		assert.Equal(t, step.call, r.Method+" "+r.URL.Path)
		w.WriteHeader(step.status)
		_, _ = io.WriteString(w, step.answer)
	}))}}
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	job := media.New("job_1", "org", media.Video, "v", []byte(`{"model":"v","prompt":"p"}`), "evt_1", now)
	step := func(e media.Event) {
		next, err := job.Next(e, now)
		require.NoError(t, err)
		job = next
	}
	task := func() provider.Task {
		j := job
		return provider.Task{Job: &j, Credential: &catalog.Credential{Secret: redact.NewSecret("k")},
			Channel: &catalog.Channel{Model: "fal-ai/veo3.1", Provider: &catalog.Provider{Kind: "fal", Vendor: "fal", BaseURL: "http://queue.test"}}}
	}
	step(media.Claim{Owner: "o"})
	taken, err := studio.Submit(t.Context(), task())
	require.NoError(t, err)
	step(media.Accepted{Owner: "o", Upstream: taken.Upstream})

	for n := 2; n <= 3; n++ {
		s, err := studio.Poll(t.Context(), task())
		require.NoError(t, err)
		assert.Equal(t, media.Running, s.State)
		assert.Equal(t, n, calls)
		step(media.Pending{Seq: job.Seq, Progress: s.Progress, Strange: s.Strange})
	}
	_, err = studio.Poll(t.Context(), task())
	require.Error(t, err)
	assert.Equal(t, 4, calls)
	step(media.PollFailed{Seq: job.Seq})

	s, err := studio.Poll(t.Context(), task())
	require.NoError(t, err)
	assert.Equal(t, 5, calls)
	assert.Equal(t, media.Succeeded, s.State)
	assert.Equal(t, "https://v3.fal.media/a.mp4", s.Artifact.URL)
}
