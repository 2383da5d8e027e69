package fal

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"spillway/internal/catalog"
	"spillway/internal/fault"
	"spillway/internal/media"
	"spillway/internal/provider"
	"spillway/internal/provider/wire"
)

var (
	errNoRequest = errors.New("the answer names no request of the queue")
	errNoStatus  = errors.New("the answer has no status")
	errNoResult  = errors.New("the answer is no JSON object")
	errNoHandle  = errors.New("the handle is none of this adapter's")
)

// handle is where a request of the queue is asked for: paths at the provider's own address, so that its key goes nowhere else
// whatever an answer says.
type handle struct {
	Status   string `json:"status"`
	Response string `json:"response"`
	Cancel   string `json:"cancel"`
}

func (h handle) String() string {
	text, _ := json.Marshal(h) // texts can be written
	return string(text)
}

func handleOf(upstream string) (handle, error) {
	var h handle
	if json.Unmarshal([]byte(upstream), &h) != nil || h.Status == "" || h.Response == "" || h.Cancel == "" {
		return handle{}, errNoHandle
	}
	return h, nil
}

// accepted is the handle of a request that the queue has taken. fal says that its addresses are not to be built; where an
// answer has the id alone, they are, of the first two parts of the model's path: better than a job that is lost.
func accepted(text string, ch *catalog.Channel) (handle, error) {
	if !wire.Valid(text) {
		return handle{}, errNoRequest
	}
	answer := gjson.Parse(text)
	h := handle{pathOf(answer.Get("status_url"), ch.Provider), pathOf(answer.Get("response_url"), ch.Provider), pathOf(answer.Get("cancel_url"), ch.Provider)}
	if h.Status != "" && h.Response != "" && h.Cancel != "" {
		return h, nil
	}
	id := answer.Get("request_id").Str
	if id == "" || strings.ContainsAny(id, "/?#.") || !utf8.ValidString(id) { // kept as another one than was given
		return handle{}, errNoRequest
	}
	owner, rest, _ := strings.Cut(string(ch.Model), "/")
	app, _, _ := strings.Cut(rest, "/")
	request := "/" + owner + "/" + app + "/requests/" + id
	return handle{request + "/status", request + "/response", request + "/cancel"}, nil
}

// pathOf is the path of an address below that of the provider; empty: it has none that can be asked for.
func pathOf(address gjson.Result, p *catalog.Provider) string {
	u, err := url.Parse(address.Str)
	if err != nil || !strings.HasPrefix(u.Path, "/") || strings.Contains(u.Path, "..") || !utf8.ValidString(u.Path) {
		return ""
	}
	if base, err := url.Parse(p.BaseURL); err == nil {
		return strings.TrimPrefix(u.Path, strings.TrimSuffix(base.Path, "/"))
	}
	return u.Path
}

// words are the states of the queue. IN_QUEUE, IN_PROGRESS and COMPLETED are all that fal documents
// (https://fal.ai/docs/documentation/model-apis/inference/queue, 2026-11-30); the others are said of it elsewhere
// (reference/providers.md §5.3, §5.4, 2026-11-30).
var words = map[string]media.State{
	"IN_QUEUE": media.Running, "IN_PROGRESS": media.Running, "CANCELLATION_REQUESTED": media.Running,
	"COMPLETED": media.Succeeded,
	"FAILED":    media.Failed, "ERROR": media.Failed,
	"CANCELED": media.Cancelled, "CANCELLED": media.Cancelled,
}

// errorTypes are what is not simply the provider's failure among the error types of a request
// (https://fal.ai/docs/documentation/model-apis/request-errors, 2026-11-30) and of a model
// (https://fal.ai/docs/documentation/model-apis/errors, 2026-11-30).
var errorTypes = map[string]provider.Status{
	"client_cancelled":         {State: media.Cancelled},
	"request_timeout":          wire.Failed(string(fault.ProviderTimeout), fault.Timeout),
	"startup_timeout":          wire.Failed(string(fault.ProviderTimeout), fault.Timeout),
	"generation_timeout":       wire.Failed(string(fault.ProviderTimeout), fault.Timeout),
	"bad_request":              wire.Failed(media.InvalidInput, fault.InvalidRequest),
	"content_policy_violation": wire.Failed(media.ContentFilter, fault.ContentPolicy),
	"no_media_generated":       wire.Empty(),
}

// decode reads a status.
func decode(text string) (provider.Status, error) {
	answer := gjson.Parse(text)
	word := answer.Get("status")
	if !wire.Valid(text) || !answer.IsObject() || word.Type != gjson.String {
		return provider.Status{}, errNoStatus
	}
	state, known := words[word.Str]
	failed := answer.Get("error")
	switch {
	case !known:
		return running(word.Str[:min(len(word.Str), 64)]), nil
	case state == media.Running:
		return running(""), nil
	case state == media.Cancelled:
		return provider.Status{State: media.Cancelled}, nil
	case state == media.Failed, answer.Get("error_type").Str != "", failed.IsObject(), failed.Str != "":
		return failedBy(answer), nil
	default:
		return provider.Status{State: media.Running, Progress: fetching, Hint: soon}, nil
	}
}

// failedBy is the status of a job that ended with an error.
func failedBy(answer gjson.Result) provider.Status {
	for _, path := range []string{"error_type", "error.type", "error.detail.0.type", "detail.0.type"} {
		if status, ok := errorTypes[answer.Get(path).Str]; ok {
			return status
		}
	}
	return wire.Failed(string(fault.ProviderError), fault.ServerError)
}

// verdict is what a refused question for a result says of the job: here, unlike elsewhere, an error is what the model itself
// answered, if it is in fal's own words. A refused key, a rate limit and a failure without a word are about the question.
func verdict(f *fault.Failure) (provider.Status, bool) {
	if s, ok := wire.Verdict(f); ok {
		return s, true
	}
	if s, ok := errorTypes[f.Type]; ok {
		return s, true
	}
	switch {
	case f.Local != "", !f.Parsed:
		return provider.Status{}, false
	case f.Class == fault.InvalidRequest, f.Class == fault.UnsupportedParameter:
		return wire.Failed(media.InvalidInput, fault.InvalidRequest), true
	case f.Status >= 500 && f.Type != "":
		return wire.Failed(string(fault.ProviderError), fault.ServerError), true
	default:
		return provider.Status{}, false
	}
}

// places are where models put what they have made, an object with its address or the address itself
// (the output schemas of https://fal.ai/models, 2026-11-30).
var places = map[media.Kind][]string{
	media.Video: {"video", "videos.0", "video_url"},
	media.Music: {"audio", "audio_file", "audios.0", "audio_url"},
}

// decodeResult reads what a model has made.
func decodeResult(kind media.Kind, text string) (provider.Status, error) {
	answer := gjson.Parse(text)
	if !wire.Valid(text) || !answer.IsObject() {
		return provider.Status{}, errNoResult
	}
	for _, path := range places[kind] {
		file := answer.Get(path)
		address := file.Str
		if file.IsObject() {
			address = file.Get("url").Str
		}
		if address == "" {
			continue
		}
		return provider.Status{State: media.Succeeded, Progress: 100, Artifact: &provider.Artifact{URL: address, ContentType: file.Get("content_type").Str,
			Size: max(file.Get("file_size").Int(), 0)}}, nil
	}
	return wire.Empty(), nil
}

// cancelled reports whether an answer says that a request was taken out of the queue
// (https://fal.ai/docs/inference-api/queue/cancel, 2026-11-30).
func cancelled(text string) bool { return wire.Valid(text) && gjson.Get(text, "status").Str == "OK" }
