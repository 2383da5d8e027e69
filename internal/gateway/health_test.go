package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"spillway/internal/simulate"
)

// step is one request of a story, with what comes of it.
type step struct {
	// after is how long nothing happens before it.
	after time.Duration
	model string // default: fast
	a, b  []simulate.Reply
	// trace, status, and for an error its code, class and Retry-After.
	trace      string
	status     int
	code       string
	class      string
	retryAfter string
	// reason is X-LLM-Routing-Reason, transitions and alerts what the records tell of.
	reason, transitions, alerts string
}

func (o outcome) transitions() string {
	var out []string
	for _, r := range o.of("circuit_transition") {
		out = append(out, r.From+">"+r.To+":"+r.Reason)
	}
	return strings.Join(out, " ")
}

// TestStories are requests in a row over one gateway: what one learns, the next one knows.
func TestStories(t *testing.T) {
	answer, other := one(alpha.says("Hello")), one(beta.says("Hello"))
	quota := with(fails(429, "insufficient_quota", "insufficient_quota"), "Retry-After", "1")
	limited := func(seconds string) simulate.Reply {
		return with(fails(429, "requests", "rate_limit_exceeded"), "Retry-After", seconds)
	}
	for name, story := range map[string]struct {
		settings settings
		steps    []step
	}{
		"an invalid key fails at once, and then without a call, until its hold is over": {steps: []step{
			{a: one(badKey()), trace: "A", status: 502, code: "provider_error", class: "auth", alerts: "a-key:auth"},
			{after: time.Second, trace: "", status: 502, code: "provider_error", class: "auth", reason: "a:ok;b:ok"},
			{after: 5 * time.Minute, a: answer, trace: "A", status: 200},
			{a: answer, trace: "A", status: 200},
		}},
		"an invalid key falls back where the route says so, and still alerts": {settings: settings{route: `"fallback_on": ["auth"]`}, steps: []step{
			{a: one(badKey()), b: other, trace: "A B", status: 200, alerts: "a-key:auth"},
			{after: 2 * time.Minute, b: other, trace: "B", status: 200, alerts: "a-key:auth"},
		}},
		"another credential of the channel takes over from an invalid one": {settings: settings{credentials: []string{"A2"}}, steps: []step{
			{a: []simulate.Reply{badKey(), alpha.says("Hello")}, trace: "A A", status: 200, alerts: "a-key:auth"},
			{after: time.Second, a: answer, trace: "A", status: 200},
		}},
		"an empty wallet is remembered for an hour, whatever its short hint says": {steps: []step{
			{a: one(quota), trace: "A", status: 502, code: "provider_error", class: "quota", alerts: "a-key:quota"},
			{after: 59 * time.Minute, trace: "", status: 502, code: "provider_error", class: "quota", alerts: "a-key:quota"},
			{after: 2 * time.Minute, a: answer, trace: "A", status: 200},
		}},
		"a missing model is remembered for five minutes": {steps: []step{
			{a: one(fails(404, "invalid_request_error", "model_not_found")), trace: "A", status: 502, code: "provider_error", class: "model_unavailable", alerts: "a-key:model_unavailable"},
			{after: time.Minute, trace: "", status: 502, code: "provider_error", class: "model_unavailable", alerts: "a-key:model_unavailable"},
			{after: 5 * time.Minute, a: answer, trace: "A", status: 200},
		}},
		"a long hint skips the credential until it has passed": {steps: []step{
			{a: one(limited("30")), b: other, trace: "A B", status: 200},
			{after: 10 * time.Second, b: other, trace: "B", status: 200, reason: "a:throttled;b:ok"},
			{after: 21 * time.Second, a: answer, trace: "A", status: 200},
		}},
		"when every credential is throttled the client is told when to come back (B17 b)": {steps: []step{
			{a: one(limited("7")), b: one(limited("20")), trace: "A B", status: 429, code: "provider_rate_limited", class: "rate_limited", retryAfter: "7"},
			{trace: "", status: 429, code: "all_credentials_rate_limited", class: "rate_limited", retryAfter: "7", reason: "a:throttled;b:throttled"},
		}},
		"three failures open the circuit, a probe closes it again": {steps: []step{
			{a: twice(unavailable()), b: other, trace: "A 200ms A B", status: 200},
			{a: one(unavailable()), b: other, trace: "A B", status: 200, transitions: "closed>open:failure_rate"},
			{after: time.Second, b: other, trace: "B", status: 200, reason: "a:open;b:ok"},
			{after: 35 * time.Second, a: answer, trace: "A", status: 200, transitions: "open>half_open:probe_due"},
			{a: answer, trace: "A", status: 200, transitions: "half_open>closed:probes_succeeded"},
			{a: answer, trace: "A", status: 200},
		}},
		"a probe that fails is not repeated, and the client gets the fallback": {steps: []step{
			{a: twice(unavailable()), b: other, trace: "A 200ms A B", status: 200},
			{a: one(unavailable()), b: other, trace: "A B", status: 200, transitions: "closed>open:failure_rate"},
			{after: 35 * time.Second, a: one(unavailable()), b: other, trace: "A B", status: 200, transitions: "open>half_open:probe_due half_open>open:probe_failed"},
			{after: 31 * time.Second, b: other, trace: "B", status: 200, reason: "a:open;b:ok"},
		}},
		"one failure never empties a route (B17 c)": {steps: []step{
			{model: "alone", a: one(fails(500, "server_error", "")), trace: "A", status: 503, code: "provider_unavailable", class: "server_error", retryAfter: "2"},
			{model: "alone", a: answer, trace: "A", status: 200},
		}},
		"callers' mistakes open nothing (B16)": {steps: []step{
			{a: one(fails(400, "invalid_request_error", "")), trace: "A", status: 502, code: "provider_error", class: "invalid_request"},
			{a: one(fails(400, "invalid_request_error", "")), trace: "A", status: 502, code: "provider_error", class: "invalid_request"},
			{a: one(fails(400, "invalid_request_error", "")), trace: "A", status: 502, code: "provider_error", class: "invalid_request"},
			{a: answer, trace: "A", status: 200},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, story.settings, func(t *testing.T, w *world) {
				for i, s := range story.steps {
					time.Sleep(s.after) // the bubble's clock
					w.play(t, fmt.Sprintf("step %d", i+1), s)
				}
			})
		})
	}
}

// play makes one request of a story and judges it.
func (w *world) play(t *testing.T, where string, s step) {
	t.Helper()
	w.provider.Script("a-1", s.a...)
	w.provider.Script("b-9", s.b...)
	model := s.model
	if model == "" {
		model = "fast"
	}
	o := w.do(t, request{body: `{"model":"` + model + `","stream":true,"messages":[{"role":"user","content":"` + prompt + `"}]}`})
	require.Equal(t, s.trace, trace(o.calls), where)
	require.Equal(t, s.status, o.status, where)
	assert.Equal(t, s.transitions, o.transitions(), where)
	assert.Equal(t, s.alerts, o.alerts(), where)
	if s.reason != "" {
		assert.Equal(t, s.reason, o.header.Get("X-LLM-Routing-Reason"), where)
	}
	checkRecords(t, o)
	if s.status == 200 {
		assert.Equal(t, "Hello", o.text(t), where)
		return
	}
	checkError(t, o, true)
	e := gjson.Get(o.body, "error")
	assert.Equal(t, s.code, e.Get("code").Str, where)
	assert.Equal(t, s.class, e.Get("class").Str, where)
	assert.Equal(t, s.retryAfter, o.header.Get("Retry-After"), where)
}

// TestOneTenantsIncidentKeepsOffAnothersFallback is contract §3.7: a route that falls back twice a request pays for it
// until its share is gone; another route still has its own.
func TestOneTenantsIncidentKeepsOffAnothersFallback(t *testing.T) {
	tooLarge := simulate.Error(429, "tokens", "rate_limit_exceeded", "Request too large on tokens per min (TPM): Limit 30000, Requested 37313.")
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		ask := func(model, wants string, c []simulate.Reply) outcome {
			w.provider.Script("a-1", tooLarge)
			if strings.Contains(wants, "B") {
				w.provider.Script("b-9", tooLarge)
			}
			w.provider.Script("c-5", c...)
			o := w.do(t, request{body: `{"model":"` + model + `","messages":[{"role":"user","content":"` + prompt + `"}]}`})
			require.Equal(t, wants, trace(o.calls))
			return o
		}
		for range 9 {
			require.Equal(t, 200, ask("three", "A B C", one(gamma.says("Hello"))).status)
		}
		o := ask("three", "A B", nil)
		checkError(t, o, true)
		require.Equal(t, 503, o.status)
		assert.Equal(t, "fallback_share_exhausted", gjson.Get(o.body, "error.code").Str)
		assert.Equal(t, "true", o.header.Get("X-Should-Retry"))
		assert.Equal(t, 429, ask("fast", "A B", nil).status, "the other route still falls back")
	})
}
