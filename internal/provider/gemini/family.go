package gemini

import (
	"slices"
	"strconv"
	"strings"

	"spillway/internal/chat"
)

// family is what a model's name tells of what it takes. The zero value is a model that is no Gemini, or one of before 2.0: it
// takes the least.
type family struct {
	major, minor int
	pro          bool
}

// newest is the family of names without a number, such as gemini-flash-latest: they follow the models. Only those of Gemini
// 1.0 had none of their own (https://ai.google.dev/gemini-api/docs/changelog, 2026-11-30).
const newest = 3

var first = []string{"pro", "pro-vision", "ultra"}

func familyOf(m chat.RoutedModel) (f family) {
	_, name, ok := strings.Cut(string(m), "gemini-")
	if !ok {
		return f
	}
	f.pro = strings.Contains(name, "pro")
	number, _, _ := strings.Cut(name, "-")
	major, minor, _ := strings.Cut(number, ".")
	var err error
	if f.major, err = strconv.Atoi(major); err != nil {
		f.major = newest
		if slices.Contains(first, name) {
			f.major = 1
		}
		return f
	}
	f.minor, _ = strconv.Atoi(minor) // none is 0
	return f
}

// since reports whether the model is of a version or a later one.
func (f family) since(major, minor int) bool {
	return f.major > major || f.major == major && f.minor >= minor
}

// thinkingConfig is how much a model thinks: a level since Gemini 3, a budget of tokens in 2.5.
type thinkingConfig struct {
	Level   string `json:"thinkingLevel,omitzero"`
	Budget  *int64 `json:"thinkingBudget,omitzero"`
	Include bool   `json:"includeThoughts,omitzero"`
}

// Levels and budgets of OpenAI's words for effort: reference/providers.md §3.4, 2026-11-30
// (https://ai.google.dev/gemini-api/docs/thinking).
var (
	levels = map[string]string{"none": "MINIMAL", "minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH", "xhigh": "HIGH", "max": "HIGH"}

	budgets = map[string]int64{"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576, "max": 24576}
)

const (
	// leastProLevel and leastProBudget stand for no thinking, or the least of it, where a model cannot do without.
	leastProLevel  = "LOW"
	leastProBudget = 128
)

// thinks reports whether the model can be told how much to think.
func (f family) thinks() bool { return f.since(2, 5) }

// thinking puts an effort into the model's terms; nil for a word that is none of OpenAI's.
func (f family) thinking(effort string) *thinkingConfig {
	level, known := levels[effort]
	if !known {
		return nil
	}
	t := &thinkingConfig{Include: effort != "none"}
	if f.major >= 3 {
		if t.Level = level; f.pro && level == "MINIMAL" {
			t.Level = leastProLevel
		}
		return t
	}
	budget := budgets[effort]
	if f.pro && budget == 0 {
		budget = leastProBudget
	}
	t.Budget = &budget
	return t
}
