package state

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"spillway/internal/provider/wire"
	"spillway/internal/runtimeapi"
	"spillway/internal/runtimeapi/sqspoll"
	"spillway/internal/sqsqueue"
)

// account is the one that an emulator keeps queues of, whoever asks.
const (
	account = "000000000000"
	region  = "us-east-1"
)

// Jobs are the choices that a stage has for the media jobs of a state. The template's own (15 minutes, checked by `make sam-check`)
// are of a length that no suite can wait for.
type Jobs struct {
	// Visibility is how long a received message is hidden, in whole seconds.
	Visibility time.Duration
	// Receives is how often a message is received before it goes to its dead-letter queue.
	Receives int
}

// OpenJobs is Open with the table of media jobs, with its indexes, and their three queues, each with its dead-letter queue.
func OpenJobs(j Jobs) (*State, error) {
	s, err := Open()
	if err != nil {
		return nil, err
	}
	s.Names = s.Names.withJobs()
	if err := s.createJobs(j); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// createJobs makes what jobs need.
func (s *State) createJobs(j Jobs) error {
	type object = map[string]any
	attribute := func(name, kind string) object { return object{"AttributeName": name, "AttributeType": kind} }
	index := func(name, hash, sort string) object {
		return object{"IndexName": name, "Projection": object{"ProjectionType": "ALL"},
			"KeySchema": []object{{"AttributeName": hash, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}}}
	}
	err := s.dynamo("CreateTable", object{"TableName": s.Names.Jobs, "BillingMode": "PAY_PER_REQUEST",
		"AttributeDefinitions": []object{attribute("id", "S"), attribute("organization", "S"), attribute("list_place", "S"), attribute("status", "S"),
			attribute("updated_at", "S"), attribute("due", "S"), attribute("look_at", "N")},
		"KeySchema": []object{{"AttributeName": "id", "KeyType": "HASH"}},
		"GlobalSecondaryIndexes": []object{index("by-organization", "organization", "list_place"), index("by-status", "status", "updated_at"),
			index("due", "due", "look_at")}}, nil)
	if err != nil {
		return fmt.Errorf("making the table of jobs: %w", err)
	}
	for _, name := range s.Names.Queues() {
		if err := s.queue("CreateQueue", object{"QueueName": DeadLetters(name)}); err != nil {
			return fmt.Errorf("making the queue %s: %w", DeadLetters(name), err)
		}
		redrive, err := json.Marshal(object{"deadLetterTargetArn": QueueARN(DeadLetters(name)), "maxReceiveCount": j.Receives})
		if err != nil {
			return fmt.Errorf("encoding a redrive policy: %w", err)
		}
		err = s.queue("CreateQueue", object{"QueueName": name, "Attributes": map[string]string{
			"VisibilityTimeout": strconv.Itoa(int(j.Visibility / time.Second)), "RedrivePolicy": string(redrive)}})
		if err != nil {
			return fmt.Errorf("making the queue %s: %w", name, err)
		}
	}
	return nil
}

// closeJobs drops the queues; the table goes with the others.
func (s *State) closeJobs() {
	for _, name := range s.Names.Queues() {
		for _, name := range []string{name, DeadLetters(name)} {
			_ = s.queue("DeleteQueue", map[string]any{"QueueUrl": s.queueURL(name)}) // what is left goes with the process
		}
	}
}

// DeadLetters is the name of a queue's dead-letter queue.
func DeadLetters(queue string) string { return queue + "-dead" }

// QueueARN is the ARN of a queue.
func QueueARN(name string) string { return "arn:aws:sqs:" + region + ":" + account + ":" + name }

func (s *State) queueURL(name string) string { return s.url + "/" + account + "/" + name }

func (s *State) jobsEnv() []string {
	if s.Names.Jobs == "" {
		return nil
	}
	return []string{"SPILLWAY_JOBS_TABLE=" + s.Names.Jobs, "SPILLWAY_JOBS_QUEUE=" + s.queueURL(s.Names.Polls),
		"SPILLWAY_GENERATE_QUEUE=" + s.queueURL(s.Names.Generate), "SPILLWAY_WEBHOOKS_QUEUE=" + s.queueURL(s.Names.Webhooks)}
}

// Queue is the receiving end of a queue, past the wire.
func (s *State) Queue(name string) runtimeapi.Queue {
	endpoint := emulator().URL
	return &sqspoll.Queue{URL: s.queueURL(name), API: sqsqueue.New(aws.Config{Region: region, BaseEndpoint: &endpoint, HTTPClient: &http.Client{Transport: &wire.Client{}},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "local", SecretAccessKey: "local"}, nil
		})})}
}

// Dead are the messages in a queue's dead-letter queue. They are hidden from the next call for 30 s.
func (s *State) Dead(ctx context.Context, queue string) (all []runtimeapi.Message, err error) {
	from := s.Queue(DeadLetters(queue))
	for {
		some, err := from.Receive(ctx, 10, 0)
		if err != nil || len(some) == 0 {
			return all, err
		}
		all = append(all, some...)
	}
}

// queue makes one call of the emulator's SQS.
func (s *State) queue(operation string, in any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encoding a call: %w", err)
	}
	_, err = s.ask(http.MethodPost, "/", "AmazonSQS."+operation, body)
	return err
}

// queueName is the name at the end of a queue's address.
func queueName(address string) string {
	if address == "" {
		return ""
	}
	return path.Base(address)
}

// Messages counts those in a queue: that wait, are late or hidden.
func (s *State) Messages(queue string) (n int, err error) {
	body, err := json.Marshal(map[string]any{"QueueUrl": s.queueURL(queue), "AttributeNames": []string{"All"}})
	if err != nil {
		return 0, fmt.Errorf("encoding a call: %w", err)
	}
	answer, err := s.ask(http.MethodPost, "/", "AmazonSQS.GetQueueAttributes", body)
	if err != nil {
		return 0, fmt.Errorf("reading the attributes of %s: %w", queue, err)
	}
	var out struct{ Attributes map[string]string }
	if err := json.Unmarshal(answer, &out); err != nil {
		return 0, fmt.Errorf("decoding the attributes of %s: %w", queue, err)
	}
	for _, name := range []string{"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"} {
		more, err := strconv.Atoi(out.Attributes[name])
		if err != nil {
			return 0, fmt.Errorf("reading %s of %s: %w", name, queue, err)
		}
		n += more
	}
	return n, nil
}

// Send sends a message, past the wire.
func (s *State) Send(queue, body string) error {
	return s.queue("SendMessage", map[string]any{"QueueUrl": s.queueURL(queue), "MessageBody": body})
}
