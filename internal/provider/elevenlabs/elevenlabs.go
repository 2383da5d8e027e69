// Package elevenlabs speaks ElevenLabs' music (https://elevenlabs.io/docs/api-reference/music/compose, 2026-11-30): one POST that
// answers with the sound itself, some tens of seconds later. The base address ends with the version:
// https://api.elevenlabs.io/v1.
//
// There is no job at the provider: nothing to poll, nothing to cancel, and nothing by which a lost answer could be found
// again, so that there is no provider.Finder here.
package elevenlabs

import (
	"context"
	"mime"
	"strings"

	"spillway/internal/media"
	"spillway/internal/provider"
	"spillway/internal/provider/wire"
)

// Studio is the adapter. Its field must be set before use and not changed afterwards.
type Studio struct {
	Desk wire.Desk
}

var _ provider.Studio = (*Studio)(nil)

// Synchronous implements provider.Studio: the answer is the work.
func (*Studio) Synchronous() bool { return true }

// Submit makes the music. The answer's body is the work, and must be read to its end: an error on the way is a *fault.Failure,
// and the work is lost then, and paid for. A 2xx that is no sound is an artifact without anything.
func (s *Studio) Submit(ctx context.Context, t provider.Task) (provider.Submission, error) {
	order, body, failure := s.Desk.Write(t, func(o *media.Order) ([]byte, *wire.Refusal) { return encode(o, string(t.Channel.Model)) })
	if failure != nil {
		return provider.Submission{}, failure
	}
	method := wire.Method{Path: "/music"}
	if order.OutputFormat != "" {
		method.Query = map[string]string{"output_format": order.OutputFormat}
	}
	h := wire.Header(t, "*/*")
	h.Set("Xi-Api-Key", t.Credential.Secret.Reveal())
	x, failure := s.Desk.Submit(ctx, t, method, h, body)
	if failure != nil {
		return provider.Submission{}, failure
	}
	contentType := x.Header.Get("Content-Type")
	if !sound(contentType) {
		_ = x.Body.Close()
		return provider.Submission{RequestID: x.RequestID(), Artifact: &provider.Artifact{}}, nil // it is done, and has nothing to show
	}
	return provider.Submission{RequestID: x.RequestID(),
		Artifact: &provider.Artifact{Body: s.Desk.Body(t, x), ContentType: contentType, Size: max(x.ContentLength, 0)}}, nil
}

// sound reports whether a content type is that of a work. ElevenLabs calls a format without a type of its own a stream of bytes.
func sound(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (strings.HasPrefix(kind, "audio/") || kind == "application/octet-stream")
}

// Poll has nothing to ask: whoever polls has lost the answer.
func (s *Studio) Poll(_ context.Context, t provider.Task) (provider.Status, error) {
	return provider.Status{}, s.Desk.Refuse(t, "upstream", "the provider has no jobs to ask for")
}

// Cancel has nothing to call.
func (*Studio) Cancel(context.Context, provider.Task) (confirmed bool, err error) { return false, nil }
