package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	lambdaevents "github.com/aws/aws-lambda-go/events"

	"spillway/internal/runtimeapi/sqspoll"
	"spillway/internal/sqsqueue"
)

// invoker is a function that keeps its events.
type invoker chan []byte

func (i invoker) InvokeTraced(_ context.Context, _ string, event []byte) ([]byte, error) {
	i <- event
	return nil, nil
}

func TestSourcesAreAsTheTemplateSays(t *testing.T) {
	_, d, err := readTestdata(t, "events.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := &services{endpoint: "http://127.0.0.1:1"}
	queues, _ := s.sources(d, d.functions[0], make(invoker), io.Discard)
	if len(queues) != 2 {
		t.Fatalf("%d queues, want 2", len(queues))
	}
	jobs, letters := queues[0], queues[1]
	if jobs.QueueARN != "arn:aws:sqs:us-east-1:000000000000:spillway-Jobs" || jobs.BatchSize != 5 || jobs.Window != 2*time.Second || jobs.Concurrency != 3 ||
		jobs.Visibility != 180*time.Second || !jobs.ItemFailures || !jobs.AllowLoop {
		t.Errorf("got %+v", jobs)
	}
	if letters.Visibility != 30*time.Second || letters.ItemFailures {
		t.Errorf("got %+v", letters)
	}
	_, schedules := s.sources(d, d.functions[1], make(invoker), io.Discard)
	if len(schedules) != 2 || schedules[0].ARN != "arn:aws:scheduler:us-east-1:000000000000:schedule/default/sweep" || schedules[0].Every != time.Minute {
		t.Errorf("got %+v", schedules)
	}
}

func TestAMessageOfTheQueueReachesTheFunction(t *testing.T) {
	s := &services{endpoint: testEndpoint(t)}
	jobs := queue{name: fmt.Sprintf("jobs-%016x", rand.Uint64()), visibility: time.Minute}
	d := deployment{queues: []queue{jobs}}
	if err := s.create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	fn := make(invoker, 10)
	var log bytes.Buffer
	queues, _ := s.sources(d, function{events: events{queues: []queueEvent{{queue: jobs.name}}}}, fn, &log)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	over := make(chan error, 1)
	go func() { over <- queues[0].Run(ctx) }()
	sender := &sqsqueue.Queue{API: sqsqueue.New(s.config()), URL: queueURL(jobs.name)}
	if err := sender.Send(t.Context(), []byte(`{"job":"job_1"}`), 0); err != nil {
		t.Fatal(err)
	}
	var event lambdaevents.SQSEvent
	select {
	case text := <-fn:
		if err := json.Unmarshal(text, &event); err != nil {
			t.Fatal(err)
		}
	case <-ctx.Done():
	}
	cancel()
	if err := <-over; err != nil {
		t.Error(err)
	}
	if len(event.Records) != 1 || event.Records[0].Body != `{"job":"job_1"}` || event.Records[0].EventSourceARN != queueARN(jobs.name) || event.Records[0].AWSRegion != region {
		t.Errorf("got %+v; log: %s", event, &log)
	}
}

// TestTheEmbeddedQueueKeepsTheTraceOfAMessage: as SQS does; by it an event source knows a loop.
func TestTheEmbeddedQueueKeepsTheTraceOfAMessage(t *testing.T) {
	e, err := startEmulator()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.close)
	s, name := &services{endpoint: e.url}, fmt.Sprintf("jobs-%016x", rand.Uint64())
	if err := s.create(t.Context(), deployment{queues: []queue{{name: name, visibility: time.Minute}}}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_LAMBDA_FUNCTION_NAME", "JobsFunction") // what the SDK in a function looks at
	t.Setenv("_X_AMZN_TRACE_ID", "Root=1-5759e988-bd862e3fe1be46a994272793;Lineage=a87bd80c:7")
	api := sqsqueue.New(s.config())
	if err := (&sqsqueue.Queue{API: api, URL: queueURL(name)}).Send(t.Context(), []byte("{}"), 0); err != nil {
		t.Fatal(err)
	}
	got, err := (&sqspoll.Queue{API: api, URL: queueURL(name)}).Receive(t.Context(), 1, time.Second)
	if err != nil || len(got) != 1 || got[0].Named["AWSTraceHeader"].Text != "Root=1-5759e988-bd862e3fe1be46a994272793;Lineage=a87bd80c:7" {
		t.Errorf("got %+v, %v", got, err)
	}
}
