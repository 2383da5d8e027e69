package main

import (
	"context"
	"io"

	"github.com/aws/aws-lambda-go/events"

	"spillway/functions/internal/graph"
	"spillway/internal/fault"
	"spillway/internal/jobs"
	"spillway/internal/telemetry"
)

// handler handles one batch of one queue. It never fails as a whole: the answer names the messages that have to come again.
type handler func(context.Context, events.SQSEvent) (events.SQSEventResponse, error)

// wire builds the graph of the poller from the environment and its configuration file. What is to be
// noticed of that the gateway tells, whose it is too.
func wire(getenv func(string) string, readFile func(string) ([]byte, error), records io.Writer) (handler, error) {
	s, config, err := graph.Worker(getenv, readFile)
	if err != nil {
		return nil, err //nolint:wrapcheck // it lists problems, each with its place
	}
	recorder := telemetry.New(records, s.LogLevel)
	return batch(graph.Jobs(s, config, fault.Default(), recorder, graph.Fleet(s.State, recorder))), nil
}

func batch(e *jobs.Engine) handler {
	return func(ctx context.Context, event events.SQSEvent) (events.SQSEventResponse, error) {
		records := make([]jobs.Record, len(event.Records))
		for i, m := range event.Records {
			records[i] = jobs.Record{ID: m.MessageId, Body: []byte(m.Body)}
		}
		answer := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
		for _, id := range e.HandleBatch(ctx, records) {
			answer.BatchItemFailures = append(answer.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: id})
		}
		return answer, nil
	}
}
