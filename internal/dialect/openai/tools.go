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
		tool := p.tool(fmt.Sprintf("tools[%d]", i), item)
		tool.CacheControl = cacheControl(item)
		p.req.Tools = append(p.req.Tools, tool)
	}
}

func (p *parser) tool(at string, v gjson.Result) chat.Tool {
	switch v.Get("type").String() {
	case "function":
		f := v.Get("function")
		at += ".function"
		t := chat.Tool{Name: p.toolName(at+".name", f.Get("name")), Description: p.text(at+".description", f.Get("description")),
			Strict: p.flag(at+".strict", f.Get("strict"))}
		switch params := f.Get("parameters"); {
		case params.IsObject():
			t.Parameters = []byte(params.Raw)
		case optional(params):
			p.fail(at+".parameters", "must be a JSON schema object")
		}
		return t
	case "custom":
		return chat.Tool{Custom: true, Name: p.toolName(at+".custom.name", v.Get("custom.name")),
			Description: p.text(at+".custom.description", v.Get("custom.description"))}
	default:
		p.fail(at+".type", "must be function or custom")
		return chat.Tool{}
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
	kind := v.Get("type").String()
	switch {
	case v.Type == gjson.String && slices.Contains([]string{"auto", "none", "required"}, v.Str):
		p.req.Choice.Mode = chat.ChoiceMode(v.Str)
	case kind == "allowed_tools":
		p.req.Choice.Mode = chat.ChoiceAllowed
		allowed := v.Get("allowed_tools")
		if !allowed.IsObject() {
			p.fail("tool_choice.allowed_tools", "is required and must be an object")
		}
		p.req.Choice.Required = allowed.Get("mode").String() == "required"
		for _, t := range allowed.Get("tools").Array() {
			p.req.Choice.Allowed = append(p.req.Choice.Allowed, t.Get(t.Get("type").String()+".name").String())
		}
	case kind == "function" || kind == "custom":
		p.namedTool("tool_choice."+kind+".name", v.Get(kind+".name"))
		return
	default:
		p.fail("tool_choice", "must be auto, none, required, or an object of the type function, custom or allowed_tools")
	}
	if p.req.Choice.Forced() && len(p.req.Tools) == 0 {
		p.fail("tool_choice", "demands a tool, but tools is empty")
	}
}

func (p *parser) namedTool(at string, v gjson.Result) {
	name := p.required(at, v)
	if !slices.ContainsFunc(p.req.Tools, func(t chat.Tool) bool { return t.Name == name }) {
		p.fail(at, "names a tool that is not in tools")
	}
	p.req.Choice = chat.ToolChoice{Mode: chat.ChoiceNamed, Name: name}
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
		f := &chat.Format{Kind: chat.FormatSchema, Name: p.toolName("response_format.json_schema.name", s.Get("name")), Strict: p.flag("response_format.json_schema.strict", s.Get("strict"))}
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
