package jobs

import (
	"context"

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
func (t *turns) next(j media.Job, able []route.Candidate) (next turn, ok bool, why media.Error) {
	views := t.visit.Look(able)
	for i, c := range able {
		if !t.missed[c] && !views[i].Skip() {
			return turn{Candidate: c, final: last(j, len(able)), remembered: views[i].Remembered}, true, why
		}
	}
	return next, false, passedOver(views)
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
func (e *Engine) wait(ctx context.Context, j media.Job, why media.Error) (media.Job, error) {
	if j.LastError != why {
		var err error
		if j, err = e.late(e.step(ctx, j, media.Waiting{Error: why})); err != nil || j.State != media.Queued {
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
