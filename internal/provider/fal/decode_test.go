package fal

import (
	"net/url"
	"strings"
	"testing"

	"spillway/internal/catalog"
	"spillway/internal/media"
	"spillway/internal/provider"
)

func sound(s provider.Status) bool {
	switch s.State {
	case media.Running:
		return s.Artifact == nil && s.Error.Code == "" && len(s.Strange) <= 64 && (s.Progress == 0 || s.Progress == fetching && s.Hint > 0)
	case media.Succeeded:
		return s.Artifact != nil && s.Artifact.URL != "" && s.Artifact.Size >= 0 && s.Artifact.Header == nil
	case media.Failed:
		return s.Artifact == nil && s.Error.Code != "" && s.Error.Class != "" && s.Error.Message != ""
	case media.Cancelled:
		return s.Artifact == nil
	default:
		return false
	}
}

// FuzzDecode: whatever comes, a job goes on, or ends with all that its end needs. Only its result tells that it succeeded.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"status":"IN_QUEUE","queue_position":1}`, `{"status":"IN_PROGRESS"}`, `{"status":"COMPLETED"}`, `{"status":"DREAMING"}`,
		`{"status":"COMPLETED","error":"m","error_type":"content_policy_violation"}`, `{"status":"COMPLETED","error":{"detail":[{"type":"no_media_generated"}]}}`,
		`{"video":{"url":"https://x.test/a","content_type":"video/mp4","file_size":3}}`, `{"videos":["https://x.test/a"]}`, `{"audio":{"url":"https://x.test/a"}}`,
		`[]`, `{`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := decode(text); err == nil && (!sound(s) || s.State == media.Succeeded) {
			t.Fatalf("%q became %+v", text, s)
		}
		for _, kind := range []media.Kind{media.Video, media.Music} {
			if s, err := decodeResult(kind, text); err == nil && (!sound(s) || s.State == media.Running) {
				t.Fatalf("%q became %+v", text, s)
			}
		}
	})
}

// FuzzAccepted: a handle is of paths alone, whatever host an answer names, and is read again as it was.
func FuzzAccepted(f *testing.F) {
	f.Add(`{"request_id":"r","status_url":"https://queue.fal.run/a/b/requests/r/status","response_url":"https://queue.fal.run/a/b/requests/r","cancel_url":"https://queue.fal.run/a/b/requests/r/cancel"}`)
	f.Add(`{"request_id":"r"}`)
	f.Add(`{"status_url":"https://queue.fal.run/s","response_url":"https://queue.fal.run/r","cancel_url":"https://queue.fal.run/r%80"}`)
	f.Add(`{"request_id":"../r","status_url":"//evil.test/x"}`)
	f.Add("{\"request_id\":\"\x98\"}")
	ch := &catalog.Channel{Model: "fal-ai/veo3.1/fast", Provider: &catalog.Provider{BaseURL: "https://queue.fal.run"}}
	f.Fuzz(func(t *testing.T, text string) {
		h, err := accepted(text, ch)
		if err != nil {
			return
		}
		for _, path := range []string{h.Status, h.Response, h.Cancel} {
			u := &url.URL{Scheme: "https", Host: "queue.fal.run", Path: path}
			if back, err := url.Parse(u.String()); err != nil || back.Host != "queue.fal.run" || !strings.HasPrefix(path, "/") || strings.Contains(path, "..") {
				t.Fatalf("%q became %+v", text, h)
			}
		}
		if back, err := handleOf(h.String()); err != nil || back != h {
			t.Fatalf("%q became %+v and then %+v", text, h, back)
		}
	})
}
