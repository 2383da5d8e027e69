package clients

import (
	"context"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/tidwall/gjson"
)

// responsesVendor has a model that reasons, and one that does not.
var responsesVendor = vendor{name: "responses", kind: "openai", base: "/v1", models: []string{"gpt-5.4", "gpt-4.1"}, channel: object{"responses": "always"},
	answer: responsesAnswer, again: responsesAgain, written: responsesWritten}

// responsesAgain: the decoder leaves out what it does not know, so that it is missing in what is sent again.
func responsesAgain(ctx context.Context, url, _ string, body []byte, stream bool) (said, error) {
	body, err := responsesWritten(body)
	if err != nil {
		return said{}, err
	}
	var p responses.ResponseNewParams
	if err := json.Unmarshal(body, &p); err != nil {
		return said{}, err
	}
	if err := tellApart(&p, gjson.ParseBytes(body)); err != nil {
		return said{}, err
	}
	if err := settle(reflect.ValueOf(&p)); err != nil {
		return said{}, err
	}
	service := responses.NewResponseService(option.WithBaseURL(url+"/v1/"), option.WithAPIKey(upstreamKey), option.WithMaxRetries(0))
	if !stream {
		r, err := service.New(ctx, p)
		if err != nil {
			return said{}, err
		}
		return saidByResponses(r), nil
	}
	events := service.NewStreaming(ctx, p)
	var whole said
	for events.Next() {
		if done, ok := events.Current().AsAny().(responses.ResponseCompletedEvent); ok {
			whole = saidByResponses(&done.Response)
		}
	}
	return whole, events.Err()
}

// tellApart decodes anew what two types have the same word for, of which the decoder takes the first: what the model said before,
// and a function that must be called.
func tellApart(p *responses.ResponseNewParams, body gjson.Result) error {
	for i, item := range body.Get("input").Array() {
		if item.Get("role").Str == "assistant" && item.Get("content").IsArray() {
			p.Input.OfInputItemList[i] = responses.ResponseInputItemUnionParam{OfOutputMessage: new(responses.ResponseOutputMessageParam)}
			if err := json.Unmarshal([]byte(item.Raw), p.Input.OfInputItemList[i].OfOutputMessage); err != nil {
				return err
			}
		}
	}
	if choice := body.Get("tool_choice"); choice.Get("type").Str == "function" {
		p.ToolChoice = responses.ResponseNewParamsToolChoiceUnion{OfFunctionTool: new(responses.ToolChoiceFunctionParam)}
		return json.Unmarshal([]byte(choice.Raw), p.ToolChoice.OfFunctionTool)
	}
	return nil
}

// responsesWritten writes a body in the SDK's way. What the model said before, where it is no plain string, has an id, a status and annotations there. The API
// takes it without them from a conversation that it has not kept (reference/providers.md §3.2, 2026-11-30); servers that check
// requests by the SDK's types do not (https://github.com/langchain-ai/langchain/pull/32557).
func responsesWritten(body []byte) ([]byte, error) {
	var all map[string]any
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, err
	}
	for i, item := range all["input"].([]any) {
		item := item.(object)
		if parts, inParts := item["content"].([]any); inParts && item["role"] == "assistant" {
			item["id"], item["status"] = "msg_"+strconv.Itoa(i), "completed"
			for _, part := range parts {
				part.(object)["annotations"] = []any{}
			}
		}
	}
	return json.Marshal(all)
}

func saidByResponses(r *responses.Response) said {
	s := said{text: r.OutputText(), prompt: r.Usage.InputTokens, completion: r.Usage.OutputTokens}
	if r.Status == responses.ResponseStatusCompleted {
		s.finish = "stop"
	}
	for _, item := range r.Output {
		if call, ok := item.AsAny().(responses.ResponseFunctionToolCall); ok {
			s.calls, s.finish = append(s.calls, callOf(call.Name, call.Arguments)), "tool_calls"
		}
	}
	return s
}

// responsesAnswer is an answer as the Responses API gives it (https://platform.openai.com/docs/api-reference/responses-streaming,
// 2026-11-30).
func responsesAnswer(s said, stream bool) (mediaType, body string) {
	var items []object
	if s.text != "" {
		items = append(items, object{"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
			"content": []object{{"type": "output_text", "text": s.text, "annotations": []object{}, "logprobs": []object{}}}})
	}
	for i, call := range s.calls {
		name, arguments, _ := strings.Cut(call, "{")
		items = append(items, object{"id": "fc_" + strconv.Itoa(i), "type": "function_call", "status": "completed", "call_id": "call_" + strconv.Itoa(i), "name": name,
			"arguments": "{" + arguments})
	}
	response := object{"id": "resp_1", "object": "response", "created_at": 1700000000, "model": "gpt-served", "status": "completed", "error": nil, "output": items,
		"incomplete_details": nil, "usage": object{"input_tokens": s.prompt, "input_tokens_details": object{"cached_tokens": 0}, "output_tokens": s.completion,
			"output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": s.prompt + s.completion}}
	if !stream {
		return "application/json", text(response)
	}
	var b strings.Builder
	sequence := 0
	event := func(kind string, members object) {
		members["type"], members["sequence_number"] = kind, sequence
		sequence++
		b.WriteString("event: " + kind + "\ndata: " + text(members) + "\n\n")
	}
	begun := object{"id": "resp_1", "object": "response", "created_at": 1700000000, "model": "gpt-served", "status": "in_progress", "error": nil, "output": []object{}}
	event("response.created", object{"response": begun})
	for i, item := range items {
		if item["type"] == "function_call" {
			event("response.output_item.added", object{"output_index": i, "item": object{"id": item["id"], "type": "function_call", "status": "in_progress",
				"call_id": item["call_id"], "name": item["name"], "arguments": ""}})
			for _, piece := range halves(item["arguments"].(string)) {
				event("response.function_call_arguments.delta", object{"output_index": i, "item_id": item["id"], "delta": piece})
			}
			event("response.function_call_arguments.done", object{"output_index": i, "item_id": item["id"], "arguments": item["arguments"]})
		} else {
			event("response.output_item.added", object{"output_index": i, "item": object{"id": item["id"], "type": "message", "role": "assistant",
				"status": "in_progress", "content": []object{}}})
			for _, piece := range halves(s.text) {
				event("response.output_text.delta", object{"output_index": i, "content_index": 0, "item_id": item["id"], "delta": piece, "logprobs": []object{}})
			}
			event("response.output_text.done", object{"output_index": i, "content_index": 0, "item_id": item["id"], "text": s.text, "logprobs": []object{}})
		}
		event("response.output_item.done", object{"output_index": i, "item": item})
	}
	event("response.completed", object{"response": response})
	return "text/event-stream; charset=utf-8", b.String()
}
