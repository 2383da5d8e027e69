package openai

import (
	"fmt"
	"slices"

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
		if p.err != nil {
			return
		}
		p.message(fmt.Sprintf("messages[%d]", i), item)
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
	}
	if m.Role == chat.ToolRole && m.CallID == "" {
		p.fail(at+".tool_call_id", "is required in a tool message")
	}
	m.Parts = p.content(at+".content", v.Get("content"), m)
	p.req.Messages = append(p.req.Messages, m)
}

// text reads an optional string.
func (p *parser) text(at string, v gjson.Result) string {
	if v.Exists() && v.Type != gjson.String && v.Type != gjson.Null {
		p.fail(at, "must be a string")
	}
	return v.Str
}

func (p *parser) content(at string, v gjson.Result, m chat.Message) []chat.Part {
	switch {
	case v.Type == gjson.String:
		return []chat.Part{{Kind: chat.TextPart, Text: v.Str}}
	case !v.Exists() || v.Type == gjson.Null:
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
		parts = append(parts, p.part(fmt.Sprintf("%s[%d]", at, i), item, m.Role))
	}
	return parts
}

func (p *parser) part(at string, v gjson.Result, role chat.Role) chat.Part {
	kind := v.Get("type").String()
	switch {
	case kind == "text":
		return chat.Part{Kind: chat.TextPart, Text: p.required(at+".text", v.Get("text"))}
	case kind == "refusal" && role == chat.Assistant:
		return chat.Part{Kind: chat.RefusalPart, Text: p.required(at+".refusal", v.Get("refusal"))}
	case kind == "image_url" && role == chat.User:
		return chat.Part{Kind: chat.ImagePart, URL: p.required(at+".image_url.url", v.Get("image_url.url")), Detail: v.Get("image_url.detail").String()}
	case kind == "input_audio" && role == chat.User:
		return chat.Part{Kind: chat.AudioPart, Data: p.required(at+".input_audio.data", v.Get("input_audio.data")),
			Encoding: p.required(at+".input_audio.format", v.Get("input_audio.format"))}
	case kind == "file" && role == chat.User:
		part := chat.Part{Kind: chat.FilePart, Data: v.Get("file.file_data").String(), FileID: v.Get("file.file_id").String(), FileName: v.Get("file.filename").String()}
		if part.Data == "" && part.FileID == "" {
			p.fail(at+".file", "needs file_data or file_id")
		}
		return part
	default:
		p.fail(at+".type", "is not a type of part that a message of the role %s can hold", role)
		return chat.Part{}
	}
}

func (p *parser) required(at string, v gjson.Result) string {
	if v.Type != gjson.String {
		p.fail(at, "is required and must be a string")
	}
	return v.Str
}

func (p *parser) toolCalls(at string, v gjson.Result) []chat.ToolCall {
	if !v.Exists() || v.Type == gjson.Null {
		return nil
	}
	if !v.IsArray() {
		p.fail(at, "must be a list")
		return nil
	}
	var calls []chat.ToolCall
	for i, item := range v.Array() {
		here := fmt.Sprintf("%s[%d]", at, i)
		c := chat.ToolCall{ID: p.required(here+".id", item.Get("id"))}
		if item.Get("type").String() == "custom" {
			c.Name, c.Arguments = p.required(here+".custom.name", item.Get("custom.name")), item.Get("custom.input").String()
		} else {
			c.Name, c.Arguments = p.required(here+".function.name", item.Get("function.name")), p.text(here+".function.arguments", item.Get("function.arguments"))
		}
		if c.ID == "" {
			p.fail(here+".id", "must not be empty")
		}
		calls = append(calls, c)
	}
	return calls
}

// pairs checks that tool calls and tool messages belong together: every call of an assistant turn is answered before
// the next turn, and no tool message answers a call that was not made.
func (p *parser) pairs() {
	open := map[string]bool{}
	for i, m := range p.req.Messages {
		if m.Role == chat.ToolRole {
			if !open[m.CallID] {
				p.fail(fmt.Sprintf("messages[%d].tool_call_id", i), "answers no tool call of the assistant turn before it")
				return
			}
			open[m.CallID] = false
			continue
		}
		p.unanswered(i-1, open)
		clear(open)
		for _, c := range m.Calls {
			open[c.ID] = true
		}
	}
	p.unanswered(len(p.req.Messages)-1, open)
}

func (p *parser) unanswered(at int, open map[string]bool) {
	var missing []string
	for id, waiting := range open {
		if waiting {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		p.fail(fmt.Sprintf("messages[%d]", at), "the tool call %q has no tool message that answers it", clipped(missing[0]))
	}
}

func clipped(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
