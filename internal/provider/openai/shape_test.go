package openai_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"spillway/internal/provider/openai"
	"spillway/internal/simulate/conversation"
)

// frameLike draws a frame of a stream. Most are alike but for a text and a padding; the others differ in one thing.
func frameLike(t *rapid.T) string {
	pick := func(name, usual string, others ...string) string {
		if rapid.IntRange(0, 9).Draw(t, name+"?") > 0 {
			return usual
		}
		return rapid.SampledFrom(others).Draw(t, name)
	}
	text := rapid.SampledFrom([]string{"", "a", " and", "\xff", `\n`, `\"}`, "\t", `\u0061`, "é", `"},{"`}).Draw(t, "text")
	padding := rapid.SampledFrom([]string{"x", "xyz", "", `\u0061`}).Draw(t, "padding")
	return `{` + `"id":"` + pick("id", "c1", "c2") + `","created":` + pick("created", "5", "6") + `,` + pick("early", "", `"usage":null,`, `"obfuscation":"q",`) +
		`"model":"` + pick("model", "m", "n") + `","choices":[{"index":` + pick("index", "0", "1") + `,"delta":{` +
		pick("before the content", "", `"role":"assistant",`, `"reasoning":"r",`, `"content":"z",`) +
		`"content":` + pick("content", `"`+text+`"`, `[{"type":"text","text":"p"}]`, `null`, `7`) +
		pick("behind the content", "", `,"refusal":"no"`, `,"content":"w"`, `,"tool_calls":[{"index":0,"id":"t","function":{"name":"f","arguments":"{}"}}]`) +
		`},"finish_reason":` + pick("finish", `null`, `"stop"`, `"length"`, `"error"`, `""`) + `}` +
		pick("another choice", "", `,{"index":1,"delta":{"content":"o"}}`) + `]` +
		pick("late", "", `,"usage":{"prompt_tokens":1,"completion_tokens":2}`, `,"error":{"message":"e"}`, `,"x":`) +
		pick("padding member", `,"obfuscation":"`+padding+`"`, "", `,"obfuscation":7`, `,"obfuscation":"a","obfuscation":"b"`) + `}`
}

// TestAFrameOfAKnownShapeSaysWhatItSaysByItself: the same frames, each with white space of its own in front so that no two
// are of one shape, are the same events, and end the same.
func TestAFrameOfAKnownShapeSaysWhatItSaysByItself(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var alike, apart strings.Builder
		for i, frame := range rapid.SliceOfN(rapid.Custom(frameLike), 1, 12).Draw(rt, "frames") {
			alike.WriteString("data: " + frame + "\n\n")
			apart.WriteString("data: {" + strings.Repeat(" ", i) + frame[1:] + "\n\n")
		}
		call := adapter.Call(hello(t), conversation.Channel{})
		got := adapter.Replay(t, streamed(alike.String()+"data: [DONE]\n\n"), call, whole)
		want := adapter.Replay(t, streamed(apart.String()+"data: [DONE]\n\n"), call, whole)
		require.Equal(rt, want.Text(), got.Text())
	})
}

func TestWhichFramesAreOfAKnownShape(t *testing.T) {
	const one, end = `{"id":"c1","choices":[{"index":0,"delta":{"content":"a"}}]}`, `{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	with := func(text string) string { return strings.Replace(one, `"a"`, text, 1) }
	padded := func(text, padding string) string {
		return strings.TrimSuffix(with(text), "}") + `,"obfuscation":` + padding + `}`
	}
	tests := map[string]struct {
		frames []string
		want   []bool
	}{
		"another text":                       {[]string{one, with(`" and more"`), one}, []bool{false, true, true}},
		"another padding":                    {[]string{padded(`"a"`, `"x"`), padded(`"b"`, `"xyz"`), padded(`"c"`, `""`)}, []bool{false, true, true}},
		"a padding that comes or goes":       {[]string{one, padded(`"a"`, `"x"`), one}, []bool{false, false, false}},
		"no text":                            {[]string{one, with(`""`), with(`null`)}, []bool{false, false, false}},
		"a text with an escape, in between":  {[]string{one, with(`"\n"`), one}, []bool{false, false, true}},
		"a text that is not JSON":            {[]string{one, with("\"\t\"")}, []bool{false, false}},
		"a text without an end":              {[]string{one, with(`"a`)}, []bool{false, false}},
		"something behind it":                {[]string{one, one + "x"}, []bool{false, false}},
		"nothing is learnt from the role":    {[]string{`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`, `{"choices":[{"index":0,"delta":{"role":"assistant","content":"a"}}]}`}, []bool{false, false}},
		"nor from reasoning beside the text": {[]string{`{"choices":[{"index":0,"delta":{"reasoning":"r","content":"a"}}]}`, `{"choices":[{"index":0,"delta":{"reasoning":"r","content":"b"}}]}`}, []bool{false, false}},
		"nor from usage beside it":           {[]string{`{"usage":{"prompt_tokens":1},"choices":[{"index":0,"delta":{"content":"a"}}]}`, `{"usage":{"prompt_tokens":1},"choices":[{"index":0,"delta":{"content":"b"}}]}`}, []bool{false, false}},
		"a text after the choice's end":      {[]string{one, end, one}, []bool{false, false, false}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tt.want, openai.Known(tt.frames...)) })
	}
}
