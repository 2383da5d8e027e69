package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/tidwall/gjson"

	"spillway/internal/simulate"
)

// TestTheFallbackRequestIsBuiltAnew is B13: B's request comes from the client's, not from A's.
func TestTheFallbackRequestIsBuiltAnew(t *testing.T) {
	asked := `{"model":"fast","temperature":0,"parallel_tool_calls":true,"tools":[],"tool_choice":"none",` +
		`"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object"}}},"messages":[{"role":"user","content":"` + prompt + `"}]}`
	run(t, map[string]row{
		"B's own limits, nothing of A's (B13 a)": {
			whole: asked, settings: settings{a: `"drops": ["response_format"]`, b: `"drops": ["temperature", "parallel_tool_calls"]`},
			a: twice(unavailable()), b: one(beta.says("{}")), trace: "A 200ms A B", classes: "server_error server_error ok", text: "{}",
			headers: map[string]string{"X-LLM-Dropped-Params": "temperature", "X-LLM-Provider": "beta"},
			check: func(t *testing.T, o outcome) {
				b := o.upstream(2)
				assert.Equal(t, "b-9", b.Get("model").Str)
				assert.JSONEq(t, gjson.Get(asked, "response_format").Raw, b.Get("response_format").Raw)
				assert.JSONEq(t, gjson.Get(asked, "messages").Raw, b.Get("messages").Raw)
				leftWithout(t, b, "temperature", "parallel_tool_calls", "tool_choice", "tools")
				assert.NotContains(t, b.Raw, "a-1")
				assert.True(t, o.upstream(0).Get("temperature").Exists(), "A takes a temperature")
				leftWithout(t, o.upstream(0), "response_format")
				assert.Equal(t, o.calls[0].body, o.calls[1].body, "the retry is the same request")
			},
		},
		"a candidate that would have to drop the meaning is skipped (B13 b)": {
			whole: asked, settings: settings{b: `"cannot": ["json_schema"]`}, a: twice(unavailable()),
			trace: "A 200ms A", classes: "server_error server_error", status: 503, code: "provider_unavailable", class: "server_error", provider: "alpha",
			headers: map[string]string{"X-LLM-Routing-Reason": "a:ok;b:no_json_schema", "X-LLM-Fallback": "false"},
		},
		"a skipped candidate makes the next one a fallback": {
			whole: asked, settings: settings{a: `"cannot": ["json_schema"]`}, b: one(beta.says("{}")),
			trace: "B", classes: "ok", text: "{}", headers: map[string]string{"X-LLM-Routing-Reason": "a:no_json_schema;b:ok", "X-LLM-Attempts": "1"},
		},
		"nobody can: the request is told so, and nobody is called": {
			whole: asked, settings: settings{a: `"cannot": ["json_schema"]`, b: `"cannot": ["json_schema"]`},
			status: 400, code: "unsupported_model_input",
		},
	})
}

// TestModelsOfARequest holds `models`, `fallback_models` and `prefer` (contract §1): they choose the candidates and never
// go upstream.
func TestModelsOfARequest(t *testing.T) {
	ask := func(members string) string {
		return `{"messages":[{"role":"user","content":"` + prompt + `"}],` + members + `}`
	}
	private := func(t *testing.T, o outcome) {
		for i := range o.calls {
			leftWithout(t, o.upstream(i), "models", "fallback_models", "prefer")
		}
	}
	nine := strings.TrimSuffix(strings.Repeat(`"b-9",`, 9), ",")
	run(t, map[string]row{
		"models replaces model": {whole: ask(`"model":"c-5","models":["b-9","a-1"]`), b: twice(unavailable()), a: one(alpha.says("A")),
			trace: "B 200ms B A", classes: "server_error server_error ok", text: "A", check: private,
			headers: map[string]string{"X-LLM-Route": "b-9", "X-LLM-Routing-Reason": "b:ok;a:ok", "X-LLM-Fallback": "true"}},
		"fallback_models follows": {whole: ask(`"model":"alone","fallback_models":["c-5"]`), a: twice(unavailable()), c: one(gamma.says("C")),
			trace: "A 200ms A C", classes: "server_error server_error ok", text: "C", check: private,
			headers: map[string]string{"X-LLM-Route": "alone", "X-LLM-Routing-Reason": "a:ok;c:ok"}},
		"duplicates are dropped": {whole: ask(`"models":["a-1","a-1","alpha/a-1"],"fallback_models":["a-1","b-9"]`), a: twice(overloaded()), b: one(beta.says("B")),
			trace: "A 200ms A B", classes: "overloaded overloaded ok", text: "B", check: private},
		"prefer moves a channel to the front": {whole: ask(`"model":"three","prefer":"c"`), c: one(gamma.says("C")),
			trace: "C", classes: "ok", text: "C", check: private,
			headers: map[string]string{"X-LLM-Routing-Reason": "c:ok;a:ok;b:ok", "X-LLM-Fallback": "false"}},
		"prefer cannot make a channel able": {whole: ask(`"model":"fast","prefer":"b","n":2`), settings: settings{b: `"cannot": ["n"]`},
			a:     one(stream(alpha.choice(0, `{"role":"assistant","content":"x"}`, "stop"), alpha.choice(1, `{"role":"assistant","content":"y"}`, "stop"), done)),
			trace: "A", classes: "ok", text: "x"},
		"a provider's own name for a model": {whole: ask(`"model":"beta/b-9"`), b: one(beta.says("B")), trace: "B", classes: "ok", text: "B",
			headers: map[string]string{"X-LLM-Route": "beta/b-9"}},
		"nine models are too many": {whole: ask(`"models":[` + nine + `]`), status: 400, code: "validation_failed"},
		"no models are too few":    {whole: ask(`"models":[]`), status: 400, code: "validation_failed"},
		"an unknown model":         {whole: ask(`"model":"d-7"`), status: 404, code: "model_not_found"},
		"an unknown fallback":      {whole: ask(`"model":"fast","fallback_models":["d-7"]`), status: 404, code: "model_not_found"},
		"a model that the key may not call": {whole: ask(`"model":"b-9"`), settings: settings{organization: `["a-1"]`},
			status: 403, code: "model_not_allowed"},
		"a fallback that the key may not call is left out": {whole: ask(`"model":"a-1","fallback_models":["b-9"]`), settings: settings{organization: `["a-1"]`},
			a: twice(unavailable()), trace: "A 200ms A", classes: "server_error server_error",
			status: 503, code: "provider_unavailable", class: "server_error", provider: "alpha",
			headers: map[string]string{"X-LLM-Routing-Reason": "a:ok;b:not_allowed"}},
	})
}

// TestCredentials: a refused key moves to the next key of the channel, and to nothing else.
func TestCredentials(t *testing.T) {
	run(t, map[string]row{
		"the next key of the channel answers": {
			settings: settings{credentials: []string{"spare"}}, a: []simulate.Reply{badKey(), alpha.says("A")}, trace: "A A", classes: "auth ok", text: "A",
			headers: map[string]string{"X-LLM-Credential-Fallback": "true", "X-LLM-Fallback": "false", "X-LLM-Attempts": "2"},
			check: func(t *testing.T, o outcome) {
				assert.NotEqual(t, o.calls[0].headers["authorization"], o.calls[1].headers["authorization"])
				assert.Equal(t, "a-key:auth", o.alerts())
			},
		},
		"all keys of the channel are refused": {
			settings: settings{credentials: []string{"spare"}}, a: twice(badKey()), trace: "A A", classes: "auth auth",
			status: 502, code: "provider_error", class: "auth", provider: "alpha",
			headers: map[string]string{"X-LLM-Credential-Fallback": "true"},
			check:   func(t *testing.T, o outcome) { assert.Equal(t, "a-key:auth spare:auth", o.alerts()) },
		},
	})
}

// TestWhatPassesThrough: a provider of the same dialect gets what we do not know, and of the client's headers those on
// the list.
func TestWhatPassesThrough(t *testing.T) {
	more := `,"new_field":{"deep":[1,2.50,"é"]},"service_tier":"flex","seed":4711,"n":1,"temperature":0.70,"max_tokens":5,"stop":["x"],"user":"u"`
	run(t, both(map[string]row{
		"unknown members go upstream as they are written": {
			more: more, a: one(alpha.says("A")), trace: "A", classes: "ok", text: "A",
			header: header("OpenAI-Beta", "assistants=v2", "X-Private", "no", "Cookie", "no", "Idempotency-Key", "no"),
			check: func(t *testing.T, o outcome) {
				up := o.upstream(0)
				for name, want := range map[string]string{"new_field": `{"deep":[1,2.50,"é"]}`, "service_tier": `"flex"`, "seed": "4711",
					"n": "1", "temperature": "0.70", "max_tokens": "5", "stop": `["x"]`, "user": `"u"`, "stream": "true", "model": `"a-1"`} {
					assert.Equal(t, want, up.Get(name).Raw, name)
				}
				assert.Equal(t, "assistants=v2", o.calls[0].headers["openai-beta"])
				for _, name := range []string{"x-private", "cookie", "idempotency-key", "x-request-id"} {
					assert.NotContains(t, o.calls[0].headers, name)
				}
			},
		},
		"the channel's name of the output limit": {
			settings: settings{a: `"output_field": "max_completion_tokens"`}, more: `,"max_tokens":5`, a: one(alpha.says("A")), trace: "A", classes: "ok", text: "A",
			check: func(t *testing.T, o outcome) {
				assert.Equal(t, "5", o.upstream(0).Get("max_completion_tokens").Raw)
				leftWithout(t, o.upstream(0), "max_tokens")
			},
		},
		"what the channel drops is named": {
			settings: settings{a: `"drops": ["seed", "logit_bias"]`}, more: `,"seed":1,"logit_bias":{"5":1},"top_p":1`, a: one(alpha.says("A")),
			trace: "A", classes: "ok", text: "A", headers: map[string]string{"X-LLM-Dropped-Params": "seed,logit_bias"},
			check: func(t *testing.T, o outcome) { leftWithout(t, o.upstream(0), "seed", "logit_bias") },
		},
	}))
}

// TestADroppedParameterIsNamedOnlyForTheChannelThatDropsIt guards X-LLM-Dropped-Params against the first candidate's list.
func TestADroppedParameterIsNamedOnlyForTheChannelThatDropsIt(t *testing.T) {
	run(t, map[string]row{"A drops, B answers": {
		settings: settings{a: `"drops": ["seed"]`}, more: `,"seed":1`, a: twice(unavailable()), b: one(beta.says("B")),
		trace: "A 200ms A B", classes: "server_error server_error ok", text: "B", headers: map[string]string{"X-LLM-Dropped-Params": ""},
		check: func(t *testing.T, o outcome) {
			assert.Equal(t, "1", o.upstream(2).Get("seed").Raw, fmt.Sprint(o.calls[2].body))
		},
	}})
}
