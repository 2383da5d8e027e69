// Package gateway is the journey of a request: who calls, what is asked, which candidates may serve it, one attempt after
// another until one answers, and the relay of that answer to the client. Everything it decides is decided by a pure
// package (route, retry, fault); everything it touches is behind a small interface (Provider, Client, Recorder).
//
// It knows no wire format, no HTTP and no Lambda.
package gateway

import (
	"context"
	"io"
	"sync"
	"time"

	"spillway/internal/breaker"
	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/contract"
	"spillway/internal/fault"
	"spillway/internal/idempotency"
	"spillway/internal/ledger"
	"spillway/internal/media"
	"spillway/internal/provider"
	"spillway/internal/redact"
	"spillway/internal/retry"
	"spillway/internal/route"
	"spillway/internal/telemetry"
	"spillway/internal/tenant"
	"spillway/internal/trace"
	"spillway/internal/usage"
)

// Gateway serves requests. Its fields must be set before the first call and not changed afterwards; it is then safe for
// concurrent use.
type Gateway struct {
	Catalog *catalog.Catalog
	Keys    *tenant.Table
	// Providers are the adapters by provider kind; every kind of the catalog must be there.
	Providers map[string]provider.Provider
	Policy    *fault.Policy
	// Health knows which candidates may be called now, from what became of earlier calls, here and in other environments.
	Health *breaker.Fleet
	Prices usage.Table
	// Shares bounds the retries and the fallbacks of each organization and route.
	Shares *retry.Shares
	// Latencies know how fast channels were lately.
	Latencies *route.Latencies
	Recorder  *telemetry.Recorder
	// Fetcher reads what a request names by address; nil: nothing is read, and candidates that need it are passed over.
	Fetcher Fetcher
	// MaxStream is how much of one provider's stream is relayed, in bytes; 0: no bound. Below the platform's own limit of an
	// answer, so that the end is ours to tell.
	MaxStream int
	// Claims keeps the Idempotency-Keys, Objects the answers that are too large for a record; nil: a request with a key is
	// refused, and a large answer is not kept.
	Claims  idempotency.Store
	Objects idempotency.Objects
	// Traces keeps what became of requests, Ledger what became of applications' tool calls; nil: nobody does, and who asks is
	// told that the store is not there.
	Traces trace.Store
	Ledger ledger.Store
	// Jobs makes media jobs, JobStore has them, and Works has what they made; nil: there are none, and who asks is told NoJobs, a
	// sentence that says what is missing.
	Jobs     Jobs
	JobStore media.Store
	Works    Works
	NoJobs   string
	// Callback reports whether the end of a job may be told at an address, as far as the address shows; nil: at none.
	Callback func(address string) bool
	// DigestKey keys the digests of bodies and user ids in records.
	DigestKey []byte
	// Random draws numbers in [0, 1). It must be safe for concurrent use.
	Random func() float64
}

// Call is one logical client call as it came in.
type Call struct {
	// ID is the request id that every record and the answer carry.
	ID  string
	Key string
	// Read reads and checks the request in the caller's dialect. It is called once, after the caller is known.
	Read func() (*chat.Request, Wishes, *fault.Error)
}

// Wishes are what a client asked for outside the body.
type Wishes struct {
	// Timeout is the client's own limit for the whole request; 0: none.
	Timeout time.Duration
	// Upstream are the client's headers that may be passed on, by canonical name.
	Upstream map[string]string
	// Tags go into every record.
	Tags map[string]string
	// Commit replaces the route's commit policy; empty: the route's.
	Commit catalog.Commit
	// WholeTools asks for tool calls in one piece.
	WholeTools bool
	// Idempotency is what the client asked of a repetition.
	Idempotency Idempotency
}

// Idempotency is a client's Idempotency-Key with the request that it stands for. The zero value: there is none.
type Idempotency struct {
	Key         string
	Fingerprint idempotency.Fingerprint
	// Wait is how long to wait for another request of the same key (Prefer: wait); 0: not at all.
	Wait time.Duration
}

// Client is the far end of the answer. It is used by one goroutine at a time.
//
// Either Refuse is called once and nothing else, or Commit is called once, first. After Commit a plain answer is one
// Whole; a stream is any number of Event and Alive, and then exactly one of End or Interrupt. A stream may be opened
// before its Commit: then Alive and Interrupt may come without a Commit. An error from any of them means that the client
// has left; nothing more is written then.
type Client interface {
	// Refuse answers with an error. Nothing of an answer has been sent.
	Refuse(Head, *fault.Error)
	// Open sends the status line and the headers of a stream whose answer is still to come.
	Open(Head) error
	// Commit sends the status line and the headers, if a stream is not open yet. From here no other candidate can answer.
	Commit(Head) error
	// Event sends one event of a stream. It must not keep the event.
	Event(*chat.Event) error
	// Whole sends a whole plain answer.
	Whole(*chat.Answer) error
	// Alive breaks the silence of a stream without saying anything.
	Alive() error
	// End ends a stream that is whole.
	End(*chat.Usage) error
	// Interrupt ends a stream that is not whole, so that no client can take it for one that is.
	Interrupt(*fault.Error, *chat.Usage) error

	// Keep makes the client record what is sent from now on. It is called before anything is sent. From then on a client
	// that has left is no error: the answer is finished for its repetition.
	Keep()
	// Kept returns what was sent; false: it was too much to be kept. It is called once, after everything was sent.
	Kept() (idempotency.Result, bool)
	// Replay sends a stored result, with its status, its headers and the body as it was. Nothing else is sent.
	Replay(r idempotency.Result, body io.Reader)
}

// Head is what the headers of an answer say.
type Head struct {
	Provider           string
	Model              chat.ServedModel
	Route              string
	Attempts           int
	Fallback           bool
	CredentialFallback bool
	RoutingReason      string
	PolicyVersion      string
	ProviderRequestID  string
	Dropped            []string
}

// Serve takes one call through the journey. It returns when the answer, the error or the interruption has been written
// and the records are made; nothing of it goes on afterwards.
func (g *Gateway) Serve(ctx context.Context, call Call, client Client) {
	j, out := g.begin(ctx, call), &outlet{client: client}
	defer g.record(j)
	defer func() { g.emit(j.visit.End()) }()
	defer j.tracing.Wait()
	defer out.close()
	for _, step := range []func(*journey) *fault.Error{g.authenticate, g.parse} {
		if err := step(j); err != nil {
			g.refuse(j, out, err)
			return
		}
	}
	stored, err := g.claim(ctx, j)
	if err != nil {
		g.refuse(j, out, err)
		return
	}
	if stored != nil {
		g.replay(ctx, j, out, stored)
		return
	}
	defer g.conclude(j, client)
	defer g.trace(j)
	g.answer(ctx, j, out)
}

// answer finds who answers, and passes the answer on.
func (g *Gateway) answer(ctx context.Context, j *journey, out *outlet) {
	if err := g.plan(j); err != nil {
		g.refuse(j, out, err)
		return
	}
	ctx, cancel := j.bound(ctx)
	defer cancel()
	g.keep(j, out.client)
	out.gone = cancel
	if d := j.route.Policy.HoldTime; d > 0 && j.req.Stream {
		out.openAfter(d, func() Head { return Head{Route: j.route.Route, PolicyVersion: g.policyOf(j).Version} })
	}
	found, err := g.attempt(ctx, j)
	if err != nil {
		g.refuse(j, out, err)
		return
	}
	defer found.close()
	defer g.settle(j, found)
	// The commit point. Before it, a crash leaves nothing behind: the client sees a broken connection and may repeat
	// the request. After it, the client holds part of an answer, and only the stream's own ending tells whether it is
	// whole; a crash here leaves a stream without that ending.
	if out.commit(g.head(j, found), j.req.Stream) != nil {
		j.outcome = string(fault.ClientClosed)
		return
	}
	g.relay(j, found, out)
}

// journey is the state of one request on its way. It belongs to the request's goroutine.
type journey struct {
	call   Call
	caller tenant.Caller
	req    *chat.Request
	wishes Wishes
	route  *route.Plan
	// visit is the request's dealings with the health of the candidates.
	visit *breaker.Visit
	// claim is the request's hold on its Idempotency-Key; nil: it brought none. whole says that the answer is whole, kept
	// what became of the key for the records, keptErr why it was not stored.
	claim   *claim
	whole   bool
	kept    string
	keptErr error
	// stored is the result that was replayed; nil: none was.
	stored *idempotency.Result
	// contract is what the request demands of the answer; nil: nothing.
	contract *contract.Contract

	start time.Time
	// soft ends the time in which a candidate may be started and the first content awaited; hard ends everything.
	soft, hard time.Time

	limits retry.Limits
	// candidates are those of the route that may be tried; passed are the others, with the reason.
	candidates []candidate
	passed     []passed
	progress   retry.Progress
	// output is the limit of the output in tokens once it has been raised; 0: the client's own holds.
	output int64
	// firm says that the candidate's answer broke the contract, so that its next one is held to it more firmly.
	firm  bool
	tried []fault.Tried
	// lastTried is the candidate of the last entry of tried.
	lastTried *candidate
	// soonest is the earliest moment that a provider named for coming back; zero: none did.
	soonest time.Time
	// last is the failure that the client would see if the chain ended now.
	last *fault.Failure
	// unfit is why the last candidate that was passed over could not take the request.
	unfit *fault.Failure
	// fetched is what was read of the addresses in the request.
	fetched fetched
	// began is when the call behind last began; zero: it was answered from memory.
	began    time.Time
	lastCand *candidate
	// spent is the usage of the last failed call; nil: it cost nothing that we know of.
	spent *chat.Usage
	// cost is what the client is charged for, wasted what the failed calls cost, in billionths of a US dollar.
	cost   telemetry.Cost
	wasted int64

	// outcome and status are those of a fault of ours until something else is known: a panic leaves them.
	outcome  string
	status   int
	err      *fault.Error
	answered *found

	// job is the media job that was begun, or found; of an order that was refused it has the kind only. nil: the
	// request is no order.
	job *media.Job

	// told are the attempts for the trace; tracing is the writing of it.
	told    []trace.Attempt
	tracing sync.WaitGroup
}

// tenant is whose retries and fallbacks are counted.
func (j *journey) tenant() retry.Tenant {
	return retry.Tenant{Organization: j.caller.Organization.Name, Route: j.route.Route}
}

func (g *Gateway) begin(ctx context.Context, call Call) *journey {
	now := time.Now()
	return &journey{call: call, start: now, visit: g.Health.Begin(ctx, now), outcome: string(fault.InternalError), status: fault.InternalError.Status()}
}

// authenticate finds out who calls.
func (g *Gateway) authenticate(j *journey) *fault.Error {
	caller, ok := g.Keys.Authenticate(j.call.Key, j.start)
	if !ok {
		return &fault.Error{Code: fault.InvalidAPIKey, Message: "the API key is missing, unknown, expired or disabled"}
	}
	j.caller = caller
	return nil
}

// parse reads the body in the caller's dialect.
func (g *Gateway) parse(j *journey) *fault.Error {
	req, wishes, err := j.call.Read()
	if err != nil {
		return err
	}
	j.req, j.wishes = req, wishes
	j.contract, err = contract.Compile(req)
	return err
}

// plan lists the candidates.
func (g *Gateway) plan(j *journey) *fault.Error {
	j.visit.Ready()
	p, err := route.Resolve(g.Catalog, j.caller.Organization, j.req, g.Random, g.ranking(j.req))
	if err != nil {
		return err
	}
	j.route, j.limits = p, retry.For(p.Policy)
	if len(p.Candidates) == 0 {
		return noCandidate(p)
	}
	if g.eligible(j); len(j.candidates) == 0 {
		return g.exhausted(j)
	}
	return nil
}

// bound sets the request's deadlines: never later than the platform's, nor the client's own. The work for an
// Idempotency-Key goes on when the client leaves: it is there for the repetition.
func (j *journey) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	j.soft = j.start.Add(retry.DefaultRequest)
	if d := j.route.Policy.Timeout; d > 0 {
		j.soft = j.start.Add(d)
	}
	if d, ok := ctx.Deadline(); ok {
		j.hard = d
	}
	if t := j.wishes.Timeout; t > 0 && (j.hard.IsZero() || j.start.Add(t).Before(j.hard)) {
		j.hard = j.start.Add(t)
	}
	if !j.req.Stream && (j.hard.IsZero() || j.soft.Before(j.hard)) {
		j.hard = j.soft
	}
	if j.claim != nil {
		ctx = context.WithoutCancel(ctx)
	}
	if j.hard.IsZero() {
		return context.WithCancel(ctx)
	}
	if j.hard.Before(j.soft) {
		j.soft = j.hard
	}
	return context.WithDeadlineCause(ctx, j.hard, fault.OutOfTime)
}

// refuse ends the journey with an error of which nothing has been sent yet.
func (g *Gateway) refuse(j *journey, out *outlet, err *fault.Error) {
	j.err, j.outcome, j.status = err, string(err.Code), err.HTTPStatus()
	h := g.head(j, nil)
	if j.route != nil && j.route.Policy.Expose == catalog.ExposeNone {
		h.Provider, h.ProviderRequestID, h.RoutingReason = "", "", ""
	}
	out.refuse(h, err)
}

// settle closes the books of the attempt that answered.
func (g *Gateway) settle(j *journey, f *found) {
	j.answered = f
	a := g.attemptRecord(j, f.cand, f.started, nil)
	a.Served, a.UpstreamID, a.Status, a.Usage = f.served, f.info().RequestID, f.info().Status, f.used()
	if !f.content.IsZero() {
		a.FirstContent = f.content.Sub(f.started)
	}
	if f.broken == nil {
		g.Shares.Change(j.tenant(), retry.Buckets.Succeeded)
	}
	a.Committed = true
	a.Decision = "answered"
	a.Cost = g.cost(f.cand, f.served, a.Usage)
	j.cost = a.Cost
	switch {
	case f.broken != nil:
		describe(&a, f.broken, g.Policy.Rule(f.broken.Class), f.cand.Hidden())
		a.Decision, a.Reason = "interrupted", "already_delivered"
	case j.outcome == string(fault.InternalError):
		a.Decision, a.Reason = "interrupted", j.outcome // a panic, on its way to the edge
	}
	g.Recorder.Attempt(a)
	g.tell(j, a, f.started)
}

// record writes the request's own record.
func (g *Gateway) record(j *journey) { g.Recorder.Request(g.requestRecord(j)) }

// requestRecord is what is known of the request now.
func (g *Gateway) requestRecord(j *journey) telemetry.Request {
	q := telemetry.Request{RequestID: j.call.ID, Key: j.caller.Key, Outcome: j.outcome, Status: j.status, Attempts: j.progress.Attempts,
		Duration: time.Since(j.start), PolicyVersion: g.policyOf(j).Version, Tags: j.wishes.Tags}
	if j.caller.Organization != nil {
		q.Organization = j.caller.Organization.Name
	}
	if j.req != nil {
		q.Stream = j.req.Stream
		q.User, q.Conversation = g.digest(j.req.User), g.digest(j.req.Conversation)
	}
	if j.route != nil {
		q.Route = j.route.Route
	}
	if j.lastCand != nil {
		q.Provider = j.lastCand.Channel.Provider.Name
	}
	if j.err != nil {
		q.Class = string(j.err.Class)
	}
	if f := j.answered; f != nil {
		if f.broken != nil {
			q.Class = string(f.broken.Class)
		}
		if !f.content.IsZero() {
			q.FirstContent = f.content.Sub(j.start)
		}
		q.Served, q.Usage, q.Added = f.served, f.used(), f.started.Sub(j.start)
		q.Cost = j.cost
		q.Fallback = f.cand.Channel != j.route.Candidates[0].Channel
	}
	q.Wasted = j.wasted
	if r := j.stored; r != nil { // no route was planned: it counts where the answer came from
		q.Route, q.Provider = r.Header["X-Llm-Route"], r.Header["X-Llm-Provider"]
	}
	if m := j.job; m != nil {
		q.Job, q.Kind, q.Provider, q.Attempts = m.ID, string(m.Kind), m.Provider, m.Submits+m.Refusals
		if m.ID != "" { // what nobody has resolved is the client's own text
			q.Route = m.Model
		}
	}
	if q.Idempotency = j.kept; j.keptErr != nil {
		q.StoreError = j.keptErr.Error()
	}
	if j.err != nil && j.err.Code == fault.InternalError {
		q.Cause = j.err.Error()
	}
	return q
}

// digest is a keyed digest of a client's id; empty for none.
func (g *Gateway) digest(id string) string {
	if id == "" {
		return ""
	}
	return redact.Digest(g.DigestKey, []byte(id))
}
