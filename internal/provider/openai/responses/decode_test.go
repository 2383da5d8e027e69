package responses_test

import (
	"context"
	"encoding/json"
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
	"spillway/internal/provider"
	"spillway/internal/provider/openai/responses"
	"spillway/internal/provider/wire"
	"spillway/internal/simulate/conversation"
)

// hello is the least request.
func hello(t testing.TB) *chat.Request {
	t.Helper()
	return conversation.Parse(t, `{"model":"fast","messages":[{"role":"user","content":"x"}]}`)
}

func whole(rest int) int { return rest }

// object is a JSON object.
type object = map[string]any

// answer is a response of which both forms are made.
type answer struct {
	items []item
	// reason is why it is incomplete; empty: it is not.
	reason string
	// input, output and so on are what it has used.
	input, cached, written, output, reasoning int
}

// item is one of its items; parts are those of its text, each in the pieces in which a stream sends it.
type item struct {
	kind  string
	parts [][]string
}

// deltas are the event types of an item's pieces.
var deltas = map[string]string{"message": "response.output_text.delta", "refusal": "response.refusal.delta",
	"reasoning": "response.reasoning_summary_text.delta", "open reasoning": "response.reasoning_text.delta",
	"function_call": "response.function_call_arguments.delta", "custom_tool_call": "response.custom_tool_call_input.delta"}

func drawAnswer(t *rapid.T) answer {
	a := answer{reason: rapid.SampledFrom([]string{"", "", "max_output_tokens", "content_filter"}).Draw(t, "reason")}
	for _, count := range []*int{&a.input, &a.cached, &a.written, &a.output, &a.reasoning} {
		*count = rapid.IntRange(0, 1000).Draw(t, "count")
	}
	kinds := []string{"message", "refusal", "reasoning", "open reasoning", "function_call", "custom_tool_call", "web_search_call"}
	least := 0
	if a.reason == "" {
		least = 1 // what is complete has something in it
	}
	for range rapid.IntRange(least, 5).Draw(t, "items") {
		it := item{kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
		parts := rapid.IntRange(0, 3).Draw(t, "parts")
		if strings.HasSuffix(it.kind, "_call") {
			parts = 1
		}
		for range parts {
			it.parts = append(it.parts, drawPieces(t, it.kind))
		}
		a.items = append(a.items, it)
	}
	return a
}

func drawPieces(t *rapid.T, kind string) (pieces []string) {
	text := rapid.String().Draw(t, "text")
	if kind == "function_call" {
		text = ""
		if rapid.Bool().Draw(t, "arguments") {
			text = string(marshal(map[string]string{"x": rapid.String().Draw(t, "argument")}))
		}
	}
	for runes := []rune(text); len(runes) > 0; {
		n := rapid.IntRange(1, len(runes)).Draw(t, "piece")
		pieces, runes = append(pieces, string(runes[:n])), runes[n:]
	}
	return pieces
}

func marshal(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return out
}

// whole is an item as a plain body or its end in a stream has it; begun is its begin.
func (it item) whole(i int) object {
	list := func(kind, member string) []object {
		out := []object{}
		for _, p := range it.parts {
			out = append(out, object{"type": kind, member: strings.Join(p, "")})
		}
		return out
	}
	text := func() string { return strings.Join(it.parts[0], "") }
	switch it.kind {
	case "message":
		return object{"type": "message", "content": list("output_text", "text")}
	case "refusal":
		return object{"type": "message", "content": list("refusal", "refusal")}
	case "reasoning":
		return object{"type": "reasoning", "summary": list("summary_text", "text"), "encrypted_content": fmt.Sprint("e", i)}
	case "open reasoning":
		return object{"type": "reasoning", "summary": []object{}, "content": list("reasoning_text", "text")}
	case "function_call":
		return object{"type": it.kind, "call_id": fmt.Sprint("call_", i), "name": "f", "arguments": text()}
	case "custom_tool_call":
		return object{"type": it.kind, "call_id": fmt.Sprint("call_", i), "name": "f", "input": text()}
	default:
		return object{"type": it.kind}
	}
}

func (it item) begun(i int) object {
	o := it.whole(i)
	for _, member := range []string{"content", "summary", "encrypted_content", "arguments", "input"} {
		delete(o, member)
	}
	return o
}

// response is the whole answer as an object.
func (a answer) response() object {
	output := []object{}
	for i, it := range a.items {
		output = append(output, it.whole(i))
	}
	r := object{"id": "resp_1", "object": "response", "created_at": 5, "model": "m", "status": "completed", "error": nil, "output": output,
		"usage": object{"input_tokens": a.input, "input_tokens_details": object{"cached_tokens": a.cached, "cache_write_tokens": a.written},
			"output_tokens": a.output, "output_tokens_details": object{"reasoning_tokens": a.reasoning}}}
	if a.reason != "" {
		r["status"], r["incomplete_details"] = "incomplete", object{"reason": a.reason}
	}
	return r
}

// stream is the answer as a stream.
func (a answer) stream() string {
	var s strings.Builder
	send := func(kind string, frame object) {
		frame["type"] = kind
		fmt.Fprintf(&s, "event: %s\ndata: %s\n\n", kind, marshal(frame))
	}
	send("response.created", object{"response": object{"id": "resp_1", "created_at": 5, "model": "m", "output": []any{}, "usage": nil}})
	for i, it := range a.items {
		send("response.output_item.added", object{"output_index": i, "item": it.begun(i)})
		for n, pieces := range it.parts {
			for _, piece := range pieces {
				if kind := deltas[it.kind]; kind != "" {
					send(kind, object{"output_index": i, "content_index": n, "summary_index": n, "delta": piece})
				}
			}
		}
		send("response.output_item.done", object{"output_index": i, "item": it.whole(i)})
	}
	end := "response.completed"
	if a.reason != "" {
		end = "response.incomplete"
	}
	send(end, object{"response": a.response()})
	return s.String()
}

func TestAStreamedAnswerEqualsThePlainOne(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a := drawAnswer(rt)
		req := hello(t)
		plain := adapter.Replay(t, jsonReply(string(marshal(a.response()))), adapter.Call(req, conversation.Channel{Plain: true}), whole)
		size := rapid.IntRange(1, 200).Draw(rt, "size")
		streamed := adapter.Replay(t, streamReply(a.stream()), adapter.Call(req, conversation.Channel{}), func(int) int { return size })
		require.Nil(rt, plain.Failure)
		require.Nil(rt, streamed.Failure)
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
	f.Add([]byte(`data: {"type":"response.output_item.added","output_index":-1,"item":{"type":"function_call","call_id":7,"name":null,"arguments":{}}}`+"\n\n"), true, byte(0))
	f.Add([]byte(`data: {"type":"response.completed","response":{"output":{"a":7},"usage":[],"created_at":"x"}}`+"\n\n"), true, byte(1))
	f.Add([]byte(`{"status":"completed","output":[7,null,{"type":"message","content":"x"},{"type":"reasoning","summary":{"a":{"text":"b"}}}]}`), false, byte(2))
	f.Fuzz(func(t *testing.T, body []byte, stream bool, cut byte) {
		reply := jsonReply(string(body))
		if stream {
			reply = streamReply(string(body))
		}
		made := adapter.Call(hello(t), conversation.Channel{Plain: !stream})
		once := adapter.Replay(t, reply, made, whole)
		require.LessOrEqual(t, len(once.Events), len(body)/2+1, "events from nothing")
		require.NotEqual(t, once.Failure == nil, finishes(once) == 0, "an answer is whole when it has ended once")
		again := adapter.Replay(t, reply, made, func(int) int { return int(cut) + 1 })
		require.Equal(t, once.Text(), again.Text())
	})
}

// finishes counts the choices of an answer that have ended.
func finishes(o conversation.Outcome) (n int) {
	for _, c := range o.Answer.Choices {
		if c.Finish != "" {
			n++
		}
	}
	return n
}

func TestWhatIsBeyondAllMeasureIsNoAnswer(t *testing.T) {
	const limit = 3 << 20
	frame := func(kind, rest string) string { return `data: {"type":"` + kind + `",` + rest + "}\n\n" }
	open := func(i int, item string) string {
		return frame("response.output_item.added", fmt.Sprintf(`"output_index":%d,"item":%s`, i, item))
	}
	const call = `{"type":"function_call","call_id":"c","name":"f","arguments":""}`
	argue := frame("response.function_call_arguments.delta", `"output_index":0,"delta":"`+strings.Repeat("[", 1<<20)+`"`)
	var calls, items, listed strings.Builder
	for i := range 1100 {
		calls.WriteString(open(i, call))
		items.WriteString(open(0, `{"type":"message"}`))
		listed.WriteString(call + ",")
	}
	for name, reply := range map[string]conversation.Reply{
		"more tool calls than anybody makes":      streamReply(calls.String()),
		"more items":                              streamReply(items.String()),
		"more of them at once":                    jsonReply(`{"status":"completed","output":[` + listed.String() + call + `]}`),
		"more of them in the terminal event":      streamReply(frame("response.completed", `"response":{"output":[`+listed.String()+call+`]}`)),
		"arguments without an end":                streamReply(open(0, call) + strings.Repeat(argue, 3)),
		"a frame above the limit":                 streamReply(frame("response.output_text.delta", `"delta":"`+strings.Repeat("a", limit)+`"`)),
		"a body of open brackets":                 jsonReply(strings.Repeat("[", 30<<20)),
		"a body of open objects":                  jsonReply(strings.Repeat(`{"a":`, 2<<20)),
		"an error of open brackets":               streamReply(frame("error", `"message":"`+strings.Repeat("[", 100<<10)+`"`)),
		"an error of open brackets in a response": streamReply(frame("response.failed", `"response":{"error":{"message":"`+strings.Repeat("[", 100<<10)+`"}}`)),
	} {
		t.Run(name, func(t *testing.T) {
			bounded := adapter
			bounded.New = func(client *wire.Client) provider.Provider {
				return &responses.Provider{Wire: client, Policy: fault.Default(), Headers: headers, MaxEvent: limit}
			}
			got := bounded.Replay(t, reply, adapter.Call(hello(t), conversation.Channel{}), whole)
			require.NotNil(t, got.Failure)
			assert.Equal(t, fault.BadResponse, got.Failure.Class)
		})
	}
}

const (
	starts = `data: {"type":"response.created","response":{"id":"resp_1","model":"m"}}` + "\n\n"
	says   = `data: {"type":"response.output_text.delta","output_index":0,"delta":"a"}` + "\n\n"
	ends   = `data: {"type":"response.completed","response":{"status":"completed"}}` + "\n\n"
)

// A new TLS handshake for every answer would cost more than anything else here.
func TestAConnectionIsKeptAfterAWholeAnswer(t *testing.T) {
	for name, reply := range map[string]conversation.Reply{
		"a stream":                      streamReply(starts + says + ends),
		"a stream with comments behind": streamReply(starts + says + ends + strings.Repeat(": bye\n\n", 1000)),
		"a plain answer":                jsonReply(`{"status":"completed","output":[]}`),
		"an error, which is read whole": {Status: 429, Header: http.Header{"Content-Type": {"application/json"}}, Body: `{"error":{"code":"rate_limit_exceeded"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			dials := 0
			client := conversation.Serve(t, &conversation.Upstream{Reply: reply})
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
		"before content": {starts + `data: {"type":"response.in_progress"}` + "\n\n", 0, fault.PhasePreContent},
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
