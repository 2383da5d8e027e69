package gateway_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"spillway/internal/breaker"
	"spillway/internal/catalog"
	chatdialect "spillway/internal/dialect/openai"
	"spillway/internal/edge"
	"spillway/internal/fault"
	"spillway/internal/gateway"
	"spillway/internal/provider"
	"spillway/internal/provider/anthropic"
	"spillway/internal/provider/gemini"
	"spillway/internal/provider/openai"
	"spillway/internal/provider/wire"
	"spillway/internal/retry"
	"spillway/internal/route"
	"spillway/internal/simulate"
	"spillway/internal/telemetry"
	"spillway/internal/tenant"
	routetrace "spillway/internal/trace"
	prices "spillway/internal/usage"
)

// kind is a wire format with what it takes to write answers in it. All of them use 20 tokens of input and 10 of output.
type kind struct {
	// name is that of the adapter, model one that it knows.
	name, model string
	// channel are further members of its channels.
	channel string
	// says is a streamed text that ends for one of our reasons, calls one call of a tool.
	says  func(text string, finish string) string
	calls func(tool, arguments string) string
	// limit is where in a request's body the output limit stands.
	limit string
}

func events(payloads ...string) string {
	return "data: " + strings.Join(payloads, "\n\ndata: ") + "\n\n"
}

func cutInTwo(text string) (string, string) { return text[:len(text)/2], text[len(text)/2:] }

// claude writes the stream of one block.
func claude(start string, deltas []string, reason string) string {
	all := []string{`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-served","content":[],"stop_reason":null,"usage":{"input_tokens":20,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":` + start + `}`}
	for _, d := range deltas {
		all = append(all, `{"type":"content_block_delta","index":0,"delta":`+d+`}`)
	}
	return events(append(all, `{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"`+reason+`","stop_sequence":null},"usage":{"output_tokens":10}}`, `{"type":"message_stop"}`)...)
}

// claudeCalls is a call of a tool, whole or cut off.
func claudeCalls(tool, arguments, reason string) string {
	first, second := cutInTwo(arguments)
	return claude(fmt.Sprintf(`{"type":"tool_use","id":"toolu_1","name":%q,"input":{}}`, tool), []string{fmt.Sprintf(`{"type":"input_json_delta","partial_json":%q}`, first),
		fmt.Sprintf(`{"type":"input_json_delta","partial_json":%q}`, second)}, reason)
}

func claudeSays(text, finish string) string {
	first, second := cutInTwo(text)
	return claude(`{"type":"text","text":""}`, []string{fmt.Sprintf(`{"type":"text_delta","text":%q}`, first), fmt.Sprintf(`{"type":"text_delta","text":%q}`, second)},
		map[string]string{"stop": "end_turn", "length": "max_tokens"}[finish])
}

func google(parts, reason string) string {
	return `{"candidates":[{"content":{"parts":[` + parts + `],"role":"model"},"index":0` + reason + `}],"usageMetadata":{"promptTokenCount":20,"candidatesTokenCount":10,"totalTokenCount":30},"modelVersion":"gemini-served","responseId":"g1"}`
}

func gpt(delta, finish, usage string) string {
	return `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1893456000,"model":"gpt-served","choices":[{"index":0,"delta":` + delta + `,"logprobs":null,"finish_reason":` + finish + `}]` + usage + `}`
}

// responses writes a stream of the Responses API with one item of output; its deltas are of the item.
func responses(item, kind string, pieces []string, finish string) string {
	all := []string{`{"type":"response.created","response":{"id":"resp_1","object":"response","created_at":1741290958,"status":"in_progress","error":null,"incomplete_details":null,"model":"gpt-served","output":[],"usage":null}}`,
		`{"type":"response.output_item.added","output_index":0,"item":` + item + `}`}
	for _, p := range pieces {
		all = append(all, fmt.Sprintf(`{"type":%q,"item_id":"item_1","output_index":0,"content_index":0,"delta":%q}`, kind, p))
	}
	status, details := "completed", "null"
	if finish == "length" {
		status, details = "incomplete", `{"reason":"max_output_tokens"}`
	}
	return events(append(all, `{"type":"response.`+status+`","response":{"id":"resp_1","object":"response","created_at":1741290958,"status":"`+status+`","error":null,"incomplete_details":`+details+
		`,"model":"gpt-served","output":[],"usage":{"input_tokens":20,"input_tokens_details":{"cached_tokens":0},"output_tokens":10,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":30}}}`)...)
}

const gptUsage = `,"usage":{"prompt_tokens":20,"completion_tokens":10,"total_tokens":30}`

var kinds = []kind{
	{name: "openai", model: "gpt-4.1", limit: "max_tokens",
		says: func(text, finish string) string {
			first, second := cutInTwo(text)
			return events(gpt(`{"role":"assistant","content":""}`, "null", ""), gpt(fmt.Sprintf(`{"content":%q}`, first), "null", ""), gpt(fmt.Sprintf(`{"content":%q}`, second), "null", ""),
				gpt(`{}`, `"`+finish+`"`, gptUsage), done)
		},
		calls: func(tool, arguments string) string {
			return events(gpt(fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":%q,"arguments":%q}}]}`, tool, arguments), "null", ""),
				gpt(`{}`, `"tool_calls"`, gptUsage), done)
		}},
	{name: "anthropic", model: "claude-sonnet-4-5", limit: "max_tokens", says: claudeSays,
		calls: func(tool, arguments string) string { return claudeCalls(tool, arguments, "tool_use") }},
	// Before 4.1 there is no schema mode: the answer is the input of a tool.
	{name: "anthropic", model: "claude-sonnet-4-20250514", limit: "max_tokens",
		says: func(text, finish string) string {
			return claudeCalls("s", text, map[string]string{"stop": "tool_use", "length": "max_tokens"}[finish])
		},
		calls: func(tool, arguments string) string { return claudeCalls(tool, arguments, "tool_use") }},
	{name: "gemini", model: "gemini-3-flash-preview", limit: "generationConfig.maxOutputTokens",
		says: func(text, finish string) string {
			first, second := cutInTwo(text)
			return events(google(fmt.Sprintf(`{"text":%q}`, first), ""), google(fmt.Sprintf(`{"text":%q}`, second), `,"finishReason":"`+map[string]string{"stop": "STOP", "length": "MAX_TOKENS"}[finish]+`"`))
		},
		calls: func(tool, arguments string) string {
			return events(google(fmt.Sprintf(`{"functionCall":{"name":%q,"args":%s}}`, tool, arguments), `,"finishReason":"STOP"`))
		}},
	{name: "openai", model: "gpt-4.1-mini", channel: `, "responses": "always"`, limit: "max_output_tokens",
		says: func(text, finish string) string {
			first, second := cutInTwo(text)
			return responses(`{"id":"item_1","type":"message","status":"in_progress","role":"assistant","content":[]}`, "response.output_text.delta", []string{first, second}, finish)
		},
		calls: func(tool, arguments string) string {
			first, second := cutInTwo(arguments)
			return responses(fmt.Sprintf(`{"id":"item_1","type":"function_call","status":"in_progress","call_id":"call_1","name":%q,"arguments":""}`, tool), "response.function_call_arguments.delta", []string{first, second}, "stop")
		}},
}

// scripted is the far end: two providers of one kind, a and b, each with its answers in order: streams, and errors that are
// a caller's mistake. A call too many is noted.
type scripted struct {
	mu      sync.Mutex
	answers map[string][]string
	calls   []call
	surplus int
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what is missing, the test sees
	s.mu.Lock()
	defer s.mu.Unlock()
	letter := strings.ToUpper(r.Host[:1])
	s.calls = append(s.calls, call{letter: letter, body: string(body), path: r.URL.Path})
	queue := s.answers[letter]
	if len(queue) == 0 {
		s.surplus++
		w.WriteHeader(http.StatusTeapot)
		return
	}
	s.answers[letter] = queue[1:]
	w.Header().Set("Content-Type", "text/event-stream")
	if strings.HasPrefix(queue[0], "{") {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
	}
	_, _ = io.WriteString(w, queue[0])
}

// kindRow is one request to a route with the channels a and b of one kind.
type kindRow struct {
	// body are further members of the request, options those of the route; turns replaces the user's message.
	body, options, turns string
	a, b                 []string
	// trace, classes, status, text and ends are those of row.
	trace, classes, text, ends string
	status                     int
	// limits are the output limits that were sent; nil: not looked at.
	limits []int64
	// call are the arguments of the call that the client got; empty: none.
	call   string
	stream bool
	check  func(*testing.T, outcome)
}

func (r kindRow) request() string {
	body := row{stream: r.stream, more: r.body}.body()
	if r.turns != "" {
		body = strings.Replace(body, fmt.Sprintf(`[{"role":"user","content":%q}]`, prompt), r.turns, 1)
	}
	return body
}

func (k kind) run(t *testing.T, r kindRow) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		far := &scripted{answers: map[string][]string{"A": r.a, "B": r.b}}
		listener := simulate.NewPipeListener()
		server := &http.Server{Handler: far}
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		client := &wire.Client{Dial: listener.DialContext}
		o := k.ask(t, client, r)
		client.Close()
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
		o.calls = far.calls
		assert.Zero(t, far.surplus, "calls too many")
		for letter, left := range far.answers {
			assert.Empty(t, left, "answers of %s that nobody asked for", letter)
		}
		k.judge(t, r, o)
	})
}

func (k kind) ask(t *testing.T, upstream *wire.Client, r kindRow) outcome {
	t.Helper()
	var records strings.Builder
	recorder := telemetry.New(&records, slog.LevelDebug)
	c, err := catalog.Load([]byte(k.config(r.options)), func(string) string { return "sk-" + secret })
	require.NoError(t, err)
	policy := fault.Default()
	traces := &routetrace.Memory{}
	g := &gateway.Gateway{Traces: traces, Catalog: c, Keys: tenant.NewTable(c), Policy: policy, Health: &breaker.Fleet{}, Shares: &retry.Shares{}, Latencies: &route.Latencies{},
		Providers: map[string]provider.Provider{"openai": &openai.Provider{Wire: upstream, Policy: policy}, "anthropic": &anthropic.Provider{Wire: upstream, Policy: policy}, "gemini": &gemini.Provider{Wire: upstream, Policy: policy}},
		Recorder:  recorder, Prices: prices.Embedded(), DigestKey: []byte("digest"), Random: func() float64 { return 0.5 }}
	handler := edge.New(edge.Config{Gateway: g, Recorder: recorder, Chat: chatdialect.Chat{}, Version: "test", ConfigVersion: c.Version, PolicyVersion: policy.Version})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions", strings.NewReader(r.request()))
	req.Header.Set("Authorization", "Bearer "+clientKey)
	far := &client{header: http.Header{}, start: time.Now(), leave: cancel}
	handler.ServeHTTP(far, req)
	synctest.Wait()
	o := outcome{status: far.status, header: far.sent, pieces: far.pieces, flushed: far.flushed == far.size, raw: records.String(), records: parseRecords(t, records.String())}
	o.trace, err = traces.Get(t.Context(), routetrace.Key{Organization: "org", RequestID: o.header.Get("X-Request-Id")})
	require.NoError(t, err)
	for _, p := range far.pieces {
		o.body += p.data
	}
	return o
}

func (k kind) config(options string) string {
	sum := sha256.Sum256([]byte(clientKey))
	if options != "" {
		options = ", " + options
	}
	return fmt.Sprintf(`{"version": "kinds",
"providers": [{"name": "alpha", "kind": %[1]q, "vendor": %[1]q, "base_url": "http://a.%[2]s/v1"}, {"name": "beta", "kind": %[1]q, "vendor": %[1]q, "base_url": "http://b.%[2]s/v1"}],
"channels": [{"name": "a", "provider": "alpha", "models": [%[3]q], "credentials": [{"alias": "a-key", "secret": "env:A"}]%[6]s},
  {"name": "b", "provider": "beta", "models": [%[3]q], "priority": 1, "credentials": [{"alias": "b-key", "secret": "env:B"}]%[6]s}],
"routes": [{"alias": "fast", "models": [%[3]q]%[4]s}],
"organizations": [{"name": "org", "models": ["*"]}],
"keys": [{"sha256": %[5]q, "alias": "key", "organization": "org"}]}`, k.name, domain, k.model, options, hex.EncodeToString(sum[:]), k.channel)
}

func (k kind) judge(t *testing.T, r kindRow, o outcome) {
	t.Helper()
	assert.Equal(t, r.trace, trace(o.calls), "calls")
	assert.Equal(t, r.classes, o.classes(), "classes")
	checkAnswer(t, o, row{stream: r.stream, more: r.body, quotes: true})
	checkRecords(t, o)
	assert.NotContains(t, o.raw, "circuit_transition", "no failure of the provider")
	var limits []int64
	for _, c := range o.calls {
		limits = append(limits, gjson.Get(c.body, k.limit).Int())
	}
	if r.limits != nil {
		assert.Equal(t, r.limits, limits, "output limits")
	}
	switch {
	case r.status < 0: // the row's own to check
	case r.status != 0:
		assert.Equal(t, r.status, o.status)
		assert.Equal(t, "contract_violation", gjson.Get(o.body, "error.class").Str)
	default:
		assert.Equal(t, http.StatusOK, o.status)
		assert.Equal(t, r.text, o.text(t), "text")
		assert.Equal(t, r.call, o.arguments(t), "the arguments of a call")
		if r.stream {
			assert.Equal(t, r.ends, o.ends(t), "code of the error that ends the stream")
		}
	}
	if r.check != nil {
		r.check(t, o)
	}
	if t.Failed() {
		t.Logf("answer: %d %s\nrecords:\n%s", o.status, o.body, o.raw)
	}
}

// arguments joins those of the tool calls of choice 0.
func (o outcome) arguments(t *testing.T) string {
	t.Helper()
	if !strings.HasPrefix(o.header.Get("Content-Type"), "text/event-stream") {
		return gjson.Get(o.body, "choices.0.message.tool_calls.0.function.arguments").Str
	}
	var b strings.Builder
	for _, data := range o.payloads(t) {
		for _, c := range gjson.Get(data, "choices.0.delta.tool_calls").Array() {
			b.WriteString(c.Get("function.arguments").Str)
		}
	}
	return b.String()
}

// modes are plain, held back whole, and live.
func (k kind) modes(t *testing.T, name string, r, live kindRow) {
	t.Helper()
	where := k.model + ": " + name
	t.Run(where+", plain", func(t *testing.T) { k.run(t, r) })
	t.Run(where+", held back whole", func(t *testing.T) {
		held := r
		held.stream, held.options = true, strings.TrimPrefix(r.options+`, "commit": "complete"`, ", ")
		k.run(t, held)
	})
	live.stream, live.body, live.options = true, r.body, r.options
	t.Run(where+", live", func(t *testing.T) { k.run(t, live) })
}

// TestTheContractOverEveryWireFormat: contract §6 holds whatever the provider speaks.
func TestTheContractOverEveryWireFormat(t *testing.T) {
	const (
		wants = `"truncated": "retry"`
		// half is what a limit left of an answer.
		half    = `{"x":`
		limited = schemaFormat + `,"max_tokens":100`
	)
	twoCalls, threeCalls := "contract_violation ok", "contract_violation contract_violation ok"
	for _, k := range kinds {
		breach := func(sent string) kindRow {
			return kindRow{a: []string{sent}, trace: "A", classes: "contract_violation", ends: "contract_violation"}
		}
		text := func(r kindRow, s string) kindRow { r.text = s; return r }
		call := func(r kindRow, s string) kindRow { r.call = s; return r }
		good := k.says(kept, "stop")
		k.modes(t, "an answer that keeps the schema",
			kindRow{body: schemaFormat, a: []string{good}, trace: "A", classes: "ok", text: kept},
			kindRow{a: []string{good}, trace: "A", classes: "ok", text: kept})
		k.modes(t, "cut off, and whole at the second call",
			kindRow{body: limited, options: wants, a: []string{k.says(half, "length"), good}, trace: "A A", classes: twoCalls, text: kept, limits: []int64{100, 200}, check: wasted},
			text(breach(k.says(half, "length")), half))
		k.modes(t, "cut off twice, and whole from B",
			kindRow{body: limited, options: wants, a: []string{k.says(half, "length"), k.says(half, "length")}, b: []string{good}, trace: "A A B", classes: threeCalls, text: kept, limits: []int64{100, 200, 200}},
			text(breach(k.says(half, "length")), half))
		k.modes(t, "never whole",
			kindRow{body: limited, options: wants, a: []string{k.says(half, "length"), k.says(half, "length")}, b: []string{k.says(half, "length")}, trace: "A A B", classes: strings.TrimSpace(strings.Repeat("contract_violation ", 3)), status: 502},
			text(breach(k.says(half, "length")), half))
		k.modes(t, "cut off, on a route that passes it on",
			kindRow{body: limited, a: []string{k.says(half, "length")}, trace: "A", classes: "ok", text: half, limits: []int64{100}},
			kindRow{a: []string{k.says(half, "length")}, trace: "A", classes: "ok", text: half})
		k.modes(t, "breaks the schema once",
			kindRow{body: schemaFormat, a: []string{k.says(breaks, "stop"), good}, trace: "A A", classes: twoCalls, text: kept, check: wasted},
			text(breach(k.says(breaks, "stop")), breaks))
		k.modes(t, "no JSON twice, then B",
			kindRow{body: schemaFormat, a: []string{k.says(half, "stop"), k.says(half, "stop")}, b: []string{good}, trace: "A A B", classes: threeCalls, text: kept},
			text(breach(k.says(half, "stop")), half))
		k.modes(t, "breaks the schema for ever",
			kindRow{body: schemaFormat, a: []string{k.says(breaks, "stop"), k.says(breaks, "stop")}, b: []string{k.says(breaks, "stop"), k.says(breaks, "stop")}, trace: "A A B B",
				classes: strings.TrimSpace(strings.Repeat("contract_violation ", 4)), status: 502},
			text(breach(k.says(breaks, "stop")), breaks))
		k.modes(t, "a strict call that breaks its schema once",
			kindRow{body: strictTool, a: []string{k.calls("f", breaks), k.calls("f", kept)}, trace: "A A", classes: twoCalls, call: kept, check: wasted},
			call(breach(k.calls("f", breaks)), breaks))
		k.modes(t, "a strict call that breaks its schema for ever",
			kindRow{body: strictTool, a: []string{k.calls("f", breaks), k.calls("f", breaks)}, b: []string{k.calls("f", breaks), k.calls("f", breaks)}, trace: "A A B B",
				classes: strings.TrimSpace(strings.Repeat("contract_violation ", 4)), status: 502},
			call(breach(k.calls("f", breaks)), breaks))
	}
}

// wasted holds that what a broken answer used is in its record, priced, and in the request's as wasted; the client is
// charged for the last call alone.
func wasted(t *testing.T, o outcome) {
	t.Helper()
	attempts, end := o.of("attempt_finished"), o.of("request_finished")[0]
	assert.Equal(t, 10, attempts[0].Completion, "the failed call's usage")
	assert.Equal(t, 10, end.Completion, "the client's usage")
	var lines []gjson.Result
	for line := range strings.Lines(o.raw) {
		lines = append(lines, gjson.Parse(line))
	}
	for _, line := range lines {
		if line.Get("msg").Str == "request_finished" {
			assert.Positive(t, line.Get("wasted_cost_nano_usd").Int(), "wasted cost")
		}
	}
}

// TestASchemaByAToolIsInvisible: a client of a model without a schema mode sees nothing of the tool that stands for it: not
// in a plain answer, not in a stream, not where it has tools of its own, and not in the turns of a tool loop.
func TestASchemaByAToolIsInvisible(t *testing.T) {
	old := kinds[2]
	const (
		own = `,"tools":[{"type":"function","function":{"name":"s","parameters":{"type":"object"}}},{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}}}]`
		// loop is a conversation in which the model has called, and been answered.
		loop = `[{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"toolu_1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]},{"role":"tool","tool_call_id":"toolu_1","content":"2"}]`
	)
	type answered struct{ finish, native, name string }
	ends := func(t *testing.T, o outcome) (a answered) {
		t.Helper()
		bodies := []string{o.body}
		if strings.HasPrefix(o.header.Get("Content-Type"), "text/event-stream") {
			bodies = o.payloads(t)
		}
		for _, b := range bodies {
			for _, message := range []string{"message", "delta"} {
				a.name += gjson.Get(b, "choices.0."+message+".tool_calls.0.function.name").Str
			}
			a.finish += gjson.Get(b, "choices.0.finish_reason").Str
			a.native += gjson.Get(b, "choices.0.native_finish_reason").Str
		}
		return a
	}
	invisible := func(want answered, more func(*testing.T, gjson.Result)) func(*testing.T, outcome) {
		return func(t *testing.T, o outcome) {
			assert.Equal(t, want, ends(t, o))
			assert.NotContains(t, o.body, "Gives the final answer")
			assert.NotContains(t, o.body, `"s_"`)
			if more != nil {
				more(t, gjson.Parse(o.calls[0].body))
			}
		}
	}
	chosen := func(kind, name string, tools ...string) func(*testing.T, gjson.Result) {
		return func(t *testing.T, body gjson.Result) {
			assert.Equal(t, kind, body.Get("tool_choice.type").Str)
			assert.Equal(t, name, body.Get("tool_choice.name").Str)
			have := []string{}
			for _, v := range body.Get("tools.#.name").Array() {
				have = append(have, v.Str)
			}
			assert.Equal(t, tools, have)
		}
	}
	answer, callOwn := answered{finish: "stop"}, answered{finish: "tool_calls", native: "tool_use", name: "f"}
	for name, r := range map[string]kindRow{
		"a schema alone": {body: schemaFormat, a: []string{claudeCalls("s", kept, "tool_use")}, trace: "A", classes: "ok", text: kept, check: invisible(answer, chosen("tool", "s", "s"))},
		"beside tools, and the answer comes": {body: schemaFormat + own, a: []string{claudeCalls("s_", kept, "tool_use")}, trace: "A", classes: "ok", text: kept,
			check: invisible(answer, chosen("any", "", "s", "f", "s_"))},
		"beside tools, and one of them is called": {body: schemaFormat + own, a: []string{claudeCalls("f", kept, "tool_use")}, trace: "A", classes: "ok", call: kept, check: invisible(callOwn, nil)},
		"beside tools that must not be called": {body: schemaFormat + own + `,"tool_choice":"none"`, a: []string{claudeCalls("s_", kept, "tool_use")}, trace: "A", classes: "ok", text: kept,
			check: invisible(answer, chosen("tool", "s_", "s", "f", "s_"))},
		"beside a tool that must be called": {body: schemaFormat + own + `,"tool_choice":"required"`, a: []string{claudeCalls("f", kept, "tool_use")}, trace: "A", classes: "ok", call: kept,
			check: invisible(callOwn, chosen("any", "", "s", "f"))},
		"the answer breaks the schema": {body: schemaFormat + own, options: `"commit": "complete"`, a: []string{claudeCalls("s_", breaks, "tool_use"), claudeCalls("s_", kept, "tool_use")}, trace: "A A", classes: "contract_violation ok", text: kept,
			check: invisible(answer, nil)},
		"a call of the client's breaks its schema": {body: schemaFormat + own, options: `"commit": "complete"`, a: []string{claudeCalls("f", breaks, "tool_use"), claudeCalls("f", kept, "tool_use")}, trace: "A A", classes: "contract_violation ok", call: kept,
			check: invisible(callOwn, nil)},
		"words in place of the answer": {body: schemaFormat + own, a: []string{claudeSays("Sure!", "stop"), claudeCalls("s_", kept, "tool_use")}, trace: "A A", classes: "contract_violation ok", text: kept,
			check: invisible(answer, nil)},
		"the turn after a call": {turns: loop, body: schemaFormat + own, a: []string{claudeCalls("s_", kept, "tool_use")}, trace: "A", classes: "ok", text: kept, check: invisible(answer, func(t *testing.T, body gjson.Result) {
			chosen("any", "", "s", "f", "s_")(t, body)
			assert.JSONEq(t, `[{"type":"tool_use","id":"toolu_1","name":"f","input":{"x":1}}]`, body.Get("messages.1.content").Raw)
			assert.Equal(t, "tool_result", body.Get("messages.2.content.0.type").Str)
		})},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream: %t", name, stream), func(t *testing.T) {
				r.stream = stream
				old.run(t, r)
			})
		}
	}
}

// TestARegenerationIsFirmer: where the wire format has firmer means than those that the answer broke, the second call uses
// them, and nothing of the client's words changes. Where the provider does not take them, that is no mistake of the client's.
func TestARegenerationIsFirmer(t *testing.T) {
	gpt, claude, google, newer := kinds[0], kinds[1], kinds[3], kinds[4]
	const (
		open    = `{"type":"object","properties":{"x":{"type":"integer"}}}`
		refused = `{"error":{"message":"Invalid schema","type":"invalid_request_error","param":"response_format","code":null}}`
		member  = `response_format.json_schema`
	)
	optional := strings.Replace(schemaFormat, `,"required":["x"]`, "", 1)
	// asked holds what stands in the bodies of the calls; "": nothing does.
	asked := func(path string, want ...string) func(*testing.T, outcome) {
		return func(t *testing.T, o outcome) {
			for i, c := range o.calls {
				assert.Equal(t, want[i], gjson.Get(c.body, path).Raw, "call %d", i+1)
				for _, same := range []string{"messages", "contents", "input", "tools"} {
					assert.Equal(t, gjson.Get(o.calls[0].body, same).Raw, gjson.Get(c.body, same).Raw, "%s of call %d", same, i+1)
				}
			}
		}
	}
	const (
		loose  = `{"name":"s","schema":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}}`
		strict = `{"name":"s","strict":true,"schema":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"],"additionalProperties":false}}`
	)
	three := strings.TrimSpace(strings.Repeat("contract_violation ", 2)) + " ok"
	for name, c := range map[string]struct {
		kind
		kindRow
	}{
		"OpenAI: a strict schema": {gpt, kindRow{body: schemaFormat, a: []string{gpt.says(breaks, "stop"), gpt.says(kept, "stop")}, trace: "A A", classes: "contract_violation ok", text: kept, check: asked(member, loose, strict)}},
		"OpenAI: B is asked as the client asked": {gpt, kindRow{body: schemaFormat, a: []string{gpt.says(breaks, "stop"), gpt.says(breaks, "stop")}, b: []string{gpt.says(kept, "stop")}, trace: "A A B", classes: three, text: kept,
			check: asked(member, loose, strict, loose)}},
		"OpenAI: strict as the client asked": {gpt, kindRow{body: strings.Replace(schemaFormat, `"name":"s"`, `"name":"s","strict":true`, 1), a: []string{gpt.says(breaks, "stop"), gpt.says(kept, "stop")}, trace: "A A", classes: "contract_violation ok", text: kept,
			check: asked(member+".strict", "true", "true")}},
		"OpenAI's Responses: a strict schema": {newer, kindRow{body: schemaFormat, a: []string{newer.says(breaks, "stop"), newer.says(kept, "stop")}, trace: "A A", classes: "contract_violation ok", text: kept, check: func(t *testing.T, o outcome) {
			asked("text.format.strict", "false", "true")(t, o)
			asked("text.format.schema.additionalProperties", "", "false")(t, o)
		}}},
		"OpenAI: a schema that cannot be strict": {gpt, kindRow{body: optional, a: []string{gpt.says(breaks, "stop"), gpt.says(kept, "stop")}, trace: "A A", classes: "contract_violation ok", text: kept,
			check: asked(member+".schema", open, open)}},
		"OpenAI: not for what was cut off": {gpt, kindRow{body: schemaFormat, options: `"truncated": "retry"`, a: []string{gpt.says(`{`, "length"), gpt.says(kept, "stop")}, trace: "A A", classes: "contract_violation ok", text: kept,
			check: asked(member, loose, loose), limits: []int64{0, 20}}},
		"OpenAI: does not take it, then B": {gpt, kindRow{body: schemaFormat, a: []string{gpt.says(breaks, "stop"), refused}, b: []string{gpt.says(kept, "stop")}, trace: "A A B", classes: three, text: kept,
			check: asked(member, loose, strict, loose)}},
		"OpenAI: does not take it, and nobody else is left": {gpt, kindRow{body: schemaFormat, options: `"max_fallbacks": 0`, a: []string{gpt.says(breaks, "stop"), refused}, trace: "A A", classes: "contract_violation contract_violation", status: 502,
			check: func(t *testing.T, o outcome) {
				assert.Equal(t, []int{200, 400}, []int{o.of("attempt_finished")[0].Status, o.of("attempt_finished")[1].Status}, "what the provider said is in the records")
				assert.NotContains(t, o.body, "Invalid schema", "it is no mistake of the client's")
			}}},
		"OpenAI: does not take the larger limit, then B with the client's": {gpt, kindRow{body: schemaFormat + `,"max_tokens":100`, options: `"truncated": "retry"`, a: []string{gpt.says(`{`, "length"), refused}, b: []string{gpt.says(kept, "stop")}, trace: "A A B", classes: three, text: kept,
			limits: []int64{100, 200, 100}}},
		"the client's own mistake is one": {gpt, kindRow{body: schemaFormat, a: []string{refused}, trace: "A", classes: "invalid_request", check: func(t *testing.T, o outcome) {
			assert.Equal(t, "invalid_request", gjson.Get(o.body, "error.class").Str)
		}, status: -1}},
		"Gemini: calls are validated": {google, kindRow{body: strictTool, a: []string{google.calls("f", breaks), google.calls("f", kept)}, trace: "A A", classes: "contract_violation ok", call: kept,
			check: asked("toolConfig.functionCallingConfig.mode", "", `"VALIDATED"`)}},
		"Gemini: a forced call is already": {google, kindRow{body: strictTool + `,"tool_choice":"required"`, a: []string{google.calls("f", breaks), google.calls("f", kept)}, trace: "A A", classes: "contract_violation ok", call: kept,
			check: asked("toolConfig.functionCallingConfig.mode", `"ANY"`, `"ANY"`)}},
		"Anthropic: there is nothing firmer": {claude, kindRow{body: schemaFormat, a: []string{claude.says(breaks, "stop"), claude.says(kept, "stop")}, trace: "A A", classes: "contract_violation ok", text: kept, check: func(t *testing.T, o outcome) {
			assert.Equal(t, o.calls[0].body, o.calls[1].body)
		}}},
	} {
		t.Run(name, func(t *testing.T) { c.run(t, c.kindRow) })
	}
}
