package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/jobs"
	"spillway/internal/media"
	"spillway/internal/runtimeapi/runtest"
	"spillway/internal/simulate/state"
)

// TestALongRequestReachesTheProvider: what the gateway has put into the bucket, since no table's item takes it, the poller reads
// there. Here it is long by its spaces.
func TestALongRequestReachesTheProvider(t *testing.T) {
	var prompted atomic.Int32
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "a shanty") {
			prompted.Add(1)
		}
		w.Header().Set("Content-Type", "audio/mpeg")
		_, _ = io.WriteString(w, song)
	}))
	t.Cleanup(upstream.Close)
	cloud, err := state.OpenJobs(state.Jobs{Visibility: time.Minute, Receives: 5})
	require.NoError(t, err)
	t.Cleanup(cloud.Close)
	configuration := strings.ReplaceAll(`{"version":"v","providers":[{"name":"one","kind":"elevenlabs","base_url":"URL/v1"}],
		"channels":[{"provider":"one","models":["music_v2"],"credentials":[{"alias":"a","secret":"env:KEY"}]}],"organizations":[{"name":"o","models":["*"]}]}`, "URL", upstream.URL)
	env := append(cloud.Env(), "KEY=secret")

	_, gateway := engine(t, env, configuration)
	request := `{"model":"music_v2",` + strings.Repeat(" ", 3<<20) + `"prompt":"a shanty"}`
	job, _, err := gateway.Begin(t.Context(), jobs.Order{Organization: "o", Key: "k", Fingerprint: "f", Kind: media.Music, Model: "music_v2", Request: []byte(request)})
	require.NoError(t, err)
	require.NotNil(t, job.Whole)
	_, err = gateway.Start(t.Context(), job)
	require.NoError(t, err)
	sent, err := cloud.Queue(cloud.Names.Generate).Receive(t.Context(), 10, 5*time.Second)
	require.NoError(t, err)
	require.Len(t, sent, 1)

	f, err := runtest.Start(t, configuration, env...)
	require.NoError(t, err)
	assert.Empty(t, failures(t, f, map[string]string{"m": sent[0].Body}, "m"))
	after, err := gateway.Jobs.Get(t.Context(), "o", job.ID)
	require.NoError(t, err)
	assert.Equal(t, media.Succeeded, after.State, "%+v", after.Error)
	assert.Equal(t, job.Whole, after.Whole)
	assert.EqualValues(t, 1, prompted.Load())
}
