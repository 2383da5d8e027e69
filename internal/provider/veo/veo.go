// Package veo speaks Google's long-running operations for video (https://ai.google.dev/gemini-api/docs/video, 2026-11-30):
// predictLongRunning begins one, a GET of its name asks, and the video lies at an address that wants the same key. The base
// address ends with the version: https://generativelanguage.googleapis.com/v1beta.
//
// The API takes no token of ours, and lists operations without a word of ours in them, so that a lost submit cannot be found
// again: there is no provider.Finder here.
package veo

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"spillway/internal/provider"
	"spillway/internal/provider/wire"
)

const (
	// maxBegun and maxOperation are the longest answers that are read, in bytes. An operation may have the video in it.
	maxBegun     = 1 << 20
	maxOperation = 64 << 20

	keyHeader = "X-Goog-Api-Key"
)

// Studio is the adapter. Its field must be set before use and not changed afterwards.
type Studio struct {
	Desk wire.Desk
}

var _ provider.Studio = (*Studio)(nil)

// Synchronous implements provider.Studio: the work is asked for later.
func (*Studio) Synchronous() bool { return false }

// Submit begins an operation. Its name is the handle.
func (s *Studio) Submit(ctx context.Context, t provider.Task) (provider.Submission, error) {
	return s.Desk.Place(ctx, t, wire.Method{Path: "/" + model(t) + ":predictLongRunning"}, headers(t), maxBegun, encode, begun) //nolint:wrapcheck // it is classified
}

// Poll asks for the operation.
func (s *Studio) Poll(ctx context.Context, t provider.Task) (provider.Status, error) {
	status, err := s.Desk.Look(ctx, t, wire.Method{Path: "/" + t.Job.Upstream}, headers(t), maxOperation, wire.Verdict, decode)
	if a := status.Artifact; a != nil && sameHost(a.URL, t.Channel.Provider.BaseURL) {
		a.Header = http.Header{keyHeader: {t.Credential.Secret.Reveal()}}
	}
	return status, err //nolint:wrapcheck // it is classified
}

// Cancel has nothing to call: the API has get and list for the operations of models and no cancel
// (https://ai.google.dev/api/all-methods, v1beta.models.operations, 2026-11-30).
func (*Studio) Cancel(context.Context, provider.Task) (confirmed bool, err error) { return false, nil }

// model is the model's path. One with a slash in its name is a path of its own.
func model(t provider.Task) string {
	if m := string(t.Channel.Model); strings.Contains(m, "/") {
		return m
	}
	return "models/" + string(t.Channel.Model)
}

func headers(t provider.Task) http.Header {
	h := wire.Header(t, "application/json")
	h.Set(keyHeader, t.Credential.Secret.Reveal())
	return h
}

// sameHost reports whether an address is at the provider's own host, over the same scheme: nobody else gets its key.
func sameHost(address, base string) bool {
	a, errA := url.Parse(address)
	b, errB := url.Parse(base)
	return errA == nil && errB == nil && a.Host != "" && strings.EqualFold(a.Host, b.Host) && a.Scheme == b.Scheme
}
