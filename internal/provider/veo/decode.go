package veo

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"spillway/internal/fault"
	"spillway/internal/media"
	"spillway/internal/provider"
	"spillway/internal/provider/wire"
)

var errNoOperation = errors.New("the answer is no operation")

// operation reads an answer that must be one.
func operation(text string) (gjson.Result, error) {
	if !wire.Valid(text) {
		return gjson.Result{}, errNoOperation
	}
	op := gjson.Parse(text)
	if name := op.Get("name"); !op.IsObject() || name.Type != gjson.String || !isOperation(name.Str) {
		return gjson.Result{}, errNoOperation
	}
	return op, nil
}

// isOperation reports whether a name can be kept as it is and asked for below the provider's own address.
func isOperation(name string) bool {
	return strings.Contains(name, "operations/") && !strings.Contains(name, "..") && utf8.ValidString(name)
}

// begun is the name of an operation that has been begun.
func begun(text string) (string, error) {
	op, err := operation(text)
	if err != nil {
		return "", err
	}
	return op.Get("name").Str, nil
}

// ended are the google.rpc codes of an operation that ended with an error, which is final: what has failed is not made again
// (https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto; reference/providers.md §5.2, 2026-11-30).
var ended = map[int64]struct {
	state media.State
	code  string
	class fault.Class
}{
	1:  {media.Cancelled, "", ""},
	3:  {media.Failed, media.InvalidInput, fault.InvalidRequest},                // INVALID_ARGUMENT
	4:  {media.Failed, string(fault.ProviderTimeout), fault.Timeout},            // DEADLINE_EXCEEDED
	5:  {media.Failed, string(fault.ProviderError), fault.ModelUnavailable},     // NOT_FOUND
	7:  {media.Failed, string(fault.ProviderError), fault.Auth},                 // PERMISSION_DENIED
	8:  {media.Failed, string(fault.ProviderError), fault.RateLimited},          // RESOURCE_EXHAUSTED
	9:  {media.Failed, media.InvalidInput, fault.InvalidRequest},                // FAILED_PRECONDITION
	12: {media.Failed, string(fault.ProviderError), fault.UnsupportedParameter}, // UNIMPLEMENTED
	13: {media.Failed, string(fault.ProviderError), fault.ServerError},          // INTERNAL
	14: {media.Failed, string(fault.ProviderError), fault.Overloaded},           // UNAVAILABLE
	16: {media.Failed, string(fault.ProviderError), fault.Auth},                 // UNAUTHENTICATED
}

// decode reads the answer to a question for an operation. An operation that is not done runs; of one that is, an error comes
// before a video, and a video before what was filtered.
func decode(text string) (provider.Status, error) {
	op, err := operation(text)
	if err != nil {
		return provider.Status{}, err
	}
	failed, done := op.Get("error"), op.Get("done")
	switch {
	case failed.IsObject():
		return failure(failed.Get("code").Int()), nil
	case done.Type == gjson.True:
		return finished(op.Get("response.generateVideoResponse")), nil
	case !done.Exists(), done.Type == gjson.False, done.Type == gjson.Null:
		return provider.Status{State: media.Running}, nil
	default:
		return provider.Status{State: media.Running, Strange: strange(done.Raw)}, nil
	}
}

// strange bounds a word that nobody knows.
func strange(raw string) string { return "done: " + raw[:min(len(raw), 64)] }

func failure(code int64) provider.Status {
	end, known := ended[code]
	switch {
	case !known:
		return wire.Failed(string(fault.ProviderError), fault.Unknown)
	case end.state == media.Cancelled:
		return provider.Status{State: media.Cancelled}
	default:
		return wire.Failed(end.code, end.class)
	}
}

// finished reads the response of an operation that is done.
func finished(response gjson.Result) provider.Status {
	for _, sample := range response.Get("generatedSamples").Array() {
		if a := artifact(sample.Get("video")); a != nil {
			return provider.Status{State: media.Succeeded, Progress: 100, Artifact: a}
		}
	}
	if response.Get("raiMediaFilteredCount").Int() > 0 || len(response.Get("raiMediaFilteredReasons").Array()) > 0 {
		return wire.Failed(media.ContentFilter, fault.ContentPolicy)
	}
	return wire.Empty()
}

// artifact is a video at an address or in the answer; nil: neither.
func artifact(video gjson.Result) *provider.Artifact {
	if uri := video.Get("uri").Str; uri != "" {
		return &provider.Artifact{URL: uri, ContentType: video.Get("encoding").Str}
	}
	data, err := base64.StdEncoding.DecodeString(video.Get("encodedVideo").Str)
	if err != nil || len(data) == 0 {
		return nil
	}
	return &provider.Artifact{Body: io.NopCloser(bytes.NewReader(data)), ContentType: video.Get("encoding").Str, Size: int64(len(data))}
}
