package conversation

import (
	"strings"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// A Meaning is what a client of OpenAI's understands of an answer, whether it came at once or as a stream. The ids of calls
// are a provider's own: that each call has one of its own is asserted where they are read.
type Meaning struct {
	Choices []Said `json:"choices"`
	Usage   Counts `json:"usage"`
}

// Said is one choice of an answer.
type Said struct {
	Text      string `json:"text,omitempty"`
	Refusal   string `json:"refusal,omitempty"`
	Reasoning string `json:"reasoning,omitempty"`
	Calls     []Made `json:"calls,omitempty"`
	Finish    string `json:"finish"`
}

// Made is a call; one of a free-text tool has an input in place of arguments.
type Made struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments,omitempty"`
	Input     string `json:"input,omitempty"`
}

// Counts are the tokens that the client is told of. The prompt of an estimate is left out: it is guessed from the length of
// the body, in which the wish for a stream counts.
type Counts struct {
	Prompt     int64 `json:"prompt"`
	Completion int64 `json:"completion"`
	Cached     int64 `json:"cached"`
	Reasoning  int64 `json:"reasoning"`
}

// meaning reads what a client received. Nothing but a whole answer has a meaning.
func (r received) meaning(t require.TestingT) Meaning {
	require.Equal(t, 200, r.Status, r.Body)
	l := listener{t: t}
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		l.hear(gjson.Parse(r.Body), "message")
		return l.Meaning
	}
	body, done := strings.CutSuffix(r.Body, "data: [DONE]\n\n")
	require.True(t, done, "the stream has no end: %s", r.Body)
	for frame := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(frame, "data: ")
		require.True(t, ok && !strings.Contains(data, "\n"), "not a frame of one line: %q", frame)
		l.hear(gjson.Parse(data), "delta")
	}
	return l.Meaning
}

// listener puts the parts of an answer together.
type listener struct {
	t require.TestingT
	Meaning
	ids map[madeBy]bool
}

// madeBy is a choice's call by its id.
type madeBy struct {
	choice int
	id     string
}

// hear takes a chunk of a stream, or a whole answer; part is the name of what its choices hold.
func (l *listener) hear(chunk gjson.Result, part string) {
	require.True(l.t, gjson.Valid(chunk.Raw), chunk.Raw)
	require.False(l.t, chunk.Get("error").Exists(), chunk.Raw)
	for _, choice := range chunk.Get("choices").Array() {
		l.choice(int(choice.Get("index").Int()), choice.Get(part), choice.Get("finish_reason").Str)
	}
	if u := chunk.Get("usage"); u.IsObject() {
		require.Zero(l.t, l.Usage, "usage comes once")
		l.Usage = Counts{u.Get("prompt_tokens").Int(), u.Get("completion_tokens").Int(), u.Get("prompt_tokens_details.cached_tokens").Int(),
			u.Get("completion_tokens_details.reasoning_tokens").Int()}
		if u.Get("estimated").Bool() {
			l.Usage.Prompt = 0
		}
	}
}

func (l *listener) choice(at int, part gjson.Result, finish string) {
	for at >= len(l.Choices) {
		l.Choices = append(l.Choices, Said{})
	}
	said := &l.Choices[at]
	require.Empty(l.t, said.Finish, "something comes after the end of a choice: %s", part.Raw)
	said.Finish = finish
	said.Text += part.Get("content").Str
	said.Refusal += part.Get("refusal").Str
	said.Reasoning += part.Get("reasoning_content").Str + part.Get("reasoning").Str
	for i, call := range part.Get("tool_calls").Array() {
		if index := call.Get("index"); index.Exists() {
			i = int(index.Int())
		}
		if id := call.Get("id").Str; id != "" {
			require.Len(l.t, said.Calls, i, "calls come in their order")
			own := madeBy{at, id}
			require.False(l.t, l.ids[own], "an id for one call of a choice: %s", id)
			if l.ids == nil {
				l.ids = map[madeBy]bool{}
			}
			l.ids[own] = true
			said.Calls = append(said.Calls, Made{})
		}
		require.Less(l.t, i, len(said.Calls), "a call begins with its id")
		said.Calls[i].Name += call.Get("function.name").Str + call.Get("custom.name").Str
		said.Calls[i].Arguments += call.Get("function.arguments").Str
		said.Calls[i].Input += call.Get("custom.input").Str
	}
}
