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

// TestCommitPolicies is contract §4: until the commitment is met a failure is invisible, after it nothing is switched.
func TestCommitPolicies(t *testing.T) {
	half := cut(alpha.role(), alpha.text("Hel"), alpha.text("lo"), alpha.text(" world"))
	whole := one(beta.says("from ", "B"))
	run(t, map[string]row{
		"complete: a stream that breaks after content is answered by B": {
			stream: true, settings: settings{route: `"commit": "complete"`}, a: twice(half), b: whole,
			trace: "A 200ms A B", classes: "network network ok", text: "from B",
		},
		"complete by header, on a route that commits at once": {
			stream: true, header: header("X-LLM-Commit", "complete"), a: twice(half), b: whole,
			trace: "A 200ms A B", classes: "network network ok", text: "from B",
		},
		"first_delta by header, on a route that holds all back": {
			stream: true, header: header("X-LLM-Commit", "first_delta"), settings: settings{route: `"commit": "complete"`}, a: one(half),
			trace: "A", classes: "network", text: "Hello world", ends: "provider_disconnect",
		},
		"complete: nothing is sent before the end, and then everything with its usage": {
			stream: true, more: `,"stream_options":{"include_usage":true}`, settings: settings{route: `"commit": "complete"`},
			a:     one(simulate.Events(time.Second, simulate.Complete, alpha.role(), alpha.text("a"), alpha.text("b"), alpha.finish("stop"), alpha.usage(), "[DONE]")),
			trace: "A", classes: "ok", text: "ab",
			check: func(t *testing.T, o outcome) { assert.Equal(t, 5*time.Second, o.committed()) },
		},
		"complete: a tool call that cannot be read is no answer": {
			stream: true, settings: settings{route: `"commit": "complete"`}, b: whole,
			a: twice(stream(alpha.role(), alpha.delta(`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{"}}]}`, ""),
				alpha.finish("tool_calls"), "[DONE]")),
			trace: "A 200ms A B", classes: "bad_response bad_response ok", text: "from B",
		},
		"complete: more than 8 MiB cannot be held back, and nobody else is asked for it": {
			stream: true, settings: settings{route: `"commit": "complete"`},
			a:     one(stream(alpha.role(), alpha.text(strings.Repeat("x", 5<<20)), alpha.text(strings.Repeat("y", 5<<20)), alpha.finish("stop"), "[DONE]")),
			trace: "A", classes: "bad_response", status: 502, code: "provider_error", class: "bad_response", provider: "alpha",
			headers: map[string]string{"X-Should-Retry": "false"},
		},
		"prefix: a break before so many tokens is invisible": {
			stream: true, settings: settings{route: `"commit": "prefix", "prefix_tokens": 4`}, a: twice(half), b: whole,
			trace: "A 200ms A B", classes: "network network ok", text: "from B",
		},
		"prefix: a break after so many tokens is seen": {
			stream: true, settings: settings{route: `"commit": "prefix", "prefix_tokens": 2`}, a: one(half),
			trace: "A", classes: "network", text: "Hello world", ends: "provider_disconnect",
		},
		"prefix: a short answer is whole before its prefix is full": {
			stream: true, settings: settings{route: `"commit": "prefix", "prefix_tokens": 40`}, a: one(alpha.says("Hel", "lo")),
			trace: "A", classes: "ok", text: "Hello",
		},
		"prefix: by time since the first content": {
			stream: true, settings: settings{route: `"commit": "prefix", "prefix_ms": 1500`},
			a:     one(simulate.Events(time.Second, simulate.Complete, alpha.role(), alpha.text("a"), alpha.text("b"), alpha.text("c"), alpha.finish("stop"), "[DONE]")),
			trace: "A", classes: "ok", text: "abc",
			check: func(t *testing.T, o outcome) {
				assert.Equal(t, 4*time.Second, o.committed(), "with the first event after it")
			},
		},
		"a stream beyond what an answer may be ends before the platform cuts it (B44 e)": {
			stream: true, settings: settings{maxStream: 1000}, a: one(stream(alpha.role(), alpha.text("Hello"), alpha.text(strings.Repeat("x", 1000)), alpha.finish("stop"), "[DONE]")),
			trace: "A", classes: "bad_response", text: "Hello", ends: "stream_interrupted",
		},
		"a stall of an answer that is held back falls back": {
			stream: true, settings: settings{route: `"commit": "complete", "stall_ms": 3000`}, b: whole,
			a:     one(simulate.Events(0, simulate.Stall, alpha.role(), alpha.text("Hel"))),
			trace: "A 3s B", classes: "timeout ok", text: "from B",
		},
	})
}

// TestAWordThatIsNoCommitPolicy is refused by name.
func TestAWordThatIsNoCommitPolicy(t *testing.T) {
	for _, name := range []string{"X-LLM-Commit", "X-LLM-Tool-Deltas"} {
		inBubble(t, settings{}, func(t *testing.T, w *world) {
			o := w.do(t, request{body: row{}.body(), header: header(name, "soon")})
			checkError(t, o, true)
			assert.Equal(t, 400, o.status)
			assert.Equal(t, name, gjson.Get(o.body, "error.param").Str)
		})
	}
}

// TestHoldMS: a client behind a proxy that cuts silence gets its 200 and comments; candidates may still change, and a
// total failure is then told inside the stream.
func TestHoldMS(t *testing.T) {
	held := settings{route: `"hold_ms": 2000`}
	ask := request{body: row{stream: true}.body()}
	t.Run("the answer comes from the fallback after comments", func(t *testing.T) {
		inBubble(t, held, func(t *testing.T, w *world) {
			w.provider.Script("a-1", silence())
			w.provider.Script("b-9", late(9*time.Second, beta.says("from B")))
			o := w.do(t, ask)
			assert.Equal(t, "A 10s B", trace(o.calls))
			require.Equal(t, 200, o.status)
			assert.Equal(t, 2*time.Second, o.committed())
			assert.Equal(t, "from B", o.text(t))
			assert.Equal(t, 2, strings.Count(o.body, ": ka\n"), "at 2 s and at 17 s")
			assert.Empty(t, o.ends(t))
			checkRecords(t, o)
		})
	})
	t.Run("a failure of all is an error event", func(t *testing.T) {
		inBubble(t, held, func(t *testing.T, w *world) {
			w.provider.Script("a-1", silence())
			w.provider.Script("b-9", fails(400, "invalid_request_error", "invalid_value"))
			o := w.do(t, ask)
			require.Equal(t, 200, o.status)
			all := o.payloads(t)
			require.Len(t, all, 2)
			e := gjson.Get(all[0], "error")
			assert.Equal(t, "provider_error", e.Get("code").Str)
			assert.Equal(t, "invalid_request", e.Get("class").Str)
			assert.False(t, e.Get("partial").Bool())
			assert.True(t, e.Get("retry_safe").Bool())
			assert.Equal(t, "[DONE]", all[1])
		})
	})
	t.Run("a failure before it keeps its status", func(t *testing.T) {
		inBubble(t, held, func(t *testing.T, w *world) {
			w.provider.Script("a-1", badKey())
			o := w.do(t, ask)
			assert.Equal(t, 502, o.status)
			checkError(t, o, true)
		})
	})
	t.Run("a plain answer is never opened early", func(t *testing.T) {
		inBubble(t, held, func(t *testing.T, w *world) {
			w.provider.Script("a-1", late(5*time.Second, alpha.says("Hello")))
			o := w.do(t, request{body: row{}.body()})
			assert.Equal(t, "Hello", o.text(t))
			checkPlain(t, o)
		})
	})
}

// TestWholeToolCalls is contract §6: each call in one delta, after its arguments have arrived and can be read.
func TestWholeToolCalls(t *testing.T) {
	part := func(choice, index int, members string) string {
		return alpha.choice(choice, fmt.Sprintf(`{"tool_calls":[{"index":%d,%s}]}`, index, members), "")
	}
	open := func(choice, index int, id string) string {
		return part(choice, index, fmt.Sprintf(`"id":%q,"type":"function","function":{"name":"f","arguments":""}`, id))
	}
	args := func(choice, index int, fragment string) string {
		return part(choice, index, fmt.Sprintf(`"function":{"arguments":%q}`, fragment))
	}
	calls := func(t *testing.T, o outcome) (out []string) {
		for _, data := range o.payloads(t) {
			for _, c := range gjson.Get(data, "choices").Array() {
				for _, call := range c.Get("delta.tool_calls").Array() {
					out = append(out, fmt.Sprintf("%d/%d %s %s", c.Get("index").Int(), call.Get("index").Int(), call.Get("id").Str, call.Get("function.arguments").Str))
				}
			}
		}
		return out
	}
	are := func(want ...string) func(*testing.T, outcome) {
		return func(t *testing.T, o outcome) { assert.Equal(t, want, calls(t, o)) }
	}
	route := settings{route: `"tool_deltas": "whole"`}
	run(t, map[string]row{
		"two calls, each in one piece": {
			stream: true, settings: route, trace: "A", classes: "ok", text: "",
			a:     one(stream(alpha.role(), open(0, 0, "c1"), args(0, 0, `{"x":`), open(0, 1, "c2"), args(0, 0, `1}`), args(0, 1, `{}`), alpha.finish("tool_calls"), "[DONE]")),
			check: are(`0/0 c1 {"x":1}`, `0/1 c2 {}`),
		},
		"by header": {
			stream: true, header: header("X-LLM-Tool-Deltas", "whole"), trace: "A", classes: "ok",
			a:     one(stream(alpha.role(), open(0, 0, "c1"), args(0, 0, `{"x":`), args(0, 0, `1}`), alpha.finish("tool_calls"), "[DONE]")),
			check: are(`0/0 c1 {"x":1}`),
		},
		"a call without arguments": {
			stream: true, settings: route, trace: "A", classes: "ok",
			a:     one(stream(alpha.role(), open(0, 0, "c1"), alpha.finish("tool_calls"), "[DONE]")),
			check: are(`0/0 c1 {}`),
		},
		"what the provider counted before the end of a call is not counted again": {
			stream: true, more: usage, settings: route, trace: "A", classes: "ok",
			a: one(stream(alpha.role(), open(0, 0, "c1"), args(0, 0, `{"x":1}`), alpha.usage(), alpha.finish("tool_calls"), "[DONE]")),
			check: func(t *testing.T, o outcome) {
				assert.Contains(t, o.body, `"completion_tokens":2,`)
			},
		},
		"what of a call came after the count is estimated": {
			stream: true, more: usage, settings: route, trace: "A", classes: "ok",
			a: one(stream(alpha.role(), open(0, 0, "c1"), alpha.usage(), args(0, 0, `{"x":1}`), alpha.finish("tool_calls"), "[DONE]")),
			check: func(t *testing.T, o outcome) {
				assert.Contains(t, o.body, `"completion_tokens":4,`) // a name of one byte and seven more
			},
		},
		"a call that is named after its id": {
			stream: true, settings: route, trace: "A", classes: "ok",
			a: one(stream(alpha.role(), part(0, 0, `"id":"c1","type":"function"`), part(0, 0, `"function":{"name":"f"}`), args(0, 0, `{}`), alpha.finish("tool_calls"), "[DONE]")),
			check: func(t *testing.T, o outcome) {
				assert.Contains(t, o.body, `"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]`)
			},
		},
		"text goes on before the calls": {
			stream: true, settings: route, trace: "A", classes: "ok", text: "Hello",
			a:     one(stream(alpha.role(), alpha.text("Hel"), open(0, 0, "c1"), alpha.text("lo"), args(0, 0, `{}`), alpha.finish("tool_calls"), "[DONE]")),
			check: are(`0/0 c1 {}`),
		},
		"each choice at its own end": {
			stream: true, more: `,"n":2`, settings: route, trace: "A", classes: "ok",
			a: one(stream(alpha.role(), alpha.choice(1, `{"role":"assistant","content":""}`, ""), open(0, 0, "c1"), open(1, 0, "c2"), args(0, 0, `{"a":1}`),
				alpha.choice(0, `{}`, "tool_calls"), args(1, 0, `{"b":2}`), alpha.choice(1, `{}`, "tool_calls"), "[DONE]")),
			check: are(`0/0 c1 {"a":1}`, `1/0 c2 {"b":2}`),
		},
		"a cut inside a call is invisible: nothing of it was sent": {
			stream: true, settings: route, a: twice(cut(alpha.role(), open(0, 0, "c1"), args(0, 0, `{"x":`))), b: one(beta.says("from B")),
			trace: "A 200ms A B", classes: "network network ok", text: "from B",
		},
		"a cut after text and inside a call may be asked for again": {
			stream: true, settings: route, a: one(cut(alpha.role(), alpha.text("Hello"), open(0, 0, "c1"), args(0, 0, `{"x":`))),
			trace: "A", classes: "network", text: "Hello", ends: "provider_disconnect",
			check: func(t *testing.T, o outcome) {
				assert.Contains(t, o.body, `"retry_safe":true`)
				assert.Empty(t, calls(t, o))
			},
		},
		"arguments that cannot be read are never sent": {
			stream: true, settings: route, a: twice(stream(alpha.role(), open(0, 0, "c1"), args(0, 0, `{"x":`), alpha.finish("tool_calls"), "[DONE]")),
			b: one(beta.says("from B")), trace: "A 200ms A B", classes: "bad_response bad_response ok", text: "from B",
		},
		"a free-text tool's call is no JSON, and is one piece too": {
			stream: true, settings: route, trace: "A", classes: "ok",
			a: one(stream(alpha.role(), part(0, 0, `"id":"c1","type":"custom","custom":{"name":"sh","input":"ls "}`), part(0, 0, `"custom":{"input":"-l"}`),
				alpha.finish("tool_calls"), "[DONE]")),
			check: func(t *testing.T, o outcome) {
				assert.Contains(t, o.body, `"tool_calls":[{"index":0,"id":"c1","type":"custom","custom":{"name":"sh","input":"ls -l"}}]`)
			},
		},
		"a free-text tool's call in a plain answer": {
			trace: "A", classes: "ok",
			a: one(stream(alpha.role(), part(0, 0, `"id":"c1","type":"custom","custom":{"name":"sh","input":"ls -l"}`), alpha.finish("tool_calls"), "[DONE]")),
			check: func(t *testing.T, o outcome) {
				assert.Contains(t, o.body, `"tool_calls":[{"id":"c1","type":"custom","custom":{"name":"sh","input":"ls -l"}}]`)
			},
		},
		"arguments that nest beyond all sense are no arguments, and no end of the process": {
			stream: true, settings: route, a: twice(stream(alpha.role(), open(0, 0, "c1"), args(0, 0, strings.Repeat("[", 7<<20)), alpha.finish("tool_calls"), "[DONE]")),
			b: one(beta.says("from B")), trace: "A 200ms A B", classes: "bad_response bad_response ok", text: "from B",
		},
		"arguments beyond all bounds end the attempt": {
			stream: true, settings: route, model: "alone",
			a:     one(stream(alpha.role(), open(0, 0, "c1"), args(0, 0, strings.Repeat("1", 5<<20)), args(0, 0, strings.Repeat("1", 5<<20)), alpha.finish("tool_calls"), "[DONE]")),
			trace: "A", classes: "bad_response", status: 502, code: "provider_error", class: "bad_response", provider: "alpha",
		},
	})
}
