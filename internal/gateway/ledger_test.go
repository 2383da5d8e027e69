package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"spillway/internal/ledger"
)

const toolCall = "/v1/tool-calls/tool:send_mail:app-1:3"

// saying is what an application says of a tool call.
func saying(state, owner, more string) request {
	return request{method: http.MethodPut, path: toolCall, body: fmt.Sprintf(`{"state":%q,"owner":%q%s}`, state, owner, more)}
}

func TestAToolCallStepByStep(t *testing.T) {
	type step struct {
		said   request
		key    string
		after  time.Duration // waited before
		status int
		state  string // empty: an error, and code is its code
		code   string
		owner  string
		result string // JSON
		replay bool
	}
	reads := request{method: http.MethodGet, path: toolCall}
	const result = `,"result":{"id":9007199254740993,"text":"<é>"}`
	for name, steps := range map[string][]step{
		"it is started, succeeds, and is never done again": {
			{said: reads, status: 404, code: "not_found"},
			{said: saying("started", "o1", ""), status: 201, state: "started", owner: "o1", result: "null"},
			{said: reads, status: 200, state: "started", owner: "o1", result: "null"},
			{said: saying("started", "o2", ""), status: 409, code: "idempotency_conflict"},
			{said: saying("succeeded", "o2", result), status: 409, code: "idempotency_conflict"},
			{said: saying("failed", "o2", ""), status: 409, code: "idempotency_conflict"},
			{said: saying("succeeded", "o1", result), status: 200, state: "succeeded", owner: "o1", result: result},
			{said: saying("started", "o2", ""), status: 200, state: "succeeded", owner: "o1", result: result, replay: true},
			{said: saying("succeeded", "o2", `,"result":1`), status: 200, state: "succeeded", owner: "o1", result: result, replay: true},
			{said: saying("failed", "o1", ""), status: 200, state: "succeeded", owner: "o1", result: result, replay: true},
			{said: reads, status: 200, state: "succeeded", owner: "o1", result: result},
		},
		"the answer to a success is lost, and it is said again": {
			{said: saying("started", "o1", ""), status: 201, state: "started", owner: "o1", result: "null"},
			{said: saying("succeeded", "o1", result), status: 200, state: "succeeded", owner: "o1", result: result},
			{said: saying("succeeded", "o1", result), status: 200, state: "succeeded", owner: "o1", result: result, replay: true},
		},
		"its owner starts it again: 200 instead of 201": {
			{said: saying("started", "o1", ""), status: 201, state: "started", owner: "o1", result: "null"},
			{said: saying("started", "o1", ""), status: 200, state: "started", owner: "o1", result: "null"},
			{said: saying("started", "o1", ""), after: 6 * 24 * time.Hour, status: 200, state: "started", owner: "o1", result: "null"},
		},
		"a failure frees it": {
			{said: saying("started", "o1", ""), status: 201, state: "started", owner: "o1", result: "null"},
			{said: saying("failed", "o1", ""), status: 200, state: "failed", owner: "o1", result: "null"},
			{said: saying("failed", "o1", ""), status: 200, state: "failed", owner: "o1", result: "null"},
			{said: reads, status: 200, state: "failed", owner: "o1", result: "null"},
			{said: saying("started", "o2", ""), status: 201, state: "started", owner: "o2", result: "null"},
			{said: saying("succeeded", "o1", ""), status: 409, code: "idempotency_conflict"},
		},
		"a success that nobody started is kept": {
			{said: saying("succeeded", "o1", ""), status: 200, state: "succeeded", owner: "o1", result: "null"},
			{said: saying("started", "o2", ""), status: 200, state: "succeeded", owner: "o1", result: "null", replay: true},
		},
		"a failure that nobody started changes nothing": {
			{said: saying("failed", "o1", ""), status: 200, state: "failed", owner: "o1", result: "null"},
			{said: reads, status: 404, code: "not_found"},
		},
		"a crashed owner keeps it, until seven days have passed": {
			{said: saying("started", "o1", ""), status: 201, state: "started", owner: "o1", result: "null"},
			{said: saying("started", "o2", ""), after: 7*24*time.Hour - time.Second, status: 409, code: "idempotency_conflict"},
			{said: reads, after: time.Second, status: 404, code: "not_found"},
			{said: saying("started", "o2", ""), status: 201, state: "started", owner: "o2", result: "null"},
		},
		"another organization has keys of its own": {
			{said: saying("started", "o1", ""), status: 201, state: "started", owner: "o1", result: "null"},
			{said: reads, key: strangerKey, status: 404, code: "not_found"},
			{said: saying("started", "o2", ""), key: strangerKey, status: 201, state: "started", owner: "o2", result: "null"},
			{said: reads, status: 200, state: "started", owner: "o1", result: "null"},
		},
		"nobody is told anything": {
			{said: reads, key: "wrong", status: 401, code: "invalid_api_key"},
			{said: saying("started", "o1", ""), key: "wrong", status: 401, code: "invalid_api_key"},
			{said: reads, status: 404, code: "not_found"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, settings{}, func(t *testing.T, w *world) {
				for i, s := range steps {
					time.Sleep(s.after)
					r := s.said
					r.key = s.key
					o := w.do(t, r)
					require.Equal(t, s.status, o.status, "step %d: %s", i+1, o.body)
					got := gjson.Parse(o.body)
					assert.Equal(t, s.code, got.Get("error.code").Str, "step %d", i+1)
					assert.Equal(t, s.replay, o.header.Get("Idempotent-Replayed") == "true", "step %d", i+1)
					if s.status == 409 {
						assert.Equal(t, "5", o.header.Get("Retry-After"))
						assert.Equal(t, "true", o.header.Get("X-Should-Retry"))
						assert.Equal(t, 5.0, got.Get("error.retry_after").Num)
					}
					if s.state == "" {
						continue
					}
					assert.Equal(t, []string{"tool_call", "tool:send_mail:app-1:3", s.state, s.owner},
						[]string{got.Get("object").Str, got.Get("key").Str, got.Get("state").Str, got.Get("owner").Str}, "step %d", i+1)
					assert.JSONEq(t, strings.TrimPrefix(s.result, `,"result":`), got.Get("result").Raw, "step %d", i+1)
					if s.result == result {
						assert.Equal(t, "9007199254740993", got.Get("result.id").Raw, "a number keeps its digits")
					}
				}
			})
		})
	}
}

// TestFiftyAgentsDoAToolOnce: one of them is told that the call is its own and does it; the others get its result.
func TestFiftyAgentsDoAToolOnce(t *testing.T) {
	for name, owner := range map[string]func(int) string{
		"under names of their own": func(i int) string { return fmt.Sprint("agent ", i) },
		"all under one name":       func(int) string { return "agent" },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, settings{}, func(t *testing.T, w *world) {
				put := func(r request) *httptest.ResponseRecorder {
					req := httptest.NewRequestWithContext(t.Context(), r.method, r.path, strings.NewReader(r.body))
					req.Header.Set("Authorization", "Bearer "+clientKey)
					a := httptest.NewRecorder()
					w.handler.ServeHTTP(a, req)
					return a
				}
				var mu sync.Mutex
				effects, results := 0, map[string]int{}
				var all sync.WaitGroup
				for i := range 50 {
					all.Go(func() {
						for {
							a := put(saying("started", owner(i), ""))
							switch {
							case a.Code == 201:
								time.Sleep(3 * time.Second)
								mu.Lock()
								effects++
								mu.Unlock()
								assert.Equal(t, 200, put(saying("succeeded", owner(i), `,"result":"sent"`)).Code) // its answer is lost: it asks again
							case a.Header().Get("Idempotent-Replayed") == "true":
								mu.Lock()
								results[gjson.Get(a.Body.String(), "result").Str]++
								mu.Unlock()
								return
							default: // 409, or 200: it is being done
								time.Sleep(time.Second)
							}
						}
					})
				}
				all.Wait()
				assert.Equal(t, 1, effects)
				assert.Equal(t, map[string]int{"sent": 50}, results)
			})
		})
	}
}

func TestWhatCannotBeSaidOfAToolCall(t *testing.T) {
	for name, c := range map[string]struct {
		path, body string
		status     int
		param      string
	}{
		"no JSON":                     {"", `{"state":`, 400, "body"},
		"nothing":                     {"", "", 400, "body"},
		"a list":                      {"", `[]`, 400, "body"},
		"two objects":                 {"", `{"state":"started","owner":"o"} {}`, 400, "body"},
		"a member twice":              {"", `{"state":"started","owner":"o","owner":"p"}`, 400, "body"},
		"a member that is not known":  {"", `{"state":"started","owner":"o","ttl":5}`, 400, "ttl"},
		"no state":                    {"", `{"owner":"o"}`, 400, "state"},
		"a state that is none":        {"", `{"state":"done","owner":"o"}`, 400, "state"},
		"a state that is no text":     {"", `{"state":1,"owner":"o"}`, 400, "state"},
		"no owner":                    {"", `{"state":"started"}`, 400, "owner"},
		"an empty owner":              {"", `{"state":"started","owner":""}`, 400, "owner"},
		"an owner that is no text":    {"", `{"state":"started","owner":{"a":1}}`, 400, "owner"},
		"an owner that is too long":   {"", `{"state":"started","owner":"` + strings.Repeat("é", 256) + `"}`, 400, "owner"},
		"a result of a start":         {"", `{"state":"started","owner":"o","result":null}`, 400, "result"},
		"a result of a failure":       {"", `{"state":"failed","owner":"o","result":{}}`, 400, "result"},
		"a result that is too large":  {"", `{"state":"succeeded","owner":"o","result":"` + strings.Repeat("x", 299_999) + `"}`, 413, "result"},
		"a result as large as may be": {"", `{"state":"succeeded","owner":"o","result": "` + strings.Repeat("x", 299_998) + `"}`, 200, ""},
		"a result nested deeply":      {"", `{"state":"succeeded","owner":"o","result":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`, 200, ""},
		"no key":                      {"/v1/tool-calls/", `{"state":"started","owner":"o"}`, 400, "key"},
		"a key that is too long":      {"/v1/tool-calls/" + strings.Repeat("k", 256), `{"state":"started","owner":"o"}`, 400, "key"},
		"a key of 255 characters":     {"/v1/tool-calls/" + strings.Repeat("%C3%A9", 255), `{"state":"started","owner":"o"}`, 201, ""},
		"a key that is no UTF-8":      {"/v1/tool-calls/%ff", `{"state":"started","owner":"o"}`, 400, "key"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, settings{}, func(t *testing.T, w *world) {
				path := toolCall
				if c.path != "" {
					path = c.path
				}
				o := w.do(t, request{method: http.MethodPut, path: path, body: c.body})
				assert.Equal(t, c.status, o.status, o.body[:min(len(o.body), 300)])
				assert.Equal(t, c.param, gjson.Get(o.body, "error.param").Str)
				if c.status >= 400 {
					assert.Contains(t, gjson.Get(o.body, "error.message").Str, c.param)
					assert.Less(t, len(o.body), 2048)
				}
			})
		})
	}
}

// downLedger is a ledger that does not answer.
type downLedger struct {
	ledger.Memory
	hangs bool
}

func (d *downLedger) Get(ctx context.Context, _ ledger.Key) (*ledger.Entry, error) {
	if d.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, errors.New("throttled")
}

func TestALedgerThatDoesNotAnswer(t *testing.T) {
	for name, hangs := range map[string]bool{"it fails": false, "it hangs": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, settings{ledger: &downLedger{hangs: hangs}}, func(t *testing.T, w *world) {
				for _, r := range []request{saying("started", "o1", ""), {method: http.MethodGet, path: toolCall}} {
					o := w.do(t, r)
					assert.Equal(t, 503, o.status)
					assert.Equal(t, "store_unavailable", gjson.Get(o.body, "error.code").Str)
					assert.Equal(t, "true", o.header.Get("X-Should-Retry"))
					assert.LessOrEqual(t, o.returned, 500*time.Millisecond)
				}
			})
		})
	}
}
