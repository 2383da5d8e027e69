package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"spillway/internal/breaker"
	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/retry"
	"spillway/internal/route"
	"spillway/internal/usage"
)

// typicalOutput is the output, in tokens, at which channels are compared by cost.
const typicalOutput = 500

// ranking orders the channels of a model by recent latency or by the price of a request like this one.
func (g *Gateway) ranking(r *chat.Request) route.Ranking {
	return func(by catalog.Rank, ch *catalog.Channel) float64 {
		if by == catalog.RankLatency {
			return g.Latencies.Of(ch).Seconds()
		}
		like := chat.Usage{Prompt: usage.EstimateInput(r), Completion: typicalOutput}
		c := g.Prices.Charge(ch.Provider.Prices, chat.ServedModel(ch.Model), like, time.Now())
		if !c.Known() {
			return math.Inf(1)
		}
		return float64(c.Cost)
	}
}

// candidate is a candidate of the plan with what is known of its health.
type candidate struct {
	route.Candidate
	// remembered is the answer that a hold gives instead of a call; nil: it may be called.
	remembered *breaker.Remembered
}

func (c *candidate) key() breaker.Key { return breaker.KeyOf(c.Channel, c.Credential) }

// passed is a candidate that is not called, with the reason.
type passed struct {
	route.Candidate
	view breaker.View
}

// unable reports whether it is for what is in the request that the candidate was passed over, and not for its health.
func (p *passed) unable() bool { return p.view.Reason == unfit || p.view.Reason == unfetched }

// eligible leaves out the candidates whose circuit is open or whose provider asked for a pause. Those that a hold answers
// for keep their place.
func (g *Gateway) eligible(j *journey) {
	keys := make([]breaker.Key, len(j.route.Candidates))
	for i, c := range j.route.Candidates {
		keys[i] = breaker.KeyOf(c.Channel, c.Credential)
	}
	for i, view := range j.visit.Look(time.Now(), keys) {
		c := candidate{Candidate: j.route.Candidates[i], remembered: view.Remembered}
		if view.Skip() {
			j.passOver(&c, view)
			continue
		}
		j.candidates = append(j.candidates, c)
	}
}

// passOver notes a candidate that is not called. A channel of which no credential is left is shown with the reason.
func (j *journey) passOver(c *candidate, view breaker.View) {
	j.passed = append(j.passed, passed{c.Candidate, view})
	left := 0
	for _, other := range j.route.Candidates {
		if other.Channel == c.Channel {
			left++
		}
	}
	for _, p := range j.passed {
		if p.Channel == c.Channel {
			left--
		}
	}
	if left > 0 {
		return
	}
	for i := range j.route.Considered {
		if j.route.Considered[i].Channel == c.Channel.Name {
			j.route.Considered[i].Reason = route.Reason(view.Reason)
		}
	}
}

// refused passes over a candidate whose adapter cannot put the request into the provider's words. No call was made.
func (j *journey) refused(c *candidate, f *fault.Failure) {
	j.progress.Attempts--
	j.unfit = f
	j.passOver(c, breaker.View{Reason: unfit})
}

// unfit says that a candidate cannot take something in the request.
const unfit breaker.Reason = "unsupported"

// exhausted is the error of a request whose candidates are all passed over: when the first of them may be called again,
// and the last class of each.
func (g *Gateway) exhausted(j *journey) *fault.Error {
	if j.last != nil {
		return g.final(j, j.last)
	}
	if f := j.unfit; f != nil && !slices.ContainsFunc(j.passed, func(p passed) bool { return !p.unable() }) {
		return cannotTake(f)
	}
	e := &fault.Error{Code: fault.AllCredentialsLimited, Message: "every credential of the model is at its limit", Retryable: true, Class: fault.RateLimited}
	now := time.Now()
	for _, p := range j.passed {
		if p.unable() {
			continue
		}
		if p.view.Reason != breaker.Throttled {
			e.Code, e.Message = fault.ProviderUnavailable, "every provider of the model is failing; none is called for now"
			e.Class = p.view.LastClass
		}
		if wait := max(p.view.Until.Sub(now), time.Second); e.RetryAfter == 0 || wait < e.RetryAfter {
			e.RetryAfter = wait
		}
		e.Attempts = append(e.Attempts, fault.Tried{Provider: p.Channel.Provider.Name, Model: string(p.Channel.Model),
			Class: cmp.Or(p.view.LastClass, fault.RateLimited)})
	}
	conceal(e, j.route.Policy.Expose)
	return e
}

// silenceLimit is how long a provider may be silent at most.
func silenceLimit(j *journey) time.Duration {
	return cmp.Or(j.route.Policy.FirstContent, retry.DefaultFirstContent)
}

// report tells the health what became of a call, and the operators of circuits that changed. opened says that the
// candidate's circuit has opened.
func (g *Gateway) report(j *journey, p breaker.Permit, o breaker.Outcome) (opened bool) {
	transitions := j.visit.Report(time.Now(), p, o, g.Random())
	g.emit(transitions)
	return slices.ContainsFunc(transitions, func(t breaker.Transition) bool { return t.To == breaker.Open })
}

// emit records the transitions of circuits.
func (g *Gateway) emit(transitions []breaker.Transition) {
	for _, t := range transitions {
		g.Recorder.Transition(time.Now(), t.Key.Provider, t.Key.String(), t.From.String(), t.To.String(), string(t.Cause), string(t.Class))
	}
}

// outcome is a failure as the health sees it. The request's own deadline says nothing of the provider, unless the
// attempt had been silent for longer than any provider may be.
func (g *Gateway) outcome(j *journey, f *fault.Failure, began time.Time) breaker.Outcome {
	o := breaker.Failed(f, g.Policy.Rule(f.Class))
	if f.Local == fault.OutOfTime && f.Phase != fault.PhasePostContent && time.Since(began) >= silenceLimit(j) {
		o.Weight = 1
	}
	if errors.Is(f, errTooLarge) || errors.Is(f, errStreamLimit) {
		o.Weight = 0 // our own bound says nothing of the provider
	}
	return o
}

// ahead counts what could be tried after a candidate.
func (j *journey) ahead(at int) retry.Ahead {
	var a retry.Ahead
	cands := j.candidates
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
	own := j.candidates[at].Channel
	for i := at + 1; i < len(j.candidates); i++ {
		c := j.candidates[i].Channel
		if c != own && (!larger || c.Capabilities.Context > own.Capabilities.Context) {
			return i
		}
	}
	panic(fmt.Sprintf("no candidate after %d: retry.Decide moves on only when ahead counted one", at))
}
