package fal

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"spillway/internal/media"
	"spillway/internal/provider/wire"
)

// A family is what the models of one maker take. Each of fal's models has members of its own and leaves others out without a
// word, so that a member that is not listed is refused.
type family struct {
	// prefix of the model's id; the first that fits counts.
	prefix string
	kind   media.Kind
	// takes are the members of an order that the models have words for, beside model and prompt.
	takes []string
	// seconds writes a length as the models want it.
	seconds func(float64) (member string, value any)
	source  string
	date    string
}

// Forms of a length.
func withUnit(s float64) (string, any)     { return "duration", number(s) + "s" }
func asText(s float64) (string, any)       { return "duration", number(s) }
func asNumber(s float64) (string, any)     { return "duration", s }
func milliseconds(s float64) (string, any) { return "music_length_ms", math.Round(s * 1000) }

func number(s float64) string { return strconv.FormatFloat(s, 'f', -1, 64) }

// families are the models that are known. Any other of fal's takes a prompt.
var families = []family{
	{"fal-ai/veo3", media.Video, []string{"seconds", "size", "input_reference", "negative_prompt", "seed"}, withUnit, "https://fal.ai/models/fal-ai/veo3.1/llms.txt", "2026-11-30"},
	{"kling/v4/", media.Video, []string{"seconds", "size"}, asNumber, "https://fal.ai/models/kling/v4/text-to-video/llms.txt", "2026-11-30"},
	{"fal-ai/kling-video/v2/", media.Video, []string{"seconds", "negative_prompt"}, asText, "https://fal.ai/models/fal-ai/kling-video/v2/master/text-to-video/llms.txt", "2026-11-30"},
	{"elevenlabs/music/", media.Music, []string{"length_seconds", "music_length_ms", "instrumental", "force_instrumental"}, milliseconds, "https://fal.ai/models/elevenlabs/music/v2/llms.txt", "2026-11-30"},
	{"fal-ai/elevenlabs/music", media.Music, []string{"length_seconds", "music_length_ms", "instrumental", "force_instrumental"}, milliseconds, "https://fal.ai/models/fal-ai/elevenlabs/music/llms.txt", "2026-11-30"},
}

func familyOf(model string) family {
	for _, f := range families {
		if strings.HasPrefix(model, f.prefix) {
			return f
		}
	}
	return family{}
}

// encode writes the body of a model from the order alone.
func encode(o *media.Order, model string) ([]byte, *wire.Refusal) {
	f := familyOf(model)
	if f.kind != "" && f.kind != o.Kind {
		return nil, &wire.Refusal{Param: "model", Why: "it makes " + string(f.kind) + " only"}
	}
	for _, name := range o.Asked() {
		if !slices.Contains(f.takes, name) {
			return nil, &wire.Refusal{Param: name, Why: "nothing is known of the model that has words for it"}
		}
	}
	body := map[string]any{"prompt": o.Prompt}
	if o.Seconds != 0 {
		member, value := f.seconds(o.Seconds)
		body[member] = value
	}
	if o.Width != 0 {
		if o.Resolution() == "" {
			return nil, &wire.Refusal{Param: "size", Why: "its shorter side must be 480, 720, 1080 or 2160"}
		}
		body["aspect_ratio"], body["resolution"] = o.Aspect(), o.Resolution()
	}
	if o.Reference != "" && !strings.HasSuffix(model, "/image-to-video") {
		return nil, &wire.Refusal{Param: "input_reference", Why: "the model whose name ends with image-to-video takes it"}
	}
	if o.Reference != "" {
		body["image_url"] = o.Reference
	}
	if o.NegativePrompt != "" {
		body["negative_prompt"] = o.NegativePrompt
	}
	if o.Seed != nil {
		body["seed"] = *o.Seed
	}
	if o.Instrumental {
		body["force_instrumental"] = true
	}
	written, err := wire.JSON(body)
	if err != nil {
		return nil, &wire.Refusal{Param: "prompt", Why: "it cannot be written as JSON"}
	}
	return written, nil
}
