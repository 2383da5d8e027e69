package suite

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/simulate"
	"spillway/internal/simulate/state"
)

const (
	racers    = 200
	processes = 8
	// wave is how many racers start at the same moment, and between is the time from one wave to the next: a process gives
	// its store 500 ms, and this machine has to be all clients, all processes and the store. All of them are there before
	// the first is answered.
	wave, between = 25, 100 * time.Millisecond
)

// track is several processes of the gateway with one store between them, each serving many requests at a time.
type track struct {
	provider *simulate.Provider
	urls     []string
	client   *http.Transport
	again    atomic.Int64 // requests made again because the store did not answer in time
}

func newTrack(t *testing.T, bootstrap string) *track {
	t.Helper()
	shared, err := state.Open()
	require.NoError(t, err)
	t.Cleanup(shared.Close)
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	tr := &track{provider: simulate.New(), client: &http.Transport{MaxIdleConnsPerHost: racers}}
	var serving sync.WaitGroup
	serving.Go(func() { _ = tr.provider.Serve(upstream) }) // ends with the provider
	t.Cleanup(func() { _ = tr.provider.Close(); serving.Wait(); tr.client.CloseIdleConnections() })

	configuration := filepath.Join(t.TempDir(), "gateway.json")
	require.NoError(t, os.WriteFile(configuration, racing.configuration(Live), 0o600))
	env := append(shared.Env(), "SPILLWAY_CONFIG="+configuration, "SPILLWAY_SIMULATOR_URL=http://"+upstream.Addr().String()+"/v1", "SIM_KEY="+upstreamKey)
	for range processes {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		address := free.Addr().String()
		require.NoError(t, free.Close())
		cmd := exec.Command(bootstrap)
		cmd.Env = append(env[:len(env):len(env)], "SPILLWAY_ADDR="+address)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		tr.urls = append(tr.urls, "http://"+address)
	}
	for _, url := range tr.urls {
		require.Eventually(t, func() bool {
			resp, err := http.Get(url + "/healthz")
			return err == nil && resp.Body.Close() == nil
		}, 10*time.Second, 20*time.Millisecond)
	}
	return tr
}

var racing = Row{Candidates: []string{"sim-race", "sim-ok"}}

// race makes one request for each racer, in turn in each process.
func (tr *track) race(ctx context.Context, r Row, key string, header map[string]string) []Observation {
	all := make([]Observation, racers)
	var running sync.WaitGroup
	for i := range all {
		if i > 0 && i%wave == 0 {
			time.Sleep(between)
		}
		running.Go(func() {
			all[i] = tr.ask(ctx, tr.urls[i%processes], r, key, header)
		})
	}
	running.Wait()
	return all
}

// ask makes a request, and makes it again when its client is told so because the store did not answer in time: this machine
// is all clients, all processes and the store.
func (tr *track) ask(ctx context.Context, url string, r Row, key string, header map[string]string) Observation {
	for {
		o := tr.askOnce(ctx, url, r, key, header)
		told := storeUnavailable(o)
		if told == 0 || ctx.Err() != nil {
			return o
		}
		tr.again.Add(1)
		pause(ctx, told)
	}
}

func (tr *track) askOnce(ctx context.Context, url string, r Row, key string, header map[string]string) (o Observation) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(r.request()))
	if err != nil {
		return Observation{Err: err}
	}
	req.Header.Set("Authorization", "Bearer "+clientKey)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := tr.client.RoundTrip(req)
	if err != nil {
		return Observation{Err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return Observation{Status: resp.StatusCode, Header: resp.Header, Body: string(body), Err: err}
}

// A key belongs to one request, whichever of several processes it comes to, and however many come at a time.
func TestOfTwoHundredRacersOneRuns(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	bootstrap, err := build(ctx, t.TempDir(), "gateway")
	require.NoError(t, err)
	for name, plain := range map[string]bool{"a stream": false, "a plain answer": true} {
		r := racing
		r.Plain = plain
		t.Run(name+", who waits gets the answer", func(t *testing.T) {
			tr := newTrack(t, bootstrap)
			defer func() { t.Logf("%d requests were made again", tr.again.Load()) }()
			tr.provider.Script("sim-race", slowly(3*time.Second))
			all := tr.race(ctx, r, "key", map[string]string{"Prefer": "wait=30"})
			assertOneAnswer(t, r, all, racers-1)
			assert.Equal(t, 1, tr.provider.Count("sim-race"))
			assert.Empty(t, tr.provider.Unexpected())
		})
		t.Run(name+", who does not wait is told to come again", func(t *testing.T) {
			tr := newTrack(t, bootstrap)
			defer func() { t.Logf("%d requests were made again", tr.again.Load()) }()
			tr.provider.Script("sim-race", slowly(9*time.Second))
			answered := 0
			for _, o := range tr.race(ctx, r, "key", nil) {
				require.NoError(t, o.Err)
				if o.Status == http.StatusOK {
					answered++
					continue
				}
				require.Equal(t, http.StatusConflict, o.Status)
				var f Findings
				o.checkError(&f)
				assert.Empty(t, f.list)
				e := parseError(o.Body)
				require.NotNil(t, e)
				assert.Equal(t, "idempotency_conflict", e.Code)
				assert.Equal(t, "5", o.Header.Get("Retry-After"), "the record's end is far away")
			}
			assert.Equal(t, 1, answered)
			assertOneAnswer(t, r, tr.race(ctx, r, "key", nil), racers)
			assert.Equal(t, 1, tr.provider.Count("sim-race"))
			assert.Empty(t, tr.provider.Unexpected())
		})
	}
}

// assertOneAnswer: all have the whole answer, the same one, so many of them as a replay.
func assertOneAnswer(t *testing.T, r Row, all []Observation, replays int) {
	t.Helper()
	bodies, replayed := map[string]int{}, 0
	for _, o := range all {
		require.NoError(t, o.Err)
		bodies[o.Body]++
		if o.Header.Get("Idempotent-Replayed") == "true" {
			replayed++
		}
	}
	require.Equal(t, 1, len(bodies), "different bodies, one of them: %s", all[0].Body)
	assert.Equal(t, replays, replayed, "replays")
	var f Findings
	assert.Equal(t, Whole, r.outcome(all[0], &f), fmt.Sprint(f.list))
}
