package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/fault"
	"spillway/internal/simulate"
)

// TestHeaders holds the headers of contract §1, for every way a request can end.
func TestHeaders(t *testing.T) {
	identified := func(r simulate.Reply, id string) simulate.Reply { return with(r, "X-Request-Id", id) }
	limited := with(fails(429, "requests", "rate_limit_exceeded"), "Retry-After", "60")
	always := map[string]string{"X-LLM-Policy-Version": fault.Default().Version, "X-LLM-Route": "fast", "X-LLM-Routing-Reason": "a:ok;b:ok", "X-LLM-Credential-Fallback": "false"}
	says := func(pairs ...string) map[string]string {
		out := map[string]string{}
		for name, value := range always {
			out[name] = value
		}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i]] = pairs[i+1]
		}
		return out
	}
	run(t, both(map[string]row{
		"the first candidate answers": {a: one(identified(alpha.says("A"), "up-1")), trace: "A", classes: "ok", text: "A",
			headers: says("X-LLM-Provider", "alpha", "X-LLM-Model", alpha.model, "X-LLM-Attempts", "1", "X-LLM-Fallback", "false", "X-LLM-Provider-Request-Id", "up-1",
				"X-LLM-Dropped-Params", "", "Retry-After", "", "X-Should-Retry", "")},
		"the second candidate answers": {a: one(limited), b: one(identified(beta.says("B"), "up-2")), trace: "A B", classes: "rate_limited ok", text: "B",
			headers: says("X-LLM-Provider", "beta", "X-LLM-Model", beta.model, "X-LLM-Attempts", "2", "X-LLM-Fallback", "true", "X-LLM-Provider-Request-Id", "up-2",
				"Retry-After", "", "X-Should-Retry", "")},
		"a retry is no fallback": {a: []simulate.Reply{unavailable(), alpha.says("A")}, trace: "A 200ms A", classes: "server_error ok", text: "A",
			headers: says("X-LLM-Provider", "alpha", "X-LLM-Attempts", "2", "X-LLM-Fallback", "false")},
		"nobody answers": {a: one(limited), b: one(identified(badKey(), "up-3")), trace: "A B", classes: "rate_limited auth",
			status: 502, code: "provider_error", class: "auth", provider: "beta",
			headers: says("X-LLM-Provider", "beta", "X-LLM-Model", "", "X-LLM-Attempts", "2", "X-LLM-Fallback", "true", "X-LLM-Provider-Request-Id", "up-3", "X-Should-Retry", "false")},
		"a provider's id that is not fit for a header": {a: one(identified(alpha.says("A"), strings.Repeat("x", 300))), trace: "A", classes: "ok", text: "A",
			headers: says("X-LLM-Provider-Request-Id", "")},
		"tags go into the records": {header: header("X-LLM-Tags", "app=shop; env=prod"), a: one(alpha.says("A")), trace: "A", classes: "ok", text: "A",
			check: func(t *testing.T, o outcome) { assert.Contains(t, o.raw, `"app":"shop"`) }},
	}))
}

// TestRequestID: a client's id is taken if it is one; else there is always one of ours.
func TestRequestID(t *testing.T) {
	tests := map[string]struct {
		given string
		taken bool
	}{
		"a plain one":               {"order-4711", true},
		"all characters":            {"aZ09_.:-", true},
		"the longest":               {strings.Repeat("x", 128), true},
		"one too long":              {strings.Repeat("x", 129), false},
		"none":                      {"", false},
		"a space":                   {"a b", false},
		"a header in a header":      {"a\r\nX-Evil: 1", false},
		"markup":                    {"<b>", false},
		"not ASCII":                 {"é", false},
		"a slash, which leads away": {"a/b", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, settings{}, func(t *testing.T, w *world) {
				w.provider.Script("a-1", alpha.says("A"), badKey())
				seen := map[string]bool{}
				for _, status := range []int{200, 502, 404} {
					r := request{body: row{}.body(), header: http.Header{"X-Request-Id": {tt.given}}}
					if status == 404 {
						r.path = "/v1/nothing"
					}
					o := w.do(t, r)
					require.Equal(t, status, o.status, o.body)
					id := o.header.Get("X-Request-Id")
					if tt.taken {
						assert.Equal(t, tt.given, id)
					} else {
						assert.Regexp(t, `^req_[0-9a-f]{24}$`, id)
						assert.False(t, seen[id], "an id of ours comes twice")
						seen[id] = true
					}
					for _, rec := range o.of("request_finished") {
						assert.Equal(t, id, rec.RequestID)
					}
				}
			})
		})
	}
}

// TestUserIdsAreDigests: the client's ids of a person and a conversation are in the records as keyed digests only.
func TestUserIdsAreDigests(t *testing.T) {
	run(t, map[string]row{"": {
		more: `,"user":"ann@example.test","metadata":{"conversation_id":"conv-4711"}`, a: one(alpha.says("ok")), trace: "A", classes: "ok", text: "ok",
		check: func(t *testing.T, o outcome) {
			assert.NotContains(t, o.raw, "ann@example.test")
			assert.NotContains(t, o.raw, "conv-4711")
			assert.Regexp(t, `"user_digest":"[0-9a-f]{16}"`, o.raw)
			assert.Regexp(t, `"conversation_digest":"[0-9a-f]{16}"`, o.raw)
		},
	}})
}
