package simulate

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// fal is POST /{model}, which puts an order into the queue, and what the answer gives addresses for: GET of its status and of
// its result, PUT that cancels it. The work stands at another host of fal's, here under /files/b/, and asks for no key.
// Shapes: reference/providers.md §5.3; https://fal.ai/docs/documentation/model-apis/inference/queue (2026-11-30).
type fal struct{}

const falFiles = "/files/b/"

func (fal) name() string { return "fal" }

func (fal) speaks(path string, h http.Header) bool {
	return strings.HasPrefix(path, "/"+healthyModels["fal"]) || strings.HasPrefix(path, falFiles) || strings.HasPrefix(h.Get("Authorization"), "Key ")
}

func (fal) read(path string, _ []byte) errand {
	if rest, ok := strings.CutPrefix(path, falFiles); ok {
		id, name, _ := strings.Cut(rest, "/")
		if name != falOutput {
			return errand{}
		}
		return errand{deed: downloads, job: id}
	}
	model, rest, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/requests/")
	if !ok {
		return errand{deed: begins, model: model}
	}
	id, last, _ := strings.Cut(rest, "/")
	d := map[string]deed{"": collects, "response": collects, "status": polls, "cancel": cancels}[last]
	return errand{deed: d, model: model, job: id}
}

// admit lets nobody show a key where the works are: it would be told to another host.
func (fal) admit(d deed, h http.Header) *failure {
	credential := h.Get("Authorization")
	key, ok := strings.CutPrefix(credential, "Key ")
	switch {
	case d == downloads && credential != "":
		return &failure{kind: badRequest, message: "This host must not get a key"}
	case d == downloads:
		return nil
	case !ok || key == "":
		return &failure{kind: noKey}
	case strings.HasPrefix(key, "bad"):
		return &failure{kind: badKey}
	}
	return nil
}

// falOrder has the members of https://fal.ai/models/fal-ai/veo3.1/llms.txt (2026-11-30).
type falOrder struct {
	Prompt   string `json:"prompt"`
	Duration string `json:"duration"`
	Aspect   string `json:"aspect_ratio"`
	Size     string `json:"resolution"`
	Image    string `json:"image_url"`
	Negative string `json:"negative_prompt"`
	Seed     *int64 `json:"seed"`
}

func (fal) judge(body []byte, _ url.Values) (string, *failure) {
	var in falOrder
	switch name, ok := decodeStrictly(body, &in); {
	case name != "":
		return "", &failure{kind: newMember, param: name}
	case !ok:
		return "", &failure{kind: badMember, param: "body", message: "value is not a valid dict"}
	case strings.TrimSpace(in.Prompt) == "":
		return "", &failure{kind: noMember, param: "prompt"}
	case !slices.Contains([]string{"", "4s", "6s", "8s"}, in.Duration):
		return "", &failure{kind: badMember, param: "duration", message: "unexpected value; permitted: '4s', '6s', '8s'"}
	case !slices.Contains([]string{"", "16:9", "9:16"}, in.Aspect):
		return "", &failure{kind: badMember, param: "aspect_ratio", message: "unexpected value; permitted: '16:9', '9:16'"}
	case !slices.Contains([]string{"", "720p", "1080p", "4k"}, in.Size):
		return "", &failure{kind: badMember, param: "resolution", message: "unexpected value; permitted: '720p', '1080p', '4k'"}
	case in.Image != "" && !validImageURL(in.Image):
		return "", &failure{kind: badMember, param: "image_url", message: "invalid or missing URL scheme"}
	}
	return in.Prompt, nil
}

func (fal) accepted(e errand, j job) Reply {
	r := Reply{Body: string(object(append([]any{"status", "IN_QUEUE", "queue_position", j.ahead(time.Now())}, falRequest(e, j)...)...))}
	return r.WithHeader("X-Fal-Request-Id", j.ID)
}

// falRequest are the members that name a request of the queue.
func falRequest(e errand, j job) []any {
	at := e.base + "/" + j.Model + "/requests/" + j.ID
	return []any{"request_id", j.ID, "response_url", at, "status_url", at + "/status", "cancel_url", at + "/cancel"}
}

func (f fal) tell(e errand, j job) Reply {
	switch e.deed {
	case cancels:
		return f.stopped(j)
	case collects:
		return f.result(e, j)
	default:
		return f.status(e, j)
	}
}

// status is 202 while the request waits or is worked on. COMPLETED stands for what failed too.
func (fal) status(e errand, j job) Reply {
	word, code := map[string]string{JobQueued: "IN_QUEUE", JobRunning: "IN_PROGRESS"}[j.State], http.StatusAccepted
	members := falRequest(e, j)
	switch {
	case j.Polls <= j.conduct.strange:
		word = "WARMING_UP"
	case j.State == JobQueued:
		members = append(members, "queue_position", j.ahead(time.Now()))
	case !j.ended():
	case j.State == JobCancelled:
		word, code, members = "COMPLETED", http.StatusOK, append(members, "error", "Request was cancelled", "error_type", "client_cancelled")
	case j.conduct.failed:
		word, code, members = "COMPLETED", http.StatusOK, append(members, "error", "Runner failed", "error_type", "runner_server_error")
	default:
		word, code, members = "COMPLETED", http.StatusOK, append(members, "metrics", object("inference_time", (j.takes-j.takes/3).Seconds()))
	}
	return Reply{Status: code, Body: string(object(append([]any{"status", word}, members...)...))}
}

const falOutput = "output.mp4"

// result is what the model itself answered.
func (f fal) result(e errand, j job) Reply {
	switch {
	case !j.ended():
		return f.refuse(failure{kind: badRequest, message: "Request is still in progress"})
	case j.State == JobCancelled:
		return f.refuse(failure{kind: badRequest, message: "Request was cancelled"})
	case j.conduct.failed:
		return f.refuse(failure{kind: serverError})
	case j.conduct.empty:
		return Reply{Body: string(object("seed", 1))}
	}
	return Reply{Body: string(object("video", object("url", e.base+falFiles+j.ID+"/"+falOutput, "content_type", "video/mp4", "file_name", falOutput, "file_size", j.Size)))}
}

// stopped answers a cancellation: what waits is taken out of the queue, what runs is asked to stop
// (https://fal.ai/docs/inference-api/queue/cancel, 2026-11-30).
func (fal) stopped(j job) Reply {
	switch j.before {
	case JobQueued:
		return Reply{Body: `{"status":"OK"}`}
	case JobRunning:
		return Reply{Status: http.StatusAccepted, Body: `{"status":"CANCELLATION_REQUESTED"}`}
	default:
		return Reply{Status: http.StatusBadRequest, Body: `{"status":"ALREADY_COMPLETED"}`}
	}
}

// falWords: https://fal.ai/docs/documentation/model-apis/errors, …/request-errors (2026-11-30). A failure with a type
// is a list of details.
var falWords = map[kind]spelling{
	badRequest:    {status: 400},
	badPath:       {status: 404},
	badMethod:     {status: 405, message: "Method Not Allowed"},
	noKey:         {status: 401, message: "Authentication is required to access this application."},
	badKey:        {status: 401, message: "No user found for Key ID and Secret"},
	noModel:       {status: 404},
	noJob:         {status: 404, message: "Request not found"},
	noFile:        {status: 404, message: "File not found"},
	expired:       {status: 403, message: "Access denied"},
	noMember:      {status: 422, typ: "value_error.missing", message: "field required"},
	newMember:     {status: 422, typ: "value_error.extra", message: "extra fields not permitted"},
	badMember:     {status: 422, typ: "value_error.const"},
	contentPolicy: {status: 422, typ: "content_policy_violation", param: "prompt", message: "The content could not be processed because it contained material flagged by a content checker."},
	throttled:     {status: 429, message: "Too many requests"},
	noQuota:       {status: 403, message: "User is locked. Reason: Exhausted balance. Top up your balance at fal.ai/dashboard/billing."},
	serverError:   {status: 500, typ: "internal_server_error", message: "Internal server error"},
	unavailable:   {status: 503, message: "Service unavailable"},
}

func (fal) refuse(f failure) Reply {
	if f.kind == noCancel {
		return Reply{Status: http.StatusNotFound, Body: `{"status":"NOT_FOUND"}`}
	}
	return detailed(f, falWords)
}

// detailed spells a failure as FastAPI does: a sentence, or a list of what is wrong with which member.
func detailed(f failure, words map[kind]spelling) Reply {
	s := f.spell(words)
	r := Reply{Status: s.status, Header: f.retryAfter()}
	switch {
	case s.typ != "" && s.param != "":
		r.Body = string(object("detail", list(object("loc", []string{"body", s.param}, "msg", s.message, "type", s.typ))))
	case s.typ != "":
		r.Body = string(object("detail", list(object("loc", []string{"body"}, "msg", s.message, "type", s.typ))))
	case s.code != "":
		r.Body = string(object("detail", object("status", s.code, "message", s.message)))
	default:
		r.Body = string(object("detail", s.message))
	}
	return r
}

func (fal) identify(n int) http.Header { return http.Header{"X-Fal-Request-Id": {RequestID(n)}} }
