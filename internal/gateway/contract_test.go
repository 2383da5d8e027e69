package gateway_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/tidwall/gjson"

	"spillway/internal/simulate"
)

const (
	schemaFormat = `,"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}}}`
	objectFormat = `,"response_format":{"type":"json_object"}`
	strictTool   = `,"tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}}}]`

	kept   = `{"x":1}`
	breaks = `{"x":"VALUE"}`
)

// asks calls the tool f and ends for the reason.
func (v voice) asks(arguments, reason string) simulate.Reply {
	return stream(v.role(), v.delta(`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":`+quoted(arguments)+`}}]}`, ""),
		v.finish(reason), v.usage(), done)
}

func quoted(s string) string { return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"` }

// pieces is a streamed text in two pieces.
func (v voice) pieces(s string) simulate.Reply { return v.says(s[:len(s)/2], s[len(s)/2:]) }

// hides holds that nothing of a broken answer is seen, in the answer, the error or the records.
func hides(t *testing.T, o outcome) {
	t.Helper()
	assert.NotContains(t, o.body, "VALUE")
	assert.NotContains(t, o.raw, "VALUE")
}

// TestABrokenContract is contract §6 for answers that can still be taken back: one regeneration without a wait, then
// another candidate, then a 502.
func TestABrokenContract(t *testing.T) {
	complete := settings{route: `"commit": "complete"`}
	refused := func(r row, message string) row {
		r.status, r.code, r.class = 502, "provider_error", "contract_violation"
		r.headers = map[string]string{"X-Should-Retry": "false"}
		return withCheck(r, func(t *testing.T, o outcome) {
			hides(t, o)
			assert.Contains(t, gjson.Get(o.body, "error.message").Str, message)
			assert.False(t, gjson.Get(o.body, "error.retryable").Bool())
		})
	}
	rows := map[string]row{
		"an answer that keeps the schema":             {more: schemaFormat, a: one(alpha.pieces(kept)), trace: "A", classes: "ok", text: kept},
		"the regenerated answer keeps the schema":     {more: schemaFormat, a: []simulate.Reply{alpha.pieces(breaks), alpha.pieces(kept)}, trace: "A A", classes: "contract_violation ok", text: kept, check: hides},
		"an answer that is no JSON, then B":           {more: schemaFormat, a: twice(alpha.pieces(`{"x":`)), b: one(beta.pieces(kept)), trace: "A A B", classes: "contract_violation contract_violation ok", text: kept},
		"an answer that breaks the schema, then B":    {more: schemaFormat, a: twice(alpha.pieces(breaks)), b: one(beta.pieces(kept)), trace: "A A B", classes: "contract_violation contract_violation ok", text: kept, check: hides},
		"nobody keeps the schema":                     refused(row{more: schemaFormat, a: twice(alpha.pieces(breaks)), b: twice(beta.pieces(breaks)), trace: "A A B B", classes: strings.Repeat("contract_violation ", 3) + "contract_violation", provider: "beta"}, "/choices/0/message/content: schema_mismatch at /properties/x"),
		"the only candidate does not keep the schema": refused(row{model: "alone", more: schemaFormat, a: twice(alpha.pieces(`no`)), trace: "A A", classes: "contract_violation contract_violation", provider: "alpha"}, "/choices/0/message/content: not_json"),
		"an object":                     {more: objectFormat, a: one(alpha.pieces(breaks)), trace: "A", classes: "ok", text: breaks},
		"a list is no object":           {more: objectFormat, a: []simulate.Reply{alpha.pieces(`[{}]`), alpha.pieces(kept)}, trace: "A A", classes: "contract_violation ok", text: kept},
		"a strict call that fits":       {more: strictTool, a: one(alpha.asks(kept, "tool_calls")), trace: "A", classes: "ok"},
		"a strict call that does not":   {more: strictTool, a: []simulate.Reply{alpha.asks(breaks, "tool_calls"), alpha.asks(kept, "tool_calls")}, trace: "A A", classes: "contract_violation ok", check: hides},
		"a strict call, then B":         {more: strictTool, a: twice(alpha.asks(`{}`, "tool_calls")), b: one(beta.says("from B")), trace: "A A B", classes: "contract_violation contract_violation ok", text: "from B"},
		"a loose call need not fit":     {more: strings.Replace(strictTool, "true", "false", 1), a: one(alpha.asks(`{"x":"1"}`, "tool_calls")), trace: "A", classes: "ok"},
		"a truncated answer":            {more: schemaFormat, a: one(stream(alpha.role(), alpha.text(`{"x`), alpha.finish("length"), done)), trace: "A", classes: "ok", text: `{"x`},
		"a filtered answer":             {more: schemaFormat, a: one(stream(alpha.role(), alpha.text(`{"x`), alpha.finish("content_filter"), done)), trace: "A", classes: "ok", text: `{"x`},
		"a refusal":                     {more: schemaFormat, a: one(stream(alpha.role(), alpha.delta(`{"refusal":"no"}`, ""), alpha.finish("stop"), done)), trace: "A", classes: "ok"},
		"text, where nothing was asked": {a: one(alpha.pieces(breaks)), trace: "A", classes: "ok", text: breaks},
	}
	held := map[string]row{}
	for name, r := range rows {
		held[name+", plain"] = r
		r.stream, r.settings = true, complete
		held[name+", held back whole"] = r
	}
	run(t, held)
}

// TestABrokenContractInALiveStream: what has been sent cannot be taken back, but is never called whole.
func TestABrokenContractInALiveStream(t *testing.T) {
	breach := func(text string, safe bool) func(*testing.T, outcome) {
		return func(t *testing.T, o outcome) {
			all := o.payloads(t)
			e := gjson.Get(all[len(all)-2], "error")
			assert.Equal(t, "contract_violation", e.Get("class").Str)
			assert.Equal(t, safe, e.Get("retry_safe").Bool(), "retry_safe")
			assert.Contains(t, e.Get("message").Str, text)
			assert.NotContains(t, e.Raw, "VALUE")
			assert.JSONEq(t, spoken, e.Get("usage").Raw, "the provider's count")
			assert.NotRegexp(t, `"finish_reason":"`, o.body, "no finish_reason is followed by an error")
			assert.Equal(t, 2, o.answering(t).Completion)
			assert.Equal(t, "interrupted", o.answering(t).Decision)
			assert.Equal(t, "interrupted", o.of("request_finished")[0].Outcome)
		}
	}
	ended := func(reasons int) func(*testing.T, outcome) {
		return func(t *testing.T, o outcome) {
			assert.Equal(t, reasons, strings.Count(o.body, `"finish_reason":"`), "ends")
			assert.NotContains(t, o.body, `"error"`)
		}
	}
	whole := settings{route: `"tool_deltas": "whole"`}
	two := func(first, second string) simulate.Reply {
		return stream(alpha.choice(0, `{"role":"assistant","content":""}`, ""), alpha.choice(1, `{"role":"assistant","content":""}`, ""), alpha.choice(0, `{"content":`+quoted(first)+`}`, ""),
			alpha.choice(0, `{}`, "stop"), alpha.choice(1, `{"content":`+quoted(second)+`}`, ""), alpha.choice(1, `{}`, "stop"), alpha.usage(), done)
	}
	slow := alpha.pieces(kept)
	slow.Stream[len(slow.Stream)-2].After = time.Second // usage comes late
	run(t, map[string]row{
		"a text that keeps the schema": {stream: true, more: schemaFormat + usage, a: one(alpha.pieces(kept)), trace: "A", classes: "ok", text: kept, check: ended(1)},
		"the end does not wait for usage": {stream: true, more: schemaFormat, a: one(slow), trace: "A", classes: "ok", text: kept, check: func(t *testing.T, o outcome) {
			ended(1)(t, o)
			for _, p := range o.pieces {
				if strings.Contains(p.data, `"finish_reason":"stop"`) {
					assert.Zero(t, p.at)
				}
			}
		}},
		"a text that breaks the schema":                    {stream: true, more: schemaFormat, a: one(alpha.pieces(breaks)), trace: "A", classes: "contract_violation", text: breaks, ends: "contract_violation", check: breach("/choices/0/message/content: schema_mismatch at /properties/x", true)},
		"a text that is no JSON":                           {stream: true, more: schemaFormat, a: one(alpha.pieces(`{"x":`)), trace: "A", classes: "contract_violation", text: `{"x":`, ends: "contract_violation", check: breach("not_json", true)},
		"a text that is no object":                         {stream: true, more: objectFormat, a: one(alpha.pieces(`[1]`)), trace: "A", classes: "contract_violation", text: `[1]`, ends: "contract_violation", check: breach("not_object", true)},
		"behind a prefix":                                  {stream: true, more: schemaFormat, settings: settings{route: `"commit": "prefix", "prefix_tokens": 2`}, a: one(alpha.pieces(breaks)), trace: "A", classes: "contract_violation", text: breaks, ends: "contract_violation", check: breach("schema_mismatch", true)},
		"a prefix that is never full":                      {stream: true, more: schemaFormat, settings: settings{route: `"commit": "prefix", "prefix_tokens": 9`}, a: []simulate.Reply{alpha.pieces(breaks), alpha.pieces(kept)}, trace: "A A", classes: "contract_violation ok", text: kept, check: ended(1)},
		"a truncated text":                                 {stream: true, more: schemaFormat, a: one(stream(alpha.role(), alpha.text(`{"x`), alpha.finish("length"), done)), trace: "A", classes: "ok", text: `{"x`, check: ended(1)},
		"a strict call that fits":                          {stream: true, more: strictTool, a: one(alpha.asks(kept, "tool_calls")), trace: "A", classes: "ok", check: ended(1)},
		"a strict call that does not":                      {stream: true, more: strictTool, a: one(alpha.asks(`{}`, "tool_calls")), trace: "A", classes: "contract_violation", ends: "contract_violation", check: breach("/choices/0/message/tool_calls/0/function/arguments: schema_mismatch", false)},
		"a call that cannot be read":                       {stream: true, more: tools, a: one(alpha.asks(`{"x":`, "tool_calls")), trace: "A", classes: "contract_violation", ends: "contract_violation", check: breach("not_json", false)},
		"a truncated call":                                 {stream: true, more: strictTool, a: one(alpha.asks(`{"x":`, "length")), trace: "A", classes: "contract_violation", ends: "contract_violation", check: breach("/choices/0/message/tool_calls/0/function/arguments: truncated", false)},
		"a truncated call, readable all the same":          {stream: true, more: strictTool, a: one(alpha.asks(`{}`, "length")), trace: "A", classes: "ok", check: ended(1)},
		"two choices that keep the schema":                 {stream: true, more: schemaFormat + `,"n":2`, a: one(two(kept, kept)), trace: "A", classes: "ok", text: kept, check: ended(2)},
		"the second of two choices does not":               {stream: true, more: schemaFormat + `,"n":2`, a: one(two(kept, breaks)), trace: "A", classes: "contract_violation", text: kept, ends: "contract_violation", check: breach("/choices/1/message/content", true)},
		"a stream that breaks before its end is no breach": {stream: true, more: schemaFormat, a: one(cut(alpha.role(), alpha.text(`{"x`))), trace: "A", classes: "network", text: `{"x`, ends: "provider_disconnect"},
		"one body is held to it before the commit":         {stream: true, more: schemaFormat, a: []simulate.Reply{alpha.plain(breaks), alpha.pieces(kept)}, trace: "A A", classes: "contract_violation ok", text: kept, check: ended(1)},

		"whole calls: one that does not fit is never sent": {stream: true, more: strictTool, settings: whole, a: []simulate.Reply{alpha.asks(breaks, "tool_calls"), alpha.asks(kept, "tool_calls")},
			trace: "A A", classes: "contract_violation ok", check: func(t *testing.T, o outcome) {
				hides(t, o)
				ended(1)(t, o)
			}},
		"whole calls: one that was truncated before its arguments": {stream: true, more: strictTool, settings: whole, a: one(alpha.asks("", "length")), trace: "A", classes: "ok", check: ended(1)},
		"one choice, where two were asked for":                     {stream: true, more: schemaFormat + `,"n":2`, a: one(alpha.pieces(kept)), trace: "A", classes: "ok", text: kept, check: ended(1)},
		"one choice that breaks the schema, where two were asked for": {stream: true, more: schemaFormat + `,"n":2`, a: one(alpha.pieces(breaks)), trace: "A", classes: "contract_violation", text: breaks, ends: "contract_violation",
			check: breach("schema_mismatch", true)},
		"one choice, where two were asked for, and a prefix that is never full": {stream: true, more: schemaFormat + `,"n":2`, settings: settings{route: `"commit": "prefix", "prefix_tokens": 9`},
			a: []simulate.Reply{alpha.pieces(breaks), alpha.pieces(kept)}, trace: "A A", classes: "contract_violation ok", text: kept, check: ended(1)},
		"whole calls: nor behind text": {stream: true, more: strictTool, settings: whole, trace: "A", classes: "contract_violation", text: "Hello", ends: "contract_violation",
			a: one(stream(alpha.role(), alpha.text("Hello"), alpha.delta(`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":`+quoted(breaks)+`}}]}`, ""), alpha.finish("tool_calls"), alpha.usage(), done)),
			check: func(t *testing.T, o outcome) {
				hides(t, o)
				assert.NotContains(t, o.body, "tool_calls")
				assert.Contains(t, o.body, `"retry_safe":true`)
			}},
	})
}

// TestABrokenContractIsNoFailureOfTheProvider: the class weighs nothing, however often it comes.
func TestABrokenContractIsNoFailureOfTheProvider(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		for range 8 { // fewer than the retry quota holds
			w.provider.Script("a-1", twice(alpha.pieces(breaks))...)
			o := w.do(t, request{body: row{model: "alone", more: schemaFormat}.body()})
			assert.Equal(t, "A A", trace(o.calls))
			assert.Equal(t, 502, o.status)
			assert.NotContains(t, o.raw, "circuit_transition")
		}
	})
}

// TestASchemaThatCannotBeChecked is refused before any provider is called.
func TestASchemaThatCannotBeChecked(t *testing.T) {
	remote := strings.Replace(schemaFormat, `{"type":"integer"}`, `{"$ref":"https://example.com/s.json"}`, 1)
	look := strings.Replace(strictTool, `{"type":"integer"}`, `{"pattern":"(?=a)"}`, 1)
	refused := func(more, param, pointer string) row {
		return row{more: more, status: 400, code: "unsupported_schema", check: func(t *testing.T, o outcome) {
			assert.Equal(t, param, gjson.Get(o.body, "error.param").Str)
			assert.Contains(t, gjson.Get(o.body, "error.message").Str, pointer)
		}}
	}
	run(t, both(map[string]row{
		"another document":           refused(remote, "response_format.json_schema.schema", "#/properties/x/$ref"),
		"a pattern that looks ahead": refused(look, "tools[0].function.parameters", "#/properties/x/pattern"),
	}))
}
