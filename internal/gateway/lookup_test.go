package gateway_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// TestACallersMistakeKeepsItsStatus is contract §2: a route may answer it with the provider's own 4xx, and nothing else.
func TestACallersMistakeKeepsItsStatus(t *testing.T) {
	surfaced := settings{route: `"surface": "upstream_status"`}
	run(t, map[string]row{
		"the caller's mistake": {
			settings: surfaced, a: one(fails(400, "invalid_request_error", "invalid_value")), trace: "A", classes: "invalid_request", quotes: true,
			status: 400, code: "provider_error", class: "invalid_request", provider: "alpha",
		},
		"the gateway's own key": {
			settings: surfaced, a: one(badKey()), trace: "A", classes: "auth", status: 502, code: "provider_error", class: "auth", provider: "alpha",
		},
	})
}

// TestExplainAndModels: both answer from the configuration, and call nobody.
func TestExplainAndModels(t *testing.T) {
	inBubble(t, settings{b: `"cannot": ["tools"]`, organization: `["fast", "a-1"]`}, func(t *testing.T, w *world) {
		o := w.do(t, request{path: "/v1/route/explain", body: row{more: `,"tools":[{"type":"function","function":{"name":"f"}}]`}.body()})
		require.Equal(t, 200, o.status, o.body)
		assert.Equal(t, "fast", gjson.Get(o.body, "route").Str)
		assert.JSONEq(t, `["a"]`, gjson.Get(o.body, "candidates.#.channel").Raw)
		assert.JSONEq(t, `["ok","no_tools"]`, gjson.Get(o.body, "considered.#.reason").Raw)

		o = w.do(t, request{method: "GET", path: "/v1/models"})
		require.Equal(t, 200, o.status, o.body)
		assert.JSONEq(t, `["a-1","fast"]`, gjson.Get(o.body, "data.#.id").Raw, "what the key may call")
		assert.Equal(t, 200, w.do(t, request{method: "GET", path: "/v1/models/alpha/a-1"}).status)
		assert.Equal(t, 404, w.do(t, request{method: "GET", path: "/v1/models/b-9"}).status)
		assert.Equal(t, 401, w.do(t, request{method: "GET", path: "/v1/models", key: "wrong"}).status)
		assert.Empty(t, w.calls())
	})
}
