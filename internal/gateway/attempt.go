package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidwall/gjson"

	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/provider"
	"spillway/internal/redact"
	"spillway/internal/retry"
	"spillway/internal/route"
	"spillway/internal/telemetry"
)

// bytesPerToken estimates the size of a request in tokens.
const bytesPerToken = 4

// found is an attempt that answers: a plain answer that is whole, or a stream at its first content.
type found struct {
	cand    *route.Candidate
	started time.Time
	content time.Time // zero: no content came
	reply   provider.Reply
	dog     *watchdog
	cancel  context.CancelCauseFunc

	// held is what waits for the commit, heldBytes its size; heldEvents and heldContents count towards the bounds.
	held                                []*chat.Event
	heldBytes, heldEvents, heldContents int
	// sendable says that content is held back which the client may see.
	sendable bool
	// answer is the whole answer; nil while a stream is still coming. ended says that the stream's end has been read.
	answer *chat.Answer
	ended  bool
	served chat.ServedModel
	usage  *chat.Usage
	// choices is how many were asked for, finished how many of them have ended.
	choices, finished int
	// onContent is told of the first content, once.
	onContent func()
	// sentTool says that a part of a tool call has been sent to the client.
	sentTool bool
	// broken is what cut the stream after the commit; nil while it is whole.
	broken *fault.Failure
}

func (f *found) info() provider.Info { return f.reply.Info() }

func (f *found) close() {
	f.dog.stop()
	f.reply.Close()
	f.cancel(nil)
}

// attempt calls one candidate after another until one answers or nothing is left to try.
func (g *Gateway) attempt(ctx context.Context, j *journey) (*found, *fault.Error) {
	at, fresh := 0, false
	for {
		cand := &j.route.Candidates[at]
		j.progress.Attempts++
		j.lastCand = cand
		started := time.Now()
		f, failure := g.try(ctx, j, at, fresh)
		if failure == nil {
			return f, nil
		}
		d := retry.Decide(j.limits, j.progress, retry.Failed{Failure: failure, Rule: g.Policy.Rule(failure.Class), Streaming: j.req.Stream,
			ReplayUnsafe: j.replayUnsafe()}, j.ahead(at), time.Now(), j.soft, g.Random())
		g.note(j, cand, started, failure, d)
		fresh = false
		switch d.Step {
		case retry.Again:
			if d.Reason == retry.StaleConnection {
				j.progress.Replayed, fresh = true, true
			} else {
				j.progress.Retries++
			}
			if gone := sleep(ctx, d.Wait); gone != nil {
				return nil, g.final(j, g.Policy.Classify(*gone))
			}
		case retry.Hop:
			at++
			j.progress.Retries, j.progress.Replayed = 0, false
		case retry.Next:
			at = j.next(at, d.Reason == retry.LargerCandidate)
			j.progress.Fallbacks++
			j.progress.Retries, j.progress.Replayed = 0, false
		default:
			return nil, g.final(j, failure)
		}
	}
}

// try makes one call and follows it until it is known whether it answers.
func (g *Gateway) try(ctx context.Context, j *journey, at int, fresh bool) (*found, *fault.Failure) {
	cand := &j.route.Candidates[at]
	ctx, cancel := context.WithCancelCause(ctx)
	f := &found{cand: cand, choices: j.req.Choices, started: time.Now(), cancel: cancel, dog: newWatchdog(cancel, j.soft)}
	stream := j.req.Stream || !cand.Channel.StreamAsClient
	turn := j.turn(j.limits, at)
	if stream {
		f.dog.allow(j.limits.FirstContent(turn))
	} else {
		turn.Own = cand.Channel.Timing.Attempt
		f.dog.allow(j.limits.Plain(turn))
	}
	adapter := g.Providers[cand.Channel.Provider.Kind]
	reply, err := adapter.Call(ctx, provider.Call{Request: j.req, Channel: cand.Channel, Credential: cand.Credential, Stream: stream,
		Fresh: fresh, Headers: j.wishes.Upstream})
	if err != nil {
		f.dog.stop()
		cancel(nil)
		return nil, g.asFailure(err)
	}
	f.reply = reply
	if j.wholeTools() {
		f.reply = &wholeCalls{Reply: reply, policy: g.Policy}
	}
	if err := f.read(j.commitment(), j.req.Stream, j.stall(cand, turn.Others)); err != nil {
		f.close()
		return nil, g.asFailure(err)
	}
	return f, nil
}

func (f *found) note(ev *chat.Event) {
	if f.served == "" {
		f.served = ev.Model
	}
	if ev.Usage != nil {
		u := *ev.Usage
		f.usage = &u
	}
	for i := range ev.Deltas {
		if ev.Deltas[i].Finish != "" {
			f.finished++
		}
	}
}

// over reports whether every choice has ended: only usage is to come then.
func (f *found) over() bool { return f.finished >= f.choices }

// first notes the first content.
func (f *found) first() {
	if !f.content.IsZero() {
		return
	}
	f.content = time.Now()
	if f.onContent != nil {
		f.onContent()
	}
}

// validate checks what every answer must have (contract.md §6): a choice, and tool calls that can be read.
func validate(a *chat.Answer) error {
	if len(a.Choices) == 0 {
		return &notAnAnswer{"the answer has no choice"}
	}
	for _, c := range a.Choices {
		for _, call := range c.Calls {
			if call.Name == "" || !gjson.Valid(call.Arguments) {
				return &notAnAnswer{"a tool call cannot be read"}
			}
		}
	}
	return nil
}

// notAnAnswer is a 2xx whose content does not hold together.
type notAnAnswer struct{ why string }

func (e *notAnAnswer) Error() string { return e.why }

// asFailure makes every error of an attempt a classified one.
func (g *Gateway) asFailure(err error) *fault.Failure {
	var failure *fault.Failure
	if errors.As(err, &failure) {
		return failure
	}
	if errors.Is(err, errTooLarge) {
		return tooLarge(g.Policy)
	}
	return g.Policy.Classify(fault.Observation{Local: fault.NoAnswer, Phase: fault.PhasePreContent, Sent: true, InStream: true, Cause: err})
}

// turn describes the attempt for its limits.
func (j *journey) turn(l retry.Limits, at int) retry.Turn {
	others := j.progress.Attempts < l.MaxAttempts && j.progress.Fallbacks < l.MaxFallbacks && j.ahead(at).Candidates > 0
	own := j.route.Candidates[at].Channel.Timing.FirstContent
	if d := j.route.Policy.FirstContent; d > 0 {
		own = d
	}
	return retry.Turn{Own: own, InputTokens: int64(j.req.Size / bytesPerToken), Others: others,
		First: j.progress.Retries == 0, Rest: time.Until(j.soft)}
}

func (j *journey) stall(c *route.Candidate, others bool) time.Duration {
	switch {
	case !others:
		return retry.DefaultIdle // the request's own deadline comes first
	case j.route.Policy.Stall > 0:
		return j.route.Policy.Stall
	case c.Channel.Timing.Stall > 0:
		return c.Channel.Timing.Stall
	default:
		return retry.DefaultStall
	}
}

func (j *journey) replayUnsafe() bool { return j.req.Store || j.route.Policy.ReplayUnsafe }

// ahead counts what could be tried after a candidate.
func (j *journey) ahead(at int) retry.Ahead {
	var a retry.Ahead
	cands := j.route.Candidates
	own := cands[at].Channel
	last := own
	for _, c := range cands[at+1:] {
		switch {
		case c.Channel == own:
			a.Credentials++
		case c.Channel != last:
			a.Candidates++
			if c.Channel.Capabilities.Context > own.Capabilities.Context {
				a.Larger++
			}
		}
		last = c.Channel
	}
	return a
}

// next is the index of the next channel's first candidate; larger asks for a larger declared context. The decision to
// move on was made from ahead, so that there is one.
func (j *journey) next(at int, larger bool) int {
	own := j.route.Candidates[at].Channel
	for i := at + 1; i < len(j.route.Candidates); i++ {
		c := j.route.Candidates[i].Channel
		if c != own && (!larger || c.Capabilities.Context > own.Capabilities.Context) {
			return i
		}
	}
	panic(fmt.Sprintf("no candidate after %d: retry.Decide moves on only when ahead counted one", at))
}

// note keeps a failed attempt for the answer and writes its record.
func (g *Gateway) note(j *journey, cand *route.Candidate, started time.Time, f *fault.Failure, d retry.Decision) {
	j.last = f
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
	rule := g.Policy.Rule(f.Class)
	a := g.attemptRecord(j, cand, started, f)
	describe(&a, f, rule, hiddenOf(cand))
	a.Decision, a.Reason, a.Wait = string(d.Step), string(d.Reason), d.Wait
	g.Recorder.Attempt(a)
	g.Recorder.Decision(telemetry.Decision{Attempt: a, Action: fmt.Sprintf("%s.%d", j.call.ID, j.progress.Attempts), Operation: "chat",
		Eligible: j.limits.Eligible(rule), BodyDigest: g.bodyDigest(j.req)})
	if rule.Alert {
		g.Recorder.Alert(time.Now(), string(f.Class), p, cand.Credential.Alias, rule.Remedy)
	}
}

// bodyDigest tells the same body from another one.
func (g *Gateway) bodyDigest(r *chat.Request) string {
	body := make([]byte, 0, r.Size)
	for _, m := range r.Members {
		body = append(append(append(body, m.Name...), ':'), m.Value...)
	}
	return redact.Digest(g.DigestKey, body)
}

func (g *Gateway) attemptRecord(j *journey, cand *route.Candidate, started time.Time, f *fault.Failure) telemetry.Attempt {
	a := telemetry.Attempt{RequestID: j.call.ID, Route: j.route.Route, N: j.progress.Attempts, Max: j.limits.MaxAttempts, Hop: j.progress.Fallbacks,
		Provider: cand.Channel.Provider.Name, Channel: cand.Channel.Name, Model: cand.Channel.Model, Region: cand.Channel.Region,
		Credential: cand.Credential.Alias, Duration: time.Since(started), PolicyVersion: g.Policy.Version}
	if f != nil {
		a.UpstreamID, a.Status = f.RequestID, f.Status
	}
	return a
}

// describe puts a failure into an attempt's record.
func describe(a *telemetry.Attempt, f *fault.Failure, rule fault.Rule, h hidden) {
	a.Class, a.Evidence, a.Type, a.Code = string(f.Class), string(f.Evidence), h.word(f.Type), h.word(f.Code)
	a.Ambiguous, a.Remedy = f.Ambiguous, rule.Remedy
	if f.Hint.Known {
		a.Hint, a.HintSource = f.Hint.Wait, f.Hint.Source
	}
}

// sleep waits before a retry. It returns an observation when the request ends first.
func sleep(ctx context.Context, d time.Duration) *fault.Observation {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		o := fault.Observation{Local: fault.Left, Phase: fault.PhaseConnect}
		var local fault.Local
		if errors.As(context.Cause(ctx), &local) {
			o.Local = local
		}
		return &o
	}
}
