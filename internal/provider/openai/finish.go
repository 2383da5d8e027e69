package openai

import "spillway/internal/chat"

// finishWords are other providers' finish reasons in OpenAI's words (reference/providers.md §3.7, 2026-11-30). Servers that
// speak OpenAI's dialect for another model pass its words through.
var finishWords = map[string]chat.FinishReason{
	"end_turn": chat.FinishStop, "stop_sequence": chat.FinishStop, "pause_turn": chat.FinishStop, "completed": chat.FinishStop,
	"STOP": chat.FinishStop, "eos": chat.FinishStop, "eos_token": chat.FinishStop,

	"function_call": chat.FinishToolCalls, "tool_use": chat.FinishToolCalls,

	"max_tokens": chat.FinishLength, "model_length": chat.FinishLength, "model_context_window_exceeded": chat.FinishLength,
	"MAX_TOKENS": chat.FinishLength, "CONTINUATION": chat.FinishLength, "incomplete": chat.FinishLength,

	"refusal": chat.FinishContentFilter, "content_filtered": chat.FinishContentFilter, "guardrail_intervened": chat.FinishContentFilter,
	"SAFETY": chat.FinishContentFilter, "RECITATION": chat.FinishContentFilter, "LANGUAGE": chat.FinishContentFilter,
	"BLOCKLIST": chat.FinishContentFilter, "PROHIBITED_CONTENT": chat.FinishContentFilter, "SPII": chat.FinishContentFilter,
}

// failedFinish are finish reasons that say that the provider failed.
var failedFinish = map[string]bool{"error": true, "insufficient_system_resource": true, "malformed_model_output": true,
	"malformed_tool_use": true, "MALFORMED_FUNCTION_CALL": true, "UNEXPECTED_TOOL_CALL": true, "TOO_MANY_TOOL_CALLS": true}

// finishReason maps a provider's word to ours; native is set where the words differ. An empty word ends nothing, and one
// that nobody knows is a stop.
func finishReason(word string) (_ chat.FinishReason, native string) {
	switch word {
	case "":
		return "", ""
	case "stop", "length", "tool_calls", "content_filter":
		return chat.FinishReason(word), ""
	}
	if reason, ok := finishWords[word]; ok {
		return reason, word
	}
	return chat.FinishStop, word
}

// strange reports whether nobody knows a native word. An answer that ends with one and has no content has failed.
func strange(native string) bool {
	_, known := finishWords[native]
	return native != "" && !known
}
