package gateway_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"spillway/internal/fault"
	"spillway/internal/simulate"
)

// classRow is one class of policy.md §3: what happens with a fallback at hand, and what the client gets without one.
type classRow struct {
	reply simulate.Reply
	// with is the trace where B is healthy, alone that of a route without another candidate.
	with, alone string
	// n is how often A is called in each.
	nWith, nAlone int
	// status, code, retry and after are the final answer without another candidate.
	status int
	code   string
	retry  bool
	after  string
	alert  bool
	// store makes the work unsafe to repeat; leaves makes the client go away.
	more   string
	leaves departure
	// deadline is the platform's.
	deadline time.Duration
}

// TestClasses walks the class table: action, delay, number of attempts, alert, and the final answer; that no record and
// no answer tells more than it may is checked for every row.
func TestClasses(t *testing.T) {
	const retried, alone = "A 200ms A B", "A 200ms A"
	refused := func(code string) simulate.Reply { return fails(400, "invalid_request_error", code) }
	rows := map[fault.Class]classRow{
		fault.RateLimited: {reply: fails(429, "requests", "rate_limit_exceeded"), with: retried, nWith: 2, alone: alone, nAlone: 2,
			status: 429, code: "provider_rate_limited", retry: true, after: "2"},
		fault.Overloaded:  {reply: overloaded(), with: retried, nWith: 2, alone: alone, nAlone: 2, status: 503, code: "provider_unavailable", retry: true, after: "2"},
		fault.ServerError: {reply: unavailable(), with: retried, nWith: 2, alone: alone, nAlone: 2, status: 503, code: "provider_unavailable", retry: true, after: "2"},
		fault.Network:     {reply: noAnswer(), with: retried, nWith: 2, alone: alone, nAlone: 2, status: 503, code: "provider_unavailable", retry: true, after: "2"},
		fault.Timeout:     {reply: fails(504, "server_error", ""), with: "A 200ms A B", nWith: 2, alone: alone, nAlone: 2, status: 504, code: "provider_timeout", retry: true},
		fault.Conflict:    {reply: fails(409, "", ""), with: retried, nWith: 2, alone: alone, nAlone: 2, status: 503, code: "provider_unavailable", retry: true, after: "2"},
		fault.TooEarly:    {reply: fails(425, "", ""), with: retried, nWith: 2, alone: alone, nAlone: 2, status: 503, code: "provider_unavailable", retry: true, after: "2"},
		fault.BadResponse: {reply: body(`{"choices":[]}`), with: retried, nWith: 2, alone: alone, nAlone: 2, status: 502, code: "provider_error", retry: true},
		fault.Auth:        {reply: badKey(), with: "A", nWith: 1, alone: "A", nAlone: 1, status: 502, code: "provider_error", alert: true},
		fault.Quota:       {reply: fails(402, "", ""), with: "A", nWith: 1, alone: "A", nAlone: 1, status: 502, code: "provider_error", alert: true},
		fault.ModelUnavailable: {reply: fails(404, "invalid_request_error", "model_not_found"), with: "A", nWith: 1, alone: "A", nAlone: 1,
			status: 502, code: "provider_error", alert: true},
		fault.ContextLength:        {reply: refused("context_length_exceeded"), with: "A", nWith: 1, alone: "A", nAlone: 1, status: 502, code: "provider_error"},
		fault.ContentPolicy:        {reply: refused("content_policy_violation"), with: "A", nWith: 1, alone: "A", nAlone: 1, status: 502, code: "provider_error"},
		fault.UnsupportedParameter: {reply: refused("unsupported_parameter"), with: "A", nWith: 1, alone: "A", nAlone: 1, status: 502, code: "provider_error"},
		fault.InvalidRequest:       {reply: refused("invalid_value"), with: "A", nWith: 1, alone: "A", nAlone: 1, status: 502, code: "provider_error"},
		fault.RequestExceedsLimit: {reply: simulate.Error(429, "tokens", "rate_limit_exceeded",
			"Request too large for a-1 on tokens per min (TPM): Limit 30000, Requested 37313."), with: "A B", nWith: 1, alone: "A", nAlone: 1,
			status: 429, code: "provider_rate_limited"},
		fault.Deadline: {reply: silence(), with: "A", nWith: 1, alone: "A", nAlone: 1, deadline: 900 * time.Millisecond, status: 504, code: "provider_timeout", retry: true},
		fault.Unknown:  {reply: fails(307, "", ""), with: "A", nWith: 1, alone: "A", nAlone: 1, status: 502, code: "provider_error", alert: true},
	}
	// Classes that another issue's features bring about.
	later := map[fault.Class]string{fault.ContractViolation: "a schema that is checked", fault.GenerationFailed: "media",
		fault.Cancelled: "nobody sees an answer; see TestAClientThatLeaves"}
	for _, name := range fault.ClassNames() {
		class := fault.Class(name)
		r, ok := rows[class]
		if !ok {
			assert.Contains(t, later, class, "the class has no row")
			continue
		}
		t.Run(name+" with a fallback", func(t *testing.T) { r.run(t, class, "fast", r.with, r.nWith, true) })
		t.Run(name+" alone", func(t *testing.T) { r.run(t, class, "alone", r.alone, r.nAlone, false) })
	}
}

func (c classRow) run(t *testing.T, class fault.Class, model, wants string, n int, fallback bool) {
	falls := fallback && wants[len(wants)-1] == 'B'
	r := row{model: model, more: c.more, leaves: c.leaves, deadline: c.deadline, trace: wants, quotes: true}
	for range n {
		r.a = append(r.a, c.reply)
		if r.classes += string(class); len(r.a) < n {
			r.classes += " "
		}
	}
	if falls {
		r.b, r.classes, r.text = one(beta.says("ok")), r.classes+" ok", "ok"
	} else {
		r.status, r.code, r.class, r.provider = c.status, c.code, string(class), "alpha"
		r.headers = map[string]string{"X-Should-Retry": "false", "Retry-After": c.after}
		if c.retry {
			r.headers["X-Should-Retry"] = "true"
		}
	}
	alerts := ""
	if c.alert {
		alerts = "a-key:" + string(class)
	}
	r.check = func(t *testing.T, o outcome) { assert.Equal(t, alerts, o.alerts()) }
	run(t, map[string]row{"": r})
}
