package responses

import (
	"cmp"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"spillway/internal/chat"
	"spillway/internal/provider/openai/strict"
)

// The types of tools, and of a choice among them.
const (
	function  = "function"
	custom    = "custom"
	webSearch = "web_search"
)

// tool is something the model may call; its type says which members it has.
type tool struct {
	Type        string         `json:"type"`
	Name        string         `json:"name,omitzero"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters,omitzero"` // of a function; it must be there
	Strict      *bool          `json:"strict,omitzero"`     // likewise: the API's own default is true
	Format      *grammar       `json:"format,omitzero"`     // of a free-text tool; absent: any text

	ContextSize string    `json:"search_context_size,omitzero"` // of a search
	Location    *location `json:"user_location,omitzero"`
}

// grammar bounds the text that a free-text tool takes.
type grammar struct {
	Type       string `json:"type"`
	Syntax     string `json:"syntax"`
	Definition string `json:"definition"`
}

type location struct {
	Type     string `json:"type"`
	City     string `json:"city,omitzero"`
	Country  string `json:"country,omitzero"`
	Region   string `json:"region,omitzero"`
	Timezone string `json:"timezone,omitzero"`
}

// toolChoice names tools: the one that must be called, or those that may be.
type toolChoice struct {
	Type  string       `json:"type"`
	Name  string       `json:"name,omitzero"`
	Mode  string       `json:"mode,omitzero"`
	Tools []toolChoice `json:"tools,omitempty"`
}

// noParameters is the schema of a function that takes none.
const noParameters = `{"type":"object","properties":{}}`

func (e *encoder) tools() {
	for i := range e.req.Tools {
		e.out.Tools = append(e.out.Tools, e.tool(i))
	}
	if options := e.written("web_search_options"); options.Exists() {
		e.out.Tools = append(e.out.Tools, search(options))
	}
}

func (e *encoder) tool(i int) tool {
	t := &e.req.Tools[i]
	out := tool{Type: function, Name: t.Name, Description: t.Description, Parameters: t.Parameters, Strict: &t.Strict}
	switch {
	case t.Custom:
		out = tool{Type: custom, Name: t.Name, Description: t.Description, Format: grammarOf(e.written("tools").Get(fmt.Sprintf("%d.custom.format", i)))}
	case t.Parameters == nil:
		out.Parameters = jsontext.Value(noParameters)
	}
	return out
}

// grammarOf is a free-text tool's grammar, one level flatter than in the chat API; nil: any text.
func grammarOf(format gjson.Result) *grammar {
	if format.Get("type").Str != "grammar" {
		return nil
	}
	g := format.Get("grammar")
	return &grammar{Type: "grammar", Syntax: g.Get("syntax").Str, Definition: g.Get("definition").Str}
}

// search is the provider's own search as a tool.
func search(options gjson.Result) tool {
	out := tool{Type: webSearch, ContextSize: options.Get("search_context_size").Str}
	if place := options.Get("user_location.approximate"); place.IsObject() {
		out.Location = &location{Type: "approximate", City: place.Get("city").Str, Country: place.Get("country").Str,
			Region: place.Get("region").Str, Timezone: place.Get("timezone").Str}
	}
	return out
}

// choice writes how free the model is in using the tools. Without tools it means nothing.
func (e *encoder) choice() {
	if len(e.req.Tools) == 0 {
		return
	}
	if e.req.OneCall {
		e.out.Parallel = new(bool)
	}
	switch c := e.req.Choice; c.Mode {
	case "":
	case chat.ChoiceNamed:
		e.out.Choice = toolChoice{Type: cmp.Or(e.kinds()[c.Name], function), Name: c.Name}
	case chat.ChoiceAllowed:
		e.out.Choice = e.allowed(c)
	default:
		e.out.Choice = string(c.Mode)
	}
}

func (e *encoder) allowed(c chat.ToolChoice) toolChoice {
	out := toolChoice{Type: string(chat.ChoiceAllowed), Mode: string(chat.ChoiceAuto)}
	if c.Required {
		out.Mode = string(chat.ChoiceRequired)
	}
	kinds := e.kinds()
	for _, name := range c.Allowed {
		out.Tools = append(out.Tools, toolChoice{Type: cmp.Or(kinds[name], function), Name: name})
	}
	return out
}

// kinds are the types of the tools, by name.
func (e *encoder) kinds() map[string]string {
	kinds := make(map[string]string, len(e.req.Tools))
	for _, t := range e.req.Tools {
		kinds[t.Name] = function
		if t.Custom {
			kinds[t.Name] = custom
		}
	}
	return kinds
}

// textConfig is what the text of the answer must be like.
type textConfig struct {
	Format    *format `json:"format,omitzero"`
	Verbosity string  `json:"verbosity,omitzero"`
}

type format struct {
	Type        string         `json:"type"`
	Name        string         `json:"name,omitzero"`
	Description string         `json:"description,omitzero"`
	Schema      jsontext.Value `json:"schema,omitzero"`
	Strict      *bool          `json:"strict,omitzero"`
}

// format writes the structured output and the verbosity that the client wants.
func (e *encoder) format() {
	e.out.Text.Verbosity = e.written("verbosity").Str
	switch f := e.req.Format; {
	case f == nil || f.Kind == chat.FormatText:
	case f.Kind == chat.FormatObject:
		e.out.Text.Format = &format{Type: string(f.Kind)}
	default:
		out := &format{Type: string(f.Kind), Name: f.Name, Schema: f.Schema, Strict: &f.Strict,
			Description: e.written("response_format").Get("json_schema.description").Str}
		if closed, ok := strict.Schema(f.Schema); ok && e.firm && !f.Strict {
			out.Schema, out.Strict = closed, &e.firm
		}
		e.out.Text.Format = out
	}
}
