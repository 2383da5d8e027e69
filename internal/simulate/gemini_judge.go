package simulate

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// geminiRequest is read strictly: a member that it does not have is an error, as it is
// at Google. What stands here as raw JSON is not looked at.
type geminiRequest struct {
	System   *geminiContent  `json:"systemInstruction"`
	Contents []geminiContent `json:"contents"`
	Tools    []struct {
		Functions    []geminiFunction `json:"functionDeclarations"`
		GoogleSearch json.RawMessage  `json:"googleSearch"`
		Code         json.RawMessage  `json:"codeExecution"`
	} `json:"tools"`
	ToolConfig struct {
		Calling struct {
			Mode    string   `json:"mode"`
			Allowed []string `json:"allowedFunctionNames"`
		} `json:"functionCallingConfig"`
	} `json:"toolConfig"`
	Generation  geminiGeneration `json:"generationConfig"`
	Safety      json.RawMessage  `json:"safetySettings"`
	Cached      json.RawMessage  `json:"cachedContent"`
	ServiceTier json.RawMessage  `json:"serviceTier"`
	Labels      json.RawMessage  `json:"labels"`
}

type geminiGeneration struct {
	MaxTokens    int             `json:"maxOutputTokens"`
	MIME         string          `json:"responseMimeType"`
	JSONSchema   json.RawMessage `json:"responseJsonSchema"`
	Schema       json.RawMessage `json:"responseSchema"`
	Stop         []string        `json:"stopSequences"`
	Temperature  *float64        `json:"temperature"`
	TopP         json.RawMessage `json:"topP"`
	TopK         json.RawMessage `json:"topK"`
	Seed         *int32          `json:"seed"`
	Candidates   json.RawMessage `json:"candidateCount"`
	Presence     json.RawMessage `json:"presencePenalty"`
	Frequency    json.RawMessage `json:"frequencyPenalty"`
	Logprobs     json.RawMessage `json:"logprobs"`
	WantLogprobs json.RawMessage `json:"responseLogprobs"`
	Modalities   json.RawMessage `json:"responseModalities"`
	Media        json.RawMessage `json:"mediaResolution"`
	Thinking     struct {
		Level   string `json:"thinkingLevel"`
		Budget  *int   `json:"thinkingBudget"`
		Include bool   `json:"includeThoughts"`
	} `json:"thinkingConfig"`
}

type geminiFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parametersJsonSchema"`
	OpenAPI     json.RawMessage `json:"parameters"`
}

type geminiContent struct {
	Role  string       `json:"role"`
	Parts []geminiPart `json:"parts"`
}

type geminiPart struct {
	Text    *string `json:"text"`
	Thought bool    `json:"thought"`
	Inline  *struct {
		MIME string `json:"mimeType"`
		Data string `json:"data"`
	} `json:"inlineData"`
	File *struct {
		MIME string `json:"mimeType"`
		URI  string `json:"fileUri"`
	} `json:"fileData"`
	Call *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	Response *struct {
		ID       string          `json:"id"`
		Name     string          `json:"name"`
		Response json.RawMessage `json:"response"`
	} `json:"functionResponse"`
	Signature string `json:"thoughtSignature"`
}

func (g gemini) parse(body []byte) (request, *failure) {
	var in geminiRequest
	if f := strictly(body, &in, "Invalid JSON payload received.", `Invalid JSON payload received. Unknown name "%s": Cannot find field.`); f != nil {
		return request{}, f
	}
	if g.stream && !g.events {
		return request{}, invalid("The simulated provider streams as events only: ask for alt=sse.")
	}
	a := asked{model: g.model, stream: g.stream, limit: in.Generation.MaxTokens, thinks: in.Generation.Thinking.Include}
	for _, check := range []func(*asked) *failure{in.conversation, in.declared, in.chosen, in.generation} {
		if f := check(&a); f != nil {
			return request{}, f
		}
	}
	return a.plan(), nil
}

// conversation holds the turns to the API's rules: results follow their calls, one
// for each, the calls of Gemini 3 and later are signed, and the user speaks last.
func (in *geminiRequest) conversation(a *asked) *failure {
	if len(in.Contents) == 0 {
		return invalid("* GenerateContentRequest.contents: contents is not specified")
	}
	open := 0 // the calls of the turn before
	for i, c := range in.Contents {
		if c.Role != "user" && c.Role != "model" {
			return invalid("Please use a valid role: user, model.")
		}
		m, calls, results, f := c.neutral(fmt.Sprintf("contents[%d]", i), signs(a.model))
		switch {
		case f != nil:
			return f
		case results > 0 && open == 0:
			return invalid("Please ensure that function response turn comes immediately after a function call turn.")
		case results != open:
			return invalid("Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
		case calls > 0 && i == 0:
			return invalid("Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
		}
		open = calls
		a.messages = append(a.messages, m)
	}
	if in.Contents[len(in.Contents)-1].Role == "model" {
		return &failure{kind: prefillRefused}
	}
	return nil
}

// signs reports whether a model refuses calls without a signature: since Gemini 3.
func signs(model string) bool {
	return !strings.Contains(model, "gemini-1.") && !strings.Contains(model, "gemini-2.")
}

// unsignedByLeave stands for a signature that there never was:
// https://ai.google.dev/gemini-api/docs/thought-signatures (2026-11-30).
const unsignedByLeave = "skip_thought_signature_validator"

// neutral reads a turn, and counts its calls and results.
func (c geminiContent) neutral(at string, signed bool) (m message, calls, results int, f *failure) {
	m = message{assistant: c.Role == "model", user: c.Role == "user"}
	if len(c.Parts) == 0 {
		return m, 0, 0, invalid("* GenerateContentRequest." + at + ".parts: contents.parts must not be empty.")
	}
	for k, p := range c.Parts {
		if f := p.check(fmt.Sprintf("%s.parts[%d]", at, k), c.Role); f != nil {
			return m, 0, 0, f
		}
		switch {
		case p.Call != nil:
			if calls == 0 && signed && p.Signature == "" {
				return m, 0, 0, invalid("Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:" + p.Call.Name + "` , position " + itoa(k+1) + ".")
			}
			calls++
		case p.Response != nil:
			results++
			m.user = false
		case p.Inline != nil || p.File != nil:
			m.images++
		case p.Text != nil && !p.Thought:
			m.text += *p.Text
		}
	}
	if calls > 0 && results > 0 {
		return m, 0, 0, invalid("Please ensure that function call and function response turns are separate.")
	}
	return m, calls, results, nil
}

var functionName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$`)

// check holds one part to its kind's rules.
func (p geminiPart) check(at, role string) *failure {
	kinds := 0
	for _, has := range []bool{p.Text != nil, p.Inline != nil, p.File != nil, p.Call != nil, p.Response != nil} {
		if has {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return invalid("* GenerateContentRequest." + at + ".data: required oneof field 'data' must have one initialized field")
	case p.Signature != "" && p.Signature != unsignedByLeave && !sealed(p.Signature):
		return invalid("Corrupted thought signature.")
	case p.Inline != nil && (p.Inline.MIME == "" || !isBase64(p.Inline.Data)):
		return invalid("Invalid value at '" + at + ".inline_data.data' (TYPE_BYTES), Base64 decoding failed")
	case p.File != nil && !strings.HasPrefix(p.File.URI, "https://") && !strings.HasPrefix(p.File.URI, "gs://"):
		return invalid("Invalid or unsupported file uri: " + at + ".file_data")
	case p.Call != nil && (role != "model" || !functionName.MatchString(p.Call.Name) || len(p.Call.Args) > 0 && !isObject(p.Call.Args)):
		return invalid("Invalid function call in " + at + ".")
	case p.Response != nil && (role != "user" || !functionName.MatchString(p.Response.Name) || !isObject(p.Response.Response)):
		return invalid("Invalid value at '" + at + ".function_response.response' (type.googleapis.com/google.protobuf.Struct)")
	}
	return nil
}

func (in *geminiRequest) declared(a *asked) *failure {
	for _, group := range in.Tools {
		for _, f := range group.Functions {
			switch {
			case !functionName.MatchString(f.Name):
				return invalid("* GenerateContentRequest.tools[0].function_declarations[" + itoa(len(a.tools)) + "].name: Invalid function name. Must start with a letter or an underscore.")
			case declares(a.tools, f.Name):
				return invalid("Duplicate function declaration found: " + f.Name)
			case f.Parameters != nil && f.OpenAPI != nil:
				return invalid("parameters and parameters_json_schema are mutually exclusive.")
			}
			schema := f.Parameters
			if schema == nil {
				schema = f.OpenAPI
			}
			a.tools = append(a.tools, tool{f.Name, schema})
		}
	}
	if len(a.tools) > 512 {
		return invalid("At most 512 function declarations are supported.")
	}
	return nil
}

func (in *geminiRequest) chosen(a *asked) *failure {
	c := in.ToolConfig.Calling
	switch {
	case !slices.Contains([]string{"", "AUTO", "ANY", "NONE", "VALIDATED"}, c.Mode):
		return invalid("Invalid value at 'tool_config.function_calling_config.mode'")
	case c.Mode == "ANY" && len(a.tools) == 0:
		return invalid("Function calling config is set without function_declarations.")
	case len(c.Allowed) > 0 && c.Mode != "ANY" && c.Mode != "VALIDATED":
		return invalid("allowed_function_names should only be set when function calling mode is ANY.")
	}
	a.choice = choice{none: c.Mode == "NONE", required: c.Mode == "ANY"}
	for _, name := range c.Allowed {
		if !declares(a.tools, name) {
			return invalid("allowed_function_names holds a name that is not declared: " + name)
		}
		if a.choice.name == "" && c.Mode == "ANY" {
			a.choice.name = name
		}
	}
	return nil
}

func (in *geminiRequest) generation(a *asked) *failure {
	g := in.Generation
	schema := g.JSONSchema
	if schema == nil {
		schema = g.Schema
	}
	switch {
	case len(g.Stop) > 5:
		return invalid("The number of stop_sequences must be at most 5.")
	case g.Temperature != nil && (*g.Temperature < 0 || *g.Temperature > 2):
		return invalid("Unable to submit request because the temperature is out of the range of 0 to 2.")
	case g.Thinking.Level != "" && g.Thinking.Budget != nil:
		return invalid("You can only set only one of thinking budget and thinking level.")
	case !slices.Contains([]string{"", "MINIMAL", "LOW", "MEDIUM", "HIGH"}, g.Thinking.Level):
		return invalid("Invalid value at 'generation_config.thinking_config.thinking_level'")
	case schema != nil && g.MIME != "application/json":
		return invalid("Response schema is only supported for response mime type 'application/json'.")
	case g.MIME == "application/json" && len(a.tools) > 0 && !signs(a.model):
		return invalid("Function calling with a response mime type: 'application/json' is unsupported")
	}
	a.schema, a.anyObject = schema, g.MIME == "application/json"
	return nil
}
