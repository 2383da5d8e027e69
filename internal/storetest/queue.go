package storetest

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/runtimeapi"
)

// Sender is the sending end of a queue, whose contract is the suite Queue.
type Sender interface {
	Send(ctx context.Context, body []byte, delay time.Duration) error
}

// Ends are both ends of a queue of a test's own, and the queue that takes what was received QueueReceives times in vain.
type Ends struct {
	Sender Sender
	Queue  runtimeapi.Queue
	Dead   runtimeapi.Queue
}

const (
	// QueueVisibility is the visibility timeout of the suite's queues.
	QueueVisibility = 2 * time.Second
	// QueueReceives is the maxReceiveCount of the suite's queues.
	QueueReceives = 2
)

// queueWait is a wait for what must come: longer than any delay of the suite.
const queueWait = 5 * time.Second

// Queue runs what every queue must do. within calls its function with a queue of its own.
func Queue(t *testing.T, within func(t *testing.T, test func(*testing.T, Ends))) {
	for name, test := range map[string]func(*testing.T, Ends){
		"what was sent is delivered as it was, with its id and the number of this delivery": delivered,
		"a message is not delivered before its delay, of which a part of a second counts":   delayed,
		"a delay over 900 s is refused and nothing is sent":                                 refused,
		"a body that is empty, too long or not text is refused and nothing is sent":         notText,
		"nothing for as long as asked is no error":                                          nothing,
		"no more is received than asked for, and nothing twice while it is hidden":          most,
		"B39: what is not deleted comes again, so a message may be received twice":          again,
		"what is deleted does not come again, and deleting it again is no error":            deleted,
		"what was received in vain too often goes to the dead-letter queue":                 dead,
	} {
		t.Run(name, func(t *testing.T) { within(t, test) })
	}
}

func delivered(t *testing.T, q Ends) {
	const body = "{\"job\":\"job_1\",\"seq\":7,\"über\":\"<&>\\n\"}\n"
	before := time.Now()
	require.NoError(t, q.Sender.Send(t.Context(), []byte(body), 0))
	m := one(t, q.Queue)
	assert.Equal(t, body, m.Body)
	assert.NotEmpty(t, m.ID)
	assert.NotEmpty(t, m.ReceiptHandle)
	assert.Equal(t, "1", m.Attributes["ApproximateReceiveCount"])
	for _, name := range []string{"SentTimestamp", "ApproximateFirstReceiveTimestamp"} {
		at, err := strconv.ParseInt(m.Attributes[name], 10, 64)
		require.NoError(t, err, name)
		assert.WithinDuration(t, before, time.UnixMilli(at), queueWait, name)
	}
}

func delayed(t *testing.T, q Ends) {
	const delay = 1500 * time.Millisecond
	before := time.Now()
	require.NoError(t, q.Sender.Send(t.Context(), []byte("later"), delay))
	none(t, q.Queue, time.Second)
	assert.Equal(t, "later", one(t, q.Queue).Body)
	assert.GreaterOrEqual(t, time.Since(before), delay)
}

func refused(t *testing.T, q Ends) {
	for _, delay := range []time.Duration{901 * time.Second, 900*time.Second + 1, time.Duration(1<<63 - 1)} {
		assert.Error(t, q.Sender.Send(t.Context(), []byte("too late"), delay), delay)
	}
	require.NoError(t, q.Sender.Send(t.Context(), []byte("just in time"), 900*time.Second))
	require.NoError(t, q.Sender.Send(t.Context(), []byte("at once"), -time.Second))
	assert.Equal(t, "at once", one(t, q.Queue).Body)
	none(t, q.Queue, time.Second)
}

func notText(t *testing.T, q Ends) {
	for _, body := range []string{"", "\xff", strings.Repeat("x", 256<<10+1)} {
		assert.Error(t, q.Sender.Send(t.Context(), []byte(body), 0), "%d bytes", len(body))
	}
	none(t, q.Queue, time.Second)
	long := strings.Repeat("x", 256<<10)
	require.NoError(t, q.Sender.Send(t.Context(), []byte(long), 0))
	assert.Len(t, one(t, q.Queue).Body, len(long))
}

func nothing(t *testing.T, q Ends) { none(t, q.Queue, time.Second) }

func most(t *testing.T, q Ends) {
	for _, body := range []string{"a", "b", "c"} {
		require.NoError(t, q.Sender.Send(t.Context(), []byte(body), 0))
	}
	got := map[string]int{}
	for len(got) < 3 {
		all, err := q.Queue.Receive(t.Context(), 2, queueWait)
		require.NoError(t, err)
		require.NotEmpty(t, all, "after %v", got)
		require.LessOrEqual(t, len(all), 2)
		for _, m := range all {
			got[m.Body]++
		}
	}
	assert.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1}, got)
}

func again(t *testing.T, q Ends) {
	require.NoError(t, q.Sender.Send(t.Context(), []byte("twice"), 0))
	first := one(t, q.Queue)
	second := one(t, q.Queue)
	assert.Equal(t, first.ID, second.ID)
	assert.Equal(t, "twice", second.Body)
	assert.Equal(t, "2", second.Attributes["ApproximateReceiveCount"])
}

func deleted(t *testing.T, q Ends) {
	require.NoError(t, q.Sender.Send(t.Context(), []byte("once"), 0))
	m := one(t, q.Queue)
	require.NoError(t, q.Queue.Delete(t.Context(), []string{m.ReceiptHandle}))
	require.NoError(t, q.Queue.Delete(t.Context(), []string{m.ReceiptHandle}))
	none(t, q.Queue, QueueVisibility+time.Second)
}

func dead(t *testing.T, q Ends) {
	require.NoError(t, q.Sender.Send(t.Context(), []byte("poison"), 0))
	id := one(t, q.Queue).ID
	for range QueueReceives - 1 {
		one(t, q.Queue)
	}
	none(t, q.Queue, QueueVisibility+time.Second)
	m := one(t, q.Dead)
	assert.Equal(t, "poison", m.Body)
	assert.Equal(t, id, m.ID)
}

// one receives the one message that is there or is going to be. It asks in turns: a queue need not notice what becomes
// visible while a call waits (the embedded emulator does not).
func one(t *testing.T, q runtimeapi.Queue) runtimeapi.Message {
	t.Helper()
	for end := time.Now().Add(queueWait); time.Now().Before(end); {
		all, err := q.Receive(t.Context(), 10, time.Second)
		require.NoError(t, err)
		if len(all) > 0 {
			require.Len(t, all, 1)
			return all[0]
		}
	}
	require.Fail(t, "no message came", "within %v", queueWait)
	return runtimeapi.Message{}
}

// none makes sure that nothing comes for so long.
func none(t *testing.T, q runtimeapi.Queue, wait time.Duration) {
	t.Helper()
	for end := time.Now().Add(wait); time.Now().Before(end); {
		all, err := q.Receive(t.Context(), 10, time.Second)
		require.NoError(t, err)
		require.Empty(t, all)
	}
}
