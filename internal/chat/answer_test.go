package chat_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"spillway/internal/chat"
)

func assemble(events ...*chat.Event) *chat.Answer {
	var a chat.Assembler
	for _, e := range events {
		a.Add(e)
	}
	return a.Answer()
}

func TestAssembler(t *testing.T) {
	for name, c := range map[string]struct {
		events []*chat.Event
		want   chat.Answer
	}{
		"nothing gives no choice": {nil, chat.Answer{}},
		"text, refusal, reasoning and log probabilities are joined in order": {
			[]*chat.Event{
				event(chat.Delta{Reasoning: "Let "}), event(chat.Delta{Reasoning: "me see"}),
				event(chat.Delta{Text: "Hel", LogProbs: `{"a":1}`}), event(chat.Delta{Text: "lo", LogProbs: `{"b":2}`}),
				event(chat.Delta{Refusal: "no"}), event(chat.Delta{Finish: chat.FinishStop, Native: "eos"}),
			},
			chat.Answer{Choices: []chat.AnswerChoice{{Text: "Hello", Reasoning: "Let me see", Refusal: "no", Finish: chat.FinishStop, Native: "eos",
				LogProbs: []string{`{"a":1}`, `{"b":2}`}}}},
		},
		"id, time and model are those that came first": {
			[]*chat.Event{{ID: "a"}, {ID: "b", Created: 7, Model: "m-1"}, {Created: 8, Model: "m-2"}},
			chat.Answer{ID: "a", Created: 7, Model: "m-1"},
		},
		"the last usage counts": {
			[]*chat.Event{{Usage: &chat.Usage{Prompt: 1, Completion: 1}}, {Usage: &chat.Usage{Prompt: 1, Completion: 9}}},
			chat.Answer{Usage: &chat.Usage{Prompt: 1, Completion: 9}},
		},
		"choices that come mixed stand by their index": {
			[]*chat.Event{event(chat.Delta{Choice: 1, Text: "b"}, chat.Delta{Text: "a"}), event(chat.Delta{Choice: 1, Text: "d"}, chat.Delta{Text: "c"})},
			chat.Answer{Choices: []chat.AnswerChoice{{Index: 0, Text: "ac"}, {Index: 1, Text: "bd"}}},
		},
		"fragments of tool calls are put together by index": {
			[]*chat.Event{
				event(chat.Delta{Tools: []chat.ToolDelta{{Index: 1, ID: "call_b", Name: "g"}, {Index: 0, ID: "call_a", Name: "f", Arguments: `{"x"`}}}),
				event(chat.Delta{Tools: []chat.ToolDelta{{Index: 0, Arguments: `:1}`}, {Index: 1, Arguments: `{"y":2}`}}}),
			},
			chat.Answer{Choices: []chat.AnswerChoice{{Calls: []chat.ToolCall{{ID: "call_a", Name: "f", Arguments: `{"x":1}`},
				{ID: "call_b", Name: "g", Arguments: `{"y":2}`}}}}},
		},
		"a call without arguments takes none": {
			[]*chat.Event{event(chat.Delta{Tools: []chat.ToolDelta{{ID: "call_a", Name: "f"}}}), event(chat.Delta{Tools: []chat.ToolDelta{{Arguments: " "}}})},
			chat.Answer{Choices: []chat.AnswerChoice{{Calls: []chat.ToolCall{{ID: "call_a", Name: "f", Arguments: "{}"}}}}},
		},
		"the first frame is kept": {
			[]*chat.Event{{Raw: `{"id":1}`, Dialect: chat.OpenAIChat}, {Raw: `{"id":2}`, Dialect: chat.OpenAIChat}},
			chat.Answer{Frame: `{"id":1}`, Dialect: chat.OpenAIChat},
		},
		"a plain body is kept as it is": {
			[]*chat.Event{{Raw: `{"choices":[]}`, Dialect: chat.OpenAIChat, Whole: true}},
			chat.Answer{Raw: `{"choices":[]}`, Dialect: chat.OpenAIChat},
		},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, &c.want, assemble(c.events...)) })
	}
}

func TestAssemblerKeepsNothingOfTheEvent(t *testing.T) {
	var a chat.Assembler
	e := &chat.Event{Usage: &chat.Usage{Prompt: 1}, Deltas: []chat.Delta{{Text: "a"}}}
	a.Add(e)
	e.Usage.Prompt, e.Deltas[0].Text = 99, "z"
	got := a.Answer()
	assert.EqualValues(t, 1, got.Usage.Prompt)
	assert.Equal(t, "a", got.Choices[0].Text)
}

func TestAnswerSoFar(t *testing.T) {
	var a chat.Assembler
	a.Add(event(chat.Delta{Text: "a", Tools: []chat.ToolDelta{{Name: "f", Arguments: "{"}}}))
	first := a.Answer()
	a.Add(event(chat.Delta{Text: "b", Tools: []chat.ToolDelta{{Arguments: "}"}}}))
	assert.Equal(t, "a", first.Choices[0].Text, "an answer taken earlier does not change")
	assert.Equal(t, "ab", a.Answer().Choices[0].Text)
	assert.Equal(t, "{}", a.Answer().Choices[0].Calls[0].Arguments)
}

// TestChunkingDoesNotMatter: however a text and a call's arguments are cut into deltas, the answer is the same, and
// Size counts its bytes.
func TestChunkingDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.String(), 0, 8).Draw(t, "text")
		args := rapid.SliceOfN(rapid.StringMatching(`[a-z{}]{0,5}`), 0, 8).Draw(t, "args")
		var a chat.Assembler
		a.Add(event(chat.Delta{Tools: []chat.ToolDelta{{ID: "call_1", Name: "f"}}}))
		whole, wholeArgs := "", ""
		for _, s := range text {
			whole += s
			a.Add(event(chat.Delta{Text: s}))
		}
		for _, s := range args {
			wholeArgs += s
			a.Add(event(chat.Delta{Tools: []chat.ToolDelta{{Arguments: s}}}))
		}
		assert.Equal(t, len(whole)+len(wholeArgs), a.Size())
		got := a.Answer()
		require.Len(t, got.Choices, 1)
		assert.Equal(t, whole, got.Choices[0].Text)
		if wholeArgs == "" {
			wholeArgs = "{}"
		}
		assert.Equal(t, []chat.ToolCall{{ID: "call_1", Name: "f", Arguments: wholeArgs}}, got.Choices[0].Calls)
	})
}
