package suite

import (
	"encoding/json"
	"fmt"
	"mime"
	"reflect"
	"slices"
	"strings"
	"time"

	"spillway/internal/simulate"
)

// Findings are the reasons why a row fails. The zero value has none.
type Findings struct{ list []string }

func (f *Findings) addf(format string, args ...any) {
	if why := fmt.Sprintf(format, args...); !slices.Contains(f.list, why) {
		f.list = append(f.list, why)
	}
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

// verdict of a row that a Play has judged.
func (f *Findings) verdict() (Verdict, []string) {
	if len(f.list) > 0 {
		return Fail, f.list
	}
	return Pass, nil
}

// verdict judges what was observed of a row in a mode, one observation a step. A
// row is as good as its worst step.
func (r Row) verdict(mode Mode, all []Observation) (Verdict, []string) {
	var f Findings
	steps := r.steps(mode)
	f.equal("requests", len(steps), len(all))
	v := Pass
	for i := range min(len(steps), len(all)) {
		var own Findings
		if one := r.judge(steps[i], requestID(i), all[i], &own); one.rank() < v.rank() {
			v = one
		}
		for _, why := range own.list {
			if len(steps) > 1 {
				why = fmt.Sprintf("request %d: %s", i+1, why)
			}
			f.list = append(f.list, why)
		}
	}
	if r.Conduct != nil {
		r.Conduct(all, &f)
	}
	if recorded := r.Recorded[mode]; v.rank() < recorded.rank() {
		f.addf("%s, but the table records %s", v, recorded)
	}
	if len(f.list) > 0 {
		return Fail, f.list
	}
	return v, nil
}

// judge holds one request to its step.
func (r Row) judge(s Step, id string, o Observation, f *Findings) Verdict {
	if s.Unplanned {
		s.Calls, s.Classes = o.called(), o.classes()
	}
	outcome := r.outcome(o, f)
	r.checkCalls(s, o, f)
	r.checkHeaders(s, id, o, f)
	checkRecords(s, o, f)
	if o.Elapsed > s.within() {
		f.addf("took %s, may take %s", o.Elapsed.Round(time.Millisecond), s.within())
	}
	if s.Conduct != nil {
		s.Conduct(o, f)
	}
	switch {
	case outcome == s.right():
		return Pass
	case outcome == CleanError:
		return Safe
	case outcome == Whole:
		f.addf("the client has an answer where an error is right")
	}
	return Fail
}

// outcome says what the client is left with, and why that is broken if it is.
func (r Row) outcome(o Observation, f *Findings) Outcome {
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
	case r.Plain:
		out = Whole
		r.checkPlain(o, f)
	default:
		out = r.checkStream(o, f)
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

func (r Row) checkPlain(o Observation, f *Findings) {
	o.checkMedia("application/json", f)
	var c completion
	if err := json.Unmarshal([]byte(o.Body), &c); err != nil || len(c.Choices) != 1 {
		f.addf("no completion: %s", cut(o.Body))
		return
	}
	f.equal("object", "chat.completion", c.Object)
	choice := c.Choices[0]
	a := answer{text: choice.Message.Content, calls: choice.Message.ToolCalls, finishes: []string{choice.FinishReason}}
	if c.Usage != nil {
		a.usages = append(a.usages, *c.Usage)
	}
	r.checkAnswer(a, f)
}

// checkStream tells a whole stream from one that ends in an error event, and
// finds what is wrong with either.
func (r Row) checkStream(o Observation, f *Findings) Outcome {
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
	r.checkAnswer(s.answer, f)
	return Whole
}

// checkAnswer holds a whole answer to what the healthy provider gives.
func (r Row) checkAnswer(a answer, f *Findings) {
	tokens, finish := len(simulate.Tokens()), "stop"
	switch {
	case r.Tool:
		tokens, finish = toolTokens, "tool_calls"
		f.equal("text beside the call", "", a.text)
		a.checkCall(f)
	case r.Schema:
		tokens = schemaTokens
		f.equal("structured answer", schemaAnswer, a.text)
		f.equal("tool calls", 0, len(a.calls))
	default:
		f.text(tokens, a.text)
		f.equal("tool calls", 0, len(a.calls))
	}
	f.equal("finish reasons", []string{finish}, a.finishes)
	if len(a.usages) != 1 {
		f.addf("%d times usage, once is right", len(a.usages))
		return
	}
	f.equal("completion tokens", tokens, a.usages[0].Completion)
}

func (a answer) checkCall(f *Findings) {
	if len(a.calls) != 1 {
		f.addf("%d tool calls, one was asked for", len(a.calls))
		return
	}
	c := a.calls[0]
	if c.ID == "" {
		f.addf("the tool call has no id")
	}
	f.equal("tool", toolName, c.Function.Name)
	f.equal("arguments", toolArguments, c.Function.Arguments)
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

// checkCalls compares the upstream calls with the step's, and holds each to what
// is true of every upstream call.
func (r Row) checkCalls(s Step, o Observation, f *Findings) {
	f.equal("calls", s.Calls, o.called())
	for _, c := range o.Calls {
		if format := formatOf(c.Model); format == chat {
			r.checkChatCall(c, f)
		} else {
			r.checkOtherCall(c, format, f)
		}
		if c.Headers["idempotency-key"] != "" {
			f.addf("call %d: an Idempotency-Key went upstream", c.N)
		}
	}
}

// checkChatCall holds a call in the client's own format to the client's words.
func (r Row) checkChatCall(c simulate.Call, f *Findings) {
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
		return
	}
	f.equal(fmt.Sprintf("call %d: messages", c.N), r.messages(), string(body.Messages))
	if streams := r.streams(c.Model); body.Stream != streams || body.StreamOptions.Usage != streams {
		f.addf("call %d: upstream was asked with stream %t and usage %t, want %t", c.N, body.Stream, body.StreamOptions.Usage, streams)
	}
	if body.Models != nil || body.Fallback != nil {
		f.addf("call %d: the gateway's own members went upstream", c.N)
	}
}

// checkOtherCall holds a call in another format to the little that is the same in all
// of them. That it is a right one the simulated provider judges, strictly.
func (r Row) checkOtherCall(c simulate.Call, format format, f *Findings) {
	if !strings.HasPrefix(c.Path, format.path) {
		f.addf("call %d: went to %s, want %s", c.N, c.Path, format.path)
	}
	f.equal(fmt.Sprintf("call %d: streams", c.N), r.streams(c.Model), c.Stream)
	f.equal(fmt.Sprintf("call %d: times the question was put", c.N), 1, strings.Count(string(c.Body), r.question()))
}

// checkHeaders holds the response to contract §1.
func (r Row) checkHeaders(s Step, id string, o Observation, f *Findings) {
	last := r.lastTried(s)
	want := map[string]string{
		"X-Request-Id":              id,
		"X-LLM-Route":               routeAlias,
		"X-LLM-Provider":            r.provider(last),
		"X-LLM-Attempts":            itoa(len(s.Calls)),
		"X-LLM-Credential-Fallback": "false",
	}
	if s.right() == Whole {
		want["X-LLM-Model"] = last
		want["X-LLM-Fallback"] = fmt.Sprint(last != r.Candidates[0])
	}
	for name, value := range want {
		f.equal(name, value, o.Header.Get(name))
	}
	for _, name := range []string{"X-LLM-Policy-Version", "X-LLM-Routing-Reason"} {
		if o.Header.Get(name) == "" {
			f.addf("no %s", name)
		}
	}
	if s.right() == Whole && len(o.Calls) > 0 {
		f.equal("X-LLM-Provider-Request-Id", simulate.RequestID(o.Calls[len(o.Calls)-1].N), o.Header.Get("X-LLM-Provider-Request-Id"))
	}
}

// checkRecords compares the gateway's own account with what happened.
func checkRecords(s Step, o Observation, f *Findings) {
	f.equal("attempt_finished records", len(o.Calls), len(o.attempts()))
	if len(s.Classes) > 0 || len(o.classes()) > 0 {
		f.equal("classes", s.Classes, o.classes())
	}
	for _, record := range o.Records {
		line, _ := json.Marshal(record) // it was decoded from JSON
		if strings.Contains(string(line), upstreamKey) || strings.Contains(string(line), prompt) || strings.Contains(string(line), toolPrompt) {
			f.addf("a %q record holds the key or the prompt", record.kind())
		}
	}
	f.equal("request_finished records", 1, len(o.recorded("request_finished")))
}
