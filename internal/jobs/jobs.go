// Package jobs runs media jobs: it submits each once, asks for it until it is over, keeps what it made and tells its end.
// Package media decides; here is what is done about it, in an order in which a process may stop at any point.
//
// Everything is driven by messages that may come twice, late, out of order or never, and by a sweeper that many may run at
// once. What makes each step happen once is the job: its state, the number of the poll that is due, and its version, on
// which every write is conditional. What makes it happen at all is that the job says when somebody has to look at it
// next, and that the sweeper does.
//
// What a process that stops leaves behind after each step, and who repairs it, is the crash table of ARCHITECTURE.md.
package jobs

import (
	"context"
	cryptorand "crypto/rand"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"spillway/internal/catalog"
	"spillway/internal/fault"
	"spillway/internal/media"
	"spillway/internal/provider"
	"spillway/internal/redact"
	"spillway/internal/route"
	"spillway/internal/usage"
)

// Queue takes messages to be handled later.
//
// Send must deliver the body at least once, not before the delay, which is at most media.MaxDelay; it may deliver it twice,
// and in any order. An error leaves open whether it will. It must be safe for concurrent use.
type Queue interface {
	Send(ctx context.Context, body []byte, delay time.Duration) error
}

// Objects keeps what jobs made, and what they were asked for where that is long.
//
// Put must read the body to its end and make the object readable, whole, before it returns; where the body's Read fails it
// must fail and show no object. size is in bytes, or -1 when it is not known. It must not hold the whole body in memory,
// and must be safe for concurrent use.
//
// Open must show every object that Put has returned for; its body, which the caller closes, must fail when it is cut short.
type Objects interface {
	Put(ctx context.Context, name, contentType string, body io.Reader, size int64) error
	Open(ctx context.Context, name string) (body io.ReadCloser, size int64, contentType string, err error)
}

// Library opens finished works at their addresses.
//
// Work must connect to public hosts alone and must send the artefact's header to its own host only. Its error must wrap
// provider.ErrGone where the work is not given out any more, and provider.ErrUntrusted where its address must not be asked;
// every other error may pass. The Body that it returns must fail when it is cut short. No error may repeat the address.
type Library interface {
	Work(ctx context.Context, a provider.Artifact) (provider.Artifact, error)
}

// Teller posts events to callbacks.
//
// Tell must make one call, over TLS to a public host, must not follow a redirect, and must bound its time. Its error must not
// repeat the address. It must be safe for concurrent use.
type Teller interface {
	Tell(ctx context.Context, address string, header http.Header, body []byte) (status int, err error)
}

// Recorder is told what happens. It must not block, and must be safe for concurrent use.
type Recorder interface {
	// Changed is told of each change of a job, once, by whoever wrote it, after the write: an end's cost is counted here. A
	// process that stops between the two loses the record and what it counts, and nothing else: the table has the change with
	// its cost, and neither the job nor its callback waits for the record. So a record is never of what is not written, and the
	// sums of records are at most those of the table. A Strange that was not there before is a provider's new word, to be
	// warned of.
	Changed(before, after media.Job)
	// Called is told of each call of a provider, and of each that was not made because its answer is remembered: then
	// Failure.Evidence is breaker.FromMemory.
	Called(c Called)
	// Trouble is told of what went wrong and is made up for: by the queue, or by the sweeper. Where a message could not be handled
	// it is told with the message's id in place of the job's.
	Trouble(job, doing string, err error)
	// Panicked is told of a message, or a job of a sweep, whose handling panicked; value is its type only.
	Panicked(id, value, stack string)
}

// Called is one call of a provider.
type Called struct {
	Job        *media.Job
	What       string // "submit", "poll", "cancel", "find"
	Channel    *catalog.Channel
	Credential *catalog.Credential
	Start      time.Time
	Took       time.Duration
	Failure    *fault.Failure // nil: it was answered
	RequestID  string
}

// Engine runs jobs. Its fields must be set before use, and not be changed after; those that say so may be left out. It is
// safe for concurrent use, and of one job any number of environments may work at once.
type Engine struct {
	Jobs    media.Store
	Catalog *catalog.Catalog
	// Studios are the adapters by the kind of their provider.
	Studios map[string]provider.Studio
	// Plan returns who may make a job: channels of its model alone, each with a credential, in the order of trying. Those that
	// have refused the job may be among them: they are passed over. nil: as route.ResolveWork says.
	Plan func(ctx context.Context, j media.Job) *route.Plan
	// Health knows who may be asked now, and is told what became of it. nil: everybody may.
	Health Health
	// Submits takes the messages of jobs that wait to be submitted: whoever handles one may have to wait for the work itself,
	// so that a batch of this queue should be one message. Polls takes those of jobs to be asked for, and Tells those of
	// callbacks to be told. They may be the same.
	Submits, Polls, Tells Queue
	Objects               Objects
	Library               Library
	Teller                Teller
	// Signing is the secret of the events of an organization, in the form of Standard Webhooks (whsec_ and base64); nil, or an
	// empty one: its callbacks cannot be told.
	Signing func(organization string) redact.Secret
	// Prices are what works cost; of the zero value no cost is known.
	Prices usage.Works
	// Record may be left out.
	Record Recorder
	// Now, Random, which is in [0, 1), and Token, which names an execution, may be left out.
	Now    func() time.Time
	Random func() float64
	Token  func() string
}

// limits are the configuration's.
func (e *Engine) limits() media.Limits {
	c := e.Catalog.Jobs
	return media.Limits{Lifetime: c.Deadline, SubmitLease: c.Lease, Overdue: c.Overdue, FirstPoll: c.FirstPoll, SlowestPoll: c.SlowestPoll,
		MaxPollFailures: c.MaxPollFailures, MaxPolls: c.MaxPolls, MaxTells: c.MaxTells}
}

// now is in whole milliseconds, as stores keep times.
func (e *Engine) now() time.Time {
	now := time.Now
	if e.Now != nil {
		now = e.Now
	}
	return now().UTC().Truncate(time.Millisecond)
}

func (e *Engine) random() float64 {
	if e.Random != nil {
		return e.Random()
	}
	return rand.Float64() //nolint:gosec // it spreads load, and guards nothing
}

func (e *Engine) token() string {
	if e.Token != nil {
		return e.Token()
	}
	return cryptorand.Text()
}

func (e *Engine) changed(before, after media.Job) {
	if e.Record != nil {
		e.Record.Changed(before, after)
	}
}

func (e *Engine) trouble(j media.Job, doing string, err error) {
	if e.Record != nil {
		e.Record.Trouble(j.ID, doing, err)
	}
}
