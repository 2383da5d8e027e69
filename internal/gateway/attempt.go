package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tidwall/gjson"

	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/provider"
	"spillway/internal/retry"
	"spillway/internal/route"
	"spillway/internal/telemetry"
)

// The bound of what is held back while no content has come (contract.md §4). Past it the gateway commits.
const (
	maxHeldEvents = 64
	maxHeldBytes  = 256 << 10
	// bytesPerToken estimates the size of a request in tokens.
	bytesPerToken = 4
)

// found is an attempt that answers: a plain answer that is whole, or a stream at its first content.
type found struct {
	cand    *route.Candidate
	started time.Time
	content time.Time // zero: no content came
	reply   provider.Reply
	dog     *watchdog
	cancel  context.CancelCauseFunc

	held   []*chat.Event
	answer *chat.Answer
	served chat.ServedModel
	usage  *chat.Usage
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
		d := retry.Decide(g.Limits, j.progress, retry.Failed{Failure: failure, Rule: g.Policy.Rule(failure.Class), Streaming: j.req.Stream,
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
	f := &found{cand: cand, started: time.Now(), cancel: cancel, dog: newWatchdog(cancel, j.soft)}
	stream := j.req.Stream || !cand.Channel.StreamAsClient
	turn := j.turn(g.Limits, at)
	if stream {
		f.dog.allow(g.Limits.FirstContent(turn))
	} else {
		turn.Own = cand.Channel.Timing.Attempt
		f.dog.allow(g.Limits.Plain(turn))
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
	if j.req.Stream {
		err = f.hold()
	} else {
		err = f.collect(stall(cand, turn.Others))
	}
	if err != nil {
		f.close()
		return nil, g.asFailure(err)
	}
	return f, nil
}

// hold reads a stream up to its first content and keeps what comes before it. Only events that would be forwarded count
// towards the bound.
func (f *found) hold() error {
	bytes, events := 0, 0
	for {
		ev, err := f.reply.Next()
		if err != nil {
			return err // also io.EOF: a whole stream has content, if only a legitimate end
		}
		f.note(ev)
		f.held = append(f.held, ev.Clone())
		if ev.Content() {
			f.content = time.Now()
			return nil
		}
		if len(ev.Deltas) == 0 {
			continue
		}
		events++
		bytes += len(ev.Raw)
		if events > maxHeldEvents || bytes > maxHeldBytes {
			return nil
		}
	}
}

// collect reads an answer to its end, for a client that does not stream. Every failure on the way can still fall back.
func (f *found) collect(stall time.Duration) error {
	var whole chat.Assembler
	for {
		ev, err := f.reply.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		f.note(ev)
		whole.Add(ev)
		switch {
		case ev.Finished():
			f.dog.wait(retry.AfterFinish)
		case ev.Content():
			f.dog.allow(stall)
		}
		if f.content.IsZero() && ev.Content() {
			f.content = time.Now()
		}
	}
	f.answer = whole.Answer()
	return validate(f.answer)
}

func (f *found) note(ev *chat.Event) {
	if f.served == "" {
		f.served = ev.Model
	}
	if ev.Usage != nil {
		u := *ev.Usage
		f.usage = &u
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
	return g.Policy.Classify(fault.Observation{Local: fault.NoAnswer, Phase: fault.PhasePreContent, Sent: true, InStream: true, Cause: err})
}

// turn describes the attempt for its limits.
func (j *journey) turn(l retry.Limits, at int) retry.Turn {
	others := j.progress.Attempts < l.MaxAttempts && j.progress.Fallbacks < l.MaxFallbacks && j.ahead(at).Candidates > 0
	return retry.Turn{Own: j.route.Candidates[at].Channel.Timing.FirstContent, InputTokens: int64(j.req.Size / bytesPerToken), Others: others,
		First: j.progress.Retries == 0, Rest: time.Until(j.soft)}
}

func stall(c *route.Candidate, others bool) time.Duration {
	switch {
	case !others:
		return retry.DefaultIdle // the request's own deadline comes first
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
	p, m := cand.Channel.Provider.Name, string(cand.Channel.Model)
	if n := len(j.tried); n > 0 && j.tried[n-1].Provider == p && j.tried[n-1].Model == m && j.tried[n-1].Class == f.Class {
		j.tried[n-1].N++
		j.tried[n-1].Status = f.Status
	} else {
		j.tried = append(j.tried, fault.Tried{Provider: p, Model: m, Status: f.Status, Class: f.Class, N: 1})
	}
	rule := g.Policy.Rule(f.Class)
	a := g.attemptRecord(j, cand, started, f)
	describe(&a, f, rule)
	a.Decision, a.Reason, a.Wait = string(d.Step), string(d.Reason), d.Wait
	g.Recorder.Attempt(a)
	if rule.Alert {
		g.Recorder.Alert(string(f.Class), p, cand.Credential.Alias, rule.Remedy)
	}
}

func (g *Gateway) attemptRecord(j *journey, cand *route.Candidate, started time.Time, f *fault.Failure) telemetry.Attempt {
	a := telemetry.Attempt{RequestID: j.call.ID, Route: j.route.Route, N: j.progress.Attempts, Max: g.Limits.MaxAttempts, Hop: j.progress.Fallbacks,
		Provider: cand.Channel.Provider.Name, Channel: cand.Channel.Name, Model: cand.Channel.Model, Region: cand.Channel.Region,
		Credential: cand.Credential.Alias, Duration: time.Since(started), PolicyVersion: g.Policy.Version}
	if f != nil {
		a.UpstreamID, a.Status = f.RequestID, f.Status
	}
	return a
}

// describe puts a failure into an attempt's record.
func describe(a *telemetry.Attempt, f *fault.Failure, rule fault.Rule) {
	a.Class, a.Evidence, a.Type, a.Code = string(f.Class), string(f.Evidence), f.Type, f.Code
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
