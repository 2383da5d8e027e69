// A function behind a queue, on aws-lambda-go and the AWS SDK. The body of each message says what becomes of it; all that
// comes is written to the log, one line a message.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"

	"spillway/internal/sqsqueue"
)

type body struct {
	Name   string `json:"name"`
	Report bool   `json:"report,omitempty"` // as a failed item
	Fail   bool   `json:"fail,omitempty"`   // the whole invocation
	Again  int    `json:"again,omitempty"`  // so often it is sent on to the same queue
}

func main() {
	queue := &sqsqueue.Queue{API: sqsqueue.New(config()), URL: os.Getenv("QUEUE_URL")}
	lambda.Start(func(ctx context.Context, e events.SQSEvent) (events.SQSEventResponse, error) {
		var failed events.SQSEventResponse
		for _, m := range e.Records {
			var b body
			if err := json.Unmarshal([]byte(m.Body), &b); err != nil {
				return failed, err
			}
			fmt.Printf("got %s %s %s from %s\n", b.Name, m.MessageId, m.Attributes["ApproximateReceiveCount"], m.EventSourceARN)
			if b.Fail {
				return failed, errors.New("told to fail")
			}
			if b.Report {
				failed.BatchItemFailures = append(failed.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: m.MessageId})
			}
			if b.Again > 0 {
				b.Again--
				text, err := json.Marshal(b)
				if err != nil {
					return failed, err
				}
				if err := queue.Send(ctx, text, 0); err != nil {
					return failed, err
				}
			}
		}
		return failed, nil
	})
}

func config() aws.Config {
	return aws.Config{Region: os.Getenv("AWS_REGION"), BaseEndpoint: aws.String(os.Getenv("AWS_ENDPOINT_URL")),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY")}, nil
		})}
}
