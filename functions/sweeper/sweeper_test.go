package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/functions/internal/graph"
	"spillway/internal/dynamo"
	"spillway/internal/media"
	"spillway/internal/runtimeapi/runtest"
	"spillway/internal/settings"
	"spillway/internal/simulate/state"
)

// minute is the event of the schedule.
func minute(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("../../events/sweeper/minute.json")
	require.NoError(t, err)
	return text
}

// TestALostMessageIsSentAgain: the schedule's event is answered with what was done, and the job's message is in its queue.
func TestALostMessageIsSentAgain(t *testing.T) {
	cloud, err := state.OpenJobs(state.Jobs{Visibility: time.Minute, Receives: 5})
	require.NoError(t, err)
	t.Cleanup(cloud.Close)
	const configuration = `{"version":"v","providers":[{"name":"one","kind":"veo","base_url":"http://127.0.0.1:1/v1"}],
		"channels":[{"provider":"one","models":["video-v1"],"credentials":[{"alias":"a","secret":"env:KEY"}]}],"organizations":[{"name":"o","models":["*"]}]}`
	env := append(cloud.Env(), "KEY=secret", "SPILLWAY_LOG_LEVEL=debug")
	f, err := runtest.Start(t, configuration, env...)
	require.NoError(t, err)
	sweep := func() string {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		answer, err := f.Invoke(ctx, minute(t))
		require.NoError(t, err)
		return string(answer)
	}
	assert.JSONEq(t, `{}`, sweep())

	s, err := settings.LoadWorker(func(name string) string {
		for _, line := range append(env, "AWS_LAMBDA_RUNTIME_API=here") {
			if value, ok := strings.CutPrefix(line, name+"="); ok {
				return value
			}
		}
		return ""
	})
	require.NoError(t, err)
	store := &dynamo.Jobs{API: dynamo.New(graph.AWS(s.State, s.State.DynamoDB)), Table: s.State.Jobs.Table}
	require.NoError(t, store.Create(t.Context(), media.New("job_1", "o", media.Video, "video-v1", []byte(`{"model":"video-v1","prompt":"p"}`), "evt_1", time.Now().Add(-3*time.Minute))))
	assert.JSONEq(t, `{"enqueue":1}`, sweep())
	sent, err := cloud.Queue(cloud.Names.Generate).Receive(t.Context(), 10, 5*time.Second)
	require.NoError(t, err)
	require.Len(t, sent, 1)
	assert.Contains(t, sent[0].Body, `"job":"job_1"`)

	log := f.Log()
	assert.Contains(t, log, `"level":"DEBUG","msg":"sweep_finished"`, "nothing to do is nothing to tell")
	assert.Contains(t, log, `"enqueue":1`)
}

// TestASweepWithoutATableFails: so that the function's errors are counted.
func TestASweepWithoutATableFails(t *testing.T) {
	cloud, err := state.Open() // without jobs
	require.NoError(t, err)
	t.Cleanup(cloud.Close)
	env := append(cloud.Env(), "SPILLWAY_JOBS_TABLE=gone", "SPILLWAY_JOBS_QUEUE=http://127.0.0.1:1/p", "SPILLWAY_GENERATE_QUEUE=http://127.0.0.1:1/g", "SPILLWAY_WEBHOOKS_QUEUE=http://127.0.0.1:1/w")
	f, err := runtest.Start(t, `{"version":"v","providers":[],"channels":[],"organizations":[]}`, env...)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	_, err = f.Invoke(ctx, minute(t))
	require.ErrorContains(t, err, "looking for jobs")
	assert.Contains(t, f.Log(), `"level":"ERROR"`)
}

func TestTheRuntimeInterfaceEmulatorRunsTheFunction(t *testing.T) {
	cloud, err := state.OpenJobs(state.Jobs{Visibility: time.Minute, Receives: 5})
	require.NoError(t, err)
	t.Cleanup(cloud.Close)
	emulator := runtest.Emulate(t, []byte(`{"version":"v","providers":[],"channels":[],"organizations":[]}`), cloud.Env()...)
	for range 2 {
		assert.JSONEq(t, `{}`, string(emulator.Invoke(t, minute(t))))
	}
	assert.Equal(t, 1, strings.Count(emulator.Log(t), "INIT RTDONE(status: success)"), "one process serves all events")
}
