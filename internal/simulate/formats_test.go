package simulate_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/provider"
	"spillway/internal/provider/anthropic"
	"spillway/internal/provider/gemini"
	"spillway/internal/provider/openai"
	"spillway/internal/provider/wire"
	"spillway/internal/simulate"
	"spillway/internal/simulate/conversation"
)

var update = flag.Bool("update", false, "write the answers into testdata/*/*.txt; read the difference before committing it")

// spoken is a format that our adapter calls the provider in.
type spoken struct {
	model   string // of the provider's, "sim-<name>-" without the fault
	adapter conversation.Adapter
	// responses is what the channels say of OpenAI's two formats.
	responses catalog.Responses
	// hides: our adapter does not ask to be shown the reasoning.
	hides bool
	// path of a plain call and of a stream; headers that a call needs.
	plain, stream string
	headers       map[string]string
}

var formats = map[string]spoken{
	"anthropic": {model: "sim-anthropic-", adapter: conversation.Adapter{
		New: func(client *wire.Client) provider.Provider {
			return &anthropic.Provider{Wire: client, Policy: fault.Default()}
		},
		Provider: catalog.Provider{Kind: anthropic.Kind, Vendor: "anthropic"},
	}, plain: "/v1/messages", stream: "/v1/messages", headers: map[string]string{"X-Api-Key": "key", "Anthropic-Version": "2023-06-01"}},
	"gemini": {model: "sim-gemini-", adapter: conversation.Adapter{
		New: func(client *wire.Client) provider.Provider {
			return &gemini.Provider{Wire: client, Policy: fault.Default(), NewID: counter()}
		},
		Provider: catalog.Provider{Kind: "gemini", Vendor: "gemini"},
	}, plain: "/v1/models/sim-gemini-ok:generateContent", stream: "/v1/models/sim-gemini-ok:streamGenerateContent?alt=sse",
		headers: map[string]string{"X-Goog-Api-Key": "key"}},
	"responses": {model: "sim-responses-", adapter: conversation.Adapter{
		New: func(client *wire.Client) provider.Provider {
			return &openai.Provider{Wire: client, Policy: fault.Default()}
		},
		Provider: catalog.Provider{Kind: "openai", Vendor: "openai"},
	}, responses: catalog.ResponsesAlways, hides: true, plain: "/v1/responses", stream: "/v1/responses", headers: map[string]string{"Authorization": "Bearer key"}},
}

func counter() func() string {
	n := 0
	return func() string { n++; return "call_" + string(rune('0'+n)) }
}

// question is a chat client's body with more members.
func question(text, more string) string {
	return `{"model":"m","messages":[{"role":"user","content":` + text + `}]` + more + `}`
}

const (
	bothTools = `,"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}}},` +
		`{"type":"function","function":{"name":"get_time","parameters":{"type":"object","properties":{"zone":{"enum":["utc"]}}}}}]`
	ofSchema = `,"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object",` +
		`"properties":{"answer":{"type":"string"},"level":{"type":"integer"}},"required":["answer","level"],"additionalProperties":false}}}`
	pixel = `data:image/png;base64,iVBORw0KGgo=`
)

// asks are what every format must be able to answer.
var asks = map[string]string{
	"text":      question(`"hello"`, ``),
	"two tools": question(`"The weather and the time?"`, bothTools),
	"a schema":  question(`"hello"`, ofSchema),
	"a limit":   question(`"hello"`, `,"max_tokens":20`),
	"reasoning": question(`"hello"`, `,"reasoning_effort":"high"`),
	"an image":  question(`[{"type":"text","text":"See?"},{"type":"image_url","image_url":{"url":"`+pixel+`"}}]`, ``),
}

// inFormat runs the test in a bubble with the adapter's end of a provider.
func inFormat(t *testing.T, s spoken, run func(*testing.T, *simulate.Provider, func(fault, body string, plain bool) conversation.Outcome)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := simulate.NewPipeListener()
		p := simulate.New()
		served := make(chan error, 1)
		go func() { served <- p.Serve(l) }()
		client := &wire.Client{Dial: l.DialContext}
		defer func() {
			client.Close()
			ok(t, p.Close())
			ok(t, <-served)
		}()
		adapter := s.adapter.New(client)
		run(t, p, func(fault, body string, plain bool) conversation.Outcome {
			return conversation.Follow(t, adapter, s.call(t, fault, body, plain))
		})
	})
}

func (s spoken) call(t testing.TB, fault, body string, plain bool) provider.Call {
	made := s.adapter.Call(conversation.Parse(t, body), conversation.Channel{Model: s.model + fault, Plain: plain})
	made.Channel.Capabilities.Responses = s.responses
	return made
}

// What our adapter makes of a healthy answer is the same from a stream and from a
// body, and is what was asked for; the counts add up.
func TestAdaptersDecodeTheHealthyAnswers(t *testing.T) {
	for name, s := range formats {
		for ask, body := range asks {
			t.Run(name+" "+ask, func(t *testing.T) {
				inFormat(t, s, func(t *testing.T, p *simulate.Provider, call func(string, string, bool) conversation.Outcome) {
					streamed, plain := call("ok", body, false), call("ok", body, true)
					require.Nil(t, streamed.Failure, "%v", streamed.Failure)
					require.Nil(t, plain.Failure, "%v", plain.Failure)
					a, b := streamed.Answer.Choices[0], plain.Answer.Choices[0]
					a.Calls, b.Calls = withoutIDs(a.Calls), withoutIDs(b.Calls)
					assert.Equal(t, a, b, "a stream and a body")
					assert.EqualValues(t, s.model+"ok", streamed.Answer.Model)
					assert.Equal(t, simulate.RequestID(1), streamed.Info.RequestID)
					assert.Empty(t, p.Unexpected())

					want := wanted(ask)
					assert.Equal(t, want.Text, a.Text)
					assert.Equal(t, want.Calls, withoutSignatures(a.Calls))
					assert.Equal(t, want.Finish, a.Finish)
					assert.Equal(t, ask == "reasoning" && !s.hides, a.Reasoning != "", "reasoning")
					assert.Equal(t, ask == "reasoning", len(a.Thinking) > 0 && a.Thinking[0].Signature+a.Thinking[0].Data != "", "reasoning that can be replayed")

					u := *streamed.Usage
					u.Raw, plain.Usage.Raw = "", ""
					assert.Equal(t, u, *plain.Usage, "usage of a stream and of a body")
					assert.Equal(t, tokensOf(ask), u.Completion-u.Reasoning, "completion tokens beside the reasoning")
					assert.Equal(t, ask == "reasoning", u.Reasoning > 0)
					assert.Positive(t, u.Prompt)
				})
			})
		}
	}
}

func wanted(ask string) chat.AnswerChoice {
	switch ask {
	case "two tools":
		return chat.AnswerChoice{Calls: []chat.ToolCall{{Name: "get_weather", Arguments: `{"city":"Lisbon"}`}, {Name: "get_time", Arguments: `{"zone":"utc"}`}},
			Finish: chat.FinishToolCalls}
	case "a schema":
		return chat.AnswerChoice{Text: `{"answer":"spillway","level":1}`, Finish: chat.FinishStop}
	case "a limit":
		return chat.AnswerChoice{Text: prefix(20), Finish: chat.FinishLength}
	case "an image":
		return chat.AnswerChoice{Text: "I see 1 image(s). " + simulate.Answer(), Finish: chat.FinishStop}
	}
	return chat.AnswerChoice{Text: simulate.Answer(), Finish: chat.FinishStop}
}

func tokensOf(ask string) int64 {
	return map[string]int64{"text": 60, "reasoning": 60, "two tools": 6, "a schema": 6, "a limit": 20, "an image": 64}[ask]
}

func withoutIDs(calls []chat.ToolCall) (out []chat.ToolCall) {
	for _, c := range calls {
		c.ID = ""
		out = append(out, c)
	}
	return out
}

func withoutSignatures(calls []chat.ToolCall) (out []chat.ToolCall) {
	for _, c := range calls {
		c.Signature = ""
		out = append(out, c)
	}
	return out
}

// A conversation goes on as the provider wants it to: the calls come back with their
// results, what was signed with its signature; what another provider made, or a client
// lost, is taken all the same.
func TestAdaptersReplayToolCalls(t *testing.T) {
	for name, s := range formats {
		for what, change := range map[string]func(*chat.Message){
			"as it was":               func(*chat.Message) {},
			"without what was signed": func(m *chat.Message) { m.Calls, m.Thinking = withoutSignatures(m.Calls), nil },
			"with another provider's ids": func(m *chat.Message) {
				m.Calls[0].ID, m.Calls[1].ID = "functions.get_weather:0", "functions.get_time:1"
			},
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				inFormat(t, s, func(t *testing.T, _ *simulate.Provider, call func(string, string, bool) conversation.Outcome) {
					made := s.call(t, "ok", asks["two tools"], false)
					first := call("ok", asks["two tools"], false)
					require.Nil(t, first.Failure)
					said := chat.Message{Role: chat.Assistant, Calls: first.Answer.Choices[0].Calls, Thinking: first.Answer.Choices[0].Thinking}
					change(&said)
					made.Request.Messages = append(made.Request.Messages, said)
					for _, c := range said.Calls {
						made.Request.Messages = append(made.Request.Messages, chat.Message{Role: chat.ToolRole, CallID: c.ID, Parts: []chat.Part{{Kind: chat.TextPart, Text: "fine"}}})
					}
					follow(t, s, made, func(second conversation.Outcome) {
						require.Nil(t, second.Failure, "%+v", second.Failure)
						assert.Equal(t, simulate.Answer(), second.Answer.Choices[0].Text)
					})
				})
			})
		}
	}
}

// Reasoning that stood between words and calls goes back to where it stood, and the judges take it there.
func TestAdaptersReplayReasoningAtItsPlace(t *testing.T) {
	for name, s := range formats {
		t.Run(name, func(t *testing.T) {
			inFormat(t, s, func(t *testing.T, _ *simulate.Provider, call func(string, string, bool) conversation.Outcome) {
				thought, used := call("ok", asks["reasoning"], false), call("ok", asks["two tools"], false)
				block := thought.Answer.Choices[0].Thinking[0]
				said := chat.Message{Role: chat.Assistant, Parts: []chat.Part{{Kind: chat.TextPart, Text: "One. Two."}}, Calls: used.Answer.Choices[0].Calls}
				for _, place := range []chat.Place{{}, {Text: 5}, {Text: 9}, {Text: 9, Calls: 1}} {
					block.After = place
					said.Thinking = append(said.Thinking, block)
				}
				made := s.call(t, "ok", asks["two tools"], false)
				made.Request.Messages = append(made.Request.Messages, said)
				for _, c := range said.Calls {
					made.Request.Messages = append(made.Request.Messages, chat.Message{Role: chat.ToolRole, CallID: c.ID, Parts: []chat.Part{{Kind: chat.TextPart, Text: "fine"}}})
				}
				follow(t, s, made, func(second conversation.Outcome) {
					require.Nil(t, second.Failure, "%+v", second.Failure)
					assert.Equal(t, simulate.Answer(), second.Answer.Choices[0].Text)
				})
			})
		})
	}
}

// follow makes a call of a provider of its own.
func follow(t *testing.T, s spoken, made provider.Call, check func(conversation.Outcome)) {
	t.Helper()
	l := simulate.NewPipeListener()
	p := simulate.New()
	served := make(chan error, 1)
	go func() { served <- p.Serve(l) }()
	client := &wire.Client{Dial: l.DialContext}
	defer func() {
		client.Close()
		ok(t, p.Close())
		ok(t, <-served)
	}()
	check(conversation.Follow(t, s.adapter.New(client), made))
}

// What is wrong with an answer reaches the gateway as the right class, in each format.
func TestAdaptersClassifyTheFaults(t *testing.T) {
	overloaded := map[string]fault.Class{"anthropic": fault.Overloaded, "gemini": fault.ServerError, "responses": fault.Overloaded}
	for name, s := range formats {
		for model, want := range map[string]fault.Class{
			"f02": fault.RateLimited, "f03": fault.ServerError, "f04": fault.ServerError, "f08": fault.Network, "f12": fault.ContextLength,
			"f16": overloaded[name], "f17": overloaded[name], "f18a": fault.ServerError, "f18b": fault.BadResponse, "f18c": fault.BadResponse,
			"f18d": fault.BadResponse, "f19": fault.Quota, "f20": fault.Auth, "f32": fault.BadResponse,
		} {
			for _, plain := range []bool{false, true} {
				want := want
				if model == "f32" && plain {
					want = fault.Network // a body that is cut
				}
				t.Run(name+" "+model, func(t *testing.T) {
					inFormat(t, s, func(t *testing.T, _ *simulate.Provider, call func(string, string, bool) conversation.Outcome) {
						got := call(model, asks["text"], plain)
						require.NotNil(t, got.Failure)
						assert.Equal(t, want, got.Failure.Class)
						for _, e := range got.Events {
							assert.True(t, model == "f08" || !strings.Contains(e, "content"), e)
						}
					})
				})
			}
		}
	}
}

// A fault that counts tokens counts the same in each format, and one that spares the
// answer leaves it whole.
func TestAdaptersReadWhatTheFaultsLeave(t *testing.T) {
	for name, s := range formats {
		for model, want := range map[string]struct {
			text      string
			malformed int
			fails     bool
		}{
			"f08": {text: prefix(40), fails: true},
			"f10": {text: prefix(60), malformed: 1},
			"f11": {text: prefix(60)}, // the body has no end, the answer has
			"f14": {text: prefix(40), fails: true},
		} {
			t.Run(name+" "+model, func(t *testing.T) {
				inFormat(t, s, func(t *testing.T, _ *simulate.Provider, call func(string, string, bool) conversation.Outcome) {
					began := time.Now()
					got := call(model, asks["text"], false)
					assert.Less(t, time.Since(began), 3*time.Second)
					assert.Equal(t, want.text, got.Answer.Choices[0].Text)
					assert.Equal(t, want.malformed, got.Info.Malformed)
					assert.Equal(t, want.fails, got.Failure != nil)
				})
			})
		}
	}
}

// The hint of a throttled call is understood, be it a header or in the body.
func TestAdaptersReadTheHints(t *testing.T) {
	for name, s := range formats {
		t.Run(name, func(t *testing.T) {
			inFormat(t, s, func(t *testing.T, _ *simulate.Provider, call func(string, string, bool) conversation.Outcome) {
				got := call("f31", asks["text"], false)
				require.NotNil(t, got.Failure)
				assert.Equal(t, 30*time.Second, got.Failure.Hint.Wait)
			})
		})
	}
}

// A cut in the middle of a tool call leaves a part of it, or the whole call without the
// end of the answer, and never an answer.
func TestAdaptersSeeACutToolCall(t *testing.T) {
	for name, s := range formats {
		t.Run(name, func(t *testing.T) {
			inFormat(t, s, func(t *testing.T, _ *simulate.Provider, call func(string, string, bool) conversation.Outcome) {
				got := call("f21", asks["two tools"], false)
				require.NotNil(t, got.Failure)
				assert.Equal(t, fault.Network, got.Failure.Class)
				calls := got.Answer.Choices[0].Calls
				require.NotEmpty(t, calls)
				assert.Equal(t, "get_weather", calls[0].Name)
				assert.Empty(t, got.Answer.Choices[0].Finish)
			})
		})
	}
}

// upstreamBody is what our adapter asks in the format.
func (s spoken) upstreamBody(t *testing.T, body string, plain bool) []byte {
	t.Helper()
	far := &conversation.Upstream{Reply: conversation.Reply{Status: http.StatusTeapot, Header: http.Header{}}}
	_ = conversation.Follow(t, s.adapter.New(conversation.Serve(t, far)), s.call(t, "ok", body, plain))
	require.NotEmpty(t, far.Body)
	return far.Body
}

// TestAnswersAreByteStable holds each format's answers to what is written down, and to
// being the same again from a provider that has been reset.
func TestAnswersAreByteStable(t *testing.T) {
	for name, s := range formats {
		for ask, body := range asks {
			for _, plain := range []bool{false, true} {
				kind, path := "stream", s.stream
				if plain {
					kind, path = "plain", s.plain
				}
				t.Run(name+" "+ask+" "+kind, func(t *testing.T) {
					asked := s.upstreamBody(t, body, plain)
					inBubble(t, func(t *testing.T, u upstream) {
						status, first := u.send(t, path, asked, s.headers)
						u.Reset()
						_, again := u.send(t, path, asked, s.headers)
						same(t, "status", http.StatusOK, status)
						same(t, "again", first, again)
						file := filepath.Join("testdata", name, strings.ReplaceAll(ask, " ", "-")+"-"+kind+".txt")
						if *update {
							ok(t, os.MkdirAll(filepath.Dir(file), 0o755))
							ok(t, os.WriteFile(file, []byte(first), 0o644))
						}
						want, err := os.ReadFile(file)
						ok(t, err)
						same(t, file, string(want), first)
					}, simulate.Gap(0))
				})
			}
		}
	}
}

// send posts a body as it is to a path.
func (u upstream) send(t testing.TB, path string, body []byte, headers map[string]string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://provider"+path, bytes.NewReader(body))
	ok(t, err)
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	resp, err := u.client.Do(req)
	ok(t, err)
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	ok(t, err)
	return resp.StatusCode, string(all)
}

// Each path is spoken with and without the version that a base address ends with, and
// a model of one format is unknown to the others.
func TestPathsAndModels(t *testing.T) {
	const (
		messages  = `{"model":"MODEL","max_tokens":9,"messages":[{"role":"user","content":"x"}]}`
		contents  = `{"contents":[{"role":"user","parts":[{"text":"x"}]}]}`
		input     = `{"model":"MODEL","input":"x"}`
		chatInput = `{"model":"MODEL","messages":[{"role":"user","content":"x"}]}`
	)
	headers := map[string]string{"Authorization": "Bearer key", "X-Api-Key": "key", "Anthropic-Version": "2023-06-01", "X-Goog-Api-Key": "key"}
	for _, c := range []struct {
		path, body, model string
		status            int
	}{
		{"/v1/chat/completions", chatInput, "sim-ok", 200},
		{"/chat/completions", chatInput, "sim-ok", 200},
		{"/v1/chat/completions", chatInput, "sim-anthropic-ok", 404},
		{"/v1/responses", input, "sim-responses-ok", 200},
		{"/responses", input, "sim-ok", 200},
		{"/responses", input, "sim-gemini-ok", 404},
		{"/v1/messages", messages, "sim-anthropic-ok", 200},
		{"/messages", messages, "sim-anthropic-ok", 200},
		{"/messages", messages, "sim-responses-ok", 404},
		{"/v1beta/models/sim-gemini-ok:generateContent", contents, "sim-gemini-ok", 200},
		{"/models/sim-gemini-ok:generateContent", contents, "sim-gemini-ok", 200},
		{"/v1/models/sim-gemini-ok:streamGenerateContent?alt=sse", contents, "sim-gemini-ok", 200},
		{"/v1/models/sim-anthropic-ok:generateContent", contents, "sim-anthropic-ok", 404},
		{"/v1/models/sim-gemini-ok:countTokens", contents, "", 404},
		{"/v2/messages", messages, "", 404},
	} {
		t.Run(c.path+" "+c.model, func(t *testing.T) {
			inBubble(t, func(t *testing.T, u upstream) {
				status, body := u.send(t, c.path, []byte(strings.ReplaceAll(c.body, "MODEL", c.model)), headers)
				same(t, "status", c.status, status)
				if c.status == 404 {
					same(t, "an error", true, strings.Contains(body, `"error":{`))
				}
				if c.model != "" {
					same(t, "logged model", c.model, u.Calls()[0].Model)
				}
			})
		})
	}
}

// Every event of a stream is JSON, and names itself where the format names events.
func TestEventsAreWellFormed(t *testing.T) {
	for name, s := range formats {
		inBubble(t, func(t *testing.T, u upstream) {
			_, body := u.send(t, s.stream, s.upstreamBody(t, asks["reasoning"], false), s.headers)
			for event := range strings.SplitSeq(strings.TrimSpace(strings.ReplaceAll(body, "\r\n", "\n")), "\n\n") {
				head, data, _ := strings.Cut(event, "data: ")
				var typed struct{ Type string }
				ok(t, json.Unmarshal([]byte(data), &typed))
				if name == "gemini" {
					same(t, "event name", "", head)
				} else {
					same(t, "event name", "event: "+typed.Type+"\n", head)
				}
			}
		})
	}
}
