package fault_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/fault"
)

func answered(status int, typ, code string) fault.Observation {
	return fault.Observation{Provider: "openai", Status: status, Type: typ, Code: code, Phase: fault.PhaseHeaders, Sent: true, Parsed: true}
}

func inStream(status int, typ, code string) fault.Observation {
	o := answered(status, typ, code)
	o.InStream, o.Phase = true, fault.PhasePreContent
	return o
}

func from(vendor string, o fault.Observation) fault.Observation {
	o.Provider = vendor
	return o
}

func saying(o fault.Observation, message string) fault.Observation {
	o.Message = message
	return o
}

// TestOrderOfEvidence is policy.md §2.
func TestOrderOfEvidence(t *testing.T) {
	const tooLarge = "Request too large for gpt-x on tokens per min (TPM): "
	for name, c := range map[string]struct {
		seen     fault.Observation
		class    fault.Class
		evidence fault.Evidence
	}{
		// A local cause comes first, whatever else is known.
		"a refused connection":             {fault.Observation{Local: fault.Dial, Phase: fault.PhaseConnect}, fault.Network, fault.ByLocalCause},
		"a reset":                          {fault.Observation{Local: fault.Broken, Sent: true, Phase: fault.PhaseSent}, fault.Network, fault.ByLocalCause},
		"our own timer":                    {fault.Observation{Local: fault.Silent, Sent: true}, fault.Timeout, fault.ByLocalCause},
		"a client that left":               {fault.Observation{Local: fault.Left, Sent: true}, fault.Cancelled, fault.ByLocalCause},
		"our own deadline":                 {fault.Observation{Local: fault.OutOfTime, Sent: true}, fault.Deadline, fault.ByLocalCause},
		"a 2xx without an answer":          {fault.Observation{Local: fault.NoAnswer, Status: 200, InStream: true}, fault.BadResponse, fault.ByLocalCause},
		"an answer that breaks the schema": {fault.Observation{Local: fault.Breach, Status: 200}, fault.ContractViolation, fault.ByLocalCause},
		"a request that has no words":      {fault.Observation{Local: fault.Refused}, fault.UnsupportedParameter, fault.ByLocalCause},
		"a client that left beats the 429": {fault.Observation{Local: fault.Left, Status: 429, Code: "rate_limit_exceeded"}, fault.Cancelled, fault.ByLocalCause},
		"our deadline beats the 500":       {fault.Observation{Local: fault.OutOfTime, Status: 500}, fault.Deadline, fault.ByLocalCause},

		// B01: money beats the rate limit's status and type, and a hint changes nothing.
		"B01 a: an empty wallet as 429":      {answered(429, "insufficient_quota", "insufficient_quota"), fault.Quota, fault.ByGeneric},
		"an empty wallet by its type alone":  {answered(429, "insufficient_quota", ""), fault.Quota, fault.ByGeneric},
		"an empty wallet by its code alone":  {answered(429, "", "credit_balance_exhausted"), fault.Quota, fault.ByGeneric},
		"a spend limit":                      {answered(429, "insufficient_quota", "project_spend_limit_exceeded"), fault.Quota, fault.ByGeneric},
		"money in the type beats a throttle": {answered(429, "insufficient_quota", "rate_limit_exceeded"), fault.Quota, fault.ByGeneric},
		"an account that is not active":      {answered(429, "billing_not_active", "billing_not_active"), fault.Quota, fault.ByGeneric},
		"a billing limit as 400":             {answered(400, "invalid_request_error", "billing_hard_limit_reached"), fault.Quota, fault.ByGeneric},
		"402":                                {answered(402, "", ""), fault.Quota, fault.ByStatus},
		"B01 c: an ordinary throttle":        {answered(429, "tokens", "rate_limit_exceeded"), fault.RateLimited, fault.ByGeneric},
		"a throttle without words":           {answered(429, "", ""), fault.RateLimited, fault.ByStatus},

		// B01 d, e: the two numbers decide, and no phrase.
		"B01 d: more than the whole allowance": {saying(answered(429, "tokens", "rate_limit_exceeded"), tooLarge+"Limit 30000, Requested 37313. The input must be reduced."),
			fault.RequestExceedsLimit, fault.BySentence},
		"more than the allowance, without a code": {saying(answered(429, "tokens", ""), "Limit 30000, Requested 37313"), fault.RequestExceedsLimit, fault.BySentence},
		"B01 e: the phrase alone proves nothing": {saying(answered(429, "tokens", "rate_limit_exceeded"), tooLarge+"Limit 250000, Requested 546"),
			fault.RateLimited, fault.ByGeneric},
		"exactly the allowance fits": {saying(answered(429, "tokens", "rate_limit_exceeded"), "Limit 30000, Requested 30000"), fault.RateLimited, fault.ByGeneric},
		"what is used already does not count": {saying(answered(429, "tokens", "rate_limit_exceeded"), "Limit 30000, Used 29937, Requested 385. Please try again in 644ms."),
			fault.RateLimited, fault.ByGeneric},
		"more than the allowance, and some of it used": {saying(answered(429, "tokens", "rate_limit_exceeded"), "Limit 10000, Used 8554, Requested 13082"),
			fault.RequestExceedsLimit, fault.BySentence},
		"numbers beyond counting decide nothing": {saying(answered(429, "tokens", "rate_limit_exceeded"), "Limit 1, Requested 99999999999999999999"),
			fault.RateLimited, fault.ByGeneric},
		"the sentence needs its status": {saying(answered(400, "invalid_request_error", ""), "Limit 30000, Requested 37313"), fault.InvalidRequest, fault.ByStatus},
		"the sentence beats no money":   {saying(answered(429, "insufficient_quota", ""), "Limit 30000, Requested 37313"), fault.Quota, fault.ByGeneric},
		"the sentence needs its provider": {fault.Observation{Provider: "anthropic", Status: 429, Message: "Limit 30000, Requested 37313"},
			fault.RateLimited, fault.ByStatus},

		// B07: too long, with a code or, from servers that have none, with a sentence.
		"B07 a: context_length_exceeded":            {answered(400, "invalid_request_error", "context_length_exceeded"), fault.ContextLength, fault.ByGeneric},
		"B07 b: Azure":                              {from("azure", saying(answered(400, "", ""), "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300012 tokens.")), fault.ContextLength, fault.BySentence},
		"B07 e: SGLang":                             {from("generic", saying(answered(400, "BadRequestError", "400"), "The input (61709 tokens) is longer than the model's context length (40960 tokens).")), fault.ContextLength, fault.BySentence},
		"vLLM":                                      {from("generic", saying(answered(400, "BadRequestError", "400"), "This model's maximum context length is 4096 tokens. However, you requested 4472 tokens.")), fault.ContextLength, fault.BySentence},
		"B07 f: inside a stream":                    {inStream(200, "", "context_length_exceeded"), fault.ContextLength, fault.ByGeneric},
		"a 400 that mentions max_tokens":            {from("generic", saying(answered(400, "invalid_request_error", ""), "max_tokens is too large: 20000. This model supports at most 16384 completion tokens.")), fault.InvalidRequest, fault.ByStatus},
		"the sentence in a quotation of the user's": {from("generic", saying(answered(400, "invalid_request_error", ""), "Invalid value: 'it is longer than the model's context length'.")), fault.InvalidRequest, fault.ByStatus},
		"the sentence later in a text":              {from("generic", saying(answered(400, "invalid_request_error", ""), "You wrote: This model's maximum context length is 4 tokens")), fault.InvalidRequest, fault.ByStatus},

		// B02 g: no other text decides anything.
		"B02 g: user text about a credit balance": {saying(answered(400, "invalid_request_error", ""), "Your credit balance is too low"), fault.InvalidRequest, fault.ByStatus},
		"user text about quotas and keys":         {saying(answered(500, "", ""), "insufficient_quota invalid_api_key rate_limit_exceeded"), fault.ServerError, fault.ByStatus},

		// A typed code beats the status.
		"a throttle's code beats the 503":     {answered(503, "", "rate_limit_exceeded"), fault.RateLimited, fault.ByGeneric},
		"a throttle's type beats the 500":     {answered(500, "rate_limit_error", ""), fault.RateLimited, fault.ByGeneric},
		"an overload beats the 429":           {answered(429, "rate_limit_error", "slow_down"), fault.Overloaded, fault.ByGeneric},
		"an overload by its code":             {answered(503, "service_unavailable_error", "server_is_overloaded"), fault.Overloaded, fault.ByGeneric},
		"a flex tier without capacity":        {answered(429, "", "flex_unavailable"), fault.Overloaded, fault.ByGeneric},
		"a bad key as 400":                    {answered(400, "invalid_request_error", "invalid_api_key"), fault.Auth, fault.ByGeneric},
		"a wrong region":                      {answered(403, "request_forbidden", "unsupported_country_region_territory"), fault.Auth, fault.ByGeneric},
		"no access to the model as 403":       {answered(403, "invalid_request_error", "model_not_found"), fault.ModelUnavailable, fault.ByGeneric},
		"a filter's verdict as 400":           {answered(400, "", "content_filter"), fault.ContentPolicy, fault.ByGeneric},
		"a parameter that is not taken":       {answered(400, "invalid_request_error", "unsupported_parameter"), fault.UnsupportedParameter, fault.ByGeneric},
		"a wrong value":                       {answered(400, "invalid_request_error", "invalid_value"), fault.InvalidRequest, fault.ByGeneric},
		"the code beats the type":             {answered(429, "server_error", "rate_limit_exceeded"), fault.RateLimited, fault.ByGeneric},
		"a detail beats the status (B04 d)":   {fault.Observation{Status: 400, Code: "400", Details: []string{"API_KEY_INVALID"}}, fault.Auth, fault.ByGeneric},
		"the code beats a detail":             {fault.Observation{Status: 400, Code: "context_length_exceeded", Details: []string{"API_KEY_INVALID"}}, fault.ContextLength, fault.ByGeneric},
		"money in a detail beats the code":    {fault.Observation{Status: 429, Code: "rate_limit_exceeded", Details: []string{"insufficient_quota"}}, fault.Quota, fault.ByGeneric},
		"a 401 that is typed as the caller's": {answered(401, "invalid_request_error", ""), fault.Auth, fault.ByStatus},

		// Inside a 200 the typed error beats the 200, and a numeric code is its status (B09).
		"B01 f: an empty wallet inside a stream":       {inStream(200, "", "insufficient_quota"), fault.Quota, fault.ByGeneric},
		"B09 a: a number as code":                      {inStream(429, "", "429"), fault.RateLimited, fault.ByStatus},
		"B09 b: a failed choice":                       {inStream(502, "", "502"), fault.ServerError, fault.ByStatus},
		"B09 g: an empty wallet inside a 200":          {inStream(200, "", "insufficient_quota"), fault.Quota, fault.ByGeneric},
		"overloaded inside a 200":                      {inStream(200, "overloaded_error", ""), fault.Overloaded, fault.ByGeneric},
		"a server error's code inside a 200":           {inStream(200, "", "server_error"), fault.ServerError, fault.ByGeneric},
		"a server error inside a 200":                  {inStream(200, "server_error", ""), fault.ServerError, fault.ByGeneric},
		"the caller's mistake inside a 200":            {inStream(200, "invalid_request_error", ""), fault.InvalidRequest, fault.ByGeneric},
		"the caller's type under a 5xx is no evidence": {inStream(502, "invalid_request_error", ""), fault.ServerError, fault.ByStatus},
		"an error without words inside a 200":          {inStream(200, "", ""), fault.BadResponse, fault.ByStatus},
		"an unknown code inside a 200":                 {inStream(200, "", "gremlins"), fault.BadResponse, fault.ByStatus},

		// B05: 529 is an overload with and without a body.
		"B05 a: 529 with its type":  {answered(529, "overloaded_error", ""), fault.Overloaded, fault.ByGeneric},
		"B05 b: 529 without a body": {fault.Observation{Status: 529}, fault.Overloaded, fault.ByStatus},

		// Nothing.
		"no status and no cause":    {fault.Observation{}, fault.Unknown, fault.ByNothing},
		"a redirect":                {answered(302, "", ""), fault.Unknown, fault.ByNothing},
		"a status that is none":     {answered(999, "", ""), fault.Unknown, fault.ByNothing},
		"an unknown word with none": {answered(0, "gremlins", "gremlins"), fault.Unknown, fault.ByNothing},
	} {
		t.Run(name, func(t *testing.T) {
			got := fault.Default().Classify(c.seen)
			assert.Equal(t, c.class, got.Class)
			assert.Equal(t, c.evidence, got.Evidence)
		})
	}
}

// TestStatuses is what a status means when nothing else is known.
func TestStatuses(t *testing.T) {
	want := map[int]fault.Class{401: fault.Auth, 402: fault.Quota, 403: fault.Auth, 404: fault.ModelUnavailable, 408: fault.Timeout,
		409: fault.Conflict, 425: fault.TooEarly, 429: fault.RateLimited, 498: fault.Overloaded, 504: fault.Timeout, 524: fault.Timeout, 529: fault.Overloaded}
	ambiguous := map[int]bool{408: true, 504: true, 520: true, 524: true}
	for status := range 700 {
		class, listed := want[status]
		switch {
		case listed:
		case status >= 400 && status < 500:
			class = fault.InvalidRequest
		case status >= 500 && status < 600:
			class = fault.ServerError
		default:
			class = fault.Unknown
		}
		got := fault.Default().Classify(fault.Observation{Status: status, Sent: true})
		assert.Equal(t, class, got.Class, "status %d", status)
		assert.Equal(t, ambiguous[status], got.Ambiguous, "status %d", status)
		assert.Equal(t, status == 524, got.Silence(), "status %d", status)
	}
}

func TestAmbiguity(t *testing.T) {
	for name, c := range map[string]struct {
		seen             fault.Observation
		ambiguous        bool
		silence, isStale bool
	}{
		"nothing was sent":                           {fault.Observation{Local: fault.Dial, Phase: fault.PhaseConnect}, false, false, false},
		"a reset on a new connection":                {fault.Observation{Local: fault.Broken, Sent: true, Phase: fault.PhaseSent}, true, false, false},
		"a reset before the request was written":     {fault.Observation{Local: fault.Broken, Phase: fault.PhaseSent}, false, false, false},
		"a kept connection that had died":            {fault.Observation{Local: fault.Broken, Reused: true, Phase: fault.PhaseSent}, false, false, true},
		"a kept connection that died on the request": {fault.Observation{Local: fault.Broken, Sent: true, Reused: true, Phase: fault.PhaseSent}, true, false, true},
		"a kept connection that dies, later":         {fault.Observation{Local: fault.Broken, Sent: true, Reused: true, Phase: fault.PhaseHeaders}, true, false, false},
		"silence after the request":                  {fault.Observation{Local: fault.Silent, Sent: true, Phase: fault.PhaseSent}, true, true, false},
		"silence before the request":                 {fault.Observation{Local: fault.Silent, Phase: fault.PhaseConnect}, false, true, false},
		"a proxy's word for silence":                 {fault.Observation{Status: 524, Sent: true}, true, true, false},
		"a proxy's word, with its code":              {answered(524, "cf_gateway_timeout", "524"), true, true, false},
		"an answered timeout is no silence":          {fault.Observation{Status: 504, Sent: true}, true, false, false},
		"a stream cut after content":                 {fault.Observation{Local: fault.Broken, Sent: true, Phase: fault.PhasePostContent}, true, false, false},
		"a client that left":                         {fault.Observation{Local: fault.Left, Sent: true}, false, false, false},
		"a refusal":                                  {answered(429, "", "rate_limit_exceeded"), false, false, false},
		"a 2xx without an answer":                    {fault.Observation{Local: fault.NoAnswer, Status: 200, Sent: true}, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := fault.Default().Classify(c.seen)
			assert.Equal(t, c.ambiguous, got.Ambiguous)
			assert.Equal(t, c.silence, got.Silence())
			assert.Equal(t, c.isStale, got.Stale())
		})
	}
}

// TestClassifyKeepsTheFacts: a failure is its observation with a class, and a throttle takes its message's hint only
// where it has no other.
func TestClassifyKeepsTheFacts(t *testing.T) {
	yes := true
	o := saying(answered(429, "tokens", "rate_limit_exceeded"), "Please try again in 4s. Contact us.")
	o.ShouldRetry, o.RequestID, o.Param = &yes, "req_up", "p"
	o.Hint = fault.Hint{Known: true, Wait: time.Second, Source: "retry-after"}
	assert.Equal(t, o, fault.Default().Classify(o).Observation)

	o.Hint = fault.Hint{}
	got := fault.Default().Classify(o)
	assert.Equal(t, fault.Hint{Known: true, Wait: 4 * time.Second, Source: "message"}, got.Hint)

	refused := fault.Default().Classify(saying(answered(400, "invalid_request_error", ""), "Please try again in 4s."))
	require.Equal(t, fault.InvalidRequest, refused.Class)
	assert.False(t, refused.Hint.Known, "only a throttle's message is read")
}
