package gateway_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	routetrace "spillway/internal/trace"
)

// record is one line of the log.
type record struct {
	Msg           string
	Level         string
	RequestID     string `json:"request_id"`
	Channel       string
	Provider      string
	Model         string
	Served        string `json:"served_model"`
	Credential    string
	UpstreamID    string `json:"provider_request_id"`
	Attempt       int
	Attempts      int
	Status        int
	Class         string
	Decision      string
	Reason        string
	Outcome       string
	Committed     bool
	Ambiguous     bool
	Fallback      bool
	WaitMS        float64 `json:"wait_ms"`
	Duration      float64 `json:"duration_ms"`
	FirstContent  float64 `json:"first_content_ms"`
	PromptTokens  int     `json:"prompt_tokens"`
	Completion    int     `json:"completion_tokens"`
	PolicyVersion string  `json:"policy_version"`
	Tag           string  `json:"tag_app"`
	Cause         string
	From, To      string
}

func parseRecords(t *testing.T, lines string) []record {
	t.Helper()
	var out []record
	for line := range strings.Lines(lines) {
		var r record
		require.NoError(t, json.Unmarshal([]byte(line), &r), "a record is no JSON: %s", line)
		out = append(out, r)
	}
	return out
}

// of are the records of one kind.
func (o outcome) of(kind string) []record {
	var out []record
	for _, r := range o.records {
		if r.Msg == kind {
			out = append(out, r)
		}
	}
	return out
}

// classes are the classes of the finished attempts in order; "ok" is a success.
func (o outcome) classes() string {
	var out []string
	for _, r := range o.of("attempt_finished") {
		if r.Class == "" {
			out = append(out, "ok")
		} else {
			out = append(out, r.Class)
		}
	}
	return strings.Join(out, " ")
}

// checkSilence holds a text to contain nothing that must not travel.
func checkSilence(t *testing.T, where, text string, words ...string) {
	t.Helper()
	for _, w := range append(words, secret, domain, clientKey) {
		assert.NotContains(t, text, w, "%s gives away %q", where, w)
	}
}

// checkRecords holds the records of one client call to contract §10: one for every physical call, one for the request,
// and nothing in them that must not be logged.
func checkRecords(t *testing.T, o outcome) {
	t.Helper()
	checkSilence(t, "a record", o.raw, prompt, theirs)
	finished := o.of("request_finished")
	require.Len(t, finished, 1, "request_finished")
	end := finished[0]
	attempts := o.of("attempt_finished")
	assert.Len(t, attempts, len(o.calls), "attempt_finished: one for every physical call")
	assert.Equal(t, len(o.calls), end.Attempts, "attempts of request_finished")
	assert.NotEmpty(t, end.Outcome, "outcome of request_finished")
	if end.Status != 499 {
		assert.Equal(t, o.status, end.Status, "status of request_finished")
	}
	for i, a := range attempts {
		assert.Equal(t, i+1, a.Attempt, "number of an attempt")
		assert.Equal(t, end.RequestID, a.RequestID, "request id of an attempt")
		assert.NotEmpty(t, a.PolicyVersion, "policy version of an attempt")
		assert.NotEmpty(t, a.Decision, "decision after an attempt")
	}
	checkTrace(t, o, end, attempts)
}

// checkTrace holds a request to leave a trace when it did not go well from the first call, of what its records say, and with
// nothing in it that must not be kept.
func checkTrace(t *testing.T, o outcome, end record, attempts []record) {
	t.Helper()
	remarkable := o.header.Get("X-Llm-Route") != "" &&
		(end.Outcome != "answered" || end.Attempts > 1 || o.header.Get("X-Llm-Fallback") == "true" || o.header.Get("X-Llm-Credential-Fallback") == "true")
	if !remarkable {
		assert.Nil(t, o.trace, "a trace of a request that went well, or was not routed")
		return
	}
	require.NotNil(t, o.trace, "a trace of a request that did not go well")
	text, err := json.Marshal(o.trace)
	require.NoError(t, err)
	checkSilence(t, "a trace", string(text), prompt, theirs)
	assert.Equal(t, []any{end.RequestID, end.Outcome, end.Status, end.Class, end.Attempts},
		[]any{o.trace.RequestID, o.trace.Outcome, o.trace.Status, o.trace.Class, o.trace.Calls}, "the trace's end")
	var calls []routetrace.Attempt
	for _, a := range o.trace.Attempts {
		if !a.FromMemory {
			calls = append(calls, a)
		}
	}
	require.Len(t, calls, len(attempts), "attempts in the trace")
	for i, a := range attempts {
		assert.Equal(t, []any{a.Attempt, a.Channel, a.Class, a.Status, a.Decision, a.WaitMS, a.Duration},
			[]any{calls[i].N, calls[i].Channel, calls[i].Class, calls[i].Status, calls[i].Decision, calls[i].Wait, calls[i].Duration}, "attempt %d in the trace", i+1)
	}
}

// checkAnswer holds whatever the client got to the contract: an error, a stream, or a plain answer.
func checkAnswer(t *testing.T, o outcome, r row) {
	t.Helper()
	require.NotNil(t, o.header, "nothing was answered")
	head, err := json.Marshal(o.header)
	require.NoError(t, err)
	checkSilence(t, "a header", string(head), prompt, theirs)
	assert.NotEmpty(t, o.header.Get("X-Request-Id"), "X-Request-Id")
	switch {
	case o.status >= 400:
		checkError(t, o, r.quotes)
	case strings.HasPrefix(o.header.Get("Content-Type"), "text/event-stream"):
		checkStream(t, o, strings.Contains(r.body(), `"include_usage":true`))
	default:
		checkPlain(t, o)
	}
}

// types are the words of `type` by status (contract §2); 5xx may also be overloaded_error.
var types = map[int]string{400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error",
	404: "invalid_request_error", 405: "invalid_request_error", 409: "invalid_request_error", 413: "invalid_request_error",
	429: "rate_limit_error", 500: "api_error", 502: "api_error", 503: "api_error", 504: "timeout_error"}

// checkError holds an error answer to contract §2. quotes allows a provider's own validation message.
func checkError(t *testing.T, o outcome, quotes bool) {
	t.Helper()
	checkSilence(t, "an error", o.body, prompt)
	if !quotes {
		checkSilence(t, "an error", o.body, theirs)
	}
	assert.Less(t, len(o.body), 2048, "size of an error")
	assert.NotContains(t, o.body, "<", "markup in an error")
	assert.Equal(t, "application/json", o.header.Get("Content-Type"))
	require.True(t, gjson.Valid(o.body), "an error is no JSON: %s", o.body)
	e := gjson.Get(o.body, "error")
	for _, name := range []string{"message", "type", "param", "code", "retryable", "request_id"} {
		require.True(t, e.Get(name).Exists(), "an error lacks %s: %s", name, o.body)
	}
	assert.NotEmpty(t, e.Get("message").Str)
	want := types[o.status]
	if o.status >= 500 && o.status != 504 && e.Get("class").Str == "overloaded" {
		want = "overloaded_error"
	}
	assert.Equal(t, want, e.Get("type").Str, "type of status %d", o.status)
	assert.Equal(t, o.header.Get("X-Request-Id"), e.Get("request_id").Str)
	if p := e.Get("provider").Str; p != "" {
		assert.Equal(t, p, o.header.Get("X-LLM-Provider"), "provider: body and header")
	}
	checkRetryWords(t, o, e)
	checkAttempts(t, o, e)
}

// checkRetryWords holds what an error says of coming back together: body, x-should-retry and Retry-After.
func checkRetryWords(t *testing.T, o outcome, e gjson.Result) {
	t.Helper()
	retryable := e.Get("retryable").Bool()
	assert.Equal(t, strconv.FormatBool(retryable), o.header.Get("X-Should-Retry"))
	after := o.header.Get("Retry-After")
	if retryable && (o.status == 429 || o.status == 503) {
		seconds, err := strconv.Atoi(after)
		require.NoError(t, err, "Retry-After %q", after)
		assert.GreaterOrEqual(t, seconds, 1, "Retry-After")
		assert.Equal(t, int64(seconds), e.Get("retry_after").Int(), "retry_after: body and header")
		return
	}
	assert.Empty(t, after, "Retry-After on status %d, retryable %t", o.status, retryable)
	assert.False(t, e.Get("retry_after").Exists(), "retry_after on status %d, retryable %t", o.status, retryable)
}

// checkAttempts holds the list of attempts to the calls that were made.
func checkAttempts(t *testing.T, o outcome, e gjson.Result) {
	t.Helper()
	if !e.Get("attempts").Exists() {
		return
	}
	n := 0
	e.Get("attempts").ForEach(func(_, a gjson.Result) bool {
		for _, name := range []string{"provider", "model", "status", "class", "n"} {
			assert.True(t, a.Get(name).Exists(), "an entry of attempts lacks %s: %s", name, a.Raw)
		}
		n += int(a.Get("n").Int())
		return true
	})
	assert.Equal(t, len(o.calls), n, "calls in error.attempts")
	assert.Equal(t, strconv.Itoa(len(o.calls)), o.header.Get("X-LLM-Attempts"))
}

// checkPlain holds a plain answer to what OpenAI's SDKs expect.
func checkPlain(t *testing.T, o outcome) {
	t.Helper()
	assert.Equal(t, http.StatusOK, o.status)
	assert.Equal(t, "application/json", o.header.Get("Content-Type"))
	require.True(t, gjson.Valid(o.body), "an answer is no JSON: %s", o.body)
	root := gjson.Parse(o.body)
	assert.Equal(t, "chat.completion", root.Get("object").Str)
	assert.NotEmpty(t, root.Get("id").Str)
	assert.Equal(t, gjson.Number, root.Get("created").Type)
	assert.Equal(t, o.header.Get("X-LLM-Model"), root.Get("model").Str, "served model: body and header")
	assert.False(t, root.Get("error").Exists(), "an answer with an error member")
	require.NotEmpty(t, root.Get("choices").Array(), "choices")
	for i, c := range root.Get("choices").Array() {
		assert.Equal(t, int64(i), c.Get("index").Int())
		assert.Equal(t, "assistant", c.Get("message.role").Str)
		assert.True(t, c.Get("message.content").Exists(), "a message without content")
		assert.NotEmpty(t, c.Get("finish_reason").Str)
	}
	assert.Equal(t, strconv.Itoa(len(o.calls)), o.header.Get("X-LLM-Attempts"))
}

// payloads are the data of a stream's events, in order. Comments must be keep-alives, and no line may be anything else.
func (o outcome) payloads(t *testing.T) []string {
	t.Helper()
	var out []string
	require.True(t, strings.HasSuffix(o.body, "\n\n"), "the last event has no end")
	for line := range strings.Lines(o.body) {
		switch data, ok := strings.CutPrefix(line, "data: "); {
		case ok:
			out = append(out, strings.TrimSuffix(data, "\n"))
		case line == "\n", line == ": ka\n":
		default:
			require.Fail(t, "a line that is neither data, nor a blank, nor a keep-alive", line)
		}
	}
	return out
}

// streamCodes are the codes of the error that ends a stream (contract §4); internal_error is our own fault.
var streamCodes = []string{"provider_disconnect", "stream_interrupted", "deadline_exceeded", "contract_violation", "internal_error"}

// checkStream holds a stream to contract §4.
func checkStream(t *testing.T, o outcome, usageAsked bool) {
	t.Helper()
	assert.Equal(t, http.StatusOK, o.status)
	assert.Equal(t, "no-cache, no-transform", o.header.Get("Cache-Control"))
	assert.Equal(t, "no", o.header.Get("X-Accel-Buffering"))
	assert.True(t, o.flushed, "something was written and not flushed")
	all := o.payloads(t)
	require.NotEmpty(t, all)
	require.Equal(t, "[DONE]", all[len(all)-1], "the end of a stream")
	all = all[:len(all)-1]
	interrupted := len(all) > 0 && gjson.Get(all[len(all)-1], "error").Exists()
	if interrupted {
		checkInterruption(t, all[len(all)-1])
		all = all[:len(all)-1]
	}
	s := streamed{model: o.header.Get("X-LLM-Model"), roles: map[int64]int{}, finishes: map[int64]int{}}
	for _, data := range all {
		s.chunk(t, data)
	}
	for choice, n := range s.roles {
		assert.Equal(t, 1, n, "role chunks of choice %d", choice)
		if !interrupted {
			assert.Equal(t, 1, s.finishes[choice], "finish reasons of choice %d", choice)
		}
	}
	if interrupted {
		assert.Less(t, len(s.finishes), max(len(s.roles), 1), "every choice has a finish reason, and the stream an error")
		assert.LessOrEqual(t, s.usages, 1, "usage chunks")
		return
	}
	if usageAsked {
		assert.Equal(t, 1, s.usages, "usage chunks")
	} else {
		assert.Zero(t, s.usages, "usage chunks that nobody asked for")
	}
}

func checkInterruption(t *testing.T, data string) {
	t.Helper()
	checkSilence(t, "the error of a stream", data, prompt, theirs)
	e := gjson.Get(data, "error")
	for _, name := range []string{"message", "type", "param", "code", "retry_safe", "partial"} {
		assert.True(t, e.Get(name).Exists(), "the error of a stream lacks %s: %s", name, data)
	}
	assert.Equal(t, "upstream_error", e.Get("type").Str)
	assert.Equal(t, gjson.Null, e.Get("param").Type)
	assert.Contains(t, streamCodes, e.Get("code").Str)
}

// streamed is what the ordinary chunks of a stream have shown so far.
type streamed struct {
	model, id       string
	created         int64
	roles, finishes map[int64]int
	usages          int
}

func (s *streamed) chunk(t *testing.T, data string) {
	t.Helper()
	require.True(t, gjson.Valid(data), "a chunk is no JSON: %s", data)
	root := gjson.Parse(data)
	assert.False(t, root.Get("error").Exists(), "an ordinary chunk with an error member: %s", data)
	assert.Equal(t, "chat.completion.chunk", root.Get("object").Str)
	assert.Equal(t, s.model, root.Get("model").Str, "model of a chunk")
	if s.id == "" {
		s.id, s.created = root.Get("id").Str, root.Get("created").Int()
	}
	assert.NotEmpty(t, root.Get("id").Str, "id of a chunk")
	assert.Equal(t, s.id, root.Get("id").Str, "id of a chunk")
	assert.Equal(t, s.created, root.Get("created").Int(), "created of a chunk")
	require.True(t, root.Get("choices").IsArray(), "choices of a chunk: %s", data)
	if root.Get("usage").IsObject() {
		s.usages++
		assert.Empty(t, root.Get("choices").Array(), "choices beside usage")
		assert.Len(t, s.finishes, len(s.roles), "usage before the last finish reason")
		return
	}
	require.NotEmpty(t, root.Get("choices").Array(), "a chunk that says nothing: %s", data)
	for _, c := range root.Get("choices").Array() {
		s.choice(t, c)
	}
}

func (s *streamed) choice(t *testing.T, c gjson.Result) {
	t.Helper()
	index := c.Get("index").Int()
	require.True(t, c.Get("delta").IsObject(), "a choice without delta: %s", c.Raw)
	if c.Get("delta.role").Exists() {
		assert.Equal(t, "assistant", c.Get("delta.role").Str)
		s.roles[index]++
	}
	assert.Positive(t, s.roles[index], "a choice begins without its role: %s", c.Raw)
	assert.Zero(t, s.finishes[index], "a choice goes on after its finish reason: %s", c.Raw)
	if finish := c.Get("finish_reason"); finish.Exists() && finish.Type != gjson.Null {
		assert.True(t, slices.Contains([]string{"stop", "length", "tool_calls", "content_filter"}, finish.Str), "finish reason %q", finish.Str)
		s.finishes[index]++
	}
}

// text joins the content of choice 0, of a stream or of a plain answer.
func (o outcome) text(t *testing.T) string {
	t.Helper()
	if !strings.HasPrefix(o.header.Get("Content-Type"), "text/event-stream") {
		return gjson.Get(o.body, "choices.0.message.content").Str
	}
	var b strings.Builder
	for _, data := range o.payloads(t) {
		gjson.Get(data, "choices").ForEach(func(_, c gjson.Result) bool {
			if c.Get("index").Int() == 0 {
				b.WriteString(c.Get("delta.content").Str)
			}
			return true
		})
	}
	return b.String()
}

// ends is the code of the error that ends a stream; "": it is whole.
func (o outcome) ends(t *testing.T) string {
	t.Helper()
	all := o.payloads(t)
	if len(all) < 2 {
		return ""
	}
	return gjson.Get(all[len(all)-2], "error.code").Str
}
