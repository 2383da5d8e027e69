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

// TestWhatIsKnownOfAModelIsSaid: what a channel is passed by for stands in explain, in the headers and in the list of models,
// whether its operator declared it or the table knows it.
func TestWhatIsKnownOfAModelIsSaid(t *testing.T) {
	inBubble(t, settings{b: `"cannot": ["images"], "context": 1000`}, func(t *testing.T, w *world) {
		custom := row{more: `,"tools":[{"type":"custom","custom":{"name":"f"}}]`}.body()
		o := w.do(t, request{path: "/v1/route/explain", body: custom})
		require.Equal(t, 200, o.status, o.body)
		assert.JSONEq(t, `["chat","tools","custom_tools"]`, gjson.Get(o.body, "needs").Raw)
		assert.JSONEq(t, `["no_custom_tools","ok"]`, gjson.Get(o.body, "considered.#.reason").Raw, "its operator says what b cannot do, and this is not among it")

		o = w.do(t, request{method: "GET", path: "/v1/models"})
		of := func(id, member string) string {
			return gjson.Get(o.body, `data.#(id=="`+id+`").capabilities.`+member).Raw
		}
		assert.Contains(t, of("a-1", "cannot"), `"custom_tools"`, "what the table knows")
		assert.JSONEq(t, `["images","music","videos"]`, of("b-9", "cannot"), "what the operator declares and the API has no words for, and nothing that the gateway makes up for")
		assert.Equal(t, "1000", of("b-9", "context"))
		assert.JSONEq(t, `["music","videos"]`, of("fast", "cannot"), "a route can what one of its models can")
		assert.Empty(t, w.calls())
	})
}

// TestAModelThatDoesNotChat: one that makes videos or music is there, and not for this.
func TestAModelThatDoesNotChat(t *testing.T) {
	inBubble(t, settings{a: `"cannot": ["chat"]`}, func(t *testing.T, w *world) {
		o := w.do(t, request{body: asks("alone", false)})
		assert.Equal(t, 400, o.status, o.body)
		assert.Equal(t, "unsupported_model_api", gjson.Get(o.body, "error.code").Str)
		assert.Equal(t, "model", gjson.Get(o.body, "error.param").Str)

		w.provider.Script("b-9", beta.says("x"))
		o = w.do(t, request{body: asks("fast", false)})
		assert.Equal(t, 200, o.status, o.body)
		assert.Equal(t, "a:no_chat;b:ok", o.header.Get("X-LLM-Routing-Reason"))
		assert.Len(t, w.calls(), 1)
	})
}
