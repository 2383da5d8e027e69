package simulate

import (
	"net/http"
	"time"
)

// A fault makes the reply to one call of its model.
type fault func(exchange) Reply

// exchange is one call on its way to a reply.
type exchange struct {
	wire    wire
	request request
	id      int
	ordinal int       // which call of its model this is, from 1
	first   time.Time // when its model was first called
	gap     time.Duration
}

// faults are the models. "Once" fails every odd call and answers the even ones,
// so that a newcomer sees the fault each time and a fresh provider starts with it.
// What each row asks of a gateway stands in the fault suite.
var faults = map[string]fault{
	"sim-ok":        exchange.healthy,
	"sim-noprefill": noPrefill,

	"sim-f01":  once(failing(throttled.after("2"))),
	"sim-f02":  failing(throttled),
	"sim-f03":  once(failing(serverError)),
	"sim-f04":  failing(unavailable),
	"sim-f05":  once(unanswered(Reset)),
	"sim-f06":  unanswered(Stall),
	"sim-f07":  lateFirstToken(20 * time.Second),
	"sim-f08":  cutAfter(40),
	"sim-f09":  silentAfter(20, 30*time.Second),
	"sim-f10":  malformedAfter(30),
	"sim-f11":  withoutDone(30 * time.Second),
	"sim-f12":  failing(contextLength),
	"sim-f13":  failing(contentPolicy),
	"sim-f14":  cutAfter(40),
	"sim-f15":  downFor(60*time.Second, failing(overloaded)),
	"sim-f16":  failing(overloaded),
	"sim-f17":  failingInside(overloaded),
	"sim-f18":  rotate(errorAsSuccess, emptyChoices, html(200), zeroBytes),
	"sim-f18a": errorAsSuccess,
	"sim-f18b": emptyChoices,
	"sim-f18c": html(200),
	"sim-f18d": zeroBytes,
	"sim-f19":  failing(noQuota.after("1")),
	"sim-f20":  failing(geminiBadKey),
	"sim-f21":  cutInToolCall,
	"sim-f22":  rotate(invalidJSON, schemaViolation),
	"sim-f23":  failing(overloaded),
	"sim-f23a": failing(overloaded),
	"sim-f23b": html(502),
	"sim-f23c": failing(throttled),
	"sim-f24":  slowly(6*time.Second, failing(unavailable)),
	"sim-f31":  failing(throttled.after("30")),
	"sim-f32":  cutAfter(0),
	"sim-f33":  rotate(unfinishedHeaders, stalledBody),
	"sim-f33a": unfinishedHeaders,
	"sim-f33b": stalledBody,
	"sim-f34":  failing(overloaded),
}

// failure is an error answer before its wire format is known.
type failure struct {
	status  int
	typ     string
	code    string
	param   string
	message string
	header  http.Header
	body    string // when set, sent as it is in place of an envelope
}

func (f failure) object() errorObject {
	return errorObject{Message: f.message, Type: f.typ, Param: nullable(f.param), Code: nullable(f.code)}
}

// after adds a Retry-After header.
func (f failure) after(value string) failure {
	f.header = http.Header{"Retry-After": {value}}
	return f
}

// The failures, in OpenAI's words: https://platform.openai.com/docs/guides/error-codes (2026-11).
var (
	badKey = failure{status: 401, typ: "invalid_request_error", code: "invalid_api_key",
		message: "Incorrect API key provided: bad***. You can find your API key at https://platform.openai.com/account/api-keys."}
	throttled = failure{status: 429, typ: "requests", code: "rate_limit_exceeded",
		message: "Rate limit reached for requests."}
	serverError = failure{status: 500, typ: "server_error",
		message: "The server had an error while processing your request. Sorry about that!"}
	unavailable = failure{status: 503, typ: "server_error",
		message: "Service temporarily unavailable."}
	overloaded = failure{status: 503, typ: "service_unavailable_error", code: "server_is_overloaded",
		message: "Our servers are currently overloaded. Please try again later."}
	contextLength = failure{status: 400, typ: "invalid_request_error", code: "context_length_exceeded", param: "messages",
		message: "This model's maximum context length is 128000 tokens. However, your messages resulted in 131072 tokens. Please reduce the length of the messages."}
	contentPolicy = failure{status: 400, typ: "invalid_request_error", code: "content_policy_violation",
		message: "Your request was rejected as a result of our safety system."}
	noQuota = failure{status: 429, typ: "insufficient_quota", code: "insufficient_quota",
		message: "You exceeded your current quota, please check your plan and billing details."}
	prefillRefused = failure{status: 400, typ: "invalid_request_error",
		message: "This model does not support assistant message prefill. The conversation must end with a user message."}
	// geminiBadKey is Google's envelope on OpenAI's path:
	// https://ai.google.dev/gemini-api/docs/troubleshooting (2026-11).
	geminiBadKey = failure{status: 400, body: `{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.",` +
		`"status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID",` +
		`"domain":"googleapis.com","metadata":{"service":"generativelanguage.googleapis.com"}}]}}`}
)

// page is what a proxy in front of a provider answers.
const page = "<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center></body></html>\n"
