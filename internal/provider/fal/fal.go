// Package fal speaks fal's queue (https://fal.ai/docs/documentation/model-apis/inference/queue, 2026-11-30): a POST to the
// model's own path puts a request into it, one address tells its status, another its result, a third cancels it. The base
// address is https://queue.fal.run.
//
// fal takes no token of ours and looks nothing up by one, so that a lost submit cannot be found again: there is no
// provider.Finder here. What has failed in a runner fal itself tries again, up to ten times.
//
// A poll stays one call although two addresses have to be asked: COMPLETED stands for failures too, and says nothing of the
// result. The poll that sees it without an error reports that the job runs on, at fetching percent, and is to be asked again
// soon; the next one asks for the result. fal has no progress of its own, so that nobody else sets that mark.
package fal

import (
	"context"
	"net/http"
	"time"

	"spillway/internal/media"
	"spillway/internal/provider"
	"spillway/internal/provider/wire"
)

const (
	// maxAnswer is the longest answer that is read, in bytes.
	maxAnswer = 4 << 20
	// fetching is the progress of a job that is done and whose result has not been asked for.
	fetching = 99
	// soon is when to ask for the result: fal keeps a larger one for six minutes only
	// (https://fal.ai/docs/inference-api/queue/result, 2026-11-30).
	soon = time.Second
)

// Studio is the adapter. Its field must be set before use and not changed afterwards.
type Studio struct {
	Desk wire.Desk
}

var _ provider.Studio = (*Studio)(nil)

// Synchronous implements provider.Studio: the work is asked for later.
func (*Studio) Synchronous() bool { return false }

// Submit puts a request into the queue. The handle is where it is asked for.
func (s *Studio) Submit(ctx context.Context, t provider.Task) (provider.Submission, error) {
	return s.Desk.Place(ctx, t, wire.Method{Path: "/" + string(t.Channel.Model)}, headers(t), maxAnswer, //nolint:wrapcheck // it is classified
		func(o *media.Order) ([]byte, *wire.Refusal) { return encode(o, string(t.Channel.Model)) },
		func(text string) (string, error) {
			h, err := accepted(text, t.Channel)
			return h.String(), err
		})
}

// Poll asks for the status, or for the result once the status is known.
func (s *Studio) Poll(ctx context.Context, t provider.Task) (provider.Status, error) {
	h, err := handleOf(t.Job.Upstream)
	if err != nil {
		return provider.Status{}, s.Desk.Refuse(t, "upstream", err.Error())
	}
	if t.Job.Progress >= fetching { // fal answers with what its model answered, whatever its status
		return s.Desk.Look(ctx, t, wire.Method{Path: h.Response}, headers(t), maxAnswer, verdict, //nolint:wrapcheck // it is classified
			func(text string) (provider.Status, error) { return decodeResult(t.Job.Kind, text) })
	}
	return s.Desk.Look(ctx, t, wire.Method{Path: h.Status, Query: map[string]string{"logs": "0"}}, headers(t), maxAnswer, wire.Verdict, decode) //nolint:wrapcheck // it is classified
}

// Cancel asks to take a request out of the queue, or its runner to stop. Only the first is confirmed by the answer; the
// second is told by a later poll.
func (s *Studio) Cancel(ctx context.Context, t provider.Task) (confirmed bool, err error) {
	h, err := handleOf(t.Job.Upstream)
	if err != nil {
		return false, s.Desk.Refuse(t, "upstream", err.Error())
	}
	x, failure := s.Desk.Ask(ctx, t, http.MethodPut, wire.Method{Path: h.Cancel}, headers(t))
	if failure != nil {
		if failure.Status == http.StatusBadRequest || failure.Status == http.StatusNotFound {
			return false, nil // ALREADY_COMPLETED, NOT_FOUND: there is nothing to stop
		}
		return false, failure
	}
	defer x.Body.Close()
	text, failure := s.Desk.Text(t, x, maxAnswer)
	if failure != nil {
		return false, failure
	}
	return x.StatusCode == http.StatusOK && cancelled(text), nil
}

func headers(t provider.Task) http.Header {
	h := wire.Header(t, "application/json")
	h.Set("Authorization", "Key "+t.Credential.Secret.Reveal())
	return h
}

// running is a job that goes on.
func running(strange string) provider.Status {
	return provider.Status{State: media.Running, Strange: strange}
}
