package openai_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"spillway/internal/chat"
	dialect "spillway/internal/dialect/openai"
	"spillway/internal/fault"
	"spillway/internal/provider"
	"spillway/internal/provider/openai"
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
	s := &script{cut: cut, rest: answer, asked: make(chan struct{}), over: make(chan struct{})}
	client := &wire.Client{Dial: func(context.Context, string, string) (net.Conn, error) { return s, nil }}
	defer client.Close()
	return follow(t, &openai.Provider{Wire: client, Policy: fault.Default()}, c)
}

func whole(rest int) int { return rest }

// hello is the least request.
func hello(t testing.TB) *chat.Request {
	t.Helper()
	return parsed(t, `{"model":"fast","messages":[{"role":"user","content":"x"}]}`)
}

func parsed(t testing.TB, body string) *chat.Request {
	t.Helper()
	req, refusal := dialect.Chat{}.Parse([]byte(body))
	require.Nil(t, refusal)
	return req
}

// same is what of an outcome must not depend on how it arrived.
func same(o outcome) string {
	return lines(o.events) + o.usage + describeInfo(o.info) + describeFailure(o.failure)
}

func TestEventsDoNotDependOnHowTheBytesArrive(t *testing.T) {
	for name, c := range conversations(t, "clean", "failures") {
		t.Run(name, func(t *testing.T) {
			want := c.section("events") + c.section("usage") + c.section("info") + c.section("failure")
			answer, made := c.reply(t).raw(), call(t, parsed(t, c.section("request")), c.channel(t))
			for _, size := range []int{1, 2, 3, 7, 64, 1 << 20} {
				got := replay(t, answer, made, func(int) int { return size })
				assert.Equal(t, want, same(got), "in pieces of %d bytes", size)
			}
		})
	}
}

func TestEventsDoNotDependOnWhereTheBytesAreCut(t *testing.T) {
	all := conversations(t, "clean", "failures")
	names := slices.Sorted(maps.Keys(all))
	rapid.Check(t, func(rt *rapid.T) {
		c := all[rapid.SampledFrom(names).Draw(rt, "conversation")]
		cuts := rapid.SliceOfN(rapid.IntRange(1, 400), 1, 40).Draw(rt, "cuts")
		n := 0
		got := replay(t, c.reply(t).raw(), call(t, parsed(t, c.section("request")), c.channel(t)), func(int) int { n++; return cuts[n%len(cuts)] })
		require.Equal(rt, c.section("events")+c.section("usage")+c.section("info")+c.section("failure"), same(got))
	})
}

func FuzzDecode(f *testing.F) {
	for _, c := range conversations(f, "clean", "failures") {
		if r := c.reply(f); r.status == http.StatusOK {
			f.Add([]byte(r.body), !c.channel(f).Plain, byte(7))
		}
	}
	f.Add([]byte(`data: {"choices":[{"index":-1,"delta":{"tool_calls":[{"index":-9223372036854775808,"function":null},7,null]}}]}`), true, byte(0))
	f.Add([]byte(`data: {"choices":{"a":{"delta":{"content":{"a":1}},"finish_reason":["x"]}},"usage":[],"error":0,"x_groq":"x"}`+"\n\n"), true, byte(1))
	f.Fuzz(func(t *testing.T, body []byte, stream bool, cut byte) {
		media := "application/json"
		if stream {
			media = "text/event-stream"
		}
		answer := scripted{status: 200, header: http.Header{"Content-Type": {media}}, body: string(body)}.raw()
		made := call(t, hello(t), channelSpec{Plain: !stream})
		once := replay(t, answer, made, whole)
		require.LessOrEqual(t, len(once.events), len(body)/2+1, "events from nothing")
		again := replay(t, answer, made, func(int) int { return int(cut) + 1 })
		require.Equal(t, same(once), same(again))
	})
}

// frame is one frame of a stream.
func frame(choice string) string {
	return `data: {"id":"chatcmpl-1","created":5,"model":"m","choices":[` + choice + "]}\n\n"
}

func streamed(body string) scripted {
	return scripted{status: 200, header: http.Header{"Content-Type": {"text/event-stream"}}, body: body}
}

// The lines of case B22.
func TestLongLinesAreReadWhole(t *testing.T) {
	const around = len(`{"id":"chatcmpl-1","created":5,"model":"m","choices":[{"index":0,"delta":{"content":""}}]}`)
	for _, length := range []int{65_535, 65_536, 1<<20 + 1} {
		text := strings.Repeat("a", length-len("data: ")-around)
		answer := streamed(frame(`{"index":0,"delta":{"content":"`+text+`"}}`) + frame(`{"index":0,"delta":{},"finish_reason":"stop"}`)).raw()
		got := replay(t, answer, call(t, hello(t), channelSpec{}), whole)
		require.Nil(t, got.failure)
		require.Len(t, got.events, 2)
		assert.Equal(t, fmt.Sprintf("[chatcmpl-1 5 m] content 0: text %q;", text), got.events[0])
	}
}

func TestWhatIsBeyondAllMeasureIsNoAnswer(t *testing.T) {
	const limit = 1 << 20
	long := frame(`{"index":0,"delta":{"content":"` + strings.Repeat("a", limit) + `"}}`)
	text := frame(`{"index":0,"delta":{"content":"a"}}`)
	var many strings.Builder
	for i := range 1025 {
		fmt.Fprintf(&many, `{"index":%d,"id":"c%d","function":{"name":"f","arguments":""}},`, i, i)
	}
	tests := map[string]struct {
		body  string
		media string
		phase fault.Phase
	}{
		"a frame above the limit, before content":  {long, "text/event-stream", fault.PhasePreContent},
		"a frame above the limit, after content":   {text + long, "text/event-stream", fault.PhasePostContent},
		"a line without an end above the limit":    {"data: " + strings.Repeat("x", limit+2), "text/event-stream", fault.PhasePreContent},
		"more tool calls than anybody makes":       {frame(`{"index":0,"delta":{"tool_calls":[` + strings.TrimSuffix(many.String(), ",") + `]}}`), "text/event-stream", fault.PhasePreContent},
		"an error of nothing but open brackets":    {`data: {"error":{"message":"` + strings.Repeat("[", limit-100) + `{"}}` + "\n\n", "text/event-stream", fault.PhasePreContent},
		"a body of open brackets":                  {strings.Repeat("[", 30<<20), "application/json", fault.PhasePreContent},
		"a body of open objects":                   {strings.Repeat(`{"a":`, 2<<20), "application/json", fault.PhasePreContent},
		"brackets that close, deeper than any use": {`{"choices":` + strings.Repeat("[", 4<<20) + strings.Repeat("]", 4<<20) + `}`, "application/json", fault.PhasePreContent},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &script{cut: whole, asked: make(chan struct{}), over: make(chan struct{}),
				rest: scripted{status: 200, header: http.Header{"Content-Type": {tt.media}}, body: tt.body}.raw()}
			client := &wire.Client{Dial: func(context.Context, string, string) (net.Conn, error) { return s, nil }}
			defer client.Close()
			got := follow(t, &openai.Provider{Wire: client, Policy: fault.Default(), MaxEvent: limit}, call(t, hello(t), channelSpec{}))
			require.NotNil(t, got.failure)
			assert.Equal(t, fault.BadResponse, got.failure.Class)
			assert.Equal(t, tt.phase, got.failure.Phase)
		})
	}
}

// A new TLS handshake for every answer would cost more than anything else here.
func TestAConnectionIsKeptAfterAWholeAnswer(t *testing.T) {
	const end = `{"index":0,"delta":{},"finish_reason":"stop"}`
	const usage = `data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}` + "\n\n"
	tests := map[string]scripted{
		"a stream with usage and [DONE]": streamed(frame(end) + usage + "data: [DONE]\n\n"),
		"a stream with [DONE] alone":     streamed(frame(end) + "data: [DONE]\n\n"),
		"a stream with usage alone":      streamed(frame(end) + usage),
		"a stream with neither":          streamed(frame(end)),
		"a stream with comments at its end": streamed(frame(end) + usage + "data: [DONE]\n\n: bye\n\n" +
			strings.Repeat(": bye\n\n", 1000)),
		"a plain answer": {status: 200, header: http.Header{"Content-Type": {"application/json"}}, body: `{"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"}]}`},
		"an error":       {status: 429, header: http.Header{"Content-Type": {"application/json"}}, body: `{"error":{"code":"rate_limit_exceeded"}}`},
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
			p := &openai.Provider{Wire: client, Policy: fault.Default()}
			for range 3 {
				follow(t, p, call(t, hello(t), channelSpec{}))
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
	role := frame(`{"index":0,"delta":{"role":"assistant"}}`)
	text := frame(`{"index":0,"delta":{"content":"a"}}`)
	parts := map[string]struct {
		sent  string
		phase fault.Phase
	}{
		"before the headers": {"", fault.PhaseSent},
		"before content":     {role, fault.PhasePreContent},
		"after content":      {role + text, fault.PhasePostContent},
		"after a bad frame":  {role + text + "data: {\n\n" + text, fault.PhasePostContent},
	}
	causes := map[fault.Local]fault.Class{fault.Silent: fault.Timeout, fault.Left: fault.Cancelled, fault.OutOfTime: fault.Deadline}
	for when, part := range parts {
		for cause, class := range causes {
			t.Run(when+", "+string(cause), func(t *testing.T) {
				p := &openai.Provider{Wire: serve(t, stuck(part.sent)), Policy: fault.Default()}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				failure := endedBy(t, ctx, p, func() { cancel(cause) }, strings.Count(part.sent, `"index"`))
				assert.Equal(t, class, failure.Class)
				assert.Equal(t, cause, failure.Local)
				assert.Equal(t, part.phase, failure.Phase)
				assert.True(t, failure.Sent)
				assert.Equal(t, cause == fault.Silent, failure.Ambiguous)
			})
		}
	}
}

// endedBy makes a call, reads so many events, ends the call and returns its failure.
func endedBy(t *testing.T, ctx context.Context, p *openai.Provider, end func(), events int) (failure *fault.Failure) {
	t.Helper()
	if events == 0 {
		time.AfterFunc(20*time.Millisecond, end) // the request is long written; were it not, Sent would be false
	}
	reply, err := p.Call(ctx, call(t, hello(t), channelSpec{}))
	if err == nil {
		defer reply.Close()
		for range events {
			_, err = reply.Next()
			require.NoError(t, err)
		}
		end()
		_, err = reply.Next()
	}
	require.ErrorAs(t, err, &failure)
	return failure
}

func TestAnAnswerThatIsWholeIsNotCutByTheEndOfItsCall(t *testing.T) {
	p := &openai.Provider{Wire: serve(t, stuck(frame(`{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}`))), Policy: fault.Default()}
	ctx, cancel := context.WithCancelCause(t.Context())
	reply, err := p.Call(ctx, call(t, hello(t), channelSpec{}))
	require.NoError(t, err)
	defer reply.Close()
	_, err = reply.Next()
	require.NoError(t, err)
	cancel(fault.Silent) // the wait for usage is over
	_, err = reply.Next()
	require.ErrorIs(t, err, io.EOF)
}

func TestAnAddressThatCannotBeReachedNeverShowsItsSecret(t *testing.T) {
	p := &openai.Provider{Policy: fault.Default(), Wire: &wire.Client{Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("connection refused")
	}}}
	_, err := p.Call(t.Context(), call(t, hello(t), channelSpec{Query: map[string]string{"key": "SECRET123"}}))
	var failure *fault.Failure
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, fault.Network, failure.Class)
	assert.False(t, failure.Sent)
	assert.False(t, failure.Ambiguous)
	for _, text := range []string{failure.Error(), failure.Cause.Error(), fmt.Sprintf("%+v", failure)} {
		assert.NotContains(t, text, "SECRET123")
		assert.NotContains(t, text, key)
	}
}
