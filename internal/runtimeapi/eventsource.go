package runtimeapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// An Invoker is a function that takes events one at a time. *Front is one.
type Invoker interface {
	// InvokeTraced hands over one event with the trace header of its cause. It returns what the function answered, or
	// ErrThrottled, or another error; in that case nothing is known of what the function did.
	InvokeTraced(ctx context.Context, trace string, event []byte) ([]byte, error)
}

var _ Invoker = (*Front)(nil)

// An EventSource is an event source mapping: it polls a queue and invokes a function with batches of what it received.
// What the function answers decides about the messages as in Lambda. An error leaves the whole batch in the queue, to be
// seen again after its visibility timeout; so does an answer that cannot be read, if item failures are reported; else what
// was not reported is deleted.
//
// Not modelled: Lambda's poller takes less concurrency after errors, filters, and FIFO queues.
// https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html (2026-11)
type EventSource struct {
	Function Invoker
	Queue    Queue
	QueueARN string // arn:aws:sqs:region:account:name

	BatchSize   int           // the most messages of one event, 1 to 10 000; 0: 10. Above 10 a Window of a second is needed
	Window      time.Duration // how long to gather a batch after its first message, at most 300 s; 0: not at all
	Concurrency int           // MaximumConcurrency, 2 to 1000; 0: 10, which is this driver's own, Lambda's has no end
	Visibility  time.Duration // the queue's; for so long a throttled batch is tried again; 0: 30 s, as with a queue

	ItemFailures bool // FunctionResponseTypes: [ReportBatchItemFailures]. Without it the answer is not read
	AllowLoop    bool // RecursiveLoop: Allow. Without it a chain of messages ends after 16 invocations

	Log io.Writer // one line for what Lambda would put into its metrics; nil: discarded
}

const (
	// poll is how long a call waits for a first message. Lambda waits 20 s; here the end should be seen soon.
	poll = time.Second
	// receive is the most messages of one call.
	receive = 10
	// retry is the pause after the first failure to receive, or throttling, in a row; it doubles up to maxRetry.
	retry, maxRetry = 100 * time.Millisecond, 5 * time.Second
)

func (s EventSource) withDefaults() EventSource {
	if s.BatchSize == 0 {
		s.BatchSize = 10
	}
	if s.Concurrency == 0 {
		s.Concurrency = 10
	}
	if s.Visibility == 0 {
		s.Visibility = 30 * time.Second
	}
	if s.Log == nil {
		s.Log = io.Discard
	}
	return s
}

func (s EventSource) check() error {
	var problems []error
	refuse := func(when bool, why string) {
		if when {
			problems = append(problems, errors.New(why))
		}
	}
	refuse(s.Function == nil || s.Queue == nil, "an event source needs a function and a queue")
	refuse(strings.Count(s.QueueARN, ":") != 5, "the ARN of the queue has six parts")
	refuse(s.BatchSize < 1 || s.BatchSize > 10_000, "a batch has 1 to 10000 messages")
	refuse(s.Window < 0 || s.Window > 300*time.Second, "a window is 300 s at most")
	refuse(s.BatchSize > receive && s.Window < time.Second, "a batch of more than 10 messages needs a window of a second")
	refuse(s.Concurrency < 2 || s.Concurrency > 1000, "the maximum concurrency is 2 to 1000")
	return errors.Join(problems...)
}

// Run polls until ctx ends, which is no error, and returns when the invocations under way are over too; Front.Close ends
// them. The error says what is wrong with s.
func (s EventSource) Run(ctx context.Context) error {
	s = s.withDefaults()
	if err := s.check(); err != nil {
		return fmt.Errorf("checking the event source: %w", err)
	}
	log := &lines{to: s.Log}
	var under sync.WaitGroup
	defer under.Wait()
	slots := make(chan struct{}, s.Concurrency)
	for failures := 0; ctx.Err() == nil; {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		batch, err := s.gather(ctx)
		if err == nil {
			failures = 0
		}
		if err != nil && ctx.Err() == nil {
			log.printf("polling %s: %v", s.QueueARN, err)
			pause(ctx, backoff(failures))
			failures++
		}
		if len(batch) == 0 {
			<-slots
			continue
		}
		under.Go(func() {
			defer func() { <-slots }()
			// A batch that has been received is seen through: nobody else will see it before its visibility timeout.
			s.deliver(context.WithoutCancel(ctx), batch, log)
		})
	}
	return nil
}

// gather receives a batch: the first messages there are, and what the window adds. What has been received is returned
// whatever becomes of the next call.
func (s EventSource) gather(ctx context.Context) ([]Message, error) {
	batch, err := s.Queue.Receive(ctx, min(receive, s.BatchSize), poll)
	if err != nil || len(batch) == 0 {
		return nil, err
	}
	for end := time.Now().Add(s.Window); len(batch) < s.BatchSize && time.Now().Before(end); {
		more, err := s.Queue.Receive(ctx, min(receive, s.BatchSize-len(batch)), min(poll, time.Until(end)))
		if err != nil {
			return batch, err
		}
		batch = append(batch, more...)
	}
	return batch, nil
}

// deliver invokes the function with a batch and deletes what it has done.
func (s EventSource) deliver(ctx context.Context, batch []Message, log *lines) {
	adopt(batch)
	batch = s.withoutLoops(batch, log)
	if len(batch) == 0 {
		return
	}
	event, err := sqsEvent(s.QueueARN, batch)
	if err != nil {
		log.printf("making an event of %d messages of %s: %v", len(batch), s.QueueARN, err)
		return
	}
	answer, err := s.invoke(ctx, nextTrace(s.QueueARN, batch), event)
	if err != nil {
		log.printf("%d messages of %s stay in the queue: %v", len(batch), s.QueueARN, err)
		return
	}
	failed := map[string]bool{}
	if s.ItemFailures {
		if failed, err = itemFailures(answer, batch); err != nil {
			log.printf("%d messages of %s stay in the queue: %v", len(batch), s.QueueARN, err)
			return
		}
	}
	var done []string
	for _, m := range batch {
		if !failed[m.ID] {
			done = append(done, m.ReceiptHandle)
		}
	}
	if len(failed) > 0 {
		log.printf("%d of %d messages of %s failed and stay in the queue", len(batch)-len(done), len(batch), s.QueueARN)
	}
	if len(done) == 0 {
		return
	}
	if err := s.Queue.Delete(ctx, done); err != nil {
		log.printf("%d messages of %s are done but stay in the queue: %v", len(done), s.QueueARN, err)
	}
}

// invoke tries again while the function has no free environment, until the batch is visible to others again.
func (s EventSource) invoke(ctx context.Context, trace string, event []byte) ([]byte, error) {
	end := time.Now().Add(s.Visibility)
	for n := 0; ; n++ {
		answer, err := s.Function.InvokeTraced(ctx, trace, event)
		wait := backoff(n)
		if !errors.Is(err, ErrThrottled) || time.Now().Add(wait).After(end) {
			return answer, err
		}
		pause(ctx, wait)
	}
}

func backoff(n int) time.Duration { return min(retry<<min(n, 10), maxRetry) }

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// lines is a log for many goroutines.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

func (l *lines) printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.to, format+"\n", args...)
}
