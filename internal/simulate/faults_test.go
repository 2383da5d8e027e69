package simulate_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"spillway/internal/simulate"
)

// expectation of one call. Text is what a stream delivered, or a plain answer's
// content; an empty one is checked too.
type expectation struct {
	status  int
	code    string // of the error envelope: its code, else its type
	err     error
	text    string
	done    bool // "[DONE]" arrived
	bad     int  // malformed events
	total   time.Duration
	outcome string
	header  string // "Name: value" that must be there
}

const (
	whole     = 300 * time.Millisecond // 60 tokens, 5 ms apart
	answered  = simulate.OutcomeComplete
	allTokens = 60
)

// good is the healthy answer to a stream.
var good = expectation{status: 200, text: prefix(allTokens), done: true, total: whole, outcome: answered}

// goodPlain is the healthy answer to a plain call.
var goodPlain = expectation{status: 200, text: prefix(allTokens), total: whole, outcome: answered}

func refused(status int, code string) expectation {
	return expectation{status: status, code: code, outcome: answered}
}

func (e expectation) with(header string) expectation { e.header = header; return e }

func TestFaults(t *testing.T) {
	cases := map[string]struct {
		model string
		more  string
		calls []expectation
	}{
		"f01 throttles once with a hint": {"sim-f01", streaming, []expectation{
			refused(429, "rate_limit_exceeded").with("Retry-After: 2"), good, refused(429, "rate_limit_exceeded"), good}},
		"f02 throttles for ever without a hint": {"sim-f02", streaming, []expectation{
			refused(429, "rate_limit_exceeded").with("Retry-After: "), refused(429, "rate_limit_exceeded")}},
		"f03 fails once, streaming": {"sim-f03", streaming, []expectation{refused(500, "server_error"), good}},
		"f03 fails once, plain":     {"sim-f03", "", []expectation{refused(500, "server_error"), goodPlain}},
		"f04 is unavailable":        {"sim-f04", "", []expectation{refused(503, "server_error"), refused(503, "server_error")}},
		"f05 resets once":           {"sim-f05", "", []expectation{{err: io.EOF, outcome: simulate.OutcomeReset}, goodPlain}},
		"f07 is late with the first token, streaming": {"sim-f07", streaming, []expectation{
			{status: 200, text: prefix(60), done: true, total: 20*time.Second + 59*5*time.Millisecond, outcome: answered}}},
		"f07 is late with the body, plain": {"sim-f07", "", []expectation{
			{status: 200, text: prefix(60), total: 20 * time.Second, outcome: answered}}},
		"f08 is cut after 40 tokens": {"sim-f08", streaming, []expectation{
			{status: 200, err: io.ErrUnexpectedEOF, text: prefix(40), total: 200 * time.Millisecond, outcome: simulate.OutcomeCut}}},
		"f08 is cut in the body, plain": {"sim-f08", "", []expectation{
			{status: 200, err: io.ErrUnexpectedEOF, outcome: simulate.OutcomeCut}}},
		"f09 is silent after 20 tokens": {"sim-f09", streaming, []expectation{
			{status: 200, text: prefix(60), done: true, total: 30*time.Second + 59*5*time.Millisecond, outcome: answered}}},
		"f09 is silent in the body, plain": {"sim-f09", "", []expectation{
			{status: 200, text: prefix(60), total: 30 * time.Second, outcome: answered}}},
		"f10 has one malformed chunk and loses no token": {"sim-f10", streaming, []expectation{
			{status: 200, text: prefix(60), done: true, bad: 1, total: whole, outcome: answered}}},
		"f11 has no end, streaming": {"sim-f11", streaming, []expectation{
			{status: 200, text: prefix(60), err: io.ErrUnexpectedEOF, total: whole + 30*time.Second, outcome: simulate.OutcomeStalled}}},
		"f11 has no end, plain": {"sim-f11", "", []expectation{
			{status: 200, text: prefix(60), err: io.ErrUnexpectedEOF, total: 30 * time.Second, outcome: simulate.OutcomeStalled}}},
		"f12 is too long":           {"sim-f12", streaming, []expectation{refused(400, "context_length_exceeded")}},
		"f13 is against the policy": {"sim-f13", streaming, []expectation{refused(400, "content_policy_violation")}},
		"f14 is cut after 40 tokens": {"sim-f14", streaming, []expectation{
			{status: 200, err: io.ErrUnexpectedEOF, text: prefix(40), total: 200 * time.Millisecond, outcome: simulate.OutcomeCut}}},
		"f16 is overloaded for ever": {"sim-f16", "", []expectation{refused(503, "server_is_overloaded"), refused(503, "server_is_overloaded")}},
		"f17 fails inside the stream": {"sim-f17", streaming, []expectation{
			{status: 200, code: "server_is_overloaded", outcome: answered}}},
		"f17 fails inside the 200, plain": {"sim-f17", "", []expectation{refused(200, "server_is_overloaded")}},
		"f18 takes its four kinds in turn": {"sim-f18", "", []expectation{
			refused(200, "server_error"),
			{status: 200, outcome: answered},
			{status: 200, outcome: answered, header: "Content-Type: text/html; charset=utf-8"},
			{status: 200, outcome: answered, header: "Content-Type: application/json"},
			refused(200, "server_error")}},
		"f18a is an error, streaming":  {"sim-f18a", streaming, []expectation{refused(200, "server_error").with("Content-Type: application/json")}},
		"f18b has no choices":          {"sim-f18b", streaming, []expectation{{status: 200, done: true, outcome: answered}}},
		"f18c is HTML":                 {"sim-f18c", streaming, []expectation{{status: 200, outcome: answered, header: "Content-Type: text/html; charset=utf-8"}}},
		"f18d is empty":                {"sim-f18d", streaming, []expectation{{status: 200, outcome: answered, header: "Content-Type: text/event-stream; charset=utf-8"}}},
		"f19 has no quota":             {"sim-f19", streaming, []expectation{refused(429, "insufficient_quota").with("Retry-After: 1")}},
		"f22 is no JSON":               {"sim-f22", "", []expectation{{status: 200, text: `{"answer": "spillway", "level":`, outcome: answered, total: 3 * 5 * time.Millisecond}}},
		"f23a is overloaded":           {"sim-f23a", streaming, []expectation{refused(503, "server_is_overloaded")}},
		"f23b is a proxy's page":       {"sim-f23b", streaming, []expectation{{status: 502, outcome: answered, header: "Content-Type: text/html; charset=utf-8"}}},
		"f23c throttles without hint":  {"sim-f23c", streaming, []expectation{refused(429, "rate_limit_exceeded").with("Retry-After: ")}},
		"f24 is slow to fail":          {"sim-f24", streaming, []expectation{{status: 503, code: "server_error", total: 6 * time.Second, outcome: answered}}},
		"f31 throttles with long hint": {"sim-f31", streaming, []expectation{refused(429, "rate_limit_exceeded").with("Retry-After: 30")}},
		"f32 is cut before content":    {"sim-f32", streaming, []expectation{{status: 200, err: io.ErrUnexpectedEOF, outcome: simulate.OutcomeCut}}},
		"f32 is cut before the body":   {"sim-f32", "", []expectation{{status: 200, err: io.ErrUnexpectedEOF, outcome: simulate.OutcomeCut}}},
		"f34 is overloaded for ever":   {"sim-f34", streaming, []expectation{refused(503, "server_is_overloaded")}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, u upstream) {
				for i, want := range c.calls {
					want.check(t, i+1, u.post(t.Context(), ask(c.model, c.more)))
					synctest.Wait()
					same(t, "outcome", want.outcome, u.Calls()[i].Outcome)
					same(t, "logged status", want.status, u.Calls()[i].Status)
				}
				same(t, "calls", len(c.calls), u.Count(c.model))
			})
		})
	}
}

func (e expectation) check(t *testing.T, n int, a answer) {
	t.Helper()
	t.Logf("call %d: %d, %v, %q", n, a.status, a.err, a.body)
	fails(t, e.err, a.err)
	same(t, "status", e.status, a.status)
	same(t, "error code", e.code, a.errorCode())
	same(t, "text", e.text, a.content())
	same(t, "[DONE]", e.done, strings.HasSuffix(a.body, "data: [DONE]\n\n"))
	_, bad := a.chunks()
	same(t, "malformed events", e.bad, bad)
	same(t, "time", e.total, a.total)
	if name, value, ok := strings.Cut(e.header, ": "); ok {
		same(t, name, value, a.header.Get(name))
	}
}

// errorCode of a plain envelope or of an event inside a stream.
func (a answer) errorCode() string {
	var plain chunk
	_ = json.Unmarshal([]byte(a.body), &plain)
	all, _ := a.chunks()
	for _, c := range append(all, plain) {
		switch {
		case c.Error == nil:
		case c.Error.Code != nil:
			return *c.Error.Code
		default:
			return c.Error.Type
		}
	}
	return ""
}

// content is the text of a stream or of a plain answer.
func (a answer) content() string {
	var plain chunk
	if json.Unmarshal([]byte(a.body), &plain) == nil && len(plain.Choices) > 0 && plain.Choices[0].Message.Content != nil {
		return *plain.Choices[0].Message.Content
	}
	return a.text()
}

// Three faults never end by themselves: the client has to leave, and the log
// says so.
func TestSilentFaultsWaitForTheClientToLeave(t *testing.T) {
	cases := map[string]struct {
		model, more string
		status      int // what the client saw
		half        bool
	}{
		"f06 never answers":                    {model: "sim-f06", more: streaming},
		"f33a stalls in the headers":           {model: "sim-f33a"},
		"f33b stalls in the body, plain":       {model: "sim-f33b", status: 200, half: true},
		"f33b stalls in the body, streaming":   {model: "sim-f33b", more: streaming, status: 200},
		"f09 is left in the middle of silence": {model: "sim-f09", more: streaming, status: 200},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, u upstream) {
				ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
				defer cancel()
				a := u.post(ctx, ask(c.model, c.more))
				fails(t, context.DeadlineExceeded, a.err)
				same(t, "status", c.status, a.status)
				if c.half {
					same(t, "half a body", false, json.Valid([]byte(a.body)))
					same(t, "announced length", 2*len(a.body), int(a.length)&^1)
				}
				synctest.Wait()
				call := u.Calls()[0]
				same(t, "outcome", simulate.OutcomeClientGone, call.Outcome)
				same(t, "call lasted", 8*time.Second, call.Ended.Sub(call.At))
			})
		})
	}
}

func TestCloseEndsASilence(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		answered := make(chan answer, 1)
		go func() { answered <- u.post(t.Context(), ask("sim-f06", "")) }()
		synctest.Wait()
		same(t, "calls", 1, len(u.Calls()))
		ok(t, u.Close())
		fails(t, io.EOF, (<-answered).err)
		same(t, "outcome", simulate.OutcomeClosed, u.Calls()[0].Outcome)
	})
}

func TestDownForAMinuteFromTheFirstCallOn(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		status := func() int { return u.post(t.Context(), ask("sim-f15", "")).status }
		time.Sleep(time.Hour)
		same(t, "first call", 503, status())
		time.Sleep(59 * time.Second)
		same(t, "after 59 s", 503, status())
		time.Sleep(time.Second)
		same(t, "after 60 s", 200, status())
		same(t, "later", 200, status())
		u.Reset()
		same(t, "after a reset", 503, status())
	})
}

func TestAModelMayHaveAnotherName(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		a := u.post(t.Context(), ask("gpt-4o", streaming))
		fails(t, io.ErrUnexpectedEOF, a.err)
		same(t, "text", prefix(40), a.text())
		all, _ := a.chunks()
		same(t, "model in the answer", "gpt-4o", all[0].Model)
		same(t, "logged model", "gpt-4o", u.Calls()[0].Model)
		same(t, "unexpected", nil, u.Unexpected())
	}, simulate.Named("gpt-4o", "sim-f08"))
}

func TestPrefillIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		same(t, "user last", 200, u.post(t.Context(), ask("sim-noprefill", "")).status)
		a := u.post(t.Context(), `{"model":"sim-noprefill","messages":[{"role":"user","content":"x"},{"role":"assistant","content":"When"}]}`)
		same(t, "assistant last", 400, a.status)
		same(t, "code", "invalid_request_error", a.errorCode())
	})
}

func TestInvalidKeyInGeminisShape(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		a := u.post(t.Context(), ask("sim-f20", streaming))
		same(t, "status", 400, a.status)
		var got struct {
			Error struct {
				Code    int
				Status  string
				Details []struct{ Reason string }
			}
		}
		ok(t, json.Unmarshal([]byte(a.body), &got))
		same(t, "code", 400, got.Error.Code)
		same(t, "status", "INVALID_ARGUMENT", got.Error.Status)
		same(t, "reason", "API_KEY_INVALID", got.Error.Details[0].Reason)
	})
}

func TestCutInsideAToolCall(t *testing.T) {
	for name, more := range map[string]string{"streaming": streaming, "plain": ""} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, u upstream) {
				a := u.post(t.Context(), ask("sim-f21", more))
				fails(t, io.ErrUnexpectedEOF, a.err)
				if more == "" {
					same(t, "valid", false, json.Valid([]byte(a.body)))
					return
				}
				name, arguments := a.toolCall()
				same(t, "tool", "get_weather", name)
				same(t, "arguments", `{"city":"Lisb`[:12], arguments)
			})
		})
	}
}

// toolCall joins the fragments of the call of choice 0.
func (a answer) toolCall() (name, arguments string) {
	all, _ := a.chunks()
	for _, c := range all {
		for _, ch := range c.Choices {
			for _, call := range ch.Delta.ToolCalls {
				if ch.Index == 0 {
					name += call.Function.Name
					arguments += call.Function.Arguments
				}
			}
		}
	}
	return name, arguments
}

func TestStructuredOutputIsBrokenInTwoWays(t *testing.T) {
	const format = `,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}}}`
	inBubble(t, func(t *testing.T, u upstream) {
		first := u.post(t.Context(), ask("sim-f22", format+streaming)).content()
		same(t, "first is JSON", false, json.Valid([]byte(first)))
		second := u.post(t.Context(), ask("sim-f22", format)).content()
		var array []string
		ok(t, json.Unmarshal([]byte(second), &array)) // JSON, but no object
		same(t, "third is JSON", false, json.Valid([]byte(u.post(t.Context(), ask("sim-f22", format)).content())))
	})
}

func TestControlPaths(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		u.post(t.Context(), ask("sim-ok", ""), "X-LLM-Extra", "1")
		u.post(t.Context(), ask("sim-f04", streaming))

		var log []map[string]any
		ok(t, json.Unmarshal([]byte(u.get(t, http.MethodGet, "/_sim/log")), &log))
		same(t, "calls", 2, len(log))
		same(t, "model", any("sim-ok"), log[0]["model"])
		same(t, "body", any(ask("sim-ok", "")), log[0]["body"])
		same(t, "stream", any(true), log[1]["stream"])
		same(t, "status", any(503.0), log[1]["status"])
		headers := log[0]["headers"].(map[string]any)
		same(t, "header", any("1"), headers["x-llm-extra"])
		same(t, "digest of the key", any("0062d6e1c6b2"), headers["authorization"])

		same(t, "counts", `{"sim-f04":1,"sim-ok":1}`, u.get(t, http.MethodGet, "/_sim/counts"))
		same(t, "reset", `{"reset":true}`, u.get(t, http.MethodPost, "/_sim/reset"))
		same(t, "counts", `{}`, u.get(t, http.MethodGet, "/_sim/counts"))
		same(t, "log", `[]`, u.get(t, http.MethodGet, "/_sim/log"))
	})
}

func (u upstream) get(t *testing.T, method, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://provider"+path, nil)
	ok(t, err)
	resp, err := u.client.Do(req)
	ok(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	ok(t, err)
	same(t, "status", 200, resp.StatusCode)
	return string(body)
}

func TestEveryModelIsListedAndAnswersOrFails(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		var list struct{ Data []struct{ ID string } }
		ok(t, json.Unmarshal([]byte(u.get(t, http.MethodGet, "/v1/models")), &list))
		for _, m := range list.Data {
			for _, more := range []string{"", streaming} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				a := u.post(ctx, ask(m.ID, more))
				cancel()
				if a.status == 404 {
					t.Errorf("%s is listed and unknown", m.ID)
				}
			}
		}
		same(t, "unexpected", nil, u.Unexpected())
		for _, n := range []string{"01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20", "21", "22", "23", "24", "31", "32", "33", "34"} {
			if u.Count("sim-f"+n) == 0 {
				t.Errorf("sim-f%s is not listed", n)
			}
		}
	})
}
