package gemini

import "spillway/internal/chat"

// finishWords are Gemini's finish reasons in OpenAI's words (reference/providers.md §3.7, 2026-11-30; those of
// https://ai.google.dev/api/generate-content#FinishReason). CONTINUATION is a long answer of Gemini 4's that another call with
// its token would go on with: that call would be a second one to pay for, which nobody asked for, so the answer ends here as one
// that ran into a limit, and its token is not kept.
var finishWords = map[string]chat.FinishReason{
	"STOP":       chat.FinishStop,
	"MAX_TOKENS": chat.FinishLength, "CONTINUATION": chat.FinishLength,

	"SAFETY": chat.FinishContentFilter, "RECITATION": chat.FinishContentFilter, "LANGUAGE": chat.FinishContentFilter,
	"BLOCKLIST": chat.FinishContentFilter, "PROHIBITED_CONTENT": chat.FinishContentFilter, "SPII": chat.FinishContentFilter,
	"IMAGE_SAFETY": chat.FinishContentFilter, "IMAGE_PROHIBITED_CONTENT": chat.FinishContentFilter, "IMAGE_RECITATION": chat.FinishContentFilter,
}

// failedFinish are finish reasons that say that the model failed. Any other word that is not known ends an answer only if
// there is something in it: OTHER, NO_IMAGE, IMAGE_OTHER, FINISH_REASON_UNSPECIFIED.
var failedFinish = map[string]bool{"MALFORMED_FUNCTION_CALL": true, "UNEXPECTED_TOOL_CALL": true, "TOO_MANY_TOOL_CALLS": true}

// finish is the end of an answer; an empty reason is an answer that ended with nothing where there should be something.
func (r *reply) finish() chat.FinishReason {
	reason, known := finishWords[r.native]
	switch {
	case r.blocked:
		return chat.FinishContentFilter
	case known && reason != chat.FinishStop:
		return reason
	case r.calls > 0:
		return chat.FinishToolCalls
	case r.Content || known && r.parts: // words that are empty are an answer, no words are none
		return chat.FinishStop
	default:
		return ""
	}
}
