package gemini

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"spillway/internal/catalog"
	"spillway/internal/chat"
)

const (
	// maxStops is how many stop sequences the provider takes, maxTools how many functions.
	maxStops = 5
	maxTools = 512
)

type (
	declarations struct {
		Functions []function `json:"functionDeclarations"`
	}
	function struct {
		Name        string         `json:"name"`
		Description string         `json:"description,omitzero"`
		Parameters  jsontext.Value `json:"parametersJsonSchema,omitzero"`
	}
	toolConfig struct {
		Calling functionCalling `json:"functionCallingConfig"`
	}
	functionCalling struct {
		Mode    string   `json:"mode"`
		Allowed []string `json:"allowedFunctionNames,omitzero"`
	}
	generationConfig struct {
		MaxTokens   int64           `json:"maxOutputTokens,omitzero"`
		Temperature *float64        `json:"temperature,omitzero"`
		TopP        *float64        `json:"topP,omitzero"`
		Stop        []string        `json:"stopSequences,omitzero"`
		Seed        *int64          `json:"seed,omitzero"`
		MIME        string          `json:"responseMimeType,omitzero"`
		Schema      jsontext.Value  `json:"responseJsonSchema,omitzero"`
		Thinking    *thinkingConfig `json:"thinkingConfig,omitzero"`
	}
)

// tools declares the functions and says how the model must use them. Some of them allowed but none demanded means that the
// others are not declared: names are taken in the mode ANY only.
func (e *encoder) tools() {
	choice := e.req.Choice
	optional := choice.Mode == chat.ChoiceAllowed && !choice.Required
	var d declarations
	for i, t := range e.req.Tools {
		at := fmt.Sprintf("tools[%d]", i)
		switch {
		case t.Custom:
			e.refuse(at+".type", "this provider has no free-text tools")
		case !mayBegin(t.Name):
			e.refuse(at+".function.name", "this provider's function names begin with a letter or an underscore")
		case optional && !slices.Contains(choice.Allowed, t.Name):
			continue
		}
		f := function{Name: t.Name, Description: t.Description}
		if t.Parameters != nil {
			f.Parameters = e.schema(at+".function.parameters", t.Parameters)
		}
		d.Functions = append(d.Functions, f)
	}
	if len(d.Functions) > maxTools {
		e.refuse("tools", "this provider takes at most %d", maxTools)
	}
	if len(d.Functions) == 0 {
		return
	}
	e.body.Tools = []declarations{d}
	mode, names := calling(choice)
	if e.firm && (mode == "" || mode == auto) && slices.ContainsFunc(e.req.Tools, func(t chat.Tool) bool { return t.Strict }) {
		mode = validated
	}
	if mode != "" {
		e.body.ToolConfig = &toolConfig{functionCalling{mode, names}}
	}
	if e.req.OneCall {
		e.drop("parallel_tool_calls") // cutting calls off afterwards would be worse
	}
}

const (
	auto = "AUTO"
	// validated leaves the model as free as auto does, and has its calls validated (FunctionCallingConfigModeValidated of
	// google.golang.org/genai v1.77.0, read 2026-11-30).
	validated = "VALIDATED"
)

func mayBegin(name string) bool {
	return name != "" && (name[0] == '_' || name[0] >= 'a' && name[0] <= 'z' || name[0] >= 'A' && name[0] <= 'Z')
}

func calling(c chat.ToolChoice) (mode string, names []string) {
	switch c.Mode {
	case chat.ChoiceNone:
		return "NONE", nil
	case chat.ChoiceRequired:
		return "ANY", nil
	case chat.ChoiceNamed:
		return "ANY", []string{c.Name}
	case chat.ChoiceAllowed:
		if c.Required {
			return "ANY", c.Allowed
		}
		return auto, nil
	case chat.ChoiceAuto:
		return auto, nil
	default:
		return "", nil
	}
}

// takes reports whether a parameter that was given is sent; a channel may leave it out.
func (e *encoder) takes(name string, given bool) bool {
	if given && slices.Contains(e.can.Drops, name) {
		e.drop(name)
		return false
	}
	return given
}

// generation writes the parameters of the answer.
func (e *encoder) generation() {
	r, g := e.req, generationConfig{MaxTokens: e.limit}
	if e.takes("temperature", r.Temperature != nil) {
		g.Temperature = r.Temperature
	}
	if e.takes("top_p", r.TopP != nil) {
		g.TopP = r.TopP
	}
	if e.takes("stop", len(r.Stop) > 0) {
		if g.Stop = r.Stop; len(r.Stop) > maxStops {
			e.refuse("stop", "this provider takes at most %d sequences", maxStops)
		}
	}
	if e.takes("seed", r.Seed != nil) {
		if g.Seed = r.Seed; *r.Seed > math.MaxInt32 || *r.Seed < math.MinInt32 {
			g.Seed = nil // it is a number of 32 bits
			e.drop("seed")
		}
	}
	e.effort(&g)
	e.format(&g)
	if !g.empty() {
		e.body.Generation = &g
	}
}

func (g *generationConfig) empty() bool {
	return g.MaxTokens == 0 && g.Temperature == nil && g.TopP == nil && len(g.Stop) == 0 && g.Seed == nil && g.MIME == "" && g.Thinking == nil
}

func (e *encoder) effort(g *generationConfig) {
	if !e.takes("reasoning_effort", e.req.Effort != "") {
		return
	}
	if !e.family.thinks() {
		e.drop("reasoning_effort")
		return
	}
	if g.Thinking = e.family.thinking(e.req.Effort); g.Thinking == nil {
		e.refuse("reasoning_effort", "it is none of none, minimal, low, medium, high, xhigh, max")
	}
}

// format asks for JSON, together with functions where the model can.
func (e *encoder) format(g *generationConfig) {
	f := e.req.Format
	if f == nil || f.Kind == chat.FormatText {
		return
	}
	if len(e.body.Tools) > 0 && e.can.Lacks(catalog.SchemaWithTools) {
		e.refuse("response_format", "this model does not take it together with tools")
	}
	g.MIME = "application/json"
	if f.Kind == chat.FormatSchema {
		g.Schema = e.schema("response_format.json_schema.schema", f.Schema)
	}
}

// carried are the members of a client's body that the canonical request holds.
var carried = map[string]bool{"model": true, "messages": true, "tools": true, "tool_choice": true, "parallel_tool_calls": true, "max_tokens": true,
	"max_completion_tokens": true, "temperature": true, "top_p": true, "stop": true, "seed": true, "response_format": true, "reasoning_effort": true,
	"stream": true, "stream_options": true}

// idle are values that ask for nothing, so that nothing is lost without them.
var idle = map[string][]string{"store": {"false"}, "logprobs": {"false"}, "top_logprobs": {"0"}, "n": {"1"}, "logit_bias": {"{}"},
	"service_tier": {`"auto"`, `"default"`}, "frequency_penalty": {"0", "0.0"}, "presence_penalty": {"0", "0.0"}, "modalities": {`["text"]`},
	"functions": {"[]"}, "function_call": {`"none"`, `"auto"`}}

// needed are parameters without which the answer would be another one (reference/providers.md §3.2, §3.8, 2026-11-30).
var needed = []string{"n", "logprobs", "top_logprobs", "logit_bias", "modalities", "web_search_options", "functions", "function_call"}

// leftovers goes through the members of the client's body that have no place in Gemini's: one that matters is refused, any
// other is left out and named.
func (e *encoder) leftovers() {
	if e.req.MarksCache() {
		e.drop("cache_control") // Gemini caches by itself
	}
	for _, m := range e.req.Members {
		value := strings.Join(strings.Fields(string(m.Value)), "")
		switch {
		case carried[m.Name] || value == "null" || slices.Contains(idle[m.Name], value):
		case slices.Contains(needed, m.Name) && !slices.Contains(e.can.Drops, m.Name):
			e.refuse(m.Name, "this provider has nothing of the kind")
		default:
			e.drop(m.Name)
		}
	}
	if e.req.Choices > 1 && !slices.Contains(e.can.Drops, "n") {
		e.refuse("n", "this provider gives one choice")
	}
	if e.req.LogProbs && !slices.Contains(e.can.Drops, "logprobs") {
		e.refuse("logprobs", "this provider has nothing of the kind")
	}
}
