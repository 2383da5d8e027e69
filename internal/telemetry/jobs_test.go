package telemetry_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/telemetry"
)

// job has every field set.
var job = telemetry.Job{ID: "job_1", Organization: "acme", Kind: "video", Model: "veo", Provider: "google", Channel: "google/veo", Credential: "main",
	Poll: 4, PollFailures: 1, Submits: 1, Refusals: 2, Fallback: true, Age: 14 * time.Second}

// with are the members that every record of a job has, and more.
func with(more map[string]any) map[string]any {
	all := map[string]any{"job": "job_1", "organization": "acme", "kind": "video", "model": "veo", "provider": "google", "channel": "google/veo",
		"credential": "main", "poll": 4.0, "poll_failures": 1.0, "submits": 1.0, "refusals": 2.0, "fallback": true}
	for k, v := range more {
		all[k] = v
	}
	return all
}

// TestRecordsOfJobs: each record has these members, and no other.
func TestRecordsOfJobs(t *testing.T) {
	for name, c := range map[string]struct {
		write func(*telemetry.Recorder)
		want  map[string]any
	}{
		"a call that was answered": {
			func(r *telemetry.Recorder) {
				r.JobCalled(telemetry.JobCall{Job: "job_1", Operation: "poll", Provider: "google", Channel: "google/veo", Credential: "main", Model: "veo-3.1",
					UpstreamID: "up_1", Duration: 250 * time.Millisecond, Decision: "answered", PolicyVersion: "p1"})
			},
			map[string]any{"level": "INFO", "msg": "attempt_finished", "job": "job_1", "operation": "poll", "provider": "google", "channel": "google/veo",
				"credential": "main", "model": "veo-3.1", "provider_request_id": "up_1", "duration_ms": 250.0, "class": "", "decision": "answered",
				"ambiguous": false, "policy_version": "p1"},
		},
		"a call that failed": {
			func(r *telemetry.Recorder) {
				r.JobCalled(telemetry.JobCall{Job: "job_1", Operation: "submit", Provider: "google", Channel: "google/veo", Credential: "main", Model: "veo-3.1",
					UpstreamID: "up_1", Duration: time.Second, Status: 503, Class: "overloaded", Evidence: "status", Ambiguous: true, Hint: 2 * time.Second,
					HintSource: "retry-after", Decision: "uncertain", PolicyVersion: "p1", Remedy: "wait"})
			},
			map[string]any{"level": "WARN", "msg": "attempt_finished", "job": "job_1", "operation": "submit", "provider": "google", "channel": "google/veo",
				"credential": "main", "model": "veo-3.1", "provider_request_id": "up_1", "duration_ms": 1000.0, "status": 503.0, "class": "overloaded",
				"evidence": "status", "decision": "uncertain", "ambiguous": true, "policy_version": "p1", "hint_ms": 2000.0, "hint_source": "retry-after",
				"remediation": "wait"},
		},
		"a change": {
			func(r *telemetry.Recorder) {
				r.JobChanged(telemetry.JobChange{Job: job, From: "submitting", To: "running", Reason: "accepted"})
			},
			with(map[string]any{"level": "INFO", "msg": "job_changed", "from": "submitting", "to": "running", "reason": "accepted", "age_ms": 14000.0}),
		},
		"a change of numbers": {
			func(r *telemetry.Recorder) {
				r.JobChanged(telemetry.JobChange{Job: job, From: "running", To: "running", Reason: "pending", Quiet: true})
			},
			with(map[string]any{"level": "DEBUG", "msg": "job_changed", "from": "running", "to": "running", "reason": "pending", "age_ms": 14000.0}),
		},
		"an end with a cost": {
			func(r *telemetry.Recorder) {
				r.JobFinished(telemetry.JobEnd{Job: job, Outcome: "succeeded", State: "succeeded", Size: 60 << 20, Cost: cost})
			},
			with(map[string]any{"level": "INFO", "msg": "job_finished", "outcome": "succeeded", "to": "succeeded", "class": "", "duration_ms": 14000.0,
				"size_bytes": float64(60 << 20), "cost_nano_usd": 42.0, "cost_basis": "listed", "price_version": "v1"}),
		},
		"an end whose cost nobody knows": {
			func(r *telemetry.Recorder) {
				r.JobFinished(telemetry.JobEnd{Job: job, Outcome: "content_filter", State: "failed", Class: "content_policy", Cost: telemetry.Cost{Version: "v1"}})
			},
			with(map[string]any{"level": "INFO", "msg": "job_finished", "outcome": "content_filter", "to": "failed", "class": "content_policy", "duration_ms": 14000.0,
				"size_bytes": 0.0, "cost_nano_usd": nil, "price_version": "v1"}),
		},
		"an end that cost nothing": {
			func(r *telemetry.Recorder) {
				r.JobFinished(telemetry.JobEnd{Job: job, Outcome: "cancelled", State: "cancelled", Cost: telemetry.Cost{Known: true, Basis: "unmade"}})
			},
			with(map[string]any{"level": "INFO", "msg": "job_finished", "outcome": "cancelled", "to": "cancelled", "class": "", "duration_ms": 14000.0,
				"size_bytes": 0.0, "cost_nano_usd": 0.0, "cost_basis": "unmade"}),
		},
		"a word that nobody knows": {
			func(r *telemetry.Recorder) { r.JobWord("job_1", "google", "google/veo", "REHEARSING") },
			map[string]any{"level": "WARN", "msg": "unknown_status", "job": "job_1", "provider": "google", "channel": "google/veo", "word": "REHEARSING"},
		},
		"trouble": {
			func(r *telemetry.Recorder) { r.JobTrouble("job_1", "telling its callback", "no public host answers") },
			map[string]any{"level": "WARN", "msg": "job_trouble", "job": "job_1", "operation": "telling its callback", "cause": "no public host answers"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := record(t, c.write)
			delete(got, "time")
			assert.Equal(t, c.want, got)
		})
	}
}

// TestMetricsOfJobs: an end is counted by its outcome and provider together, and measured by its provider. What nobody knows the cost
// of is counted, and not as zero.
func TestMetricsOfJobs(t *testing.T) {
	at := time.UnixMilli(1_900_000_000_123)
	for name, c := range map[string]struct {
		write func(*telemetry.Recorder)
		want  []string
	}{
		"an end with a cost": {
			func(r *telemetry.Recorder) {
				r.JobFinished(telemetry.JobEnd{Job: job, Outcome: "succeeded", Cost: telemetry.Cost{Known: true, Nano: 3_200_000_000}, At: at})
			},
			[]string{`[["reason","provider"]] reason=succeeded provider=google JobsFinished=1`, `[["provider"]] provider=google JobDuration=14000 JobCost=3.2`},
		},
		"an end whose cost nobody knows": {
			func(r *telemetry.Recorder) {
				r.JobFinished(telemetry.JobEnd{Job: job, Outcome: "content_filter", At: at})
			},
			[]string{`[["reason","provider"]] reason=content_filter provider=google JobsFinished=1`, `[["provider"]] provider=google JobDuration=14000 UnknownCosts=1`},
		},
		"an end of what no provider has taken": {
			func(r *telemetry.Recorder) {
				r.JobFinished(telemetry.JobEnd{Outcome: "expired", Cost: telemetry.Cost{Known: true}, At: at})
			},
			[]string{`[["reason","provider"]] reason=expired provider=none JobsFinished=1`, `[["provider"]] provider=none JobDuration=0 JobCost=0`},
		},
		"a poll that failed": {
			func(r *telemetry.Recorder) { r.JobCounted(telemetry.PollFailures, "google", at) },
			[]string{`[["provider"]] provider=google PollFailures=1`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			c.write(telemetry.New(&out, slog.LevelError))
			var got []string
			for line := range strings.Lines(out.String()) {
				got = append(got, measured(t, line))
			}
			assert.Equal(t, c.want, got)
		})
	}
}

// measured is a line of metrics as one reads it.
func measured(t *testing.T, line string) string {
	t.Helper()
	var members map[string]any
	require.NoError(t, json.Unmarshal([]byte(line), &members))
	directive := members["_aws"].(map[string]any)["CloudWatchMetrics"].([]any)[0].(map[string]any)
	dimensions, err := json.Marshal(directive["Dimensions"])
	require.NoError(t, err)
	all := []string{string(dimensions)}
	for _, name := range []string{"reason", "provider"} {
		if v, ok := members[name]; ok {
			all = append(all, name+"="+v.(string))
		}
	}
	for _, m := range directive["Metrics"].([]any) {
		name := m.(map[string]any)["Name"].(string)
		value, err := json.Marshal(members[name])
		require.NoError(t, err)
		all = append(all, name+"="+string(value))
	}
	return strings.Join(all, " ")
}
