package provider

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"spillway/internal/catalog"
	"spillway/internal/fault"
	"spillway/internal/media"
)

// Task is one call about a media job.
type Task struct {
	// Job is shared and must not be changed. Its Request is the client's body, its Upstream the handle that Submit gave.
	Job        *media.Job
	Channel    *catalog.Channel
	Credential *catalog.Credential
	// Policy classifies the call's failure; nil: the adapter's own.
	Policy *fault.Policy
}

// Studio speaks one provider's API of media jobs: an operation to poll, a queue, or one that answers with the work itself.
//
// Each method must make at most one physical call and must neither retry nor follow a redirect. Every error must be a
// *fault.Failure, classified, with what had been sent when it failed: a Submit that may have been accepted must say so
// (Ambiguous), since it is never repeated. All must be safe for concurrent use.
type Studio interface {
	// Synchronous reports whether Submit answers with the work itself, which takes longer than a client waits. It must be the
	// same each time.
	Synchronous() bool
	// Submit asks for the work. A provider that takes a token of ours must get the job's id, the same each time.
	Submit(ctx context.Context, t Task) (Submission, error)
	// Poll asks how it goes. An answer about the job is a Status, also one that says that it failed; an error is a call
	// that could not be made, and says nothing of the job.
	Poll(ctx context.Context, t Task) (Status, error)
	// Cancel asks the provider to stop, and reports whether it has.
	Cancel(ctx context.Context, t Task) (confirmed bool, err error)
}

// Finder is a Studio whose provider can tell whether it has a job of our id: an uncertain submit is settled by asking.
type Finder interface {
	// Find must report a job only if it surely is the one, and false only if there surely is none.
	Find(ctx context.Context, t Task) (upstream string, found bool, err error)
}

// Submission is an accepted job.
type Submission struct {
	// Upstream is the provider's handle: what Poll needs. Empty for an API that answers with the work.
	Upstream string
	// Artifact is the work, of an API that answers with it; its Body must be closed.
	Artifact *Artifact
	// Hint is when the provider wants to be asked; 0: it did not say.
	Hint      time.Duration
	RequestID string
}

// Status is what a provider says of a job.
type Status struct {
	// State is Running or a terminal state. Of a word that nobody knows it is Running, and Strange is the word.
	State   media.State
	Strange string
	// Progress is in percent; 0: unknown.
	Progress int
	Hint     time.Duration
	// Artifact is where the work is, when State is Succeeded.
	Artifact *Artifact
	// Error is why there is none.
	Error media.Error
}

// Artifact is a finished work, at an address or in hand. One that has neither says that the provider is done and has nothing
// to show.
type Artifact struct {
	URL string
	// Header goes with the request for URL, to the provider's own host only: it may hold a credential.
	Header http.Header
	// Body is the work itself; nil: it is at URL.
	Body        io.ReadCloser
	ContentType string
	// Size is in bytes; 0: unknown.
	Size int64
}

// Why a work at an address was not read. Every other error of reading it may pass.
var (
	// ErrGone: the address does not give it out, or no longer.
	ErrGone = errors.New("the provider no longer gives the work out")
	// ErrUntrusted: the address, or one that it redirects to, must not be asked.
	ErrUntrusted = errors.New("the address of the work is not one that may be asked")
)
