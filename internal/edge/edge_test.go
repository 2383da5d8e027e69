package edge_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"spillway/internal/breaker"
	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/dialect/openai"
	"spillway/internal/edge"
	"spillway/internal/fault"
	"spillway/internal/gateway"
	"spillway/internal/idempotency"
	"spillway/internal/ledger"
	"spillway/internal/provider"
	"spillway/internal/retry"
	"spillway/internal/route"
	"spillway/internal/telemetry"
	"spillway/internal/tenant"
	"spillway/internal/trace"
)

// Words that must never come back: a path, a header or a body that the client sent, and what the configuration holds.
const (
	planted     = "PLANTED-WORD"
	upstreamKey = "sk-upstream-secret"
	upstreamAt  = "upstream-host"
)

// The keys, and their SHA-256 in the configuration.
const (
	liveKey     = "live-key"
	disabledKey = "disabled-key"
	expiredKey  = "expired-key"
)

const frontConfig = `{"version": "config-7",
"providers": [{"name": "acme", "kind": "openai", "base_url": "https://` + upstreamAt + `.test/v1"}],
"channels": [{"name": "acme/up-1", "provider": "acme", "models": ["up-1"], "credentials": [{"alias": "main", "secret": "env:KEY"}]}],
"routes": [{"alias": "fast", "models": ["up-1"]}],
"organizations": [{"name": "org", "models": ["fast"]}],
"keys": [
  {"sha256": "13705115bca8e4f88de4ba8216f4cb5b21416cb9afb8ba8f115a8f4a70e395fc", "alias": "live", "organization": "org"},
  {"sha256": "612ecefa50f3af323e670c214ce5ca7bb0f4eb6b0e639a649a172f5820c395ab", "alias": "disabled", "organization": "org", "disabled": true},
  {"sha256": "85470b1932ebf421241eb5df4d4c8e71a40501cf7d5e198907980c6b750ef78e", "alias": "expired", "organization": "org", "expires": "2020-01-01T00:00:00Z"}]}`

// echo is a provider that answers every call with "hello" and remembers the calls.
type echo struct {
	mu        sync.Mutex
	calls     []provider.Call
	deadlines []time.Time
}

func (e *echo) Call(ctx context.Context, c provider.Call) (provider.Reply, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	deadline, _ := ctx.Deadline()
	e.calls, e.deadlines = append(e.calls, c), append(e.deadlines, deadline)
	return &hello{}, nil
}

// count is how many calls there were.
func (e *echo) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.calls)
}

// last is the last call and its deadline.
func (e *echo) last() (provider.Call, time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls[len(e.calls)-1], e.deadlines[len(e.deadlines)-1]
}

type hello struct{ over bool }

func (h *hello) Next() (*chat.Event, error) {
	if h.over {
		return nil, io.EOF
	}
	h.over = true
	return &chat.Event{ID: "chatcmpl-1", Model: "up-1", Deltas: []chat.Delta{{Text: "hello", Finish: chat.FinishStop}}, Usage: &chat.Usage{Prompt: 1, Completion: 1}}, nil
}

func (h *hello) Info() provider.Info { return provider.Info{Status: 200} }
func (h *hello) Close()              {}

// door is the gateway behind its front door.
type door struct {
	handler  http.Handler
	upstream *echo
	records  *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newDoor(t testing.TB) *door {
	t.Helper()
	records := &lockedBuffer{}
	d := newDoorWith(t, records)
	d.records = records
	return d
}

func newDoorWith(t testing.TB, records io.Writer) *door {
	t.Helper()
	c, err := catalog.Load([]byte(frontConfig), func(string) string { return upstreamKey })
	require.NoError(t, err)
	d := &door{upstream: &echo{}}
	recorder := telemetry.New(records, slog.LevelDebug)
	g := &gateway.Gateway{Catalog: c, Keys: tenant.NewTable(c), Providers: map[string]provider.Provider{"openai": d.upstream}, Policy: fault.Default(),
		Health: &breaker.Fleet{}, Claims: &idempotency.Memory{}, Traces: &trace.Memory{}, Ledger: &ledger.Memory{}, Shares: &retry.Shares{}, Latencies: &route.Latencies{}, Recorder: recorder, DigestKey: []byte("digest"),
		Random: func() float64 { return 0.5 }}
	d.handler = edge.New(edge.Config{Gateway: g, Recorder: recorder, Chat: openai.Chat{}, Version: "v1.2.3", ConfigVersion: c.Version,
		PolicyVersion: fault.Default().Version})
	return d
}

// sent is a request. Without a method it is a POST, without a path it goes to the chat completions, without headers it
// has the good key.
type sent struct {
	method, path string
	header       map[string]string
	body         string
	chunked      bool // without a Content-Length, where there is a choice
	encoded      bool // as base64, where there is a choice
}

func (s sent) filled() sent {
	if s.method == "" {
		s.method = http.MethodPost
	}
	if s.path == "" {
		s.path = "/v1/chat/completions"
	}
	if s.header == nil {
		s.header = map[string]string{"Authorization": "Bearer " + liveKey}
	}
	return s
}

// plus is the good key and more headers.
func plus(pairs ...string) map[string]string {
	h := map[string]string{"Authorization": "Bearer " + liveKey}
	for i := 0; i < len(pairs); i += 2 {
		h[pairs[i]] = pairs[i+1]
	}
	return h
}

// received is an answer.
type received struct {
	status int
	header http.Header
	body   string
}

// fronts are the ways in which a request can come: an HTTP server, and a function URL.
var fronts = map[string]func(t testing.TB, h http.Handler) func(sent) received{
	"http":   overHTTP,
	"lambda": overLambda,
}

// overHTTP sends requests one after the other. What send returns came before the handler's end; send returns after it.
func overHTTP(t testing.TB, h http.Handler) func(sent) received {
	var serving sync.WaitGroup
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serving.Add(1) // not by send: what net/http refuses by itself never comes here
		defer serving.Done()
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return func(s sent) received {
		defer serving.Wait()
		s = s.filled()
		var body io.Reader = strings.NewReader(s.body)
		if s.chunked {
			body = struct{ io.Reader }{body} // of unknown length
		}
		r, err := http.NewRequestWithContext(t.Context(), s.method, server.URL+s.path, body)
		require.NoError(t, err)
		for name, value := range s.header {
			r.Header.Set(name, value)
		}
		resp, err := server.Client().Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return received{resp.StatusCode, resp.Header, string(text)}
	}
}

func overLambda(t testing.TB, h http.Handler) func(sent) received {
	serve := ours(h)
	return func(s sent) received {
		s = s.filled()
		path, query, _ := strings.Cut(s.path, "?")
		event := &events.LambdaFunctionURLRequest{RawPath: path, RawQueryString: query, Headers: map[string]string{}, Body: s.body}
		event.RequestContext.HTTP.Method = s.method
		for name, value := range s.header {
			event.Headers[strings.ToLower(name)] = value
		}
		if s.encoded {
			event.Body, event.IsBase64Encoded = base64.StdEncoding.EncodeToString([]byte(s.body)), true
		}
		a := readAnswer(t, invoke(t, serve, event))
		got := received{a.StatusCode, http.Header{}, a.Body}
		for name, value := range a.Headers {
			got.header.Set(name, value)
		}
		return got
	}
}

// codes are the closed set of what a client can be refused with here.
var codes = map[int][]string{400: {"validation_failed", "unsupported_model_input"}, 401: {"invalid_api_key"}, 403: {"model_not_allowed", "permission_denied"},
	404: {"not_found", "model_not_found"}, 405: {"method_not_allowed"}, 413: {"request_too_large"}}

// checkRefusal asserts what every refusal has, and what none has.
func checkRefusal(t *testing.T, s sent, got received) {
	t.Helper()
	require.Contains(t, codes, got.status, got.body)
	assert.Equal(t, "application/json", got.header.Get("Content-Type"))
	assert.Equal(t, "false", got.header.Get("X-Should-Retry"))
	assert.Empty(t, got.header.Get("Retry-After"))
	if s.method == http.MethodHead {
		return
	}
	require.True(t, gjson.Valid(got.body), got.body)
	assert.Less(t, len(got.body), 2048)
	e := gjson.Get(got.body, "error")
	assert.Contains(t, codes[got.status], e.Get("code").Str)
	for _, name := range []string{"message", "type"} {
		assert.NotEmpty(t, e.Get(name).Str, name)
	}
	for _, name := range []string{"param", "code"} {
		assert.True(t, e.Get(name).Exists(), name)
	}
	assert.Equal(t, gjson.False, e.Get("retryable").Type)
	assert.Equal(t, got.header.Get("X-Request-Id"), e.Get("request_id").Str)
	for _, name := range []string{"provider", "attempts", "class", "provider_status"} {
		assert.False(t, e.Get(name).Exists(), "%s, although nobody was called", name)
	}
	for name, values := range got.header {
		assertHides(t, name+": "+strings.Join(values, ","))
	}
	assertHides(t, got.body)
}

// assertHides asserts that a text holds nothing that must not come back.
func assertHides(t *testing.T, text string) {
	t.Helper()
	for _, word := range []string{planted, upstreamKey, upstreamAt, liveKey, "<", "goroutine"} {
		assert.NotContains(t, text, word)
	}
}

const ask = `{"model":"fast","messages":[{"role":"user","content":"x"}]}`

// with is ask with more members.
func with(members string) string { return strings.TrimSuffix(ask, "}") + "," + members + "}" }

// padded is ask, filled up with spaces to a length.
func padded(length int) string { return ask + strings.Repeat(" ", length-len(ask)) }

func TestHostileRequestsAreRefusedAndTheProcessLives(t *testing.T) {
	const huge = 200 << 10
	tests := map[string]struct {
		sent   sent
		status int
		param  string
	}{
		"no body":                            {sent{}, 400, "body"},
		"white space":                        {sent{body: "  \n"}, 400, "body"},
		"words":                              {sent{body: planted}, 400, "body"},
		"a page":                             {sent{body: "<html>" + planted + "</html>"}, 400, "body"},
		"an array":                           {sent{body: "[" + ask + "]"}, 400, "body"},
		"a string":                           {sent{body: `"` + planted + `"`}, 400, "body"},
		"a number":                           {sent{body: "1e999"}, 400, "body"},
		"JSON that is cut":                   {sent{body: ask[:20]}, 400, "body"},
		"JSON and more":                      {sent{body: ask + planted}, 400, "body"},
		"two objects":                        {sent{body: ask + ask}, 400, "body"},
		"a NUL byte after the object":        {sent{body: ask + "\x00"}, 400, "body"},
		"a NUL byte in a string":             {sent{body: with("\"user\":\"\x00\"")}, 400, "body"},
		"invalid UTF-8":                      {sent{body: with("\"user\":\"\xff\xfe\"")}, 400, "body"},
		"half a surrogate pair":              {sent{body: with(`"user":"\udead"`)}, 400, "body"},
		"a byte order mark":                  {sent{body: "\xef\xbb\xbf" + ask}, 400, "body"},
		"a name twice":                       {sent{body: with(`"model":"` + planted + `"`)}, 400, "model"},
		"a name twice, escaped":              {sent{body: with(`"mod\u0065l":"` + planted + `"`)}, 400, "model"},
		"a name twice, deep inside":          {sent{body: with(`"metadata":{"a":{"b":1,"\u0062":2}}`)}, 400, "metadata.a.b"},
		"129 levels":                         {sent{body: with(`"metadata":` + strings.Repeat(`{"a":`, 128) + "1" + strings.Repeat("}", 128))}, 400, "body"},
		"a bomb of brackets":                 {sent{body: strings.Repeat("[", 2_000_000)}, 400, "body"},
		"a bomb of objects":                  {sent{body: strings.Repeat(`{"":`, 1_000_000)}, 400, "body"},
		"5,000,001 bytes":                    {sent{body: padded(edge.MaxBody + 1)}, 413, "body"},
		"5,000,001 bytes of unknown length":  {sent{body: padded(edge.MaxBody + 1), chunked: true}, 413, "body"},
		"a model that is a number":           {sent{body: `{"model":1,"messages":[]}`}, 400, "model"},
		"a model that is an object":          {sent{body: `{"model":{"a":"` + planted + `"},"messages":[]}`}, 400, "model"},
		"a model of 200 KB":                  {sent{body: `{"model":"` + strings.Repeat("m", huge) + `","messages":[]}`}, 400, "model"},
		"a model nobody knows":               {sent{body: strings.Replace(ask, "fast", "nobody", 1)}, 404, "model"},
		"a model with a NUL in its name":     {sent{body: strings.Replace(ask, "fast", `fast\u0000`, 1)}, 404, "model"},
		"a model that is a path":             {sent{body: strings.Replace(ask, "fast", "../../etc/passwd", 1)}, 404, "model"},
		"a model that is not for this key":   {sent{body: strings.Replace(ask, "fast", "up-1", 1)}, 403, "model"},
		"nine fallback models":               {sent{body: with(`"fallback_models":["1","2","3","4","5","6","7","8","9"]`)}, 400, "fallback_models"},
		"no messages":                        {sent{body: `{"model":"fast"}`}, 400, "messages"},
		"messages that are a string":         {sent{body: `{"model":"fast","messages":"` + planted + `"}`}, 400, "messages"},
		"a role nobody has":                  {sent{body: strings.Replace(ask, "user", planted, 1)}, 400, "messages[0].role"},
		"a role that is an object":           {sent{body: strings.Replace(ask, `"user"`, "{}", 1)}, 400, "messages[0].role"},
		"content that is a number":           {sent{body: strings.Replace(ask, `"x"`, "1", 1)}, 400, "messages[0].content"},
		"an answer to no tool call":          {sent{body: strings.Replace(ask, `"user"`, `"tool","tool_call_id":"c1"`, 1)}, 400, "messages[0].tool_call_id"},
		"a tool call without an answer":      {sent{body: `{"model":"fast","messages":[{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"f"}}]}]}`}, 400, "messages[0].tool_calls[0]"},
		"tools that are a string":            {sent{body: with(`"tools":"x"`)}, 400, "tools"},
		"a tool choice that is a path":       {sent{body: with(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"#.@this"}`)}, 400, "tool_choice"},
		"a schema that is a string":          {sent{body: with(`"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":"{}"}}`)}, 400, "response_format.json_schema.schema"},
		"max_tokens 0":                       {sent{body: with(`"max_tokens":0`)}, 400, "max_tokens"},
		"max_tokens beyond any integer":      {sent{body: with(`"max_tokens":1e30`)}, 400, "max_tokens"},
		"a temperature that is a word":       {sent{body: with(`"temperature":"` + planted + `"`)}, 400, "temperature"},
		"stream that is a word":              {sent{body: with(`"stream":"yes"`)}, 400, "stream"},
		"an empty stop sequence":             {sent{body: with(`"stop":[""]`)}, 400, "stop"},
		"a gzipped body":                     {sent{body: "\x1f\x8b\x08\x00", header: plus("Content-Encoding", "gzip")}, 400, "Content-Encoding"},
		"a body that claims to be plain":     {sent{body: ask, header: plus("Content-Encoding", "identity")}, 400, "Content-Encoding"},
		"an encoding nobody knows":           {sent{body: ask, header: plus("Content-Encoding", planted)}, 400, "Content-Encoding"},
		"no key":                             {sent{body: ask, header: map[string]string{}}, 401, ""},
		"an unknown key":                     {sent{body: ask, header: map[string]string{"Authorization": "Bearer " + planted}}, 401, ""},
		"a key of 200 KB":                    {sent{body: ask, header: map[string]string{"Authorization": "Bearer " + strings.Repeat("k", huge)}}, 401, ""},
		"an empty key":                       {sent{body: ask, header: map[string]string{"Authorization": "Bearer "}}, 401, ""},
		"the key in another scheme":          {sent{body: ask, header: map[string]string{"Authorization": "Basic " + liveKey}}, 401, ""},
		"a disabled key":                     {sent{body: ask, header: map[string]string{"Authorization": "Bearer " + disabledKey}}, 401, ""},
		"an expired key":                     {sent{body: ask, header: map[string]string{"Authorization": "Bearer " + expiredKey}}, 401, ""},
		"a wrong key and a body of 5 MB":     {sent{body: padded(edge.MaxBody + 1), header: map[string]string{"X-Api-Key": planted}}, 401, ""},
		"a timeout of 0":                     {sent{body: ask, header: plus("X-LLM-Timeout-Ms", "0")}, 400, "X-LLM-Timeout-Ms"},
		"a timeout below 0":                  {sent{body: ask, header: plus("X-LLM-Timeout-Ms", "-5")}, 400, "X-LLM-Timeout-Ms"},
		"a timeout that is a word":           {sent{body: ask, header: plus("X-LLM-Timeout-Ms", planted)}, 400, "X-LLM-Timeout-Ms"},
		"a timeout beyond any clock":         {sent{body: ask, header: plus("X-LLM-Timeout-Ms", strings.Repeat("9", 400))}, 400, "X-LLM-Timeout-Ms"},
		"six tags":                           {sent{body: ask, header: plus("X-LLM-Tags", "a=1;b=1;c=1;d=1;e=1;f=1")}, 400, "X-LLM-Tags"},
		"a tag without a value":              {sent{body: ask, header: plus("X-LLM-Tags", "app")}, 400, "X-LLM-Tags"},
		"a tag that is a page":               {sent{body: ask, header: plus("X-LLM-Tags", "app=<b>"+planted)}, 400, "X-LLM-Tags"},
		"tags of 200 KB":                     {sent{body: ask, header: plus("X-LLM-Tags", "app="+strings.Repeat("v", huge))}, 400, "X-LLM-Tags"},
		"a commit policy nobody knows":       {sent{body: ask, header: plus("X-LLM-Commit", planted)}, 400, "X-LLM-Commit"},
		"tool deltas nobody knows":           {sent{body: ask, header: plus("X-LLM-Tool-Deltas", planted)}, 400, "X-LLM-Tool-Deltas"},
		"a path that is not there":           {sent{path: "/" + planted, body: ask}, 404, ""},
		"a path that climbs":                 {sent{path: "/v1/../../etc/" + planted}, 404, ""},
		"a path that is a page":              {sent{path: "/%3Cscript%3E" + planted}, 404, ""},
		"a path of 100 KB":                   {sent{path: "/" + strings.Repeat("p", huge/2)}, 404, ""},
		"a path with a NUL in it":            {sent{path: "/v1/chat/completions%00"}, 404, ""},
		"a model's path that climbs":         {sent{method: http.MethodGet, path: "/v1/models/..%2f" + planted}, 404, "model"},
		"a trace that the key may not read":  {sent{method: http.MethodGet, path: "/v1/requests/" + planted}, 403, ""},
		"garbage of a tool call":             {sent{method: http.MethodPut, path: "/v1/tool-calls/" + planted, body: planted}, 400, "body"},
		"a bomb of a tool call":              {sent{method: http.MethodPut, path: "/v1/tool-calls/k", body: `{"result":` + strings.Repeat("[", 2_000_000)}, 400, "body"},
		"a tool call with an owner too many": {sent{method: http.MethodPut, path: "/v1/tool-calls/k", body: `{"state":"` + planted + `","owner":"` + planted + `"}`}, 400, "state"},
		"a tool call without a key":          {sent{method: http.MethodPut, path: "/v1/tool-calls/", body: `{}`}, 400, "key"},
		"a tool call that nobody knows":      {sent{method: http.MethodGet, path: "/v1/tool-calls/" + planted}, 404, "key"},
		"a tool call of 5,000,001 bytes":     {sent{method: http.MethodPut, path: "/v1/tool-calls/k", body: padded(edge.MaxBody + 1)}, 413, "body"},
		"a method of another protocol":       {sent{method: "PROPFIND"}, 405, ""},
		"a method nobody has":                {sent{method: "BREW", body: ask}, 405, ""},
		"an override of the method":          {sent{method: http.MethodGet, header: plus("X-Http-Method-Override", "POST")}, 405, ""},
		"an explanation of a broken request": {sent{path: "/v1/route/explain", body: planted}, 400, "body"},
	}
	require.GreaterOrEqual(t, len(tests), 60)
	for front, over := range fronts {
		t.Run(front, func(t *testing.T) {
			d := newDoor(t)
			send := over(t, d.handler)
			for name, tt := range tests {
				t.Run(name, func(t *testing.T) {
					got := send(tt.sent)
					assert.Equal(t, tt.status, got.status, got.body)
					checkRefusal(t, tt.sent.filled(), got)
					assert.Equal(t, tt.param, gjson.Get(got.body, "error.param").Str)
				})
			}
			assert.Zero(t, d.upstream.count(), "a hostile request reached a provider")
			got := send(sent{body: ask})
			assert.Equal(t, 200, got.status)
			assert.Equal(t, "hello", gjson.Get(got.body, "choices.0.message.content").Str)
			assertHides(t, d.records.String())
		})
	}
}

func TestABodyThatNeverComesWholeIsRefused(t *testing.T) {
	server := httptest.NewServer(newDoor(t).handler)
	t.Cleanup(server.Close)
	tests := map[string]struct{ head, body string }{
		"shorter than it said": {"Content-Length: 500", ask},
		"chunks that stop":     {"Transfer-Encoding: chunked", "5\r\n{\"mod"},
		"chunks that are none": {"Transfer-Encoding: chunked", "zz\r\n" + ask},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			require.NoError(t, err)
			defer conn.Close()
			_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n%s", liveKey, tt.head, tt.body)
			require.NoError(t, err)
			require.NoError(t, conn.(*net.TCPConn).CloseWrite())
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			checkRefusal(t, sent{}, received{resp.StatusCode, resp.Header, string(text)})
			assert.Equal(t, "body", gjson.GetBytes(text, "error.param").Str)
		})
	}
}

func TestTheLargestBodiesAreTaken(t *testing.T) {
	for front, over := range fronts {
		for name, s := range map[string]sent{"with a length": {body: padded(edge.MaxBody)}, "without a length": {body: padded(edge.MaxBody), chunked: true}} {
			t.Run(front+", "+name, func(t *testing.T) {
				got := over(t, newDoor(t).handler)(s)
				assert.Equal(t, 200, got.status, got.body)
			})
		}
	}
}

func TestBase64Bodies(t *testing.T) {
	tests := map[string]struct {
		body   string // before encoding
		raw    string // instead of an encoded body
		status int
		code   string
	}{
		"a request":                      {ask, "", 200, ""},
		"4,400,000 bytes":                {padded(edge.MaxBase64Body), "", 200, ""},
		"4,400,001 bytes":                {padded(edge.MaxBase64Body + 1), "", 413, "request_too_large"},
		"garbage":                        {"", "%%%" + planted, 400, "validation_failed"},
		"base64 that is cut":             {"", base64.StdEncoding.EncodeToString([]byte(ask))[:21], 400, "validation_failed"},
		"the alphabet of URLs":           {"", "-_-_", 400, "validation_failed"},
		"JSON that is said to be base64": {"", ask, 400, "validation_failed"},
		"nothing":                        {"", "", 400, "validation_failed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDoor(t)
			event := &events.LambdaFunctionURLRequest{RawPath: "/v1/chat/completions", Headers: map[string]string{"x-api-key": liveKey}, IsBase64Encoded: true,
				Body: base64.StdEncoding.EncodeToString([]byte(tt.body))}
			if tt.raw != "" {
				event.Body = tt.raw
			}
			event.RequestContext.HTTP.Method = http.MethodPost
			a := readAnswer(t, invoke(t, ours(d.handler), event))
			assert.Equal(t, tt.status, a.StatusCode, a.Body)
			if tt.status == 200 {
				assert.Equal(t, 1, d.upstream.count())
				return
			}
			header := http.Header{}
			for name, value := range a.Headers {
				header.Set(name, value)
			}
			checkRefusal(t, sent{}, received{a.StatusCode, header, a.Body})
			assert.Equal(t, tt.code, gjson.Get(a.Body, "error.code").Str)
			if tt.status == 413 {
				assert.Contains(t, gjson.Get(a.Body, "error.message").Str, "4400000")
			}
		})
	}
}

func TestPathsAndMethods(t *testing.T) {
	tests := map[string]struct {
		method, path string
		status       int
		allow        string
	}{
		"the health":                            {"GET", "/healthz", 200, ""},
		"the models":                            {"GET", "/v1/models", 200, ""},
		"a model":                               {"GET", "/v1/models/fast", 200, ""},
		"a query is ignored":                    {"GET", "/healthz?verbose=1", 200, ""},
		"chat completions are posted":           {"GET", "/v1/chat/completions", 405, "POST"},
		"chat completions are not put":          {"PUT", "/v1/chat/completions", 405, "POST"},
		"chat completions are not deleted":      {"DELETE", "/v1/chat/completions", 405, "POST"},
		"an explanation is posted":              {"GET", "/v1/route/explain", 405, "POST"},
		"the health is not posted":              {"POST", "/healthz", 405, "GET"},
		"the health has no head":                {"HEAD", "/healthz", 405, "GET"},
		"nobody asks for options":               {"OPTIONS", "/v1/chat/completions", 405, "POST"},
		"models are not deleted":                {"DELETE", "/v1/models/fast", 405, "GET"},
		"a trace is read only":                  {"DELETE", "/v1/requests/r", 405, "GET"},
		"a tool call is put or read":            {"POST", "/v1/tool-calls/k", 405, "GET, PUT"},
		"requests are not listed":               {"GET", "/v1/requests", 404, ""},
		"the root":                              {"GET", "/", 404, ""},
		"a slash more":                          {"POST", "/v1/chat/completions/", 404, ""},
		"a slash more in front":                 {"POST", "//v1/chat/completions", 404, ""},
		"capitals":                              {"POST", "/V1/Chat/Completions", 404, ""},
		"the path without its version":          {"POST", "/chat/completions", 404, ""},
		"a path of the platform":                {"POST", "/2018-06-01/runtime/invocation/next", 404, ""},
		"a path of a debugger":                  {"GET", "/debug/pprof/heap", 404, ""},
		"a file":                                {"GET", "/.env", 404, ""},
		"a model that this key cannot know":     {"GET", "/v1/models/up-1", 404, ""},
		"an escaped path is the path":           {"POST", "/v1/chat%2Fcompletions", 400, ""},
		"a path whose escapes are not complete": {"POST", "/v1/chat/completions%", 404, ""},
	}
	for front, over := range fronts {
		d := newDoor(t)
		send := over(t, d.handler)
		for name, tt := range tests {
			t.Run(front+", "+name, func(t *testing.T) {
				if front == "http" && strings.HasSuffix(tt.path, "%") {
					return // a client of HTTP cannot send it; a function URL can
				}
				s := sent{method: tt.method, path: tt.path, header: map[string]string{"X-Api-Key": liveKey}}
				got := send(s)
				assert.Equal(t, tt.status, got.status, got.body)
				assert.Equal(t, tt.allow, got.header.Get("Allow"))
				if tt.status >= 400 {
					checkRefusal(t, s.filled(), got)
				}
			})
		}
	}
}

func TestWhatNeedsAKey(t *testing.T) {
	for path, method := range map[string]string{"/v1/chat/completions": "POST", "/v1/route/explain": "POST", "/v1/models": "GET", "/v1/models/fast": "GET"} {
		d := newDoor(t)
		s := sent{method: method, path: path, header: map[string]string{}, body: ask}
		got := overHTTP(t, d.handler)(s)
		assert.Equal(t, 401, got.status, path)
		checkRefusal(t, s.filled(), got)
		assert.Zero(t, d.upstream.count())
	}
}

func TestTheHealthNeedsNoKeyAndShowsTheVersions(t *testing.T) {
	for front, over := range fronts {
		got := over(t, newDoor(t).handler)(sent{method: "GET", path: "/healthz", header: map[string]string{"Accept": "text/html"}})
		assert.Equal(t, 200, got.status, front)
		assert.Equal(t, "application/json", got.header.Get("Content-Type"))
		assert.JSONEq(t, fmt.Sprintf(`{"status":"ok","version":"v1.2.3","config_version":"config-7","policy_version":%q}`, fault.Default().Version), got.body)
		assertHides(t, got.body)
	}
}

func TestAKeyMayComeInAnyOfThreeHeaders(t *testing.T) {
	tests := map[string]map[string]string{
		"as OpenAI's SDKs send it":             {"Authorization": "Bearer " + liveKey},
		"in small letters":                     {"Authorization": "bearer " + liveKey},
		"with a space too many":                {"Authorization": "Bearer  " + liveKey},
		"as Anthropic's SDKs send it":          {"X-Api-Key": liveKey},
		"as Google's SDKs send it":             {"X-Goog-Api-Key": liveKey},
		"beside a login for something else":    {"Authorization": "Basic dXNlcjpwYXNz", "X-Api-Key": liveKey},
		"in the first of two":                  {"Authorization": "Bearer " + liveKey, "X-Api-Key": "other"},
		"in a second, the first without value": {"X-Api-Key": "", "X-Goog-Api-Key": liveKey},
	}
	for front, over := range fronts {
		for name, header := range tests {
			t.Run(front+", "+name, func(t *testing.T) {
				got := over(t, newDoor(t).handler)(sent{header: header, body: ask})
				assert.Equal(t, 200, got.status, got.body)
			})
		}
	}
}

func TestRequestIDs(t *testing.T) {
	kept := []string{"a", "req:1_2.3-4", strings.Repeat("x", 128)}
	replaced := []string{"", " ", "a b", "a/b", "é", "<b>", strings.Repeat("x", 129), strings.Repeat("x", 100<<10), "a\tb", "{}"}
	for front, over := range fronts {
		t.Run(front, func(t *testing.T) {
			d := newDoor(t)
			send := over(t, d.handler)
			for _, id := range kept {
				got := send(sent{header: plus("X-Request-Id", id), body: ask})
				assert.Equal(t, id, got.header.Get("X-Request-Id"))
				assert.Contains(t, d.records.String(), `"request_id":"`+id+`"`)
				refused := send(sent{header: plus("X-Request-Id", id), body: "x"})
				assert.Equal(t, id, gjson.Get(refused.body, "error.request_id").Str)
			}
			made := map[string]bool{}
			for _, id := range replaced {
				got := send(sent{header: plus("X-Request-Id", id), body: ask})
				assert.Regexp(t, `^req_[0-9a-f]{24}$`, got.header.Get("X-Request-Id"))
				made[got.header.Get("X-Request-Id")] = true
			}
			assert.Len(t, made, len(replaced), "made ids are unique")
		})
	}
}

func TestOnlyAllowedHeadersGoUpstream(t *testing.T) {
	d := newDoor(t)
	send := overHTTP(t, d.handler)
	send(sent{body: ask, header: plus("OpenAI-Beta", "assistants=v2", "anthropic-beta", "tools-1", "Cookie", planted, "X-Forwarded-For", planted, "Idempotency-Key", planted,
		"OpenAI-Organization", planted, "Accept-Encoding", "br", "User-Agent", planted)})
	c, _ := d.upstream.last()
	assert.Equal(t, map[string]string{"Openai-Beta": "assistants=v2", "Anthropic-Beta": "tools-1"}, c.Headers)
	send(sent{body: ask})
	c, _ = d.upstream.last()
	assert.Empty(t, c.Headers)
}

func TestAClientsTimeoutBoundsItsRequest(t *testing.T) {
	d := newDoor(t)
	send := overHTTP(t, d.handler)
	began := time.Now()
	require.Equal(t, 200, send(sent{body: ask, header: plus("X-LLM-Timeout-Ms", "2500")}).status)
	_, deadline := d.upstream.last()
	assert.WithinRange(t, deadline, began.Add(2500*time.Millisecond), time.Now().Add(2500*time.Millisecond))
}

func TestTagsGoIntoTheRecords(t *testing.T) {
	tests := map[string]struct {
		header string
		want   map[string]string
	}{
		"one":                     {"app=billing", map[string]string{"app": "billing"}},
		"five, with spaces":       {"app=a; env=prod;team=x ;v=1.2-3;r_1=Z", map[string]string{"app": "a", "env": "prod", "team": "x", "v": "1.2-3", "r_1": "Z"}},
		"a semicolon too many":    {"app=a;;", map[string]string{"app": "a"}},
		"a name twice counts one": {"app=a;app=b", map[string]string{"app": "b"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDoor(t)
			require.Equal(t, 200, overHTTP(t, d.handler)(sent{body: ask, header: plus("X-LLM-Tags", tt.header)}).status)
			assert.Equal(t, tt.want, tagsOf(t, d.records.String()))
		})
	}
}

// heldRecords lets nobody write a record before it is released.
type heldRecords struct {
	lockedBuffer
	released chan struct{}
}

func (h *heldRecords) Write(p []byte) (int, error) {
	<-h.released
	return h.lockedBuffer.Write(p)
}

func TestAPlainAnswerDoesNotWaitForItsRecords(t *testing.T) {
	records := &heldRecords{released: make(chan struct{})}
	d := newDoorWith(t, records)
	server := httptest.NewServer(d.handler)
	defer server.Close()
	release := sync.OnceFunc(func() { close(records.released) })
	defer release() // before the server is closed, which waits for its requests
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/chat/completions", strings.NewReader(ask))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+liveKey)
	resp, err := server.Client().Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "hello", gjson.GetBytes(body, "choices.0.message.content").Str)
	assert.Empty(t, records.String())
	release()
	server.Close()
	assert.Contains(t, records.String(), "request_finished")
}

// tagsOf are the tags in the record of the one finished request.
func tagsOf(t *testing.T, records string) map[string]string {
	t.Helper()
	for line := range strings.Lines(records) {
		if gjson.Get(line, "msg").Str != "request_finished" {
			continue
		}
		tags := map[string]string{}
		for name, value := range gjson.Get(line, "tags").Map() {
			tags[name] = value.Str
		}
		return tags
	}
	t.Fatal("no request_finished record")
	return nil
}

func TestAnswersOverBothFronts(t *testing.T) {
	for front, over := range fronts {
		t.Run(front, func(t *testing.T) {
			send := over(t, newDoor(t).handler)
			plain := send(sent{body: ask})
			assert.Equal(t, "application/json", plain.header.Get("Content-Type"))
			assert.Equal(t, "hello", gjson.Get(plain.body, "choices.0.message.content").Str)
			assert.Equal(t, "up-1", gjson.Get(plain.body, "model").Str)

			stream := send(sent{body: with(`"stream":true,"stream_options":{"include_usage":true}`)})
			assert.Equal(t, "text/event-stream; charset=utf-8", stream.header.Get("Content-Type"))
			assert.Equal(t, "no-cache, no-transform", stream.header.Get("Cache-Control"))
			assert.Equal(t, "no", stream.header.Get("X-Accel-Buffering"))
			assert.True(t, strings.HasSuffix(stream.body, "data: [DONE]\n\n"), stream.body)
			assert.Equal(t, 1, strings.Count(stream.body, `"usage"`))

			for _, got := range []received{plain, stream} {
				assert.Equal(t, 200, got.status)
				assert.Equal(t, []string{"acme", "up-1", "fast", "1", "false"}, []string{got.header.Get("X-LLM-Provider"), got.header.Get("X-LLM-Model"),
					got.header.Get("X-LLM-Route"), got.header.Get("X-LLM-Attempts"), got.header.Get("X-LLM-Fallback")})
				assertHides(t, got.body+fmt.Sprint(slices.Sorted(maps.Keys(got.header)), got.header))
			}
		})
	}
}

// TestTheKeyOfAToolCallIsThePathsRest: with its colons, its slashes, escaped or not, and its other characters.
func TestTheKeyOfAToolCallIsThePathsRest(t *testing.T) {
	for front, over := range fronts {
		send := over(t, newDoor(t).handler)
		for path, key := range map[string]string{
			"tool:send_mail:app-1:3":  "tool:send_mail:app-1:3",
			"tool%3Asend_mail%3Aa%3A": "tool:send_mail:a:",
			"a%2Fb%2F..%2Fc":          "a/b/../c",
			"d/e":                     "d/e",
			"%C3%A9%20%23%3F":         "é #?",
			"%252F":                   "%2F",
		} {
			t.Run(front+", "+path, func(t *testing.T) {
				put := sent{method: http.MethodPut, path: "/v1/tool-calls/" + path, body: `{"state":"started","owner":"o"}`}
				got := send(put)
				assert.Equal(t, 201, got.status, got.body)
				assert.Equal(t, "application/json", got.header.Get("Content-Type"))
				assert.Equal(t, key, gjson.Get(got.body, "key").Str)
				assert.Equal(t, 200, send(put).status, "it was")
				got = send(sent{method: http.MethodGet, path: put.path})
				assert.Equal(t, 200, got.status)
				assert.Equal(t, key, gjson.Get(got.body, "key").Str)
			})
		}
	}
}

func TestAnExplanationCallsNobody(t *testing.T) {
	d := newDoor(t)
	got := overHTTP(t, d.handler)(sent{path: "/v1/route/explain", body: ask})
	assert.Equal(t, 200, got.status, got.body)
	assert.Equal(t, "fast", gjson.Get(got.body, "route").Str)
	assert.Zero(t, d.upstream.count())
	assertHides(t, got.body)
}

func TestAnAddressThatCannotBeServedIsAnError(t *testing.T) {
	err := edge.ListenAndServe("127.0.0.1:-1", http.NotFoundHandler())
	require.ErrorContains(t, err, "serving 127.0.0.1:-1")
}
