package jobs

import (
	"context"
	"time"

	"spillway/internal/breaker"
	"spillway/internal/fault"
	"spillway/internal/route"
)

// Health knows which candidates may be asked to take a job now, from what became of earlier submits, here and in other
// environments. It hears of submits alone: how a provider answers questions about jobs that it has says nothing of whether it takes
// new ones, and a provider that fails them must not bar them, nor one that answers them hide that it takes none. It must be safe
// for concurrent use.
type Health interface {
	// Visit opens the dealings of one submit with it. It must not wait.
	Visit(ctx context.Context) Visit
}

// Visit is the dealings of one submit with the health of its candidates. It is used by one goroutine.
type Visit interface {
	// Look must say of each candidate, in their order, how it stands. It takes nothing, and must wait for some hundredths of a
	// second at most.
	Look(all []route.Candidate) []breaker.View
	// Admit is asked right before a call that takes at most so long. The permit is nil where the call must not be made now: of a
	// circuit that is half-open one call at a time may be made, across all environments. Of those that it gives each must be
	// reported or freed.
	Admit(c route.Candidate, within time.Duration) Permit
	// End waits, for a second at most, for what is still on its way.
	End()
}

// Permit is the right to one call.
type Permit interface {
	// Report tells, once, what became of the call; nil: the provider has taken the job. stalled says that it was silent for as long
	// as any submit may take. It must wait for some tenths of a second at most.
	Report(f *fault.Failure, stalled bool)
	// Free gives the right back, where no call was made. After Report it does nothing.
	Free()
}

// visit is what one submit has to do with the health; without one everything is healthy.
func (e *Engine) visit(ctx context.Context) Visit {
	if e.Health == nil {
		return healthy{}
	}
	return e.Health.Visit(ctx)
}

type healthy struct{}

func (healthy) Look(all []route.Candidate) []breaker.View {
	views := make([]breaker.View, len(all))
	for i := range views {
		views[i].Reason = breaker.OK
	}
	return views
}
func (healthy) Admit(route.Candidate, time.Duration) Permit { return healthy{} }
func (healthy) Report(*fault.Failure, bool)                 {}
func (healthy) Free()                                       {}
func (healthy) End()                                        {}
