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

// encode writes the body from the order alone.
func encode(o *media.Order, model string) ([]byte, *wire.Refusal) {
	switch {
	case o.Kind != media.Music:
		return nil, &wire.Refusal{Param: "model", Why: "it makes music only"}
	case o.Seed != nil:
		return nil, &wire.Refusal{Param: "seed", Why: "the API takes one beside a composition plan only"}
	case o.NegativePrompt != "":
		return nil, &wire.Refusal{Param: "negative_prompt", Why: "the API has none beside a prompt"}
	}
	if f := o.OutputFormat; f != "" && !slices.ContainsFunc(kept, func(kind string) bool { return strings.HasPrefix(f, kind) }) {
		return nil, &wire.Refusal{Param: "output_format", Why: "only " + strings.Join(kept, ", ") + " say in the file itself what they are: any other would be paid for, and not be told from noise"}
	}
	body, err := wire.JSON(request{Prompt: o.Prompt, Model: model, Length: int64(math.Round(o.Seconds * 1000)), Instrumental: o.Instrumental})
	if err != nil {
		return nil, &wire.Refusal{Param: "prompt", Why: "it cannot be written as JSON"}
	}
	return body, nil
}
