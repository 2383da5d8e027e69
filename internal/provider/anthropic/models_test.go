package anthropic_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/provider/anthropic"
)

// TestCannot: what makes a channel be passed by is the same that the adapter would refuse.
func TestCannot(t *testing.T) {
	never := []catalog.Feature{catalog.Choices, catalog.LogProbs, catalog.LogitBias, catalog.Audio, catalog.CustomTools, catalog.JSONObject, catalog.PlainHTTP}
	for name, c := range map[string]struct {
		model chat.RoutedModel
		more  []catalog.Feature
	}{
		"a model that thinks when it must and takes no forced tool": {"claude-opus-5-5", []catalog.Feature{catalog.ForcedTool, catalog.Prefill}},
		"one that takes a forced tool":                              {"claude-opus-5-20260901", []catalog.Feature{catalog.Prefill}},
		"one of before 4-6":                                         {"claude-sonnet-4-5-20250929", nil},
		"a name that the table does not have":                       {"claude-next", []catalog.Feature{catalog.Prefill}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.ElementsMatch(t, append(never[:len(never):len(never)], c.more...), (&anthropic.Provider{}).Cannot(c.model))
		})
	}
}
