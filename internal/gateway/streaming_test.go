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

// answering is the record of the attempt that answered.
func (o outcome) answering(t *testing.T) record {
	t.Helper()
	all := o.of("attempt_finished")
	require.NotEmpty(t, all)
	return all[len(all)-1]
}

// committedAt holds the moment at which the status line and the first byte went out: not earlier, not later.
func committedAt(d time.Duration) func(*testing.T, outcome) {
	return func(t *testing.T, o outcome) {
		assert.Equal(t, d, o.committed(), "the status line was sent")
		for _, p := range o.pieces {
			assert.GreaterOrEqual(t, p.at, d)
		}
	}
}

// TestTheFirstContentCommits is B19: what comes before the first content can still be taken back.
func TestTheFirstContentCommits(t *testing.T) {
	preamble := func(frames ...string) simulate.Reply {
		return stream(append(frames, `{"error":{"type":"service_unavailable_error","code":"server_is_overloaded","message":"`+theirs+`"}}`)...)
	}
	takenBack := func(a simulate.Reply, class string) row {
		return row{stream: true, a: twice(a), b: one(beta.says("Hel", "lo")), trace: "A 200ms A B", classes: class + " " + class + " ok", text: "Hello",
			check: func(t *testing.T, o outcome) {
				assert.NotContains(t, o.body, alpha.id)
				assert.NotContains(t, o.body, alpha.model)
				assert.Equal(t, beta.model, o.header.Get("X-LLM-Model"))
			}}
	}
	// broken is a stream that breaks at a frame that was content.
	broken := func(frame string) row {
		return row{stream: true, a: one(cut(alpha.role(), frame)), trace: "A", classes: "network", ends: "provider_disconnect"}
	}
	// padded are n frames without content, of the size.
	padded := func(n, size int, choices string) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = alpha.frame(choices+`,"padding":"`+strings.Repeat("x", size)+`"`, "")
		}
		return out
	}
	const empty = `[{"index":0,"delta":{"content":""},"finish_reason":null}]`
	long := padded(70, 4300, empty)
	slow := simulate.Reply{Stream: []simulate.Chunk{
		{After: 100 * time.Millisecond, Data: "data: " + alpha.role() + "\n\n"},
		{After: 1400 * time.Millisecond, Data: "data: " + alpha.text("late") + "\n\n"},
		{Data: "data: " + alpha.finish("stop") + "\n\ndata: " + alpha.usage() + "\n\ndata: [DONE]\n\n"}}}
	run(t, map[string]row{
		"an error behind the role (B19 a)":             takenBack(preamble(alpha.role()), "overloaded"),
		"an error behind a role without content (B19)": takenBack(preamble(alpha.delta(`{"role":"assistant","content":null}`, "")), "overloaded"),
		"an error behind prompt filter results (B19)":  takenBack(preamble(`{"id":"","choices":[],"prompt_filter_results":[]}`), "overloaded"),
		"an error behind usage (B19)":                  takenBack(preamble(alpha.role(), alpha.usage()), "overloaded"),
		"an error behind a comment and a blank event (B19)": takenBack(simulate.Reply{Stream: []simulate.Chunk{{Data: ": ping\n\ndata: \n\nevent: ping\ndata: {}\n\n"},
			{Data: "data: " + alpha.role() + "\n\ndata: {\"error\":{\"type\":\"overloaded_error\",\"message\":\"m\"}}\n\n"}}}, "overloaded"),
		"an error behind a part of a call without a name (B19)": takenBack(preamble(alpha.delta(`{"tool_calls":[{"index":0,"function":{"arguments":""}}]}`, "")), "overloaded"),
		"an error as the very first frame (B07 f)":              takenBack(preamble(), "overloaded"),
		"a money code in the first frame is final (B01 f)": {
			stream: true, a: one(stream(alpha.role(), `{"error":{"code":"insufficient_quota","message":"`+theirs+`"}}`)), trace: "A", classes: "quota",
			status: 502, code: "provider_error", class: "quota", provider: "alpha", headers: map[string]string{"Content-Type": "application/json"},
			check: func(t *testing.T, o outcome) { assert.Equal(t, "a-key:quota", o.alerts()) },
		},
		"the time to the first token is that to the first content (B19 c)": {
			stream: true, a: one(slow), trace: "A", classes: "ok", text: "late",
			check: func(t *testing.T, o outcome) {
				committedAt(1500*time.Millisecond)(t, o)
				assert.InDelta(t, 1500, o.answering(t).FirstContent, 0.001)
			},
		},
		"a role and the end of the connection (B19 d)": withCheck(takenBack(cut(alpha.role()), "bad_response"), func(t *testing.T, o outcome) {
			assert.Zero(t, o.of("attempt_finished")[0].FirstContent, "no time to the first token")
		}),
		"headers and the end of the connection (F32)": takenBack(cut(), "bad_response"),
		"what is held back is bounded (B19 e)": {
			stream: true, a: one(stream(append(long, alpha.text("x"), alpha.finish("stop"), done)...)), trace: "A", classes: "ok", text: "x",
			check: func(t *testing.T, o outcome) {
				assert.Len(t, o.payloads(t), 70+3, "everything, in order")
				assert.Equal(t, 70, strings.Count(o.body, "padding"))
				assert.Less(t, strings.LastIndex(o.body, "padding"), strings.Index(o.body, `"content":"x"`))
			},
		},
		"past the bound of frames there is no way back (B19 e)": {stream: true, a: one(cut(padded(65, 10, empty)...)), trace: "A", classes: "bad_response", ends: "stream_interrupted"},
		"past the bound of bytes there is no way back (B19 e)":  {stream: true, a: one(cut(padded(14, 20_000, empty)...)), trace: "A", classes: "bad_response", ends: "stream_interrupted"},
		"up to the bounds there is one (B19 e)":                 takenBack(cut(padded(64, 3800, empty)...), "bad_response"),
		"what is not forwarded does not count (B19 e)":          takenBack(cut(padded(70, 4300, "[]")...), "bad_response"),
		"time to the first token behind the bound is that to the first content too": withCheck(row{stream: true, a: one(func() simulate.Reply {
			r := stream(append(padded(65, 10, empty), alpha.text("x"), alpha.finish("stop"), done)...)
			r.Stream[65].After = time.Second
			return r
		}()), trace: "A", classes: "ok", text: "x"},
			func(t *testing.T, o outcome) { assert.InDelta(t, 1000, o.answering(t).FirstContent, 0.001) }),
		"a refusal is content":          broken(alpha.delta(`{"refusal":"no"}`, "")),
		"surfaced reasoning is content": broken(alpha.delta(`{"reasoning_content":"hm"}`, "")),
		"a call with a name is content": broken(alpha.delta(`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":""}}]}`, "")),
		"a legitimate end is content":   {stream: true, a: one(stream(alpha.role(), alpha.finish("stop"), done)), trace: "A", classes: "ok"},
	})
}

// TestAStreamThatDies is B20: half an answer never looks like a whole one.
func TestAStreamThatDies(t *testing.T) {
	hello := func(more ...string) []string {
		return append([]string{alpha.role(), alpha.text("Hel"), alpha.text("lo")}, more...)
	}
	call := alpha.delta(`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\":"}}]}`, "")
	safe := func(want bool) func(*testing.T, outcome) {
		return func(t *testing.T, o outcome) {
			all := o.payloads(t)
			e := gjson.Get(all[len(all)-2], "error")
			assert.Equal(t, want, e.Get("retry_safe").Bool(), "retry_safe: %s", e.Raw)
			assert.True(t, e.Get("partial").Bool(), "partial: %s", e.Raw)
			assert.Equal(t, "alpha", e.Get("provider").Str)
			assert.Equal(t, "interrupted", o.answering(t).Decision)
			assert.True(t, o.answering(t).Committed)
			assert.Equal(t, "interrupted", o.of("request_finished")[0].Outcome)
		}
	}
	dies := func(a simulate.Reply, class, ends string) row {
		return row{stream: true, a: one(a), trace: "A", classes: class, text: "Hello", ends: ends, check: safe(true)}
	}
	tool := dies(cut(hello(call)...), "network", "provider_disconnect")
	tool.check = safe(false)
	counted := dies(cut(hello(alpha.frame(`[{"index":0,"delta":{"content":""},"finish_reason":null}]`, spoken))...), "network", "provider_disconnect")
	counted.check = func(t *testing.T, o outcome) {
		safe(true)(t, o)
		all := o.payloads(t)
		assert.JSONEq(t, spoken, gjson.Get(all[len(all)-2], "error.usage").Raw, "partial usage is in the error")
		assert.Equal(t, 2, o.answering(t).Completion, "partial usage is booked")
	}
	secretive := dies(stream(hello(`{"error":{"message":"`+theirs+` sk-`+secret+`-A at a.`+domain+`","code":"sk-`+secret+`-A"}}`)...), "bad_response", "stream_interrupted")
	run(t, map[string]row{
		"the connection breaks (B20 a)":                     dies(cut(hello()...), "network", "provider_disconnect"),
		"the stream just ends (B20 a)":                      dies(stream(hello()...), "network", "provider_disconnect"),
		"[DONE] without an end of the answer":               dies(stream(hello(done)...), "network", "provider_disconnect"),
		"an error event (B20 b)":                            dies(stream(hello(`{"error":{"code":"overloaded","message":"`+theirs+`"}}`)...), "overloaded", "stream_interrupted"),
		"an error event that tells secrets":                 secretive,
		"half a tool call (B20 e)":                          tool,
		"broken JSON, then no end (B20 f)":                  dies(cut(hello(`{"id":`)...), "bad_response", "stream_interrupted"),
		"broken JSON twice, then an end (B20 f)":            dies(stream(hello(`{"id":`, `{"id":`, alpha.finish("stop"), done)...), "bad_response", "stream_interrupted"),
		"silence until the idle limit":                      withRoute(dies(simulate.Events(0, simulate.Stall, hello()...), "timeout", "stream_interrupted"), `"idle_ms": 10000`, 10*time.Second),
		"partial usage is told and booked":                  counted,
		"a finish reason that is a failure":                 dies(stream(hello(alpha.finish("error"), done)...), "bad_response", "stream_interrupted"),
		"broken JSON once, then an end, is skipped (B20 f)": {stream: true, a: one(stream(hello(`{"id":`, alpha.finish("stop"), done)...)), trace: "A", classes: "ok", text: "Hello"},
		"an end without [DONE] is an end (B20 c)":           {stream: true, a: one(stream(hello(alpha.finish("stop"))...)), trace: "A", classes: "ok", text: "Hello"},
		"an end, then a broken connection (B20 c)":          {stream: true, a: one(cut(hello(alpha.finish("stop"))...)), trace: "A", classes: "ok", text: "Hello"},
		"an end, then an error":                             {stream: true, a: one(stream(hello(alpha.finish("stop"), `{"error":{"message":"`+theirs+`"}}`)...)), trace: "A", classes: "ok", text: "Hello"},
		"an end, then silence: usage is waited for briefly (F11)": {stream: true, a: one(simulate.Events(0, simulate.Stall, hello(alpha.finish("stop"))...)),
			trace: "A", classes: "ok", text: "Hello", check: func(t *testing.T, o outcome) {
				assert.GreaterOrEqual(t, o.returned, 1500*time.Millisecond)
				assert.LessOrEqual(t, o.returned, 1700*time.Millisecond)
			}},
		"an end and usage, then silence: nothing is waited for (F11)": {stream: true, more: usage, a: one(simulate.Events(0, simulate.Stall, hello(alpha.finish("stop"), alpha.usage())...)),
			trace: "A", classes: "ok", text: "Hello", check: func(t *testing.T, o outcome) {
				all := o.pieces
				assert.Zero(t, all[len(all)-1].at, "the client's end")
			}},
		"no content at all (B20 g)":              {stream: true, a: twice(stream(done)), b: one(beta.says("B")), trace: "A 200ms A B", classes: "bad_response bad_response ok", text: "B"},
		"a plain client never sees a part (B20)": {a: twice(cut(hello()...)), b: one(beta.says("B")), trace: "A 200ms A B", classes: "network network ok", text: "B"},
	})
}

func withRoute(r row, members string, returned time.Duration) row {
	r.route, r.returned = members, returned
	return r
}

// TestUsage is B21: usage is asked for, counted once, and told once to those who asked.
func TestUsage(t *testing.T) {
	const estimated = -1 // by the gateway, where the provider says nothing of the prompt
	const eight = `{"prompt_tokens":4,"completion_tokens":8,"total_tokens":12}`
	stop := func(usage string) string {
		return alpha.frame(`[{"index":0,"delta":{},"finish_reason":"stop"}]`, usage)
	}
	said := func(content, usage string) string {
		return alpha.frame(fmt.Sprintf(`[{"index":0,"delta":{"content":%q}}]`, content), usage)
	}
	ok := func(end ...string) simulate.Reply {
		return stream(append([]string{alpha.role(), alpha.text("ok")}, end...)...)
	}
	tests := map[string]struct {
		a                  simulate.Reply
		prompt, completion int
	}{
		"twice: beside the end, and after it (B21 a)": {ok(alpha.frame(`[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"g","usage":`+eight+`}`, ""), alpha.frame(`[]`, eight), done), 4, 8},
		"in a chunk with an empty delta (B21 b)":      {ok(alpha.finish("stop"), alpha.frame(`[{"index":0,"delta":{}}]`, `{"completion_tokens":8}`), done), estimated, 8},
		"after prompt filter results (B21 c)": {stream(`{"id":"","object":"","created":0,"model":"","choices":[],"prompt_filter_results":[{"prompt_index":0}]}`,
			alpha.role(), alpha.text("ok"), alpha.finish("stop"), alpha.usage(), done), 7, 2},
		"after a choice without delta (B21 d)": {ok(alpha.frame(`[{"index":0,"finish_reason":null}]`, ""), alpha.finish("stop"), alpha.usage(), done), 7, 2},
		"an end without delta":                 {ok(alpha.frame(`[{"index":0,"finish_reason":"stop"}]`, ""), alpha.usage(), done), 7, 2},
		"a first choice without delta":         {stream(alpha.frame(`[{"index":0}]`, ""), alpha.text("ok"), alpha.finish("stop"), alpha.usage(), done), 7, 2},
		"without choices at all (B21 e)":       {ok(alpha.finish("stop"), `{"usage":`+eight+`}`, done), 4, 8},
		"in every chunk, growing: the last counts": {stream(said("o", `{"prompt_tokens":4,"completion_tokens":1}`), said("k", `{"prompt_tokens":4,"completion_tokens":2}`),
			stop(`{"prompt_tokens":4,"completion_tokens":3}`), done), 4, 3},
		"the prompt's at the start, the rest at the end": {stream(said("ok", `{"prompt_tokens":4,"completion_tokens":0}`), alpha.finish("stop"), alpha.frame(`[]`, eight), done), 4, 8},
		"null until the end":                             {stream(said("ok", "null"), stop("null"), alpha.frame(`[]`, eight), done), 4, 8},
		"an end that is said twice":                      {ok(alpha.finish("stop"), stop(eight), done), 4, 8},
	}
	rows := map[string]row{}
	for name, tt := range tests {
		r := row{a: one(tt.a), trace: "A", classes: "ok", text: "ok", check: func(t *testing.T, o outcome) {
			assert.Equal(t, "true", o.upstream(0).Get("stream_options.include_usage").Raw, "usage is asked for upstream")
			assert.Equal(t, 1, strings.Count(o.calls[0].body, `"stream_options"`), "stream_options go upstream once")
			if tt.prompt == estimated {
				assert.Positive(t, o.answering(t).PromptTokens, "prompt_tokens of the record")
			} else {
				assert.Equal(t, tt.prompt, o.answering(t).PromptTokens, "prompt_tokens of the record")
			}
			assert.Equal(t, tt.completion, o.answering(t).Completion, "completion_tokens of the record")
		}}
		rows[name+", plain"] = withCheck(r, func(t *testing.T, o outcome) {
			assert.Equal(t, int64(tt.completion), gjson.Get(o.body, "usage.completion_tokens").Int())
		})
		r.stream = true
		rows[name+", and nobody asks (B21 g)"] = r
		r.more = usage
		rows[name+", and the client asks (B21 h)"] = withCheck(r, func(t *testing.T, o outcome) {
			all := o.payloads(t)
			last := gjson.Parse(all[len(all)-2])
			assert.Equal(t, "[]", last.Get("choices").Raw)
			assert.Equal(t, int64(tt.completion), last.Get("usage.completion_tokens").Int())
		})
	}
	run(t, rows)
}

// TestLongLines is B22: the length of a line cuts nothing, up to a limit that ends the answer loudly.
func TestLongLines(t *testing.T) {
	// line is a frame whose line, "data: " included, has the length.
	line := func(length int) (frame, text string) {
		frame = `{"choices":[{"index":0,"delta":{"content":""}}]}`
		text = strings.Repeat("a", length-len(frame)-len("data: "))
		return `{"choices":[{"index":0,"delta":{"content":"` + text + `"}}]}`, text
	}
	rows := map[string]row{}
	for name, length := range map[string]int{"64 KiB less one (B22 a)": 65535, "64 KiB (B22 b)": 65536, "a MiB and one (B22 c)": 1<<20 + 1} {
		frame, text := line(length)
		rows[name] = row{a: one(stream(frame, alpha.finish("stop"), done)), trace: "A", classes: "ok", text: text}
	}
	rows = both(rows)
	limited := settings{maxEvent: 100_000}
	tooLong, _ := line(100_100)
	rows["above the limit, before content (B22 d)"] = row{stream: true, settings: limited, a: twice(stream(alpha.role(), tooLong, alpha.finish("stop"), done)),
		b: one(beta.says("B")), trace: "A 200ms A B", classes: "bad_response bad_response ok", text: "B"}
	rows["above the limit, after content (B22 e)"] = row{stream: true, settings: limited, a: one(stream(alpha.role(), alpha.text("Hel"), tooLong, alpha.finish("stop"), done)),
		trace: "A", classes: "bad_response", text: "Hel", ends: "stream_interrupted"}
	rows["above the limit, for a plain client"] = row{settings: limited, a: twice(stream(alpha.role(), alpha.text("Hel"), tooLong, alpha.finish("stop"), done)),
		b: one(beta.says("B")), trace: "A 200ms A B", classes: "bad_response bad_response ok", text: "B"}
	run(t, rows)
}

// TestFraming is B23 with OpenAI's frames: the same answer however the stream is spelled and cut. Package sse tests every
// cut; here each spelling comes whole, byte by byte, and cut once in each tenth of it.
func TestFraming(t *testing.T) {
	hello, world := alpha.text("🌍é漢 Hel"), alpha.text("lo\u2028 w")
	end := alpha.finish("stop")
	lines := func(nl string) string {
		return "data: " + hello + nl + nl + "data: " + world + nl + nl + "data: " + end + nl + nl + "data: [DONE]" + nl + nl
	}
	spellings := map[string]string{
		"LF (B23 a, h, l)":                 lines("\n"),
		"CRLF (B23 b)":                     lines("\r\n"),
		"CR (B23 c)":                       lines("\r"),
		"LF and CRLF mixed (B23 d)":        strings.Replace(lines("\n"), "\n\n", "\n\r\n", 2),
		"no space (B23 e)":                 strings.ReplaceAll(lines("\n"), "data: ", "data:"),
		"a byte order mark (B23 f)":        "\xEF\xBB\xBF" + lines("\n"),
		"a frame on two lines (B23 g)":     strings.Replace(lines("\n"), `,"object"`, "\ndata: ,\"object\"", 2),
		"event names (B23 i)":              strings.ReplaceAll(lines("\n"), "data: {", "event: chunk\ndata: {"),
		"ids and times (B23 j)":            strings.ReplaceAll(lines("\n"), "data: {", "id: 7\nretry: 100\ndata: {"),
		"comments":                         strings.ReplaceAll(lines("\n"), "data: {", ": ping\n\ndata: {"),
		"no blank line at the end (B23 k)": "data: " + hello + "\n\ndata: " + world + "\n\ndata: " + end,
	}
	rows := map[string]row{}
	for name, text := range spellings {
		for cuts, pieces := range map[string][]string{"whole": {text}, "byte by byte": strings.Split(text, "")} {
			if cuts != "whole" {
				pieces = bytesOf(text)
			}
			rows[name+", "+cuts] = framed(pieces)
		}
		for i := range 10 {
			at := len(text) * i / 10
			rows[fmt.Sprintf("%s, cut at %d", name, at)] = framed([]string{text[:at], text[at:]})
		}
	}
	run(t, rows)
}

func framed(pieces []string) row {
	r := simulate.Reply{Stream: []simulate.Chunk{}}
	for _, p := range pieces {
		r.Stream = append(r.Stream, simulate.Chunk{Data: p})
	}
	return row{stream: true, a: one(r), trace: "A", classes: "ok", text: "🌍é漢 Hello\u2028 w"}
}

func bytesOf(s string) []string {
	out := make([]string, len(s))
	for i := range len(s) {
		out[i] = s[i : i+1]
	}
	return out
}

// slowly is an answer of these pieces, each after its silence.
func slowly(gaps ...time.Duration) simulate.Reply {
	r := simulate.Reply{Stream: []simulate.Chunk{{Data: "data: " + alpha.role() + "\n\n"}}}
	for _, gap := range gaps {
		r.Stream = append(r.Stream, simulate.Chunk{After: gap, Data: "data: " + alpha.text("x") + "\n\n"})
	}
	r.Stream = append(r.Stream, simulate.Chunk{Data: "data: " + alpha.finish("stop") + "\n\ndata: " + alpha.usage() + "\n\ndata: [DONE]\n\n"})
	return r
}

// alive are the moments of the keep-alives.
func (o outcome) alive() []time.Duration {
	var out []time.Duration
	for _, p := range o.pieces {
		if p.data == ": ka\n" {
			out = append(out, p.at)
		}
	}
	return out
}

// TestKeepAlive: a committed stream that is silent for 15 s gets a comment; before the commit there is not one byte
// (contract §4).
func TestKeepAlive(t *testing.T) {
	const s = time.Second
	aliveAt := func(want ...time.Duration) func(*testing.T, outcome) {
		return func(t *testing.T, o outcome) { assert.Equal(t, want, o.alive()) }
	}
	silent := row{stream: true, settings: settings{a: `"first_content_ms": 60000`}, a: one(slowly(50 * s)), trace: "A", classes: "ok", text: "x"}
	plain := silent
	plain.stream = false
	chatty := slowly(0, s)
	chatty.Stream[1].Data += ": theirs\n\n"
	run(t, map[string]row{
		"every 15 s of silence":                      {stream: true, a: one(slowly(0, 50*s)), trace: "A", classes: "ok", text: "xx", check: aliveAt(15*s, 30*s, 45*s)},
		"counted from the last content":              {stream: true, a: one(slowly(0, 10*s, 14*s, 16*s)), trace: "A", classes: "ok", text: "xxxx", check: aliveAt(39 * s)},
		"not while it speaks":                        {stream: true, a: one(slowly(0, 14*s, 14*s, 14*s)), trace: "A", classes: "ok", text: "xxxx", check: aliveAt()},
		"never before the first content":             withCheck(withCheck(silent, aliveAt()), committedAt(50*s)),
		"never for a plain client":                   withCheck(plain, func(t *testing.T, o outcome) { assert.NotContains(t, o.body, ": ka") }),
		"comments of the provider are not passed on": {stream: true, a: one(chatty), trace: "A", classes: "ok", text: "xx", check: aliveAt()},
		"they do not keep an idle stream": {stream: true, settings: settings{route: `"idle_ms": 40000`}, a: one(slowly(0, 50*s)), trace: "A", classes: "timeout", text: "x",
			ends: "stream_interrupted", returned: 40 * s, check: aliveAt(15*s, 30*s)},
	})
}

// TestALeavingClient is B43 a: once it is known that nobody listens, nothing more is bought.
func TestALeavingClient(t *testing.T) {
	const s = time.Second
	endless := func() simulate.Reply {
		gaps := make([]time.Duration, 600)
		for i := range gaps {
			gaps[i] = s
		}
		return slowly(gaps...)
	}
	gone := func(at time.Duration) func(*testing.T, outcome) {
		return func(t *testing.T, o outcome) {
			assert.Equal(t, at, o.returned)
			assert.Equal(t, at, o.calls[0].ended, "the upstream call ends with the client")
			assert.Equal(t, "client_closed_request", o.of("request_finished")[0].Outcome)
			assert.Empty(t, o.alerts())
		}
	}
	run(t, map[string]row{
		"after two chunks, and its connection tells": {stream: true, a: one(endless()), leaves: departure{writes: 3}, trace: "A", classes: "cancelled", check: gone(2 * s)},
		"after two chunks, and only a write can tell": {stream: true, a: one(endless()), leaves: departure{writes: 3, unnoticed: true}, trace: "A", classes: "cancelled",
			check: gone(3 * s)},
		"during a silence, and a keep-alive tells": {stream: true, a: one(slowly(0, 500*s)), leaves: departure{writes: 2, unnoticed: true}, trace: "A", classes: "cancelled",
			check: gone(15 * s)},
		"at a moment of its own": {stream: true, a: one(endless()), leaves: departure{after: 2500 * time.Millisecond}, trace: "A", classes: "cancelled",
			check: gone(2500 * time.Millisecond)},
		"a plain one while the answer comes in": {a: one(endless()), leaves: departure{after: 2500 * time.Millisecond}, trace: "A", classes: "cancelled", status: 499,
			check: gone(2500 * time.Millisecond)},
	})
}

// TestTheEndOfTheInvocation is B43 c and e: our own deadline comes before the platform's, and is said.
func TestTheEndOfTheInvocation(t *testing.T) {
	const s = time.Second
	forever := slowly(0, s, s, s, s, s, s, s, s, s, s, s, s)
	in := func(r row) row {
		r.stream, r.trace, r.ends = true, "A", "deadline_exceeded"
		r.returned = 8 * s
		r.text, r.classes = "xxxxxxxx", "deadline"
		r.check = func(t *testing.T, o outcome) {
			assert.Equal(t, 8*s, o.calls[0].ended, "the upstream call ends with the request")
			assert.Equal(t, "interrupted", o.of("request_finished")[0].Outcome)
		}
		return r
	}
	half := func(r simulate.Reply) simulate.Reply { // chunks between the seconds, so that nothing happens at the deadline itself
		r.Stream[1].After = 500 * time.Millisecond
		return r
	}
	run(t, map[string]row{
		"the platform's deadline in the middle of a stream (B43 c)": in(row{deadline: 8 * s, a: one(half(forever))}),
		"the client's own limit in the middle of a stream":          in(row{header: header("X-LLM-Timeout-Ms", "8000"), a: one(half(forever))}),
		"the shorter of the two":                                    in(row{deadline: 20 * s, header: header("X-LLM-Timeout-Ms", "8000"), a: one(half(forever))}),
		"a stream may outlive two minutes, a silent start may not":  {stream: true, model: "alone", a: one(slowly(0, 100*s, 100*s)), trace: "A", classes: "ok", text: "xxx", returned: 200 * s},
	})
}
