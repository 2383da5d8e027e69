//go:build linux

package runtimeapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"spillway/internal/runtimeapi"
	"spillway/internal/storetest"
)

const queueARN = "arn:aws:sqs:eu-central-1:123456789012:jobs"

// invoked is one event that a scripted function was given.
type invoked struct {
	at    time.Duration // since the script's start
	trace string
	event string
}

func (i invoked) bodies(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, m := range i.messages(t) {
		all = append(all, m.Body)
	}
	return all
}

type record struct {
	MessageID  string `json:"messageId"`
	Body       string
	Attributes map[string]string
}

func (i invoked) messages(t *testing.T) []record {
	t.Helper()
	var e struct{ Records []record }
	must(t, json.Unmarshal([]byte(i.event), &e))
	return e.Records
}

// script is a function that does what answer says.
type script struct {
	began  time.Time
	answer func(invoked) ([]byte, error)

	mu      sync.Mutex
	calls   []invoked
	running int
	most    int // running at once
}

func newScript(answer func(invoked) ([]byte, error)) *script {
	return &script{began: time.Now(), answer: answer}
}

func (s *script) InvokeTraced(_ context.Context, trace string, event []byte) ([]byte, error) {
	i := invoked{time.Since(s.began), trace, string(event)}
	s.mu.Lock()
	s.calls = append(s.calls, i)
	s.running++
	s.most = max(s.most, s.running)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
	}()
	return s.answer(i)
}

func answers(text string) func(invoked) ([]byte, error) {
	return func(invoked) ([]byte, error) { return []byte(text), nil }
}

// poll runs the source for so long and returns what it logged.
func poll(t *testing.T, s runtimeapi.EventSource, d time.Duration) string {
	t.Helper()
	var log logs
	s.QueueARN, s.Log = queueARN, &log
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	must(t, s.Run(ctx))
	return log.String()
}

func send(t *testing.T, q storetest.Sender, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		must(t, q.Send(t.Context(), []byte(body), 0))
	}
}

// fixed is a queue with one batch.
type fixed struct {
	batch   []runtimeapi.Message
	deleted []string
}

func (f *fixed) Receive(_ context.Context, _ int, wait time.Duration) ([]runtimeapi.Message, error) {
	batch := f.batch
	f.batch = nil
	if batch == nil {
		time.Sleep(wait)
	}
	return batch, nil
}

func (f *fixed) Delete(_ context.Context, handles []string) error {
	f.deleted = append(f.deleted, handles...)
	return nil
}

func TestTheEventIsTheOneOfLambda(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &fixed{batch: []runtimeapi.Message{
			{ID: "059f36b4-87a3-44ab-83d2-661975830a7d", ReceiptHandle: "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a", Body: "Test <message>.",
				Attributes: map[string]string{"ApproximateReceiveCount": "2", "SentTimestamp": "1545082649183", "SenderId": "AIDAIENQZJOLO23YVJ4VO", "ApproximateFirstReceiveTimestamp": "1545082649185"},
				Named:      map[string]runtimeapi.MessageAttribute{"kind": {Type: "String", Text: "poll"}, "raw": {Type: "Binary.gzip", Binary: []byte{1, 2}}}},
			{ID: "2e1424d4-f796-459a-8184-9c92662be6da", ReceiptHandle: "AQEBzWwaftRI0KuVm4tP+/7q1rGgNqicHq", Body: "{}"},
		}}
		f := newScript(answers("null"))
		poll(t, runtimeapi.EventSource{Function: f, Queue: q}, time.Second)
		equal(t, 1, len(f.calls))
		equal(t, `{"Records":[{"messageId":"059f36b4-87a3-44ab-83d2-661975830a7d","receiptHandle":"AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a","body":"Test <message>.",`+
			`"attributes":{"ApproximateFirstReceiveTimestamp":"1545082649185","ApproximateReceiveCount":"2","SenderId":"AIDAIENQZJOLO23YVJ4VO","SentTimestamp":"1545082649183"},`+
			`"messageAttributes":{"kind":{"stringValue":"poll","stringListValues":[],"binaryListValues":[],"dataType":"String"},`+
			`"raw":{"binaryValue":"AQI=","stringListValues":[],"binaryListValues":[],"dataType":"Binary.gzip"}},`+
			`"md5OfBody":"a3c57381ddc7e8f3b45321cbc336abd4","eventSource":"aws:sqs","eventSourceARN":"arn:aws:sqs:eu-central-1:123456789012:jobs","awsRegion":"eu-central-1"},`+
			`{"messageId":"2e1424d4-f796-459a-8184-9c92662be6da","receiptHandle":"AQEBzWwaftRI0KuVm4tP+/7q1rGgNqicHq","body":"{}","attributes":{},"messageAttributes":{},`+
			`"md5OfBody":"99914b932bd37a50b983c5e7c90ae93b","eventSource":"aws:sqs","eventSourceARN":"arn:aws:sqs:eu-central-1:123456789012:jobs","awsRegion":"eu-central-1"}]}`,
			f.calls[0].event)
		equal(t, 2, len(q.deleted))
	})
}

// TestTheAnswerSaysWhatStaysInTheQueue: of a batch of message-1 and message-2.
func TestTheAnswerSaysWhatStaysInTheQueue(t *testing.T) {
	const on, off = true, false
	for name, c := range map[string]struct {
		reports bool
		answer  string
		err     error
		stay    int
		log     string
	}{
		"no failures":                        {on, `{"batchItemFailures":[]}`, nil, 0, ""},
		"a null list":                        {on, `{"batchItemFailures":null}`, nil, 0, ""},
		"an empty report":                    {on, `{}`, nil, 0, ""},
		"a null report":                      {on, `null`, nil, 0, ""},
		"no answer at all":                   {on, ``, nil, 0, ""},
		"one failed":                         {on, `{"batchItemFailures":[{"itemIdentifier":"message-2"}]}`, nil, 1, "1 of 2 messages"},
		"one failed, said twice":             {on, `{"batchItemFailures":[{"itemIdentifier":"message-2"},{"itemIdentifier":"message-2"}]}`, nil, 1, "1 of 2 messages"},
		"both failed":                        {on, `{"batchItemFailures":[{"itemIdentifier":"message-1"},{"itemIdentifier":"message-2"}]}`, nil, 2, "2 of 2 messages"},
		"not JSON":                           {on, `{"batchItemFailures":[`, nil, 2, "reading the report"},
		"more than JSON":                     {on, `{} {}`, nil, 2, "more than one JSON value"},
		"a text":                             {on, `"ok"`, nil, 2, "reading the report"},
		"an empty identifier":                {on, `{"batchItemFailures":[{"itemIdentifier":""}]}`, nil, 2, `"" is no message`},
		"a null identifier":                  {on, `{"batchItemFailures":[{"itemIdentifier":null}]}`, nil, 2, "is no message"},
		"an identifier by another name":      {on, `{"batchItemFailures":[{"messageId":"message-1"}]}`, nil, 2, "without an itemIdentifier"},
		"a number for an identifier":         {on, `{"batchItemFailures":[{"itemIdentifier":1}]}`, nil, 2, "without an itemIdentifier"},
		"a list that is none":                {on, `{"batchItemFailures":"message-1"}`, nil, 2, "reading the report"},
		"a list by another name":             {on, `{"BatchItemFailures":[{"itemIdentifier":"message-1"}]}`, nil, 0, ""},
		"an identifier of another batch":     {on, `{"batchItemFailures":[{"itemIdentifier":"message-1"},{"itemIdentifier":"message-9"}]}`, nil, 2, `"message-9" is no message`},
		"the function failed":                {on, ``, &runtimeapi.FunctionError{Type: "Sandbox.Timedout", Message: "after 3 s"}, 2, "Sandbox.Timedout"},
		"reports are off: nothing is read":   {off, `{"batchItemFailures":[{"itemIdentifier":"message-2"}]}`, nil, 0, ""},
		"reports are off: not JSON":          {off, `ok`, nil, 0, ""},
		"reports are off: the function died": {off, ``, &runtimeapi.FunctionError{Type: "Runtime.ExitError"}, 2, "Runtime.ExitError"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &storetest.MemoryQueue{Visibility: 30 * time.Second}
				send(t, q, "a", "b")
				f := newScript(func(invoked) ([]byte, error) { return []byte(c.answer), c.err })
				log := poll(t, runtimeapi.EventSource{Function: f, Queue: q, ItemFailures: c.reports}, 20*time.Second)
				equal(t, 1, len(f.calls), "before its visibility timeout nothing is seen again")
				equal(t, c.stay, q.Len())
				contains(t, log, c.log)
				equal(t, c.log == "", log == "")
				poll(t, runtimeapi.EventSource{Function: f, Queue: q, ItemFailures: c.reports}, 15*time.Second)
				equal(t, c.stay > 0, len(f.calls) > 1, "after it, it is")
			})
		})
	}
}

func TestABatchHasAtMostItsSizeAndWaitsForItsWindow(t *testing.T) {
	for name, c := range map[string]struct {
		size   int
		window time.Duration
		want   [][]string
	}{
		"no window":                           {3, 0, [][]string{{"1", "2", "3"}, {"4"}, {"5"}, {"6"}}},
		"what comes within the window":        {10, 5 * time.Second, [][]string{{"1", "2", "3", "4", "5"}, {"6"}}},
		"full before the window is over":      {5, 5 * time.Second, [][]string{{"1", "2", "3", "4", "5"}, {"6"}}},
		"one at a time":                       {1, time.Minute, [][]string{{"1"}, {"2"}, {"3"}, {"4"}, {"5"}, {"6"}}},
		"more than a call gives, in a window": {12, 20 * time.Second, [][]string{{"1", "2", "3", "4", "5", "6"}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &storetest.MemoryQueue{Visibility: time.Hour}
				send(t, q, "1", "2", "3", "4")
				must(t, q.Send(t.Context(), []byte("5"), 4*time.Second))
				must(t, q.Send(t.Context(), []byte("6"), 8*time.Second))
				f := newScript(answers("{}"))
				poll(t, runtimeapi.EventSource{Function: f, Queue: q, BatchSize: c.size, Window: c.window}, time.Minute)
				var got [][]string
				for _, call := range f.calls {
					got = append(got, call.bodies(t))
				}
				slices.SortFunc(got, slices.Compare)
				equal(t, c.want, got)
				equal(t, 0, q.Len())
			})
		})
	}
}

func TestNoMoreBatchesAtOnceThanTheMaximumConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &storetest.MemoryQueue{Visibility: time.Hour}
		for i := range 20 {
			send(t, q, fmt.Sprint(i))
		}
		f := newScript(func(invoked) ([]byte, error) { time.Sleep(time.Second); return nil, nil })
		poll(t, runtimeapi.EventSource{Function: f, Queue: q, BatchSize: 1, Concurrency: 3}, 10*time.Second)
		equal(t, 3, f.most)
		equal(t, 20, len(f.calls))
	})
}

func TestAThrottledBatchIsTriedAgainUntilItIsVisibleToOthers(t *testing.T) {
	throttled := func(until time.Duration) func(invoked) ([]byte, error) {
		return func(i invoked) ([]byte, error) {
			if i.at < until {
				return nil, runtimeapi.ErrThrottled
			}
			return nil, nil
		}
	}
	t.Run("a free environment is found in time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			q := &storetest.MemoryQueue{Visibility: time.Minute}
			send(t, q, "a")
			f := newScript(throttled(10 * time.Second))
			log := poll(t, runtimeapi.EventSource{Function: f, Queue: q, Visibility: time.Minute}, time.Second)
			equal(t, 0, q.Len())
			equal(t, "1", f.calls[len(f.calls)-1].messages(t)[0].Attributes["ApproximateReceiveCount"])
			check(t, len(f.calls) < 15, "it does not hammer")
			equal(t, "", log)
		})
	})
	t.Run("none is found", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			q := &storetest.MemoryQueue{Visibility: time.Minute}
			send(t, q, "a")
			f := newScript(throttled(time.Hour))
			log := poll(t, runtimeapi.EventSource{Function: f, Queue: q, Visibility: time.Minute}, time.Second)
			equal(t, 1, q.Len())
			check(t, f.calls[len(f.calls)-1].at < time.Minute, "the last try comes before the others'")
			contains(t, log, "every environment is busy")
		})
	})
}

func TestRunReturnsWhenTheInvocationsUnderWayAreOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &storetest.MemoryQueue{Visibility: time.Hour}
		send(t, q, "slow")
		began := time.Now()
		f := newScript(func(invoked) ([]byte, error) { time.Sleep(10 * time.Second); return nil, nil })
		poll(t, runtimeapi.EventSource{Function: f, Queue: q}, time.Second)
		equal(t, 10*time.Second, time.Since(began))
		equal(t, 0, q.Len(), "and what they have done is deleted")
	})
}

// broken is a queue that cannot be reached by the calls of those numbers.
type broken struct {
	runtimeapi.Queue
	calls int
	fail  []int
}

func (b *broken) Receive(ctx context.Context, most int, wait time.Duration) ([]runtimeapi.Message, error) {
	if b.calls++; slices.Contains(b.fail, b.calls) {
		return nil, errors.New("connection refused")
	}
	return b.Queue.Receive(ctx, most, wait)
}

func TestAQueueThatCannotBeReachedIsAskedAgainAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &storetest.MemoryQueue{Visibility: time.Hour}
		send(t, q, "a")
		must(t, q.Send(t.Context(), []byte("b"), time.Second))
		f := newScript(answers(""))
		log := poll(t, runtimeapi.EventSource{Function: f, Queue: &broken{Queue: q, fail: []int{1, 2, 3, 5}}}, 10*time.Second)
		equal(t, 4, strings.Count(log, "connection refused"))
		equal(t, 2, len(f.calls))
		equal(t, 700*time.Millisecond, f.calls[0].at, "the pauses double")
		equal(t, time.Second, f.calls[1].at, "after a success they are short again")
	})
}

func TestWhatHasBeenReceivedIsDeliveredAlthoughMoreCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &storetest.MemoryQueue{Visibility: time.Hour}
		send(t, q, "a")
		f := newScript(answers(""))
		poll(t, runtimeapi.EventSource{Function: f, Queue: &broken{Queue: q, fail: []int{2}}, Window: 5 * time.Second}, 10*time.Second)
		equal(t, 1, len(f.calls))
		equal(t, 0, q.Len())
	})
}

func TestAnEventSourceThatCannotBeIsRefused(t *testing.T) {
	good := runtimeapi.EventSource{Function: newScript(nil), Queue: &storetest.MemoryQueue{}, QueueARN: queueARN}
	for name, c := range map[string]struct {
		change func(*runtimeapi.EventSource)
		want   string
	}{
		"no function":                  {func(s *runtimeapi.EventSource) { s.Function = nil }, "needs a function and a queue"},
		"no queue":                     {func(s *runtimeapi.EventSource) { s.Queue = nil }, "needs a function and a queue"},
		"a URL for an ARN":             {func(s *runtimeapi.EventSource) { s.QueueARN = "http://127.0.0.1:4566/jobs" }, "six parts"},
		"a batch too large":            {func(s *runtimeapi.EventSource) { s.BatchSize = 10_001 }, "1 to 10000"},
		"a large batch, no window":     {func(s *runtimeapi.EventSource) { s.BatchSize = 11 }, "needs a window"},
		"a window too long":            {func(s *runtimeapi.EventSource) { s.Window = 301 * time.Second }, "300 s at most"},
		"one invocation at a time":     {func(s *runtimeapi.EventSource) { s.Concurrency = 1 }, "2 to 1000"},
		"too many invocations at once": {func(s *runtimeapi.EventSource) { s.Concurrency = 1001 }, "2 to 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			s := good
			c.change(&s)
			err := s.Run(t.Context())
			check(t, err != nil, "it was not refused")
			contains(t, err.Error(), c.want)
		})
	}
}

func TestAChainOfMessagesEndsAfter16Invocations(t *testing.T) {
	for name, c := range map[string]struct {
		allow bool
		want  int
		log   string
	}{
		"as Lambda does":       {false, 16, "a recursive loop of 16 invocations"},
		"RecursiveLoop: Allow": {true, 40, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dead := &storetest.MemoryQueue{}
				q := &storetest.MemoryQueue{Visibility: 30 * time.Second, Receives: 5, Dead: dead}
				send(t, q, "hop")
				var chain *script
				chain = newScript(func(i invoked) ([]byte, error) {
					if len(chain.calls) < 40 {
						must(t, q.SendTraced(t.Context(), []byte("hop"), time.Second, i.trace))
					}
					return nil, nil
				})
				log := poll(t, runtimeapi.EventSource{Function: chain, Queue: q, AllowLoop: c.allow}, 10*time.Minute)
				equal(t, c.want, len(chain.calls))
				contains(t, log, c.log)
				equal(t, c.log == "", log == "")
				equal(t, c.log != "", dead.Len() == 1, "what is stopped goes to the dead-letter queue")
			})
		})
	}
	t.Run("one that is not part of the chain is not counted with it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			q := &storetest.MemoryQueue{Visibility: time.Hour}
			for _, trace := range []string{"", "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1;Lineage=a87bd80c:16|68fd508a:99", "Lineage=", "garbage"} {
				must(t, q.SendTraced(t.Context(), []byte("x"), 0, trace))
			}
			f := newScript(answers(""))
			poll(t, runtimeapi.EventSource{Function: f, Queue: q}, time.Second)
			equal(t, 4, len(f.calls[0].messages(t)))
		})
	})
}

func TestFaultsOfAQueueReachTheFunctionAsAskedFor(t *testing.T) {
	bodies := []string{"a", "b", "c", "d", "e", "f"}
	is := func(body string) func(runtimeapi.Message) bool {
		return func(m runtimeapi.Message) bool { return m.Body == body }
	}
	for name, c := range map[string]struct {
		fault func(*runtimeapi.FaultyQueue)
		judge func(t *testing.T, got []string, at map[string]time.Duration)
	}{
		"none": {func(*runtimeapi.FaultyQueue) {}, func(t *testing.T, got []string, _ map[string]time.Duration) { equal(t, bodies, got) }},
		"every message twice": {func(q *runtimeapi.FaultyQueue) { q.Duplicate = func(runtimeapi.Message) bool { return true } },
			func(t *testing.T, got []string, _ map[string]time.Duration) {
				equal(t, append(slices.Clone(bodies), bodies...), got)
			}},
		"one is lost": {func(q *runtimeapi.FaultyQueue) { q.Drop = is("c") },
			func(t *testing.T, got []string, _ map[string]time.Duration) {
				equal(t, []string{"a", "b", "d", "e", "f"}, got)
			}},
		"one is late": {func(q *runtimeapi.FaultyQueue) {
			q.Delay = func(m runtimeapi.Message) time.Duration {
				return map[string]time.Duration{"b": 9500 * time.Millisecond}[m.Body]
			}
		}, func(t *testing.T, got []string, at map[string]time.Duration) {
			equal(t, []string{"a", "c", "d", "e", "f", "b"}, got)
			equal(t, 9500*time.Millisecond, at["b"])
		}},
		"in another order": {func(q *runtimeapi.FaultyQueue) { q.Shuffle = rand.New(rand.NewPCG(1, 2)).Shuffle },
			func(t *testing.T, got []string, _ map[string]time.Duration) {
				check(t, !slices.Equal(bodies, got), "the order is another")
				slices.Sort(got)
				equal(t, bodies, got)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &storetest.MemoryQueue{Visibility: time.Hour}
				send(t, q, bodies...)
				faulty := &runtimeapi.FaultyQueue{Queue: q}
				c.fault(faulty)
				f := newScript(answers(""))
				poll(t, runtimeapi.EventSource{Function: f, Queue: faulty}, time.Minute)
				var got []string
				at := map[string]time.Duration{}
				for _, call := range f.calls {
					for _, body := range call.bodies(t) {
						got, at[body] = append(got, body), call.at
					}
				}
				c.judge(t, got, at)
				equal(t, 0, q.Len(), "all of them are deleted in the end")
			})
		})
	}
}

func TestKeepTraces(t *testing.T) {
	for name, c := range map[string]struct {
		target, trace, body, want string
	}{
		"a send with a trace":                         {"AmazonSQS.SendMessage", "Root=1;Lineage=x:3", `{"MessageBody":"{}"}`, `{"MessageBody":"{}","MessageAttributes":{"AWSTraceHeader":{"DataType":"String","StringValue":"Root=1;Lineage=x:3"}}}`},
		"beside attributes that the sender has named": {"AmazonSQS.SendMessage", "T", `{"MessageAttributes":{"k":{"DataType":"String","StringValue":"v"}}}`, `{"MessageAttributes":{"k":{"DataType":"String","StringValue":"v"},"AWSTraceHeader":{"DataType":"String","StringValue":"T"}}}`},
		"a send without one":                          {"AmazonSQS.SendMessage", "", `{"MessageBody":"{}"}`, `{"MessageBody":"{}"}`},
		"another call":                                {"AmazonSQS.ReceiveMessage", "T", `{"QueueUrl":"u"}`, `{"QueueUrl":"u"}`},
		"what is not a call":                          {"AmazonSQS.SendMessage", "T", `null`, `null`},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			h := runtimeapi.KeepTraces(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				must(t, err)
				equal(t, int64(len(body)), r.ContentLength)
				got = string(body)
			}))
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(c.body))
			r.Header.Set("X-Amz-Target", c.target)
			if c.trace != "" {
				r.Header.Set("X-Amzn-Trace-Id", c.trace)
			}
			h.ServeHTTP(httptest.NewRecorder(), r)
			equalJSON(t, c.want, got)
		})
	}
}

func FuzzItemFailures(f *testing.F) {
	for _, seed := range []string{"", "null", "{}", `{"batchItemFailures":[{"itemIdentifier":"a"}]}`, `{"batchItemFailures":[{"itemIdentifier":"z"}]}`, `{"batchItemFailures":[null]}`, `[`} {
		f.Add([]byte(seed))
	}
	batch := []runtimeapi.Message{{ID: "a"}, {ID: "b"}}
	f.Fuzz(func(t *testing.T, answer []byte) {
		failed, err := runtimeapi.ItemFailures(answer, batch)
		equal(t, err == nil, failed != nil, "a report is read or refused")
		for id := range failed {
			check(t, id == "a" || id == "b", "what failed is of the batch")
		}
	})
}
