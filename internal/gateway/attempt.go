package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"spillway/internal/breaker"
	"spillway/internal/chat"
	"spillway/internal/contract"
	"spillway/internal/fault"
	"spillway/internal/provider"
	"spillway/internal/retry"
	"spillway/internal/route"
	"spillway/internal/usage"
)

// bytesPerToken estimates the size of a request in tokens.
const bytesPerToken = 4

// found is an attempt that answers: a plain answer that is whole, or a stream at its first content.
type found struct {
	cand    *candidate
	permit  breaker.Permit
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
	// meter counts what the attempt uses.
	meter usage.Meter
	// choices is how many were asked for, finished how many of them have ended.
	choices, finished int
	// onContent is told of the first content, once.
	onContent func()
	// sentTool says that a part of a tool call has been sent to the client.
	sentTool bool
	// relayed is how much of the stream has been passed on, maxStream how much may be; 0: no bound.
	relayed, maxStream int
	// contract is what the answer must keep; nil: nothing is demanded. verdict holds a live stream to it; nil: nothing is
	// demanded, or the answer has been held to it before the commit.
	contract *contract.Contract
	// whole says that what its token limit cut off does not keep the contract.
	whole   bool
	policy  *fault.Policy
	verdict *verdict
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
	g.Shares.Change(j.tenant(), retry.Buckets.Requested)
	at, fresh := 0, false
	for {
		f, failure, opened := g.turnOf(ctx, j, at, fresh)
		if f != nil {
			return f, nil
		}
		if failure == nil { // it cannot take the request as it is, or somebody else's probe is on its way: passed over at no cost
			if at++; at >= len(j.candidates) {
				return nil, g.exhausted(j)
			}
			j.progress.Retries, j.progress.Replayed = 0, false
			continue
		}
		d := g.decide(ctx, j, at, failure, opened)
		fresh = false
		switch d.Step {
		case retry.Again:
			j.mend(&j.candidates[at], d.Reason)
			if d.Reason == retry.StaleConnection {
				j.progress.Replayed, fresh = true, true
			} else {
				j.progress.Retries++
				g.Shares.Change(j.tenant(), retry.Buckets.Retried)
			}
			if gone := sleep(ctx, d.Wait); gone != nil {
				return nil, g.final(j, g.Policy.Classify(*gone))
			}
			continue
		case retry.Hop:
			at++
			j.firm = false
		case retry.Next:
			at = j.next(at, d.Reason == retry.LargerCandidate)
			j.leave()
			j.progress.Fallbacks++
			g.Shares.Change(j.tenant(), retry.Buckets.Moved)
		default:
			return nil, g.ending(j, failure, d)
		}
		j.progress.Retries, j.progress.Replayed = 0, false
	}
}

// turnOf gives one candidate its turn: a call, or the answer that a hold remembers. opened says that the candidate must
// not be called again in this request. All results are nil when the candidate may not be called after all.
func (g *Gateway) turnOf(ctx context.Context, j *journey, at int, fresh bool) (f *found, failure *fault.Failure, opened bool) {
	cand := &j.candidates[at]
	if r := cand.remembered; r != nil {
		j.lastCand = cand
		failure = r.Failure(cand.Channel.Provider.Kind, time.Now())
		g.remember(j, cand, failure)
		return nil, failure, true
	}
	if ended, ready := g.fetchFor(ctx, j, cand); !ready {
		return nil, ended, false
	}
	permit := j.visit.Admit(time.Now(), cand.key(), j.limits.FirstContent(j.turn(at)))
	if !permit.Allowed {
		j.passOver(cand, permit.View)
		return nil, nil, false
	}
	g.emit(permit.Transitions)
	before := j.lastCand
	j.progress.Attempts++
	j.spent = nil
	j.lastCand = cand
	f, failure = g.try(ctx, j, at, fresh, permit)
	if failure == nil {
		return f, nil, false
	}
	failure = g.unmend(j, cand, failure)
	if failure.Local == fault.Refused {
		g.report(j, permit, g.outcome(j, failure, permit.Began))
		j.lastCand = before
		j.refused(cand, failure)
		return nil, nil, false
	}
	opened = g.report(j, permit, g.outcome(j, failure, permit.Began)) || permit.Probe
	g.note(j, cand, permit.Began, failure)
	return nil, failure, opened
}

// decide asks package retry what follows, and writes it down.
func (g *Gateway) decide(ctx context.Context, j *journey, at int, failure *fault.Failure, opened bool) retry.Decision {
	rule, share := g.Policy.Rule(failure.Class), g.Shares.Of(j.tenant())
	d := retry.Decide(j.limits, j.progress, retry.Failed{Failure: failure, Rule: rule, Streaming: j.req.Stream, ReplayUnsafe: j.replayUnsafe(),
		Opened: opened, Truncated: truncated(failure), Larger: j.larger(&j.candidates[at]) > 0, Inlined: g.inline(ctx, j, failure), Final: errors.Is(failure, errTooLarge), NoRetries: share.NoRetries(), NoShare: share.NoMoves()}, j.ahead(at), time.Now(), j.soft, g.Random())
	g.write(j, &j.candidates[at], failure, d)
	return d
}

// try makes one call and follows it until it is known whether it answers.
func (g *Gateway) try(ctx context.Context, j *journey, at int, fresh bool, permit breaker.Permit) (*found, *fault.Failure) {
	cand := &j.candidates[at]
	ctx, cancel := context.WithCancelCause(ctx)
	f := &found{cand: cand, permit: permit, contract: j.contract, whole: j.route.Policy.RetryTruncated, policy: g.Policy, choices: j.req.Choices, maxStream: g.MaxStream, meter: usage.NewMeter(usage.EstimateInput(j.req)), started: permit.Began, cancel: cancel, dog: newWatchdog(cancel, j.soft)}
	f.onContent = func() {
		g.Latencies.Observe(cand.Channel, f.content.Sub(f.started))
		g.report(j, permit, breaker.Succeeded())
	}
	stream := j.req.Stream || !cand.Channel.StreamAsClient && !j.req.Spoken
	turn := j.turn(at)
	if stream {
		f.dog.allow(j.limits.FirstContent(turn))
	} else {
		turn.Own = cand.Channel.Timing.Attempt
		f.dog.allow(j.limits.Plain(turn))
	}
	adapter := g.Providers[cand.Channel.Provider.Kind]
	reply, err := adapter.Call(ctx, provider.Call{Request: j.req, Channel: cand.Channel, Credential: cand.Credential, MaxTokens: j.outputOf(cand), Firm: j.firm, Stream: stream,
		Fresh: fresh, Policy: g.policyOf(j), Headers: j.wishes.Upstream, Fetched: j.fetched.contents})
	if err != nil {
		f.dog.stop()
		cancel(nil)
		failure := g.asFailure(err)
		if failure.Ambiguous {
			j.spent = f.used()
		}
		return nil, failure
	}
	f.reply = reply
	if j.wholeTools() {
		f.reply = &wholeCalls{Reply: reply, policy: g.Policy, contract: j.contract, whole: f.whole}
	}
	if err := f.read(j.commitment(), j.req.Stream, j.stall(&cand.Candidate, turn.Others)); err != nil {
		f.close()
		failure := g.asFailure(err)
		if !f.content.IsZero() || failure.Ambiguous {
			j.spent = f.used() // it answered something, or may have worked all the same: the provider may bill it
		}
		return nil, failure
	}
	return f, nil
}

func (f *found) note(ev *chat.Event) {
	if f.served == "" {
		f.served = ev.Model
	}
	f.meter.Add(ev)
	for i := range ev.Deltas {
		if ev.Deltas[i].Finish != "" {
			f.finished++
		}
	}
}

// used is what the attempt has used so far: the provider's count, and an estimate of what it did not count.
func (f *found) used() *chat.Usage {
	u := f.meter.Usage()
	return &u
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
		for i := range c.Calls {
			if c.Calls[i].Name == "" || !legible(&c.Calls[i]) {
				return &notAnAnswer{"a tool call cannot be read"}
			}
		}
	}
	return nil
}

// legible reports whether a call's arguments can be read; free text always can.
func legible(c *chat.ToolCall) bool { return c.Custom || readable(c.Arguments) }

// readable reports whether a tool call's arguments are JSON. It bears any nesting, which a recursive check does not.
func readable(arguments string) bool {
	return jsontext.Value(arguments).IsValid(jsontext.AllowDuplicateNames(true))
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
	if v, ok := errors.AsType[*contract.Violation](err); ok {
		return breach(g.Policy, v)
	}
	return unusable(g.Policy, fault.PhasePreContent, err)
}

// turn describes the attempt for its limits.
func (j *journey) turn(at int) retry.Turn {
	others := j.progress.Attempts < j.limits.MaxAttempts && j.progress.Fallbacks < j.limits.MaxFallbacks && j.ahead(at).Candidates > 0
	own := j.candidates[at].Channel.Timing.FirstContent
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
