package anthropic_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/provider/anthropic"
	"spillway/internal/provider/wire"
	"spillway/internal/simulate/conversation"
)

// hello is the least request.
func hello(t testing.TB) *chat.Request {
	t.Helper()
	return conversation.Parse(t, `{"model":"fast","messages":[{"role":"user","content":"x"}]}`)
}

func whole(rest int) int { return rest }

// message is an answer of which both forms are made.
type message struct {
	blocks []block
	reason string
	// input, output and so on are what it has used.
	input, written, read, output, thinking int
}

// block is one of its blocks: text, thinking, a redacted one, or a call; pieces are those in which a stream sends it.
type block struct {
	kind   string
	pieces []string
}

func drawMessage(t *rapid.T) message {
	m := message{reason: rapid.SampledFrom([]string{"end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal", "pause_turn"}).Draw(t, "reason")}
	for _, count := range []*int{&m.input, &m.written, &m.read, &m.output, &m.thinking} {
		*count = rapid.IntRange(0, 1000).Draw(t, "count")
	}
	for range rapid.IntRange(0, 5).Draw(t, "blocks") {
		b := block{kind: rapid.SampledFrom([]string{"text", "thinking", "redacted_thinking", "tool_use"}).Draw(t, "kind")}
		text := rapid.String().Draw(t, "text")
		if b.kind == "tool_use" {
			text = ""
			if rapid.Bool().Draw(t, "arguments") {
				text = string(marshal(map[string]string{"x": rapid.String().Draw(t, "argument")}))
			}
		}
		for runes := []rune(text); len(runes) > 0; {
			n := rapid.IntRange(1, len(runes)).Draw(t, "piece")
			b.pieces, runes = append(b.pieces, string(runes[:n])), runes[n:]
		}
		m.blocks = append(m.blocks, b)
	}
	return m
}

func marshal(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return out
}

// object is a JSON object.
type object = map[string]any

// plain is the message as one body.
func (m message) plain() string {
	content := []object{}
	for i, b := range m.blocks {
		text := strings.Join(b.pieces, "")
		switch b.kind {
		case "text":
			content = append(content, object{"type": b.kind, "text": text})
		case "thinking":
			content = append(content, object{"type": b.kind, "thinking": text, "signature": "s"})
		case "redacted_thinking":
			content = append(content, object{"type": b.kind, "data": text})
		case "tool_use":
			if text == "" {
				text = "{}"
			}
			content = append(content, object{"type": b.kind, "id": fmt.Sprint("toolu_", i), "name": "f", "input": json.RawMessage(text)})
		}
	}
	return string(marshal(object{"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": m.reason,
		"usage": object{"input_tokens": m.input, "cache_creation_input_tokens": m.written, "cache_read_input_tokens": m.read, "output_tokens": m.output,
			"output_tokens_details": object{"thinking_tokens": m.thinking}}}))
}

// stream is the message as a stream.
func (m message) stream() string {
	var s strings.Builder
	send := func(kind string, frame object) {
		frame["type"] = kind
		fmt.Fprintf(&s, "event: %s\ndata: %s\n\n", kind, marshal(frame))
	}
	send("message_start", object{"message": object{"id": "msg_1", "type": "message", "model": "m", "content": []any{},
		"usage": object{"input_tokens": m.input, "cache_creation_input_tokens": m.written, "cache_read_input_tokens": m.read, "output_tokens": 0}}})
	for i, b := range m.blocks {
		start, member := object{"type": b.kind}, ""
		switch b.kind {
		case "text":
			start["text"], member = "", "text"
		case "thinking":
			start["thinking"], start["signature"], member = "", "", "thinking"
		case "redacted_thinking":
			start["data"] = strings.Join(b.pieces, "")
		case "tool_use":
			start["id"], start["name"], start["input"], member = fmt.Sprint("toolu_", i), "f", object{}, "partial_json"
		}
		send("content_block_start", object{"index": i, "content_block": start})
		kinds := map[string]string{"text": "text_delta", "thinking": "thinking_delta", "partial_json": "input_json_delta"}
		for _, piece := range b.pieces {
			if member != "" {
				send("content_block_delta", object{"index": i, "delta": object{"type": kinds[member], member: piece}})
			}
		}
		if b.kind == "thinking" {
			send("content_block_delta", object{"index": i, "delta": object{"type": "signature_delta", "signature": "s"}})
		}
		send("content_block_stop", object{"index": i})
	}
	send("message_delta", object{"delta": object{"stop_reason": m.reason},
		"usage": object{"output_tokens": m.output, "output_tokens_details": object{"thinking_tokens": m.thinking}}})
	send("message_stop", object{})
	return s.String()
}

func TestAStreamedAnswerEqualsThePlainOne(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := drawMessage(rt)
		req := hello(t)
		plain := adapter.Replay(t, jsonReply(m.plain()), adapter.Call(req, conversation.Channel{Plain: true}), whole)
		size := rapid.IntRange(1, 200).Draw(rt, "size")
		streamed := adapter.Replay(t, streamReply(m.stream()), adapter.Call(req, conversation.Channel{}), func(int) int { return size })
		require.Nil(rt, plain.Failure)
		require.Nil(rt, streamed.Failure)
		plain.Answer.Usage.Raw, streamed.Answer.Usage.Raw = "", "" // the provider's own object, which comes in two pieces
		require.Equal(rt, plain.Answer, streamed.Answer)
	})
}

func jsonReply(body string) conversation.Reply {
	return conversation.Reply{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
}

func streamReply(body string) conversation.Reply {
	return conversation.Reply{Status: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}
}

func FuzzDecode(f *testing.F) {
	for _, c := range conversation.Load(f, "clean", "failures") {
		if r := c.Reply(f); r.Status == http.StatusOK {
			f.Add([]byte(r.Body), !c.Channel(f).Plain, byte(7))
		}
	}
	f.Add([]byte(`data: {"type":"content_block_start","index":-1,"content_block":{"type":"tool_use","id":7,"name":null,"input":"x"}}`+"\n\n"), true, byte(0))
	f.Add([]byte(`data: {"type":"message_delta","delta":7,"usage":[]}`+"\n\n"+`data: {"type":"message_stop"}`+"\n\n"), true, byte(1))
	f.Fuzz(func(t *testing.T, body []byte, stream bool, cut byte) {
		answer := jsonReply(string(body))
		if stream {
			answer = streamReply(string(body))
		}
		made := adapter.Call(hello(t), conversation.Channel{Plain: !stream})
		once := adapter.Replay(t, answer, made, whole)
		require.LessOrEqual(t, len(once.Events), len(body)/2+1, "events from nothing")
		require.NotEqual(t, once.Failure == nil, finishes(once) == 0, "an answer is whole when it has ended once")
		again := adapter.Replay(t, answer, made, func(int) int { return int(cut) + 1 })
		require.Equal(t, once.Text(), again.Text())
	})
}

// finishes counts the ends that an answer has told its client of.
func finishes(o conversation.Outcome) (n int) {
	for _, e := range o.Events {
		n += strings.Count(e, " finish ")
	}
	return min(n, 1)
}

func TestWhatIsBeyondAllMeasureIsNoAnswer(t *testing.T) {
	frame := func(kind, rest string) string { return `data: {"type":"` + kind + `",` + rest + "}\n\n" }
	open := func(i int, b string) string {
		return frame("content_block_start", fmt.Sprintf(`"index":%d,"content_block":%s`, i, b))
	}
	add := func(member, kind, text string) string {
		return frame("content_block_delta", `"index":0,"delta":{"type":"`+kind+`","`+member+`":"`+text+`"}`)
	}
	const call = `{"type":"tool_use","id":"c","name":"f","input":{}}`
	var calls strings.Builder
	for i := range 1100 {
		calls.WriteString(open(i, call) + frame("content_block_stop", fmt.Sprintf(`"index":%d`, i)))
	}
	var blocks strings.Builder
	for i := range 1100 {
		blocks.WriteString(open(i, `{"type":"text"}`))
	}
	for name, answer := range map[string]conversation.Reply{
		"more tool calls than anybody makes": streamReply(calls.String()),
		"more open blocks":                   streamReply(blocks.String()),
		"arguments without an end":           streamReply(open(0, call) + strings.Repeat(add("partial_json", "input_json_delta", strings.Repeat("[", 1<<20)), 3)),
		"reasoning without an end":           streamReply(open(0, `{"type":"thinking"}`) + strings.Repeat(add("thinking", "thinking_delta", strings.Repeat("a", 1<<20)), 9)),
		"a body of open brackets":            jsonReply(strings.Repeat("[", 30<<20)),
		"a body of open objects":             jsonReply(strings.Repeat(`{"a":`, 2<<20)),
		"an error of open brackets":          streamReply(`data: {"type":"error","error":{"message":"` + strings.Repeat("[", 100<<10) + `"}}` + "\n\n"),
	} {
		t.Run(name, func(t *testing.T) {
			got := adapter.Replay(t, answer, adapter.Call(hello(t), conversation.Channel{}), whole)
			require.NotNil(t, got.Failure)
			assert.Equal(t, fault.BadResponse, got.Failure.Class)
		})
	}
}

const (
	starts = `data: {"type":"message_start","message":{"id":"msg_1","model":"m"}}` + "\n\n"
	says   = `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}` + "\n\n"
	ends   = `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}` + "\n\n" + `data: {"type":"message_stop"}` + "\n\n"
)

// A new TLS handshake for every answer would cost more than anything else here.
func TestAConnectionIsKeptAfterAWholeAnswer(t *testing.T) {
	for name, answer := range map[string]conversation.Reply{
		"a stream":                      streamReply(starts + says + ends),
		"a stream with comments behind": streamReply(starts + says + ends + strings.Repeat(": bye\n\n", 1000)),
		"a plain answer":                jsonReply(`{"content":[{"type":"text","text":"x"}],"stop_reason":"end_turn"}`),
		"an error, which is read whole": {Status: 429, Header: http.Header{"Content-Type": {"application/json"}}, Body: `{"type":"error","error":{"type":"rate_limit_error"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			dials := 0
			client := conversation.Serve(t, &conversation.Upstream{Reply: answer})
			dial := client.Dial
			client.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				dials++
				return dial(ctx, network, address)
			}
			for range 3 {
				conversation.Follow(t, adapter.New(client), adapter.Call(hello(t), conversation.Channel{}))
			}
			assert.Equal(t, 1, dials)
		})
	}
}

// stuck is a provider that sends a part of its answer and then nothing until the call ends.
func stuck(part string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, part)
		_ = http.NewResponseController(w).Flush()
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
}

func TestTheCauseOfOurOwnIsTheFailure(t *testing.T) {
	for name, part := range map[string]struct {
		sent   string
		events int
		phase  fault.Phase
	}{
		"before content": {starts + `data: {"type":"ping"}` + "\n\n", 0, fault.PhasePreContent},
		"after content":  {starts + says, 1, fault.PhasePostContent},
	} {
		for cause, class := range map[fault.Local]fault.Class{fault.Silent: fault.Timeout, fault.Left: fault.Cancelled, fault.OutOfTime: fault.Deadline} {
			t.Run(name+", "+string(cause), func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				reply, err := adapter.New(conversation.Serve(t, stuck(part.sent))).Call(ctx, adapter.Call(hello(t), conversation.Channel{}))
				require.NoError(t, err)
				defer reply.Close()
				for range part.events + 1 { // the start tells the id
					_, err = reply.Next()
					require.NoError(t, err)
				}
				cancel(cause)
				_, err = reply.Next()
				var failure *fault.Failure
				require.ErrorAs(t, err, &failure)
				assert.Equal(t, class, failure.Class)
				assert.Equal(t, cause, failure.Local)
				assert.Equal(t, part.phase, failure.Phase)
			})
		}
	}
}

func TestAnAddressThatCannotBeReachedNeverShowsItsSecret(t *testing.T) {
	p := &anthropic.Provider{Policy: fault.Default(), Wire: &wire.Client{Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("connection refused")
	}}}
	_, err := p.Call(t.Context(), adapter.Call(hello(t), conversation.Channel{Query: map[string]string{"key": "SECRET123"}}))
	var failure *fault.Failure
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, fault.Network, failure.Class)
	for _, text := range []string{failure.Error(), failure.Cause.Error(), fmt.Sprintf("%+v", failure)} {
		assert.NotContains(t, text, "SECRET123")
		assert.NotContains(t, text, conversation.Key)
	}
}
