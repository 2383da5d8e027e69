// Package sqsqueue sends the messages that drive media jobs to SQS. Receiving and deleting them is Lambda's own work, so it
// is not here.
package sqsqueue

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

const (
	// MaxDelay is the longest that a standard queue holds a message back. What is due later has to wait elsewhere.
	// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html (2026-11)
	MaxDelay = 900 * time.Second
	// MaxBody is the most bytes of a body that every SQS takes; AWS itself has taken 1 MiB since 2025-08, emulators have not.
	MaxBody = 256 << 10
)

var (
	// ErrDelay: the delay is longer than MaxDelay. Nothing was sent.
	ErrDelay = errors.New("a queue holds a message back for 900 s at most")
	// ErrBody: the body is empty, longer than MaxBody or not text. Nothing was sent.
	ErrBody = errors.New("the body of a message is text of 1 to 262144 bytes")
)

// API is the part of SQS that is used.
type API interface {
	SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
}

// New makes a client that makes each call once. A send whose answer was lost may be repeated, it only sends twice, but who
// repeats it and until when is for the sender to say: a job that missed its message has a sweeper.
func New(c aws.Config) *sqs.Client {
	return sqs.NewFromConfig(c, func(o *sqs.Options) {
		o.Retryer = aws.NopRetryer{}
	})
}

// Queue is a standard queue: what was sent is delivered at least once, in any order. Safe for concurrent use.
type Queue struct {
	API API
	URL string
}

// Send sends one message, to be delivered no sooner than after delay, which is rounded up to whole seconds; one that is not
// positive means at once. The errors are ErrDelay and ErrBody, after which nothing was sent, and SQS's own, after which
// the message may have been sent all the same.
func (q *Queue) Send(ctx context.Context, body []byte, delay time.Duration) error {
	if delay > MaxDelay {
		return fmt.Errorf("sending a message in %v: %w", delay, ErrDelay)
	}
	if len(body) == 0 || len(body) > MaxBody || !utf8.Valid(body) {
		return fmt.Errorf("sending a message of %d bytes: %w", len(body), ErrBody)
	}
	_, err := q.API.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &q.URL, MessageBody: aws.String(string(body)), DelaySeconds: wholeSeconds(delay)})
	if err != nil {
		return fmt.Errorf("sending a message: %w", err)
	}
	return nil
}

// wholeSeconds is at least d.
func wholeSeconds(d time.Duration) int32 {
	return int32((max(0, d) + time.Second - 1) / time.Second) // at most 900: Send has looked
}
