package simulate

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// veo is POST /v1beta/models/{model}:predictLongRunning, GET of the operation that it begins, and GET of the file that the
// operation ends with, which wants the key too.
// Shapes: reference/providers.md §1.3, §5.2; https://ai.google.dev/gemini-api/docs/video (2026-11-30).
type veo struct{}

func (veo) name() string { return "veo" }

func (veo) speaks(path string, h http.Header) bool {
	rest, ok := strings.CutPrefix(path, "/models/")
	return ok && (strings.Contains(rest, ":") || strings.Contains(rest, "/operations/")) ||
		strings.HasPrefix(path, "/files/") && strings.HasSuffix(path, ":download") || h.Get("X-Goog-Api-Key") != ""
}

func (veo) read(path string, _ []byte) errand {
	if rest, ok := strings.CutPrefix(path, "/files/"); ok {
		if id, ok := strings.CutSuffix(rest, ":download"); ok {
			return errand{deed: downloads, job: id}
		}
	}
	rest, ok := strings.CutPrefix(path, "/models/")
	if !ok {
		return errand{}
	}
	if model, ok := strings.CutSuffix(rest, ":predictLongRunning"); ok {
		return errand{deed: begins, model: model}
	}
	if model, id, ok := strings.Cut(rest, "/operations/"); ok {
		return errand{deed: polls, model: model, job: id}
	}
	return errand{}
}

func (veo) admit(_ deed, h http.Header) *failure { return gemini{}.admit(h) }

// veoOrder has the members of google.golang.org/genai v1.77.0, generateVideosParametersToMldev (2026-11-30).
type veoOrder struct {
	Instances []struct {
		Prompt string    `json:"prompt"`
		Image  *veoImage `json:"image"`
		Last   *veoImage `json:"lastFrame"`
		Refs   []any     `json:"referenceImages"`
		Video  any       `json:"video"`
	} `json:"instances"`
	Parameters struct {
		Aspect   string `json:"aspectRatio"`
		Seconds  *int   `json:"durationSeconds"`
		Size     string `json:"resolution"`
		Negative string `json:"negativePrompt"`
		Persons  string `json:"personGeneration"`
		Samples  *int   `json:"sampleCount"`
	} `json:"parameters"`
}

type veoImage struct {
	Data string `json:"bytesBase64Encoded"`
	MIME string `json:"mimeType"`
}

func (i *veoImage) bad() bool {
	return i != nil && (!isBase64(i.Data) || !strings.HasPrefix(i.MIME, "image/"))
}

func (veo) judge(body []byte, _ url.Values) (string, *failure) {
	var in veoOrder
	if f := strictly(body, &in, "Invalid JSON payload received.", `Invalid JSON payload received. Unknown name "%s": Cannot find field.`); f != nil {
		return "", f
	}
	p := in.Parameters
	switch {
	case len(in.Instances) != 1:
		return "", invalid("Exactly one instance is supported.")
	case strings.TrimSpace(in.Instances[0].Prompt) == "":
		return "", invalid("prompt is required.")
	case in.Instances[0].Image.bad(), in.Instances[0].Last.bad():
		return "", invalid("Invalid value at 'instances[0].image': bytesBase64Encoded and mimeType are required.")
	case !slices.Contains([]string{"", "16:9", "9:16"}, p.Aspect):
		return "", invalid("aspectRatio '" + p.Aspect + "' is not supported.")
	case !slices.Contains([]string{"", "720p", "1080p", "4k"}, p.Size):
		return "", invalid("resolution '" + p.Size + "' is not supported.")
	case p.Seconds != nil && !slices.Contains([]int{4, 6, 8}, *p.Seconds):
		return "", invalid("durationSeconds is out of range: supported durations are 4, 6 and 8 seconds.")
	case p.Samples != nil && *p.Samples != 1:
		return "", invalid("sampleCount is out of range: one video is made.")
	}
	return in.Instances[0].Prompt, nil
}

func (veo) operation(j job) string { return "models/" + j.Model + "/operations/" + j.ID }

func (v veo) accepted(_ errand, j job) Reply {
	return Reply{Body: string(object("name", v.operation(j)))}
}

// tell answers a question for an operation.
func (v veo) tell(e errand, j job) Reply {
	done, members := any(j.ended()), []any{}
	switch {
	case j.Polls <= j.conduct.strange:
		done = "nearly"
	case !j.ended():
	case j.conduct.failed:
		members = []any{"error", object("code", 13, "message", "An internal error has occurred. Please retry.")}
	default:
		members = []any{"response", object("@type", "type.googleapis.com/google.ai.generativelanguage.v1beta.PredictLongRunningResponse",
			"generateVideoResponse", v.response(e, j))}
	}
	return Reply{Body: string(object(append([]any{"name", v.operation(j), "done", done}, members...)...))}
}

// response is what an operation ends with.
func (veo) response(e errand, j job) any {
	switch {
	case j.conduct.filtered:
		return object("raiMediaFilteredCount", 1, "raiMediaFilteredReasons", []string{"The video was filtered: its prompt may violate the usage guidelines."})
	case j.conduct.empty:
		return object()
	default:
		return object("generatedSamples", list(object("video", object("uri", e.base+"/files/"+j.ID+":download?alt=media"))))
	}
}

func (veo) refuse(f failure) Reply { return gemini{}.refuse(f, 0) }

func (veo) identify(int) http.Header { return nil }
