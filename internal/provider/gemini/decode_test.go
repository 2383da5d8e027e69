package gemini_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"spillway/internal/chat"
	"spillway/internal/dialect/openai"
	"spillway/internal/fault"
	"spillway/internal/provider"
	"spillway/internal/provider/gemini"
	"spillway/internal/provider/wire"
	"spillway/internal/simulate/conversation"
)

func whole(rest int) int { return rest }

func parsed(t testing.TB, body string) *chat.Request {
	t.Helper()
	return conversation.Parse(t, body)
}

// hello is the least request.
func hello(t testing.TB) *chat.Request {
	t.Helper()
	return parsed(t, `{"model":"fast","messages":[{"role":"user","content":"x"}]}`)
}

func call(req *chat.Request) provider.Call { return adapter.Call(req, conversation.Channel{}) }

// unreachable is a client for calls that must not be made.
func unreachable() *wire.Client {
	return &wire.Client{Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("connection refused") }}
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
		one := adapter.Replay(t, plain(body(parts, end, len(parts))), adapter.Call(hello(t), conversation.Channel{Plain: true}), whole)
		many := adapter.Replay(t, streamed(frames.String()), call(hello(t)), func(int) int { return rapid.IntRange(1, 100).Draw(rt, "piece") })
		require.Nil(rt, one.Failure)
		require.Nil(rt, many.Failure)
		require.Equal(rt, one.Answer, many.Answer)
	})
}

func FuzzDecode(f *testing.F) {
	for _, c := range conversation.Load(f, "clean", "failures") {
		if r := c.Reply(f); r.Status == http.StatusOK {
			f.Add([]byte(r.Body), !c.Channel(f).Plain, byte(7))
		}
	}
	f.Add([]byte(`data: {"candidates":{"0":{"content":{"parts":{"a":[]}},"finishReason":["x"]}},"usageMetadata":[],"error":0,"promptFeedback":1}`+"\n\n"), true, byte(1))
	f.Fuzz(func(t *testing.T, body []byte, stream bool, cut byte) {
		reply := plain(string(body))
		if stream {
			reply = streamed(string(body))
		}
		made := adapter.Call(hello(t), conversation.Channel{Plain: !stream})
		once := adapter.Replay(t, reply, made, whole)
		require.LessOrEqual(t, len(once.Events), len(body)/2+2, "events from nothing")
		again := adapter.Replay(t, reply, made, func(int) int { return int(cut) + 1 })
		require.Equal(t, once.Text(), again.Text())
	})
}

// FuzzSchema: whatever a client's schema is, what is sent is JSON and of bounded size, or it is refused.
func FuzzSchema(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"allOf":[{"$ref":"#/$defs/B"}]},"B":{"const":1}}}`)
	f.Add(`{"$ref":"#/a","a":{"$ref":"#/b"},"b":{"items":{"$ref":"#/a"},"enum":1,"const":"x","properties":[1]}}`)
	f.Add(`{"anyOf":{"a":1},"oneOf":[true,false,null],"items":[{}],"$ref":"#/%7E0/~1"}`)
	f.Fuzz(func(t *testing.T, schema string) {
		req, refusal := openai.Chat{}.Parse([]byte(`{"model":"fast","messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema",` +
			`"json_schema":{"name":"out","schema":` + schema + `}}}`))
		if refusal != nil {
			return
		}
		far := &conversation.Upstream{Reply: streamed(frame(`{"text":"{}"}`, "STOP"))}
		got := conversation.Follow(t, counting(conversation.Serve(t, far)), call(req))
		if got.Failure != nil {
			require.Equal(t, fault.Refused, got.Failure.Local)
			require.True(t, strings.HasPrefix(got.Failure.Param, "response_format.json_schema.schema#"), got.Failure.Param)
			return
		}
		require.True(t, json.Valid(far.Body))
		require.Less(t, len(far.Body), 2<<20)
	})
}

// frame is one frame of a stream: a part and a finish reason.
func frame(part, finish string) string {
	return `data: {"responseId":"r","modelVersion":"m","candidates":[{"index":0,"content":{"parts":[` + part + `]},"finishReason":"` + finish + `"}]}` + "\r\n\r\n"
}

func streamed(body string) conversation.Reply { return reply("text/event-stream", body) }

func plain(body string) conversation.Reply { return reply("application/json", body) }

func reply(media, body string) conversation.Reply {
	return conversation.Reply{Status: 200, Header: http.Header{"Content-Type": {media}}, Body: body}
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
			got := conversation.Follow(t, counting(unreachable()), call(&tt.request))
			require.NotNil(t, got.Failure)
			assert.Equal(t, fault.UnsupportedParameter, got.Failure.Class)
			assert.Equal(t, tt.param, got.Failure.Param)
			assert.True(t, strings.HasPrefix(got.Failure.Message, tt.param+": "), got.Failure.Message)
			assert.False(t, got.Failure.Sent)
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
		"gemini-10.5-pro": true, "gemini-2.5-flash": false, "gemini-2.0-flash-001": false, "gemini-pro": false, "gemini-pro-vision": false,
		"gemini-flash": true, "gemma-3-27b-it": false, "": false} {
		far := &conversation.Upstream{Reply: streamed(frame(`{"text":"x"}`, "STOP"))}
		made := call(parsed(t, `{"model":"fast","messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f"}}]},
			{"role":"tool","tool_call_id":"c","content":"y"}]}`))
		made.Channel.Model = chat.RoutedModel(model)
		require.Nil(t, conversation.Follow(t, counting(conversation.Serve(t, far)), made).Failure)
		assert.Equal(t, unsigned, strings.Contains(string(far.Body), "skip_thought_signature_validator"), model)
	}
}

// TestBombsAreRefused: references that double with every level are cut off before they fill the memory.
func TestBombsAreRefused(t *testing.T) {
	var defs, merged, texts strings.Builder
	for i := range 60 {
		fmt.Fprintf(&defs, `"d%d":{"type":"object","properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"}}},`, i, i+1, i+1)
		fmt.Fprintf(&merged, `"d%d":{"$ref":"#/$defs/d%d","allOf":[{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	texts.WriteString(`"d0":{"anyOf":[` + strings.Repeat(`{"$ref":"#/$defs/text"},`, 1000) + `true]},"text":{"title":"` + strings.Repeat("a", 10<<10) + `"},`)
	for name, body := range map[string]string{"of properties": defs.String(), "of merged schemas": merged.String(), "of long texts": texts.String()} {
		t.Run(name, func(t *testing.T) {
			req := parsed(t, `{"model":"fast","messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema","json_schema":{"name":"out","schema":`+
				`{"$ref":"#/$defs/d0","$defs":{`+body+`"d60":{"type":"string"}}}}}}`)
			got := conversation.Follow(t, counting(unreachable()), call(req))
			require.NotNil(t, got.Failure)
			assert.Equal(t, fault.UnsupportedParameter, got.Failure.Class)
			assert.Contains(t, got.Failure.Message, "too large")
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
			limited := adapter
			limited.New = func(client *wire.Client) provider.Provider {
				p := counting(client)
				p.MaxEvent = limit
				return p
			}
			got := limited.Replay(t, reply(tt.media, tt.body), call(hello(t)), whole)
			require.NotNil(t, got.Failure)
			assert.Equal(t, fault.BadResponse, got.Failure.Class)
			assert.Equal(t, tt.phase, got.Failure.Phase)
		})
	}
}

// A new TLS handshake for every answer would cost more than anything else here.
func TestAConnectionIsKeptAfterAWholeAnswer(t *testing.T) {
	const body = `{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}]}`
	tests := map[string]conversation.Reply{
		"a stream":       streamed(frame(`{"text":"a"}`, "STOP")),
		"a plain answer": plain(body),
		"an error":       {Status: 429, Header: http.Header{"Content-Type": {"application/json"}}, Body: `{"error":{"code":429}}`},
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
			p := counting(client)
			for range 3 {
				conversation.Follow(t, p, call(hello(t)))
			}
			assert.Equal(t, 1, dials)
		})
	}
}

// babbling is a provider that sends a part of its answer and then, every second, a frame without data.
func babbling(part string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for said := part; r.Context().Err() == nil; said = "data:\n\n" {
			_, _ = io.WriteString(w, said)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(time.Second):
			}
		}
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
					p := counting(conversation.Serve(t, stuck(part.sent)))
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
	reply, err := p.Call(ctx, call(hello(t)))
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
	for name, provider := range map[string]func(string) http.HandlerFunc{"of a silent stream": stuck, "of one that says nothing": babbling} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := counting(conversation.Serve(t, provider(frame(`{"text":"a"}`, "STOP"))))
				began := time.Now()
				got := conversation.Follow(t, p, call(hello(t)))
				require.Nil(t, got.Failure)
				assert.Equal(t, []string{`[r 0 m] content 0: text "a";`, "content 0: finish stop (STOP);"}, got.Events)
				assert.Equal(t, 1500*time.Millisecond, time.Since(began))
			})
		})
	}
}

func TestIDsOfCallsAreUnique(t *testing.T) {
	random := adapter
	random.New = func(client *wire.Client) provider.Provider {
		return &gemini.Provider{Wire: client, Policy: fault.Default()}
	}
	calls := strings.TrimSuffix(strings.Repeat(`{"functionCall":{"name":"f"}},`, 50), ",")
	seen := map[string]bool{}
	for _, c := range random.Replay(t, streamed(frame(calls, "STOP")), call(hello(t)), whole).Answer.Choices[0].Calls {
		assert.True(t, strings.HasPrefix(c.ID, "call_") && len(c.ID) > 20, c.ID)
		seen[c.ID] = true
	}
	assert.Len(t, seen, 50)
}

// TestNothingShowsTheKey is B10 g.
func TestNothingShowsTheKey(t *testing.T) {
	p := counting(unreachable())
	made := adapter.Call(hello(t), conversation.Channel{Query: map[string]string{"key": "SECRET123"}})
	bad := call(hello(t))
	bad.Channel.Provider.BaseURL = "http://google.test/v1beta?key=SECRET123\x7f"
	for i, c := range []provider.Call{made, bad} {
		_, err := p.Call(t.Context(), c)
		var failure *fault.Failure
		require.ErrorAs(t, err, &failure, strconv.Itoa(i))
		assert.Equal(t, fault.Network, failure.Class)
		assert.False(t, failure.Sent)
		for _, text := range []string{failure.Error(), failure.Cause.Error(), fmt.Sprintf("%+v", failure)} {
			assert.NotContains(t, text, "SECRET123")
			assert.NotContains(t, text, conversation.Key)
		}
	}
}
