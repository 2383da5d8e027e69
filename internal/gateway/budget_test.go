package gateway_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"spillway/internal/simulate"
)

// TestOneRetryOwnerOneDeadline is B12, and the limits of contract §3.4 to §3.6.
func TestOneRetryOwnerOneDeadline(t *testing.T) {
	within := func(ms string) http.Header { return header("X-LLM-Timeout-Ms", ms) }
	// noUpstreamAfter holds that no call goes on after the client's time.
	noUpstreamAfter := func(limit time.Duration) func(*testing.T, outcome) {
		return func(t *testing.T, o outcome) {
			for i, c := range o.calls {
				assert.LessOrEqual(t, c.ended, limit, "end of call %d", i+1)
			}
		}
	}
	run(t, join(both(map[string]row{
		"an error without end is called twice a candidate and no more (F04)": {
			a: twice(unavailable()), b: twice(unavailable()), trace: "A 200ms A B 200ms B",
			classes: "server_error server_error server_error server_error",
			status:  503, code: "provider_unavailable", class: "server_error", provider: "beta", returned: 400 * time.Millisecond,
		},
		"three candidates get 2 + 1 + 1 calls (F23)": {
			model: "three", a: twice(overloaded()), b: one(fails(502, "server_error", "")), c: one(fails(429, "requests", "rate_limit_exceeded")),
			trace: "A 200ms A B C", classes: "overloaded overloaded server_error rate_limited",
			status: 429, code: "provider_rate_limited", class: "rate_limited", provider: "gamma",
		},
		"no wait into a certain end: too little time for a retry (B12 b)": {
			model: "alone", header: within("1000"), settings: settings{route: `"min_useful_ms": 900`}, a: one(unavailable()),
			trace: "A", classes: "server_error", status: 503, code: "provider_unavailable", class: "server_error", provider: "alpha",
			check: func(t *testing.T, o outcome) { assert.Zero(t, o.returned, "time until the end") },
		},
		"a hint that does not fit the time is not waited for (B12 b)": {
			model: "alone", header: within("3000"), a: one(with(unavailable(), "Retry-After", "2.5")),
			trace: "A", classes: "server_error", status: 503, code: "provider_unavailable", class: "server_error", provider: "alpha",
			check: func(t *testing.T, o outcome) { assert.Zero(t, o.returned, "time until the end") },
		},
		"a provider that hangs until the deadline (B12 c)": {
			model: "alone", header: within("1000"), a: one(silence()), trace: "A", classes: "deadline",
			status: 504, code: "provider_timeout", class: "deadline", provider: "alpha", returned: time.Second,
			check: noUpstreamAfter(time.Second),
		},
		"the limit of an attempt is not the deadline (B12 d)": {
			model: "alone", header: within("5000"), settings: settings{a: `"first_content_ms": 300`},
			a: []simulate.Reply{silence(), alpha.says("A")}, trace: "A 300ms A", classes: "timeout ok", text: "A",
		},
		"a candidate started in the last second cannot outlive the deadline (B12 e)": {
			header: within("3000"), settings: settings{a: brief}, a: one(silence()), b: one(late(2*time.Second, beta.says("B"))),
			trace: "A 2s B", classes: "timeout deadline", status: 504, code: "provider_timeout", class: "deadline", provider: "beta",
			returned: 3 * time.Second, check: noUpstreamAfter(3 * time.Second),
		},
		"no candidate is started without its useful time": {
			header: within("2500"), settings: settings{a: brief}, a: one(silence()),
			trace: "A", classes: "timeout", status: 504, code: "provider_timeout", class: "timeout", provider: "alpha", returned: 2 * time.Second,
		},
		"a platform that is about to stop us gets a 504 (B43 d)": {
			deadline: 8 * time.Second, header: within("60000"), a: one(silence()), trace: "A", classes: "deadline",
			status: 504, code: "provider_timeout", class: "deadline", provider: "alpha", returned: 8 * time.Second,
		},
		"a short hint is waited for in full, and a little more (F01)": {
			a:     []simulate.Reply{with(fails(429, "requests", "rate_limit_exceeded"), "Retry-After", "2"), alpha.says("A")},
			trace: "A 2.1s A", classes: "rate_limited ok", text: "A",
		},
		"a long hint is not waited for (F31)": {
			a: one(with(fails(429, "requests", "rate_limit_exceeded"), "Retry-After", "30")), b: one(beta.says("B")),
			trace: "A B", classes: "rate_limited ok", text: "B",
		},
		"a provider that forbids retries gets none, and the fallback its call (B11 k)": {
			a: one(with(unavailable(), "x-should-retry", "false")), b: one(beta.says("B")), trace: "A B", classes: "server_error ok", text: "B",
		},
		"a provider cannot make a refused key worth a retry (B11 l)": {
			a: one(with(badKey(), "x-should-retry", "true")), trace: "A", classes: "auth",
			status: 502, code: "provider_error", class: "auth", provider: "alpha",
		},
	}), map[string]row{
		"a 500 to a plain client is tried twice (B12 a)": {
			a: twice(fails(500, "server_error", "")), b: one(beta.says("B")), trace: "A 200ms A B", classes: "server_error server_error ok", text: "B",
		},
		"a 500 to a streaming client moves on at once (F03)": {
			stream: true, a: one(fails(500, "server_error", "")), b: one(beta.says("B")), trace: "A B", classes: "server_error ok", text: "B",
		},
	}))
}
