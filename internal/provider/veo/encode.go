package veo

import (
	"fmt"
	"math"

	"spillway/internal/media"
	"spillway/internal/provider/wire"
)

// The body, as far as it is used. The names are those of google.golang.org/genai v1.77.0, generateVideosConfigToMldev
// (2026-11-30), which has no seed and no fps for this API.
type (
	request struct {
		Instances  []instance `json:"instances"`
		Parameters parameters `json:"parameters"`
	}
	instance struct {
		Prompt string `json:"prompt"`
		Image  *image `json:"image,omitzero"`
	}
	image struct {
		Data      string `json:"bytesBase64Encoded"`
		MediaType string `json:"mimeType"`
	}
	parameters struct {
		Aspect   string `json:"aspectRatio,omitzero"`
		Size     string `json:"resolution,omitzero"`
		Seconds  int    `json:"durationSeconds,omitzero"`
		Negative string `json:"negativePrompt,omitzero"`
	}
)

// encode writes the body from the order alone.
func encode(o *media.Order) ([]byte, *wire.Refusal) {
	in := instance{Prompt: o.Prompt}
	switch {
	case o.Kind != media.Video:
		return nil, &wire.Refusal{Param: "model", Why: "it makes videos only"}
	case o.Seed != nil:
		return nil, &wire.Refusal{Param: "seed", Why: "the API has none"}
	case o.Seconds != math.Trunc(o.Seconds):
		return nil, &wire.Refusal{Param: "seconds", Why: "they are whole ones there"}
	}
	if o.Reference != "" {
		mediaType, data, ok := o.Picture()
		if !ok {
			return nil, &wire.Refusal{Param: "input_reference", Why: "the picture must be in the request, as a data URL with base64: none is fetched from an address"}
		}
		in.Image = &image{data, mediaType}
	}
	p := parameters{Aspect: o.Aspect(), Size: o.Resolution(), Seconds: int(o.Seconds), Negative: o.NegativePrompt}
	if o.Width != 0 && (p.Aspect != "16:9" && p.Aspect != "9:16" || p.Size == "" || p.Size == "480p") {
		return nil, &wire.Refusal{Param: "size", Why: fmt.Sprintf("%dx%d is none of 1280x720, 1920x1080, 3840x2160 and these upright", o.Width, o.Height)}
	}
	body, err := wire.JSON(request{[]instance{in}, p})
	if err != nil {
		return nil, &wire.Refusal{Param: "prompt", Why: "it cannot be written as JSON"}
	}
	return body, nil
}
