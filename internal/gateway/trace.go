package gateway

import (
	"context"
	"errors"
	"time"

	"spillway/internal/catalog"
	"spillway/internal/fault"
	"spillway/internal/telemetry"
	"spillway/internal/trace"
)

// tell keeps an attempt for the trace; began is zero where a hold answered in the place of a call.
func (g *Gateway) tell(j *journey, a telemetry.Attempt, began time.Time) {
	if g.Traces == nil || trace.Full(j.told) {
		return
	}
	t := trace.Attempt{N: a.N, FromMemory: began.IsZero(), Channel: a.Channel, Provider: a.Provider, Model: string(a.Model), Served: string(a.Served),
		Region: a.Region, Credential: a.Credential, Status: a.Status, Class: a.Class, Type: a.Type, Code: a.Code, Ambiguous: a.Ambiguous,
		Decision: a.Decision, Reason: a.Reason, Wait: millis(a.Wait), Hint: millis(a.Hint), Duration: millis(a.Duration), FirstContent: millis(a.FirstContent),
		ProviderRequestID: a.UpstreamID, Cost: charged(a.Cost, a.Usage != nil)}
	if t.FromMemory {
		began = time.Now()
	}
	t.At = millis(began.Sub(j.start))
	if u := a.Usage; u != nil {
		t.Usage = &trace.Usage{Prompt: u.Prompt, Completion: u.Completion, Cached: u.Cached, Estimated: u.Estimated}
	}
	j.told = append(j.told, t)
}

// charged is a cost as a trace shows it: nil where something was used that has no known price.
func charged(c telemetry.Cost, used bool) *int64 {
	if used && !c.Known {
		return nil
	}
	return &c.Nano
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// trace begins to write the request's trace, if it leaves one, once the last event is written: beside everything else that is
// done then, and for as long at most. The answer waits for it only after a panic, whose error is written when the journey is
// over. Serve waits for the write.
//
// A crash before the write leaves the request without a trace, and so does a store that does not answer: the records have the
// same attempts.
func (g *Gateway) trace(j *journey) {
	if g.Traces == nil {
		return
	}
	h := g.head(j, nil)
	kept := trace.Keep(trace.Course{Failed: j.outcome != "answered", FellBack: h.Fallback, CredentialFallback: h.CredentialFallback, Retried: h.Attempts > 1},
		g.Catalog.TraceSample, g.Random)
	if j.route == nil || kept == trace.NotKept {
		return
	}
	organization, t := j.caller.Organization.Name, g.traceOf(j, h, kept)
	j.tracing.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), bookkeeping)
		defer cancel()
		if err := g.Traces.Put(ctx, organization, t); err != nil {
			g.Recorder.StoreLost("trace", err)
		}
	})
}

// traceOf is the trace of a request that has ended.
func (g *Gateway) traceOf(j *journey, h Head, kept trace.Reason) trace.Trace {
	q := g.requestRecord(j)
	t := trace.Trace{RequestID: q.RequestID, Kept: kept, Route: q.Route, Stream: q.Stream, StartedAt: j.start, Outcome: q.Outcome, Status: q.Status,
		Class: q.Class, Provider: q.Provider, Model: string(q.Served), Fallback: h.Fallback, CredentialFallback: h.CredentialFallback, Calls: q.Attempts,
		Duration: millis(q.Duration), FirstContent: millis(q.FirstContent), Added: millis(q.Added), Cost: charged(q.Cost, q.Usage != nil), Wasted: q.Wasted,
		PriceVersion: g.Prices.Version(), PolicyVersion: q.PolicyVersion, ConfigVersion: g.Catalog.Version, Tags: q.Tags, Attempts: j.told}
	for _, c := range j.route.Considered {
		t.Considered = append(t.Considered, trace.Channel{Channel: c.Channel, Reason: string(c.Reason)})
	}
	return t.Sealed()
}

// Trace reads the trace of a request of the caller's organization.
func (g *Gateway) Trace(ctx context.Context, call Call, requestID string) (*trace.Trace, *fault.Error) {
	j := &journey{call: call, start: time.Now()}
	if err := g.authenticate(j); err != nil {
		return nil, err
	}
	if !j.caller.May(catalog.ReadTraces) {
		return nil, &fault.Error{Code: fault.PermissionDenied, Message: "this key may not read traces; its permission `trace` would let it"}
	}
	if g.Traces == nil {
		return nil, noStore("traces", errors.New("no store of traces is configured"))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimPatience)
	defer cancel()
	t, err := g.Traces.Get(ctx, trace.Key{Organization: j.caller.Organization.Name, RequestID: requestID})
	if err != nil {
		g.Recorder.StoreLost("trace", err)
		return nil, noStore("traces", err)
	}
	if !t.Live(j.start) {
		return nil, &fault.Error{Code: fault.TraceNotKept, Message: "no trace of this request is kept: requests that went well leave none unless they are drawn for the sample, and each is forgotten after 7 days"}
	}
	return t, nil
}
