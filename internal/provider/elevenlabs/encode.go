package elevenlabs

import (
	"math"
	"slices"
	"strings"

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

// kept begin the output formats whose files are known by their first bytes. The others of the API are bare samples (pcm_44100, ulaw_8000,
// alaw_8000; https://elevenlabs.io/docs/api-reference/music/compose, 2026-11-30), which whoever keeps works takes for none.
var kept = []string{"mp3_", "opus_", "wav_"}

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
	if f := o.OutputFormat; f != "" && !slices.ContainsFunc(kept, func(kind string) bool { return strings.HasPrefix(f, kind) }) {
		return nil, &refusal{"output_format", "only " + strings.Join(kept, ", ") + " say in the file itself what they are: any other would be paid for, and not be told from noise"}
	}
	body, err := wire.JSON(request{Prompt: o.Prompt, Model: model, Length: int64(math.Round(o.Seconds * 1000)), Instrumental: o.Instrumental})
	if err != nil {
		return nil, &refusal{"prompt", "it cannot be written as JSON"}
	}
	return body, nil
}
