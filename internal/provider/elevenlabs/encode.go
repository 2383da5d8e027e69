package elevenlabs

import (
	"math"

	"spillway/internal/media"
	"spillway/internal/provider/wire"
)

// request is the body, as far as it is used: @elevenlabs/elevenlabs-js 2.73.0 (reference/providers.md §5.3, 2026-11-30).
type request struct {
	Prompt       string `json:"prompt"`
	Model        string `json:"model_id"`
	Length       int64  `json:"music_length_ms,omitzero"`
	Instrumental bool   `json:"force_instrumental,omitzero"`
}

// refusal is a member that the API has no words for.
type refusal struct{ param, why string }

// encode writes the body from the order alone.
func encode(o *media.Order, model string) ([]byte, *refusal) {
	switch {
	case o.Kind != media.Music:
		return nil, &refusal{"model", "it makes music only"}
	case o.Seed != nil:
		return nil, &refusal{"seed", "the API takes one beside a composition plan only"}
	case o.NegativePrompt != "":
		return nil, &refusal{"negative_prompt", "the API has none beside a prompt"}
	}
	body, err := wire.JSON(request{Prompt: o.Prompt, Model: model, Length: int64(math.Round(o.Seconds * 1000)), Instrumental: o.Instrumental})
	if err != nil {
		return nil, &refusal{"prompt", "it cannot be written as JSON"}
	}
	return body, nil
}
