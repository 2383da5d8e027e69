package gateway

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"time"

	"spillway/internal/catalog"
	"spillway/internal/fault"
	"spillway/internal/jobs"
	"spillway/internal/media"
	"spillway/internal/route"
)

// Jobs makes media jobs and drives them while a client waits (jobs.Engine).
type Jobs interface {
	// Begin makes the job of an order, or returns the one that its key is bound to: then fresh is false. The error is
	// jobs.ErrConflict where the key was used for another order, or else the store's.
	Begin(ctx context.Context, o jobs.Order) (j media.Job, fresh bool, err error)
	// Bound returns the job that an order's key is bound to; nil: none. The error is as Begin's. It changes nothing.
	Bound(ctx context.Context, o jobs.Order) (*media.Job, error)
	// Start submits a fresh job, or leaves that to a queue, and returns it as it has become. It must go on when the client
	// leaves. After an error the job is as the store has it.
	Start(ctx context.Context, j media.Job) (media.Job, error)
	// Resume is Start for a queued job whose order is repeated: it may be called while others submit the same job, and must not
	// submit it beside them.
	Resume(ctx context.Context, j media.Job) (media.Job, error)
	// Cancel ends a job; nil: there is none of this id in the organization. The error is the store's.
	Cancel(ctx context.Context, organization, id string) (*media.Job, jobs.Cancelled, error)
}

// Works gives out what jobs made. It must be safe for concurrent use.
type Works interface {
	// Link signs an address at which whoever has it may read the object for so long, without a header of any kind. It is told to
	// be of a content type, and to be saved under a file name.
	Link(ctx context.Context, name, contentType, filename string, ttl time.Duration) (string, error)
	// Open reads the object, which must not be held in memory whole. The body must fail when it is cut short. Where there is no
	// such object the error must wrap fs.ErrNotExist, if the store says so.
	Open(ctx context.Context, name string) (body io.ReadCloser, size int64, contentType string, err error)
}

const (
	// ordering bounds the calls of the stores that make a job, also one with a picture of some MB, and asking bounds one that reads.
	ordering = 5 * time.Second
	asking   = time.Second
	// MaxJobs is the most jobs of one list.
	MaxJobs = 100
	// LinkLife is how long the link to a work can be used.
	LinkLife = 15 * time.Minute
)

// Asked is what a client asks of a media job.
type Asked struct {
	Order media.Order
	// Request is the order's body, as JSON.
	Request     []byte
	Idempotency Idempotency
	Tags        map[string]string
}

// BeginJob makes the job of an order and submits it, once, or returns the one that its Idempotency-Key is bound to, in
// whatever state it is: then replayed is true. read reads the order, after the caller is known.
//
// The job is there before any provider is asked, so that from then on the answer is the job: also where every provider has
// refused it, and where it is not known what became of the submit. An error means that there is no job, or that the store
// does not say: then the same order may be sent again, and is submitted once all the same.
func (g *Gateway) BeginJob(ctx context.Context, call Call, read func() (Asked, *fault.Error)) (j media.Job, replayed bool, refused *fault.Error) {
	journey := &journey{call: call, start: time.Now(), outcome: string(fault.InternalError), status: fault.InternalError.Status()}
	defer g.record(journey)
	job, replayed, err := g.beginJob(ctx, journey, read)
	if err != nil {
		journey.err, journey.outcome, journey.status = err, string(err.Code), err.HTTPStatus()
		return media.Job{}, false, err
	}
	journey.job, journey.outcome, journey.status = job, "answered", http.StatusAccepted
	if replayed {
		journey.outcome, journey.kept = "replayed", "replayed"
	}
	return *job, replayed, nil
}

func (g *Gateway) beginJob(ctx context.Context, j *journey, read func() (Asked, *fault.Error)) (*media.Job, bool, *fault.Error) {
	if err := g.authenticate(j); err != nil {
		return nil, false, err
	}
	asked, err := read()
	j.wishes.Tags = asked.Tags
	if err != nil {
		return nil, false, err
	}
	if g.Jobs == nil {
		return nil, false, g.noJobs()
	}
	o := jobs.Order{Organization: j.caller.Organization.Name, Key: asked.Idempotency.Key, Fingerprint: string(asked.Idempotency.Fingerprint), Kind: asked.Order.Kind,
		Model: asked.Order.Model, Request: asked.Request, Callback: asked.Order.Callback}
	j.job = &media.Job{Kind: o.Kind}
	if err := g.orderable(j.caller.Organization, asked); err != nil {
		return g.boundOr(ctx, o, err)
	}
	made, cancel := context.WithTimeout(context.WithoutCancel(ctx), ordering)
	defer cancel()
	job, fresh, failed := g.Jobs.Begin(made, o)
	if failed != nil {
		return nil, false, g.notBegun(failed)
	}
	switch {
	case fresh:
		job, failed = g.Jobs.Start(ctx, job)
	case job.State == media.Queued: // whoever began it may have stopped before it was submitted
		job, failed = g.Jobs.Resume(ctx, job)
	}
	if failed != nil && !errors.Is(failed, jobs.ErrNobody) {
		g.Recorder.StoreLost("job", failed) // the job is there, and the sweeper looks after it
	}
	return &job, !fresh, nil
}

// boundOr is the job that the key of an order is bound to, which no longer could be ordered: a model that has left the
// configuration takes no job away. Without one it is the error, and where the store does not say it is that.
func (g *Gateway) boundOr(ctx context.Context, o jobs.Order, why *fault.Error) (*media.Job, bool, *fault.Error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), asking)
	defer cancel()
	there, err := g.Jobs.Bound(ctx, o)
	switch {
	case err != nil:
		return nil, false, g.notBegun(err)
	case there == nil:
		return nil, false, why
	default:
		return there, true, nil
	}
}

// orderable reports why a new job cannot be made of what is asked; nil: it can.
func (g *Gateway) orderable(org *catalog.Organization, asked Asked) *fault.Error {
	o := asked.Order
	if o.Callback != "" {
		switch {
		case g.Callback == nil || !g.Callback(o.Callback):
			return fault.Invalid("callback_url", "callback_url: must be an https address of a host on the public internet")
		case org.WebhookSecret.Empty():
			return fault.Invalid("callback_url", "callback_url: your organization has no webhook_secret to sign its events with; the operator sets one")
		}
	}
	p, err := route.ResolveWork(g.Catalog, org, jobs.WorkOf(o.Kind, o.Model, o.Prefer), g.Random)
	if err == nil && len(p.Candidates) == 0 {
		err = noCandidate(p)
	}
	return err
}

// notBegun is the error of a job that was not begun, as far as is known.
func (g *Gateway) notBegun(err error) *fault.Error {
	if errors.Is(err, jobs.ErrConflict) {
		return &fault.Error{Code: fault.IdempotencyConflict, Param: "Idempotency-Key", Message: "this Idempotency-Key was used for another request"}
	}
	g.Recorder.StoreLost("job", err)
	e := noStore(ofJobs, err)
	e.Message += "; with the same Idempotency-Key the job is submitted once at most"
	return e
}

// ofJobs is what the store of jobs keeps, in the words for a client.
const ofJobs = "media jobs"

// noJobs is the error of whoever wants a job of a gateway that keeps none.
func (g *Gateway) noJobs() *fault.Error {
	e := noStore(ofJobs, errors.New("no store of jobs is configured"))
	e.Message = cmp.Or(g.NoJobs, "this gateway has no store of media jobs")
	return e
}

// askingJobs finds out who asks for jobs.
func (g *Gateway) askingJobs(call Call) (organization string, refused *fault.Error) {
	j := &journey{call: call, start: time.Now()}
	if err := g.authenticate(j); err != nil {
		return "", err
	}
	if g.Jobs == nil || g.JobStore == nil {
		return "", g.noJobs()
	}
	return j.caller.Organization.Name, nil
}

// Job is a job of the caller's organization. kind is what it must make; empty: anything.
func (g *Gateway) Job(ctx context.Context, call Call, id string, kind media.Kind) (*media.Job, *fault.Error) {
	organization, err := g.askingJobs(call)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), asking)
	defer cancel()
	j, err := g.organizationsJob(ctx, organization, id)
	if err != nil {
		return nil, err
	}
	if j == nil || kind != "" && j.Kind != kind {
		return nil, noJob()
	}
	return j, nil
}

func noJob() *fault.Error {
	return &fault.Error{Code: fault.NotFound, Param: "id", Message: "your organization has no such job, or it is not kept any more"}
}

// ListJobs lists jobs of the caller's organization. It may be some seconds behind. read reads what is wanted, but its After, and the id
// of the job behind which the list goes on, if it does; after the caller is known.
func (g *Gateway) ListJobs(ctx context.Context, call Call, read func() (w media.Wanted, after string, refused *fault.Error)) (media.Page, *fault.Error) {
	organization, err := g.askingJobs(call)
	if err != nil {
		return media.Page{}, err
	}
	w, after, err := read()
	if err != nil {
		return media.Page{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, ordering)
	defer cancel()
	if after != "" {
		if w.After, err = g.organizationsJob(ctx, organization, after); err != nil {
			return media.Page{}, err
		}
		if w.After == nil {
			return media.Page{}, fault.Invalid("after", "after: your organization has no job of this id, or it is not kept any more; begin again without it")
		}
	}
	page, failed := g.JobStore.List(ctx, organization, w)
	if failed != nil {
		g.Recorder.StoreLost("job", failed)
		return media.Page{}, noStore(ofJobs, failed)
	}
	if page.Unread != nil {
		g.Recorder.StoreLost("job", page.Unread)
	}
	return page, nil
}

// maxJobID bounds what can be the id of a job. The store is asked for nothing longer: a key of more than 2048 bytes DynamoDB refuses,
// which would look as though it were away.
const maxJobID = 128

// organizationsJob is a job of an organization; nil: there is none of this id.
func (g *Gateway) organizationsJob(ctx context.Context, organization, id string) (*media.Job, *fault.Error) {
	if len(id) > maxJobID {
		return nil, nil
	}
	j, failed := g.JobStore.Get(ctx, organization, id)
	if failed != nil {
		g.Recorder.StoreLost("job", failed)
		return nil, noStore(ofJobs, failed)
	}
	return j, nil
}

// CancelJob ends a job of the caller's organization. confirmed is false where its provider was asked to end it and has not said
// yet that it has.
func (g *Gateway) CancelJob(ctx context.Context, call Call, id string) (j *media.Job, confirmed bool, refused *fault.Error) {
	organization, err := g.askingJobs(call)
	if err != nil {
		return nil, false, err
	}
	if len(id) > maxJobID {
		return nil, false, noJob()
	}
	j, what, failed := g.Jobs.Cancel(context.WithoutCancel(ctx), organization, id)
	switch {
	case failed != nil:
		g.Recorder.StoreLost("job", failed)
		return nil, false, noStore(ofJobs, failed)
	case j == nil:
		return nil, false, noJob()
	}
	switch what {
	case jobs.Over:
		// Of the closed set of codes this is the one that says "not like this"; a conflict of keys it is not.
		return nil, false, &fault.Error{Code: fault.ValidationFailed, Status: http.StatusConflict, Param: "status", Message: "the job has ended and cannot be cancelled: it is " + string(j.State)}
	case jobs.NotNow:
		// As with a request in flight: the same call may be answered otherwise in a moment.
		return nil, false, &fault.Error{Code: fault.IdempotencyConflict, Param: "status", Retryable: true, RetryAfter: 2 * time.Second,
			Message: "the job is " + string(j.State) + " and cannot be cancelled at this moment; try again later"}
	}
	return j, what == jobs.Confirmed, nil
}

// Content is where the work of a job is.
type Content struct {
	Job media.Job
	// URL can be read by whoever has it until Expires, and by nobody after. It belongs into no record.
	URL     string
	Expires time.Time
}

// Content signs a link to what a job of the caller's organization has made.
func (g *Gateway) Content(ctx context.Context, call Call, id string, kind media.Kind) (Content, *fault.Error) {
	j, err := g.finished(ctx, call, id, kind)
	if err != nil {
		return Content{}, err
	}
	expires := time.Now().Add(LinkLife)
	link, failed := g.Works.Link(ctx, j.Result.Object, j.Result.ContentType, FileName(j), LinkLife)
	if failed != nil {
		g.Recorder.StoreLost("work", failed)
		return Content{}, noStore(ofWorks, failed)
	}
	return Content{Job: *j, URL: link, Expires: expires}, nil
}

// Work opens what a job of the caller's organization has made. The reader must be closed.
func (g *Gateway) Work(ctx context.Context, call Call, id string, kind media.Kind) (*media.Job, io.ReadCloser, *fault.Error) {
	j, err := g.finished(ctx, call, id, kind)
	if err != nil {
		return nil, nil, err
	}
	if g.MaxStream > 0 && j.Result.Size > int64(g.MaxStream) {
		return nil, nil, &fault.Error{Code: fault.RequestTooLarge, Param: "stream", Message: "the work is larger than can be streamed through the gateway; read it at its link, without stream=1"}
	}
	body, size, _, failed := g.Works.Open(ctx, j.Result.Object)
	if errors.Is(failed, fs.ErrNotExist) {
		return nil, nil, &fault.Error{Code: fault.NotFound, Param: "id", Message: "the work is not kept any more"}
	}
	if failed == nil && size != j.Result.Size {
		failed = errors.Join(errors.New("the object has not the size of the work"), body.Close())
	}
	if failed != nil {
		g.Recorder.StoreLost("work", failed)
		return nil, nil, noStore(ofWorks, failed)
	}
	return j, body, nil
}

// ofWorks is what the bucket keeps, in the words for a client.
const ofWorks = "finished works"

// finished is a job that has made something.
func (g *Gateway) finished(ctx context.Context, call Call, id string, kind media.Kind) (*media.Job, *fault.Error) {
	j, err := g.Job(ctx, call, id, kind)
	switch {
	case err != nil:
		return nil, err
	case j.State == media.Succeeded && j.Result != nil && g.Works != nil:
		return j, nil
	case j.State == media.Succeeded:
		return nil, noStore(ofWorks, errors.New("no bucket is configured, or the job names no object"))
	}
	e := &fault.Error{Code: fault.NotFound, Param: "status", Message: "the job is " + string(j.State) + " and has made nothing yet; see GET /v1/jobs/" + j.ID}
	if j.State.Terminal() {
		e.Message = "the job is " + string(j.State) + " and has made nothing"
		if why := j.View().Error; j.Error != nil && why != nil {
			e.Message, e.Class = e.Message+": "+why.Code+": "+why.Message, fault.Class(j.Error.Class)
		}
	}
	return nil, e
}

// endings are those of files, by their content type.
var endings = map[string]string{"video/mp4": ".mp4", "video/webm": ".webm", "video/quicktime": ".mov", "audio/mpeg": ".mp3", "audio/wav": ".wav", "audio/x-wav": ".wav",
	"audio/ogg": ".ogg", "audio/opus": ".opus", "audio/flac": ".flac", "audio/aac": ".aac", "audio/mp4": ".m4a"}

// FileName is what the work of a job is saved as.
func FileName(j *media.Job) string {
	kind, _, _ := mime.ParseMediaType(j.Result.ContentType)
	return j.ID + endings[kind]
}
