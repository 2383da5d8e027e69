package sqsqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/jobs"
	"spillway/internal/media"
	"spillway/internal/provider/wire"
	"spillway/internal/runtimeapi/sqspoll"
	"spillway/internal/sqsqueue"
	"spillway/internal/storetest"
)

var _ jobs.Queue = (*sqsqueue.Queue)(nil)

func TestTheLongestDelayOfAJobIsOneThatAQueueTakes(t *testing.T) {
	assert.LessOrEqual(t, media.MaxDelay, sqsqueue.MaxDelay)
}

func client(endpoint string) *sqs.Client {
	return sqsqueue.New(aws.Config{Region: "eu-central-1", BaseEndpoint: &endpoint, HTTPClient: &http.Client{Transport: &wire.Client{}},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		})})
}

// create makes a queue of its own for one test: servers may share state.
func create(t *testing.T, api *sqs.Client, attributes map[string]string) (url, arn string) {
	t.Helper()
	attributes["VisibilityTimeout"] = strconv.Itoa(int(storetest.QueueVisibility / time.Second))
	made, err := api.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(fmt.Sprintf("test-%016x", rand.Uint64())), Attributes: attributes})
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = api.DeleteQueue(context.Background(), &sqs.DeleteQueueInput{QueueUrl: made.QueueUrl}) })
	all, err := api.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: made.QueueUrl, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameQueueArn}})
	require.NoError(t, err)
	return *made.QueueUrl, all.Attributes["QueueArn"]
}

// TestQueue runs against the embedded emulator always, and against what AWS_ENDPOINT_URL names (`make test-aws`).
func TestQueue(t *testing.T) {
	test := func(t *testing.T, endpoint string) {
		api := client(endpoint)
		storetest.Queue(t, func(t *testing.T, test func(*testing.T, storetest.Ends)) {
			t.Parallel() // most of them wait
			dead, arn := create(t, api, map[string]string{})
			url, _ := create(t, api, map[string]string{"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, arn, storetest.QueueReceives)})
			test(t, storetest.Ends{Sender: &sqsqueue.Queue{API: api, URL: url}, Queue: &sqspoll.Queue{API: api, URL: url}, Dead: &sqspoll.Queue{API: api, URL: dead}})
		})
	}
	t.Run("kumo", func(t *testing.T) {
		server := kumo.NewServer()
		t.Cleanup(server.Close)
		test(t, server.URL)
	})
	t.Run("endpoint", func(t *testing.T) {
		endpoint := os.Getenv("AWS_ENDPOINT_URL")
		if endpoint == "" {
			t.Skip("AWS_ENDPOINT_URL names no endpoint; `make test-aws` sets it")
		}
		test(t, endpoint)
	})
}

func TestASendIsOneCall(t *testing.T) {
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	q := &sqsqueue.Queue{API: client(server.URL), URL: server.URL + "/000000000000/q"}
	require.Error(t, q.Send(t.Context(), []byte("{}"), 0))
	assert.EqualValues(t, 1, calls.Load(), "a send that failed is not repeated by the SDK")
}

func TestWhatCannotBeSentMakesNoCall(t *testing.T) {
	q := &sqsqueue.Queue{URL: "http://127.0.0.1:1/q"} // no API: a call would panic
	for name, c := range map[string]struct {
		body  string
		delay time.Duration
		want  error
	}{
		"901 s":         {"{}", 901 * time.Second, sqsqueue.ErrDelay},
		"a bit too far": {"{}", sqsqueue.MaxDelay + 1, sqsqueue.ErrDelay},
		"no body":       {"", 0, sqsqueue.ErrBody},
		"not text":      {"\xff", 0, sqsqueue.ErrBody},
	} {
		t.Run(name, func(t *testing.T) {
			assert.True(t, errors.Is(q.Send(t.Context(), []byte(c.body), c.delay), c.want))
		})
	}
}
