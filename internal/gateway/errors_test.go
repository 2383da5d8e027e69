package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/tidwall/gjson"

	"spillway/internal/simulate"
)

// attempts writes error.attempts as "alpha/a-1 529 overloaded 2, …".
func (o outcome) attempts() string {
	var out []string
	gjson.Get(o.body, "error.attempts").ForEach(func(_, a gjson.Result) bool {
		status := a.Get("status").Raw
		out = append(out, fmt.Sprintf("%s/%s %s %s %d", a.Get("provider").Str, a.Get("model").Str, status, a.Get("class").Str, a.Get("n").Int()))
		return true
	})
	return strings.Join(out, ", ")
}

func attemptsAre(want string) func(*testing.T, outcome) {
	return func(t *testing.T, o outcome) { assert.Equal(t, want, o.attempts(), "error.attempts") }
}

// TestWhichErrorIsShown is B15: the last failure, with all the others beside it and nothing of their text.
func TestWhichErrorIsShown(t *testing.T) {
	preamble := func(v voice) simulate.Reply {
		return stream(v.role(), `{"error":{"type":"overloaded_error","message":"`+theirs+`"}}`)
	}
	run(t, join(both(map[string]row{
		"the fallback's own key error hides nothing (B15 a)": {
			a: twice(overloaded()), b: one(badKey()), trace: "A 200ms A B", classes: "overloaded overloaded auth",
			status: 502, code: "provider_error", class: "auth", provider: "beta",
			headers: map[string]string{"X-LLM-Fallback": "true", "X-LLM-Attempts": "3", "X-Should-Retry": "false"},
			check: func(t *testing.T, o outcome) {
				attemptsAre("alpha/a-1 529 overloaded 2, beta/b-9 401 auth 1")(t, o)
				assert.Equal(t, "b-key:auth", o.alerts())
				assert.Equal(t, int64(401), gjson.Get(o.body, "error.provider_status").Int())
				assert.Equal(t, "invalid_api_key", gjson.Get(o.body, "error.provider_code").Str)
			},
		},
		"an error behind the preamble of a 200 is an error (B15 b)": {
			a: twice(preamble(alpha)), b: twice(preamble(beta)), trace: "A 200ms A B 200ms B", classes: "overloaded overloaded overloaded overloaded",
			status: 503, code: "provider_unavailable", class: "overloaded", provider: "beta",
			headers: map[string]string{"Content-Type": "application/json", "Retry-After": "2"},
			check: func(t *testing.T, o outcome) {
				assert.NotContains(t, o.body, "data:")
				attemptsAre("alpha/a-1 200 overloaded 2, beta/b-9 200 overloaded 2")(t, o)
			},
		},
		"the caller's own mistake is not tried on B (B15 c)": {
			a: one(fails(400, "invalid_request_error", "")), trace: "A", classes: "invalid_request", quotes: true,
			status: 502, code: "provider_error", class: "invalid_request", provider: "alpha", headers: map[string]string{"X-Should-Retry": "false"},
			check: attemptsAre("alpha/a-1 400 invalid_request 1"),
		},
		"one entry for each class of a candidate, in order": {
			a: []simulate.Reply{with(overloaded(), "Connection", "close"), noAnswer()}, b: []simulate.Reply{body("null"), fails(429, "requests", "rate_limit_exceeded")},
			trace: "A 200ms A B 200ms B", classes: "overloaded network bad_response rate_limited",
			status: 429, code: "provider_rate_limited", class: "rate_limited", provider: "beta",
			check: attemptsAre("alpha/a-1 529 overloaded 1, alpha/a-1 null network 1, beta/b-9 200 bad_response 1, beta/b-9 429 rate_limited 1"),
		},
		"an answer that broke off, or cannot be read, keeps its status": {
			settings: settings{route: `"commit": "complete"`}, a: []simulate.Reply{cut(alpha.role(), alpha.text("Hel")), body(`{"id":"x","choices":[]}`)}, b: twice(alpha.asks(`{"x":`, "tool_calls")),
			trace: "A 200ms A B 200ms B", classes: "network bad_response bad_response bad_response",
			status: 502, code: "provider_error", class: "bad_response", provider: "beta",
			check: attemptsAre("alpha/a-1 200 network 1, alpha/a-1 200 bad_response 1, beta/b-9 200 bad_response 2"),
		},
		"a route that shows only the provider": {
			settings: settings{route: `"expose": "provider"`}, a: twice(overloaded()), b: twice(unavailable()),
			trace: "A 200ms A B 200ms B", classes: "overloaded overloaded server_error server_error",
			status: 503, code: "provider_unavailable", class: "server_error", provider: "beta", check: attemptsAre(""),
		},
		"a route that shows nothing of its providers, in the headers either": {
			settings: settings{route: `"expose": "none"`}, a: twice(overloaded()), b: twice(unavailable()),
			trace: "A 200ms A B 200ms B", classes: "overloaded overloaded server_error server_error",
			status: 503, code: "provider_unavailable", class: "server_error",
			headers: map[string]string{"X-LLM-Provider": "", "X-LLM-Routing-Reason": "", "X-LLM-Provider-Request-Id": ""},
			check:   func(t *testing.T, o outcome) { assert.False(t, gjson.Get(o.body, "error.attempts").Exists()) },
		},
	}), map[string]row{
		"two keys of one channel are two candidates": {
			settings: settings{credentials: []string{"spare"}}, a: twice(badKey()), trace: "A A", classes: "auth auth",
			status: 502, code: "provider_error", class: "auth", provider: "alpha",
			check: attemptsAre("alpha/a-1 401 auth 1, alpha/a-1 401 auth 1"),
		},
	}))
}

// TestAValidationMessageIsQuoted: a provider's own words explain the caller's mistake, and give nothing else away.
func TestAValidationMessageIsQuoted(t *testing.T) {
	says := func(message string) []simulate.Reply {
		return one(simulate.Error(400, "invalid_request_error", "", message))
	}
	quoted := func(want string) func(*testing.T, outcome) {
		return func(t *testing.T, o outcome) {
			assert.Equal(t, "the provider refused the request as invalid: "+want, gjson.Get(o.body, "error.message").Str)
		}
	}
	refused := row{trace: "A", classes: "invalid_request", status: 502, code: "provider_error", class: "invalid_request", provider: "alpha", quotes: true}
	rows := map[string]row{}
	add := func(name, message, want string) {
		r := refused
		r.a, r.check = says(message), quoted(want)
		rows[name] = r
	}
	add("a plain sentence", "Invalid value for 'messages.0.content': expected a string, got 1.5.", "Invalid value for 'messages.0.content': expected a string, got 1.5.")
	add("markup is stripped", "<p>Bad <b>tool</b> name</p>", "Bad tool name")
	add("an address is left out", "see https://a."+domain+"/v1?key="+secret+" for help", "see for help")
	add("a bare host name is left out", "cannot reach a."+domain+":443, try later", "cannot reach try later")
	add("a foreign host name is left out", "the image at cdn.example.com/x.png is too large", "the image at is too large")
	add("our key is left out", "the key sk-"+secret+"-a-key may not do that", "the key may not do that")
	add("a word of the address is left out", "tenant '"+secret+"-tenant' may not do that", "tenant may not do that")
	add("a long text is cut", strings.Repeat("wörd ", 100), strings.Repeat("wörd ", 39)+"wörd…")
	field := refused
	field.a = one(body(`{"error":{"message":"bad temperature","type":"invalid_request_error","param":"temperature","code":"invalid_value"}}`))
	field.a[0].Status = 400
	field.check = func(t *testing.T, o outcome) {
		assert.Equal(t, "temperature", gjson.Get(o.body, "error.param").Str)
		assert.Equal(t, "invalid_value", gjson.Get(o.body, "error.provider_code").Str)
	}
	rows["the field is named"] = field
	odd := refused
	odd.a = one(body(`{"error":{"message":"bad","type":"x","param":"` + secret + `","code":"sk-` + secret + `-A <b>"}}`))
	odd.a[0].Status = 400
	rows["words that are none stay away"] = odd
	run(t, both(rows))
}

// TestWhatAnErrorSaysOfComingBack holds x-should-retry and Retry-After for every way a chain can end (contract §2). That
// both agree with the body, and that Retry-After comes with 429 and 503 alone, is checked for every error of every row.
func TestWhatAnErrorSaysOfComingBack(t *testing.T) {
	again := func(seconds string) map[string]string {
		return map[string]string{"X-Should-Retry": "true", "Retry-After": seconds}
	}
	never := map[string]string{"X-Should-Retry": "false", "Retry-After": ""}
	limited := func(hint string) simulate.Reply {
		return with(fails(429, "requests", "rate_limit_exceeded"), "Retry-After", hint)
	}
	type end struct {
		reply       simulate.Reply
		class, code string
		status      int
		twice       bool
		says        map[string]string
	}
	rows := map[string]row{}
	for name, e := range map[string]end{
		"a throttle without a hint": {fails(429, "requests", "rate_limit_exceeded"), "rate_limited", "provider_rate_limited", 429, true, again("2")},
		"a throttle with a hint":    {limited("1800"), "rate_limited", "provider_rate_limited", 429, false, again("1800")},
		"a hint below a second":     {with(limited("1"), "retry-after-ms", "60250"), "rate_limited", "provider_rate_limited", 429, false, again("61")},
		"no capacity":               {overloaded(), "overloaded", "provider_unavailable", 503, true, again("2")},
		"no capacity, with a hint":  {with(overloaded(), "Retry-After", "7"), "overloaded", "provider_unavailable", 503, false, again("7")},
		"a failing provider":        {unavailable(), "server_error", "provider_unavailable", 503, true, again("2")},
		"a broken connection":       {noAnswer(), "network", "provider_unavailable", 503, true, again("2")},
		"a conflict":                {fails(409, "conflict", ""), "conflict", "provider_unavailable", 503, true, again("2")},
		"too early":                 {fails(425, "too_early", ""), "too_early", "provider_unavailable", 503, true, again("2")},
		"an answered time-out":      {fails(408, "timeout", ""), "timeout", "provider_timeout", 504, true, again("")},
		"an unusable answer":        {body("null"), "bad_response", "provider_error", 502, true, again("")},
		"a refused key":             {badKey(), "auth", "provider_error", 502, false, never},
		"an empty account":          {with(fails(429, "insufficient_quota", "insufficient_quota"), "Retry-After", "1"), "quota", "provider_error", 502, false, never},
		"a missing model":           {fails(404, "invalid_request_error", "model_not_found"), "model_unavailable", "provider_error", 502, false, never},
		"a request too long":        {simulate.Error(400, "invalid_request_error", "context_length_exceeded", "m"), "context_length", "provider_error", 502, false, never},
		"refused content":           {fails(400, "invalid_request_error", "content_policy_violation"), "content_policy", "provider_error", 502, false, never},
		"a foreign parameter":       {simulate.Error(400, "invalid_request_error", "unsupported_parameter", "m"), "unsupported_parameter", "provider_error", 502, false, never},
		"a wrong request":           {simulate.Error(422, "invalid_request_error", "", "m"), "invalid_request", "provider_error", 502, false, never},
		"nothing known":             {fails(302, "", ""), "unknown", "provider_error", 502, false, never},
	} {
		r := row{model: "alone", a: one(e.reply), trace: "A", classes: e.class, status: e.status, code: e.code, class: e.class, provider: "alpha", headers: e.says}
		if e.twice {
			r.a, r.classes, r.trace = twice(e.reply), e.class+" "+e.class, "A 200ms A"
		}
		rows[name] = r
	}
	rows["a hint that has passed"] = row{model: "alone", a: twice(limited("0")), trace: "A 150ms A", classes: "rate_limited rate_limited",
		status: 429, code: "provider_rate_limited", class: "rate_limited", provider: "alpha", headers: again("1")}
	rows["the shortest hint counts, whoever gave it"] = row{a: one(limited("7")), b: one(limited("20")), trace: "A B",
		classes: "rate_limited rate_limited", status: 429, code: "provider_rate_limited", class: "rate_limited", provider: "beta", headers: again("7")}
	rows["a hint counts from when it was given"] = row{a: one(limited("60")), b: one(late(9*time.Second, limited("600"))), trace: "A B",
		classes: "rate_limited rate_limited", status: 429, code: "provider_rate_limited", class: "rate_limited", provider: "beta", headers: again("51")}
	rows["a hint of a candidate before counts for one without"] = row{a: one(with(overloaded(), "Retry-After", "30")), b: twice(unavailable()), trace: "A B 200ms B",
		classes: "overloaded server_error server_error", status: 503, code: "provider_unavailable", class: "server_error", provider: "beta", headers: again("30")}
	run(t, both(rows))
}

// TestWorkThatMustNotBeRepeated: what may have been done is not done again, and the client is told not to (contract §3.1).
func TestWorkThatMustNotBeRepeated(t *testing.T) {
	unsafe := settings{route: `"replay": "unsafe"`}
	ended := func(s settings, more, class string, a ...simulate.Reply) row {
		s.a = brief
		return row{settings: s, more: more, a: a, trace: "A", classes: class, status: 504, code: "provider_timeout", class: class, provider: "alpha",
			headers: map[string]string{"X-Should-Retry": "false"},
			check: func(t *testing.T, o outcome) {
				assert.Equal(t, "replay_unsafe", o.of("attempt_finished")[0].Reason)
				assert.True(t, o.of("attempt_finished")[0].Ambiguous)
			}}
	}
	const store = `,"store":true`
	late := ended(unsafe, "", "deadline", silence())
	late.header, late.check = header("X-LLM-Timeout-Ms", "1500"), nil
	run(t, both(map[string]row{
		"store: a connection that broke":          ended(settings{}, store, "network", noAnswer()),
		"store: silence":                          ended(settings{}, store, "timeout", silence()),
		"store: an answered time-out":             ended(settings{}, store, "timeout", fails(504, "timeout", "")),
		"store: an origin that may have answered": ended(settings{}, store, "server_error", fails(520, "", "")),
		"route: a connection that broke":          ended(unsafe, "", "network", noAnswer()),
		"route: silence":                          ended(unsafe, "", "timeout", silence()),
		"route: our own deadline":                 late,
		"a refusal is repeated as ever":           {more: store, a: []simulate.Reply{overloaded(), alpha.says("A")}, trace: "A 200ms A", classes: "overloaded ok", text: "A"},
		"a connection that was never made is tried again": {more: store, settings: settings{down: "A"}, b: one(beta.says("B")),
			trace: "A 200ms A B", classes: "network network ok", text: "B"},
	}))
}

// TestOurOwnRefusals: the gateway refuses without calling anybody, names the field, and repeats nothing of the request.
func TestOurOwnRefusals(t *testing.T) {
	ask := `{"model":"fast","messages":[{"role":"user","content":"` + prompt + `"}]}`
	tests := map[string]struct {
		request
		status      int
		code, param string
	}{
		"no key":                      {request{key: "-", body: ask}, 401, "invalid_api_key", ""},
		"an unknown key":              {request{key: "sk-unknown", body: ask}, 401, "invalid_api_key", ""},
		"an unknown key and bad JSON": {request{key: "sk-unknown", body: "{"}, 401, "invalid_api_key", ""},
		"an unknown path":             {request{path: "/v1/nothing", body: ask}, 404, "not_found", ""},
		"a wrong method":              {request{method: http.MethodGet}, 405, "method_not_allowed", ""},
		"an empty body":               {request{}, 400, "validation_failed", "body"},
		"half a body":                 {request{body: `{"model":"fast","messages":[{"role":"user","content":"` + prompt}, 400, "validation_failed", "body"},
		"a name twice":                {request{body: `{"model":"fast","model":"` + prompt + `","messages":[]}`}, 400, "validation_failed", "model"},
		"a body too large":            {request{body: `{"model":"fast","messages":[{"role":"user","content":"` + strings.Repeat("x", 5_000_000) + `"}]}`}, 413, "request_too_large", "body"},
		"a body too deep":             {request{body: strings.Repeat("[", 200) + strings.Repeat("]", 200)}, 400, "validation_failed", "body"},
		"an encoded body":             {request{body: ask, header: header("Content-Encoding", "gzip")}, 400, "validation_failed", "Content-Encoding"},
		"no model":                    {request{body: `{"messages":[{"role":"user","content":"x"}]}`}, 400, "validation_failed", "model"},
		"no messages":                 {request{body: `{"model":"fast"}`}, 400, "validation_failed", "messages"},
		"an unknown role":             {request{body: `{"model":"fast","messages":[{"role":"` + prompt + `","content":"x"}]}`}, 400, "validation_failed", "messages[0].role"},
		"a tool call without its answer": {request{body: `{"model":"fast","messages":[` +
			`{"role":"assistant","tool_calls":[{"id":"c2","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"user","content":"x"}]}`},
			400, "validation_failed", "messages[0].tool_calls[0]"},
		"a tool message without its call": {request{body: `{"model":"fast","messages":[{"role":"tool","tool_call_id":"c9","content":"x"}]}`}, 400, "validation_failed", "messages[0].tool_call_id"},
		"stream options without a stream": {request{body: strings.Replace(ask, `"model"`, `"stream_options":{"include_usage":true},"model"`, 1)}, 400, "validation_failed", "stream_options"},
		"no output at all":                {request{body: strings.Replace(ask, `"model"`, `"max_tokens":0,"model"`, 1)}, 400, "validation_failed", "max_tokens"},
		"five stops":                      {request{body: strings.Replace(ask, `"model"`, `"stop":["a","b","c","d","e"],"model"`, 1)}, 400, "validation_failed", "stop"},
		"a time that is none":             {request{body: ask, header: header("X-LLM-Timeout-Ms", "soon")}, 400, "validation_failed", "X-LLM-Timeout-Ms"},
		"a time below nothing":            {request{body: ask, header: header("X-LLM-Timeout-Ms", "-5")}, 400, "validation_failed", "X-LLM-Timeout-Ms"},
		"six tags":                        {request{body: ask, header: header("X-LLM-Tags", "a=1;b=2;c=3;d=4;e=5;f=6")}, 400, "validation_failed", "X-LLM-Tags"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, settings{}, func(t *testing.T, w *world) {
				o := w.do(t, tt.request)
				assert.Equal(t, tt.status, o.status, o.body)
				checkAnswer(t, o, row{})
				assert.Equal(t, tt.code, gjson.Get(o.body, "error.code").Str, o.body)
				assert.Equal(t, tt.param, gjson.Get(o.body, "error.param").Str, o.body)
				assert.Equal(t, "false", o.header.Get("X-Should-Retry"))
				assert.Empty(t, o.calls)
				if tt.status == http.StatusMethodNotAllowed {
					assert.Equal(t, http.MethodPost, o.header.Get("Allow"))
				}
				checkSilence(t, "a record", o.raw, prompt)
			})
		})
	}
}
