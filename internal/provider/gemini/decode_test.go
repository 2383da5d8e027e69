package gemini_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"spillway/internal/chat"
	dialect "spillway/internal/dialect/openai"
	"spillway/internal/fault"
	"spillway/internal/provider"
	"spillway/internal/provider/gemini"
	"spillway/internal/provider/wire"
)

// script is a connection whose far end has its whole answer ready: it is read in the pieces that cut gives, and then ends.
type script struct {
	cut  func(rest int) int // how much of the rest the next read gets; at least 1
	rest string

	asked chan struct{} // closed by the first write
	ask   sync.Once
	over  chan struct{}
	end   sync.Once
}

func newScript(answer string, cut func(rest int) int) *script {
	return &script{cut: cut, rest: answer, asked: make(chan struct{}), over: make(chan struct{})}
}

func (s *script) Read(p []byte) (int, error) {
	select {
	case <-s.asked: // an answer before the request would be refused as unasked
	case <-s.over:
		return 0, net.ErrClosed
	}
	if s.rest == "" {
		return 0, io.EOF
	}
	n := copy(p, s.rest[:min(s.cut(len(s.rest)), len(s.rest))])
	s.rest = s.rest[n:]
	return n, nil
}

func (s *script) Write(p []byte) (int, error) {
	s.ask.Do(func() { close(s.asked) })
	return len(p), nil
}

func (s *script) Close() error {
	s.end.Do(func() { close(s.over) })
	return nil
}

func (*script) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (*script) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
func (*script) SetDeadline(time.Time) error      { return nil }
func (*script) SetReadDeadline(time.Time) error  { return nil }
func (*script) SetWriteDeadline(time.Time) error { return nil }

// client is one whose every connection is the script.
func (s *script) client() *wire.Client {
	return &wire.Client{Dial: func(context.Context, string, string) (net.Conn, error) { return s, nil }}
}

// raw is a reply as it crosses the wire.
func (r scripted) raw() string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nConnection: close\r\n", r.status, http.StatusText(r.status))
	_ = r.header.Write(&b) // a Builder never fails
	if r.cut {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(r.body)+1)
	}
	return b.String() + "\r\n" + r.body
}

// replay decodes an answer that arrives in the pieces that cut gives.
func replay(t testing.TB, answer string, c provider.Call, cut func(rest int) int) outcome {
	t.Helper()
	client := newScript(answer, cut).client()
	defer client.Close()
	return follow(t, adapter(client), c)
}

func whole(rest int) int { return rest }

func parsed(t testing.TB, body string) *chat.Request {
	t.Helper()
	req, refusal := dialect.Chat{}.Parse([]byte(body))
	require.Nil(t, refusal)
	return req
}

// hello is the least request.
func hello(t testing.TB) *chat.Request {
	t.Helper()
	return parsed(t, `{"model":"fast","messages":[{"role":"user","content":"x"}]}`)
}

// same is what of an outcome must not depend on how it arrived.
func same(o outcome) string {
	return lines(o.events) + o.usage + describeInfo(o.info) + describeFailure(o.failure)
}

func (c *conversation) expected() string {
	return c.section("events") + c.section("usage") + c.section("info") + c.section("failure")
}

// answered are the conversations in which the provider is called.
func answered(t testing.TB) map[string]*conversation {
	t.Helper()
	all := conversations(t, "clean", "failures")
	maps.DeleteFunc(all, func(_ string, c *conversation) bool { return c.refused() })
	return all
}

func TestEventsDoNotDependOnHowTheBytesArrive(t *testing.T) {
	for name, c := range answered(t) {
		t.Run(name, func(t *testing.T) {
			answer, made := c.reply(t).raw(), call(parsed(t, c.section("request")), c.channel(t))
			for _, size := range []int{1, 2, 3, 7, 64, 1 << 20} {
				got := replay(t, answer, made, func(int) int { return size })
				assert.Equal(t, c.expected(), same(got), "in pieces of %d bytes", size)
			}
		})
	}
}

func TestEventsDoNotDependOnWhereTheBytesAreCut(t *testing.T) {
	all := answered(t)
	names := slices.Sorted(maps.Keys(all))
	rapid.Check(t, func(rt *rapid.T) {
		c := all[rapid.SampledFrom(names).Draw(rt, "conversation")]
		cuts := rapid.SliceOfN(rapid.IntRange(1, 400), 1, 40).Draw(rt, "cuts")
		n := 0
		got := replay(t, c.reply(t).raw(), call(parsed(t, c.section("request")), c.channel(t)), func(int) int { n++; return cuts[n%len(cuts)] })
		require.Equal(rt, c.expected(), same(got))
	})
}

// assembled is the whole answer of a reply.
func assembled(t require.TestingT, p *gemini.Provider, c provider.Call) *chat.Answer {
	reply, err := p.Call(context.Background(), c)
	require.NoError(t, err)
	defer reply.Close()
	var a chat.Assembler
	for {
		ev, err := reply.Next()
		if errors.Is(err, io.EOF) {
			return a.Answer()
		}
		require.NoError(t, err)
		a.Add(ev)
	}
}

// TestStreamedEqualsPlain: the same parts give the same answer, in one body or in any number of frames.
func TestStreamedEqualsPlain(t *testing.T) {
	type object = map[string]any
	text := func(t *rapid.T) string { return rapid.StringN(0, 12, -1).Draw(t, "text") }
	onePart := rapid.Custom(func(t *rapid.T) object {
		p := object{}
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			p["text"], p["thought"] = text(t), true
		case 1:
			p["functionCall"] = object{"name": "f", "args": object{"a": text(t), "b": []any{1, nil, object{}}}}
		default:
			p["text"] = text(t)
		}
		if rapid.Bool().Draw(t, "signed") {
			p["thoughtSignature"] = "c2ln"
		}
		return p
	})
	rapid.Check(t, func(rt *rapid.T) {
		parts := rapid.SliceOfN(onePart, 1, 8).Draw(rt, "parts")
		end := rapid.SampledFrom([]string{"STOP", "MAX_TOKENS", "SAFETY"}).Draw(rt, "end")
		body := func(parts []object, end string, tokens int) string {
			c := object{"index": 0, "content": object{"role": "model", "parts": parts}}
			if end != "" {
				c["finishReason"] = end
			}
			b, err := json.Marshal(object{"candidates": []any{c}, "responseId": "r", "modelVersion": "m",
				"usageMetadata": object{"promptTokenCount": 7, "candidatesTokenCount": tokens, "thoughtsTokenCount": tokens / 2}})
			require.NoError(rt, err)
			return string(b)
		}
		var frames strings.Builder
		for i := 0; i < len(parts); {
			n := i + rapid.IntRange(1, len(parts)-i).Draw(rt, "parts of a frame")
			last := ""
			if n == len(parts) || rapid.Bool().Draw(rt, "named in each frame") {
				last = end
			}
			frames.WriteString("data: " + body(parts[i:n], last, n) + "\r\n\r\n")
			i = n
		}
		req := hello(t)
		one := newScript(scripted{status: 200, header: http.Header{"Content-Type": {"application/json"}}, body: body(parts, end, len(parts))}.raw(), whole)
		many := newScript(streamed(frames.String()).raw(), func(int) int { return rapid.IntRange(1, 100).Draw(rt, "piece") })
		require.Equal(rt, assembled(rt, adapter(one.client()), call(req, channelSpec{Plain: true})),
			assembled(rt, adapter(many.client()), call(req, channelSpec{})))
	})
}

func FuzzDecode(f *testing.F) {
	for _, c := range answered(f) {
		if r := c.reply(f); r.status == http.StatusOK {
			f.Add([]byte(r.body), !c.channel(f).Plain, byte(7))
		}
	}
	f.Add([]byte(`data: {"candidates":{"0":{"content":{"parts":{"a":[]}},"finishReason":["x"]}},"usageMetadata":[],"error":0,"promptFeedback":1}`+"\n\n"), true, byte(1))
	f.Fuzz(func(t *testing.T, body []byte, stream bool, cut byte) {
		media := "application/json"
		if stream {
			media = "text/event-stream"
		}
		answer := scripted{status: 200, header: http.Header{"Content-Type": {media}}, body: string(body)}.raw()
		made := call(hello(t), channelSpec{Plain: !stream})
		once := replay(t, answer, made, whole)
		require.LessOrEqual(t, len(once.events), len(body)/2+2, "events from nothing")
		again := replay(t, answer, made, func(int) int { return int(cut) + 1 })
		require.Equal(t, same(once), same(again))
	})
}

// FuzzSchema: whatever a client's schema is, what is sent is JSON and of bounded size, or it is refused.
func FuzzSchema(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"allOf":[{"$ref":"#/$defs/B"}]},"B":{"const":1}}}`)
	f.Add(`{"$ref":"#/a","a":{"$ref":"#/b"},"b":{"items":{"$ref":"#/a"},"enum":1,"const":"x","properties":[1]}}`)
	f.Add(`{"anyOf":{"a":1},"oneOf":[true,false,null],"items":[{}],"$ref":"#/%7E0/~1"}`)
	f.Fuzz(func(t *testing.T, schema string) {
		req, refusal := dialect.Chat{}.Parse([]byte(`{"model":"fast","messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema",` +
			`"json_schema":{"name":"out","schema":` + schema + `}}}`))
		if refusal != nil {
			return
		}
		far := &upstream{reply: streamed(frame(`{"text":"{}"}`, "STOP"))}
		got := follow(t, adapter(serve(t, far)), call(req, channelSpec{}))
		if got.failure != nil {
			require.Equal(t, fault.Refused, got.failure.Local)
			require.True(t, strings.HasPrefix(got.failure.Param, "response_format.json_schema.schema#"), got.failure.Param)
			return
		}
		require.True(t, json.Valid(far.body))
		require.Less(t, len(far.body), 2<<20)
	})
}

// frame is one frame of a stream: a part and a finish reason.
func frame(part, finish string) string {
	return `data: {"responseId":"r","modelVersion":"m","candidates":[{"index":0,"content":{"parts":[` + part + `]},"finishReason":"` + finish + `"}]}` + "\r\n\r\n"
}

func streamed(body string) scripted {
	return scripted{status: 200, header: http.Header{"Content-Type": {"text/event-stream"}}, body: body}
}

// TestWhatIsBeyondTheProvidersLimitsIsRefused: what no client of the OpenAI dialect can send, others can.
func TestWhatIsBeyondTheProvidersLimitsIsRefused(t *testing.T) {
	said := []chat.Message{{Role: chat.User, Parts: []chat.Part{{Kind: chat.TextPart, Text: "x"}}}}
	tests := map[string]struct {
		request chat.Request
		param   string
	}{
		"six stop sequences":             {chat.Request{Messages: said, Stop: []string{"a", "b", "c", "d", "e", "f"}}, "stop"},
		"513 tools":                      {chat.Request{Messages: said, Tools: slices.Repeat([]chat.Tool{{Name: "f"}}, 513)}, "tools"},
		"two choices":                    {chat.Request{Messages: said, Choices: 2}, "n"},
		"log probabilities":              {chat.Request{Messages: said, LogProbs: true}, "logprobs"},
		"a part of a kind nobody knows":  {chat.Request{Messages: []chat.Message{{Role: chat.User, Parts: []chat.Part{{Kind: "smell"}}}}}, "messages[0].content[0].type"},
		"a schema beyond all measure":    {chat.Request{Messages: said, Format: &chat.Format{Kind: chat.FormatSchema, Schema: []byte(`{"title":"` + strings.Repeat("a", 300<<10) + `"}`)}}, "response_format.json_schema.schema#"},
		"a chain of references too long": {chat.Request{Messages: said, Format: &chat.Format{Kind: chat.FormatSchema, Schema: chain(200)}}, "response_format.json_schema.schema#/99/$ref"},
		"a text that is not UTF-8":       {chat.Request{Messages: []chat.Message{{Role: chat.User, Parts: []chat.Part{{Kind: chat.TextPart, Text: "\xff"}}}}}, "body"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := follow(t, adapter(newScript("", whole).client()), call(&tt.request, channelSpec{}))
			require.NotNil(t, got.failure)
			assert.Equal(t, fault.UnsupportedParameter, got.failure.Class)
			assert.Equal(t, tt.param, got.failure.Param)
			assert.True(t, strings.HasPrefix(got.failure.Message, tt.param+": "), got.failure.Message)
			assert.False(t, got.failure.Sent)
		})
	}
}

// chain is a schema of so many references one behind the other.
func chain(n int) []byte {
	s := `{"$ref":"#/0"`
	for i := range n {
		s += fmt.Sprintf(`,"%d":{"$ref":"#/%d"}`, i, i+1)
	}
	return []byte(s + fmt.Sprintf(`,"%d":{}}`, n))
}

func TestAModelsFamilyIsReadFromItsName(t *testing.T) {
	for model, unsigned := range map[string]bool{"gemini-3-flash": true, "models/gemini-3.1-pro-preview": true, "gemini-flash-latest": true, "gemini-4-ultra": true,
		"gemini-10.5-pro": true, "gemini-2.5-flash": false, "gemini-2.0-flash-001": false, "gemini-pro": false, "gemma-3-27b-it": false, "": false} {
		far := &upstream{reply: streamed(frame(`{"text":"x"}`, "STOP"))}
		made := call(parsed(t, `{"model":"fast","messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f"}}]},
			{"role":"tool","tool_call_id":"c","content":"y"}]}`), channelSpec{})
		made.Channel.Model = chat.RoutedModel(model)
		require.Nil(t, follow(t, adapter(serve(t, far)), made).failure)
		assert.Equal(t, unsigned, strings.Contains(string(far.body), "skip_thought_signature_validator"), model)
	}
}

// TestBombsAreRefused: references that double with every level are cut off before they fill the memory.
func TestBombsAreRefused(t *testing.T) {
	var defs, merged strings.Builder
	for i := range 60 {
		fmt.Fprintf(&defs, `"d%d":{"type":"object","properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"}}},`, i, i+1, i+1)
		fmt.Fprintf(&merged, `"d%d":{"$ref":"#/$defs/d%d","allOf":[{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	for name, body := range map[string]string{"of properties": defs.String(), "of merged schemas": merged.String()} {
		t.Run(name, func(t *testing.T) {
			req := parsed(t, `{"model":"fast","messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema","json_schema":{"name":"out","schema":`+
				`{"$ref":"#/$defs/d0","$defs":{`+body+`"d60":{"type":"string"}}}}}}`)
			got := follow(t, adapter(newScript("", whole).client()), call(req, channelSpec{}))
			require.NotNil(t, got.failure)
			assert.Equal(t, fault.UnsupportedParameter, got.failure.Class)
			assert.Contains(t, got.failure.Message, "too large")
		})
	}
}

func TestWhatIsBeyondAllMeasureIsNoAnswer(t *testing.T) {
	const limit = 1 << 20
	long := frame(`{"text":"`+strings.Repeat("a", limit)+`"}`, "")
	text := frame(`{"text":"a"}`, "")
	tests := map[string]struct {
		body  string
		media string
		phase fault.Phase
	}{
		"a frame above the limit, before content": {long, "text/event-stream", fault.PhasePreContent},
		"a frame above the limit, after content":  {text + long, "text/event-stream", fault.PhasePostContent},
		"more tool calls than anybody makes":      {frame(strings.TrimSuffix(strings.Repeat(`{"functionCall":{"name":"f"}},`, 1025), ","), "STOP"), "text/event-stream", fault.PhasePreContent},
		"arguments beyond all measure": {`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":"` + strings.Repeat("a", 3<<20) + `"}}}]},"finishReason":"STOP"}]}`,
			"application/json", fault.PhasePreContent},
		"an error of nothing but open brackets":    {`data: {"error":{"message":"` + strings.Repeat("[", limit-100) + `{"}}` + "\n\n", "text/event-stream", fault.PhasePreContent},
		"a body of open brackets":                  {strings.Repeat("[", 30<<20), "application/json", fault.PhasePreContent},
		"brackets that close, deeper than any use": {`{"candidates":` + strings.Repeat("[", 4<<20) + strings.Repeat("]", 4<<20) + `}`, "application/json", fault.PhasePreContent},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := adapter(newScript(scripted{status: 200, header: http.Header{"Content-Type": {tt.media}}, body: tt.body}.raw(), whole).client())
			p.MaxEvent = limit
			defer p.Wire.Close()
			got := follow(t, p, call(hello(t), channelSpec{}))
			require.NotNil(t, got.failure)
			assert.Equal(t, fault.BadResponse, got.failure.Class)
			assert.Equal(t, tt.phase, got.failure.Phase)
		})
	}
}

// A new TLS handshake for every answer would cost more than anything else here.
func TestAConnectionIsKeptAfterAWholeAnswer(t *testing.T) {
	const plain = `{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}]}`
	tests := map[string]scripted{
		"a stream":       streamed(frame(`{"text":"a"}`, "STOP")),
		"a plain answer": {status: 200, header: http.Header{"Content-Type": {"application/json"}}, body: plain},
		"an error":       {status: 429, header: http.Header{"Content-Type": {"application/json"}}, body: `{"error":{"code":429}}`},
	}
	for name, answer := range tests {
		t.Run(name, func(t *testing.T) {
			dials := 0
			client := serve(t, &upstream{reply: answer})
			dial := client.Dial
			client.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				dials++
				return dial(ctx, network, address)
			}
			p := adapter(client)
			for range 3 {
				follow(t, p, call(hello(t), channelSpec{}))
			}
			assert.Equal(t, 1, dials)
		})
	}
}

// stuck is a provider that sends a part of its answer and then nothing until the call ends.
func stuck(part string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if part != "" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, part)
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
}

func TestTheCauseOfOurOwnIsTheFailure(t *testing.T) {
	empty, text := frame(`{"text":""}`, ""), frame(`{"text":"a"}`, "")
	parts := map[string]struct {
		sent   string
		events int
		phase  fault.Phase
	}{
		"before the headers": {"", 0, fault.PhaseSent},
		"before content":     {empty, 1, fault.PhasePreContent},
		"after content":      {empty + text, 2, fault.PhasePostContent},
		"after a bad frame":  {text + "data: {\n\n" + text, 2, fault.PhasePostContent},
	}
	causes := map[fault.Local]fault.Class{fault.Silent: fault.Timeout, fault.Left: fault.Cancelled, fault.OutOfTime: fault.Deadline}
	for when, part := range parts {
		for cause, class := range causes {
			t.Run(when+", "+string(cause), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := adapter(serve(t, stuck(part.sent)))
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					time.AfterFunc(time.Second, func() { cancel(cause) })
					failure := failureOf(t, ctx, p, part.events)
					assert.Equal(t, class, failure.Class)
					assert.Equal(t, cause, failure.Local)
					assert.Equal(t, part.phase, failure.Phase)
					assert.True(t, failure.Sent)
					assert.Equal(t, cause == fault.Silent, failure.Ambiguous)
				})
			})
		}
	}
}

// failureOf makes a call, reads so many events and returns the failure that follows.
func failureOf(t *testing.T, ctx context.Context, p *gemini.Provider, events int) (failure *fault.Failure) {
	t.Helper()
	reply, err := p.Call(ctx, call(hello(t), channelSpec{}))
	if err == nil {
		defer reply.Close()
		for range events {
			_, err = reply.Next()
			require.NoError(t, err)
		}
		_, err = reply.Next()
	}
	require.ErrorAs(t, err, &failure)
	return failure
}

// The end of the stream is the only sign that an answer is whole, but a provider that keeps the connection open after its
// finish reason is not waited for.
func TestTheEndIsNotWaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := adapter(serve(t, stuck(frame(`{"text":"a"}`, "STOP"))))
		began := time.Now()
		got := follow(t, p, call(hello(t), channelSpec{}))
		require.Nil(t, got.failure)
		assert.Equal(t, []string{`[r 0 m] content 0: text "a";`, "content 0: finish stop (STOP);"}, got.events)
		assert.Equal(t, 1500*time.Millisecond, time.Since(began))
	})
}

func TestIDsOfCallsAreUnique(t *testing.T) {
	p := &gemini.Provider{Policy: fault.Default(), Wire: newScript(streamed(frame(strings.TrimSuffix(strings.Repeat(`{"functionCall":{"name":"f"}},`, 50), ","), "STOP")).raw(), whole).client()}
	seen := map[string]bool{}
	for _, c := range assembled(t, p, call(hello(t), channelSpec{})).Choices[0].Calls {
		assert.True(t, strings.HasPrefix(c.ID, "call_") && len(c.ID) > 20, c.ID)
		seen[c.ID] = true
	}
	assert.Len(t, seen, 50)
}

// TestNothingShowsTheKey is B10 g.
func TestNothingShowsTheKey(t *testing.T) {
	p := &gemini.Provider{Policy: fault.Default(), Wire: &wire.Client{Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("connection refused")
	}}}
	made := call(hello(t), channelSpec{Query: map[string]string{"key": "SECRET123"}})
	bad := call(hello(t), channelSpec{})
	bad.Channel.Provider.BaseURL = "http://google.test/v1beta?key=SECRET123\x7f"
	for i, c := range []provider.Call{made, bad} {
		_, err := p.Call(t.Context(), c)
		var failure *fault.Failure
		require.ErrorAs(t, err, &failure, strconv.Itoa(i))
		assert.Equal(t, fault.Network, failure.Class)
		assert.False(t, failure.Sent)
		for _, text := range []string{failure.Error(), failure.Cause.Error(), fmt.Sprintf("%+v", failure)} {
			assert.NotContains(t, text, "SECRET123")
			assert.NotContains(t, text, key)
		}
	}
}
