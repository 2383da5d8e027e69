package openai

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"spillway/internal/chat"
)

// functionRole is the deprecated role of a function's result. It is passed on to a provider of the same dialect.
const functionRole chat.Role = "function"

var roles = []chat.Role{chat.System, chat.Developer, chat.User, chat.Assistant, chat.ToolRole, functionRole}

func (p *parser) messages() {
	v, ok := p.get("messages")
	items := v.Array()
	if !ok || !v.IsArray() || len(items) == 0 {
		p.fail("messages", "must be a non-empty list")
		return
	}
	p.req.Messages = make([]chat.Message, 0, len(items))
	for i, item := range items {
		if p.message(fmt.Sprintf("messages[%d]", i), item); p.err != nil {
			return
		}
	}
	p.pairs()
}

func (p *parser) message(at string, v gjson.Result) {
	role := v.Get("role")
	switch {
	case !v.IsObject():
		p.fail(at, "must be an object")
		return
	case role.Type != gjson.String:
		p.fail(at+".role", "is required and must be a string")
		return
	case !slices.Contains(roles, chat.Role(role.Str)):
		p.fail(at+".role", "is not one of %s", oneOf(roles[:len(roles)-1]))
		return
	}
	m := chat.Message{Role: chat.Role(role.Str), Name: p.text(at+".name", v.Get("name")), CallID: p.text(at+".tool_call_id", v.Get("tool_call_id"))}
	if m.Role == chat.Assistant {
		m.Refusal = p.text(at+".refusal", v.Get("refusal"))
		m.Calls = p.toolCalls(at+".tool_calls", v.Get("tool_calls"))
		m.Thinking = thinking(v.Get("reasoning_details"))
	}
	if m.Role == chat.ToolRole && m.CallID == "" {
		p.fail(at+".tool_call_id", "is required in a tool message")
	}
	m.Parts = p.content(at+".content", v.Get("content"), m)
	p.req.Messages = append(p.req.Messages, m)
}

func (p *parser) content(at string, v gjson.Result, m chat.Message) []chat.Part {
	switch {
	case v.Type == gjson.String:
		return []chat.Part{{Kind: chat.TextPart, Text: v.Str}}
	case !optional(v):
		if m.Role != chat.Assistant && m.Role != functionRole {
			p.fail(at, "is required")
		}
		return nil
	case !v.IsArray():
		p.fail(at, "must be a string or a list of parts")
		return nil
	}
	items := v.Array()
	if len(items) == 0 && m.Role != chat.Assistant {
		p.fail(at, "must not be an empty list")
	}
	parts := make([]chat.Part, 0, len(items))
	for i, item := range items {
		part := p.part(fmt.Sprintf("%s[%d]", at, i), item, m.Role)
		part.CacheControl = cacheControl(item)
		parts = append(parts, part)
	}
	return parts
}

// cacheControl is the mark for a cache of prompts that a part or a tool has; nil: none.
func cacheControl(v gjson.Result) []byte {
	if mark := v.Get("cache_control"); mark.IsObject() {
		return []byte(mark.Raw)
	}
	return nil
}

func (p *parser) part(at string, v gjson.Result, role chat.Role) chat.Part {
	kind := v.Get("type").String()
	switch {
	case kind == "text":
		return chat.Part{Kind: chat.TextPart, Text: p.required(at+".text", v.Get("text"))}
	case kind == "refusal" && role == chat.Assistant:
		return chat.Part{Kind: chat.RefusalPart, Text: p.required(at+".refusal", v.Get("refusal"))}
	case kind == "image_url" && role == chat.User:
		return chat.Part{Kind: chat.ImagePart, URL: p.required(at+".image_url.url", v.Get("image_url.url")), Detail: p.text(at+".image_url.detail", v.Get("image_url.detail"))}
	case kind == "input_audio" && role == chat.User:
		return chat.Part{Kind: chat.AudioPart, Data: p.required(at+".input_audio.data", v.Get("input_audio.data")),
			Encoding: p.required(at+".input_audio.format", v.Get("input_audio.format"))}
	case kind == "file" && role == chat.User:
		part := chat.Part{Kind: chat.FilePart, Data: p.text(at+".file.file_data", v.Get("file.file_data")),
			FileID: p.text(at+".file.file_id", v.Get("file.file_id")), FileName: p.text(at+".file.filename", v.Get("file.filename"))}
		if part.Data == "" && part.FileID == "" {
			p.fail(at+".file", "needs file_data or file_id")
		}
		return part
	default:
		p.fail(at+".type", "is not a type of part that a message of the role %s can hold", role)
		return chat.Part{}
	}
}

func (p *parser) toolCalls(at string, v gjson.Result) []chat.ToolCall {
	if !optional(v) {
		return nil
	}
	if !v.IsArray() {
		p.fail(at, "must be a list")
		return nil
	}
	var calls []chat.ToolCall
	for i, item := range v.Array() {
		calls = append(calls, p.toolCall(fmt.Sprintf("%s[%d]", at, i), item))
	}
	return calls
}

func (p *parser) toolCall(at string, v gjson.Result) chat.ToolCall {
	c := chat.ToolCall{ID: p.required(at+".id", v.Get("id"))}
	if c.ID == "" {
		p.fail(at+".id", "must not be empty")
	}
	switch v.Get("type").String() {
	case "custom":
		c.Custom = true
		c.Name, c.Arguments = p.required(at+".custom.name", v.Get("custom.name")), p.text(at+".custom.input", v.Get("custom.input"))
	case "", "function":
		c.Name, c.Arguments = p.required(at+".function.name", v.Get("function.name")), p.text(at+".function.arguments", v.Get("function.arguments"))
		if c.Arguments == "" {
			c.Arguments = "{}"
		}
	default:
		p.fail(at+".type", "must be function or custom")
	}
	const signature = "extra_content.google.thought_signature"
	c.Signature = p.text(at+"."+signature, v.Get(signature))
	return c
}

// pairs checks that tool calls and tool messages belong together: every call of an assistant turn is answered once
// before the next turn, and no tool message answers a call that was not made.
func (p *parser) pairs() {
	var turn int              // the last assistant turn
	open := map[string]bool{} // its calls: whether they wait for an answer
	for i, m := range p.req.Messages {
		if m.Role == chat.ToolRole {
			if !open[m.CallID] {
				p.fail(fmt.Sprintf("messages[%d].tool_call_id", i), "answers no open tool call of the assistant turn before it")
				return
			}
			open[m.CallID] = false
			continue
		}
		p.unanswered(turn, open)
		clear(open)
		turn = i
		for n, c := range m.Calls {
			if open[c.ID] {
				p.fail(fmt.Sprintf("messages[%d].tool_calls[%d].id", i, n), "is used twice in this turn")
				return
			}
			open[c.ID] = true
		}
	}
	p.unanswered(turn, open)
}

// unanswered names the first call of a turn that waits for an answer.
func (p *parser) unanswered(turn int, open map[string]bool) {
	for n, c := range p.req.Messages[turn].Calls {
		if open[c.ID] {
			p.fail(fmt.Sprintf("messages[%d].tool_calls[%d]", turn, n), "the tool call %q has no tool message that answers it", clipped(c.ID))
			return
		}
	}
}

// clipped bounds what a message repeats of the client's own words.
func clipped(s string) string {
	if len(s) > 64 {
		return strings.ToValidUTF8(s[:64], "") + "…"
	}
	return s
}
