package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/chat"
	"spillway/internal/telemetry"
)

// record gives the one JSON line that a call of the recorder writes.
func record(t *testing.T, write func(*telemetry.Recorder)) map[string]any {
	t.Helper()
	var out bytes.Buffer
	write(telemetry.New(&out, slog.LevelDebug))
	lines := records(out.String())
	require.Len(t, lines, 1, "one record is one line: %q", out.String())
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &got))
	return got
}

// records are the lines that are no metrics.
func records(out string) []string {
	return slices.DeleteFunc(strings.Split(strings.TrimSuffix(out, "\n"), "\n"), func(l string) bool { return strings.Contains(l, `"_aws":`) })
}

// answered, failed and finished have every field set, so that a key that is never written shows.
var (
	cost     = telemetry.Cost{Known: true, Nano: 42, Basis: "listed", Version: "v1"}
	usage    = &chat.Usage{Prompt: 12, Completion: 5, Cached: 8}
	tags     = map[string]string{"app": "shop", "env": "live"}
	answered = telemetry.Attempt{RequestID: "req_1", Route: "support-v1", N: 2, Max: 4, Hop: 1, Provider: "openai", Channel: "openai/gpt",
		Model: "gpt", Served: "gpt-2026", Region: "eu-west-1", Credential: "main", UpstreamID: "up_1", Duration: 1500 * time.Millisecond,
		FirstContent: 250500 * time.Microsecond, Status: 200, Decision: "answered", Committed: true, Usage: usage, PolicyVersion: "p1", Tags: tags, Cost: cost}
	failed = telemetry.Attempt{RequestID: "req_1", Route: "support-v1", N: 1, Max: 4, Provider: "openai", Channel: "openai/gpt", Model: "gpt",
		Region: "eu-west-1", Credential: "main", UpstreamID: "up_0", Duration: time.Second, Status: 429, Class: "rate_limited", Type: "tokens",
		Code: "rate_limit_exceeded", Evidence: "generic_code", Hint: 2 * time.Second, HintSource: "retry-after", Decision: "retry", Reason: "hinted",
		Wait: 2100 * time.Millisecond, Ambiguous: true, PolicyVersion: "p1", Remedy: "raise the limit", Tags: tags}
	decided  = telemetry.Decision{Attempt: failed, Action: "req_1.1", Operation: "chat", Eligible: true, BodyDigest: "0011"}
	finished = telemetry.Request{RequestID: "req_1", Organization: "acme", Key: "live", Route: "support-v1", Outcome: "answered", Status: 200,
		Provider: "openai", Served: "gpt-2026", Attempts: 2, Fallback: true, Stream: true, Duration: 3 * time.Second, Added: 1200 * time.Millisecond,
		Usage: usage, PolicyVersion: "p1", Tags: tags, Cause: "a fault of ours", Class: "unknown", FirstContent: 1700 * time.Millisecond,
		User: "aa", Conversation: "bb", Cost: cost, Wasted: 7, Idempotency: "stored", StoreError: "throttled", Job: "job_1", Kind: "video"}
)

// TestRecords is contract.md §10 as far as it is recorded: each record has these members, and no other.
func TestRecords(t *testing.T) {
	for name, c := range map[string]struct {
		write func(*telemetry.Recorder)
		want  map[string]any
	}{
		"an attempt that answered": {
			func(r *telemetry.Recorder) { r.Attempt(answered) },
			map[string]any{"level": "INFO", "msg": "attempt_finished", "request_id": "req_1", "route": "support-v1", "attempt": 2.0, "max_attempts": 4.0,
				"hop": 1.0, "provider": "openai", "channel": "openai/gpt", "model": "gpt", "served_model": "gpt-2026", "region": "eu-west-1",
				"credential": "main", "provider_request_id": "up_1", "duration_ms": 1500.0, "first_content_ms": 250.5, "status": 200.0, "class": "",
				"decision": "answered", "reason": "", "committed": true, "ambiguous": false, "policy_version": "p1",
				"tags": map[string]any{"app": "shop", "env": "live"}, "prompt_tokens": 12.0, "completion_tokens": 5.0, "cached_tokens": 8.0, "tokens_estimated": false,
				"cost_nano_usd": 42.0, "cost_basis": "listed", "price_version": "v1"},
		},
		"an attempt that failed": {
			func(r *telemetry.Recorder) { r.Attempt(failed) },
			map[string]any{"level": "WARN", "msg": "attempt_finished", "request_id": "req_1", "route": "support-v1", "attempt": 1.0, "max_attempts": 4.0,
				"hop": 0.0, "provider": "openai", "channel": "openai/gpt", "model": "gpt", "served_model": "", "region": "eu-west-1",
				"credential": "main", "provider_request_id": "up_0", "duration_ms": 1000.0, "first_content_ms": 0.0, "status": 429.0,
				"class": "rate_limited", "type": "tokens", "code": "rate_limit_exceeded", "evidence": "generic_code", "hint_ms": 2000.0,
				"hint_source": "retry-after", "decision": "retry", "reason": "hinted", "wait_ms": 2100.0, "committed": false, "ambiguous": true,
				"policy_version": "p1", "remediation": "raise the limit", "tags": map[string]any{"app": "shop", "env": "live"}},
		},
		"an attempt without region, hint, tags and usage": {
			func(r *telemetry.Recorder) {
				a := failed
				a.Region, a.HintSource, a.Tags = "", "", nil
				r.Attempt(a)
			},
			map[string]any{"level": "WARN", "msg": "attempt_finished", "request_id": "req_1", "route": "support-v1", "attempt": 1.0, "max_attempts": 4.0,
				"hop": 0.0, "provider": "openai", "channel": "openai/gpt", "model": "gpt", "served_model": "", "credential": "main",
				"provider_request_id": "up_0", "duration_ms": 1000.0, "first_content_ms": 0.0, "status": 429.0, "class": "rate_limited",
				"type": "tokens", "code": "rate_limit_exceeded", "evidence": "generic_code", "decision": "retry", "reason": "hinted",
				"wait_ms": 2100.0, "committed": false, "ambiguous": true, "policy_version": "p1", "remediation": "raise the limit"},
		},
		"a request": {
			func(r *telemetry.Recorder) { r.Request(finished) },
			map[string]any{"level": "INFO", "msg": "request_finished", "request_id": "req_1", "organization": "acme", "key": "live",
				"route": "support-v1", "outcome": "answered", "status": 200.0, "provider": "openai", "served_model": "gpt-2026", "attempts": 2.0,
				"fallback": true, "stream": true, "duration_ms": 3000.0, "added_ms": 1200.0, "policy_version": "p1",
				"tags": map[string]any{"app": "shop", "env": "live"}, "cause": "a fault of ours", "prompt_tokens": 12.0, "completion_tokens": 5.0,
				"cached_tokens": 8.0, "tokens_estimated": false, "class": "unknown", "first_content_ms": 1700.0, "user_digest": "aa", "conversation_digest": "bb",
				"cost_nano_usd": 42.0, "cost_basis": "listed", "price_version": "v1", "wasted_cost_nano_usd": 7.0, "idempotency": "stored", "store_error": "throttled", "job": "job_1", "kind": "video"},
		},
		"a request that nobody could be found for": {
			func(r *telemetry.Recorder) {
				r.Request(telemetry.Request{RequestID: "req_2", Outcome: "invalid_api_key", Status: 401})
			},
			map[string]any{"level": "INFO", "msg": "request_finished", "request_id": "req_2", "organization": "", "key": "", "route": "",
				"outcome": "invalid_api_key", "status": 401.0, "provider": "", "served_model": "", "attempts": 0.0, "fallback": false, "stream": false,
				"duration_ms": 0.0, "added_ms": 0.0, "policy_version": ""},
		},
		"an alert": {
			func(r *telemetry.Recorder) { r.Alert(time.Now(), "auth", "openai", "main", "replace the key") },
			map[string]any{"level": "ERROR", "msg": "alert", "reason": "auth", "provider": "openai", "credential": "main", "remediation": "replace the key"},
		},
		"a decision": {
			func(r *telemetry.Recorder) { r.Decision(decided) },
			map[string]any{"level": "INFO", "msg": "provider_decision", "action_id": "req_1.1", "request_id": "req_1", "route": "support-v1",
				"operation": "chat", "provider": "openai", "model": "gpt", "status": 429.0, "type": "tokens", "code": "rate_limit_exceeded",
				"class": "rate_limited", "hint_ms": 2000.0, "attempt": 1.0, "max_attempts": 4.0, "decision": "retry", "reason": "hinted",
				"fallback_eligible": true, "ambiguous": true, "body_digest": "0011", "provider_request_id": "up_0", "remediation": "raise the limit",
				"policy_version": "p1", "tags": map[string]any{"app": "shop", "env": "live"}},
		},
		"a circuit's transition": {
			func(r *telemetry.Recorder) {
				r.Transition(time.Now(), "openai", "openai/gpt//main", "closed", "open", "failures", "overloaded")
			},
			map[string]any{"level": "WARN", "msg": "circuit_transition", "provider": "openai", "circuit": "openai/gpt//main", "from": "closed",
				"to": "open", "reason": "failures", "class": "overloaded"},
		},
		"a panic": {
			func(r *telemetry.Recorder) { r.Panicked("req_1", "index out of range", "goroutine 1") },
			map[string]any{"level": "ERROR", "msg": "panic", "request_id": "req_1", "cause": "index out of range", "stack": "goroutine 1"},
		},
		"a round of the sweeper": {
			func(r *telemetry.Recorder) {
				r.Swept(map[string]int{"tell": 1, "enqueue": 2}, 1500*time.Millisecond, nil)
			},
			map[string]any{"level": "INFO", "msg": "sweep_finished", "duration_ms": 1500.0, "done": map[string]any{"enqueue": 2.0, "tell": 1.0}},
		},
		"a round of the sweeper without a store": {
			func(r *telemetry.Recorder) { r.Swept(nil, 0, errors.New("throttled")) },
			map[string]any{"level": "ERROR", "msg": "sweep_finished", "duration_ms": 0.0, "store_error": "throttled"},
		},
		"a notice": {
			func(r *telemetry.Recorder) { r.Notice("OPENAI_API_KEY is not set") },
			map[string]any{"level": "WARN", "msg": "configuration_notice", "cause": "OPENAI_API_KEY is not set"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := record(t, c.write)
			at, err := time.Parse(time.RFC3339Nano, got["time"].(string))
			require.NoError(t, err)
			assert.WithinDuration(t, time.Now(), at, time.Minute)
			delete(got, "time")
			assert.Equal(t, c.want, got)
		})
	}
}

// TestKeysAreTheTable: a record's keys are in keys.go and nowhere else, and each key of the table is written by some
// record. The first three are slog's own.
func TestKeysAreTheTable(t *testing.T) {
	written := map[string]bool{}
	for _, write := range []func(*telemetry.Recorder){
		func(r *telemetry.Recorder) { r.Attempt(answered) },
		func(r *telemetry.Recorder) { r.Attempt(failed) },
		func(r *telemetry.Recorder) { r.Request(finished) },
		func(r *telemetry.Recorder) { r.Alert(time.Now(), "auth", "openai", "main", "replace the key") },
		func(r *telemetry.Recorder) { r.Panicked("req_1", "index out of range", "goroutine 1") },
		func(r *telemetry.Recorder) { r.Notice("text") },
		func(r *telemetry.Recorder) { r.JobChanged(telemetry.JobChange{}) },
		func(r *telemetry.Recorder) { r.JobFinished(telemetry.JobEnd{}) },
		func(r *telemetry.Recorder) { r.JobWord("job_1", "p", "c", "REHEARSING") },
		func(r *telemetry.Recorder) { r.Swept(map[string]int{"tell": 1}, 0, nil) },
		func(r *telemetry.Recorder) { r.StoreLost("tell", errors.New("throttled")) },
		func(r *telemetry.Recorder) { r.Decision(decided) },
		func(r *telemetry.Recorder) {
			r.Transition(time.Now(), "openai", "c", "closed", "open", "failures", "overloaded")
		},
	} {
		for key := range record(t, write) {
			written[key] = true
		}
	}
	table := append(keysOf(t, "keys.go"), "time", "level", "msg")
	slices.Sort(table)
	assert.Equal(t, table, slices.Sorted(maps.Keys(written)))
	assert.Equal(t, slices.Compact(slices.Clone(table)), table, "two constants hold the same key")
	for _, key := range table {
		assert.Regexp(t, `^[a-z]+(_[a-z]+)*$`, key)
	}
}

// keysOf reads the values of a file's constants.
func keysOf(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	var keys []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			for _, v := range spec.Values {
				key, err := strconv.Unquote(v.(*ast.BasicLit).Value)
				require.NoError(t, err)
				keys = append(keys, key)
			}
		}
		return true
	})
	require.NotEmpty(t, keys)
	return keys
}

func TestTagsCannotHideAKey(t *testing.T) {
	q := finished
	q.Tags = map[string]string{"request_id": "forged", "status": "200", "msg": "forged"}
	got := record(t, func(r *telemetry.Recorder) { r.Request(q) })
	assert.Equal(t, "req_1", got["request_id"])
	assert.Equal(t, "request_finished", got["msg"])
	assert.Equal(t, map[string]any{"request_id": "forged", "status": "200", "msg": "forged"}, got["tags"])
}

// TestProvidersWordsAreBounded: a type or code that is a whole text is cut.
func TestProvidersWordsAreBounded(t *testing.T) {
	a := failed
	a.Type, a.Code = strings.Repeat("t", 500), strings.Repeat("c", 500)
	got := record(t, func(r *telemetry.Recorder) { r.Attempt(a) })
	assert.Len(t, got["type"], 80)
	assert.Len(t, got["code"], 80)
}

func TestLevel(t *testing.T) {
	for level, want := range map[slog.Level]int{slog.LevelInfo: 3, slog.LevelWarn: 2, slog.LevelError: 1} {
		var out bytes.Buffer
		r := telemetry.New(&out, level)
		r.Request(finished)
		r.Attempt(failed)
		r.Alert(time.Now(), "auth", "openai", "main", "")
		assert.Equal(t, want, len(records(out.String())), "level %s", level)
	}
}

// TestConcurrentRecords: lines of concurrent requests do not mix.
func TestConcurrentRecords(t *testing.T) {
	var out bytes.Buffer
	r := telemetry.New(&out, slog.LevelInfo)
	const n = 50
	done := make(chan struct{})
	for range n {
		go func() {
			r.Attempt(answered)
			done <- struct{}{}
		}()
	}
	for range n {
		<-done
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Len(t, lines, n)
	for _, line := range lines {
		assert.True(t, json.Valid([]byte(line)))
	}
}
