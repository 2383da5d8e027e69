package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"spillway/internal/fault"
	"spillway/internal/media"
	"spillway/internal/provider"
)

// Desk is what the adapters of media jobs share: calls about a task, each of which makes one physical call and gives a
// classified failure for all but a 2xx.
type Desk struct {
	Wire   *Client
	Policy *fault.Policy
}

// errTooLong is the cause of an answer that is not read to its end.
var errTooLong = errors.New("the answer is too long")

// callOf is a task in the shape that all adapters' calls have.
func callOf(t provider.Task) provider.Call {
	return provider.Call{Channel: t.Channel, Credential: t.Credential, Policy: t.Policy}
}

// Fail classifies what an adapter saw of a call about a task.
func (d *Desk) Fail(t provider.Task, o fault.Observation) *fault.Failure {
	return Fail(callOf(t), d.Policy, o)
}

// Refuse is the failure of an order that the provider has no words for. Nothing was sent.
func (d *Desk) Refuse(t provider.Task, param, why string) *fault.Failure {
	return d.Fail(t, fault.Observation{Local: fault.Refused, Phase: fault.PhaseConnect, Param: param, Message: why, Cause: errors.New(param + ": " + why)})
}

// Write reads the task's order and writes it as the body that encode makes of it. Nothing is sent.
func (d *Desk) Write(t provider.Task, encode func(*media.Order) ([]byte, *Refusal)) (media.Order, []byte, *fault.Failure) {
	o, wrong := media.ReadOrder(t.Job.Kind, t.Job.Request)
	if wrong != nil {
		return o, nil, d.Refuse(t, wrong.Param, wrong.Message)
	}
	body, refused := encode(&o)
	if refused != nil {
		return o, nil, d.Refuse(t, refused.Param, refused.Why)
	}
	return o, body, nil
}

// Header begins the headers of a call with those that the configuration has for the provider, and what each call sends.
func Header(t provider.Task, accept string) http.Header {
	h := make(http.Header, 8)
	for name, value := range t.Channel.Provider.Headers {
		h.Set(name, value)
	}
	Finish(h, callOf(t))
	h.Set("Accept", accept)
	return h
}

// Submit sends an order, over a connection that has carried nothing before: a kept one may have died unnoticed, while the environment was
// frozen, and would leave it open whether the order was taken, which is then not repeated. A failure that leaves that open is Ambiguous.
func (d *Desk) Submit(ctx context.Context, t provider.Task, m Method, h http.Header, body []byte) (*Exchange, *fault.Failure) {
	c := callOf(t)
	c.Fresh = true
	x, f := d.Wire.send(ctx, http.MethodPost, c, d.Policy, m, h, body)
	if f != nil {
		f.Ambiguous = !refused(f)
	}
	return x, f
}

// Place submits an order to an API that answers with what names the job; named reads the handle from that answer, of at most so
// many bytes. The error is a *fault.Failure; an answer that cannot be read leaves open what the provider does.
func (d *Desk) Place(ctx context.Context, t provider.Task, m Method, h http.Header, most int64, encode func(*media.Order) ([]byte, *Refusal),
	named func(text string) (handle string, err error)) (provider.Submission, error) {
	_, body, failure := d.Write(t, encode)
	if failure != nil {
		return provider.Submission{}, failure
	}
	x, failure := d.Submit(ctx, t, m, h, body)
	if failure != nil {
		return provider.Submission{}, failure
	}
	defer x.Body.Close()
	text, failure := d.Text(t, x, most)
	if failure != nil {
		failure.Ambiguous = true
		return provider.Submission{}, failure
	}
	handle, err := named(text)
	if err != nil {
		return provider.Submission{}, d.Unclear(t, x, err)
	}
	return provider.Submission{Upstream: handle, Hint: x.Hint(time.Now()), RequestID: x.RequestID()}, nil
}

// refused reports whether an order was surely not accepted: no byte was sent, or the provider itself answers that it will
// not (contract.md §8). What a proxy answers without an error body, a time-out, a conflict and any 5xx say nothing of what the
// provider has done.
func refused(f *fault.Failure) bool {
	switch {
	case f.Local != "":
		return !f.Sent
	case f.Status == http.StatusRequestTimeout, f.Status == http.StatusConflict, f.Class == fault.Timeout:
		return false
	default:
		return f.Status/100 == 4 && f.Parsed
	}
}

// Unclear is the failure of a submit whose answer is a 2xx that says nothing of the job: the provider may be at work.
func (d *Desk) Unclear(t provider.Task, x *Exchange, cause error) *fault.Failure {
	f := d.Unusable(t, x, cause)
	f.Ambiguous = true
	return f
}

// Unusable is the failure of a call about a job whose answer is a 2xx that says nothing of it.
func (d *Desk) Unusable(t provider.Task, x *Exchange, cause error) *fault.Failure {
	o := x.Answered()
	o.Local, o.Cause = fault.NoAnswer, cause
	return d.Fail(t, o)
}

// Ask makes a call about a job that the provider has. It has no body.
func (d *Desk) Ask(ctx context.Context, t provider.Task, verb string, m Method, h http.Header) (*Exchange, *fault.Failure) {
	h.Del("Content-Type")
	return d.Wire.send(ctx, verb, callOf(t), d.Policy, m, h, nil)
}

// Look asks how a job goes. decode reads the answer, of at most so many bytes; verdict says what a refused question says of the job
// (Verdict, or an adapter's own). The error is a *fault.Failure, and says nothing of the job.
func (d *Desk) Look(ctx context.Context, t provider.Task, m Method, h http.Header, most int64, verdict func(*fault.Failure) (provider.Status, bool),
	decode func(text string) (provider.Status, error)) (provider.Status, error) {
	x, failure := d.Ask(ctx, t, http.MethodGet, m, h)
	if failure != nil {
		if status, ok := verdict(failure); ok {
			return status, nil
		}
		return provider.Status{}, failure
	}
	defer x.Body.Close()
	text, failure := d.Text(t, x, most)
	if failure != nil {
		return provider.Status{}, failure
	}
	status, err := decode(text)
	if err != nil {
		return provider.Status{}, d.Unusable(t, x, err)
	}
	if status.Hint == 0 {
		status.Hint = x.Hint(time.Now())
	}
	return status, nil
}

// Text reads a whole answer of at most so many bytes.
func (d *Desk) Text(t provider.Task, x *Exchange, most int64) (string, *fault.Failure) {
	var b strings.Builder // its text is not copied: an answer may have the work in it
	n, err := io.Copy(&b, io.LimitReader(x.Body, most+1))
	switch {
	case err != nil:
		return "", d.Fail(t, x.Broken(err, fault.PhaseHeaders))
	case n > most:
		return "", d.Unusable(t, x, errTooLong)
	default:
		return b.String(), nil
	}
}

// Hint is when the provider wants to be asked again, as an answer that is no error says it; 0: it does not.
func (x *Exchange) Hint(now time.Time) time.Duration {
	if h := fault.HintFrom(x.Header.Get, fault.Envelope{}, now); h.Known && !h.Excessive {
		return h.Wait
	}
	return 0
}

// Verdict is what a refused question says of the job itself; ok is false where it says nothing of it and the question is to
// be asked again. A job that was there and is not any more is over, and so is one whose content the provider refuses.
func Verdict(f *fault.Failure) (s provider.Status, ok bool) {
	switch {
	case f.Status == http.StatusNotFound, f.Status == http.StatusGone:
		return provider.Status{State: media.Expired, Error: media.Error{Code: media.Gone, Message: "the provider does not know the job any more", Class: string(fault.GenerationFailed)}}, true
	case f.Class == fault.ContentPolicy:
		return Failed(media.ContentFilter, fault.ContentPolicy), true
	default:
		return provider.Status{}, false
	}
}

// Failed is the status of a job that the provider has given up, in words of ours: its own never reach a client.
func Failed(code string, class fault.Class) provider.Status {
	return provider.Status{State: media.Failed, Error: media.Error{Code: code, Message: sentences[code], Class: string(class)}}
}

// Empty is the status of a job that is done and has nothing to show.
func Empty() provider.Status { return Failed(media.NoArtifact, fault.GenerationFailed) }

var sentences = map[string]string{
	media.ContentFilter:           "the provider refused the content",
	media.InvalidInput:            "the provider cannot make what was asked for",
	media.NoArtifact:              "the provider says that it is done and has nothing to show",
	string(fault.ProviderTimeout): "the provider did not finish in its own time",
	string(fault.ProviderError):   "the provider failed",
}

// Body is the body of an answer that is the work itself. An error while it is read is a *fault.Failure, and closing it
// releases the connection.
func (d *Desk) Body(t provider.Task, x *Exchange) io.ReadCloser { return &body{d, t, x} }

type body struct {
	desk *Desk
	task provider.Task
	x    *Exchange
}

// Read reads of the work. io.EOF is its end, as the answer itself counts it.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.x.Body.Read(p)
	if err == nil || errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return n, err //nolint:wrapcheck // io.EOF goes as it is
	}
	return n, b.desk.Fail(b.task, b.x.Broken(err, fault.PhasePostContent))
}

// Close releases the connection.
func (b *body) Close() error { return b.x.Body.Close() } //nolint:wrapcheck // nothing is to be said about it
