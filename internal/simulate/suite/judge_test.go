package suite

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"spillway/internal/simulate"
)

// row is one that falls back after two calls.
var row = Row{
	Name:       "F00",
	Candidates: []string{"sim-bad", "sim-ok"},
	Calls:      []string{"sim-bad", "sim-bad", "sim-ok"},
	Classes:    []string{"overloaded", "overloaded"},
	Recorded:   map[Mode]Verdict{Live: Pass},
}

// flawless is what that row should leave behind.
func flawless() Observation {
	body := streamOf(simulate.Tokens()...) + finish + usageEvent + "data: [DONE]\n\n"
	return Observation{
		Status: 200,
		Header: headers("text/event-stream", map[string]string{
			"X-LLM-Provider": "backup", "X-LLM-Model": "sim-ok", "X-LLM-Fallback": "true", "X-LLM-Attempts": "3",
			"X-LLM-Provider-Request-Id": simulate.RequestID(3),
			"Cache-Control":             "no-cache, no-transform", "X-Accel-Buffering": "no",
		}),
		Body:    body,
		Elapsed: time.Second,
		Calls:   []simulate.Call{call(1, "sim-bad"), call(2, "sim-bad"), call(3, "sim-ok")},
		Records: []Record{
			{"msg": "attempt_finished", "class": "overloaded"},
			{"msg": "attempt_finished", "class": "overloaded"},
			{"msg": "attempt_finished", "class": ""},
			{"msg": "request_finished"},
		},
	}
}

const (
	finish     = `data: {"object":"chat.completion.chunk","model":"sim-ok","choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	usageEvent = `data: {"object":"chat.completion.chunk","model":"sim-ok","choices":[],"usage":{"completion_tokens":60}}` + "\n\n"
	errorEvent = `data: {"error":{"message":"cut","type":"upstream_error","param":null,"code":"provider_disconnect",` +
		`"provider":"primary","class":"network","retry_safe":true,"partial":true}}` + "\n\n"
	errorBody = `{"error":{"message":"m","type":"api_error","param":null,"code":"provider_unavailable","retryable":true,"request_id":"r"}}`
)

func streamOf(tokens ...string) string {
	var b strings.Builder
	for _, token := range tokens {
		delta, _ := json.Marshal(token)
		fmt.Fprintf(&b, `data: {"object":"chat.completion.chunk","model":"sim-ok","choices":[{"delta":{"content":%s},"finish_reason":null}]}`+"\n\n", delta)
	}
	return b.String()
}

func headers(media string, more map[string]string) http.Header {
	h := http.Header{}
	for name, value := range map[string]string{
		"Content-Type": media, "X-Request-Id": requestID, "X-LLM-Route": routeAlias, "X-LLM-Credential-Fallback": "false",
		"X-LLM-Policy-Version": "1", "X-LLM-Routing-Reason": "a:ok",
	} {
		h.Set(name, value)
	}
	for name, value := range more {
		h.Set(name, value)
	}
	return h
}

func call(n int, model string) simulate.Call {
	return simulate.Call{N: n, Model: model, Outcome: simulate.OutcomeComplete, At: time.Unix(int64(n), 0),
		Body: []byte(`{"model":"` + model + `","stream":true,"stream_options":{"include_usage":true},"messages":` + messages + `}`)}
}

func TestFlawlessRowPasses(t *testing.T) {
	v, why := row.verdict(Live, flawless())
	if v != Pass || len(why) > 0 {
		t.Errorf("got %s: %q", v, why)
	}
}

// Each case spoils one thing of a flawless observation; the judge has to name it.
func TestWhatFails(t *testing.T) {
	cases := map[string]struct {
		spoil func(*Observation)
		why   string // part of a finding
	}{
		"a truncated answer that looks whole": {func(o *Observation) {
			o.Body = streamOf(simulate.Tokens()[:40]...) + finish + usageEvent + "data: [DONE]\n\n"
		}, "text: 40 words, not the 60 of the answer"},
		"an end mark alone after a break": {func(o *Observation) {
			o.Body = streamOf(simulate.Tokens()[:40]...) + "data: [DONE]\n\n"
		}, "finish reasons: got []"},
		"no end mark":         {func(o *Observation) { o.Body = strings.TrimSuffix(o.Body, "data: [DONE]\n\n") }, "0 end marks"},
		"an unfinished event": {func(o *Observation) { o.Body = strings.TrimSuffix(o.Body, "\n") }, "the last event has no end"},
		"no usage":            {func(o *Observation) { o.Body = strings.Replace(o.Body, usageEvent, "", 1) }, "0 usage chunks"},
		"usage twice":         {func(o *Observation) { o.Body = strings.Replace(o.Body, usageEvent, usageEvent+usageEvent, 1) }, "2 usage chunks"},
		"two finishes":        {func(o *Observation) { o.Body = strings.Replace(o.Body, finish, finish+finish, 1) }, "finish reasons"},
		"a null error member": {func(o *Observation) {
			o.Body = strings.Replace(o.Body, `{"object"`, `{"error":null,"object"`, 1)
		}, "an ordinary chunk with an error member"},
		"an event after the end": {func(o *Observation) { o.Body += finish }, "an event after the end"},
		"a malformed event":      {func(o *Observation) { o.Body = "data: {\"ob\n\n" + o.Body }, "an event that is no JSON"},
		"a hang":                 {func(o *Observation) { o.Err = http.ErrHandlerTimeout }, "could not be read to its end"},
		"slowness":               {func(o *Observation) { o.Elapsed = time.Minute }, "took 1m0s, may take 10s"},
		"a call too many":        {func(o *Observation) { o.Calls = append(o.Calls, call(4, "sim-ok")) }, "calls: got"},
		"a call too few":         {func(o *Observation) { o.Calls = o.Calls[1:] }, "calls: got"},
		"a prefill": {func(o *Observation) {
			o.Calls[2].Body = []byte(`{"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"assistant","content":"When"}]}`)
		}, "call 3: messages"},
		"an upstream call without usage": {func(o *Observation) {
			o.Calls[0].Body = []byte(`{"stream":true,"messages":` + messages + `}`)
		}, "call 1: upstream was not asked to stream with usage"},
		"an upstream idempotency key": {func(o *Observation) { o.Calls[0].Headers = map[string]string{"idempotency-key": "x"} }, "Idempotency-Key went upstream"},
		"a wrong provider":            {func(o *Observation) { o.Header.Set("X-LLM-Provider", "primary") }, "X-LLM-Provider: got primary, want backup"},
		"no routing reason":           {func(o *Observation) { o.Header.Del("X-LLM-Routing-Reason") }, "no X-LLM-Routing-Reason"},
		"a wrong class":               {func(o *Observation) { o.Records[1]["class"] = "unknown" }, "classes: got"},
		"an attempt not recorded":     {func(o *Observation) { o.Records = o.Records[1:] }, "attempt_finished records: got 2, want 3"},
		"a request not recorded":      {func(o *Observation) { o.Records = o.Records[:3] }, "request_finished records: got 0, want 1"},
		"a leaked prompt":             {func(o *Observation) { o.Records[3]["x"] = prompt }, "holds the key or the prompt"},
		"another text type":           {func(o *Observation) { o.Header.Set("Content-Type", "text/html") }, "content type"},
		"no cache control":            {func(o *Observation) { o.Header.Del("Cache-Control") }, "Cache-Control: got"},
		"a clean error is a drop from the recorded pass": {func(o *Observation) {
			o.Body = streamOf(simulate.Tokens()[:40]...) + errorEvent + "data: [DONE]\n\n"
		}, "safe, but the table records pass"},
		"an error event that is not typed": {func(o *Observation) {
			o.Body = streamOf("When") + `data: {"error":{"message":"m","type":"upstream_error","code":"provider_disconnect"}}` + "\n\ndata: [DONE]\n\n"
		}, "the error event lacks a member"},
		"a finish invented before an error event": {func(o *Observation) {
			o.Body = streamOf("When") + finish + errorEvent + "data: [DONE]\n\n"
		}, "was invented before the error event"},
		"a status without the contract's error": {func(o *Observation) { o.Status, o.Body = 502, "<html>" }, "status 502 without the contract's error"},
		"an error without Retry-After": {func(o *Observation) {
			o.Status, o.Body, o.Header = 503, errorBody, headers("application/json", map[string]string{"X-Should-Retry": "true"})
		}, "status 503 without Retry-After"},
		"an error that contradicts its header": {func(o *Observation) {
			o.Status, o.Body, o.Header = 502, errorBody, headers("application/json", map[string]string{"X-Should-Retry": "false"})
		}, "x-should-retry: got false, want true"},
		"an error that names a host": {func(o *Observation) {
			o.Status, o.Body = 502, strings.Replace(errorBody, `"m"`, `"dial 127.0.0.1:4000"`, 1)
		}, "gives away an address"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := flawless()
			c.spoil(&o)
			v, why := row.verdict(Live, o)
			if v != Fail {
				t.Errorf("verdict %s, want FAIL", v)
			}
			if !slices.ContainsFunc(why, func(w string) bool { return strings.Contains(w, c.why) }) {
				t.Errorf("reasons %q do not say %q", why, c.why)
			}
		})
	}
}

func TestCleanErrorIsSafeWhereTheTableSaysSo(t *testing.T) {
	r := Row{Name: "F08", Candidates: []string{"sim-f08", "sim-ok"}, Calls: []string{"sim-f08"}, Classes: []string{"network"},
		Conduct: brokenOffAfter(40, "provider_disconnect", "network"), Recorded: map[Mode]Verdict{Live: Safe}}
	o := flawless()
	o.Body = streamOf(simulate.Tokens()[:40]...) + errorEvent + "data: [DONE]\n\n"
	o.Calls, o.Records = []simulate.Call{call(1, "sim-f08")}, []Record{{"msg": "attempt_finished", "class": "network"}, {"msg": "request_finished"}}
	for name, value := range map[string]string{"X-LLM-Provider": "primary", "X-LLM-Model": "sim-f08", "X-LLM-Fallback": "false",
		"X-LLM-Attempts": "1", "X-LLM-Provider-Request-Id": simulate.RequestID(1)} {
		o.Header.Set(name, value)
	}
	if v, why := r.verdict(Live, o); v != Safe {
		t.Errorf("got %s, want safe: %q", v, why)
	}
	o.Body = streamOf(simulate.Tokens()[:39]...) + errorEvent + "data: [DONE]\n\n"
	if v, _ := r.verdict(Live, o); v != Fail {
		t.Errorf("got %s for a lost token, want FAIL", v)
	}
}

func TestWaitsAreMeasuredAtTheProvider(t *testing.T) {
	for name, c := range map[string]struct {
		second time.Duration
		fails  bool
	}{
		"too early": {1999 * time.Millisecond, true},
		"in time":   {2 * time.Second, false},
		"too late":  {3001 * time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := Observation{Calls: []simulate.Call{{At: time.Unix(0, 0)}, {At: time.Unix(0, 0).Add(c.second)}}}
			var f Findings
			waits(2*time.Second, 3*time.Second)(o, &f)
			if failed := len(f.list) > 0; failed != c.fails {
				t.Errorf("findings %q", f.list)
			}
		})
	}
}

// The table must be runnable and must not demand the impossible.
func TestRowsAreComplete(t *testing.T) {
	names := map[string]bool{}
	for _, r := range Rows {
		t.Run(r.Name, func(t *testing.T) {
			if names[r.Name] {
				t.Error("the name stands twice")
			}
			names[r.Name] = true
			if r.Fault == "" || len(r.Recorded) == 0 || len(r.Candidates) < 2 || len(r.Calls) == 0 {
				t.Error("a fault, candidates, calls and a recorded verdict are required")
			}
			for _, model := range r.Calls {
				if !slices.Contains(r.Candidates, model) {
					t.Errorf("%s is called and no candidate", model)
				}
			}
			for mode, v := range r.Recorded {
				if v == Fail {
					t.Errorf("%s records a failure", mode)
				}
			}
			if !json.Valid(r.configuration()) || !json.Valid([]byte(r.request())) {
				t.Error("its configuration or request is no JSON")
			}
		})
	}
}

func TestReport(t *testing.T) {
	done := make(chan struct{})
	close(done)
	var out strings.Builder
	ok := report([]*trial{
		{row: row, mode: Live, verdict: Pass, observation: flawless(), done: done},
		{row: row, mode: Complete, verdict: Safe, done: done},
		{row: row, mode: Live, verdict: Fail, why: []string{"calls: got 1, want 2"}, done: done},
	}, &out)
	if ok {
		t.Error("a failed row must fail the run")
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{
		"row verdict calls",
		"F00 live pass 2 1 1.00 overloaded",
		"F00 complete safe 0 0 0.00",
		"F00 live FAIL 0 0 0.00",
		"calls: got 1, want 2",
		"faults: 3 rows, 1 pass, 1 safe, 1 failed",
	}
	for i, line := range lines[1:] {
		if got := strings.Join(strings.Fields(line), " "); got != want[i+1] {
			t.Errorf("line %d: got %q, want %q", i+1, got, want[i+1])
		}
	}
	if strings.Count(out.String(), "FAIL") != 1 {
		t.Errorf("FAIL belongs on failing rows only:\n%s", out.String())
	}
}

func TestPlan(t *testing.T) {
	names := func(only ...string) string {
		trials, err := plan(only)
		if err != nil {
			return err.Error()
		}
		var out []string
		for _, trial := range trials {
			out = append(out, trial.row.Name)
		}
		return strings.Join(out, ",")
	}
	for want, got := range map[string]string{
		"F03 stream,F03 plain":    names("F03"),
		"F03 plain,F08":           names("F08", "F03 plain"),
		"no row is named F99, F0": names("F03", "F99", "F0"),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if all, _ := plan(nil); len(all) < len(Rows) {
		t.Errorf("%d trials for %d rows", len(all), len(Rows))
	}
}
