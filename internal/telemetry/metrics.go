package telemetry

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"time"
)

// namespace is where the metrics stand in CloudWatch.
const namespace = "Spillway"

// Metric is one metric of the table.
type Metric struct {
	Name string
	// Unit is CloudWatch's word.
	Unit string
}

// The metrics. Each has one series per route and one per provider, never their product, and none by key or user: with
// 20 routes and 10 providers that is 30 series a metric.
var (
	Requests     = Metric{"Requests", "Count"}
	Errors       = Metric{"Errors", "Count"}
	Fallbacks    = Metric{"Fallbacks", "Count"}
	Recovered    = Metric{"Recovered", "Count"}
	FirstContent = Metric{"FirstContentLatency", "Milliseconds"}
	Duration     = Metric{"Duration", "Milliseconds"}
	WastedCost   = Metric{"WastedCost", "None"} // US dollars
	Transitions  = Metric{"CircuitTransitions", "Count"}
	Alerts       = Metric{"Alerts", "Count"} // by reason and provider: 4 reasons a provider
)

// ErrorsOf is the count of requests that ended with a class.
func ErrorsOf(class string) Metric { return Metric{"Errors_" + class, "Count"} }

// Value is one measured value.
type Value struct {
	Metric
	Amount float64
}

// Measured is what one request, or one event, measured. An empty dimension is left out.
type Measured struct {
	Route, Provider string
	// Reason makes the values of an alert: their dimensions are reason and provider, together.
	Reason string
	At     time.Time
	Values []Value
}

// Measure writes values in CloudWatch's embedded metric format
// (https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html,
// 2026-11-30). The line has no level, so that no log filter drops it.
func (r *Recorder) Measure(m Measured) {
	if len(m.Values) == 0 {
		return
	}
	var sets [][]string
	attrs := make([]slog.Attr, 0, 3+len(m.Values))
	dimension := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
			sets = append(sets, []string{key})
		}
	}
	if m.Reason != "" {
		sets = [][]string{{KeyReason, KeyProvider}}
		attrs = append(attrs, slog.String(KeyReason, m.Reason), slog.String(KeyProvider, m.Provider))
	} else {
		dimension(KeyRoute, m.Route)
		dimension(KeyProvider, m.Provider)
	}
	type definition struct{ Name, Unit string }
	definitions := make([]definition, 0, len(m.Values))
	for _, v := range m.Values {
		definitions = append(definitions, definition{v.Name, v.Unit})
		attrs = append(attrs, slog.Float64(v.Name, v.Amount))
	}
	if sets == nil {
		sets = [][]string{{}}
	}
	directive, err := json.Marshal(map[string]any{"Timestamp": m.At.UnixMilli(), "CloudWatchMetrics": []any{
		map[string]any{"Namespace": namespace, "Dimensions": sets, "Metrics": definitions}}})
	if err != nil {
		panic("names and numbers always encode: " + err.Error())
	}
	attrs = append(attrs, slog.Any("_aws", json.RawMessage(directive)))
	r.metrics.LogAttrs(context.Background(), slog.LevelInfo, "metrics", attrs...)
}

// metricLog writes lines without time and level.
func metricLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
			return slog.Attr{}
		}
		return a
	}}))
}
