//go:build linux

package runtimeapi_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/sivchari/kumo"

	"spillway/internal/runtimeapi"
	"spillway/internal/runtimeapi/sqspoll"
	"spillway/internal/sqsqueue"
)

// queued is the real bootstrap of testdata/queued behind two queues of the embedded emulator.
type queued struct {
	stack
	source    runtimeapi.EventSource
	sender    *sqsqueue.Queue
	dead      *sqspoll.Queue
	sourceLog *logs
}

func startQueued(t *testing.T) queued {
	t.Helper()
	server := kumo.NewServer()
	t.Cleanup(server.Close)
	emulator, err := url.Parse(server.URL)
	must(t, err)
	transport := &http.Transport{}
	front := httptest.NewServer(runtimeapi.KeepTraces(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(emulator) }, Transport: transport}))
	t.Cleanup(func() {
		front.Close()
		transport.CloseIdleConnections()
	})

	api := sqsqueue.New(aws.Config{Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "local", SecretAccessKey: "local"}, nil
	})})
	create := func(kind string, attributes map[string]string) (string, string) {
		attributes["VisibilityTimeout"] = "1"
		name := fmt.Sprintf("%s-%016x", kind, rand.Uint64()) // the emulator's servers share what they hold
		made, err := api.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
		must(t, err)
		all, err := api.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: made.QueueUrl, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameQueueArn}})
		must(t, err)
		return *made.QueueUrl, all.Attributes["QueueArn"]
	}
	deadURL, deadARN := create("dead", map[string]string{})
	queueURL, arn := create("jobs", map[string]string{"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":2}`, deadARN)})

	q := queued{sourceLog: new(logs), sender: &sqsqueue.Queue{API: api, URL: queueURL}, dead: &sqspoll.Queue{API: api, URL: deadURL}}
	q.stack = start(t, runtimeapi.Function{Bootstrap: filepath.Join(bootstraps, "queued"), Env: []string{"AWS_ENDPOINT_URL=" + front.URL, "QUEUE_URL=" + queueURL}})
	q.source = runtimeapi.EventSource{Function: q.Front, Queue: &sqspoll.Queue{API: api, URL: queueURL}, QueueARN: arn, ItemFailures: true, Log: q.sourceLog}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the event source's log:\n%s", q.sourceLog)
		}
	})
	return q
}

// run polls until the end of the test.
func (q queued) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- q.source.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-over)
	})
}

func (q queued) times(text string) int { return strings.Count(q.logs.String(), text) }

func TestARealFunctionIsInvokedByItsQueue(t *testing.T) {
	q := startQueued(t)
	send(t, q.sender, `{"name":"good"}`, `{"name":"poison","report":true}`)
	q.run(t)
	q.buried(t, `{"name":"poison","report":true}`)
	equal(t, 1, q.times("got good "), "what was not reported is done")
	equal(t, 2, q.times("got poison "), "what was reported comes as often as its queue allows")
	contains(t, q.logs.String(), "from "+q.source.QueueARN)

	send(t, q.sender, `{"name":"fatal","fail":true}`)
	q.buried(t, `{"name":"fatal","fail":true}`)
	equal(t, 2, q.times("got fatal "))
	contains(t, q.sourceLog.String(), "told to fail")
}

// buried waits until that is what comes into the dead-letter queue, alone.
func (q queued) buried(t *testing.T, body string) {
	t.Helper()
	var came []string
	eventually(t, body+" is in the dead-letter queue", func() bool {
		all, err := q.dead.Receive(t.Context(), 10, 0)
		must(t, err)
		var handles []string
		for _, m := range all {
			came, handles = append(came, m.Body), append(handles, m.ReceiptHandle)
		}
		must(t, q.dead.Delete(t.Context(), handles))
		return len(came) > 0
	})
	equal(t, []string{body}, came)
}

func TestARealFunctionThatFeedsItsOwnQueueIsStoppedAfter16Invocations(t *testing.T) {
	q := startQueued(t)
	send(t, q.sender, `{"name":"hop","again":30}`)
	q.run(t)
	eventually(t, "the loop is stopped", func() bool { return strings.Contains(q.sourceLog.String(), "a recursive loop of 16 invocations") })
	equal(t, 16, q.times("got hop "))
}

func TestARealFunctionMayFeedItsOwnQueueWhenTheLoopIsAllowed(t *testing.T) {
	q := startQueued(t)
	q.source.AllowLoop = true
	send(t, q.sender, `{"name":"hop","again":20}`)
	q.run(t)
	eventually(t, "the chain has come to its end", func() bool { return q.times("got hop ") == 21 })
	equal(t, "", q.sourceLog.String())
}
