package jobs

import (
	"context"
	"slices"

	"spillway/internal/breaker"
	"spillway/internal/fault"
	"spillway/internal/media"
	"spillway/internal/route"
)

// turn is whose turn it is to take a job.
type turn struct {
	route.Candidate
	// final says that nobody is left to be asked after it.
	final bool
	// remembered is what it would answer again: it is not called. nil: it is.
	remembered *breaker.Remembered
	// routing is how the turn came to it; where it is nobody's, why it is not of each.
	routing media.Routing
}

// turns are the candidates of one submit, as they stand.
type turns struct {
	visit Visit
	// missed are those whose probe somebody else is making, so that they are not asked here any more.
	missed map[route.Candidate]bool
}

// next is whose turn it is, of those that may be asked at all: the first whose circuit and whose provider let it be called, or who would
// answer as it did before; such a one keeps its place, so that a key that is refused does not hide behind a fallback (contract.md §3.3).
// ok is false where all are passed over, and then why says it.
func (t *turns) next(j media.Job, p *route.Plan, able []route.Candidate) (next turn, ok bool, why media.Error) {
	views := t.visit.Look(able)
	next.routing.Reason = t.reasons(j, p, able, views)
	for i, c := range able {
		if !t.missed[c] && !views[i].Skip() {
			next.Candidate, next.final, next.remembered = c, last(j, len(able)), views[i].Remembered
			next.routing.Served = string(c.Channel.Model)
			next.routing.Fallback, next.routing.CredentialFallback = falls(p, c)
			return next, true, why
		}
	}
	return next, false, passedOver(views)
}

// The reasons of a channel that are a submit's own: each of its credentials has refused the job, or there is no adapter for it.
const (
	hasRefusedIt route.Reason = "refused"
	noAdapter    route.Reason = "unsupported"
)

// reasons are the channels of a plan as X-LLM-Routing-Reason has them, each with why it is passed over. One with several credentials is
// ok for as long as one of them may be asked.
func (t *turns) reasons(j media.Job, p *route.Plan, able []route.Candidate, views []breaker.View) string {
	shown := route.Plan{Considered: slices.Clone(p.Considered)}
	for i := range shown.Considered {
		c := &shown.Considered[i]
		if c.Reason != route.OK {
			continue
		}
		for _, of := range p.Candidates {
			if of.Channel.Name != c.Channel {
				continue
			}
			if c.Reason = t.reason(j, of, able, views); c.Reason == route.OK {
				break
			}
		}
	}
	return shown.String()
}

// reason is why a candidate is passed over, or ok.
func (t *turns) reason(j media.Job, c route.Candidate, able []route.Candidate, views []breaker.View) route.Reason {
	at := slices.Index(able, c)
	switch {
	case at < 0 && hasRefused(j, c):
		return hasRefusedIt
	case at < 0:
		return noAdapter
	case t.missed[c]:
		return route.Reason(breaker.Probing)
	case views[at].Skip():
		return route.Reason(views[at].Reason)
	default:
		return route.OK
	}
}

// falls reports whether a candidate's channel is not the plan's first, and whether its credential is not its channel's first.
func falls(p *route.Plan, c route.Candidate) (channel, credential bool) {
	first := slices.IndexFunc(p.Candidates, func(of route.Candidate) bool { return of.Channel == c.Channel })
	return first > 0, p.Candidates[first].Credential != c.Credential
}

// miss takes a candidate out, to which somebody else was faster.
func (t *turns) miss(c route.Candidate) {
	if t.missed == nil {
		t.missed = map[route.Candidate]bool{}
	}
	t.missed[c] = true
}

// passedOver is why nobody is asked, in the words of a chat.
func passedOver(views []breaker.View) media.Error {
	for _, v := range views {
		if v.Reason != breaker.Throttled {
			return media.Error{Code: string(fault.ProviderUnavailable), Message: "every provider of the model is failing; none is asked for now", Class: string(v.LastClass)}
		}
	}
	return media.Error{Code: string(fault.AllCredentialsLimited), Message: "every credential of the model is at its limit", Class: string(fault.RateLimited)}
}

// wait leaves a job queued that nobody may be asked to take for now, and says on it why: it has time, and an outage may be shorter. The
// sweeper has it tried again, each time after Limits.Overdue; what is said already is not written again.
func (e *Engine) wait(ctx context.Context, j media.Job, why media.Error, reason string) (media.Job, error) {
	if j.LastError != why {
		var err error
		if j, err = e.late(e.step(ctx, j, media.Waiting{Error: why, Reason: reason})); err != nil || j.State != media.Queued {
			return j, err
		}
	}
	return j, ErrNobody
}

// recall tells of an answer that was not asked for again, and returns it.
func (e *Engine) recall(j media.Job, t turn) *fault.Failure {
	now := e.now()
	f := t.remembered.Failure(t.Channel.Provider.Kind, now)
	if e.Record != nil {
		e.Record.Called(Called{Job: &j, What: submit, Channel: t.Channel, Credential: t.Credential, Start: now, Failure: f})
	}
	return f
}

// recalled reports whether a failure is an answer from memory.
func recalled(f *fault.Failure) bool { return f.Evidence == breaker.FromMemory }
