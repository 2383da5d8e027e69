package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/functions/internal/graph"
	"spillway/internal/breaker"
	"spillway/internal/fault"
	"spillway/internal/jobs"
	"spillway/internal/media"
	"spillway/internal/runtimeapi/runtest"
	"spillway/internal/s3store"
	"spillway/internal/settings"
	"spillway/internal/simulate/state"
	"spillway/internal/telemetry"
	"spillway/internal/usage"
)

// song are the first bytes of one.
const song = "ID3\x04\x00 a shanty"

// TestABatchWithPoison: what can never be handled is reported, and nothing else; what is beside it is done, once, although its
// message comes again.
func TestABatchWithPoison(t *testing.T) {
	var made atomic.Int32
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		made.Add(1)
		w.Header().Set("Content-Type", "audio/mpeg")
		_, _ = io.WriteString(w, song)
	}))
	t.Cleanup(upstream.Close)
	cloud, err := state.OpenJobs(state.Jobs{Visibility: time.Minute, Receives: 5})
	require.NoError(t, err)
	t.Cleanup(cloud.Close)
	configuration := strings.ReplaceAll(`{"version":"v","providers":[{"name":"one","kind":"elevenlabs","base_url":"URL/v1","prices":"sim"}],
		"channels":[{"provider":"one","models":["music_v2"],"credentials":[{"alias":"a","secret":"env:KEY"}]}],"organizations":[{"name":"o","models":["*"]}]}`, "URL", upstream.URL)
	env := append(cloud.Env(), "KEY=secret")

	// The gateway's part: the job, and its message.
	s, gateway := engine(t, env, configuration)
	job, _, err := gateway.Begin(t.Context(), jobs.Order{Organization: "o", Key: "k", Fingerprint: "f", Kind: media.Music, Model: "music_v2", Request: []byte(`{"model":"music_v2","prompt":"a shanty"}`)})
	require.NoError(t, err)
	_, err = gateway.Start(t.Context(), job)
	require.NoError(t, err)
	sent, err := cloud.Queue(cloud.Names.Generate).Receive(t.Context(), 10, 5*time.Second)
	require.NoError(t, err)
	require.Len(t, sent, 1)
	require.Zero(t, made.Load(), "the client does not wait for the work")

	f, err := runtest.Start(t, configuration, env...)
	require.NoError(t, err)
	const poison, stranger = `{"do":"poll"`, `{"do":"poll","organization":"o","job":"job_of_nobody"}`
	assert.Equal(t, []string{"poison", "stranger"}, failures(t, f, map[string]string{"poison": poison, "good": sent[0].Body, "stranger": stranger}, "poison", "good", "stranger"))
	assert.EqualValues(t, 1, made.Load())
	after, err := gateway.Jobs.Get(t.Context(), "o", job.ID)
	require.NoError(t, err)
	require.Equal(t, media.Succeeded, after.State, "%+v", after.Error)
	body, size, kind, err := s3store.NewWorks(s3store.New(graph.AWS(s.State, s.State.S3)), s.State.ResultsBucket).Open(t.Context(), after.Result.Object)
	require.NoError(t, err)
	defer body.Close()
	text, err := io.ReadAll(body)
	require.NoError(t, err)
	assert.Equal(t, song, string(text))
	assert.EqualValues(t, len(song), size)
	assert.Equal(t, "audio/mpeg", kind)

	assert.Empty(t, failures(t, f, map[string]string{"again": sent[0].Body}, "again"))
	assert.EqualValues(t, 1, made.Load())

	assert.Equal(t, media.Cost{Known: true, Nano: 500_000_000, Basis: "listed", Version: usage.EmbeddedWorks().Version()}, after.Cost)
	log := f.Log()
	for _, record := range []string{`"msg":"attempt_finished","job":"` + job.ID + `","operation":"submit"`, `"from":"running","to":"succeeded"`,
		`"msg":"job_finished","job":"` + job.ID + `"`, `"cost_nano_usd":500000000,"cost_basis":"listed"`, `"msg":"job_trouble","job":"stranger"`} {
		assert.Equal(t, 1, strings.Count(log, record), record)
	}
	assert.NotContains(t, log, "shanty")
}

// nothing is a configuration without anything.
const nothing = `{"version":"v","providers":[],"channels":[],"organizations":[]}`

// strangers is the event of the folder, whose jobs nobody knows, and the answer to it: each of its messages comes again.
func strangers(t *testing.T) (text []byte, answer string) {
	t.Helper()
	text, err := os.ReadFile("../../events/poller/messages.json")
	require.NoError(t, err)
	var event events.SQSEvent
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	require.NoError(t, strict.Decode(&event))
	require.Len(t, event.Records, 2)
	return text, fmt.Sprintf(`{"batchItemFailures":[{"itemIdentifier":%q},{"itemIdentifier":%q}]}`, event.Records[0].MessageId, event.Records[1].MessageId)
}

// TestTheEventOfTheFolder: it is of the shape that Lambda sends.
func TestTheEventOfTheFolder(t *testing.T) {
	event, want := strangers(t)
	cloud, err := state.OpenJobs(state.Jobs{Visibility: time.Minute, Receives: 5})
	require.NoError(t, err)
	t.Cleanup(cloud.Close)
	f, err := runtest.Start(t, nothing, cloud.Env()...)
	require.NoError(t, err)
	answer, err := f.Invoke(t.Context(), event)
	require.NoError(t, err)
	assert.JSONEq(t, want, string(answer))
}

func TestTheRuntimeInterfaceEmulatorRunsTheFunction(t *testing.T) {
	event, want := strangers(t)
	cloud, err := state.OpenJobs(state.Jobs{Visibility: time.Minute, Receives: 5})
	require.NoError(t, err)
	t.Cleanup(cloud.Close)
	emulator := runtest.Emulate(t, []byte(nothing), cloud.Env()...)
	for range 2 {
		assert.JSONEq(t, want, string(emulator.Invoke(t, event)))
	}
	record := emulator.Log(t)
	assert.Equal(t, 1, strings.Count(record, "INIT RTDONE(status: success)"), "one process serves all events")
	assert.Equal(t, 4, strings.Count(record, `"msg":"job_trouble"`), "one a message")
}

// engine is what another function makes of the same environment.
func engine(t *testing.T, env []string, configuration string) (settings.Settings, *jobs.Engine) {
	t.Helper()
	getenv := func(name string) string {
		for _, line := range append(env, "AWS_LAMBDA_RUNTIME_API=here") {
			if value, ok := strings.CutPrefix(line, name+"="); ok {
				return value
			}
		}
		return ""
	}
	s, config, err := graph.Worker(getenv, func(string) ([]byte, error) { return []byte(configuration), nil })
	require.NoError(t, err)
	return s, graph.Jobs(s, config, fault.Default(), telemetry.New(io.Discard, slog.LevelInfo), &breaker.Fleet{})
}

// failures hands the function a batch in this order and returns which of it have to come again.
func failures(t *testing.T, f *runtest.Function, bodies map[string]string, order ...string) (ids []string) {
	t.Helper()
	var batch events.SQSEvent
	for _, id := range order {
		batch.Records = append(batch.Records, events.SQSMessage{MessageId: id, ReceiptHandle: "r-" + id, Body: bodies[id], EventSource: "aws:sqs", EventSourceARN: "arn:aws:sqs:us-east-1:000000000000:jobs"})
	}
	event, err := json.Marshal(batch)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	answer, err := f.Invoke(ctx, event)
	require.NoError(t, err)
	var response events.SQSEventResponse
	require.NoError(t, json.Unmarshal(answer, &response))
	require.NotContains(t, string(answer), "null")
	for _, failure := range response.BatchItemFailures {
		ids = append(ids, failure.ItemIdentifier)
	}
	return ids
}
