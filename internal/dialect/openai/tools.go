package openai

import (
	"fmt"
	"slices"

	"github.com/tidwall/gjson"

	"spillway/internal/chat"
)

func (p *parser) tools() {
	v, ok := p.get("tools")
	if !ok {
		return
	}
	if !v.IsArray() {
		p.fail("tools", "must be a list")
		return
	}
	for i, item := range v.Array() {
		at := fmt.Sprintf("tools[%d]", i)
		switch item.Get("type").String() {
		case "function":
			f := item.Get("function")
			t := chat.Tool{Name: p.toolName(at+".function.name", f.Get("name")), Description: p.text(at+".function.description", f.Get("description")),
				Strict: f.Get("strict").Bool()}
			switch params := f.Get("parameters"); {
			case params.IsObject():
				t.Parameters = []byte(params.Raw)
			case params.Exists() && params.Type != gjson.Null:
				p.fail(at+".function.parameters", "must be a JSON schema object")
			}
			p.req.Tools = append(p.req.Tools, t)
		case "custom":
			p.req.Tools = append(p.req.Tools, chat.Tool{Custom: true, Name: p.toolName(at+".custom.name", item.Get("custom.name")),
				Description: item.Get("custom.description").String()})
		default:
			p.fail(at+".type", "must be function or custom")
		}
	}
}

func (p *parser) toolName(at string, v gjson.Result) string {
	name := p.required(at, v)
	if name == "" || len(name) > 64 {
		p.fail(at, "must have 1 to 64 characters")
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			p.fail(at, "may hold only letters, digits, underscores and hyphens")
			break
		}
	}
	return name
}

func (p *parser) toolChoice() {
	v, ok := p.get("tool_choice")
	if !ok {
		return
	}
	switch {
	case v.Type == gjson.String && slices.Contains([]string{"auto", "none", "required"}, v.Str):
		p.req.Choice.Mode = chat.ChoiceMode(v.Str)
	case v.IsObject() && v.Get("type").String() == "allowed_tools":
		p.req.Choice.Mode = chat.ChoiceAllowed
	case v.IsObject():
		name := v.Get(v.Get("type").String() + ".name").String()
		if !slices.ContainsFunc(p.req.Tools, func(t chat.Tool) bool { return t.Name == name }) {
			p.fail("tool_choice", "names a tool that is not in tools")
			return
		}
		p.req.Choice = chat.ToolChoice{Mode: chat.ChoiceNamed, Name: name}
	default:
		p.fail("tool_choice", "must be auto, none, required, or an object that names a tool")
	}
	if p.req.Choice.Forced() && len(p.req.Tools) == 0 {
		p.fail("tool_choice", "demands a tool, but tools is empty")
	}
}

func (p *parser) format() {
	v, ok := p.get("response_format")
	if !ok {
		return
	}
	switch kind := v.Get("type").String(); kind {
	case "text":
	case "json_object":
		p.req.Format = &chat.Format{Kind: chat.FormatObject}
	case "json_schema":
		s := v.Get("json_schema")
		f := &chat.Format{Kind: chat.FormatSchema, Name: p.toolName("response_format.json_schema.name", s.Get("name")), Strict: s.Get("strict").Bool()}
		if schema := s.Get("schema"); schema.IsObject() {
			f.Schema = []byte(schema.Raw)
		} else {
			p.fail("response_format.json_schema.schema", "is required and must be an object")
		}
		p.req.Format = f
	default:
		p.fail("response_format.type", "must be text, json_object or json_schema")
	}
}
