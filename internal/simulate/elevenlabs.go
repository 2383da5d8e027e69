package simulate

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// elevenLabs is POST /v1/music, which answers with the sound itself when it is made.
// Shapes: reference/providers.md §5.3; https://elevenlabs.io/docs/api-reference/music/compose (2026-11-30).
type elevenLabs struct{}

func (elevenLabs) name() string { return "elevenlabs" }

func (elevenLabs) speaks(path string, h http.Header) bool {
	return path == "/music" || strings.HasPrefix(path, "/music/") || h.Get("Xi-Api-Key") != ""
}

func (elevenLabs) read(path string, body []byte) errand {
	if path != "/music" {
		return errand{}
	}
	var in struct {
		Model string `json:"model_id"`
	}
	_ = json.Unmarshal(body, &in) // judge says what is wrong with it
	if in.Model == "" {
		in.Model = "music_v1"
	}
	return errand{deed: begins, model: in.Model}
}

func (elevenLabs) admit(_ deed, h http.Header) *failure {
	switch key := h.Get("Xi-Api-Key"); {
	case key == "":
		return &failure{kind: noKey}
	case strings.HasPrefix(key, "bad"):
		return &failure{kind: badKey}
	}
	return nil
}

// elevenLabsOrder has the members of @elevenlabs/elevenlabs-js 2.73.0 but for composition plans (2026-11-30).
type elevenLabsOrder struct {
	Prompt       string   `json:"prompt"`
	Model        string   `json:"model_id"`
	Length       *float64 `json:"music_length_ms"`
	Instrumental bool     `json:"force_instrumental"`
}

func (elevenLabs) judge(body []byte, query url.Values) (string, *failure) {
	var in elevenLabsOrder
	switch name, ok := decodeStrictly(body, &in); {
	case name != "":
		return "", &failure{kind: newMember, param: name}
	case !ok:
		return "", &failure{kind: badMember, param: "body", message: "Input should be a valid dictionary"}
	case strings.TrimSpace(in.Prompt) == "":
		return "", &failure{kind: noMember, param: "prompt"}
	case in.Length != nil && (*in.Length < 10_000 || *in.Length > 300_000):
		return "", &failure{kind: badMember, param: "music_length_ms", message: "Input should be between 10000 and 300000"}
	case query.Has("output_format") && !strings.HasPrefix(query.Get("output_format"), "mp3_"):
		return "", &failure{kind: badMember, param: "output_format", message: "The simulated provider makes mp3 only"}
	}
	return in.Prompt, nil
}

// accepted is the work, as long after the order as a job takes.
func (elevenLabs) accepted(_ errand, j job) Reply {
	switch {
	case j.conduct.endless:
		return Reply{Status: NoAnswer, End: Stall}
	case j.conduct.empty:
		return Reply{Delay: j.takes, Body: "{}"}
	default:
		return Reply{Delay: j.takes, Header: http.Header{"Song-Id": {j.ID}}, work: &work{id: j.ID, of: j.API, size: j.Size}}
	}
}

// tell is never asked for: there is nothing to ask for but the order.
func (e elevenLabs) tell(errand, job) Reply { return e.refuse(failure{kind: badPath}) }

// elevenLabsWords: reference/providers.md §1.11, §5.3; https://elevenlabs.io/docs/developers/resources/errors (2026-11-30).
var elevenLabsWords = map[kind]spelling{
	badPath:       {status: 404},
	badMethod:     {status: 405, message: "Method Not Allowed"},
	noKey:         {status: 401, code: "needs_authorization", message: "Neither authorization header nor xi-api-key received, please provide one."},
	badKey:        {status: 401, code: "invalid_api_key", message: "Invalid API key"},
	noModel:       {status: 400, code: "model_not_found"},
	noMember:      {status: 422, typ: "missing", message: "Field required"},
	newMember:     {status: 422, typ: "extra_forbidden", message: "Extra inputs are not permitted"},
	badMember:     {status: 422, typ: "value_error"},
	contentPolicy: {status: 400, code: "bad_prompt", message: "The prompt was refused: it may violate the terms of service."},
	throttled:     {status: 429, code: "too_many_concurrent_requests", message: "Too many concurrent requests."},
	unavailable:   {status: 503, code: "service_unavailable", message: "The service is unavailable."},
}

func (elevenLabs) refuse(f failure) Reply { return detailed(f, elevenLabsWords) }

func (elevenLabs) identify(n int) http.Header { return http.Header{"Request-Id": {RequestID(n)}} }
