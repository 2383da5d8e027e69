package suite

import (
	"encoding/json"
	"fmt"
	"mime"
	"reflect"
	"strings"
	"time"

	"spillway/internal/simulate"
)

// Findings are the reasons why a row fails. The zero value has none.
type Findings struct{ list []string }

func (f *Findings) addf(format string, args ...any) {
	f.list = append(f.list, fmt.Sprintf(format, args...))
}

func (f *Findings) equal(what string, want, got any) {
	if !reflect.DeepEqual(want, got) {
		f.addf("%s: got %v, want %v", what, got, want)
	}
}

// text compares with the first n tokens of the answer.
func (f *Findings) text(n int, got string) {
	if got != strings.Join(simulate.Tokens()[:n], "") {
		f.addf("text: %d words, not the %d of the answer: %q", len(strings.Fields(got)), n, cut(got))
	}
}

// verdict judges what was observed of a row in a mode.
func (r Row) verdict(mode Mode, o Observation) (Verdict, []string) {
	var f Findings
	outcome := o.outcome(r.Plain, &f)
	r.checkCalls(o, &f)
	r.checkHeaders(o, &f)
	r.checkRecords(o, &f)
	if o.Elapsed > r.within() {
		f.addf("took %s, may take %s", o.Elapsed.Round(time.Millisecond), r.within())
	}
	if r.Conduct != nil {
		r.Conduct(o, &f)
	}
	v := Fail
	switch {
	case outcome == r.right():
		v = Pass
	case outcome == CleanError:
		v = Safe
	case outcome == Whole:
		f.addf("the client has an answer where an error is right")
	}
	if recorded := r.Recorded[mode]; v.rank() < recorded.rank() {
		f.addf("%s, but the table records %s", v, recorded)
	}
	if len(f.list) > 0 {
		return Fail, f.list
	}
	return v, nil
}

// outcome says what the client is left with, and why that is broken if it is.
func (o Observation) outcome(plain bool, f *Findings) Outcome {
	before := len(f.list)
	var out Outcome
	switch {
	case o.Err != nil:
		f.addf("the answer could not be read to its end: %v", o.Err)
	case o.Status >= 400:
		out = CleanError
		o.checkError(f)
	case o.Status != 200:
		f.addf("status %d", o.Status)
	case plain:
		out = Whole
		o.checkPlain(f)
	default:
		out = o.checkStream(f)
	}
	if len(f.list) > before {
		return Broken
	}
	return out
}

func (o Observation) checkMedia(want string, f *Findings) {
	media, _, err := mime.ParseMediaType(o.Header.Get("Content-Type"))
	if err != nil || media != want {
		f.addf("content type %q, want %s", o.Header.Get("Content-Type"), want)
	}
}

// checkError holds a status ≥ 400 to contract §2.
func (o Observation) checkError(f *Findings) {
	o.checkMedia("application/json", f)
	e := parseError(o.Body)
	if e == nil {
		f.addf("status %d without the contract's error: %s", o.Status, cut(o.Body))
		return
	}
	if len(o.Body) > 2048 {
		f.addf("an error of %d bytes", len(o.Body))
	}
	if strings.Contains(o.Body, "127.0.0.1") || strings.Contains(o.Body, "<") || strings.Contains(o.Body, upstreamKey) {
		f.addf("the error gives away an address, markup or a key: %s", cut(o.Body))
	}
	if e.Message == "" || e.Type == "" || e.Code == "" || e.Retryable == nil || e.RequestID == "" {
		f.addf("the error lacks a member: %s", cut(o.Body))
		return
	}
	f.equal("x-should-retry", fmt.Sprint(*e.Retryable), o.Header.Get("X-Should-Retry"))
	if (o.Status == 429 || o.Status == 503) && o.Header.Get("Retry-After") == "" {
		f.addf("status %d without Retry-After", o.Status)
	}
}

func (o Observation) checkPlain(f *Findings) {
	o.checkMedia("application/json", f)
	var c completion
	if err := json.Unmarshal([]byte(o.Body), &c); err != nil || len(c.Choices) != 1 {
		f.addf("no completion: %s", cut(o.Body))
		return
	}
	f.equal("object", "chat.completion", c.Object)
	f.text(len(simulate.Tokens()), c.Choices[0].Message.Content)
	f.equal("finish reason", "stop", c.Choices[0].FinishReason)
	if c.Usage == nil {
		f.addf("no usage")
		return
	}
	f.equal("completion tokens", len(simulate.Tokens()), c.Usage.Completion)
}

// checkStream tells a whole stream from one that ends in an error event, and
// finds what is wrong with either.
func (o Observation) checkStream(f *Findings) Outcome {
	o.checkMedia("text/event-stream", f)
	f.equal("Cache-Control", "no-cache, no-transform", o.Header.Get("Cache-Control"))
	f.equal("X-Accel-Buffering", "no", o.Header.Get("X-Accel-Buffering"))
	s := parseStream(o.Body)
	f.list = append(f.list, s.problems...)
	if s.done != 1 {
		f.addf("%d end marks", s.done)
	}
	if s.failure != nil {
		s.checkFailure(f)
		return CleanError
	}
	f.text(len(simulate.Tokens()), s.text)
	f.equal("finish reasons", []string{"stop"}, s.finishes)
	if len(s.usages) != 1 {
		f.addf("%d usage chunks, one was asked for", len(s.usages))
		return Whole
	}
	f.equal("completion tokens", len(simulate.Tokens()), s.usages[0].Completion)
	return Whole
}

func (s stream) checkFailure(f *Findings) {
	e := s.failure
	f.equal("error event: type", "upstream_error", e.Type)
	if e.Message == "" || e.Code == "" || e.Class == "" || e.RetrySafe == nil {
		f.addf("the error event lacks a member: %+v", *e)
	}
	if e.Partial == nil || !*e.Partial {
		f.addf("the error event does not say that the answer is partial")
	}
	if len(s.finishes) > 0 {
		f.addf("finish reason %v was invented before the error event", s.finishes)
	}
}

// checkCalls compares the upstream calls with the row's, and holds each to what
// is true of every upstream call.
func (r Row) checkCalls(o Observation, f *Findings) {
	f.equal("calls", r.Calls, o.called())
	for _, c := range o.Calls {
		var body struct {
			Messages      json.RawMessage
			Models        json.RawMessage
			Fallback      json.RawMessage `json:"fallback_models"`
			Stream        bool
			StreamOptions struct {
				Usage bool `json:"include_usage"`
			} `json:"stream_options"`
		}
		if err := json.Unmarshal(c.Body, &body); err != nil {
			f.addf("call %d: a body that is no JSON: %v", c.N, err)
			continue
		}
		f.equal(fmt.Sprintf("call %d: messages", c.N), messages, string(body.Messages))
		if !body.Stream || !body.StreamOptions.Usage {
			f.addf("call %d: upstream was not asked to stream with usage", c.N)
		}
		if body.Models != nil || body.Fallback != nil {
			f.addf("call %d: the gateway's own members went upstream", c.N)
		}
		if c.Headers["idempotency-key"] != "" {
			f.addf("call %d: an Idempotency-Key went upstream", c.N)
		}
	}
}

// checkHeaders holds the response to contract §1.
func (r Row) checkHeaders(o Observation, f *Findings) {
	fallback := r.answeredBy() != r.Candidates[0]
	want := map[string]string{
		"X-Request-Id":              requestID,
		"X-LLM-Route":               routeAlias,
		"X-LLM-Provider":            r.provider(r.answeredBy()),
		"X-LLM-Attempts":            itoa(len(r.Calls)),
		"X-LLM-Credential-Fallback": "false",
	}
	if r.right() == Whole {
		want["X-LLM-Model"] = r.answeredBy()
		want["X-LLM-Fallback"] = fmt.Sprint(fallback)
	}
	for name, value := range want {
		f.equal(name, value, o.Header.Get(name))
	}
	for _, name := range []string{"X-LLM-Policy-Version", "X-LLM-Routing-Reason"} {
		if o.Header.Get(name) == "" {
			f.addf("no %s", name)
		}
	}
	if r.right() == Whole && len(o.Calls) > 0 {
		last := o.Calls[len(o.Calls)-1]
		f.equal("X-LLM-Provider-Request-Id", simulate.RequestID(last.N), o.Header.Get("X-LLM-Provider-Request-Id"))
	}
}

// checkRecords compares the gateway's own account with what happened.
func (r Row) checkRecords(o Observation, f *Findings) {
	f.equal("attempt_finished records", len(o.Calls), len(o.attempts()))
	if want := r.Classes; len(want) > 0 || len(o.classes()) > 0 {
		f.equal("classes", want, o.classes())
	}
	finished := 0
	for _, record := range o.Records {
		if record.kind() == "request_finished" {
			finished++
		}
		line, _ := json.Marshal(record) // it was decoded from JSON
		if strings.Contains(string(line), upstreamKey) || strings.Contains(string(line), prompt) {
			f.addf("a %q record holds the key or the prompt", record.kind())
		}
	}
	f.equal("request_finished records", 1, finished)
}
