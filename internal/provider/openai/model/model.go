// Package model tells what OpenAI's models take, by their names.
package model

import (
	"regexp"
	"strconv"
	"strings"

	"spillway/internal/chat"
)

// Model is what a model takes. The zero value is one that does not reason, or that is not OpenAI's.
type Model struct {
	// Reasons: it reasons before it answers. It calls a system message a developer's, and takes neither penalties nor a
	// logit bias.
	Reasons bool
	// samples says when a model that reasons takes what steers or shows the choice of tokens.
	samples sampling
}

// sampling is when a model that reasons takes temperature, top_p and logprobs.
type sampling bool

const (
	never         sampling = false
	withoutEffort sampling = true // with the effort none alone
)

// The names (reference/providers.md §3.2, 2026-11-30): o1, o3-pro; gpt-5, gpt-5.4-mini, gpt-6-astra.
var (
	oSeries   = regexp.MustCompile(`^o(\d+)(-|$)`)
	gptSeries = regexp.MustCompile(`^gpt-(\d+)(?:\.(\d+))?(?:-(.+))?$`)
)

// Of finds a model by its name. The snapshots of a model are like the model.
func Of(id chat.RoutedModel) Model {
	if oSeries.MatchString(string(id)) {
		return Model{Reasons: true, samples: never}
	}
	m := gptSeries.FindStringSubmatch(string(id))
	if m == nil {
		return Model{}
	}
	major, err := strconv.Atoi(m[1])
	switch {
	case err != nil || major < 5, major == 5 && m[2] == "" && strings.HasPrefix(m[3], "chat"):
		return Model{}
	case major == 5 && m[2] != "":
		return Model{Reasons: true, samples: withoutEffort}
	default:
		return Model{Reasons: true, samples: never}
	}
}

// Samples reports whether the model takes temperature, top_p and logprobs, with a reasoning effort in OpenAI's words or
// with none set.
func (m Model) Samples(effort string) bool {
	return !m.Reasons || m.samples == withoutEffort && effort == "none"
}
