package anthropic

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"spillway/internal/chat"
)

const (
	// maxCalls is the largest number of tool calls in one answer, and of blocks that are open at once.
	maxCalls = 1024
	// maxArguments bounds the arguments of one call, in bytes: they are checked as JSON, by recursion.
	maxArguments = 2 << 20
	// maxThinking bounds the reasoning of one block, in bytes.
	maxThinking = 8 << 20
)

// blocks are the content blocks of an answer that are open, and what is known of those before them. A tool call's index
// counts the calls and not the blocks.
type blocks struct {
	open  map[int64]*openBlock
	ids   []string // of the calls
	calls int
	// said counts the characters of text that have been passed on.
	said int
	// answered says that the answer came as the input of a tool that the client does not know.
	answered bool
	// beyond says that there is more than any model makes.
	beyond bool
}

type openBlock struct {
	kind string
	// tool is the index of a call.
	tool int
	// answer: the input of this call is the text of the answer.
	answer bool
	// input is that of the block's start; length counts what has come of it since.
	input  string
	length int

	thinking        strings.Builder
	signature, data string
	// after is what stood before the block.
	after chat.Place
}

// start opens a block; what it holds already is passed on.
func (s *blocks) start(d *chat.Delta, r *reply, index int64, v gjson.Result) {
	s.stop(d, index)
	b := &openBlock{kind: v.Get("type").Str, after: chat.Place{Text: s.said, Calls: s.calls}}
	switch b.kind {
	case "text":
		s.text(d, r, v.Get("text").Str)
	case "thinking":
		b.reason(d, v.Get("thinking").Str)
		b.signature = v.Get("signature").Str
	case "redacted_thinking":
		b.data = v.Get("data").Str
	case "tool_use":
		b.input = v.Get("input").Raw
		s.beyond = s.beyond || len(b.input) > maxArguments
		s.call(d, r, b, v)
	default:
		return // searches and what else the provider's own tools do
	}
	if s.open == nil {
		s.open = map[int64]*openBlock{}
	}
	s.open[index] = b
	s.beyond = s.beyond || len(s.open) > maxCalls || s.calls > maxCalls
}

// call opens a tool call, or the answer where the tool is the one that stands for it.
func (s *blocks) call(d *chat.Delta, r *reply, b *openBlock, v gjson.Result) {
	name := v.Get("name").Str
	if name == r.answerTool && name != "" {
		b.answer, s.answered = true, true
		return
	}
	id := v.Get("id").Str
	if id == "" {
		id = "call_" + strings.TrimPrefix(r.id, "msg_") + "_" + strconv.Itoa(s.calls)
	}
	for slices.Contains(s.ids, id) {
		id += "_"
	}
	b.tool = s.calls
	s.ids = append(s.ids, id)
	s.calls++
	d.Tools = append(d.Tools, chat.ToolDelta{Index: b.tool, ID: id, Name: name})
}

// text passes text on, but not beside an answer that is the input of a tool and nothing else.
func (s *blocks) text(d *chat.Delta, r *reply, text string) {
	if r.answerTool == "" {
		s.say(d, text)
	}
}

func (s *blocks) say(d *chat.Delta, text string) {
	s.said += utf8.RuneCountInString(text)
	d.Text += text
}

func (b *openBlock) reason(d *chat.Delta, text string) {
	b.thinking.WriteString(text)
	d.Reasoning += text
}

// add adds a delta to a block.
func (s *blocks) add(d *chat.Delta, r *reply, index int64, v gjson.Result) {
	b := s.open[index]
	if b == nil {
		b = &openBlock{} // nobody said that it began
	}
	switch v.Get("type").Str {
	case "text_delta":
		s.text(d, r, v.Get("text").Str)
	case "thinking_delta":
		b.reason(d, v.Get("thinking").Str)
		s.beyond = s.beyond || b.thinking.Len() > maxThinking
	case "signature_delta":
		b.signature += v.Get("signature").Str
	case "input_json_delta":
		if b.kind == "tool_use" {
			s.argue(d, b, v.Get("partial_json").Str)
		}
	}
}

// argue passes a piece of a call's input on.
func (s *blocks) argue(d *chat.Delta, b *openBlock, input string) {
	if input == "" {
		return
	}
	b.length += len(input)
	s.beyond = s.beyond || b.length > maxArguments
	if b.answer {
		s.say(d, input)
		return
	}
	d.Tools = append(d.Tools, chat.ToolDelta{Index: b.tool, Arguments: input})
}

// stop closes a block: reasoning is whole then, and a call that has not been given any input has that of its start.
func (s *blocks) stop(d *chat.Delta, index int64) {
	b := s.open[index]
	if b == nil {
		return
	}
	delete(s.open, index)
	switch {
	case b.kind == "thinking":
		d.Thinking = append(d.Thinking, chat.Thinking{Vendor: vendor, Text: b.thinking.String(), Signature: b.signature, After: b.after})
	case b.kind == "redacted_thinking":
		d.Thinking = append(d.Thinking, chat.Thinking{Vendor: vendor, Data: b.data, After: b.after})
	case b.kind == "tool_use" && b.length == 0:
		if !strings.HasPrefix(b.input, "{") {
			b.input = "{}"
		}
		s.argue(d, b, b.input)
	}
}

// stopAll closes the blocks that are still open, in their order.
func (s *blocks) stopAll(d *chat.Delta) {
	indexes := make([]int64, 0, len(s.open))
	for index := range s.open {
		indexes = append(indexes, index)
	}
	slices.Sort(indexes)
	for _, index := range indexes {
		s.stop(d, index)
	}
}
