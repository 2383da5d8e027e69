package openai_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/provider"
	"spillway/internal/provider/openai"
	"spillway/internal/provider/wire"
	"spillway/internal/simulate/conversation"
)

func whole(rest int) int { return rest }

// hello is the least request.
func hello(t testing.TB) *chat.Request {
	t.Helper()
	return conversation.Parse(t, `{"model":"fast","messages":[{"role":"user","content":"x"}]}`)
}

func FuzzDecode(f *testing.F) {
	for _, c := range conversation.Load(f, "clean", "failures") {
		if r := c.Reply(f); r.Status == http.StatusOK {
			f.Add([]byte(r.Body), !c.Channel(f).Plain, byte(7))
		}
	}
	f.Add([]byte(`data: {"choices":[{"index":-1,"delta":{"tool_calls":[{"index":-9223372036854775808,"function":null},7,null]}}]}`), true, byte(0))
	f.Add([]byte(`data: {"choices":{"a":{"delta":{"content":{"a":1}},"finish_reason":["x"]}},"usage":[],"error":0,"x_groq":"x"}`+"\n\n"), true, byte(1))
	f.Add([]byte(`data: {"usage":{"prompt_tokens":9223372036854775807,"completion_tokens":1e30,"prompt_tokens_details":{"cached_tokens":9223372036854775807},`+
		`"completion_tokens_details":{"reasoning_tokens":9223372036854775807}},"choices":[{"delta":{"reasoning_details":[{"index":-1,"format":"anthropic-claude-v1","signature":"s"},7]},"finish_reason":"stop"}]}`+"\n\n"), true, byte(9))
	f.Fuzz(func(t *testing.T, body []byte, stream bool, cut byte) {
		media := "application/json"
		if stream {
			media = "text/event-stream"
		}
		answer := conversation.Reply{Status: 200, Header: http.Header{"Content-Type": {media}}, Body: string(body)}
		made := adapter.Call(hello(t), conversation.Channel{Plain: !stream, Vendor: fault.Vendors()[int(cut)%len(fault.Vendors())]})
		once := adapter.Replay(t, answer, made, whole)
		require.LessOrEqual(t, len(once.Events), len(body)/2+1, "events from nothing")
		again := adapter.Replay(t, answer, made, func(int) int { return int(cut) + 1 })
		require.Equal(t, once.Text(), again.Text())
		if u := once.Usage; u != nil {
			for _, n := range []int64{u.Prompt, u.Completion, u.Cached, u.Reasoning, u.Total()} {
				require.GreaterOrEqual(t, n, int64(0))
			}
		}
	})
}

// frame is one frame of a stream.
func frame(choice string) string {
	return `data: {"id":"chatcmpl-1","created":5,"model":"m","choices":[` + choice + "]}\n\n"
}

func streamed(body string) conversation.Reply {
	return conversation.Reply{Status: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}
}

// The lines of case B22.
func TestLongLinesAreReadWhole(t *testing.T) {
	const around = len(`{"id":"chatcmpl-1","created":5,"model":"m","choices":[{"index":0,"delta":{"content":""}}]}`)
	for _, length := range []int{65_535, 65_536, 1<<20 + 1} {
		text := strings.Repeat("a", length-len("data: ")-around)
		answer := streamed(frame(`{"index":0,"delta":{"content":"`+text+`"}}`) + frame(`{"index":0,"delta":{},"finish_reason":"stop"}`))
		got := adapter.Replay(t, answer, adapter.Call(hello(t), conversation.Channel{}), whole)
		require.Nil(t, got.Failure)
		require.Len(t, got.Events, 2)
		assert.Equal(t, fmt.Sprintf("[chatcmpl-1 5 m] content 0: text %q;", text), got.Events[0])
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
	bounded := adapter
	bounded.New = func(client *wire.Client) provider.Provider {
		return &openai.Provider{Wire: client, Policy: fault.Default(), MaxEvent: limit}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			answer := conversation.Reply{Status: 200, Header: http.Header{"Content-Type": {tt.media}}, Body: tt.body}
			got := bounded.Replay(t, answer, adapter.Call(hello(t), conversation.Channel{}), whole)
			require.NotNil(t, got.Failure)
			assert.Equal(t, fault.BadResponse, got.Failure.Class)
			assert.Equal(t, tt.phase, got.Failure.Phase)
		})
	}
}

// A new TLS handshake for every answer would cost more than anything else here.
func TestAConnectionIsKeptAfterAWholeAnswer(t *testing.T) {
	const end = `{"index":0,"delta":{},"finish_reason":"stop"}`
	const usage = `data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}` + "\n\n"
	tests := map[string]conversation.Reply{
		"a stream with usage and [DONE]": streamed(frame(end) + usage + "data: [DONE]\n\n"),
		"a stream with [DONE] alone":     streamed(frame(end) + "data: [DONE]\n\n"),
		"a stream with usage alone":      streamed(frame(end) + usage),
		"a stream with neither":          streamed(frame(end)),
		"a stream with comments at its end": streamed(frame(end) + usage + "data: [DONE]\n\n: bye\n\n" +
			strings.Repeat(": bye\n\n", 1000)),
		"a plain answer": {Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: `{"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"}]}`},
		"an error":       {Status: 429, Header: http.Header{"Content-Type": {"application/json"}}, Body: `{"error":{"code":"rate_limit_exceeded"}}`},
	}
	for name, answer := range tests {
		t.Run(name, func(t *testing.T) {
			dials := 0
			client := conversation.Serve(t, &conversation.Upstream{Reply: answer})
			dial := client.Dial
			client.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				dials++
				return dial(ctx, network, address)
			}
			p := &openai.Provider{Wire: client, Policy: fault.Default()}
			for range 3 {
				conversation.Follow(t, p, adapter.Call(hello(t), conversation.Channel{}))
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
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				serve := stuck(part.sent)
				if part.sent == "" {
					serve = func(w http.ResponseWriter, r *http.Request) {
						_, _ = io.Copy(io.Discard, r.Body)
						cancel(cause) // the request is written: it has been read
						stuck("")(w, r)
					}
				}
				p := &openai.Provider{Wire: conversation.Serve(t, serve), Policy: fault.Default()}
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
	reply, err := p.Call(ctx, adapter.Call(hello(t), conversation.Channel{}))
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
	p := &openai.Provider{Wire: conversation.Serve(t, stuck(frame(`{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}`))), Policy: fault.Default()}
	ctx, cancel := context.WithCancelCause(t.Context())
	reply, err := p.Call(ctx, adapter.Call(hello(t), conversation.Channel{}))
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
	_, err := p.Call(t.Context(), adapter.Call(hello(t), conversation.Channel{Query: map[string]string{"key": "SECRET123"}}))
	var failure *fault.Failure
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, fault.Network, failure.Class)
	assert.False(t, failure.Sent)
	assert.False(t, failure.Ambiguous)
	for _, text := range []string{failure.Error(), failure.Cause.Error(), fmt.Sprintf("%+v", failure)} {
		assert.NotContains(t, text, "SECRET123")
		assert.NotContains(t, text, conversation.Key)
	}
}
