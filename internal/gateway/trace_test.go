package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"spillway/internal/idempotency"
	"spillway/internal/provider"
	"spillway/internal/simulate"
	routetrace "spillway/internal/trace"
)

// withID is a request with an id of its own.
func withID(id, body string) request {
	return request{body: body, header: http.Header{"X-Request-Id": {id}}}
}

// traceOf asks for a trace.
func (w *world) traceOf(t *testing.T, id, key string) outcome {
	t.Helper()
	return w.do(t, request{method: http.MethodGet, path: "/v1/requests/" + id, key: key})
}

// TestATraceTellsEveryAttempt: its class, wait, duration and cost, and what was considered.
func TestATraceTellsEveryAttempt(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		w.provider.Script("a-1", late(time.Second, fails(503, "server_error", "unavailable")), fails(503, "server_error", "unavailable"))
		w.provider.Script("b-9", late(2*time.Second, beta.says("Hello")))
		r := withID("app:1", row{}.body())
		r.header["X-Llm-Tags"] = []string{"app=shop"}
		require.Equal(t, 200, w.do(t, r).status)
		o := w.traceOf(t, "app:1", operatorKey)
		require.Equal(t, 200, o.status, o.body)
		got := gjson.Parse(o.body)
		for path, want := range map[string]any{
			"object": "request.trace", "request_id": "app:1", "kept": "fallback", "route": "fast", "outcome": "answered", "status": 200.0, "provider": "beta",
			"calls": 3.0, "fallback": true, "credential_fallback": false, "duration_ms": 3200.0, "first_content_ms": 3200.0, "added_ms": 1200.0, "config_version": "cases",
			"tags.app": "shop", "stream": false, "class": nil, "cost_nano_usd": nil, "wasted_cost_nano_usd": 0.0, "started_at": "2000-01-01T00:00:00Z", "expires_at": "2000-01-08T00:00:00Z",
			"attempts.#": 3.0, "attempts.0.class": "server_error", "attempts.0.status": 503.0, "attempts.0.channel": "a", "attempts.0.provider": "alpha", "attempts.0.model": "a-1",
			"attempts.0.credential": "a-key", "attempts.0.duration_ms": 1000.0, "attempts.0.wait_ms": 200.0, "attempts.0.decision": "retry", "attempts.0.cost_nano_usd": 0.0, "attempts.0.code": "unavailable",
			"attempts.1.at_ms": 1200.0, "attempts.1.attempt": 2.0, "attempts.1.decision": "fallback", "attempts.1.wait_ms": 0.0,
			"attempts.2.at_ms": 1200.0, "attempts.2.duration_ms": 2000.0, "attempts.2.class": nil, "attempts.2.decision": "answered", "attempts.2.served_model": beta.model,
			"attempts.2.usage.estimated": false, "considered.0.channel": "a", "considered.0.reason": "ok", "considered.1.channel": "b",
		} {
			assert.Equal(t, want, got.Get(path).Value(), path)
		}
		assert.NotEmpty(t, got.Get("policy_version").Str)
	})
}

func TestWhoMayReadATrace(t *testing.T) {
	for name, c := range map[string]struct {
		id, key string
		after   time.Duration
		status  int
		code    string
	}{
		"a key of the organization with the permission": {"r1", operatorKey, 0, 200, ""},
		"a key without the permission":                  {"r1", clientKey, 0, 403, "permission_denied"},
		"a key without it, of what does not exist":      {"r2", clientKey, 0, 403, "permission_denied"},
		"a key of another organization":                 {"r1", strangerKey, 0, 404, "trace_not_kept"},
		"nobody":                                        {"r1", "wrong", 0, 401, "invalid_api_key"},
		"an id that no request had":                     {"r2", operatorKey, 0, 404, "trace_not_kept"},
		"an id that no request can have":                {"a%2Fb%00", operatorKey, 0, 404, "trace_not_kept"},
		"no id":                                         {"", operatorKey, 0, 404, "trace_not_kept"},
		"shortly before it is forgotten":                {"r1", operatorKey, 7*24*time.Hour - 2*time.Second, 200, ""},
		"when it is forgotten, but not swept yet":       {"r1", operatorKey, 7 * 24 * time.Hour, 404, "trace_not_kept"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, settings{}, func(t *testing.T, w *world) {
				w.provider.Script("a-1", fails(400, "invalid_request_error", "invalid_value"))
				require.Equal(t, 502, w.do(t, withID("r1", row{}.body())).status)
				time.Sleep(c.after)
				o := w.traceOf(t, c.id, c.key)
				assert.Equal(t, c.status, o.status, o.body)
				assert.Equal(t, c.code, gjson.Get(o.body, "error.code").Str)
			})
		})
	}
}

func TestWhichRequestsLeaveATrace(t *testing.T) {
	sampled := func(fraction string) settings { return settings{config: `"trace_sample": ` + fraction} }
	unsure := fails(503, "server_error", "unavailable")
	for name, c := range map[string]struct {
		settings
		a    []simulate.Reply
		body string
		kept routetrace.Reason
		says map[string]any // of the trace
	}{
		"one that went well leaves none":                     {a: one(alpha.says("x"))},
		"one that went well and is drawn":                    {settings: sampled("0.6"), a: one(alpha.says("x")), kept: routetrace.Sampled},
		"one that went well and is not drawn":                {settings: sampled("0.4"), a: one(alpha.says("x"))},
		"one that was retried":                               {a: []simulate.Reply{unsure, alpha.says("x")}, kept: routetrace.Retried},
		"one that was answered with a second credential":     {settings: settings{credentials: []string{"second"}}, a: []simulate.Reply{badKey(), alpha.says("x")}, kept: routetrace.CredentialFallback, says: map[string]any{"credential_fallback": true, "attempts.1.credential": "second"}},
		"one that was refused for its body leaves none":      {body: `{"model":`},
		"one for a model that is not there leaves none":      {body: asks("nothing", false)},
		"a stream that was cut":                              {a: one(cut(alpha.role(), alpha.text("Hel"))), body: asks("alone", true), kept: routetrace.Failed, says: map[string]any{"outcome": "interrupted", "stream": true, "class": "network", "attempts.0.decision": "interrupted"}},
		"one for which no channel can do what it needs":      {settings: settings{a: `"cannot": ["tools"]`}, body: strings.Replace(asks("alone", false), `"stream"`, `"tools":[{"type":"function","function":{"name":"f"}}],"stream"`, 1), kept: routetrace.Failed, says: map[string]any{"considered.0.reason": "no_tools", "attempts.#": 0.0, "calls": 0.0}},
		"one whose provider cannot be reached":               {settings: settings{down: "A"}, body: asks("alone", false), kept: routetrace.Failed, says: map[string]any{"attempts.1.class": "network", "attempts.1.ambiguous": nil}},
		"one whose client sets a limit that is too short":    {a: []simulate.Reply{late(time.Minute, alpha.says("x")), late(time.Minute, alpha.says("x"))}, body: asks("alone", false), kept: routetrace.Failed, says: map[string]any{"outcome": "provider_timeout", "status": 504.0}},
		"one whose adapter panics":                           {settings: settings{adapter: func(p provider.Provider) provider.Provider { return &fragile{Provider: p, inCall: true} }}, body: asks("alone", false), kept: routetrace.Failed, says: map[string]any{"outcome": "internal_error", "status": 500.0}},
		"one that was answered by another, the first is out": {settings: settings{down: "A"}, body: asks("fast", false), kept: routetrace.FellBack},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, c.settings, func(t *testing.T, w *world) {
				if c.a != nil {
					w.provider.Script("a-1", c.a...)
				}
				w.provider.Script("b-9", beta.says("x"))
				r := withID("r1", c.body)
				if c.body == "" {
					r.body = asks("alone", false)
				}
				r.header["X-Llm-Timeout-Ms"] = []string{"5000"}
				o := w.do(t, r)
				require.False(t, o.aborted)
				if c.kept == routetrace.NotKept {
					assert.Nil(t, o.trace)
					return
				}
				require.NotNil(t, o.trace)
				assert.Equal(t, c.kept, o.trace.Kept)
				text := w.traceOf(t, "r1", operatorKey).body
				for path, want := range c.says {
					assert.Equal(t, want, gjson.Get(text, path).Value(), path)
				}
			})
		})
	}
}

// TestWhatAHoldAnswersIsInTheTrace: nobody was called, and the trace says who answered from memory.
func TestWhatAHoldAnswersIsInTheTrace(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		w.provider.Script("a-1", badKey())
		require.Equal(t, 502, w.do(t, withID("r1", row{}.body())).status)
		o := w.do(t, withID("r2", row{}.body()))
		require.Empty(t, o.calls)
		require.NotNil(t, o.trace)
		require.Len(t, o.trace.Attempts, 1)
		a := o.trace.Attempts[0]
		assert.True(t, a.FromMemory)
		assert.Equal(t, []any{"a", "auth", 0, 0}, []any{a.Channel, a.Class, a.N, o.trace.Calls})
	})
}

// TestNothingOfAPersonIsInATrace: what the client, the configuration and the provider said is planted, and looked for.
func TestNothingOfAPersonIsInATrace(t *testing.T) {
	planted := []string{prompt, "USER-4711", "CONVERSATION-4711", "TOOL-TEXT", "ANSWER-TEXT", theirs, operatorKey, strangerKey}
	body := strings.TrimSuffix(row{stream: true}.body(), "}") + `,"user":"USER-4711","metadata":{"conversation_id":"CONVERSATION-4711"},` +
		`"tools":[{"type":"function","function":{"name":"f","description":"TOOL-TEXT"}}]}`
	inBubble(t, settings{config: `"trace_sample": 1`}, func(t *testing.T, w *world) {
		w.provider.Script("a-1", fails(400, secret, secret+"-code"), fails(400, "invalid_request_error", "sk-"+secret), cut(alpha.role(), alpha.text("ANSWER-TEXT")))
		for _, id := range []string{"r1", "r2", "r3"} {
			o := w.do(t, withID(id, body))
			require.NotNil(t, o.trace)
			text, err := json.Marshal(o.trace)
			require.NoError(t, err)
			checkSilence(t, "a trace", string(text), planted...)
		}
	})
}

// TestARepetitionLeavesTheTraceOfItsFirst: the replay went well, and the trace of what it replays stays.
func TestARepetitionLeavesTheTraceOfItsFirst(t *testing.T) {
	inBubble(t, settings{claims: &idempotency.Memory{}, config: `"trace_sample": 1`}, func(t *testing.T, w *world) {
		w.provider.Script("a-1", fails(503, "server_error", "unavailable"), alpha.says("x"))
		r := keyed("k", asks("alone", false), "X-Request-Id", "r1")
		first := w.do(t, r)
		require.Equal(t, 200, first.status)
		again := w.do(t, r)
		require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
		assert.Equal(t, first.trace, again.trace)
		assert.Equal(t, 2, again.trace.Calls)
	})
}

// slowTraces is a store that takes its time, and fails then if it shall.
type slowTraces struct {
	routetrace.Memory
	takes time.Duration
	err   error
}

func (s *slowTraces) wait(ctx context.Context) error {
	timer := time.NewTimer(s.takes)
	defer timer.Stop()
	select {
	case <-timer.C:
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slowTraces) Put(ctx context.Context, organization string, t routetrace.Trace) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	return s.Memory.Put(ctx, organization, t)
}

func (s *slowTraces) Get(ctx context.Context, k routetrace.Key) (*routetrace.Trace, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return s.Memory.Get(ctx, k)
}

// TestNoAnswerWaitsForItsTrace: the client has all of its answer before the trace is written, and a store that fails or
// hangs is counted and changes nothing.
func TestNoAnswerWaitsForItsTrace(t *testing.T) {
	unsure := fails(503, "server_error", "unavailable")
	for name, c := range map[string]struct {
		store    *slowTraces
		a        []simulate.Reply
		stream   bool
		status   int
		returned time.Duration // after the answer
		lost     bool
	}{
		"a plain answer, and a store that is slow": {store: &slowTraces{takes: 300 * time.Millisecond}, a: []simulate.Reply{unsure, alpha.says("x")}, status: 200, returned: 300 * time.Millisecond},
		"a stream, and a store that hangs":         {store: &slowTraces{takes: time.Hour}, a: []simulate.Reply{unsure, alpha.says("x")}, stream: true, status: 200, returned: 1500 * time.Millisecond, lost: true},
		"an error, and a store that hangs":         {store: &slowTraces{takes: time.Hour}, a: one(fails(400, "invalid_request_error", "invalid_value")), status: 502, returned: 1500 * time.Millisecond, lost: true},
		"an error, and a store that fails":         {store: &slowTraces{err: errors.New("throttled")}, a: one(fails(400, "invalid_request_error", "invalid_value")), status: 502, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, settings{traces: c.store}, func(t *testing.T, w *world) {
				w.provider.Script("a-1", c.a...)
				o := w.do(t, request{body: asks("alone", c.stream)})
				assert.Equal(t, c.status, o.status)
				assert.True(t, o.flushed, "everything was sent")
				last := o.pieces[len(o.pieces)-1].at
				assert.Equal(t, c.returned, o.returned-last)
				assert.Equal(t, c.lost, strings.Contains(o.raw, `"store_lost"`), o.raw)
				if c.status != 200 {
					assert.NotEmpty(t, o.header.Get("Content-Length"), "the client need not wait for the end of the connection")
				}
			})
		})
	}
}

func TestAStoreOfTracesThatCannotBeRead(t *testing.T) {
	for name, store := range map[string]*slowTraces{"fails": {err: errors.New("throttled")}, "hangs": {takes: time.Hour}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, settings{traces: store}, func(t *testing.T, w *world) {
				o := w.traceOf(t, "r1", operatorKey)
				assert.Equal(t, 503, o.status)
				assert.Equal(t, "store_unavailable", gjson.Get(o.body, "error.code").Str)
				assert.Equal(t, "true", o.header.Get("X-Should-Retry"))
				assert.Equal(t, "2", o.header.Get("Retry-After"))
				assert.LessOrEqual(t, o.returned, 500*time.Millisecond+500*time.Millisecond)
			})
		})
	}
}
