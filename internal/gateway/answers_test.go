package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"spillway/internal/simulate"
)

// plainBody writes a plain answer of these choices; the rest of its body is always the same.
func plainBody(choices string) string {
	return fmt.Sprintf(`{"id":%q,"object":"chat.completion","created":1893456000,"model":%q,"system_fingerprint":"fp_1","choices":[%s],"usage":%s}`,
		alpha.id, alpha.model, choices, spoken)
}

const (
	tools    = `,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},{"type":"function","function":{"name":"g"}}]`
	logprobs = `,"logprobs":true,"top_logprobs":1`
	token1   = `{"token":"Hel","logprob":-0.10,"bytes":[72,101,108],"top_logprobs":[]}`
	token2   = `{"token":"lo","logprob":-2e-3,"bytes":null,"top_logprobs":[]}`
)

// answers are told by a provider once as a stream and once as one body.
var answers = map[string]struct {
	more   string
	frames []string
	body   string
}{
	"text": {"", []string{alpha.role(), alpha.text("Hel"), alpha.text("lo \"q\" \u2028 é"), alpha.finish("stop"), alpha.usage(), done},
		plainBody(`{"index":0,"message":{"role":"assistant","content":"Hello \"q\" \u2028 é","refusal":null},"logprobs":null,"finish_reason":"stop"}`)},
	"nothing but an end": {"", []string{alpha.role(), alpha.finish("content_filter"), alpha.usage(), done},
		plainBody(`{"index":0,"message":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":"content_filter"}`)},
	"a refusal": {"", []string{alpha.role(), alpha.delta(`{"refusal":"I "}`, ""), alpha.delta(`{"refusal":"won't"}`, ""), alpha.finish("stop"), alpha.usage(), done},
		plainBody(`{"index":0,"message":{"role":"assistant","content":null,"refusal":"I won't"},"logprobs":null,"finish_reason":"stop"}`)},
	"surfaced reasoning": {"", []string{alpha.role(), alpha.delta(`{"reasoning_content":"hm "}`, ""), alpha.delta(`{"reasoning_content":"well"}`, ""),
		alpha.text("ok"), alpha.finish("length"), alpha.usage(), done},
		plainBody(`{"index":0,"message":{"role":"assistant","content":"ok","refusal":null,"reasoning_content":"hm well"},"logprobs":null,"finish_reason":"length"}`)},
	"two tool calls": {tools, []string{alpha.role(),
		alpha.delta(`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":""}}]}`, ""),
		alpha.delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}}]}`, ""),
		alpha.delta(`{"tool_calls":[{"index":1,"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]}`, ""),
		alpha.delta(`{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}`, ""),
		alpha.finish("tool_calls"), alpha.usage(), done},
		plainBody(`{"index":0,"message":{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},` +
			`{"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"}`)},
	"two choices": {`,"n":2`, []string{alpha.choice(0, `{"role":"assistant","content":""}`, ""), alpha.choice(1, `{"role":"assistant","content":""}`, ""),
		alpha.choice(1, `{"content":"b"}`, ""), alpha.choice(0, `{"content":"a"}`, ""), alpha.choice(0, `{}`, "stop"), alpha.choice(1, `{"content":"c"}`, ""),
		alpha.choice(1, `{}`, "length"), alpha.usage(), done},
		plainBody(`{"index":0,"message":{"role":"assistant","content":"a","refusal":null},"logprobs":null,"finish_reason":"stop"},` +
			`{"index":1,"message":{"role":"assistant","content":"bc","refusal":null},"logprobs":null,"finish_reason":"length"}`)},
	"logprobs": {logprobs, []string{alpha.role(),
		alpha.frame(`[{"index":0,"delta":{"content":"Hel"},"logprobs":{"content":[`+token1+`],"refusal":null},"finish_reason":null}]`, ""),
		alpha.frame(`[{"index":0,"delta":{"content":"lo"},"logprobs":{"content":[`+token2+`],"refusal":null},"finish_reason":null}]`, ""),
		alpha.finish("stop"), alpha.usage(), done},
		plainBody(`{"index":0,"message":{"role":"assistant","content":"Hello","refusal":null},"logprobs":{"content":[` + token1 + `,` + token2 + `],"refusal":null},"finish_reason":"stop"}`)},
}

// TestOneAnswerInTwoShapes: whatever shape a provider chooses, a plain client gets the plain answer and a streaming one a
// stream that says the same.
func TestOneAnswerInTwoShapes(t *testing.T) {
	for name, a := range answers {
		for shape, reply := range map[string]simulate.Reply{"a stream": stream(a.frames...), "one body": body(a.body)} {
			for _, streaming := range []bool{false, true} {
				wants := "the plain answer"
				r := row{a: one(reply), more: a.more, stream: streaming}
				if streaming {
					wants = "a stream"
					r.more += usage
				}
				t.Run(fmt.Sprintf("%s: %s to a client that wants %s", name, shape, wants), func(t *testing.T) {
					inBubble(t, settings{}, func(t *testing.T, w *world) {
						w.provider.Script("a-1", r.a...)
						o := w.do(t, request{body: r.body()})
						require.Equal(t, 200, o.status, o.body)
						checkAnswer(t, o, r)
						checkRecords(t, o)
						assert.JSONEq(t, a.body, o.assembled(t))
					})
				})
			}
		}
	}
}

// assembled is the answer as a plain body: itself, or put together from the stream as an SDK would.
func (o outcome) assembled(t *testing.T) string {
	t.Helper()
	if o.header.Get("Content-Type") == "application/json" {
		return o.body
	}
	b := builder{choices: map[int64]*builtChoice{}}
	for _, data := range o.payloads(t) {
		if data != done {
			b.add(gjson.Parse(data))
		}
	}
	return b.body()
}

// builder puts a plain body together from chunks. It is a second, independent reading of what chunks mean.
type builder struct {
	first   gjson.Result
	choices map[int64]*builtChoice
	usage   string
}

type builtChoice struct {
	text, refusal, reasoning strings.Builder
	calls                    []string // id, name
	arguments                []string
	tokens                   []string
	finish                   string
}

func (b *builder) add(chunk gjson.Result) {
	if !b.first.Exists() {
		b.first = chunk
	}
	if u := chunk.Get("usage"); u.IsObject() {
		b.usage = u.Raw
	}
	for _, c := range chunk.Get("choices").Array() {
		built := b.choices[c.Get("index").Int()]
		if built == nil {
			built = &builtChoice{}
			b.choices[c.Get("index").Int()] = built
		}
		built.add(c)
	}
}

func (b *builtChoice) add(c gjson.Result) {
	b.text.WriteString(c.Get("delta.content").Str)
	b.refusal.WriteString(c.Get("delta.refusal").Str)
	b.reasoning.WriteString(c.Get("delta.reasoning_content").Str)
	for _, call := range c.Get("delta.tool_calls").Array() {
		i := int(call.Get("index").Int())
		if i == len(b.calls) {
			b.calls = append(b.calls, fmt.Sprintf(`"id":%s,"type":"function","function":{"name":%s,`, call.Get("id").Raw, call.Get("function.name").Raw))
			b.arguments = append(b.arguments, "")
		}
		b.arguments[i] += call.Get("function.arguments").Str
	}
	for _, token := range c.Get("logprobs.content").Array() {
		b.tokens = append(b.tokens, token.Raw)
	}
	if f := c.Get("finish_reason"); f.Str != "" {
		b.finish = f.Str
	}
}

func (b *builder) body() string {
	var out strings.Builder
	fmt.Fprintf(&out, `{"id":%s,"object":"chat.completion","created":%s,"model":%s,"system_fingerprint":"fp_1","choices":[`,
		b.first.Get("id").Raw, b.first.Get("created").Raw, b.first.Get("model").Raw)
	for i := range int64(len(b.choices)) {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(b.choices[i].body(i))
	}
	return out.String() + `],"usage":` + b.usage + `}`
}

func (b *builtChoice) body(index int64) string {
	nullable := func(s string, null bool) string {
		if null {
			return "null"
		}
		return fmt.Sprintf("%q", s)
	}
	message := `"role":"assistant","content":` + nullable(b.text.String(), b.text.Len() == 0 && (len(b.calls) > 0 || b.refusal.Len() > 0)) +
		`,"refusal":` + nullable(b.refusal.String(), b.refusal.Len() == 0)
	if b.reasoning.Len() > 0 {
		message += fmt.Sprintf(`,"reasoning_content":%q`, b.reasoning.String())
	}
	if len(b.calls) > 0 {
		calls := make([]string, len(b.calls))
		for i := range b.calls {
			calls[i] = fmt.Sprintf(`{%s"arguments":%q}}`, b.calls[i], b.arguments[i])
		}
		message += `,"tool_calls":[` + strings.Join(calls, ",") + `]`
	}
	probs := "null"
	if len(b.tokens) > 0 {
		probs = `{"content":[` + strings.Join(b.tokens, ",") + `],"refusal":null}`
	}
	return fmt.Sprintf(`{"index":%d,"message":{%s},"logprobs":%s,"finish_reason":%q}`, index, message, probs, b.finish)
}

// TestServersThatAreAlmostTheSame: what copies OpenAI's wire format nearly right comes out right.
func TestServersThatAreAlmostTheSame(t *testing.T) {
	calls := func(want string) func(*testing.T, outcome) {
		return func(t *testing.T, o outcome) {
			assert.JSONEq(t, want, gjson.Get(o.assembled(t), "choices.0.message.tool_calls").Raw)
		}
	}
	const oneCall = `[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]`
	const twoCalls = `[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"f","arguments":"{}"}}]`
	end := []string{alpha.finish("tool_calls"), alpha.usage(), done}
	called := func(deltas ...string) []simulate.Reply {
		frames := []string{alpha.role()}
		for _, d := range deltas {
			frames = append(frames, alpha.delta(`{"tool_calls":[`+d+`]}`, ""))
		}
		return one(stream(append(frames, end...)...))
	}
	always := row{more: tools, trace: "A", classes: "ok"}
	rows := map[string]row{}
	add := func(name string, a []simulate.Reply, check func(*testing.T, outcome)) {
		r := always
		r.a, r.check = a, check
		rows[name] = r
	}
	add("calls without index (B25 a)", called(`{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\":"}}`, `{"function":{"arguments":"1}"}}`), calls(oneCall))
	add("calls without index, a new id opens one (B25 b)", called(`{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}`,
		`{"id":"c2","type":"function","function":{"name":"f","arguments":"{}"}}`), calls(twoCalls))
	add("the id in every fragment (B25 c)", called(`{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\":"}}`,
		`{"id":"c1","type":"function","function":{"name":"f","arguments":"1}"}}`), calls(oneCall))
	add("arguments as an object", called(`{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":{"x":1}}}`), func(t *testing.T, o outcome) {
		assert.JSONEq(t, `{"x":1}`, gjson.Get(o.assembled(t), "choices.0.message.tool_calls.0.function.arguments").Str)
	})
	add("arguments as an object, in one body", one(body(plainBody(`{"index":0,"message":{"role":"assistant","content":null,`+
		`"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":{"x":1}}}]},"finish_reason":"tool_calls"}`))),
		func(t *testing.T, o outcome) {
			assert.JSONEq(t, `{"x":1}`, gjson.Get(o.assembled(t), "choices.0.message.tool_calls.0.function.arguments").Str)
		})
	add("a foreign word for the end", one(stream(alpha.role(), alpha.text("x"), alpha.finish("eos"), done)), func(t *testing.T, o outcome) {
		assert.Contains(t, o.body, `"finish_reason":"stop","native_finish_reason":"eos"`)
	})
	add("a foreign word for the end, in one body", one(body(plainBody(`{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"eos"}`))), func(t *testing.T, o outcome) {
		assert.Contains(t, o.body, `"finish_reason":"stop","native_finish_reason":"eos"`)
	})
	add("the role in every frame", one(stream(alpha.delta(`{"role":"assistant","content":"x"}`, ""), alpha.delta(`{"role":"assistant","content":"y"}`, ""),
		alpha.delta(`{"role":"assistant"}`, "stop"), done)), nil)
	add("the role in no frame", one(stream(alpha.text("x"), alpha.text("y"), alpha.finish("stop"), done)), nil)
	add("content in parts", one(stream(alpha.role(), alpha.delta(`{"content":[{"type":"text","text":"x"}]}`, ""), alpha.finish("stop"), done)), func(t *testing.T, o outcome) {
		assert.Equal(t, "x", o.text(t))
	})
	add("content in parts, in one body", one(body(plainBody(`{"index":0,"message":{"role":"assistant","content":[{"type":"text","text":"x"}]},"finish_reason":"stop"}`))), func(t *testing.T, o outcome) {
		assert.Equal(t, "x", o.text(t))
	})
	add("no id, no model, no time", one(stream(`{"choices":[{"index":0,"delta":{"content":"x"}}]}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, done)), func(t *testing.T, o outcome) {
		assert.Equal(t, "a-1", o.header.Get("X-LLM-Model"))
		assert.Contains(t, o.body, `"id":"chatcmpl-`+o.header.Get("X-Request-Id"))
	})
	add("an id that comes late, or changes", one(stream(`{"id":"","choices":[]}`, alpha.text("x"), beta.text("y"), alpha.finish("stop"), done)), nil)
	for name, r := range both(rows) {
		t.Run(name, func(t *testing.T) {
			inBubble(t, settings{}, func(t *testing.T, w *world) {
				w.provider.Script("a-1", r.a...)
				o := w.do(t, request{body: r.body()})
				require.Equal(t, 200, o.status, o.body)
				checkAnswer(t, o, r)
				checkRecords(t, o)
				if r.check != nil {
					r.check(t, o)
				}
			})
		})
	}
}

// TestAnswersPassThrough: a client gets what a provider of its dialect adds, but no error member, not even null.
func TestAnswersPassThrough(t *testing.T) {
	run(t, map[string]row{
		"in a stream": {stream: true, a: one(stream(alpha.role(),
			`{"error":null,"new":1.50,"choices":[{"index":0,"delta":{"content":"x","annotations":[{"a":1}]},"odd":{"b":[2]}}]}`, alpha.finish("stop"), done)),
			trace: "A", classes: "ok", text: "x", check: func(t *testing.T, o outcome) {
				chunk := gjson.Parse(o.payloads(t)[1])
				assert.Equal(t, "1.50", chunk.Get("new").Raw)
				assert.Equal(t, `[{"a":1}]`, chunk.Get("choices.0.delta.annotations").Raw)
				assert.Equal(t, `{"b":[2]}`, chunk.Get("choices.0.odd").Raw)
			}},
		"in one body": {settings: settings{a: `"upstream_stream": "as_client"`}, trace: "A", classes: "ok", text: "x",
			a: one(body(`{"error":null,"new":1.50,"choices":[{"index":0,"message":{"role":"assistant","content":"x","annotations":[{"a":1}]},"finish_reason":"stop","odd":{"b":[2]}}]}`)),
			check: func(t *testing.T, o outcome) {
				assert.Equal(t, "1.50", gjson.Get(o.body, "new").Raw)
				assert.Equal(t, `[{"a":1}]`, gjson.Get(o.body, "choices.0.message.annotations").Raw)
				assert.Equal(t, `{"b":[2]}`, gjson.Get(o.body, "choices.0.odd").Raw)
			}},
		"sound, which is asked for in one body because no stream has it in the client's format": {settings: settings{a: `"cannot": []`}, trace: "A", classes: "ok",
			more: `,"modalities":["text","audio"],"audio":{"voice":"alloy","format":"wav"}`,
			a:    one(body(`{"choices":[{"index":0,"message":{"role":"assistant","content":null,"audio":{"id":"audio_1","data":"eA==","transcript":"x"}},"finish_reason":"stop"}]}`)),
			check: func(t *testing.T, o outcome) {
				leftWithout(t, o.upstream(0), "stream", "stream_options")
				assert.Equal(t, "eA==", gjson.Get(o.body, "choices.0.message.audio.data").Str)
			}},
	})
}

// TestSeveralChoices: a stream is over when every choice is, and not before.
func TestSeveralChoices(t *testing.T) {
	first, second := alpha.choice(0, `{"role":"assistant","content":"a"}`, "stop"), alpha.choice(1, `{"role":"assistant","content":"b"}`, "")
	secondEnd := alpha.choice(1, `{}`, "stop")
	slowSecond := simulate.Reply{Stream: []simulate.Chunk{{Data: "data: " + first + "\n\n"}, {After: 4e9, Data: "data: " + second + "\n\n"},
		{After: 4e9, Data: "data: " + secondEnd + "\n\ndata: [DONE]\n\n"}}}
	run(t, map[string]row{
		"the second begins long after the first has ended": {stream: true, more: `,"n":2`, a: one(slowSecond), trace: "A", classes: "ok", text: "a", returned: 8e9},
		"the same for a plain client":                      {more: `,"n":2`, a: one(slowSecond), trace: "A", classes: "ok", text: "a", returned: 8e9},
		"the connection breaks between the ends":           {stream: true, more: `,"n":2`, a: one(cut(first, second)), trace: "A", classes: "network", text: "a", ends: "provider_disconnect"},
		"a server that knows no n ends with [DONE]":        {stream: true, more: `,"n":2`, a: one(stream(first, done)), trace: "A", classes: "ok", text: "a"},
		"a server that knows no n just ends":               {stream: true, more: `,"n":2`, a: one(stream(first)), trace: "A", classes: "ok", text: "a"},
		"an end that is said twice is not two ends": {stream: true, more: `,"n":2`, a: one(stream(first, alpha.choice(0, `{}`, "stop"), second, secondEnd, done)),
			trace: "A", classes: "ok", text: "a", check: func(t *testing.T, o outcome) { assert.Contains(t, o.body, `"content":"b"`) }},
	})
}

// TestAToolCallThatCannotBeRead: to a plain client it is no answer (contract §6).
func TestAToolCallThatCannotBeRead(t *testing.T) {
	broken := func(name, arguments string) simulate.Reply {
		return stream(alpha.role(), alpha.delta(fmt.Sprintf(`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":%q,"arguments":%q}}]}`, name, arguments), ""),
			alpha.finish("tool_calls"), alpha.usage(), done)
	}
	rows := map[string]row{}
	for name, reply := range map[string]simulate.Reply{"half its arguments": broken("f", `{"x":`), "no name": broken("", `{}`)} {
		rows[name] = row{more: tools, a: twice(reply), b: one(beta.says("B")), trace: "A 200ms A B", classes: "bad_response bad_response ok", text: "B"}
	}
	rows["no arguments are {}"] = row{more: tools, a: one(broken("f", "")), trace: "A", classes: "ok", check: func(t *testing.T, o outcome) {
		assert.Equal(t, "{}", gjson.Get(o.body, "choices.0.message.tool_calls.0.function.arguments").Str)
	}}
	run(t, rows)
}
