package openai_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"spillway/internal/chat"
	"spillway/internal/dialect"
	"spillway/internal/dialect/openai"
)

var reasoned = []chat.Thinking{{Vendor: "anthropic", Text: "a \"b\"\n", Signature: "c2ln"}, {Vendor: "anthropic", Signature: "c2ln2"},
	{Vendor: "anthropic", Data: "eA==", After: chat.Place{Text: 12}}, {Vendor: "gemini", Data: "eQ==", After: chat.Place{Text: 12, Calls: 1}}}

const details = `[{"type":"reasoning.text","text":"a \"b\"\n","signature":"c2ln","format":"anthropic-claude-v1","index":0},
{"type":"reasoning.text","text":"","signature":"c2ln2","format":"anthropic-claude-v1","index":1},
{"type":"reasoning.encrypted","data":"eA==","format":"anthropic-claude-v1","id":"2-12-0","index":2},
{"type":"reasoning.encrypted","data":"eQ==","format":"google-gemini-v1","id":"3-12-1","index":3}]`

func TestReasoningGoesOutAndComesBackAsItWas(t *testing.T) {
	head := dialect.Head{ID: "1", Model: "m", Created: time.Unix(1, 0)}
	plain := openai.Chat{}.AppendAnswer(nil, &chat.Answer{Choices: []chat.AnswerChoice{{Text: "x", Thinking: reasoned, Finish: chat.FinishStop}}}, head)
	message := gjson.GetBytes(plain, "choices.0.message").Raw
	assert.JSONEq(t, details, gjson.Get(message, "reasoning_details").Raw)
	assert.Equal(t, reasoned, back(t, message))

	s := openai.Chat{}.NewStream(head)
	var streamed []string
	for _, d := range []chat.Delta{{Thinking: reasoned[:1]}, {Thinking: reasoned[1:3], Text: "x"}, {Thinking: reasoned[3:]}} {
		frame := strings.TrimPrefix(string(s.Event(&chat.Event{Deltas: []chat.Delta{d}})), "data: ")
		require.True(t, gjson.Valid(frame), frame)
		for _, one := range gjson.Get(frame, "choices.0.delta.reasoning_details").Array() {
			streamed = append(streamed, one.Raw)
		}
	}
	assert.JSONEq(t, details, "["+strings.Join(streamed, ",")+"]", "numbered through, though they came in three chunks")
}

func TestReasoningThatCannotBeReplayedIsPassedOver(t *testing.T) {
	for name, value := range map[string]string{
		"no list":                   `"x"`,
		"null":                      `null`,
		"no signature":              `[{"type":"reasoning.text","text":"t","format":"anthropic-claude-v1"}]`,
		"a summary":                 `[{"type":"reasoning.summary","summary":"t","format":"anthropic-claude-v1"}]`,
		"nobody's":                  `[{"type":"reasoning.text","text":"t","signature":"s"}]`,
		"somebody's we do not know": `[{"type":"reasoning.encrypted","data":"d","format":"somebody-v1"}]`,
		"not an object":             `[7,null,"x"]`,
	} {
		t.Run(name, func(t *testing.T) {
			assert.Empty(t, back(t, `{"role":"assistant","content":"x","reasoning_details":`+value+`}`))
		})
	}
}

func TestAnIDOfSomebodyElsesTellsNoPlace(t *testing.T) {
	for _, id := range []string{`"rs_68af-1-2"`, `"1-2"`, `"1-2-3-4"`, `"1-a-2"`, `"1-2-99999999999999999999"`, `"1--2-3"`, `7`, `null`} {
		t.Run(id, func(t *testing.T) {
			got := back(t, `{"role":"assistant","content":"x","reasoning_details":[{"type":"reasoning.encrypted","data":"d","format":"openai-responses-v1","id":`+id+`}]}`)
			assert.Equal(t, []chat.Thinking{{Vendor: "openai", Data: "d"}}, got)
		})
	}
}

// back is the reasoning that is read from an assistant's message.
func back(t *testing.T, message string) []chat.Thinking {
	t.Helper()
	req, refusal := openai.Chat{}.Parse([]byte(`{"model":"m","messages":[{"role":"user","content":"x"},` + message + `]}`))
	require.Nil(t, refusal)
	return req.Messages[1].Thinking
}
