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

// TestMetrics: values stand in two dimension sets, by route and by provider, never in their product.
func TestMetrics(t *testing.T) {
	at := time.UnixMilli(1_900_000_000_123)
	for name, c := range map[string]struct {
		measured   telemetry.Measured
		dimensions string
		members    map[string]any
	}{
		"a request with a provider": {
			telemetry.Measured{Route: "r", Provider: "p", At: at, Values: []telemetry.Value{{Metric: telemetry.Requests, Amount: 1}, {Metric: telemetry.Duration, Amount: 12.5}}},
			`[["route"],["provider"]]`, map[string]any{"route": "r", "provider": "p", "Requests": 1.0, "Duration": 12.5},
		},
		"a request that reached no provider": {
			telemetry.Measured{Route: "r", At: at, Values: []telemetry.Value{{Metric: telemetry.Requests, Amount: 1}}},
			`[["route"]]`, map[string]any{"route": "r", "Requests": 1.0},
		},
		"a request of nobody": {
			telemetry.Measured{At: at, Values: []telemetry.Value{{Metric: telemetry.ErrorsOf("auth"), Amount: 1}}},
			`[[]]`, map[string]any{"Errors_auth": 1.0},
		},
		"an alert": {
			telemetry.Measured{Reason: "auth", Provider: "p", At: at, Values: []telemetry.Value{{Metric: telemetry.Alerts, Amount: 1}}},
			`[["reason","provider"]]`, map[string]any{"reason": "auth", "provider": "p", "Alerts": 1.0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			telemetry.New(&out, slog.LevelError).Measure(c.measured) // whatever the level is
			var got map[string]any
			require.NoError(t, json.Unmarshal(out.Bytes(), &got))
			aws := got["_aws"].(map[string]any)
			assert.Equal(t, 1_900_000_000_123.0, aws["Timestamp"])
			directive := aws["CloudWatchMetrics"].([]any)[0].(map[string]any)
			sets, err := json.Marshal(directive["Dimensions"])
			require.NoError(t, err)
			assert.JSONEq(t, c.dimensions, string(sets))
			assert.Equal(t, "Spillway", directive["Namespace"])
			assert.Len(t, directive["Metrics"], len(c.measured.Values))
			delete(got, "_aws")
			delete(got, "msg")
			assert.Equal(t, c.members, got)
		})
	}
}

// TestAlertsAreRare: the same reason and credential is told once a minute, another one at once.
func TestAlertsAreRare(t *testing.T) {
	var out bytes.Buffer
	r := telemetry.New(&out, slog.LevelInfo)
	start := time.Unix(0, 0)
	for _, after := range []time.Duration{0, time.Second, 59 * time.Second, time.Minute, 61 * time.Second} {
		r.Alert(start.Add(after), "auth", "openai", "main", "")
	}
	r.Alert(start.Add(time.Second), "auth", "openai", "other", "")
	r.Alert(start.Add(time.Second), "quota", "openai", "main", "")
	assert.Equal(t, 4, strings.Count(out.String(), `"msg":"alert"`))
	assert.Equal(t, 4, strings.Count(out.String(), `"_aws"`))
}
