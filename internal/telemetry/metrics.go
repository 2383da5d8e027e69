package telemetry

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
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
	StoreErrors  = Metric{"StoreErrors", "Count"} // by the call that failed, as the reason
	Alerts       = Metric{"Alerts", "Count"}      // by reason and provider: 4 reasons a provider

	// Of media jobs. JobsFinished is by outcome, which is succeeded or one of a dozen codes, and provider.
	JobsFinished   = Metric{"JobsFinished", "Count"}
	JobDuration    = Metric{"JobDuration", "Milliseconds"} // from the order to the end
	JobCost        = Metric{"JobCost", "None"}             // US dollars, of those whose cost is known
	UnknownCosts   = Metric{"UnknownCosts", "Count"}       // of those whose cost is not
	PollFailures   = Metric{"PollFailures", "Count"}
	UncertainJobs  = Metric{"UncertainJobs", "Count"}
	WebhooksFailed = Metric{"WebhooksFailed", "Count"} // tellings, by the provider of the job
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
// 2026-11-30). The line has no level, so that no log filter drops it. It is written by hand: one stands behind every
// request.
func (r *Recorder) Measure(m Measured) {
	if len(m.Values) == 0 {
		return
	}
	b := append(make([]byte, 0, 1024), `{"msg":"metrics"`...)
	b = appendText(b, KeyReason, m.Reason)
	b = appendText(b, KeyRoute, m.Route)
	b = appendText(b, KeyProvider, m.Provider)
	for _, v := range m.Values {
		b = append(append(append(b, `,"`...), v.Name...), `":`...)
		b = strconv.AppendFloat(b, v.Amount, 'f', -1, 64)
	}
	b = append(b, `,"_aws":{"Timestamp":`...)
	b = strconv.AppendInt(b, m.At.UnixMilli(), 10)
	b = append(b, `,"CloudWatchMetrics":[{"Namespace":"`+namespace+`","Dimensions":`...)
	b = append(append(b, m.dimensions()...), `,"Metrics":[`...)
	for i, v := range m.Values {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(append(append(b, `{"Name":"`...), v.Name...), `","Unit":"`...), v.Unit...), `"}`...)
	}
	_, _ = r.out.Write(append(b, "]}]}}\n"...)) // a log that cannot be written has nowhere to say so
}

// dimensions are the sets in which the values are counted.
func (m Measured) dimensions() string {
	switch {
	case m.Reason != "":
		return `[["` + KeyReason + `","` + KeyProvider + `"]]`
	case m.Route != "" && m.Provider != "":
		return `[["` + KeyRoute + `"],["` + KeyProvider + `"]]`
	case m.Route != "":
		return `[["` + KeyRoute + `"]]`
	case m.Provider != "":
		return `[["` + KeyProvider + `"]]`
	default:
		return `[[]]`
	}
}

func appendText(b []byte, key, value string) []byte {
	if value == "" {
		return b
	}
	b = append(append(append(b, `,"`...), key...), `":`...)
	b, _ = jsontext.AppendQuote(b, value) // what is no UTF-8 is replaced
	return b
}
