package openai_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"spillway/internal/chat"
	"spillway/internal/simulate/conversation"
)

type object = map[string]any

// flavour is how a vendor puts an answer.
type flavour struct {
	// reasoning is the member that surfaces it; "parts": content is a list of parts.
	reasoning string
	// usage is where a stream has it: "chunk" of its own, "last" frame with content, "every" frame, "x_groq".
	usage string
	// wholeCalls come in one delta, without an index where bare is set.
	wholeCalls, bare bool
	// stops: says stop also where tools were called.
	stops bool
	// first is a frame before all others.
	first string
	// beside: reasoning is counted beside the completion.
	beside bool
	// details: reasoning comes as signed blocks too.
	details bool
	// extra are members that every frame's choice has of the vendor's own.
	extra object
}

var flavours = map[string]flavour{
	"openai":     {usage: "chunk"},
	"azure":      {usage: "chunk", first: `{"id":"","object":"","created":0,"model":"","choices":[],"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}]}`, extra: object{"content_filter_results": object{}}},
	"mistral":    {reasoning: "parts", usage: "last", wholeCalls: true},
	"groq":       {reasoning: "reasoning", usage: "x_groq", wholeCalls: true},
	"deepseek":   {reasoning: "reasoning_content", usage: "last"},
	"xai":        {reasoning: "reasoning_content", usage: "every", wholeCalls: true, beside: true},
	"openrouter": {reasoning: "reasoning", usage: "chunk", details: true, extra: object{"native_finish_reason": nil}},
	"together":   {usage: "last"},
	"gemini":     {usage: "every", wholeCalls: true, stops: true},
	"generic":    {reasoning: "reasoning_content", usage: "chunk", wholeCalls: true, bare: true},
}

// said is an answer that any vendor may give.
type said struct {
	thought, text      string
	calls              []string // arguments
	finish             string
	prompt, completion int
}

func drawSaid(t *rapid.T, f flavour) said {
	s := said{text: rapid.StringN(0, 20, -1).Draw(t, "text"), finish: rapid.SampledFrom([]string{"stop", "length"}).Draw(t, "finish"),
		prompt: rapid.IntRange(0, 1000).Draw(t, "prompt"), completion: rapid.IntRange(0, 1000).Draw(t, "completion")}
	if f.reasoning != "" {
		s.thought = rapid.StringN(0, 20, -1).Draw(t, "thought")
	}
	for range rapid.IntRange(0, 3).Draw(t, "calls") {
		s.calls, s.finish = append(s.calls, fmt.Sprintf(`{"a":%d}`, rapid.IntRange(0, 1e6).Draw(t, "argument"))), "tool_calls"
	}
	if f.stops && len(s.calls) > 0 {
		s.finish = "stop"
	}
	return s
}

// content are the members of a message or a delta for a piece of reasoning and a piece of text.
func (f flavour) content(thought, text string) object {
	m := object{}
	if f.details && thought != "" {
		m["reasoning_details"] = []object{{"type": "reasoning.text", "text": thought, "format": "anthropic-claude-v1", "index": 0}}
	}
	switch {
	case f.reasoning == "parts" && thought != "":
		m["content"] = []object{{"type": "thinking", "thinking": []object{{"type": "text", "text": thought}}}, {"type": "text", "text": text}}
		return m
	case thought != "":
		m[f.reasoning] = thought
	}
	m["content"] = text
	return m
}

func (f flavour) tokens(s said) object {
	reasoning := len(s.thought)
	u := object{"prompt_tokens": s.prompt, "completion_tokens": s.completion + reasoning, "total_tokens": s.prompt + s.completion + reasoning,
		"completion_tokens_details": object{"reasoning_tokens": reasoning}}
	if f.beside {
		u["completion_tokens"] = s.completion
	}
	return u
}

func call(i int, arguments string) object {
	return object{"id": fmt.Sprintf("call_%d", i), "type": "function", "function": object{"name": "f", "arguments": arguments}}
}

func (f flavour) plain(t *rapid.T, s said) string {
	m := f.content(s.thought, s.text)
	m["role"] = "assistant"
	if details, ok := m["reasoning_details"].([]object); ok {
		details[0]["signature"] = "c2ln"
	}
	if len(s.calls) > 0 {
		calls := make([]object, len(s.calls))
		for i, arguments := range s.calls {
			calls[i] = call(i, arguments)
		}
		m["tool_calls"] = calls
	}
	return encoded(t, object{"id": "c", "created": 5, "model": "m", "choices": []object{f.choice("message", m, s.finish)}, "usage": f.tokens(s)})
}

func (f flavour) choice(member string, m object, finish any) object {
	c := object{"index": 0, member: m, "finish_reason": finish}
	for name, value := range f.extra {
		c[name] = value
	}
	return c
}

// stream gives the same answer in frames.
func (f flavour) stream(t *rapid.T, s said) string {
	var b strings.Builder
	frame := func(members object) {
		members["id"], members["created"], members["model"] = "c", 5, "m"
		if f.usage == "every" {
			members["usage"] = f.tokens(s)
		}
		b.WriteString("data: " + encoded(t, members) + "\n\n")
	}
	delta := func(m object) { frame(object{"choices": []object{f.choice("delta", m, nil)}}) }
	if f.first != "" {
		b.WriteString("data: " + f.first + "\n\n")
	}
	for _, piece := range pieces(t, s.thought) {
		delta(f.content(piece, ""))
	}
	if f.details && s.thought != "" {
		delta(object{"reasoning_details": []object{{"type": "reasoning.text", "signature": "c2ln", "format": "anthropic-claude-v1", "index": 0}}})
	}
	for _, piece := range pieces(t, s.text) {
		delta(f.content("", piece))
	}
	for i, arguments := range s.calls {
		c := call(i, arguments)
		if !f.bare {
			c["index"] = i
		}
		if f.wholeCalls {
			delta(object{"tool_calls": []object{c}})
			continue
		}
		c["function"] = object{"name": "f", "arguments": ""}
		delta(object{"tool_calls": []object{c}})
		for _, piece := range pieces(t, arguments) {
			delta(object{"tool_calls": []object{{"index": i, "function": object{"arguments": piece}}}})
		}
	}
	last := object{"choices": []object{f.choice("delta", object{}, s.finish)}}
	switch f.usage {
	case "last":
		last["usage"] = f.tokens(s)
	case "x_groq":
		last["x_groq"] = object{"id": "req_1", "usage": f.tokens(s)}
	}
	frame(last)
	if f.usage == "chunk" {
		frame(object{"choices": []object{}, "usage": f.tokens(s)})
	}
	return b.String() + "data: [DONE]\n\n"
}

// pieces cuts a text between its runes.
func pieces(t *rapid.T, s string) (all []string) {
	for runes := []rune(s); len(runes) > 0; {
		n := rapid.IntRange(1, len(runes)).Draw(t, "piece")
		all, runes = append(all, string(runes[:n])), runes[n:]
	}
	return all
}

func encoded(t *rapid.T, v any) string {
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

// TestAStreamedAnswerEqualsThePlainOne in every vendor's flavour, however its bytes arrive.
func TestAStreamedAnswerEqualsThePlainOne(t *testing.T) {
	for vendor, f := range flavours {
		t.Run(vendor, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				s, size := drawSaid(rt, f), rapid.IntRange(1, 200).Draw(rt, "bytes")
				body := conversation.Reply{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: f.plain(rt, s)}
				one := adapter.Replay(t, body, adapter.Call(hello(t), conversation.Channel{Vendor: vendor, Plain: true}), whole)
				many := adapter.Replay(t, streamed(f.stream(rt, s)), adapter.Call(hello(t), conversation.Channel{Vendor: vendor}), func(int) int { return size })
				require.Nil(rt, one.Failure)
				require.Nil(rt, many.Failure)
				require.Equal(rt, len(s.calls) > 0, one.Answer.Choices[0].Finish == chat.FinishToolCalls)
				require.Equal(rt, s.thought, one.Answer.Choices[0].Reasoning)
				require.Equal(rt, int64(s.completion+len(s.thought)), one.Answer.Usage.Completion)
				if f.details && s.thought != "" {
					require.Equal(rt, []chat.Thinking{{Vendor: "anthropic", Text: s.thought, Signature: "c2ln"}}, many.Answer.Choices[0].Thinking)
				}
				for _, a := range []*chat.Answer{one.Answer, many.Answer} {
					a.Raw, a.Frame, a.Dialect = "", "", "" // the vendor's own bytes
				}
				require.Equal(rt, one.Answer, many.Answer)
			})
		})
	}
}
