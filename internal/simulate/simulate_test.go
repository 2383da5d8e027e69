package simulate_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"spillway/internal/simulate"
)

// upstream is a provider over an in-memory listener and a client for it.
type upstream struct {
	*simulate.Provider
	client *http.Client
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

// inBubble runs the test in a synctest bubble with an upstream that is gone, with
// all its goroutines, at the end.
func inBubble(t *testing.T, run func(*testing.T, upstream), opts ...simulate.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := simulate.NewPipeListener()
		transport := &http.Transport{DialContext: l.DialContext}
		u := upstream{Provider: simulate.New(opts...), client: &http.Client{Transport: transport}, dial: l.DialContext}
		served := make(chan error, 1)
		go func() { served <- u.Serve(l) }()
		defer func() {
			ok(t, u.Close())
			ok(t, <-served)
			transport.CloseIdleConnections()
		}()
		run(t, u)
	})
}

// answer is what the client had when the exchange ended.
type answer struct {
	status  int
	header  http.Header
	body    string
	err     error // of the round trip, or of reading the body
	first   time.Duration
	headers time.Duration
	length  int64
	total   time.Duration
}

func (u upstream) post(ctx context.Context, body string, headers ...string) answer {
	start := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://provider/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	req.Header.Set("Authorization", "Bearer secret-key")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := u.client.Do(req)
	if err != nil {
		return answer{err: err, total: time.Since(start)}
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header, headers: time.Since(start), length: resp.ContentLength}
	var b strings.Builder
	buf := make([]byte, 64<<10)
	for {
		n, err := resp.Body.Read(buf)
		b.Write(buf[:n])
		if a.first == 0 && strings.Contains(b.String(), "When") {
			a.first = time.Since(start)
		}
		if err != nil {
			if err != io.EOF {
				a.err = err
			}
			break
		}
	}
	a.body, a.total = b.String(), time.Since(start)
	return a
}

func ask(model, more string) string {
	return `{"model":"` + model + `","messages":[{"role":"user","content":"hello"}]` + more + `}`
}

const streaming = `,"stream":true,"stream_options":{"include_usage":true}`

// payloads are the data of a stream's events.
func (a answer) payloads() []string {
	var out []string
	for _, e := range strings.Split(a.body, "\n\n") {
		if data, ok := strings.CutPrefix(e, "data: "); ok {
			out = append(out, data)
		}
	}
	return out
}

type chunk struct {
	ID                string
	Object            string
	Created           int64
	Model             string
	SystemFingerprint string `json:"system_fingerprint"`
	Choices           []struct {
		Index int
		Delta struct {
			Role      string
			Content   string
			ToolCalls []struct {
				Index    int
				ID       string
				Type     string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		Message struct {
			Content   *string
			ToolCalls []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		FinishReason *string `json:"finish_reason"`
	}
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		TotalTokens      int `json:"total_tokens"`
	}
	Error *struct {
		Message, Type string
		Param, Code   *string
	}
}

// chunks decodes every event but "[DONE]"; malformed counts those that are no JSON.
func (a answer) chunks() (all []chunk, malformed int) {
	for _, p := range a.payloads() {
		if p == "[DONE]" {
			continue
		}
		var c chunk
		if json.Unmarshal([]byte(p), &c) != nil {
			malformed++
			continue
		}
		all = append(all, c)
	}
	return all, malformed
}

// text joins the content of choice 0.
func (a answer) text() string {
	var b strings.Builder
	all, _ := a.chunks()
	for _, c := range all {
		for _, ch := range c.Choices {
			if ch.Index == 0 {
				b.WriteString(ch.Delta.Content)
			}
		}
	}
	return b.String()
}

func (a answer) decode(t *testing.T) chunk {
	t.Helper()
	var c chunk
	if err := json.Unmarshal([]byte(a.body), &c); err != nil {
		t.Fatalf("answer is no JSON: %v: %s", err, a.body)
	}
	return c
}

// prefix is the first n tokens of the healthy answer.
func prefix(n int) string { return strings.Join(simulate.Tokens()[:n], "") }

func TestTheAnswerHasSixtyTokens(t *testing.T) {
	same(t, "tokens", 60, len(simulate.Tokens()))
	same(t, "words", 60, len(strings.Fields(simulate.Answer())))
	same(t, "joined tokens", simulate.Answer(), strings.Join(simulate.Tokens(), ""))
}

func TestHealthyStream(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		a := u.post(t.Context(), ask("sim-ok", streaming))
		ok(t, a.err)
		same(t, "status", 200, a.status)
		same(t, "content type", "text/event-stream; charset=utf-8", a.header.Get("Content-Type"))
		same(t, "request id", "req_sim_000001", a.header.Get("X-Request-Id"))
		same(t, "text", simulate.Answer(), a.text())
		same(t, "time to first token", 5*time.Millisecond, a.first)
		same(t, "time to the end", 300*time.Millisecond, a.total)

		all, malformed := a.chunks()
		same(t, "malformed", 0, malformed)
		if len(all) != 1+60+1+1 {
			t.Fatalf("%d chunks, want role, 60 tokens, finish, usage", len(all))
		}
		same(t, "role", "assistant", all[0].Choices[0].Delta.Role)
		same(t, "content beside the role", "", all[0].Choices[0].Delta.Content)
		for _, c := range all {
			same(t, "object", "chat.completion.chunk", c.Object)
			same(t, "model", "sim-ok", c.Model)
			same(t, "id", "chatcmpl-sim000001", c.ID)
			same(t, "fingerprint", "fp_simulated", c.SystemFingerprint)
			same(t, "created", time.Now().Unix(), c.Created)
		}
		same(t, "finish reason", "stop", *all[61].Choices[0].FinishReason)
		same(t, "choices beside usage", 0, len(all[62].Choices))
		same(t, "completion tokens", 60, all[62].Usage.CompletionTokens)
		same(t, "total tokens", all[62].Usage.PromptTokens+60, all[62].Usage.TotalTokens)
		same(t, "end mark", "[DONE]", a.payloads()[63])
	})
}

func TestConnectionIsReused(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		for range 3 {
			same(t, "plain", 200, u.post(t.Context(), ask("sim-ok", "")).status)
			same(t, "stream", 200, u.post(t.Context(), ask("sim-ok", streaming)).status)
		}
		synctest.Wait()
		for _, c := range u.Calls() {
			same(t, "connection", 1, c.Conn)
			same(t, "outcome", simulate.OutcomeComplete, c.Outcome)
		}
		same(t, "calls", 6, u.Count("sim-ok"))
	})
}

func TestScript(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		u.Script("m",
			simulate.Error(503, "server_error", "", "down").WithHeader("Retry-After", "2"),
			simulate.Reply{Status: simulate.NoAnswer, End: simulate.Cut},
			simulate.Events(time.Second, simulate.Cut, `{"a":1}`, `{"a":2}`),
			simulate.Healthy(),
		)
		same(t, "unexpected", []string{`"m": 4 scripted replies were not asked for`}, u.Unexpected())

		a := u.post(t.Context(), ask("m", ""))
		same(t, "status", 503, a.status)
		same(t, "Retry-After", "2", a.header.Get("Retry-After"))
		same(t, "body", `{"error":{"message":"down","type":"server_error","param":null,"code":null}}`, a.body)

		fails(t, io.EOF, u.post(t.Context(), ask("m", "")).err)

		a = u.post(t.Context(), ask("m", streaming))
		fails(t, io.ErrUnexpectedEOF, a.err)
		same(t, "events", []string{`{"a":1}`, `{"a":2}`}, a.payloads())
		same(t, "time", 2*time.Second, a.total)

		same(t, "text", simulate.Answer(), u.post(t.Context(), ask("m", streaming)).text())
		same(t, "unexpected", nil, u.Unexpected())

		same(t, "status", 418, u.post(t.Context(), ask("m", "")).status)
		same(t, "status", 404, u.post(t.Context(), ask("other", "")).status)
		same(t, "unexpected", []string{
			`call 5 of "m": its script has no reply left`,
			`call for "other": no such model and no script for it`,
		}, u.Unexpected())

		u.Reset()
		same(t, "unexpected after reset", nil, u.Unexpected())
		same(t, "calls after reset", 0, len(u.Calls()))
		same(t, "count after reset", 0, u.Count("m"))
	})
}

// TestOverTCP is the one look at real sockets: streaming, a reset, and an order and a work that break off.
func TestOverTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	p := simulate.New(simulate.Gap(0), simulate.JobTakes(0))
	served := make(chan error, 1)
	go func() { served <- p.Serve(l) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}}
	defer transport.CloseIdleConnections()
	u := upstream{Provider: p, client: &http.Client{Transport: transport}, dial: transport.DialContext}

	same(t, "text", simulate.Answer(), u.post(t.Context(), ask("sim-ok", streaming)).text())
	fails(t, syscall.ECONNRESET, u.post(t.Context(), ask("sim-f05", streaming)).err)
	same(t, "text", simulate.Answer(), u.post(t.Context(), ask("sim-f05", streaming)).text())

	for model, want := range map[string]string{"sim-video-lost": "submit: network, ambiguous", "sim-music-cut": "work: 100000 of 200000 bytes"} {
		l := u.order(t, model, "http://sim.test/v1", `{"model":"m","prompt":"p"}`)
		l.live(t, 1)
		same(t, model, []string{want}, l.seen)
	}

	ok(t, p.Close())
	ok(t, <-served)
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func fails(t *testing.T, want, got error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("error: got %v, want %v", got, want)
	}
}

func same[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
