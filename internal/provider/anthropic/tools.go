package anthropic

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"spillway/internal/catalog"
	"spillway/internal/chat"
)

type tool struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	InputSchema jsontext.Value `json:"input_schema"`
	Strict      bool           `json:"strict,omitzero"`
	Cache       jsontext.Value `json:"cache_control,omitzero"`
}

type toolChoice struct {
	Type    string `json:"type"`
	Name    string `json:"name,omitzero"`
	OneCall bool   `json:"disable_parallel_tool_use,omitzero"`
}

// forced reports whether the model must call a tool.
func (c *toolChoice) forced() bool { return c != nil && (c.Type == "any" || c.Type == "tool") }

// noParameters is the schema of a tool that takes none.
const noParameters = `{"type":"object","properties":{}}`

func (e *encoder) tools() {
	allowed := make(map[string]bool, len(e.req.Choice.Allowed))
	for _, name := range e.req.Choice.Allowed {
		allowed[name] = true
	}
	for i, t := range e.req.Tools {
		switch {
		case t.Custom:
			e.refuse(fmt.Sprintf("tools[%d]", i), "a custom tool is not taken by this provider")
		case e.req.Choice.Mode == chat.ChoiceAllowed && !allowed[t.Name]:
		default:
			e.out.Tools = append(e.out.Tools, e.tool(fmt.Sprintf("tools[%d].function.parameters", i), t))
		}
	}
	if len(e.out.Tools) == 0 {
		e.called()
	}
}

// called declares the tools of the conversation's calls where the client declares none any more: the API wants a tool to
// be known that was called. They cannot be called again.
func (e *encoder) called() {
	known := map[string]bool{}
	for i := range e.req.Messages {
		for _, c := range e.req.Messages[i].Calls {
			if !known[c.Name] {
				known[c.Name] = true
				e.out.Tools = append(e.out.Tools, tool{Name: c.Name, InputSchema: jsontext.Value(`{"type":"object"}`)})
			}
		}
	}
	if len(e.out.Tools) > 0 {
		e.req.Choice = chat.ToolChoice{Mode: chat.ChoiceNone}
	}
}

func (e *encoder) tool(param string, t chat.Tool) tool {
	out := tool{Name: t.Name, Description: t.Description, Cache: t.CacheControl}
	schema, ok := objectSchema(t.Parameters)
	if !ok {
		e.refuse(param, "the schema's type must be object for this provider")
	}
	out.InputSchema = schema
	if t.Strict && e.model.schema {
		// A strict tool whose schema cannot be said is an ordinary one: the gateway checks its arguments all the same.
		if strict, problem := reduce(schema); problem == nil {
			out.InputSchema, out.Strict = strict, true
		}
	}
	return out
}

// objectSchema is a schema whose root says that it is an object's, which the API demands; ok is false where it is not.
func objectSchema(schema []byte) (_ jsontext.Value, ok bool) {
	root := gjson.ParseBytes(schema)
	members := 0
	root.ForEach(func(_, _ gjson.Result) bool { members++; return true })
	switch kind := root.Get("type"); {
	case members == 0:
		return jsontext.Value(noParameters), true
	case !kind.Exists():
		return jsontext.Value(`{"type":"object",` + root.Raw[1:]), true
	default:
		return jsontext.Value(schema), kind.Str == "object"
	}
}

// choice writes how free the model is in using the tools.
func (e *encoder) choice() {
	if len(e.out.Tools) == 0 {
		return
	}
	c := &toolChoice{Type: "auto", OneCall: e.req.OneCall}
	switch mode := e.req.Choice.Mode; {
	case mode == chat.ChoiceNone:
		c = &toolChoice{Type: "none"}
	case mode == chat.ChoiceNamed:
		c.Type, c.Name = "tool", e.req.Choice.Name
	case mode == chat.ChoiceRequired, mode == chat.ChoiceAllowed && e.req.Choice.Required:
		c.Type = "any"
	case mode == "" && !e.req.OneCall:
		return
	}
	if c.forced() && e.can.Lacks(catalog.ForcedTool) {
		e.refuse("tool_choice", "this model cannot be made to call a tool")
	}
	e.out.Choice = c
}

// format writes the structured output that the client wants.
func (e *encoder) format() {
	f := e.req.Format
	switch {
	case f == nil || f.Kind == chat.FormatText:
	case f.Kind == chat.FormatObject:
		e.refuse("response_format", "this provider gives JSON only by a schema")
	case e.model.schema:
		schema, problem := reduce(jsontext.Value(f.Schema))
		if problem != nil {
			e.refuse("response_format.json_schema.schema"+problem.pointer, problem.why)
			return
		}
		e.out.Output = &outputConfig{Format: &format{Type: "json_schema", Schema: schema}}
	default:
		e.formatByTool(f)
	}
}

// formatByTool has a model without a schema mode give its answer as the input of a tool. Where the client has tools that
// may be called, the model calls one of them or that one. Where it must call one of them, no answer is to be formed.
func (e *encoder) formatByTool(f *chat.Format) {
	if e.out.Choice.forced() {
		return
	}
	schema, ok := objectSchema(f.Schema)
	if !ok {
		e.refuse("response_format.json_schema.schema", "the schema's type must be object for this model")
	}
	name := f.Name
	for slices.ContainsFunc(e.out.Tools, func(t tool) bool { return t.Name == name }) {
		name += "_"
	}
	callable := len(e.out.Tools) > 0 && (e.out.Choice == nil || e.out.Choice.Type != "none")
	e.answerTool = name
	e.out.Tools = append(e.out.Tools, tool{Name: name, Description: "Gives the final answer.", InputSchema: schema})
	e.out.Choice = &toolChoice{Type: "tool", Name: name, OneCall: true} // two answers are none
	if callable {
		e.out.Choice = &toolChoice{Type: "any", OneCall: true}
	}
}
