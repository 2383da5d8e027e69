package storetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"spillway/internal/runtimeapi"
)

// MemoryQueue is both ends of a queue that forgets everything with its process. Its fields are not changed once it is in
// use; the zero value hides for no time and never gives up. Safe for concurrent use.
type MemoryQueue struct {
	Visibility time.Duration
	Receives   int          // how often a message is received before it goes to Dead; 0: without end
	Dead       *MemoryQueue // nil: such a message is dropped

	mu      sync.Mutex
	held    []*heldMessage
	sent    int
	handles int
	news    chan struct{} // closed and made anew when something was sent
}

type heldMessage struct {
	runtimeapi.Message
	sent, first, visible time.Time
	received             int
}

var (
	_ runtimeapi.Queue = (*MemoryQueue)(nil)
	_ Sender           = (*MemoryQueue)(nil)
)

// Send implements Sender.
func (q *MemoryQueue) Send(ctx context.Context, body []byte, delay time.Duration) error {
	return q.SendTraced(ctx, body, delay, "")
}

// SendTraced is a Send from within an invocation with that trace: SQS keeps the header of the caller's SDK with the message.
func (q *MemoryQueue) SendTraced(ctx context.Context, body []byte, delay time.Duration, trace string) error {
	if delay > 900*time.Second || len(body) == 0 || len(body) > 256<<10 || !utf8.Valid(body) {
		return errors.New("the message cannot be sent")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent++
	now := time.Now()
	m := &heldMessage{Message: runtimeapi.Message{ID: fmt.Sprintf("message-%d", q.sent), Body: string(body)}, sent: now, visible: now.Add(max(0, delay))}
	if trace != "" {
		m.Attributes = map[string]string{"AWSTraceHeader": trace}
	}
	q.add(m)
	return nil
}

// add wakes who waits. q.mu is held.
func (q *MemoryQueue) add(m *heldMessage) {
	q.held = append(q.held, m)
	if q.news != nil {
		close(q.news)
		q.news = nil
	}
}

// Receive implements runtimeapi.Queue.
func (q *MemoryQueue) Receive(ctx context.Context, most int, wait time.Duration) ([]runtimeapi.Message, error) {
	end := time.Now().Add(wait)
	for {
		got, next, news := q.take(most)
		now := time.Now()
		if len(got) > 0 || !now.Before(end) && ctx.Err() == nil {
			return got, nil
		}
		pause := time.NewTimer(min(end.Sub(now), next))
		select {
		case <-ctx.Done():
		case <-news:
		case <-pause.C:
		}
		pause.Stop()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// take hands out what is visible, or says how long until the next is and what closes when another is sent.
func (q *MemoryQueue) take(most int) (got []runtimeapi.Message, next time.Duration, news <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now, kept := time.Now(), q.held[:0]
	next = time.Hour
	for _, m := range q.held {
		switch {
		case now.Before(m.visible):
			next = min(next, m.visible.Sub(now))
		case q.Receives > 0 && m.received >= q.Receives:
			q.bury(m, now)
			continue
		case len(got) < most:
			got = append(got, q.deliver(m, now))
		}
		kept = append(kept, m)
	}
	clear(q.held[len(kept):])
	q.held = kept
	if q.news == nil {
		q.news = make(chan struct{})
	}
	return got, next, q.news
}

func (q *MemoryQueue) bury(m *heldMessage, now time.Time) {
	if q.Dead == nil {
		return
	}
	q.Dead.mu.Lock()
	defer q.Dead.mu.Unlock()
	m.received, m.visible = 0, now
	q.Dead.add(m)
}

func (q *MemoryQueue) deliver(m *heldMessage, now time.Time) runtimeapi.Message {
	q.handles++
	m.received++
	if m.received == 1 {
		m.first = now
	}
	m.visible, m.ReceiptHandle = now.Add(q.Visibility), strconv.Itoa(q.handles)
	out := m.Message
	out.Attributes = map[string]string{"SenderId": "AIDAMEMORY", "ApproximateReceiveCount": strconv.Itoa(m.received),
		"SentTimestamp": strconv.FormatInt(m.sent.UnixMilli(), 10), "ApproximateFirstReceiveTimestamp": strconv.FormatInt(m.first.UnixMilli(), 10)}
	for name, value := range m.Attributes {
		out.Attributes[name] = value
	}
	return out
}

// Delete implements runtimeapi.Queue. As in SQS a handle is good until the message was received again.
func (q *MemoryQueue) Delete(_ context.Context, handles []string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, handle := range handles {
		for i, m := range q.held {
			if m.ReceiptHandle == handle {
				q.held = append(q.held[:i], q.held[i+1:]...)
				break
			}
		}
	}
	return nil
}

// Len counts the messages that are in the queue, hidden ones included.
func (q *MemoryQueue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.held)
}
