package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"google.golang.org/genai"
)

// geminiVendor has a model of each way to think: with a budget, and at a level.
var geminiVendor = vendor{name: "gemini", kind: "gemini", base: "/v1beta", models: []string{"gemini-2.5-flash", "gemini-3.1-flash"},
	answer: geminiAnswer, again: geminiAgain, written: geminiWritten}

// geminiRequest is a generateContent body in the SDK's types. The SDK has no type for the whole of it: it makes it of
// GenerateContentConfig.
type geminiRequest struct {
	Contents   []*genai.Content        `json:"contents"`
	System     *genai.Content          `json:"systemInstruction"`
	Tools      []*genai.Tool           `json:"tools"`
	ToolConfig *genai.ToolConfig       `json:"toolConfig"`
	Generation *genai.GenerationConfig `json:"generationConfig"`
}

func geminiAgain(ctx context.Context, url, model string, body []byte, stream bool) (said, error) {
	body, err := geminiWritten(body)
	if err != nil {
		return said{}, err
	}
	var r geminiRequest
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return said{}, err
	}
	client, err := genai.NewClient(ctx, &genai.ClientConfig{APIKey: upstreamKey, Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: url}})
	if err != nil {
		return said{}, err
	}
	config := &genai.GenerateContentConfig{SystemInstruction: r.System, Tools: r.Tools, ToolConfig: r.ToolConfig}
	if g := r.Generation; g != nil {
		config.Temperature, config.TopP, config.MaxOutputTokens, config.StopSequences, config.Seed = g.Temperature, g.TopP, g.MaxOutputTokens, g.StopSequences, g.Seed
		config.ResponseMIMEType, config.ResponseJsonSchema, config.ThinkingConfig = g.ResponseMIMEType, g.ResponseJsonSchema, g.ThinkingConfig
	}
	if !stream {
		answer, err := client.Models.GenerateContent(ctx, model, r.Contents, config)
		if err != nil {
			return said{}, err
		}
		return saidByGemini(said{}, answer), nil
	}
	var whole said
	for answer, err := range client.Models.GenerateContentStream(ctx, model, r.Contents, config) {
		if err != nil {
			return said{}, err
		}
		whole = saidByGemini(whole, answer)
	}
	return whole, nil
}

// saidByGemini adds a frame to what has been said; a plain answer is one frame.
func saidByGemini(s said, r *genai.GenerateContentResponse) said {
	if u := r.UsageMetadata; u != nil {
		s.prompt, s.completion = int64(u.PromptTokenCount), int64(u.CandidatesTokenCount)
	}
	for _, c := range r.Candidates {
		if c.FinishReason == genai.FinishReasonStop {
			s.finish = "stop"
		}
		if c.Content == nil {
			continue
		}
		for _, p := range c.Content.Parts {
			s.text += p.Text
			if p.FunctionCall != nil {
				s.calls = append(s.calls, callOf(p.FunctionCall.Name, text(p.FunctionCall.Args)))
			}
		}
	}
	if len(s.calls) > 0 && s.finish == "stop" { // Gemini has no word of its own for it
		s.finish = "tool_calls"
	}
	return s
}

// geminiWritten writes a body in the SDK's way. Signatures are in the standard alphabet of base64: in JSON the API takes the other
// alphabet for the same (https://protobuf.dev/programming-guides/json, 2026-11-30), and the signature that stands for none
// (https://ai.google.dev/gemini-api/docs/thought-signatures) is of that one. A configuration is there also when it is empty, and system texts
// are the user's.
func geminiWritten(body []byte) ([]byte, error) {
	var all map[string]any
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, err
	}
	if all["generationConfig"] == nil {
		all["generationConfig"] = object{}
	}
	if system, ok := all["systemInstruction"].(object); ok {
		system["role"] = "user"
	}
	for _, c := range all["contents"].([]any) {
		for _, p := range c.(object)["parts"].([]any) {
			if signature, ok := p.(object)["thoughtSignature"].(string); ok {
				p.(object)["thoughtSignature"] = strings.NewReplacer("-", "+", "_", "/").Replace(signature)
			}
		}
	}
	return json.Marshal(all)
}

// geminiAnswer is an answer written by the SDK's own response types: frames of a stream, or the one of a plain answer.
func geminiAnswer(s said, stream bool) (mediaType, body string) {
	var parts []*genai.Part
	if s.text != "" {
		for _, piece := range halves(s.text) {
			parts = append(parts, &genai.Part{Text: piece})
		}
	}
	for _, call := range s.calls {
		name, arguments, _ := strings.Cut(call, "{")
		var args map[string]any
		if err := json.Unmarshal([]byte("{"+arguments), &args); err != nil {
			panic(err) // they are the test's
		}
		parts = append(parts, &genai.Part{FunctionCall: &genai.FunctionCall{Name: name, Args: args}})
	}
	frame := func(finish genai.FinishReason, parts ...*genai.Part) string {
		r := genai.GenerateContentResponse{ResponseID: "resp-1", ModelVersion: "gemini-served",
			Candidates: []*genai.Candidate{{Content: genai.NewContentFromParts(parts, genai.RoleModel), FinishReason: finish}}}
		if finish != "" {
			r.UsageMetadata = &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: int32(s.prompt), CandidatesTokenCount: int32(s.completion),
				TotalTokenCount: int32(s.prompt + s.completion)}
		}
		return text(&r)
	}
	if !stream {
		return "application/json; charset=UTF-8", frame(genai.FinishReasonStop, parts...)
	}
	var b strings.Builder
	for i, p := range parts {
		finish := genai.FinishReason("")
		if i == len(parts)-1 {
			finish = genai.FinishReasonStop
		}
		b.WriteString("data: " + frame(finish, p) + "\r\n\r\n")
	}
	return "text/event-stream", b.String()
}
