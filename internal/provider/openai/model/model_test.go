package model_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"spillway/internal/chat"
	"spillway/internal/provider/openai/model"
)

func TestOf(t *testing.T) {
	const plain, fixed, unlessNone = "does not reason", "never samples", "samples with the effort none"
	for id, want := range map[chat.RoutedModel]string{
		"o1": fixed, "o3-pro": fixed, "o4-mini-2025-04-16": fixed, "o3-deep-research": fixed,
		"gpt-5": fixed, "gpt-5-mini": fixed, "gpt-5-codex": fixed, "gpt-5-2025-08-07": fixed, "gpt-6": fixed, "gpt-6.1-sol": fixed, "gpt-6-astra": fixed,
		"gpt-10": fixed, "gpt-5.1": unlessNone, "gpt-5.4-mini": unlessNone, "gpt-5.6": unlessNone, "gpt-5.1-codex-max": unlessNone,
		"gpt-4o": plain, "gpt-4.1": plain, "gpt-4": plain, "gpt-3.5-turbo": plain, "gpt-5-chat-latest": plain, "gpt-5-chat": plain,
		"gpt-oss-120b": plain, "openai/gpt-5": plain, "ft:gpt-5:acme": plain, "omni": plain, "o": plain, "grok-4": plain, "": plain,
		"gpt-99999999999999999999": plain,
	} {
		t.Run(string(id), func(t *testing.T) {
			m := model.Of(id)
			got := plain
			switch {
			case m.Reasons && m.Samples("none"):
				got = unlessNone
			case m.Reasons:
				got = fixed
			}
			assert.Equal(t, want, got)
			assert.Equal(t, !m.Reasons, m.Samples(""), "an effort that is not set is not none")
			assert.Equal(t, !m.Reasons, m.Samples("low"))
		})
	}
}
