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

// refusal is a member that cannot be put into Google's words without changing what the order means.
type refusal struct{ param, why string }

// encode writes the body from the order alone.
func encode(o *media.Order) ([]byte, *refusal) {
	in := instance{Prompt: o.Prompt}
	switch {
	case o.Kind != media.Video:
		return nil, &refusal{"model", "it makes videos only"}
	case o.Seed != nil:
		return nil, &refusal{"seed", "the API has none"}
	case o.Seconds != math.Trunc(o.Seconds):
		return nil, &refusal{"seconds", "they are whole ones there"}
	}
	if o.Reference != "" {
		mediaType, data, ok := o.Picture()
		if !ok {
			return nil, &refusal{"input_reference", "the picture must be in the request, as a data URL with base64: none is fetched from an address"}
		}
		in.Image = &image{data, mediaType}
	}
	p := parameters{Aspect: o.Aspect(), Size: o.Resolution(), Seconds: int(o.Seconds), Negative: o.NegativePrompt}
	if o.Width != 0 && (p.Aspect != "16:9" && p.Aspect != "9:16" || p.Size == "" || p.Size == "480p") {
		return nil, &refusal{"size", fmt.Sprintf("%dx%d is none of 1280x720, 1920x1080, 3840x2160 and these upright", o.Width, o.Height)}
	}
	body, err := wire.JSON(request{[]instance{in}, p})
	if err != nil {
		return nil, &refusal{"prompt", "it cannot be written as JSON"}
	}
	return body, nil
}
