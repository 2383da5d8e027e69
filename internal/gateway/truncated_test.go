package gateway_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/tidwall/gjson"

	"spillway/internal/simulate"
)

// cutOff is a streamed text that the token limit cut off.
func (v voice) cutOff(s string) simulate.Reply {
	return stream(v.role(), v.text(s), v.finish("length"), v.usage(), done)
}

// limits are the output limits of the calls, in order; 0: none was sent.
func (o outcome) limits() (all []int64) {
	for i := range o.calls {
		all = append(all, max(o.upstream(i).Get("max_tokens").Int(), o.upstream(i).Get("max_completion_tokens").Int()))
	}
	return all
}

// reasons are the reasons of the decisions after failures, in order.
func (o outcome) reasons() string {
	var all []string
	for _, d := range o.of("provider_decision") {
		all = append(all, d.Reason)
	}
	return strings.Join(all, " ")
}

// TestATruncatedAnswer is contract §6 for structured output that its token limit cut off, on a route that wants it whole:
// one more call under twice the limit, then what follows every broken contract.
func TestATruncatedAnswer(t *testing.T) {
	const limited = schemaFormat + `,"max_tokens":100`
	again := func(limits []int64, reasons string) func(*testing.T, outcome) {
		return func(t *testing.T, o outcome) {
			assert.Equal(t, limits, o.limits(), "output limits")
			assert.Equal(t, reasons, o.reasons())
			assert.NotContains(t, o.raw, "circuit_transition")
		}
	}
	cut, whole := alpha.cutOff(`{"x`), alpha.pieces(kept)
	wants, declared := settings{route: `"truncated": "retry"`}, func(members string) settings {
		return settings{route: `"truncated": "retry"`, a: members}
	}
	uncounted := stream(alpha.role(), alpha.text(`{"x`), alpha.finish("length"), done)
	inTwo := func(first, second string) simulate.Reply {
		return stream(alpha.choice(0, `{"role":"assistant","content":""}`, ""), alpha.choice(1, `{"role":"assistant","content":""}`, ""), alpha.choice(0, `{"content":`+quoted(kept)+`}`, ""),
			alpha.choice(0, `{}`, first), alpha.choice(1, `{"content":`+quoted(second)+`}`, ""), alpha.choice(1, `{}`, "length"), alpha.usage(), done)
	}
	refused := func(r row, message string) row {
		r.status, r.code, r.class, r.headers = 502, "provider_error", "contract_violation", map[string]string{"X-Should-Retry": "false"}
		return withCheck(r, func(t *testing.T, o outcome) {
			assert.Contains(t, gjson.Get(o.body, "error.message").Str, message)
		})
	}
	const content, call = "/choices/0/message/content: truncated", "/choices/0/message/tool_calls/0/function/arguments: truncated"
	rows := map[string]row{
		"is asked for again with twice the limit": {settings: wants, more: limited, a: []simulate.Reply{cut, whole}, trace: "A A", classes: "contract_violation ok", text: kept,
			check: again([]int64{100, 200}, "larger_limit")},
		"the newer name of the limit": {settings: wants, more: schemaFormat + `,"max_completion_tokens":100`, a: []simulate.Reply{cut, whole}, trace: "A A", classes: "contract_violation ok", text: kept,
			check: func(t *testing.T, o outcome) {
				assert.EqualValues(t, 200, o.upstream(1).Get("max_completion_tokens").Int())
				assert.False(t, o.upstream(1).Get("max_tokens").Exists())
			}},
		"where the client set no limit it is twice what came": {settings: wants, more: schemaFormat, a: []simulate.Reply{cut, whole}, trace: "A A", classes: "contract_violation ok", text: kept,
			check: again([]int64{0, 4}, "larger_limit")},
		"where nobody counted what came there is no larger limit": {settings: wants, more: schemaFormat, a: one(uncounted), b: one(beta.pieces(kept)), trace: "A B", classes: "contract_violation ok", text: kept,
			check: again([]int64{0, 0}, "no_larger_limit")},
		"at most the longest output of the channel": {settings: declared(`"max_output": 150`), more: limited, a: []simulate.Reply{cut, whole}, trace: "A A", classes: "contract_violation ok", text: kept,
			check: again([]int64{100, 150}, "larger_limit")},
		"at most what is left of the channel's context": {settings: declared(`"context": 250`), more: limited, a: []simulate.Reply{cut, whole}, trace: "A A", classes: "contract_violation ok", text: kept,
			check: func(t *testing.T, o outcome) {
				assert.Equal(t, "larger_limit", o.reasons())
				assert.Greater(t, o.limits()[1], int64(150))
				assert.Less(t, o.limits()[1], int64(200))
			}},
		"no repetition under the same limit": {settings: declared(`"max_output": 100`), more: limited, a: one(cut), b: one(beta.pieces(kept)), trace: "A B", classes: "contract_violation ok", text: kept,
			check: again([]int64{100, 100}, "no_larger_limit")},
		"no repetition where the channel takes no limit": {settings: declared(`"drops": ["max_tokens"]`), more: limited, a: one(cut), b: one(beta.pieces(kept)), trace: "A B", classes: "contract_violation ok", text: kept,
			check: again([]int64{0, 100}, "no_larger_limit")},
		"cut off twice, then B, which has the larger limit from the start": {settings: wants, more: limited, a: twice(cut), b: one(beta.pieces(kept)), trace: "A A B", classes: "contract_violation contract_violation ok", text: kept,
			check: again([]int64{100, 200, 200}, "larger_limit no_larger_limit")},
		"a limit that was the candidate's own is not that of B": {settings: wants, more: schemaFormat, a: twice(cut), b: one(beta.pieces(kept)), trace: "A A B", classes: "contract_violation contract_violation ok", text: kept,
			check: again([]int64{0, 4, 0}, "larger_limit no_larger_limit")},
		"B's longest output holds": {settings: settings{route: `"truncated": "retry"`, b: `"max_output": 120`}, more: limited, a: twice(cut), b: one(beta.pieces(kept)), trace: "A A B", classes: "contract_violation contract_violation ok", text: kept,
			check: again([]int64{100, 200, 120}, "larger_limit no_larger_limit")},
		"whole at last, and breaks the schema": {settings: wants, more: limited, a: []simulate.Reply{cut, alpha.pieces(breaks)}, b: one(beta.pieces(kept)), trace: "A A B", classes: "contract_violation contract_violation ok", text: kept,
			check: again([]int64{100, 200, 200}, "larger_limit retries_used")},
		"broken, regenerated, and then cut off": {settings: wants, more: limited, a: []simulate.Reply{alpha.pieces(breaks), cut}, b: one(beta.pieces(kept)), trace: "A A B", classes: "contract_violation contract_violation ok", text: kept,
			check: again([]int64{100, 100, 100}, "regenerate_once retries_used")},
		"a failure after it keeps the larger limit": {settings: settings{route: `"truncated": "retry", "retry": {"contract_violation": 1, "overloaded": 2}`}, model: "alone", more: limited,
			a: []simulate.Reply{cut, overloaded(), whole}, trace: "A A 400ms A", classes: "contract_violation overloaded ok", text: kept, check: again([]int64{100, 200, 200}, "larger_limit transient")},
		"nobody gives the whole": refused(row{settings: wants, more: limited, a: twice(cut), b: one(beta.cutOff(`{"x`)), trace: "A A B", classes: "contract_violation contract_violation contract_violation", provider: "beta",
			check: again([]int64{100, 200, 200}, "larger_limit no_larger_limit no_larger_limit")}, content),
		"the only candidate does not give the whole": refused(row{settings: wants, model: "alone", more: limited, a: twice(cut), trace: "A A", classes: "contract_violation contract_violation", provider: "alpha",
			check: again([]int64{100, 200}, "larger_limit no_larger_limit")}, content),
		"a route that allows no retries": {settings: settings{route: `"truncated": "retry", "max_retries": 0`}, more: limited, a: one(cut), b: one(beta.pieces(kept)), trace: "A B", classes: "contract_violation ok", text: kept,
			check: again([]int64{100, 100}, "retries_used")},
		"nothing but reasoning": {settings: wants, more: limited, a: []simulate.Reply{stream(alpha.role(), alpha.delta(`{"reasoning_content":"hm"}`, ""), alpha.finish("length"), alpha.usage(), done), whole},
			trace: "A A", classes: "contract_violation ok", text: kept, check: again([]int64{100, 200}, "larger_limit")},
		"JSON without a schema": {settings: wants, more: objectFormat + `,"max_tokens":100`, a: []simulate.Reply{cut, whole}, trace: "A A", classes: "contract_violation ok", text: kept,
			check: again([]int64{100, 200}, "larger_limit")},
		"a strict call": {settings: wants, more: strictTool + `,"max_tokens":100`, a: []simulate.Reply{alpha.asks(`{"x":`, "length"), alpha.asks(kept, "tool_calls")}, trace: "A A", classes: "contract_violation ok",
			check: again([]int64{100, 200}, "larger_limit")},
		"a strict call before its arguments": {settings: wants, more: strictTool + `,"max_tokens":100`, a: []simulate.Reply{alpha.asks(``, "length"), alpha.asks(kept, "tool_calls")}, trace: "A A", classes: "contract_violation ok",
			check: again([]int64{100, 200}, "larger_limit")},
		"a loose call": {settings: wants, more: strings.Replace(strictTool, "true", "false", 1) + `,"max_tokens":100`, a: []simulate.Reply{alpha.asks(`{"x":`, "length"), alpha.asks(kept, "tool_calls")}, trace: "A A",
			classes: "contract_violation ok", check: again([]int64{100, 200}, "larger_limit")},
		"the second of two choices": {settings: wants, more: limited + `,"n":2`, a: []simulate.Reply{inTwo("stop", `{"x`), inTwo("length", kept)}, trace: "A A", classes: "contract_violation ok", text: kept,
			check: again([]int64{100, 200}, "larger_limit")},
		"whole all the same":            {settings: wants, more: limited, a: one(alpha.cutOff(kept)), trace: "A", classes: "ok", text: kept},
		"text, where nothing was asked": {settings: wants, more: `,"max_tokens":100`, a: one(cut), trace: "A", classes: "ok", text: `{"x`},
		"text beside a tool":            {settings: wants, more: tools + `,"max_tokens":100`, a: one(cut), trace: "A", classes: "ok", text: `{"x`},
		"a refusal":                     {settings: wants, more: limited, a: one(stream(alpha.role(), alpha.delta(`{"refusal":"no"}`, ""), alpha.finish("length"), done)), trace: "A", classes: "ok"},

		"a route that passes it on": {more: limited, a: one(cut), trace: "A", classes: "ok", text: `{"x`},
		// Its arguments cannot be read, so that it is no answer; the limit is the client's, and says nothing of the provider.
		"a route that passes it on: a call": {more: strictTool + `,"max_tokens":100`, a: one(alpha.asks(`{"x":`, "length")), b: one(beta.says("from B")), trace: "A B", classes: "contract_violation ok", text: "from B",
			check: again([]int64{100, 100}, "no_larger_limit")},
		"a route that passes it on: a call of the only candidate": refused(row{model: "alone", more: strictTool + `,"max_tokens":100`, a: one(alpha.asks(`{"x":`, "length")), trace: "A", classes: "contract_violation", provider: "alpha",
			check: again([]int64{100}, "no_larger_limit")}, call),
	}
	held := map[string]row{}
	for name, r := range rows {
		held[name+", plain"] = r
		r.stream = true
		r.route = strings.TrimPrefix(r.route+`, "commit": "complete"`, ", ")
		held[name+", held back whole"] = r
	}
	run(t, held)
}

// TestATruncatedAnswerInALiveStream: what has been sent cannot be taken back; where the route wants it whole it is not
// called an answer.
func TestATruncatedAnswerInALiveStream(t *testing.T) {
	wants := settings{route: `"truncated": "retry"`}
	wholeCalls := settings{route: `"truncated": "retry", "tool_deltas": "whole"`}
	ends := func(pointer string) func(*testing.T, outcome) {
		return func(t *testing.T, o outcome) {
			all := o.payloads(t)
			e := gjson.Get(all[len(all)-2], "error")
			assert.Equal(t, "contract_violation", e.Get("class").Str)
			assert.Contains(t, e.Get("message").Str, pointer+": truncated")
			assert.NotContains(t, o.body, `"finish_reason":"`)
			assert.NotContains(t, o.raw, "circuit_transition")
		}
	}
	passes := func(t *testing.T, o outcome) { assert.Contains(t, o.body, `"finish_reason":"length"`) }
	const limited = schemaFormat + `,"max_tokens":100`
	run(t, map[string]row{
		"a text":                            {stream: true, settings: wants, more: limited, a: one(alpha.cutOff(`{"x`)), trace: "A", classes: "contract_violation", text: `{"x`, ends: "contract_violation", check: ends("/choices/0/message/content")},
		"a call":                            {stream: true, settings: wants, more: strictTool, a: one(alpha.asks(`{"x":`, "length")), trace: "A", classes: "contract_violation", ends: "contract_violation", check: ends("/choices/0/message/tool_calls/0/function/arguments")},
		"whole all the same":                {stream: true, settings: wants, more: limited, a: one(alpha.cutOff(kept)), trace: "A", classes: "ok", text: kept, check: passes},
		"a route that passes it on":         {stream: true, more: limited, a: one(alpha.cutOff(`{"x`)), trace: "A", classes: "ok", text: `{"x`, check: passes},
		"a route that passes it on: a call": {stream: true, more: strictTool, a: one(alpha.asks(`{"x":`, "length")), trace: "A", classes: "contract_violation", ends: "contract_violation", check: ends("/choices/0/message/tool_calls/0/function/arguments")},
		"before the commit":                 {stream: true, settings: wants, more: limited, a: []simulate.Reply{{Body: strings.Replace(alpha.plain(`{"x`).Body, `"stop"`, `"length"`, 1)}, alpha.pieces(kept)}, trace: "A A", classes: "contract_violation ok", text: kept},
		"whole calls: can come back":        {stream: true, settings: wholeCalls, more: strictTool + `,"max_tokens":100`, a: []simulate.Reply{alpha.asks(`{"x":`, "length"), alpha.asks(kept, "tool_calls")}, trace: "A A", classes: "contract_violation ok"},
		"whole calls: one that lacks what its schema demands": {stream: true, settings: wholeCalls, more: strictTool + `,"max_tokens":100`, a: []simulate.Reply{alpha.asks(``, "length"), alpha.asks(kept, "tool_calls")},
			trace: "A A", classes: "contract_violation ok", check: func(t *testing.T, o outcome) { assert.Equal(t, []int64{100, 200}, o.limits()) }},
		"whole calls: a route that passes it on": {stream: true, settings: settings{route: `"tool_deltas": "whole"`}, more: strictTool + `,"max_tokens":100`, a: one(alpha.asks(`{"x":`, "length")), b: one(beta.says("from B")),
			trace: "A B", classes: "contract_violation ok", text: "from B"},
	})
}

// TestATruncatedAnswerIsRecorded: as an attempt of its own, with what it used; the client's request has only what answered.
func TestATruncatedAnswerIsRecorded(t *testing.T) {
	run(t, map[string]row{"both calls": {settings: settings{route: `"truncated": "retry"`}, more: schemaFormat + `,"max_tokens":100`, a: []simulate.Reply{alpha.cutOff(`{"x`), alpha.pieces(kept)},
		trace: "A A", classes: "contract_violation ok", text: kept, check: func(t *testing.T, o outcome) {
			attempts := o.of("attempt_finished")
			assert.Equal(t, 2, attempts[0].Completion, "what the failed call used")
			assert.False(t, attempts[0].Committed)
			assert.Equal(t, "retry", attempts[0].Decision)
			assert.Equal(t, 2, o.of("request_finished")[0].Completion, "the client is charged for the answering call alone")
		}}})
}

// TestATruncatedCallIsNoFailureOfTheProvider: a client that sets its limit too low for its tools opens no circuit, on
// whatever route.
func TestATruncatedCallIsNoFailureOfTheProvider(t *testing.T) {
	for name, s := range map[string]settings{"passed on": {}, "asked for again": {route: `"truncated": "retry"`}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, s, func(t *testing.T, w *world) {
				for range 8 { // fewer than the retry quota holds
					calls := one(alpha.asks(`{"x":`, "length"))
					if s.route != "" {
						calls = append(calls, calls[0])
					}
					w.provider.Script("a-1", calls...)
					o := w.do(t, request{body: row{model: "alone", more: strictTool + `,"max_tokens":5`}.body()})
					assert.Empty(t, w.provider.Unexpected())
					assert.Equal(t, 502, o.status)
					assert.Equal(t, "contract_violation", gjson.Get(o.body, "error.class").Str)
					assert.NotContains(t, o.raw, "circuit_transition")
				}
			})
		})
	}
}
