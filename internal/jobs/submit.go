package jobs

import (
	"cmp"
	"context"
	"errors"
	"time"

	"spillway/internal/fault"
	"spillway/internal/media"
	"spillway/internal/provider"
	"spillway/internal/route"
)

const (
	// maxRefusals bounds how many channels are asked to take a job (contract.md §3.6, max_attempts).
	maxRefusals = 4
	// spare is what of its lease a submit leaves for writing down what came of it, at most: of a short one it is a quarter.
	spare = 10 * time.Second
)

// ErrNobody says that no channel can take a job now. It stays queued, is tried again by the sweeper, and expires at its deadline.
var ErrNobody = errors.New("no channel can take the job")

// Start hands a fresh job on while its client waits: to the providers that take it and make it later at once, one channel after
// another while they surely refuse, as Submit does. As soon as the next in turn is one that answers with the work itself,
// the rest is left to whoever takes the messages of Engine.Submits, and the job stays queued; a message that is lost is
// sent again by the sweeper. Job and error are as Submit's.
func (e *Engine) Start(ctx context.Context, j media.Job) (media.Job, error) {
	j, waits, err := e.submitHere(ctx, j, false)
	if waits {
		e.send(ctx, j, submit, 0)
	}
	return j, err
}

// Resume is Start for a job whose order is repeated while it is queued: whoever began it may have stopped, and may not have. It sends no
// message: there may be one, and a client may repeat its order as often as it likes. Job and error are as Submit's.
func (e *Engine) Resume(ctx context.Context, j media.Job) (media.Job, error) {
	j, _, err := e.submitHere(ctx, j, false)
	return j, err
}

// Submit hands a queued job to a provider of either kind: once, except that a channel which surely has not taken it is followed
// by the next; one that answers with the work itself gets a message, and so an invocation, of its own. It returns the job as it has become;
// that it is no longer queued to begin with, or that another execution submits it, is no error. An error is ErrNobody, or the store's or the bucket's: then the job's state in the store is the truth.
func (e *Engine) Submit(ctx context.Context, j media.Job) (media.Job, error) {
	j, waits, err := e.submitHere(ctx, j, true)
	if waits {
		e.send(ctx, j, submit, 0)
	}
	return j, err
}

// submitHere submits a job for as long as it is queued. To one that answers with the work itself it does so only if long is set, and
// not after another was asked: such a call takes minutes, and what is left of the invocation might end before it does, and lose the
// work. waits says that such a one is the next.
func (e *Engine) submitHere(ctx context.Context, j media.Job, long bool) (_ media.Job, waits bool, err error) {
	t := turns{}
	if j.State == media.Queued {
		t.visit = e.visit(ctx)
		defer t.visit.End()
	}
	for j.State == media.Queued {
		if !e.now().Before(j.Deadline) {
			j, err = e.late(e.step(ctx, j, expiry(j)))
			return j, false, err
		}
		p := e.planOf(ctx, j)
		able := e.able(p, j)
		if len(able) == 0 {
			e.trouble(j, "submitting it", ErrNobody)
			return j, false, ErrNobody
		}
		next, ok, why := t.next(j, p, able)
		if !ok {
			if j, err = e.wait(ctx, j, why, next.routing.Reason); err != nil {
				return j, false, err
			}
			continue
		}
		if !long && e.Studios[next.Channel.Provider.Kind].Synchronous() && next.remembered == nil {
			return j, true, nil
		}
		refusals := j.Refusals
		if j, err = e.submitTo(ctx, j, &t, next); err != nil {
			return j, false, err
		}
		long = long && (j.Refusals == refusals || next.remembered != nil)
	}
	if made, ok := made(j); ok {
		j, err = e.late(e.step(ctx, j, media.Done{Result: made})) // the process that made it stopped before this
	}
	return j, false, err
}

// late makes a step that came too late one that changed nothing.
func (e *Engine) late(j media.Job, err error) (media.Job, error) {
	if errors.Is(err, media.ErrNoEdge) {
		return j, nil
	}
	return j, err
}

// submitTo has one candidate asked to take the job, if it still may be. From the claim on nobody else asks: a process that stops before
// the answer is written leaves a lease, and at its end a job of which nobody knows.
func (e *Engine) submitTo(ctx context.Context, j media.Job, t *turns, to turn) (media.Job, error) {
	if to.remembered != nil {
		j, owner, err := e.claim(ctx, j, to)
		if owner == "" {
			return j, err
		}
		return e.late(e.step(ctx, j, judge(e.recall(j, to), owner, to.final)))
	}
	request, err := e.requestOf(ctx, j) // before the claim: without it nothing is lost
	if err != nil {
		return j, err
	}
	permit := t.visit.Admit(to.Candidate, submitIn(cmp.Or(e.limits().SubmitLease, media.SubmitLease)))
	if permit == nil {
		t.miss(to.Candidate)
		return j, nil
	}
	defer permit.Free()
	j, owner, err := e.claim(ctx, j, to)
	if owner == "" {
		return j, err
	}
	return e.ask(ctx, j, request, owner, to, permit)
}

// claim takes the right to submit a job. owner is empty where somebody else has it, or had it and was refused, and after an error.
func (e *Engine) claim(ctx context.Context, j media.Job, to turn) (_ media.Job, owner string, err error) {
	owner = e.token()
	j, err = e.step(ctx, j, media.Claim{Owner: owner, Channel: to.Channel.Name, Provider: to.Channel.Provider.Name, Credential: alias(to.Candidate),
		Refusals: j.Refusals, Routing: to.routing, Uncalled: to.remembered != nil})
	if err != nil {
		owner = ""
	}
	j, err = e.late(j, err)
	return j, owner, err
}

// submitIn is how long a submit may take under a lease.
func submitIn(lease time.Duration) time.Duration { return lease - min(spare, lease/4) }

// ask makes the one call that may create the job at a provider, and writes down what came of it.
func (e *Engine) ask(ctx context.Context, j media.Job, request []byte, owner string, to turn, permit Permit) (media.Job, error) {
	studio := e.Studios[to.Channel.Provider.Kind]
	within, cancel := paid(ctx, submitIn(j.LeaseUntil.Sub(e.now())))
	defer cancel()
	report := func(f *fault.Failure) {
		permit.Report(f, f != nil && f.Local == fault.OutOfTime && sooner(within, ctx))
	}
	var taken provider.Submission
	f := e.call(submit, j, to.Candidate, func(t provider.Task) (requestID string, err error) {
		asked := *t.Job
		asked.Request = request
		t.Job = &asked
		taken, err = studio.Submit(within, t)
		return taken.RequestID, err
	})
	if a := taken.Artifact; a != nil && a.Body != nil {
		defer a.Body.Close()
	}
	switch {
	case f != nil:
		report(f)
		return e.late(e.step(ctx, j, judge(f, owner, to.final)))
	case taken.Artifact != nil:
		return e.take(within, j, owner, *taken.Artifact, report)
	case taken.Upstream == "":
		report(&fault.Failure{Class: fault.BadResponse})
		return e.late(e.step(ctx, j, media.Lost{Owner: owner, Error: media.Error{Code: string(fault.ProviderError),
			Message: "the provider accepted it and gave nothing to ask for it by", Class: string(fault.BadResponse)}}))
	}
	report(nil)
	in := e.limits().PollIn(0, taken.Hint, e.random())
	j, err := e.accept(ctx, j, owner, taken.Upstream, in)
	if err == nil && j.State == media.Running {
		e.send(ctx, j, poll, in)
	}
	return j, err
}

// paid bounds what must not be broken off because the client has left: its work would be made, and nobody would know. The
// invocation's own deadline holds.
func paid(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	until := time.Now().Add(limit)
	if end, limited := ctx.Deadline(); limited && end.Before(until) {
		until = end
	}
	return context.WithDeadline(context.WithoutCancel(ctx), until)
}

// sooner reports whether what is bounded within a time ends before that.
func sooner(within, around context.Context) bool {
	end, limited := around.Deadline()
	own, bounded := within.Deadline()
	return bounded && (!limited || own.Before(end))
}

// accept writes down what the provider calls the job, at once: it is all that is known of it. The first poll's message follows.
func (e *Engine) accept(ctx context.Context, j media.Job, owner, upstream string, in time.Duration) (media.Job, error) {
	j, err := e.step(ctx, j, media.Accepted{Owner: owner, Upstream: upstream, PollIn: in})
	if errors.Is(err, media.ErrNoEdge) && j.State == media.Uncertain { // the lease ended before the answer came
		j, err = e.step(ctx, j, media.Accepted{Upstream: upstream, PollIn: in})
	}
	if err != nil {
		e.trouble(j, "writing down that it was accepted", err)
	}
	return e.late(j, err)
}

// take keeps work that a provider answered with. The object comes first, then the job that names it: running, then succeeded. How the
// provider did is known when the work is whole.
func (e *Engine) take(ctx context.Context, j media.Job, owner string, a provider.Artifact, report func(*fault.Failure)) (media.Job, error) {
	result, why := e.keep(ctx, j, a)
	report(brokenBy(why))
	if why != nil {
		return e.late(e.step(ctx, j, media.Ended{State: media.Failed, Owner: owner, Error: why.Error}))
	}
	j, err := e.accept(ctx, j, owner, naming(result), e.limits().PollIn(0, 0, e.random()))
	if err != nil || j.State != media.Running {
		return j, err
	}
	return e.late(e.step(ctx, j, media.Done{Result: result}))
}

// judge says what a failed submit means for the job (contract.md §8): only what surely created nothing may go elsewhere, and
// what may have created something is never repeated. An answer from memory is judged as when it was given, except that it has
// created nothing.
func judge(f *fault.Failure, owner string, last bool) media.Event {
	switch {
	case f.Ambiguous || f.Sent && f.Local != "":
		return media.Lost{Owner: owner, Error: errorOf(f)}
	case f.Class == fault.ContentPolicy || f.Class == fault.GenerationFailed:
	case refused(f) && !last:
		return media.Refused{Owner: owner, Error: errorOf(f)}
	case !refused(f) && !recalled(f) && (!f.Parsed || f.Status < 400 || f.Status >= 500):
		return media.Lost{Owner: owner, Error: errorOf(f)} // a 5xx, or an answer that nobody understands
	}
	end := media.Ended{State: media.Failed, Owner: owner, Error: errorOf(f)}
	if refused(f) || recalled(f) {
		end.Cost = media.Unmade()
	}
	return end
}

// refused reports whether the provider surely has not taken the job: no byte of it was sent, or the answer says so. The list of
// statuses is contract.md §8's, and closed. Google says of a wrong key 400 (API_KEY_INVALID), which surely created nothing
// either; but the contract names no 400, and as a chat does not fall back from a wrong key by itself, so that it is noticed, the
// job fails at once, and the record of the call raises the alert.
func refused(f *fault.Failure) bool {
	if f.Local != "" {
		return !f.Sent
	}
	switch f.Status {
	case 401, 402, 403, 404, 429:
		return f.Parsed || recalled(f)
	default:
		return false
	}
}

// codes are the words of contract.md §2 and providers.md §5.4 for what ends a job; any other class is a provider_error.
var codes = map[fault.Class]string{
	fault.ContentPolicy: media.ContentFilter, fault.InvalidRequest: media.InvalidInput, fault.UnsupportedParameter: media.InvalidInput, fault.ContextLength: media.InvalidInput,
	fault.RateLimited: string(fault.ProviderRateLimited), fault.Overloaded: string(fault.ProviderUnavailable), fault.ServerError: string(fault.ProviderUnavailable),
	fault.Network: string(fault.ProviderUnavailable), fault.Conflict: string(fault.ProviderUnavailable), fault.Timeout: string(fault.ProviderTimeout),
	fault.Deadline: string(fault.ProviderTimeout),
}

// errorOf is a failure as the job keeps it. The provider's text is in it only where it explains the client's own mistake.
func errorOf(f *fault.Failure) media.Error {
	code := cmp.Or(codes[f.Class], string(fault.ProviderError))
	message := "the provider answered with an error: " + string(f.Class)
	if code == "invalid_input" {
		message = "the provider refused the request"
		if why := cmp.Or(f.Message, f.Param); why != "" {
			message += ": " + why
		}
	}
	return media.Error{Code: code, Message: message, Class: string(f.Class)}
}

func alias(c route.Candidate) string {
	if c.Credential == nil {
		return ""
	}
	return c.Credential.Alias
}

// errNoStudio says that a channel's provider makes no media, or none any more.
var errNoStudio = errors.New("no adapter makes media for this kind of provider")

// call makes one call of a provider and tells of it. Whatever an adapter returns that is not classified may have had an effect.
func (e *Engine) call(what string, j media.Job, c route.Candidate, do func(provider.Task) (requestID string, err error)) *fault.Failure {
	start := e.now()
	requestID, err := do(provider.Task{Job: &j, Channel: c.Channel, Credential: c.Credential})
	var f *fault.Failure
	if err != nil && !errors.As(err, &f) {
		f = &fault.Failure{Class: fault.Unknown, Ambiguous: true}
		f.Cause = err
	}
	if f != nil { // the job keeps it, and its client may see it
		hidden := c.Hidden()
		f.Message, f.Param = hidden.Quote(f.Message), hidden.Word(f.Param)
	}
	if e.Record != nil {
		e.Record.Called(Called{Job: &j, What: what, Channel: c.Channel, Credential: c.Credential, Start: start, Took: e.now().Sub(start), Failure: f,
			RequestID: cmp.Or(requestID, idOf(f))})
	}
	return f
}

func idOf(f *fault.Failure) string {
	if f == nil {
		return ""
	}
	return f.RequestID
}
