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
	j, waits, err := e.submitWhile(ctx, j, quick)
	if waits {
		e.send(ctx, j, submit, 0)
	}
	return j, err
}

// Resume is Start for a job whose order is repeated while it is queued: whoever began it may have stopped, and may not have. It sends no
// message: there may be one, and a client may repeat its order as often as it likes. Job and error are as Submit's.
func (e *Engine) Resume(ctx context.Context, j media.Job) (media.Job, error) {
	j, _, err := e.submitWhile(ctx, j, quick)
	return j, err
}

// quick reports whether a client can wait for a submit's answer.
func quick(s provider.Studio) bool { return !s.Synchronous() }

// Submit hands a queued job to a provider of either kind: once, except that a channel which surely has not taken it is followed
// by the next. It returns the job as it has become; that it is no longer queued to begin with, or that another execution
// submits it, is no error. An error is ErrNobody, or the store's or the bucket's: then the job's state in the store is the truth.
func (e *Engine) Submit(ctx context.Context, j media.Job) (media.Job, error) {
	j, _, err := e.submitWhile(ctx, j, func(provider.Studio) bool { return true })
	return j, err
}

// submitWhile submits a job here for as long as it is queued and the next in turn is one to be submitted to here; waits says that the
// next is not.
func (e *Engine) submitWhile(ctx context.Context, j media.Job, here func(provider.Studio) bool) (_ media.Job, waits bool, err error) {
	for j.State == media.Queued {
		if !e.now().Before(j.Deadline) {
			j, err = e.late(e.step(ctx, j, expiry(j)))
			return j, false, err
		}
		able := e.able(ctx, j)
		if len(able) == 0 {
			return j, false, ErrNobody
		}
		if !here(e.Studios[able[0].Channel.Provider.Kind]) {
			return j, true, nil
		}
		request, err := e.requestOf(ctx, j) // before the claim: without it nothing is lost
		if err != nil {
			return j, false, err
		}
		if j, err = e.submitTo(ctx, j, request, able[0], last(j, len(able))); err != nil {
			return j, false, err
		}
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

// submitTo makes the one call that may create the job at a provider. From the claim on nobody else makes one: a process that
// stops before the answer is written leaves a lease, and at its end a job of which nobody knows.
func (e *Engine) submitTo(ctx context.Context, j media.Job, request []byte, c route.Candidate, final bool) (media.Job, error) {
	studio := e.Studios[c.Channel.Provider.Kind]
	owner := e.token()
	j, err := e.step(ctx, j, media.Claim{Owner: owner, Channel: c.Channel.Name, Provider: c.Channel.Provider.Name, Credential: alias(c), Refusals: j.Refusals})
	switch {
	case errors.Is(err, media.ErrNoEdge):
		return j, nil // somebody else has it, or had it and was refused
	case err != nil:
		return j, err
	}

	lease := j.LeaseUntil.Sub(e.now())
	within, cancel := paid(ctx, lease-min(spare, lease/4))
	defer cancel()
	var taken provider.Submission
	f := e.call(submit, j, c, func(t provider.Task) (requestID string, err error) {
		whole := *t.Job
		whole.Request = request
		t.Job = &whole
		taken, err = studio.Submit(within, t)
		return taken.RequestID, err
	})
	if a := taken.Artifact; a != nil && a.Body != nil {
		defer a.Body.Close()
	}
	switch {
	case f != nil:
		return e.late(e.step(ctx, j, judge(f, owner, final)))
	case taken.Artifact != nil:
		return e.take(within, j, owner, *taken.Artifact)
	case taken.Upstream == "":
		return e.late(e.step(ctx, j, media.Lost{Owner: owner, Error: media.Error{Code: string(fault.ProviderError),
			Message: "the provider accepted it and gave nothing to ask for it by", Class: string(fault.BadResponse)}}))
	}
	in := e.limits().PollIn(0, taken.Hint, e.random())
	if j, err = e.accept(ctx, j, owner, taken.Upstream, in); err == nil && j.State == media.Running {
		e.send(ctx, j, poll, in)
	}
	return j, err
}

// paid bounds what must not be broken off because the client has left: its work would be made, and nobody would know. The
// invocation's own deadline holds.
func paid(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	end, limited := ctx.Deadline()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	if !limited {
		return ctx, cancel
	}
	ctx, inner := context.WithDeadline(ctx, end)
	return ctx, func() { inner(); cancel() }
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

// take keeps work that a provider answered with. The object comes first, then the job that names it: running, then succeeded.
func (e *Engine) take(ctx context.Context, j media.Job, owner string, a provider.Artifact) (media.Job, error) {
	result, why := e.keep(ctx, j, a)
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
// what may have created something is never repeated.
func judge(f *fault.Failure, owner string, last bool) media.Event {
	switch {
	case f.Ambiguous || f.Sent && f.Local != "":
		return media.Lost{Owner: owner, Error: errorOf(f)}
	case f.Class == fault.ContentPolicy || f.Class == fault.GenerationFailed:
	case refused(f) && !last:
		return media.Refused{Owner: owner, Error: errorOf(f)}
	case !refused(f) && (!f.Parsed || f.Status < 400 || f.Status >= 500):
		return media.Lost{Owner: owner, Error: errorOf(f)} // a 5xx, or an answer that nobody understands
	}
	end := media.Ended{State: media.Failed, Owner: owner, Error: errorOf(f)}
	if refused(f) {
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
		return f.Parsed
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
