package gateway

import (
	"fmt"
	"time"

	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/redact"
	"spillway/internal/retry"
	"spillway/internal/telemetry"
)

// note keeps a failed call for the answer.
func (g *Gateway) note(j *journey, cand *candidate, began time.Time, f *fault.Failure) {
	j.last, j.began = f, began
	if f.Hint.Known {
		if at := time.Now().Add(f.Hint.Wait); j.soonest.IsZero() || at.Before(j.soonest) {
			j.soonest = at
		}
	}
	p, m := cand.Channel.Provider.Name, string(cand.Channel.Model)
	if n := len(j.tried); n > 0 && j.lastTried == cand && j.tried[n-1].Class == f.Class {
		j.tried[n-1].N++
		j.tried[n-1].Status = f.Status
	} else {
		j.tried = append(j.tried, fault.Tried{Provider: p, Model: m, Status: f.Status, Class: f.Class, N: 1})
	}
	j.lastTried = cand
}

// remember keeps an answer from memory: no call was made.
func (g *Gateway) remember(j *journey, cand *candidate, f *fault.Failure) {
	j.last, j.began, j.lastTried = f, time.Time{}, cand
	j.tried = append(j.tried, fault.Tried{Provider: cand.Channel.Provider.Name, Model: string(cand.Channel.Model), Status: f.Status, Class: f.Class})
}

// write makes the records of a failure and of what was decided. An answer from memory is no attempt.
func (g *Gateway) write(j *journey, cand *candidate, f *fault.Failure, d retry.Decision) {
	rule := g.Policy.Rule(f.Class)
	a := g.attemptRecord(j, cand, j.began, f)
	describe(&a, f, rule, cand.Hidden())
	a.Decision, a.Reason, a.Wait = string(d.Step), string(d.Reason), d.Wait
	if j.spent != nil && !j.began.IsZero() {
		a.Usage, a.Cost = j.spent, g.cost(cand, "", j.spent)
		j.wasted += a.Cost.Nano
	}
	if !j.began.IsZero() {
		g.Recorder.Attempt(a)
	}
	g.tell(j, a, j.began)
	g.Recorder.Decision(telemetry.Decision{Attempt: a, Action: fmt.Sprintf("%s.%d", j.call.ID, j.progress.Attempts), Operation: "chat",
		Eligible: j.limits.Eligible(rule), BodyDigest: g.bodyDigest(j.req)})
	if rule.Alert {
		g.Recorder.Alert(time.Now(), string(f.Class), cand.Channel.Provider.Name, cand.Credential.Alias, rule.Remedy)
	}
}

// cost prices a usage at the served model's price.
func (g *Gateway) cost(cand *candidate, served chat.ServedModel, u *chat.Usage) telemetry.Cost {
	if served == "" {
		served = chat.ServedModel(cand.Channel.Model)
	}
	c := g.Prices.Charge(cand.Channel.Provider.Prices, served, *u, time.Now())
	return telemetry.Cost{Known: c.Known(), Nano: int64(c.Cost), Basis: string(c.Basis), Version: g.Prices.Version()}
}

// bodyDigest tells the same body from another one.
func (g *Gateway) bodyDigest(r *chat.Request) string {
	body := make([]byte, 0, r.Size)
	for _, m := range r.Members {
		body = append(append(append(body, m.Name...), ':'), m.Value...)
	}
	return redact.Digest(g.DigestKey, body)
}

func (g *Gateway) attemptRecord(j *journey, cand *candidate, started time.Time, f *fault.Failure) telemetry.Attempt {
	a := telemetry.Attempt{RequestID: j.call.ID, Route: j.route.Route, N: j.progress.Attempts, Max: j.limits.MaxAttempts, Hop: j.progress.Fallbacks,
		Provider: cand.Channel.Provider.Name, Channel: cand.Channel.Name, Model: cand.Channel.Model, Region: cand.Channel.Region,
		Credential: cand.Credential.Alias, PolicyVersion: g.policyOf(j).Version, Tags: j.wishes.Tags}
	if !started.IsZero() {
		a.Duration = time.Since(started)
	}
	if f != nil {
		a.UpstreamID, a.Status = f.RequestID, f.Status
	}
	return a
}

// describe puts a failure into an attempt's record.
func describe(a *telemetry.Attempt, f *fault.Failure, rule fault.Rule, h redact.Hidden) {
	a.Class, a.Evidence, a.Type, a.Code = string(f.Class), string(f.Evidence), h.Word(f.Type), h.Word(f.Code)
	a.Ambiguous, a.Remedy = f.Ambiguous, rule.Remedy
	if f.Hint.Known {
		a.Hint, a.HintSource = f.Hint.Wait, f.Hint.Source
	}
}

// policyOf is the policy table of a request: with the rows of its route before it, if that has any.
func (g *Gateway) policyOf(j *journey) *fault.Policy {
	if j.route == nil || j.route.Policy.Faults == nil {
		return g.Policy
	}
	return j.route.Policy.Faults
}
