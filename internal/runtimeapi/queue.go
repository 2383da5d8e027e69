package runtimeapi

import (
	"context"
	"time"
)

// A Queue is the receiving end of an SQS queue, as an EventSource uses it. An implementation must
//   - be safe for concurrent use;
//   - hide what it has handed out for the queue's visibility timeout, and show it again if it was not deleted until then;
//   - move what was received as often as the queue's RedrivePolicy allows to its dead-letter queue, where it has one;
//   - hand out each message at least once, in any order.
type Queue interface {
	// Receive returns 1 to most messages (most is 1 to 10), waiting for the first if there is none, and none, without an
	// error, once it has waited for so long. It need not notice what becomes visible while it waits. It returns an error
	// that matches ctx's when ctx ends first.
	Receive(ctx context.Context, most int, wait time.Duration) ([]Message, error)
	// Delete ends messages by their receipt handles. One that is deleted already is no error.
	Delete(ctx context.Context, handles []string) error
}

// A Message is one delivery of what was sent to a queue.
type Message struct {
	ID            string // the same for each delivery
	ReceiptHandle string // of this delivery
	Body          string
	Attributes    map[string]string // SQS's own, by name: ApproximateReceiveCount, SentTimestamp, AWSTraceHeader, …
	Named         map[string]MessageAttribute
}

// A MessageAttribute is one that the sender gave a name. Text or Binary is set, as Type says.
type MessageAttribute struct {
	Type   string // String, Number or Binary, perhaps with a label: "Number.int"
	Text   string
	Binary []byte
}
