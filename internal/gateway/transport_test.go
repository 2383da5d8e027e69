package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/fault"
	"spillway/internal/simulate"
)

// noAnswer closes the connection instead of answering.
func noAnswer() simulate.Reply { return simulate.Reply{Status: simulate.NoAnswer, End: simulate.Cut} }

// brief gives a channel two seconds to its first content.
const brief = `"first_content_ms": 2000`

// TestTransport is B10: what happens to a connection is nobody's 400, is bounded, and gives no address away. Every
// provider's address holds the secret in its path and its query, and every row looks for it (B10 g).
func TestTransport(t *testing.T) {
	within30 := header("X-LLM-Timeout-Ms", "30000")
	half := alpha.plain("half of this text")
	half.End = simulate.Stall
	run(t, join(both(map[string]row{
		"a refused connection is tried twice (B10 a)": {
			settings: settings{down: "A"}, b: one(beta.says("B")),
			trace: "A 200ms A B", classes: "network network ok", text: "B",
			headers: map[string]string{"X-LLM-Attempts": "3", "X-LLM-Provider": "beta"},
		},
		"refused connections everywhere are 503 (B10 a)": {
			settings: settings{down: "AB"},
			trace:    "A 200ms A B 200ms B", classes: "network network network network",
			status: 503, code: "provider_unavailable", class: "network", provider: "beta",
		},
		"a new connection that breaks without an answer is tried again (F05)": {
			a: []simulate.Reply{noAnswer(), alpha.says("A")}, trace: "A 200ms A", classes: "network ok", text: "A",
		},
		"a silent provider is called once (B10 c)": {
			settings: settings{a: brief}, header: within30, a: one(silence()), b: one(beta.says("B")),
			trace: "A 2s B", classes: "timeout ok", text: "B", returned: 2 * time.Second,
		},
		"silence everywhere is 504, before the deadline is over (B10 c)": {
			settings: settings{a: brief, b: brief + `, "weight": 1`, route: `"max_retries": 0`}, header: within30, a: one(silence()), b: one(silence()),
			trace: "A 2s B", classes: "timeout timeout",
			status: 504, code: "provider_timeout", class: "timeout", provider: "beta", returned: 4 * time.Second,
		},
		"the last candidate's second call has the rest of the time (B10 c)": {
			settings: settings{a: brief, b: brief}, header: within30, a: one(silence()), b: twice(silence()),
			trace: "A 2s B 2s B", classes: "timeout timeout deadline",
			status: 504, code: "provider_timeout", class: "deadline", provider: "beta", returned: 30 * time.Second,
		},
		"headers and half a body, then silence (B10 d)": {
			settings: settings{a: brief}, header: within30, a: one(half), b: one(beta.says("B")),
			trace: "A 2s B", classes: "timeout ok", text: "B",
		},
		"half a stream before any content, then silence (B10 d)": {
			settings: settings{a: brief}, header: within30, a: one(simulate.Events(0, simulate.Stall, alpha.role())), b: one(beta.says("B")),
			trace: "A 2s B", classes: "timeout ok", text: "B",
		},
		"an answered 408 is retried (B10 e)": {
			a: twice(fails(408, "timeout", "")), b: one(beta.says("B")), trace: "A 200ms A B", classes: "timeout timeout ok", text: "B",
		},
		"an answered 504 is retried": {
			a: twice(fails(504, "timeout", "")), trace: "A 200ms A", model: "alone", classes: "timeout timeout",
			status: 504, code: "provider_timeout", class: "timeout", provider: "alpha",
		},
		"a client that leaves while a provider is silent ends the call (B10 f)": {
			a: one(silence()), leaves: departure{after: time.Second},
			trace: "A", classes: "cancelled", status: 499,
			returned: time.Second, check: left499,
		},
		"a client that leaves during the wait for a retry ends the request": {
			a: one(with(overloaded(), "Retry-After", "4")), leaves: departure{after: time.Second},
			trace: "A", classes: "overloaded", status: 499,
			returned: time.Second, check: left499,
		},
		"a client that leaves while an error's body comes in ends the request": {
			a:      one(simulate.Reply{Status: 503, Body: `{"error":{"message":"` + theirs + `","type":"server_error"}}`, End: simulate.Stall}),
			leaves: departure{after: time.Second},
			trace:  "A", classes: "cancelled", status: 499,
			returned: time.Second, check: left499,
		},
		"an error whose body stops half way is judged by its status": {
			settings: settings{a: brief}, b: one(beta.says("B")),
			a:     twice(simulate.Reply{Status: 503, Body: `{"error":{"message":"` + theirs + `","type":"server_error"}}`, End: simulate.Cut}),
			trace: "A 200ms A B", classes: "server_error server_error ok", text: "B",
		},
		"a key in an error's text stays where it is (B10 g)": {
			a: one(badKey()), trace: "A", classes: "auth", status: 502, code: "provider_error", class: "auth", provider: "alpha",
		},
		"a redirect is not followed, and the credential stays (B10 g)": {
			a: one(with(simulate.Reply{Status: 307, Body: "moved"}, "Location", "http://b."+domain+"/v1/chat/completions")), trace: "A", classes: "unknown",
			status: 502, code: "provider_error", class: "unknown", provider: "alpha",
		},
	}), map[string]row{
		"a plain answer cut in the middle is a broken connection": {
			settings: settings{a: `"upstream_stream": "as_client"`},
			a:        twice(simulate.Reply{Body: alpha.plain("cut").Body, End: simulate.Cut}), b: one(beta.says("B")),
			trace: "A 200ms A B", classes: "network network ok", text: "B",
		},
		"a channel that does not stream has its own limit (F33)": {
			settings: settings{a: `"upstream_stream": "as_client", "attempt_ms": 8000`}, a: one(half), b: one(beta.says("B")),
			trace: "A 8s B", classes: "timeout ok", text: "B",
			check: func(t *testing.T, o outcome) {
				assert.True(t, o.of("attempt_finished")[0].Ambiguous)
				leftWithout(t, o.upstream(0), "stream", "stream_options")
			},
		},
	}))
}

// left499 holds the records of a client that left before the answer.
func left499(t *testing.T, o outcome) {
	end := o.of("request_finished")[0]
	assert.Equal(t, 499, end.Status, "status in the log")
	assert.Equal(t, "client_closed_request", end.Outcome)
	assert.Empty(t, o.alerts())
}

// TestAClientThatLeavesSaysNothingOfAProvider is the breaker's half of B10 f and B43 a.
func TestAClientThatLeavesSaysNothingOfAProvider(t *testing.T) {
	assert.Zero(t, fault.Default().Rule(fault.Cancelled).Weight)
	assert.Empty(t, fault.Default().Rule(fault.Cancelled).Hold)
}

// TestAKeptConnectionThatDiedIsReplacedOnce is B10 b: the provider closed a kept connection; that is no failure of its.
func TestAKeptConnectionThatDiedIsReplacedOnce(t *testing.T) {
	for name, r := range both(map[string]row{
		"once": {a: []simulate.Reply{alpha.says("first"), noAnswer(), alpha.says("second")}, trace: "A A", classes: "network ok", text: "second",
			headers: map[string]string{"X-LLM-Attempts": "2", "X-LLM-Fallback": "false"}},
		"and its successor dies too": {a: []simulate.Reply{alpha.says("first"), noAnswer(), noAnswer(), alpha.says("third")},
			trace: "A A 200ms A", classes: "network network ok", text: "third"},
	}) {
		t.Run(name, func(t *testing.T) {
			inBubble(t, settings{}, func(t *testing.T, w *world) {
				w.provider.Script("a-1", r.a...)
				require.Equal(t, 200, w.do(t, request{body: r.body()}).status)
				o := w.do(t, request{body: r.body()})
				r.judge(t, o)
				assert.NotEqual(t, o.calls[0].conn, o.calls[1].conn, "the second call has a connection of its own")
				assert.Equal(t, "stale_connection", o.of("attempt_finished")[0].Reason)
				assert.Empty(t, w.provider.Unexpected())
			})
		})
	}
}

// TestTheReplayHasANewConnection: where one kept connection died the others may be dead as well, so the replay takes none
// of them.
func TestTheReplayHasANewConnection(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		held := late(time.Second, alpha.says("first"))
		w.provider.Script("a-1", held, held, noAnswer(), alpha.says("second"))
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(row{}.body()))
				r.Header.Set("Authorization", "Bearer "+clientKey)
				w.serve(&client{header: http.Header{}, start: time.Now()}, r)
			})
		}
		both.Wait()
		o := w.do(t, request{body: row{}.body()})
		row{trace: "A A", classes: "network ok", text: "second"}.judge(t, o)
		assert.LessOrEqual(t, o.calls[0].conn, 2, "the first call takes a kept connection")
		assert.Greater(t, o.calls[1].conn, 2, "its replay takes a new one")
		assert.Empty(t, w.provider.Unexpected())
	})
}
