package clients

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"spillway/internal/simulate"
)

// client is the SDK as an application sets it up: only the base URL and the key differ, and its own retries are off.
func (s *stack) client(opts ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{option.WithBaseURL(s.url + "/v1"), option.WithAPIKey("dev"), option.WithMaxRetries(0)}, opts...)...)
}

func ask(model, text string, fallbacks ...string) (openai.ChatCompletionNewParams, []option.RequestOption) {
	p := openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
	var opts []option.RequestOption
	if len(fallbacks) > 0 {
		opts = append(opts, option.WithJSONSet("fallback_models", fallbacks))
	}
	return p, opts
}

func TestPlainAnswer(t *testing.T) {
	s := start(t)
	var raw *http.Response
	p, opts := ask("sim-f04", "hello", "sim-ok")
	client := s.client()
	got, err := client.Chat.Completions.New(t.Context(), p, append(opts, option.WithResponseInto(&raw))...)
	if err != nil {
		t.Fatal(err)
	}
	if got.Choices[0].Message.Content != simulate.Answer() || got.Choices[0].FinishReason != "stop" || got.Usage.CompletionTokens == 0 || got.Model != "sim-ok" {
		t.Errorf("the answer is not the fallback's: %s", got.RawJSON())
	}
	if raw.Header.Get("X-LLM-Fallback") != "true" || raw.Header.Get("X-LLM-Attempts") != "3" {
		t.Errorf("headers: %v", raw.Header)
	}
}

func TestStream(t *testing.T) {
	s := start(t)
	p, opts := ask("sim-f17", "hello", "sim-ok")
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	client := s.client()
	stream := client.Chat.Completions.NewStreaming(t.Context(), p, opts...)
	var whole openai.ChatCompletionAccumulator
	usages := 0
	for stream.Next() {
		chunk := stream.Current()
		if chunk.JSON.Usage.Valid() && chunk.Usage.TotalTokens > 0 {
			usages++
		}
		if !whole.AddChunk(chunk) {
			t.Fatalf("the SDK refuses the chunk %s", chunk.RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if whole.Choices[0].Message.Content != simulate.Answer() || usages != 1 {
		t.Errorf("%d usage chunks, text %q", usages, whole.Choices[0].Message.Content)
	}
}

// weather is a tool that the simulated model calls when it is asked for the weather.
func weather(p *openai.ChatCompletionNewParams) {
	p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "get_weather",
		Parameters: shared.FunctionParameters{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"}}})}
}

func TestTools(t *testing.T) {
	for name, opts := range map[string][]option.RequestOption{"as sent": nil, "in one piece": {option.WithHeader("X-LLM-Tool-Deltas", "whole")}} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			p, _ := ask("sim-ok", "what is the weather in Paris?")
			weather(&p)
			client := s.client()
			plain, err := client.Chat.Completions.New(t.Context(), p, opts...)
			if err != nil {
				t.Fatal(err)
			}
			call := plain.Choices[0].Message.ToolCalls[0]
			if call.ID == "" || call.Function.Name != "get_weather" || !json.Valid([]byte(call.Function.Arguments)) {
				t.Errorf("plain: %s", plain.RawJSON())
			}
			stream := client.Chat.Completions.NewStreaming(t.Context(), p, opts...)
			var whole openai.ChatCompletionAccumulator
			for stream.Next() {
				whole.AddChunk(stream.Current())
			}
			if err := stream.Err(); err != nil {
				t.Fatal(err)
			}
			streamed := whole.Choices[0].Message.ToolCalls[0]
			if streamed.Function.Name != call.Function.Name || streamed.Function.Arguments != call.Function.Arguments || streamed.ID == "" {
				t.Errorf("streamed %+v, plain %+v", streamed.Function, call.Function)
			}
			// The result of the tool goes back in a second turn.
			p.Messages = append(p.Messages, plain.Choices[0].Message.ToParam(), openai.ToolMessage("sunny", call.ID))
			if _, err := client.Chat.Completions.New(t.Context(), p, opts...); err != nil {
				t.Errorf("the second turn: %v", err)
			}
		})
	}
}

func TestStructuredOutput(t *testing.T) {
	s := start(t)
	p, _ := ask("sim-ok", "describe a dam")
	p.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
		JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "dam", Strict: openai.Bool(true), Schema: map[string]any{"type": "object",
			"properties": map[string]any{"name": map[string]any{"type": "string"}, "height": map[string]any{"type": "integer"}},
			"required":   []string{"name", "height"}, "additionalProperties": false}}}}
	client := s.client()
	got, err := client.Chat.Completions.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	var dam struct {
		Name   *string
		Height *int
	}
	if err := json.Unmarshal([]byte(got.Choices[0].Message.Content), &dam); err != nil || dam.Name == nil || dam.Height == nil {
		t.Errorf("%v: %s", err, got.Choices[0].Message.Content)
	}
}

// TestErrors: an HTTP error is an *openai.Error with our JSON, and a failure that no other provider repairs is asked for
// once, also with the SDK's own retries on: X-Should-Retry tells it not to come back.
func TestErrors(t *testing.T) {
	for name, c := range map[string]struct {
		model  string
		status int
		code   string
		class  string
		calls  int
		key    string
	}{
		"content policy":              {model: "sim-f13", status: 502, code: "provider_error", class: "content_policy", calls: 1},
		"context length":              {model: "sim-f12", status: 502, code: "provider_error", class: "context_length", calls: 1},
		"an empty wallet":             {model: "sim-f19", status: 502, code: "provider_error", class: "quota", calls: 1},
		"a model that does not exist": {model: "sim-nothing", status: 404, code: "model_not_found"},
		"a wrong key":                 {model: "sim-ok", status: 401, code: "invalid_api_key", key: "wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			opts := []option.RequestOption{option.WithMaxRetries(2)}
			if c.key != "" {
				opts = append(opts, option.WithAPIKey(c.key))
			}
			p, _ := ask(c.model, "hello")
			client := s.client(opts...)
			_, err := client.Chat.Completions.New(t.Context(), p)
			var failed *openai.Error
			if !errors.As(err, &failed) {
				t.Fatalf("the error is %T: %v", err, err)
			}
			var body struct{ Class string }
			_ = json.Unmarshal([]byte(failed.RawJSON()), &body)
			if failed.StatusCode != c.status || failed.Code != c.code || body.Class != c.class || failed.Message == "" {
				t.Errorf("status %d, code %q, body %s", failed.StatusCode, failed.Code, failed.RawJSON())
			}
			if calls := s.calls(); len(calls) != c.calls {
				t.Errorf("upstream calls: %v", calls)
			}
		})
	}
}

// TestCutStream: a stream that breaks after its first content is an error for the SDK, with our JSON in it; it never
// ends like a whole one, and nothing is asked for again.
func TestCutStream(t *testing.T) {
	for name, c := range map[string]struct {
		model, text string
		retrySafe   string
	}{
		"in the text":      {"sim-f08", "hello", `"retry_safe":true`},
		"in a tool's call": {"sim-f21", "what is the weather in Paris?", `"retry_safe":false`},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			p, opts := ask(c.model, c.text, "sim-ok")
			weather(&p)
			client := s.client(option.WithMaxRetries(2))
			stream := client.Chat.Completions.NewStreaming(t.Context(), p, opts...)
			finish := ""
			for stream.Next() {
				if chunk := stream.Current(); len(chunk.Choices) > 0 {
					finish += chunk.Choices[0].FinishReason
				}
			}
			err := stream.Err()
			if err == nil || !strings.Contains(err.Error(), "provider_disconnect") || !strings.Contains(err.Error(), c.retrySafe) {
				t.Errorf("the SDK sees %v", err)
			}
			if finish != "" {
				t.Errorf("a finish reason was invented: %q", finish)
			}
			if calls := s.calls(); !slices.Equal(calls, []string{c.model}) {
				t.Errorf("upstream calls: %v", calls)
			}
		})
	}
}

// TestHeldBack: the same cut is invisible when the whole answer is held back.
func TestHeldBack(t *testing.T) {
	s := start(t)
	p, opts := ask("sim-f08", "hello", "sim-ok")
	client := s.client(option.WithHeader("X-LLM-Commit", "complete"))
	stream := client.Chat.Completions.NewStreaming(t.Context(), p, opts...)
	var whole openai.ChatCompletionAccumulator
	for stream.Next() {
		whole.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if whole.Choices[0].Message.Content != simulate.Answer() {
		t.Errorf("text %q", whole.Choices[0].Message.Content)
	}
}

func TestModels(t *testing.T) {
	s := start(t)
	client := s.client()
	page, err := client.Models.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Data) != len(models) {
		t.Errorf("%d models", len(page.Data))
	}
	one, err := client.Models.Get(context.Background(), "sim-ok")
	if err != nil || one.ID != "sim-ok" {
		t.Errorf("%v %v", one, err)
	}
}
