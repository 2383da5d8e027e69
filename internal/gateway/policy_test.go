package gateway_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"spillway/internal/fault"
)

// TestPolicyOfARoute: a row of a route changes what an answer is on that route, and every record says so.
func TestPolicyOfARoute(t *testing.T) {
	version := fault.Default().Version
	saysVersion := func(want string) func(*testing.T, outcome) {
		return func(t *testing.T, o outcome) {
			said := 0
			for _, r := range o.records {
				if r.PolicyVersion != "" {
					assert.Equal(t, want, r.PolicyVersion, "%s", r.Msg)
					said++
				}
			}
			assert.GreaterOrEqual(t, said, 2, "an attempt and the request")
		}
	}
	refused := fails(400, "", "warming_up")
	run(t, map[string]row{
		"without it the answer is the caller's mistake": {
			a: one(refused), trace: "A", classes: "invalid_request",
			status: 502, code: "provider_error", class: "invalid_request", provider: "alpha", quotes: true,
			headers: map[string]string{"X-LLM-Policy-Version": version}, check: saysVersion(version),
		},
		"with it the same answer is retried and falls back": {
			settings: settings{route: `"policy": [{"status": 400, "code": "warming_up", "class": "overloaded"}]`},
			a:        twice(refused), b: one(beta.plain("Hello")), trace: "A 200ms A B", classes: "overloaded overloaded ok", text: "Hello",
			headers: map[string]string{"X-LLM-Policy-Version": version + "+route"}, check: saysVersion(version + "+route"),
		},
	})
}
