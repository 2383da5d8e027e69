package suite

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"spillway/internal/simulate"
	"spillway/internal/simulate/state"
)

// crash is a moment in which the process of a request with an Idempotency-Key is killed (SIGKILL, from outside), and what it
// leaves behind: the crash table, as data.
type crash struct {
	name, at string
	// strike arranges for kill to be called in that moment.
	strike func(b *bench, kill func())
	// heard says that the client has the whole answer by then.
	heard bool
	// calls are the upstream calls that were begun by then.
	calls int
	left  remains
	// large has the provider give an answer that no record can hold; silent has its first answer not come at all.
	large, silent bool
}

// remains is what stands under the key after a crash.
type remains string

const (
	nothing    remains = ""            // the key runs anew at once
	inProgress remains = "in_progress" // until its time has run out
	completed  remains = "completed"   // the answer is replayed
)

var crashTable = []crash{
	{name: "unclaimed", at: "before the claim is written", strike: onStore(writesClaim, state.Arrived), left: nothing},
	{name: "claim unheard", at: "when the claim is written and not confirmed", strike: onStore(writesClaim, state.Applied), left: inProgress},
	{name: "claimed", at: "after the claim, before any provider has heard of the request", strike: onConnect, left: inProgress},
	{name: "called", at: "while the provider is silent", strike: onCall, calls: 1, left: inProgress, silent: true},
	{name: "answering", at: "in the middle of the provider's answer", strike: onContent, calls: 1, left: inProgress},
	{name: "answered", at: "after the last byte, before the result is written", strike: onStore(writesResult, state.Arrived), heard: true, calls: 1, left: inProgress},
	{name: "large", at: "when a large result is in the bucket and its record is not written", strike: onStore(writesObject, state.Applied), heard: true, calls: 1, left: inProgress, large: true},
	{name: "unheard", at: "when the result is written and not confirmed", strike: onStore(writesResult, state.Applied), heard: true, calls: 1, left: completed},
	{name: "large unheard", at: "when a large result is written and not confirmed", strike: onStore(writesResult, state.Applied), heard: true, calls: 1, left: completed, large: true},
}

const (
	crashTimeout = 10 * time.Second // of the function
	// freedAfter is when a key must be usable again after its request began: the deadline, which is 2.5 s before the
	// function's, and 5 s (contract §5).
	freedAfter = crashTimeout - 2500*time.Millisecond + 5*time.Second
	// asksAgain is how much later its client may come to know: Retry-After is in whole seconds.
	asksAgain = 2 * time.Second
	idemKey   = "suite-key"
	// largeAnswer is the size of an answer that does not fit a record, in characters that cannot be packed to less
	// than three quarters.
	largeAnswer = 600_000
)

// crashes are the rows of F30. A plain answer is another path to the client, so that each moment is tried for one as well.
func crashes() (rows []Row) {
	for _, c := range crashTable {
		row := Row{
			Name: "F30 " + c.name, Fault: "killed " + c.at,
			Candidates: []string{"sim-f30", "sim-ok"},
			Timeout:    crashTimeout,
			Play:       c.play,
			Lasts:      freedAfter,
			Recorded:   both,
		}
		rows = append(rows, row)
		row.Name, row.Plain, row.Recorded = row.Name+" plain", true, map[Mode]Verdict{Live: Pass}
		rows = append(rows, row)
	}
	return append(rows, Row{
		Name: "F30 late", Fault: "an owner whose result arrives when the key is another's",
		Candidates: []string{"sim-f30", "sim-ok"}, Environments: 2,
		Timeout: crashTimeout, Play: lateOwner, Lasts: freedAfter, Recorded: both,
	}, Row{
		Name: "F30 renewed", Fault: "a stream of 36 s, whose record is renewed once",
		Candidates: []string{"sim-f30", "sim-ok"}, Names: map[string]string{"sim-f30": "sim-ok"},
		Gap: 600 * time.Millisecond, Play: renewed, Lasts: 36 * time.Second, Recorded: both,
	}, Row{
		Name: "F30 store down", Fault: "a request with an Idempotency-Key while the store refuses every call",
		Candidates: []string{"sim-f30", "sim-ok"}, Names: map[string]string{"sim-f30": "sim-ok"},
		Store: StoreDown, Play: unclaimable, Recorded: both,
	})
}

func writesClaim(b *bench, c state.Call) bool {
	return c.Operation == "PutItem" && c.Table == b.state.Names.Idempotency
}

func writesResult(b *bench, c state.Call) bool {
	return c.Operation == "UpdateItem" && c.Table == b.state.Names.Idempotency && bytes.Contains(c.Body, []byte(`"completed"`))
}

func writesObject(b *bench, c state.Call) bool {
	return c.Operation == "PutObject" && c.Table == b.state.Names.Results
}

// onStore kills when a call of the store is in a moment, and cuts it off there.
func onStore(is func(*bench, state.Call) bool, at state.Moment) func(*bench, func()) {
	return func(b *bench, kill func()) {
		b.state.Watch(func(c state.Call, m state.Moment) bool {
			if m != at || !is(b, c) {
				return true
			}
			kill()
			return false
		})
	}
}

// onConnect kills when the gateway connects to the provider, before it has sent anything.
func onConnect(b *bench, kill func()) { b.gate.set(kill) }

// onCall kills when the provider has the request.
func onCall(b *bench, kill func()) {
	go func() {
		for b.provider.Count(b.row.Candidates[0]) == 0 {
			time.Sleep(time.Millisecond)
		}
		kill()
	}()
}

// onContent kills when a part of the answer has gone to the client, or would have if it were not held back.
func onContent(b *bench, kill func()) {
	onCall(b, func() { time.Sleep(100 * time.Millisecond); kill() }) // of the 300 that the answer takes
}

func (c crash) play(ctx context.Context, b *bench, f *Findings) (all []Observation) {
	primary := b.row.Candidates[0]
	b.provider.Script(primary, c.replies()...)
	defer func() { all[0].Calls = b.provider.Calls() }()

	killed, heard := make(chan struct{}), make(chan struct{})
	whole := sync.OnceFunc(func() { close(heard) })
	c.strike(b, sync.OnceFunc(func() {
		defer close(killed)
		if c.heard {
			<-heard // what is on its way to the client dies with the process
		}
		for _, e := range b.front.Environments() {
			_ = b.front.Kill(e.PID) // one that is gone by itself has failed in its own way
		}
	}))
	var o Observation
	for len(all) < 3 {
		o = b.ask(ctx, b.keyed(len(all), whole))
		all = append(all, o)
		told := storeUnavailable(o)
		if told == 0 {
			break
		}
		pause(ctx, told) // it was not claimed, so that the moment has not come
	}
	tries := len(all)
	select {
	case <-killed:
	case <-time.After(settleTime):
		f.addf("nothing was killed: the moment has not come")
		return all
	}
	b.state.Watch(nil)
	b.gate.set(nil)
	b.settle()
	c.checkClient(b, o, f)
	f.equal("upstream calls of the killed request", c.calls, b.provider.Count(primary))
	c.checkRecord(b, o.Began, f)

	again := b.untilServed(ctx, &all, o.Began, f)
	b.checkWhole(again, c.large, f)
	f.equal("Idempotent-Replayed of the next answer", c.left == completed, again.Header.Get("Idempotent-Replayed") == "true")
	calls := c.calls + 1
	if c.left == completed {
		calls = c.calls
		f.equal("the replayed body is the one that was sent", o.Body, again.Body)
	}
	f.equal("409s before it", c.left == inProgress, slices.ContainsFunc(all[tries:], func(o Observation) bool { return o.Status == http.StatusConflict }))
	b.checkReplay(ctx, &all, again, f)
	f.equal("calls", calls, b.provider.Count(primary))
	f.equal("calls of the fallback", 0, b.provider.Count(b.row.Candidates[1]))
	b.checkStored(f)
	return all
}

// replies are what the provider answers, call by call, to the killed request and to the one after it.
func (c crash) replies() []simulate.Reply {
	whole := simulate.Healthy()
	if c.large {
		whole = largeReply()
	}
	if c.silent {
		return []simulate.Reply{{Status: simulate.NoAnswer, End: simulate.Stall}, whole}
	}
	return []simulate.Reply{whole, whole}
}

// keyed is a request with the key. whole, if not nil, is called when its client has the whole answer, before that has ended,
// and at the end in any case.
func (b *bench) keyed(n int, whole func()) asked {
	return asked{id: requestID(n), header: map[string]string{"Idempotency-Key": idemKey}, limit: crashTimeout + patience, whole: whole}
}

// checkClient: a client that has not heard everything must not take what it has for the whole.
func (c crash) checkClient(b *bench, o Observation, f *Findings) {
	if c.heard {
		o.Err = nil // its connection breaks behind the last byte
		b.checkWhole(o, c.large, f)
		return
	}
	switch {
	case o.Err != nil || o.Status == http.StatusBadGateway: // visibly cut
	case o.Status == http.StatusOK:
		f.addf("the killed request ended like one that is whole: %s", cut(o.Body))
	default:
		f.addf("the killed request was answered with status %d", o.Status)
	}
}

// checkWhole holds an answer to what the provider gives.
func (b *bench) checkWhole(o Observation, large bool, f *Findings) {
	if !large {
		b.served(o, f)
		return
	}
	if o.Err != nil || o.Status != http.StatusOK {
		f.addf("%s: status %d, error %v", o.id, o.Status, o.Err)
		return
	}
	text := ""
	if b.row.Plain {
		var c completion
		if json.Unmarshal([]byte(o.Body), &c) == nil && len(c.Choices) == 1 {
			text = c.Choices[0].Message.Content
		}
	} else if s := parseStream(o.Body); s.done == 1 && s.failure == nil {
		text = s.text
	}
	if len(text) != largeAnswer {
		f.addf("%s: a text of %d characters, want %d", o.id, len(text), largeAnswer)
	}
}

// checkRecord looks at what the crash has left.
func (c crash) checkRecord(b *bench, began time.Time, f *Findings) {
	record := b.record(f)
	if record == nil {
		f.equal("what stands under the key", c.left, nothing)
		return
	}
	f.equal("what stands under the key", c.left, remains(record["status"]))
	if c.left != inProgress {
		return
	}
	until, err := strconv.ParseInt(record["in_progress_until"], 10, 64)
	if free := time.UnixMilli(until).Sub(began); err != nil || free > freedAfter+time.Second {
		f.addf("the key is in progress for %s from the request's beginning, want at most %s", free.Round(time.Millisecond), freedAfter)
	}
	for _, name := range []string{"result_status", "result_headers", "result_size", "result_object", "completed_at"} {
		if record[name] != "" {
			f.addf("a record in progress holds %s", name)
		}
	}
}

// record is the one of the key; nil: there is none.
func (b *bench) record(f *Findings) state.Item {
	items, err := b.state.Items(b.state.Names.Idempotency)
	if err != nil || len(items) > 1 {
		f.addf("%d records of one key: %v", len(items), err)
	}
	if len(items) == 0 {
		return nil
	}
	return items[0]
}

// storeUnavailable is when a client is told to come again whose request the store did not answer in time, as it happens on a
// machine that is busy; 0: it is told something else.
func storeUnavailable(o Observation) time.Duration {
	e := parseError(o.Body)
	if o.Status != http.StatusServiceUnavailable || e == nil || e.Code != "store_unavailable" {
		return 0
	}
	seconds, _ := strconv.Atoi(o.Header.Get("Retry-After"))
	return time.Duration(seconds) * time.Second
}

// untilServed repeats the request as its client does, until it is not refused any more.
func (b *bench) untilServed(ctx context.Context, all *[]Observation, began time.Time, f *Findings) Observation {
	for {
		o := b.ask(ctx, b.keyed(len(*all), nil))
		b.settle()
		*all = append(*all, o)
		late := o.Began.Sub(began) > freedAfter+asksAgain
		if late {
			f.addf("the key was not usable %s after the request, want %s", o.Began.Sub(began).Round(time.Millisecond), freedAfter)
		}
		if told := storeUnavailable(o); told > 0 && !late {
			pause(ctx, told)
			continue
		}
		if o.Status != http.StatusConflict || late || ctx.Err() != nil {
			return o
		}
		wait, err := strconv.Atoi(o.Header.Get("Retry-After"))
		if e := parseError(o.Body); err != nil || wait < 1 || wait > 5 || e == nil || e.Code != "idempotency_conflict" || e.Retryable == nil || !*e.Retryable {
			f.addf("Retry-After %q, %s", o.Header.Get("Retry-After"), cut(o.Body))
			return o
		}
		pause(ctx, time.Duration(wait)*time.Second)
	}
}

// checkReplay: one more repetition is the same answer.
func (b *bench) checkReplay(ctx context.Context, all *[]Observation, was Observation, f *Findings) {
	o := b.untilServed(ctx, all, time.Now(), f)
	f.equal("status of the replay", was.Status, o.Status)
	f.equal("Idempotent-Replayed of the replay", "true", o.Header.Get("Idempotent-Replayed"))
	f.equal("content type of the replay", was.Header.Get("Content-Type"), o.Header.Get("Content-Type"))
	if o.Err != nil || o.Body != was.Body {
		f.addf("the replay is not the answer that was sent: %d bytes, not %d: %v", len(o.Body), len(was.Body), o.Err)
	}
}

// checkStored: at the end there is a whole record.
func (b *bench) checkStored(f *Findings) {
	if record := b.record(f); record == nil || record["status"] != string(completed) || record["result_status"] != "200" {
		f.addf("what stands under the key at the end: %v", record)
	}
}

// lateOwner: the write of the first owner's result is under way for so long that the key is taken over and its request
// served anew. What it brings then is refused, and the second answer stays.
func lateOwner(ctx context.Context, b *bench, f *Findings) (all []Observation) {
	b.provider.Script(b.row.Candidates[0], simulate.Healthy(), simulate.Healthy())
	defer func() { all[0].Calls = b.provider.Calls() }()
	arrived, release, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	arrives, ends := sync.OnceFunc(func() { close(arrived) }), sync.OnceFunc(func() { close(done) })
	var mu sync.Mutex
	var owner []byte // whose writes are held, again and again if it tries so
	b.state.Watch(func(c state.Call, m state.Moment) bool {
		if !writesResult(b, c) {
			return true
		}
		mu.Lock()
		if owner == nil {
			owner = []byte(b.record(f)["owner"])
		}
		isLate := bytes.Contains(c.Body, owner)
		mu.Unlock()
		switch {
		case !isLate:
		case m == state.Arrived:
			arrives()
			<-release
		default:
			ends()
		}
		return true
	})
	releaseOnce := sync.OnceFunc(func() { close(release) })
	defer releaseOnce()
	o := b.untilServed(ctx, &all, time.Now(), f)
	b.served(o, f)
	select {
	case <-arrived:
	case <-time.After(settleTime):
		f.addf("the first owner has not written its result")
		return all
	}
	again := b.untilServed(ctx, &all, o.Began, f)
	b.served(again, f)
	before := b.record(f)
	if again.Body == o.Body {
		f.addf("the two answers cannot be told apart")
	}
	releaseOnce()
	select {
	case <-done:
	case <-time.After(settleTime):
		f.addf("the late result was not written")
	}
	f.equal("the record after the late result", before, b.record(f))
	b.checkReplay(ctx, &all, again, f)
	f.equal("calls", 2, b.provider.Count(b.row.Candidates[0]))
	b.checkStored(f)
	return all
}

// renewed: a stream's key is never in progress for longer than its lease, so that it is free 90 s after a crash at the latest,
// and never for much less while the stream goes on. It costs the store one call more for each 30 s.
func renewed(ctx context.Context, b *bench, f *Findings) (all []Observation) {
	const lease, renewal, slack = 90 * time.Second, 30 * time.Second, 3 * time.Second
	answer := make(chan Observation, 1)
	began := time.Now()
	go func() {
		a := b.keyed(0, nil)
		a.limit = time.Minute
		answer <- b.ask(ctx, a)
	}()
	for _, at := range []time.Duration{slack, renewal + slack} {
		pause(ctx, time.Until(began.Add(at)))
		record := b.record(f)
		until, _ := strconv.ParseInt(record["in_progress_until"], 10, 64)
		if left := time.Until(time.UnixMilli(until)); left > lease || left < lease-2*slack {
			f.addf("%s after the beginning the key is in progress for %s more, want %s and no more", at, left.Round(time.Millisecond), lease)
		}
	}
	o := <-answer
	b.settle()
	b.served(o, f)
	var calls []string
	for _, c := range b.state.Calls() {
		if c.Table == b.state.Names.Idempotency {
			calls = append(calls, c.Operation)
		}
	}
	f.equal("calls of the store of keys", []string{"PutItem", "UpdateItem", "UpdateItem"}, calls)
	b.checkStored(f)
	o.Calls = b.provider.Calls()
	return []Observation{o}
}

// unclaimable: without its store a request with a key is refused, which its client may repeat, and one without is served.
func unclaimable(ctx context.Context, b *bench, f *Findings) (all []Observation) {
	o := b.ask(ctx, b.keyed(0, nil))
	b.settle()
	o.checkError(f)
	refused{status: http.StatusServiceUnavailable, code: "store_unavailable", retryable: true}.check(o, f)
	f.equal("calls", 0, len(b.provider.Calls()))
	without := b.ask(ctx, asked{id: requestID(1), limit: patience})
	b.settle()
	b.served(without, f)
	o.Calls = b.provider.Calls()
	return []Observation{o, without}
}

// largeReply is a stream of largeAnswer random characters.
func largeReply() simulate.Reply {
	random := make([]byte, largeAnswer/4*3)
	_, _ = rand.Read(random) // never fails (crypto/rand)
	text := base64.StdEncoding.EncodeToString(random)
	chunk := func(choice, rest string) string {
		return `{"id":"chatcmpl-large","object":"chat.completion.chunk","created":1,"model":"sim-f30","choices":[` + choice + `]` + rest + `}`
	}
	var payloads []string
	const piece = 20_000
	for at := 0; at < len(text); at += piece {
		payloads = append(payloads, chunk(fmt.Sprintf(`{"index":0,"delta":{"content":%q},"finish_reason":null}`, text[at:at+piece]), ""))
	}
	payloads = append(payloads, chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`, ""),
		chunk("", `,"usage":{"prompt_tokens":1,"completion_tokens":60,"total_tokens":61}`), "[DONE]")
	return simulate.Events(0, simulate.Complete, payloads...)
}
