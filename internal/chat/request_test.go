package chat_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"spillway/internal/chat"
)

// TestWithout takes each parameter from a request that has them all: that one is gone, the others and the request stay.
func TestWithout(t *testing.T) {
	half := 0.5
	whole := func() chat.Request {
		return chat.Request{Models: []chat.RequestedModel{"m"}, MaxTokens: 9, Choices: 2, Temperature: &half, TopP: &half, LogProbs: true, TopLogProbs: 3,
			Stop: []string{"a"}, Effort: "low", User: "u", Store: true, OneCall: true, Format: &chat.Format{Kind: chat.FormatObject},
			Choice: chat.ToolChoice{Mode: chat.ChoiceRequired}, Members: []chat.Member{{Name: "n", Value: []byte("2")}}}
	}
	for name, take := range map[string]func(*chat.Request){
		"max_tokens":            func(r *chat.Request) { r.MaxTokens = 0 },
		"max_completion_tokens": func(r *chat.Request) { r.MaxTokens = 0 },
		"n":                     func(r *chat.Request) { r.Choices = 1 },
		"temperature":           func(r *chat.Request) { r.Temperature = nil },
		"top_p":                 func(r *chat.Request) { r.TopP = nil },
		"logprobs":              func(r *chat.Request) { r.LogProbs, r.TopLogProbs = false, 0 },
		"top_logprobs":          func(r *chat.Request) { r.TopLogProbs = 0 },
		"stop":                  func(r *chat.Request) { r.Stop = nil },
		"reasoning_effort":      func(r *chat.Request) { r.Effort = "" },
		"user":                  func(r *chat.Request) { r.User = "" },
		"safety_identifier":     func(r *chat.Request) { r.User = "" },
		"store":                 func(r *chat.Request) { r.Store = false },
		"parallel_tool_calls":   func(r *chat.Request) { r.OneCall = false },
		"response_format":       func(r *chat.Request) { r.Format = nil },
		"tool_choice":           func(r *chat.Request) { r.Choice = chat.ToolChoice{} },
		"a name of nothing":     func(*chat.Request) {},
	} {
		t.Run(name, func(t *testing.T) {
			given, want := whole(), whole()
			take(&want)
			assert.Equal(t, want, given.Without([]string{name}))
			assert.Equal(t, whole(), given)
		})
	}
}
