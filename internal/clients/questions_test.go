package clients

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
)

// question is what a client asks, and how the upstream answers it.
type question struct {
	name string
	ask  func(*openai.ChatCompletionNewParams)
	// calls: the answer calls both tools. says is its text otherwise; empty: a short one.
	calls bool
	says  string
	// not are the formats that have no words for it.
	not []string
}

const (
	shortAnswer  = "Around the dam, never over it."
	schemaAnswer = `{"name":"Itaipu","height":196}`
	onePixel     = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	smallPDF     = "JVBERi0xLjQKJSVFT0YK"
	smallText    = "VGhlIHdhdGVyIHN0YW5kcyBoaWdoLg=="
)

var questions = []question{
	{name: "text", ask: func(*openai.ChatCompletionNewParams) {}},
	{name: "a system text, and a conversation", ask: func(p *openai.ChatCompletionNewParams) {
		p.Messages = []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("Answer in one sentence."), openai.DeveloperMessage("Be kind."),
			openai.UserMessage("Hello"), openai.AssistantMessage("Good day."), openai.UserMessage("Where does the flood go?")}
	}},
	{name: "sampling, a limit, and who asks", ask: func(p *openai.ChatCompletionNewParams) {
		p.Temperature, p.MaxCompletionTokens, p.SafetyIdentifier = openai.Float(0.25), openai.Int(300), openai.String("somebody")
	}},
	{name: "a stop sequence", not: []string{"responses"}, ask: func(p *openai.ChatCompletionNewParams) { p.Stop.OfString = openai.String("END") }},
	{name: "stop sequences", not: []string{"responses"}, ask: func(p *openai.ChatCompletionNewParams) { p.Stop.OfStringArray = []string{"END", "STOP"} }},
	{name: "effort", ask: func(p *openai.ChatCompletionNewParams) { p.ReasoningEffort = shared.ReasoningEffortHigh }},
	{name: "no effort", ask: func(p *openai.ChatCompletionNewParams) { p.ReasoningEffort = shared.ReasoningEffortNone }},
	{name: "an image in the request, and one by its address", ask: func(p *openai.ChatCompletionNewParams) {
		p.Messages = parts(openai.TextContentPart("What is this?"),
			openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "data:image/png;base64," + onePixel}),
			openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "https://example.com/dam.png"}))
	}},
	{name: "files", ask: func(p *openai.ChatCompletionNewParams) {
		p.Messages = parts(openai.TextContentPart("Sum these up."),
			openai.FileContentPart(openai.ChatCompletionContentPartFileFileParam{Filename: openai.String("report.pdf"),
				FileData: openai.String("data:application/pdf;base64," + smallPDF)}),
			openai.FileContentPart(openai.ChatCompletionContentPartFileFileParam{Filename: openai.String("note.txt"),
				FileData: openai.String("data:text/plain;base64," + smallText)}))
	}},
	{name: "a schema", says: schemaAnswer, ask: func(p *openai.ChatCompletionNewParams) {
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "dam",
			Strict: openai.Bool(true), Schema: damSchema()}}
	}},
	{name: "tools", calls: true, ask: tools},
	{name: "strict tools", calls: true, ask: func(p *openai.ChatCompletionNewParams) {
		tools(p)
		for _, t := range p.Tools {
			t.OfFunction.Function.Strict = openai.Bool(true)
		}
	}},
	{name: "the results of parallel calls", ask: results},
	{name: "tools, and the choice is the model's", calls: true, ask: choose("auto")},
	{name: "tools, and none may be called", ask: choose("none")},
	{name: "tools, and one must be called", calls: true, ask: choose("required")},
	{name: "tools, and this one must be called", calls: true, ask: func(p *openai.ChatCompletionNewParams) {
		tools(p)
		p.ToolChoice = openai.ToolChoiceOptionFunctionToolChoice(openai.ChatCompletionNamedToolChoiceFunctionParam{Name: "get_level"})
	}},
	{name: "tools, and one of these may be called", calls: true, ask: allow(openai.ChatCompletionAllowedToolsModeAuto)},
	{name: "tools, and one of these must be called", calls: true, ask: allow(openai.ChatCompletionAllowedToolsModeRequired)},
	{name: "tools, one at a time", ask: func(p *openai.ChatCompletionNewParams) {
		tools(p)
		p.ParallelToolCalls = openai.Bool(false)
	}},
}

func parts(content ...openai.ChatCompletionContentPartUnionParam) []openai.ChatCompletionMessageParamUnion {
	return []openai.ChatCompletionMessageParamUnion{openai.UserMessage(content)}
}

func damSchema() map[string]any {
	return map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string", "description": "What it is called"},
		"height": map[string]any{"type": "integer"}}, "required": []string{"name", "height"}, "additionalProperties": false}
}

// The two tools, and the arguments that the upstream calls them with.
const (
	levelArguments = `{"city":"Foz","unit":"m"}`
	gatesArguments = `{"city":"Foz"}`
)

func tools(p *openai.ChatCompletionNewParams) {
	text := map[string]any{"type": "string"}
	tool := func(name, description string, properties map[string]any, required ...string) openai.ChatCompletionToolUnionParam {
		return openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: name, Description: openai.String(description),
			Parameters: shared.FunctionParameters{"type": "object", "properties": properties, "required": required, "additionalProperties": false}})
	}
	p.Tools = []openai.ChatCompletionToolUnionParam{
		tool("get_level", "The level of the water", map[string]any{"city": text, "unit": map[string]any{"type": "string", "enum": []string{"m", "ft"}}}, "city", "unit"),
		tool("get_gates", "Which gates are open", map[string]any{"city": text}, "city"),
	}
}

func choose(mode string) func(*openai.ChatCompletionNewParams) {
	return func(p *openai.ChatCompletionNewParams) {
		tools(p)
		p.ToolChoice.OfAuto = openai.String(mode)
	}
}

func allow(mode openai.ChatCompletionAllowedToolsMode) func(*openai.ChatCompletionNewParams) {
	return func(p *openai.ChatCompletionNewParams) {
		tools(p)
		p.ToolChoice = openai.ToolChoiceOptionAllowedTools(openai.ChatCompletionAllowedToolsParam{Mode: mode, Tools: []map[string]any{
			{"type": "function", "function": map[string]any{"name": "get_level"}}, {"type": "function", "function": map[string]any{"name": "get_gates"}}}})
	}
}

// results asks with two calls of an earlier turn, and what came of them: a text, and a JSON object.
func results(p *openai.ChatCompletionNewParams) {
	tools(p)
	call := func(id, name, arguments string) openai.ChatCompletionMessageToolCallUnionParam {
		return openai.ChatCompletionMessageToolCallUnionParam{OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{ID: id,
			Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: name, Arguments: arguments}}}
	}
	p.Messages = []openai.ChatCompletionMessageParamUnion{openai.UserMessage("How is the water in Foz?"),
		{OfAssistant: &openai.ChatCompletionAssistantMessageParam{
			ToolCalls: []openai.ChatCompletionMessageToolCallUnionParam{call("call_1", "get_level", levelArguments), call("call_2", "get_gates", gatesArguments)}}},
		openai.ToolMessage("high", "call_1"), openai.ToolMessage(`{"open":[1,4]}`, "call_2")}
}

// said is an answer, in whatever words it came.
type said struct {
	text   string
	calls  []string // a name and its arguments
	finish string   // OpenAI's word
	// prompt and completion are tokens.
	prompt, completion int64
}

func (s said) equal(other said) bool {
	return s.text == other.text && slices.Equal(s.calls, other.calls) && s.finish == other.finish && s.prompt == other.prompt && s.completion == other.completion
}

// wanted is the answer that the upstream of a question gives.
func (q question) wanted() said {
	if q.calls {
		return said{calls: []string{callOf("get_level", levelArguments), callOf("get_gates", gatesArguments)}, finish: "tool_calls", prompt: 40, completion: 14}
	}
	return said{text: cmp.Or(q.says, shortAnswer), finish: "stop", prompt: 40, completion: 14}
}

// callOf writes a call so that it can be compared: its arguments without spaces, their members in the order of the alphabet.
func callOf(name, arguments string) string {
	var v any
	if json.Unmarshal([]byte(arguments), &v) != nil {
		return name + " with " + arguments
	}
	text, _ := json.Marshal(v) // it was JSON
	return name + string(text)
}

// put asks the gateway with OpenAI's SDK.
func (q question) put(ctx context.Context, client openai.Client, model string, stream bool) (said, error) {
	p := openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Where does the flood go?")}}
	q.ask(&p)
	if !stream {
		answer, err := client.Chat.Completions.New(ctx, p)
		if err != nil {
			return said{}, err
		}
		return saidBy(answer), nil
	}
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	events := client.Chat.Completions.NewStreaming(ctx, p)
	var whole openai.ChatCompletionAccumulator
	for events.Next() {
		whole.AddChunk(events.Current())
	}
	if err := events.Err(); err != nil {
		return said{}, err
	}
	return saidBy(&whole.ChatCompletion), nil
}

func saidBy(c *openai.ChatCompletion) said {
	s := said{prompt: c.Usage.PromptTokens, completion: c.Usage.CompletionTokens}
	if len(c.Choices) == 1 {
		s.text, s.finish = c.Choices[0].Message.Content, c.Choices[0].FinishReason
		for _, call := range c.Choices[0].Message.ToolCalls {
			s.calls = append(s.calls, callOf(call.Function.Name, call.Function.Arguments))
		}
	}
	return s
}

// vendor is a wire format, with its own SDK.
type vendor struct {
	name, kind, base string
	models           []string
	// channel is what its channels have besides.
	channel object
	// answer is what the upstream replies.
	answer func(said, bool) (mediaType, body string)
	// again decodes a body that the gateway sent into the SDK's request types, asks the upstream with what came of it, and
	// says what the SDK made of the answer.
	again func(ctx context.Context, url, model string, body []byte, stream bool) (said, error)
	// written is a body as the SDK writes it where one thing can be written in two ways.
	written func(body []byte) ([]byte, error)
}

// TestWhatGoesUpstreamIsTheVendorsOwn: what the gateway makes of an OpenAI client's request is a request of the vendor's own
// SDK. Its types take in all of it, and asking the same upstream with them sends the same again: nothing that they do not know,
// and nothing that they add. What that SDK then makes of the answer is what OpenAI's makes of ours.
func TestWhatGoesUpstreamIsTheVendorsOwn(t *testing.T) {
	for _, v := range []vendor{anthropicVendor, geminiVendor, responsesVendor} {
		t.Run(v.name, func(t *testing.T) {
			far := listen(t)
			client := openai.NewClient(option.WithBaseURL(v.launch(t, far)+"/v1"), option.WithAPIKey("dev"), option.WithMaxRetries(0))
			for _, model := range v.models {
				for _, q := range questions {
					if slices.Contains(q.not, v.name) {
						continue
					}
					for _, stream := range []bool{false, true} {
						t.Run(model+"/"+q.name+"/"+map[bool]string{true: "stream", false: "plain"}[stream], func(t *testing.T) {
							v.check(t, far, client, model, q, stream)
						})
					}
				}
			}
		})
	}
}

// launch runs a gateway whose models are the vendor's own, whatever the address, and whose upstream calls stream when their client does.
func (v vendor) launch(t *testing.T, far *upstream) string {
	channel := object{"provider": v.name, "models": v.models, "upstream_stream": "as_client", "attempt_ms": 10_000}
	maps.Copy(channel, v.channel)
	return launch(t, []object{{"name": v.name, "kind": v.kind, "vendor": v.kind, "base_url": "env:UPSTREAM_URL"}}, []object{channel}, "UPSTREAM_URL="+far.url+v.base)
}

func (v vendor) check(t *testing.T, far *upstream, client openai.Client, model string, q question, stream bool) {
	want := q.wanted()
	far.expect(2, stream, func(stream bool) (string, string) { return v.answer(want, stream) })
	got, err := q.put(t.Context(), client, model, stream)
	if err != nil {
		t.Fatalf("through the gateway: %v", err)
	}
	if !got.equal(want) {
		t.Errorf("OpenAI's SDK understands %+v, want %+v", got, want)
	}
	first := far.got()
	if len(first) != 1 {
		t.Fatalf("%d upstream calls", len(first))
	}
	body := first[0].body
	again, err := v.again(t.Context(), far.url, model, body, stream)
	if err != nil {
		t.Fatalf("the vendor's SDK: %v\n%s", err, body)
	}
	if !again.equal(want) {
		t.Errorf("the vendor's SDK understands %+v, want %+v", again, want)
	}
	second := far.got()[1]
	if first[0].method != second.method || first[0].path != second.path || first[0].query != second.query {
		t.Errorf("we call %s %s?%s, the SDK %s %s?%s", first[0].method, first[0].path, first[0].query, second.method, second.path, second.query)
	}
	if body, err = v.written(body); err != nil {
		t.Fatal(err)
	}
	if d := differences(t, body, second.body); len(d) > 0 {
		t.Errorf("the SDK does not send what we sent:\n%s\n%s", strings.Join(d, "\n"), body)
	}
}
