package veo

import (
	"testing"
	"unicode/utf8"

	"spillway/internal/media"
)

// FuzzDecode: whatever comes, a job goes on, or ends with all that its end needs.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"name":"models/v/operations/a","done":false}`,
		`{"name":"models/v/operations/a","done":"nearly"}`,
		`{"name":"models/v/operations/a","done":true,"error":{"code":13,"message":"m"}}`,
		`{"name":"models/v/operations/a","done":true,"response":{"generateVideoResponse":{"generatedSamples":[{"video":{"uri":"https://x.test/a"}}]}}}`,
		`{"name":"models/v/operations/a","done":true,"response":{"generateVideoResponse":{"generatedSamples":[{"video":{"encodedVideo":"aGVsbG8="}}]}}}`,
		`{"name":"models/v/operations/a","done":true,"response":{"generateVideoResponse":{"raiMediaFilteredCount":1}}}`,
		"{\"name\":\"models/v/operations/\x98\"}", `[]`, `{`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := decode(text)
		name, begin := begun(text)
		if (begin == nil) != (err == nil) {
			t.Fatalf("%q is an operation for one and none for the other", text)
		}
		if !utf8.ValidString(name) {
			t.Fatalf("%q is an operation whose name no table keeps as it is", text)
		}
		if err != nil {
			return
		}
		a := s.Artifact
		switch s.State {
		case media.Running:
			if a != nil || s.Error.Code != "" || len(s.Strange) > 128 {
				t.Fatalf("%q became %+v", text, s)
			}
		case media.Succeeded:
			if a == nil || (a.URL == "") == (a.Body == nil) || s.Error.Code != "" {
				t.Fatalf("%q became %+v", text, s)
			}
		case media.Failed:
			if a != nil || s.Error.Code == "" || s.Error.Class == "" || s.Error.Message == "" {
				t.Fatalf("%q became %+v", text, s)
			}
		case media.Cancelled:
		default:
			t.Fatalf("%q became %+v", text, s)
		}
	})
}
