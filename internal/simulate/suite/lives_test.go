package suite

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/media"
	"spillway/internal/runtimeapi"
	"spillway/internal/simulate"
	"spillway/internal/simulate/state"
)

var began = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// lived is the life of a job that went through these states, a second each.
func lived(states ...media.State) life {
	l := life{name: "job 1", id: "job_1", submits: 1, events: []string{"evt_1"}, counted: 1}
	for i, s := range states {
		l.writes = append(l.writes, jobWrite{Version: i, State: s, Event: "evt_1", At: began.Add(time.Duration(i) * time.Second)})
	}
	return l
}

func wholeLife() life {
	return lived(media.Queued, media.Submitting, media.Running, media.Running, media.Succeeded, media.Succeeded)
}

func TestAWholeLifeIsFoundToBeInOrder(t *testing.T) {
	var f Findings
	l := wholeLife()
	l.events = append(l.events, "evt_1") // told again
	l.checkWrites(&f)
	l.checkSubmits(&f)
	l.checkEvents(&f)
	l.checkCounted(false, &f)
	l.checkEnd(nil, &f)
	assert.Empty(t, f.list)
}

func TestWhatIsWrongWithALifeIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		life  life
		check func(life, *Findings)
		want  string
	}{
		"two submits": {func() life { l := wholeLife(); l.submits = 2; return l }(), life.checkSubmits,
			"job 1: the provider counts 2 submits of a job that has succeeded"},
		"a result that nobody made": {func() life { l := wholeLife(); l.submits = 0; return l }(), life.checkSubmits,
			"job 1: the provider counts 0 submits of a job that has succeeded"},
		"two submits of one that failed": {func() life { l := lived(media.Queued, media.Failed); l.submits = 2; return l }(), life.checkSubmits,
			"job 1: the provider counts 2 submits of a job that has failed"},
		"no job": {life{name: "job 1"}, life.checkWrites, "job 1: the store has no job of it"},
		"two ends": {lived(media.Queued, media.Submitting, media.Running, media.Failed, media.Expired), life.checkWrites,
			"job 1: it has ended 2 times: queued → submitting → running → failed → expired"},
		"no end": {lived(media.Queued, media.Submitting, media.Running), life.checkWrites,
			"job 1: it has ended 0 times: queued → submitting → running"},
		"an end that was taken back": {lived(media.Queued, media.Submitting, media.Running, media.Succeeded, media.Running), life.checkWrites,
			"job 1: it went from succeeded to running"},
		"a step that there is not": {lived(media.Queued, media.Running, media.Succeeded), life.checkWrites,
			"job 1: it went from queued to running"},
		"an uncertain job that was submitted again": {lived(media.Queued, media.Submitting, media.Uncertain, media.Submitting, media.Running, media.Succeeded),
			life.checkWrites, "job 1: it went from uncertain to submitting"},
		"a version that was written twice": {func() life { l := wholeLife(); l.writes[3].Version = 2; return l }(), life.checkWrites,
			"job 1: version 2 was written after version 2"},
		"another beginning": {lived(media.Submitting, media.Running, media.Succeeded), life.checkWrites, "job 1: it began as submitting"},
		"an event that changes": {func() life { l := wholeLife(); l.writes[4].Event = "evt_2"; return l }(), life.checkWrites,
			"job 1: its event was evt_1 and is evt_2"},
		"two event ids": {func() life { l := wholeLife(); l.events = []string{"evt_1", "evt_2"}; return l }(), life.checkEvents,
			`job 1: its callback was told of the event "evt_2", which is not its own`},
		"an event without an id": {func() life { l := wholeLife(); l.events = []string{""}; return l }(), life.checkEvents,
			`job 1: its callback was told of the event "", which is not its own`},
		"nobody told": {func() life { l := wholeLife(); l.events = nil; return l }(), life.checkEvents, "job 1: its callback was never told"},
		"a cost that is counted twice, in spite of kills": {func() life { l := wholeLife(); l.counted = 2; return l }(), func(l life, f *Findings) { l.checkCounted(true, f) },
			"job 1: its end was recorded 2 times"},
		"a cost that nobody counts": {func() life { l := wholeLife(); l.counted = 0; return l }(), func(l life, f *Findings) { l.checkCounted(false, f) },
			"job 1: its end was recorded 0 times"},
		"a failure without a kill": {lived(media.Queued, media.Submitting, media.Running, media.Failed), killedNever,
			"job 1: it has ended without a result and without a kill during its submit: queued → submitting → running → failed ()"},
		"an uncertain job without a kill": {lived(media.Queued, media.Submitting, media.Uncertain, media.Expired), killedNever,
			"job 1: it has ended without a result and without a kill during its submit: queued → submitting → uncertain → expired ()"},
		"a kill before the claim": {lived(media.Queued, media.Submitting, media.Uncertain, media.Expired), killedAt(-time.Second),
			"job 1: it has ended without a result and without a kill during its submit: queued → submitting → uncertain → expired ()"},
		"a kill of one that was never uncertain": {lived(media.Queued, media.Submitting, media.Running, media.Expired), killedAt(1500 * time.Millisecond),
			"job 1: it has ended without a result and without a kill during its submit: queued → submitting → running → expired ()"},
	} {
		t.Run(name, func(t *testing.T) {
			var f Findings
			c.check(c.life, &f)
			assert.Contains(t, f.list, c.want)
		})
	}
}

func killedNever(l life, f *Findings) { l.checkEnd(nil, f) }

func killedAt(after time.Duration) func(life, *Findings) {
	return func(l life, f *Findings) { l.checkEnd([]time.Time{began.Add(after)}, f) }
}

func TestAKillDuringTheSubmitExcusesAnUncertainJob(t *testing.T) {
	var f Findings
	killedAt(1500*time.Millisecond)(lived(media.Queued, media.Submitting, media.Uncertain, media.Expired), &f)
	assert.Empty(t, f.list)
}

// event is what an event source hands over.
func event(ids ...string) []byte {
	text := `{"Records":[`
	for i, id := range ids {
		if i > 0 {
			text += ","
		}
		text += `{"messageId":"` + id + `"}`
	}
	return []byte(text + "]}")
}

func TestAMessageThatWasPutAsideIsFoundUnlessItsProcessesWereKilled(t *testing.T) {
	killed := errors.New("killed")
	dead := []runtimeapi.Message{{ID: "m1", Body: `{"do":"poll"}`}}
	for name, c := range map[string]struct {
		enter func(*book)
		want  []string
	}{
		"killed each time": {func(b *book) {
			b.enter(began, event("m1", "m2"), nil, killed)
			b.enter(began, event("m1"), nil, killed)
		}, nil},
		"reported as failed once": {func(b *book) {
			b.enter(began, event("m1"), nil, killed)
			b.enter(began, event("m1", "m2"), []byte(`{"batchItemFailures":[{"itemIdentifier":"m1"}]}`), nil)
		}, []string{`a message of polls was put aside after 2 deliveries, of which 1 were cut short: {"do":"poll"}`}},
		"another's deaths do not count": {func(b *book) {
			b.enter(began, event("m2"), nil, killed)
			b.enter(began, event("m2"), nil, killed)
		}, []string{`a message of polls was put aside after 0 deliveries, of which 0 were cut short: {"do":"poll"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			var b book
			var f Findings
			c.enter(&b)
			checkDead("polls", dead, &b, 2, &f)
			assert.Equal(t, c.want, f.list)
		})
	}
	t.Run("a report is entered", func(t *testing.T) {
		var b book
		b.enter(began, event("m1", "m2"), []byte(`{"batchItemFailures":[{"itemIdentifier":"m2"}]}`), nil)
		assert.Equal(t, []delivery{{at: began}}, b.of("m1"))
		assert.Equal(t, []delivery{{at: began, failed: true}}, b.of("m2"))
		messages, deliveries, events := b.counts()
		assert.Equal(t, [3]int{2, 2, 1}, [3]int{messages, deliveries, events})
	})
}

func TestTheAnnalsHoldWhatTheStoreHasTaken(t *testing.T) {
	put := func(job, version, status string) state.Call {
		return state.Call{Operation: "PutItem", Table: "jobs", Status: 200, Body: []byte(`{"Item":{"job":{"S":"` + job + `"},"version":{"N":"` + version +
			`"},"status":{"S":"` + status + `"},"event_id":{"S":"evt_1"}}}`)}
	}
	refused, elsewhere, read := put("job_1", "1", "failed"), put("job_1", "1", "failed"), put("job_1", "1", "failed")
	refused.Status, elsewhere.Table, read.Operation = 400, "health", "GetItem"
	var a annals
	for _, c := range []state.Call{put("job_1", "1", "submitting"), put("job_1", "0", "queued"), put("job_2", "0", "queued"), refused, elsewhere, read,
		{Operation: "PutItem", Table: "jobs", Status: 200, Body: []byte("no JSON")}} {
		a.note(c, state.Arrived, "jobs")
		a.note(c, state.Applied, "jobs")
	}
	assert.Equal(t, []string{"job_1", "job_2"}, a.ids())
	all := a.of("job_1")
	require.Len(t, all, 2)
	for i := range all {
		assert.WithinDuration(t, time.Now(), all[i].At, time.Minute)
		all[i].At = time.Time{}
	}
	assert.Equal(t, []jobWrite{{Version: 0, State: media.Queued, Event: "evt_1"}, {Version: 1, State: media.Submitting, Event: "evt_1"}}, all)
}

// The example of https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md (2026-11-30).
func TestAnEventIsVerifiedAsItsReceiverDoes(t *testing.T) {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	good := simulate.Callback{ID: "msg_p5jXN8AQM9LWM0D4loKWxJek", Timestamp: "1614265330", Body: `{"test": 2432232314}`, Signature: "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}
	assert.True(t, signed(good, secret))
	for name, spoil := range map[string]func(*simulate.Callback){
		"another id":        func(c *simulate.Callback) { c.ID = "msg_2" },
		"another time":      func(c *simulate.Callback) { c.Timestamp = "1614265331" },
		"another body":      func(c *simulate.Callback) { c.Body = `{"test": 2432232315}` },
		"no signature":      func(c *simulate.Callback) { c.Signature = "" },
		"another signature": func(c *simulate.Callback) { c.Signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OF=" },
	} {
		bad := good
		spoil(&bad)
		assert.False(t, signed(bad, secret), name)
	}
	assert.False(t, signed(good, webhookSecret), "another secret")
}

func TestAnEventThatIsNotOneIsFound(t *testing.T) {
	all := []life{{id: "job_1", writes: []jobWrite{{State: media.Failed}}}}
	sign := func(body string) simulate.Callback {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(webhookSecret, "whsec_"))
		require.NoError(t, err)
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("evt_1.1." + body))
		return simulate.Callback{ID: "evt_1", Timestamp: "1", Body: body, Signature: "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))}
	}
	unsigned := sign(`{"type":"media.job.failed","data":{"id":"job_1","object":"media.job","status":"failed"}}`)
	unsigned.Signature = "v1,"
	for name, c := range map[string]struct {
		callback simulate.Callback
		want     string
	}{
		"as it is":      {sign(`{"type":"media.job.failed","data":{"id":"job_1","object":"media.job","status":"failed"}}`), ""},
		"not signed":    {unsigned, "an event is not signed with the secret of its organization"},
		"another end":   {sign(`{"type":"media.job.succeeded","data":{"id":"job_1","object":"media.job","status":"succeeded"}}`), "an event tells of a job that there is not, or not so"},
		"another job":   {sign(`{"type":"media.job.failed","data":{"id":"job_2","object":"media.job","status":"failed"}}`), "an event tells of a job that there is not, or not so"},
		"another type":  {sign(`{"type":"media.job.succeeded","data":{"id":"job_1","object":"media.job","status":"failed"}}`), "an event tells of a job that there is not, or not so"},
		"another shape": {sign(`{"type":"media.job.failed","data":{"id":"job_1","object":"video","status":"failed"}}`), "an event tells of a job that there is not, or not so"},
	} {
		t.Run(name, func(t *testing.T) {
			var f Findings
			checkCallbacks([]simulate.Callback{c.callback}, all, &f)
			if c.want == "" {
				assert.Empty(t, f.list)
				return
			}
			require.Len(t, f.list, 1)
			assert.Contains(t, f.list[0], c.want)
		})
	}
}
