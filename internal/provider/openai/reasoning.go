package openai

import (
	"slices"

	"spillway/internal/chat"
	"spillway/internal/provider"
	"spillway/internal/provider/openai/model"
)

// dialectFor is how a call's chat completions differ from OpenAI's: by its vendor and, at those who serve OpenAI's own models
// under their names, by its model. One that reasons has a developer where others have a system, counts its reasoning into
// the output limit, which has another name therefore, and takes less of what steers or shows its tokens
// (reference/providers.md §3.2, 2026-11-30).
func dialectFor(c provider.Call) *dialect {
	d := dialectOf(c.Channel.Provider.Vendor)
	m := model.Of(c.Channel.Model)
	if !d.servesOpenAI || !m.Reasons {
		return d
	}
	own := *d
	own.limit = newLimit
	own.drops = slices.Concat(d.drops, []string{"frequency_penalty", "presence_penalty", "logit_bias"})
	effort := c.Channel.Capabilities.Effort(c.Request.Effort)
	if slices.Contains(c.Channel.Capabilities.Drops, "reasoning_effort") {
		effort = ""
	}
	if !m.Samples(effort) {
		own.drops = append(own.drops, "temperature", "top_p", "logprobs", "top_logprobs")
	}
	if slices.ContainsFunc(c.Request.Messages, func(m chat.Message) bool { return m.Role == chat.System }) {
		own.roles = map[string]string{string(chat.System): string(chat.Developer)} // else the messages stay as written
	}
	return &own
}
