package runtimeapi

import (
	"context"
	"sync"
	"time"
)

// A FaultyQueue hands out what its Queue does, with the faults a standard queue may have and somebody asks for. Its functions
// are asked once for each delivery of Queue and never at the same time; one that is nil means that there is no such
// fault. Safe for concurrent use.
type FaultyQueue struct {
	Queue Queue

	Drop      func(Message) bool               // it is lost: deleted and never seen
	Delay     func(Message) time.Duration      // it comes so much later
	Duplicate func(Message) bool               // the same delivery comes with a later call once more
	Shuffle   func(n int, swap func(i, j int)) // what one call hands out comes in another order; see rand.Shuffle

	mu   sync.Mutex
	late []lateMessage
}

type lateMessage struct {
	Message
	due time.Time
}

var _ Queue = (*FaultyQueue)(nil)

// Receive implements Queue. What is late goes before what is new.
func (q *FaultyQueue) Receive(ctx context.Context, most int, wait time.Duration) ([]Message, error) {
	for end := time.Now().Add(wait); ; {
		if got := q.due(most); len(got) > 0 {
			return got, nil
		}
		left := max(0, min(time.Until(end), q.untilDue()))
		fresh, err := q.Queue.Receive(ctx, most, left)
		if err != nil {
			return nil, err
		}
		got, lost := q.spoil(fresh)
		if len(lost) > 0 {
			if err := q.Queue.Delete(ctx, lost); err != nil {
				return nil, err
			}
		}
		if len(got) > 0 || !time.Now().Before(end) {
			return got, nil
		}
	}
}

// Delete implements Queue.
func (q *FaultyQueue) Delete(ctx context.Context, handles []string) error {
	return q.Queue.Delete(ctx, handles)
}

// due takes at most so many of those that are late and now due.
func (q *FaultyQueue) due(most int) []Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	var got []Message
	now, kept := time.Now(), q.late[:0]
	for _, m := range q.late {
		if len(got) < most && !now.Before(m.due) {
			got = append(got, m.Message)
		} else {
			kept = append(kept, m)
		}
	}
	q.late = kept
	q.shuffle(got)
	return got
}

func (q *FaultyQueue) untilDue() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	next := time.Hour
	for _, m := range q.late {
		next = min(next, time.Until(m.due))
	}
	return next
}

// spoil decides what becomes of each message: what is handed out now, and the handles of what is lost.
func (q *FaultyQueue) spoil(fresh []Message) (got []Message, lost []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for _, m := range fresh {
		if q.Drop != nil && q.Drop(m) {
			lost = append(lost, m.ReceiptHandle)
			continue
		}
		var delay time.Duration
		if q.Delay != nil {
			delay = q.Delay(m)
		}
		if q.Duplicate != nil && q.Duplicate(m) {
			q.late = append(q.late, lateMessage{m, now.Add(delay)})
		}
		if delay > 0 {
			q.late = append(q.late, lateMessage{m, now.Add(delay)})
			continue
		}
		got = append(got, m)
	}
	q.shuffle(got)
	return got, lost
}

func (q *FaultyQueue) shuffle(all []Message) {
	if q.Shuffle != nil {
		q.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
}
