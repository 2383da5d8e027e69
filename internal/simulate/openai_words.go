package simulate

import "maps"

// openAIWords are OpenAI's: https://platform.openai.com/docs/guides/error-codes (2026-11).
var openAIWords = map[kind]spelling{
	badRequest: {status: 400, typ: "invalid_request_error"},
	badPath:    {status: 404, typ: "invalid_request_error"},
	badMethod:  {status: 405, typ: "invalid_request_error"},
	noKey: {status: 401, typ: "invalid_request_error",
		message: "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth."},
	badKey: {status: 401, typ: "invalid_request_error", code: "invalid_api_key",
		message: "Incorrect API key provided: bad***. You can find your API key at https://platform.openai.com/account/api-keys."},
	rejectedKey: {status: 401, typ: "invalid_request_error", code: "invalid_api_key",
		message: "Incorrect API key provided: sim***. You can find your API key at https://platform.openai.com/account/api-keys."},
	noModel:   {status: 404, typ: "invalid_request_error", code: "model_not_found"},
	throttled: {status: 429, typ: "requests", code: "rate_limit_exceeded", message: "Rate limit reached for requests."},
	noQuota: {status: 429, typ: "insufficient_quota", code: "insufficient_quota",
		message: "You exceeded your current quota, please check your plan and billing details."},
	serverError: {status: 500, typ: "server_error", message: "The server had an error while processing your request. Sorry about that!"},
	unavailable: {status: 503, typ: "server_error", message: "Service temporarily unavailable."},
	overloaded: {status: 503, typ: "service_unavailable_error", code: "server_is_overloaded",
		message: "Our servers are currently overloaded. Please try again later."},
	contextLength: {status: 400, typ: "invalid_request_error", code: "context_length_exceeded", param: "messages",
		message: "This model's maximum context length is 128000 tokens. However, your messages resulted in 131072 tokens. Please reduce the length of the messages."},
	contentPolicy: {status: 400, typ: "invalid_request_error", code: "content_policy_violation",
		message: "Your request was rejected as a result of our safety system."},
	prefillRefused: {status: 400, typ: "invalid_request_error",
		message: "This model does not support assistant message prefill. The conversation must end with a user message."},
}

// responsesWords are those of the Responses API where it has its own: reference/providers.md §1.1 (2026-11-30).
var responsesWords = overlay(openAIWords, map[kind]spelling{
	contextLength: {status: 400, typ: "invalid_request_error", code: "context_length_exceeded", param: "input",
		message: "Your input exceeds the context window of this model. Please adjust your input and try again."},
	contentPolicy: {status: 400, typ: "invalid_request_error", code: "invalid_prompt",
		message: "Invalid prompt: your prompt was flagged as potentially violating our usage policy."},
})

func overlay(words, own map[kind]spelling) map[kind]spelling {
	all := maps.Clone(words)
	maps.Copy(all, own)
	return all
}

// openAIRefuse is a failure in OpenAI's envelope.
func openAIRefuse(f failure, words map[kind]spelling) Reply {
	s := f.spell(words)
	r := openAIError(s.status, errorObject{Message: s.message, Type: s.typ, Param: nullable(s.param), Code: nullable(s.code)})
	r.Header = f.retryAfter()
	return r
}

func openAIError(status int, e errorObject) Reply {
	return Reply{Status: status, Body: encode(map[string]errorObject{"error": e})}
}
