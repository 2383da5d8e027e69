package suite

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"spillway/internal/runtimeapi"
)

// A delivery is one message handed to the function, and what came of it.
type delivery struct {
	at time.Time
	// err is why the function did not answer: its process was killed.
	err error
	// failed says that the function has reported the message as failed.
	failed bool
}

// book holds every delivery of every message. Its zero value is empty. It is safe for concurrent use.
type book struct {
	mu       sync.Mutex
	messages map[string][]delivery
	events   int
}

// courier hands a queue's events to a function and enters them into a book.
type courier struct {
	to   runtimeapi.Invoker
	book *book
}

// InvokeTraced implements runtimeapi.Invoker. An event that the function has had no place for is none.
func (c courier) InvokeTraced(ctx context.Context, trace string, event []byte) ([]byte, error) {
	at := time.Now()
	answer, err := c.to.InvokeTraced(ctx, trace, event)
	if !errors.Is(err, runtimeapi.ErrThrottled) {
		c.book.enter(at, event, answer, err)
	}
	return answer, err //nolint:wrapcheck // the event source must see it as it is
}

func (b *book) enter(at time.Time, event, answer []byte, err error) {
	var in struct {
		Records []struct{ MessageID string }
	}
	var out struct {
		BatchItemFailures []struct{ ItemIdentifier string }
	}
	_ = json.Unmarshal(event, &in)   // it is the event source's own
	_ = json.Unmarshal(answer, &out) // what cannot be read reports nothing, and the event source leaves all of it in the queue
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.messages == nil {
		b.messages = map[string][]delivery{}
	}
	b.events++
	for _, r := range in.Records {
		failed := slices.ContainsFunc(out.BatchItemFailures, func(f struct{ ItemIdentifier string }) bool { return f.ItemIdentifier == r.MessageID })
		b.messages[r.MessageID] = append(b.messages[r.MessageID], delivery{at: at, err: err, failed: failed})
	}
}

// of are the deliveries of a message.
func (b *book) of(message string) []delivery {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.messages[message])
}

// counts are the messages, and their deliveries, that there were.
func (b *book) counts() (messages, deliveries, events int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, all := range b.messages {
		deliveries += len(all)
	}
	return len(b.messages), deliveries, b.events
}
