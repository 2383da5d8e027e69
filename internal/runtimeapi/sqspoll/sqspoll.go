// Package sqspoll receives from an SQS queue for an event source that stands in for Lambda's.
package sqspoll

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"spillway/internal/runtimeapi"
)

// most is how many messages a call of SQS takes or gives.
const most = 10

// Queue is a runtimeapi.Queue at SQS, or at what speaks like it.
type Queue struct {
	API *sqs.Client
	URL string
}

var _ runtimeapi.Queue = (*Queue)(nil)

// Receive implements runtimeapi.Queue. SQS waits for whole seconds, which wait is rounded up to, at most 20.
func (q *Queue) Receive(ctx context.Context, n int, wait time.Duration) ([]runtimeapi.Message, error) {
	out, err := q.API.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &q.URL, MaxNumberOfMessages: int32(min(n, most)),
		WaitTimeSeconds:             int32((min(wait, 20*time.Second) + time.Second - 1) / time.Second),
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll}, MessageAttributeNames: []string{"All"}})
	if err != nil {
		return nil, fmt.Errorf("receiving: %w", err)
	}
	var all []runtimeapi.Message
	for _, m := range out.Messages {
		all = append(all, received(m))
	}
	return all, nil
}

func received(m types.Message) runtimeapi.Message {
	made := runtimeapi.Message{ID: aws.ToString(m.MessageId), ReceiptHandle: aws.ToString(m.ReceiptHandle), Body: aws.ToString(m.Body),
		Attributes: m.Attributes, Named: map[string]runtimeapi.MessageAttribute{}}
	for name, a := range m.MessageAttributes {
		made.Named[name] = runtimeapi.MessageAttribute{Type: aws.ToString(a.DataType), Text: aws.ToString(a.StringValue), Binary: a.BinaryValue}
	}
	return made
}

// Delete implements runtimeapi.Queue.
func (q *Queue) Delete(ctx context.Context, handles []string) error {
	var problems []error
	for part := range slices.Chunk(handles, most) {
		in := &sqs.DeleteMessageBatchInput{QueueUrl: &q.URL}
		for i, handle := range part {
			in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &handle})
		}
		out, err := q.API.DeleteMessageBatch(ctx, in)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		for _, f := range out.Failed {
			if aws.ToString(f.Code) == "ReceiptHandleIsInvalid" {
				continue // so the embedded emulator calls the handle of a message that is deleted; SQS says nothing about it
			}
			problems = append(problems, fmt.Errorf("%s: %s", aws.ToString(f.Code), aws.ToString(f.Message)))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("deleting: %w", err)
	}
	return nil
}
