package chat_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"spillway/internal/chat"
)

func event(deltas ...chat.Delta) *chat.Event { return &chat.Event{Deltas: deltas} }

// TestContent is policy.md §5: what commits a stream, and what does not.
func TestContent(t *testing.T) {
	for name, c := range map[string]struct {
		event *chat.Event
		want  bool
	}{
		"text":                              {event(chat.Delta{Text: "Hi"}), true},
		"a space is text":                   {event(chat.Delta{Text: " "}), true},
		"a refusal":                         {event(chat.Delta{Refusal: "I cannot"}), true},
		"surfaced reasoning":                {event(chat.Delta{Reasoning: "First"}), true},
		"audio or image data":               {event(chat.Delta{Media: true}), true},
		"a tool call with an id":            {event(chat.Delta{Tools: []chat.ToolDelta{{ID: "call_1"}}}), true},
		"a tool call with a name":           {event(chat.Delta{Tools: []chat.ToolDelta{{Name: "weather"}}}), true},
		"an end that is legitimately empty": {event(chat.Delta{Finish: chat.FinishStop}), true},
		"content of the second choice":      {event(chat.Delta{}, chat.Delta{Choice: 1, Text: "Hi"}), true},

		"no choices, as with usage":              {&chat.Event{Usage: &chat.Usage{Prompt: 3}}, false},
		"a role, or nothing":                     {event(chat.Delta{}), false},
		"a tool call with neither id nor name":   {event(chat.Delta{Tools: []chat.ToolDelta{{Index: 1}}}), false},
		"arguments of a call that has not begun": {event(chat.Delta{Tools: []chat.ToolDelta{{Arguments: "{"}}}), false},
		"log probabilities without a token":      {event(chat.Delta{LogProbs: "{}"}), false},
		"an id and a model":                      {&chat.Event{ID: "chatcmpl-1", Model: "m", Created: 1}, false},
		"a native word without a finish reason":  {event(chat.Delta{Native: "eos"}), false},
		"a choice index by itself":               {event(chat.Delta{Choice: 3}), false},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, c.event.Content()) })
	}
}

func TestSaysAndEmpty(t *testing.T) {
	for name, c := range map[string]struct {
		delta       chat.Delta
		says, empty bool
	}{
		"nothing":                               {chat.Delta{}, false, true},
		"a choice's index by itself":            {chat.Delta{Choice: 1}, false, true},
		"a native word without a finish reason": {chat.Delta{Native: "eos"}, false, true},
		"text":                                  {chat.Delta{Text: " "}, true, false},
		"a refusal":                             {chat.Delta{Refusal: "no"}, true, false},
		"reasoning":                             {chat.Delta{Reasoning: "First"}, true, false},
		"audio or image data":                   {chat.Delta{Media: true}, true, false},
		"a fragment of arguments":               {chat.Delta{Tools: []chat.ToolDelta{{Arguments: "}"}}}, true, false},
		"a reasoning block":                     {chat.Delta{Thinking: []chat.Thinking{{}}}, false, false},
		"log probabilities":                     {chat.Delta{LogProbs: "{}"}, false, false},
		"an end":                                {chat.Delta{Finish: chat.FinishStop}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.says, c.delta.Says())
			assert.Equal(t, c.empty, c.delta.Empty())
		})
	}
}

func TestFinishedAndHasTool(t *testing.T) {
	for name, c := range map[string]struct {
		event             *chat.Event
		finished, hasTool bool
	}{
		"nothing":                       {event(), false, false},
		"text":                          {event(chat.Delta{Text: "Hi"}), false, false},
		"the end of one of two choices": {event(chat.Delta{Text: "Hi"}, chat.Delta{Choice: 1, Finish: chat.FinishLength}), true, false},
		"a fragment of arguments":       {event(chat.Delta{Tools: []chat.ToolDelta{{Arguments: "}"}}}), false, true},
		"a call and its end":            {event(chat.Delta{Tools: []chat.ToolDelta{{ID: "a"}}, Finish: chat.FinishToolCalls}), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.finished, c.event.Finished())
			assert.Equal(t, c.hasTool, c.event.HasTool())
		})
	}
}

// TestCloneSharesNothing: a decoder reuses its event, so a copy that shares memory would change under its keeper.
func TestCloneSharesNothing(t *testing.T) {
	original := &chat.Event{ID: "1", Usage: &chat.Usage{Prompt: 1}, Deltas: []chat.Delta{{Text: "a", Tools: []chat.ToolDelta{{Name: "f"}}}}}
	clone := original.Clone()
	assert.Equal(t, original, clone)

	original.ID = "2"
	original.Usage.Prompt = 2
	original.Deltas[0].Tools[0].Name = "g"
	original.Deltas[0].Text = "b"
	assert.Equal(t, &chat.Event{ID: "1", Usage: &chat.Usage{Prompt: 1}, Deltas: []chat.Delta{{Text: "a", Tools: []chat.ToolDelta{{Name: "f"}}}}}, clone)
}

func TestCloneOfNothing(t *testing.T) {
	assert.Equal(t, &chat.Event{}, (&chat.Event{}).Clone())
}

func TestUsageTotal(t *testing.T) {
	u := chat.Usage{Prompt: 10, Completion: 5, Cached: 8, CacheWrite: 2, Reasoning: 4}
	assert.EqualValues(t, 15, u.Total(), "cached and reasoning tokens are parts of the others")
	assert.Zero(t, chat.Usage{}.Total())
}

func TestForced(t *testing.T) {
	for mode, want := range map[chat.ChoiceMode]bool{"": false, chat.ChoiceAuto: false, chat.ChoiceNone: false, chat.ChoiceRequired: true,
		chat.ChoiceNamed: true, chat.ChoiceAllowed: false} {
		assert.Equal(t, want, chat.ToolChoice{Mode: mode}.Forced(), "mode %q", mode)
	}
}

// TestContentIsMonotonic: whatever else an event says, it stays content once a part of it is.
func TestContentIsMonotonic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		delta := rapid.Custom(func(t *rapid.T) chat.Delta {
			return chat.Delta{Choice: rapid.IntRange(0, 3).Draw(t, "choice"), Text: rapid.SampledFrom([]string{"", "x"}).Draw(t, "text"),
				Finish: rapid.SampledFrom([]chat.FinishReason{"", chat.FinishStop}).Draw(t, "finish"),
				Tools: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) chat.ToolDelta {
					return chat.ToolDelta{ID: rapid.SampledFrom([]string{"", "a"}).Draw(t, "id"), Arguments: "{"}
				}), 0, 2).Draw(t, "tools")}
		})
		deltas := rapid.SliceOf(delta).Draw(t, "deltas")
		want := false
		for i := range deltas {
			want = want || event(deltas[i]).Content()
		}
		assert.Equal(t, want, event(deltas...).Content())
	})
}
