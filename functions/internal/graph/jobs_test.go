package graph_test

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/functions/internal/graph"
	"spillway/internal/breaker"
	"spillway/internal/fault"
	"spillway/internal/fetch"
	"spillway/internal/redact"
	"spillway/internal/settings"
	"spillway/internal/sqsqueue"
	"spillway/internal/telemetry"
)

const configuration = `{"version":"v","providers":[{"name":"one","kind":"veo","base_url":"http://inside.test/v1"},
		{"name":"chats","kind":"openai","base_url":"http://chats.test/v1"}],
	"channels":[{"provider":"one","models":["video-v1"],"credentials":[{"alias":"a","secret":"env:KEY"}]},
		{"provider":"chats","models":["text-v1"],"credentials":[{"alias":"a","secret":"env:KEY"}]}],
	"organizations":[{"name":"signed","models":["*"],"webhook_secret":"env:HOOK"},{"name":"unsigned","models":["*"]}]}`

const hook = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// inLambda is the environment of a worker.
func inLambda(name string) string {
	return map[string]string{"AWS_LAMBDA_RUNTIME_API": "here", "AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s",
		"SPILLWAY_IDEMPOTENCY_TABLE": "i", "SPILLWAY_HEALTH_TABLE": "h", "SPILLWAY_REQUESTS_TABLE": "r", "SPILLWAY_RESULTS_BUCKET": "b", "SPILLWAY_JOBS_TABLE": "j",
		"SPILLWAY_JOBS_QUEUE": "http://sqs/polls", "SPILLWAY_GENERATE_QUEUE": "http://sqs/generate", "SPILLWAY_WEBHOOKS_QUEUE": "http://sqs/webhooks",
		"KEY": "secret", "HOOK": hook}[name]
}

func read(string) ([]byte, error) { return []byte(configuration), nil }

// TestEachMessageHasItsQueue: a batch of the queue of submits is one message, and that of polls is not.
func TestEachMessageHasItsQueue(t *testing.T) {
	s, config, err := graph.Worker(inLambda, read)
	require.NoError(t, err)
	e := graph.Jobs(s, config, fault.Default(), telemetry.New(io.Discard, s.LogLevel), &breaker.Fleet{})
	for want, queue := range map[string]any{"http://sqs/polls": e.Polls, "http://sqs/generate": e.Submits, "http://sqs/webhooks": e.Tells} {
		require.IsType(t, &sqsqueue.Queue{}, queue)
		assert.Equal(t, want, queue.(*sqsqueue.Queue).URL) //nolint:forcetypeassert // it is one
	}
	assert.Equal(t, hook, e.Signing("signed").Reveal())
	assert.Equal(t, redact.Secret{}, e.Signing("unsigned"))
	assert.Equal(t, redact.Secret{}, e.Signing("gone"), "its jobs may outlive it")
}

// TestWorksAreFetchedInsideFromWhoMakesThemAlone: what else the operator has inside answers no address that a provider gives.
func TestWorksAreFetchedInsideFromWhoMakesThemAlone(t *testing.T) {
	s, config, err := graph.Worker(inLambda, read)
	require.NoError(t, err)
	library, ok := graph.Jobs(s, config, fault.Default(), telemetry.New(io.Discard, s.LogLevel), &breaker.Fleet{}).Library.(*fetch.Client)
	require.True(t, ok)
	assert.True(t, library.Known("inside.test:80"))
	assert.False(t, library.Known("chats.test:80"))
}

// TestEachClientHasItsEndpoint: that of AWS itself where none is named.
func TestEachClientHasItsEndpoint(t *testing.T) {
	assert.Nil(t, graph.AWS(&settings.State{}, "").BaseEndpoint)
	assert.Equal(t, "http://here", *graph.AWS(&settings.State{}, "http://here").BaseEndpoint)
	got, err := graph.AWS(&settings.State{AccessKey: "a", SecretKey: redact.NewSecret("s"), SessionToken: redact.NewSecret("t")}, "").Credentials.Retrieve(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "s", "t"}, []string{got.AccessKeyID, got.SecretAccessKey, got.SessionToken})
}

// TestAWorkerTellsAllThatItLacks: what is wrong with its settings hides nothing of what is wrong with its configuration.
func TestAWorkerTellsAllThatItLacks(t *testing.T) {
	_, _, err := graph.Worker(func(string) string { return "" }, func(string) ([]byte, error) { return nil, errors.New("no such file") })
	require.ErrorContains(t, err, "SPILLWAY_JOBS_TABLE: is required")
	require.ErrorContains(t, err, "reading the configuration: no such file")
}
