package fault_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"spillway/internal/fault"
)

// TestParseEnvelope is E1 of reference/providers.md §1.0 in all its variants, and E9, which is none.
func TestParseEnvelope(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want fault.Envelope
		ok   bool
	}{
		"OpenAI's object": {`{"error":{"message":"m","type":"tokens","param":"messages","code":"rate_limit_exceeded"}}`,
			fault.Envelope{Type: "tokens", Code: "rate_limit_exceeded", Message: "m", Param: "messages"}, true},
		"null members":                   {`{"error":{"message":"m","type":null,"param":null,"code":null}}`, fault.Envelope{Message: "m"}, true},
		"a number as code is its status": {`{"error":{"message":"m","code":429}}`, fault.Envelope{Code: "429", Message: "m", Status: 429}, true},
		"a string of digits as well":     {`{"error":{"message":"m","code":"502"}}`, fault.Envelope{Code: "502", Message: "m", Status: 502}, true},
		"a number that is no status":     {`{"error":{"message":"m","code":-32603}}`, fault.Envelope{Code: "-32603", Message: "m"}, true},
		"a number beyond counting":       {`{"error":{"code":1e300}}`, fault.Envelope{Code: "1e300"}, true},
		"a code that is an object":       {`{"error":{"message":"m","code":{"a":1}}}`, fault.Envelope{Message: "m"}, true},
		"a code that is true":            {`{"error":{"message":"m","code":true}}`, fault.Envelope{Message: "m"}, true},
		"an empty object":                {`{"error":{}}`, fault.Envelope{}, true},
		"a bare string":                  {`{"error":"the model is gone"}`, fault.Envelope{Message: "the model is gone"}, true},
		"an array of one":                {`[{"error":{"message":"m","code":400,"status":"INVALID_ARGUMENT"}}]`, fault.Envelope{Type: "INVALID_ARGUMENT", Code: "400", Message: "m", Status: 400}, true},
		"an array of one string":         {`[{"error":"m"}]`, fault.Envelope{Message: "m"}, true},
		"a body that is JSON text":       {`"{\"error\":{\"message\":\"m\",\"code\":\"invalid_api_key\"}}"`, fault.Envelope{Code: "invalid_api_key", Message: "m"}, true},
		"an error that is JSON text":     {`{"error":"{\"error\":{\"message\":\"m\",\"code\":\"invalid_api_key\"}}"}`, fault.Envelope{Code: "invalid_api_key", Message: "m"}, true},
		"JSON text of an array":          {`{"error":{"message":"[{\"error\":{\"message\":\"m\",\"code\":\"x\"}}]"}}`, fault.Envelope{Code: "x", Message: "m"}, true},
		"B04 d: a message that is JSON text": {`{"error":{"message":"{\"error\":{\"code\":400,\"status\":\"INVALID_ARGUMENT\",\"details\":[{\"reason\":\"API_KEY_INVALID\"}]}}","code":400,"status":"Bad Request"}}`,
			fault.Envelope{Type: "INVALID_ARGUMENT", Code: "400", Status: 400, Details: []string{"API_KEY_INVALID"}}, true},
		"JSON text twice is read once": {`{"error":{"message":"{\"error\":{\"message\":\"{\\\"error\\\":{\\\"code\\\":\\\"x\\\"}}\"}}"}}`,
			fault.Envelope{Message: `{"error":{"code":"x"}}`}, true},
		"a message that only looks like JSON": {`{"error":{"message":"{not json}","code":"x"}}`, fault.Envelope{Code: "x", Message: "{not json}"}, true},
		"a message of other JSON":             {`{"error":{"message":"{\"a\":1}","code":"x"}}`, fault.Envelope{Code: "x", Message: `{"a":1}`}, true},
		"B04 a: Google's details": {`{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"},{"@type":"type.googleapis.com/google.rpc.Help"}]}}`,
			fault.Envelope{Type: "INVALID_ARGUMENT", Code: "400", Message: "m", Status: 400, Details: []string{"API_KEY_INVALID"}}, true},
		"Anthropic's object": {`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded","details":null},"request_id":"req_1"}`,
			fault.Envelope{Type: "overloaded_error", Message: "Overloaded", RequestID: "req_1"}, true},
		"vLLM's and SGLang's bare object": {`{"object":"error","message":"m","type":"BadRequestError","param":null,"code":400}`,
			fault.Envelope{Type: "BadRequestError", Code: "400", Message: "m", Status: 400}, true},
		"markup in a message": {`{"error":{"message":"<b>No</b> such\n<a href='x'>model</a>"}}`, fault.Envelope{Message: "No such model"}, true},

		"a page of a CDN":              {"<html><head><title>502 Bad Gateway</title></head><body>cloudflare</body></html>", fault.Envelope{}, false},
		"nothing":                      {"", fault.Envelope{}, false},
		"a text":                       {"upstream connect error or disconnect/reset before headers", fault.Envelope{}, false},
		"JSON cut short":               {`{"error":{"message":"m`, fault.Envelope{}, false},
		"JSON and more":                {`{"error":{}}{"error":{}}`, fault.Envelope{}, false},
		"an object without an error":   {`{"message":"Endpoint request timed out"}`, fault.Envelope{}, false},
		"no error":                     {`{"error":null}`, fault.Envelope{}, false},
		"an error that is a number":    {`{"error":500}`, fault.Envelope{}, false},
		"an empty array":               {`[]`, fault.Envelope{}, false},
		"a JSON string that is a text": {`"Too Many Requests"`, fault.Envelope{}, false},
		"null":                         {`null`, fault.Envelope{}, false},
		"an answer":                    {`{"object":"chat.completion","choices":[]}`, fault.Envelope{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := fault.ParseEnvelope(c.body)
			assert.Equal(t, c.ok, ok)
			assert.Equal(t, c.want, got)
		})
	}
}

// TestEnvelopes is E2 to E8 of reference/providers.md §1.0, and what they have in common.
func TestEnvelopes(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		body   string
		header string
		want   fault.Envelope
	}{
		"E2: the code stands in the details": {`{"type":"error","error":{"type":"rate_limit_error","message":"m","details":{"error_code":"ramp_limit_exceeded"}},"request_id":"req_1"}`, "",
			fault.Envelope{Type: "rate_limit_error", Code: "ramp_limit_exceeded", Message: "m", RequestID: "req_1"}},
		"E3: reasons, limits and quotas": {`{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[
			{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"RATE_LIMIT_EXCEEDED","metadata":{"quota_limit":"XPerDay"}},
			{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"APerMinute"},{"quotaId":"BPerDay"},{"quotaId":"APerMinute"}]}]}}`, "",
			fault.Envelope{Type: "RESOURCE_EXHAUSTED", Code: "429", Status: 429, Message: "m", Details: []string{"RATE_LIMIT_EXCEEDED", "XPerDay", "APerMinute", "BPerDay"}}},
		"E3: the violation says what the message does not (B04 c)": {`[{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"m","details":[{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"store","description":"unknown field store"}]}]}}]`, "",
			fault.Envelope{Type: "INVALID_ARGUMENT", Code: "400", Status: 400, Message: "m; unknown field store", Param: "store"}},
		"E3: details that are none": {`{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT","details":["x",1,null,[]]}}`, "",
			fault.Envelope{Type: "INVALID_ARGUMENT", Code: "400", Status: 400, Message: "m"}},
		"E3b: a word as code": {`{"error":{"code":"quota_exceeded","message":"m"}}`, "", fault.Envelope{Code: "quota_exceeded", Message: "m"}},
		"E4: the type in a header": {`{"message":"m"}`, "ThrottlingException:http://internal.amazon.com/coral/",
			fault.Envelope{Type: "ThrottlingException", Message: "m"}},
		"E4: the other spelling":                  {`{"Message":"m"}`, "ValidationException", fault.Envelope{Type: "ValidationException", Message: "m"}},
		"E4: the type in the body":                {`{"__type":"com.amazon.coral#ThrottlingException","message":"m"}`, "", fault.Envelope{Type: "ThrottlingException", Message: "m"}},
		"E4: the body before the header":          {`{"__type":"A","message":"m"}`, "B", fault.Envelope{Type: "A", Message: "m"}},
		"E4: a header and no body":                {``, "InternalServerException", fault.Envelope{Type: "InternalServerException"}},
		"E5: no wrapper":                          {`{"object":"error","message":"m","type":"rate_limited","param":null,"code":"1300"}`, "", fault.Envelope{Type: "rate_limited", Code: "1300", Message: "m"}},
		"E5: a list of fields":                    {`{"detail":[{"loc":["body","messages",0,"content"],"msg":"Field required","type":"missing"},{"loc":["body"],"msg":"x","type":"y"}]}`, "", fault.Envelope{Type: "missing", Param: "messages.0.content", Message: "messages.0.content: Field required"}},
		"E5: a list without a place":              {`{"detail":[{"msg":"x"}]}`, "", fault.Envelope{Message: "x"}},
		"E5: the list inside the message":         {`{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","seed"],"msg":"m"}]},"type":"invalid_request_error","code":null}`, "", fault.Envelope{Type: "extra_forbidden", Param: "seed", Message: "seed: m"}},
		"E5: a text":                              {`{"detail":"Unauthorized"}`, "", fault.Envelope{Message: "Unauthorized"}},
		"E5: its gateway":                         {`{"message":"Unauthorized","request_id":"f00d"}`, "", fault.Envelope{Message: "Unauthorized", RequestID: "f00d"}},
		"E6: a code beside a text":                {`{"code":"permission-denied","error":"Your team"}`, "", fault.Envelope{Code: "permission-denied", Message: "Your team"}},
		"E6: a number beside a text":              {`{"code":503,"error":"m"}`, "", fault.Envelope{Code: "503", Status: 503, Message: "m"}},
		"E7: a status that is a word":             {`{"detail":{"status":"quota_exceeded","message":"m"}}`, "", fault.Envelope{Code: "quota_exceeded", Message: "m"}},
		"E8: fal names the type":                  {`{"detail":"m","error_type":"x"}`, "", fault.Envelope{Type: "x", Message: "m"}},
		"E8: fal's list":                          {`{"detail":[{"loc":["body","prompt"],"msg":"m","type":"content_policy_violation","url":"u","ctx":{}}]}`, "", fault.Envelope{Type: "content_policy_violation", Param: "prompt", Message: "prompt: m"}},
		"E8: Replicate":                           {`{"title":"Invalid","detail":"m","status":422,"invalid_fields":[]}`, "", fault.Envelope{Status: 422, Message: "Invalid: m"}},
		"E8: Runway":                              {`{"error":"m","issues":[{"path":["x"]}]}`, "", fault.Envelope{Message: "m"}},
		"E8: Luma":                                {`{"detail":"m"}`, "", fault.Envelope{Message: "m"}},
		"OpenAI's error event":                    {`{"type":"error","code":"insufficient_quota","message":"m","param":null,"sequence_number":3}`, "", fault.Envelope{Code: "insufficient_quota", Message: "m"}},
		"Azure's inner code":                      {`{"error":{"code":"content_filter","message":"m","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}`, "", fault.Envelope{Code: "content_filter", Message: "m", Details: []string{"ResponsibleAIPolicyViolation"}}},
		"OpenRouter's words":                      {`{"error":{"code":402,"message":"m","metadata":{"error_type":"payment_required","limit_source":"openrouter_credits","reason":"weight_exceeds_budget","raw":"insufficient_quota"},"availability":{"code":"x","retryable":true}}}`, "", fault.Envelope{Code: "402", Status: 402, Message: "m", Details: []string{"payment_required", "openrouter_credits", "weight_exceeds_budget", "x"}, Retryable: &yes}},
		"OpenRouter's moderation":                 {`{"error":{"code":403,"message":"m","metadata":{"reasons":["violence"],"flagged_input":"the user's words","patterns":null},"availability":{"retryable":false}}}`, "", fault.Envelope{Code: "403", Status: 403, Message: "m", Details: []string{"reasons", "flagged_input"}, Retryable: &no}},
		"an inner error leaves the rest to it":    {`{"error":{"message":"{\"error\":{\"message\":\"m\"}}","type":"t","code":502}}`, "", fault.Envelope{Type: "t", Code: "502", Status: 502, Message: "m"}},
		"an inner error's own words come first":   {`{"error":{"message":"{\"error\":{\"message\":\"m\",\"code\":\"x\"}}","code":"y"}}`, "", fault.Envelope{Code: "x", Message: "m"}},
		"an error that is null leaves the detail": {`{"error":null,"detail":"m"}`, "", fault.Envelope{Message: "m"}},
		"a type that is no text":                  {`{"error":{"message":"m","type":{"a":1},"param":["x"]}}`, "", fault.Envelope{Message: "m"}},
		"words that are texts":                    {`{"error":{"message":"m","type":"` + strings.Repeat("x", 201) + `","code":"` + strings.Repeat("y", 201) + `"}}`, "", fault.Envelope{Message: "m"}},
	} {
		t.Run(name, func(t *testing.T) {
			get := func(asked string) string {
				if asked == "x-amzn-errortype" {
					return c.header
				}
				return ""
			}
			got, ok := fault.ParseAnswer(c.body, get)
			require.True(t, ok)
			assert.Equal(t, c.want, got)
			if c.header == "" && c.body[0] != '[' {
				array, ok := fault.ParseEnvelope("[" + c.body + "]")
				assert.True(t, ok)
				assert.Equal(t, c.want, array, "in an array")
			}
		})
	}
}

// TestEnvelopeToClass goes from the body to the class, as an adapter does.
func TestEnvelopeToClass(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   fault.Class
	}{
		"B01 a":                      {429, `{"error":{"message":"m","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, fault.Quota},
		"B01 c":                      {429, `{"error":{"message":"m","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, fault.RateLimited},
		"B04 a":                      {400, `{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}`, fault.Auth},
		"B04 b":                      {400, `[{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}]`, fault.Auth},
		"B04 c":                      {400, `[{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"m","details":[{"fieldViolations":[{"description":"unknown field store"}]}]}}]`, fault.InvalidRequest},
		"B05 b":                      {529, ``, fault.Overloaded},
		"a page of a CDN as 502":     {502, `<html>502</html>`, fault.ServerError},
		"a page of a CDN as 403":     {403, `<html>Just a moment...</html>`, fault.Auth},
		"a page of a CDN as 413":     {413, `<html>413</html>`, fault.InvalidRequest},
		"a page of a CDN as 429":     {429, `<html>1015</html>`, fault.RateLimited},
		"a page of a CDN as 504":     {504, `<html>504</html>`, fault.Timeout},
		"Cloudflare's 524 as OpenAI": {524, `{"error":{"message":"m","type":"cf_gateway_timeout","param":null,"code":524}}`, fault.Timeout},
		"SGLang's length":            {400, `{"object":"error","message":"The input (61709 tokens) is longer than the model's context length (40960 tokens).","type":"BadRequestError","param":null,"code":400}`, fault.ContextLength},
	} {
		t.Run(name, func(t *testing.T) {
			env, _ := fault.ParseEnvelope(c.body)
			got := fault.Default().Classify(fault.Observation{Provider: fault.Generic, Status: c.status, Type: env.Type, Code: env.Code, Details: env.Details, Message: env.Message})
			assert.Equal(t, c.want, got.Class)
		})
	}
}

func TestParseErrorMember(t *testing.T) {
	for raw, want := range map[string]fault.Envelope{
		`{"code":429,"message":"m"}`: {Code: "429", Message: "m", Status: 429},
		`"gone"`:                     {Message: "gone"},
	} {
		got, ok := fault.ParseErrorMember(raw)
		require.True(t, ok)
		assert.Equal(t, want, got)
	}
	for _, raw := range []string{"null", "false", "0", "[]", ""} {
		_, ok := fault.ParseErrorMember(raw)
		assert.False(t, ok, "%q", raw)
	}
}

// checkMessage holds a message to what every message promises.
func checkMessage(t assert.TestingT, m string) {
	assert.LessOrEqual(t, len(m), fault.MaxMessage)
	assert.True(t, utf8.ValidString(m))
	assert.NotContains(t, m, "<")
	assert.Equal(t, strings.TrimSpace(m), m)
	assert.Less(t, strings.IndexFunc(m, unicode.IsControl), 0, "no control characters: %q", m)
}

func TestMessagesAreBoundedAndPlain(t *testing.T) {
	for name, text := range map[string]string{
		"a long text":                       strings.Repeat("x", 100_000),
		"a wide letter across the bound":    strings.Repeat("x", fault.MaxMessage-1) + "😀 and more",
		"wide letters only":                 strings.Repeat("😀", 1000),
		"a tag that never ends":             "before <script " + strings.Repeat("x", 1000),
		"control characters of three kinds": "a\x00b\x7fc\u0085d\x1be",
		"a great many tags":                 strings.Repeat("<b>", 10_000) + "end",
		"an ending without a beginning":     "a > b",
		"tags inside tags":                  "<<b>>x<</b>>",
	} {
		t.Run(name, func(t *testing.T) {
			body, err := json.Marshal(map[string]any{"error": map[string]any{"message": text}})
			require.NoError(t, err)
			env, ok := fault.ParseEnvelope(string(body))
			require.True(t, ok)
			checkMessage(t, env.Message)
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		body, err := json.Marshal(map[string]string{"error": rapid.String().Draw(t, "text")})
		require.NoError(t, err)
		env, ok := fault.ParseEnvelope(string(body))
		require.True(t, ok)
		checkMessage(t, env.Message)
	})
}

func FuzzEnvelope(f *testing.F) {
	for _, seed := range []string{
		`{"error":{"message":"m","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, `{"error":"m"}`, `[{"error":{"code":429}}]`,
		`"{\"error\":{\"code\":1}}"`, `{"error":{"message":"{\"error\":{\"code\":400}}"}}`, `{"object":"error","code":400}`, `<html>`, ``, `null`,
		`{"error":{"code":429,"details":[{"retryDelay":"34.5s"},{"violations":[{"quotaId":"XPerDay"}]}]}}`, `{"detail":[{"loc":["body","x"],"msg":"m"}]}`,
		`{"error":{"metadata":{"resets_at":1796083200000,"headers":{"Retry-After":"5"}},"availability":{"retry_after":1e9}}}`, `{"__type":"a#b","message":"m"}`,
		`{"code":"c","error":"e"}`, `{"type":"error","error":{"message":"You have reached your x. You will regain access on 2026-09-01 at 00:00 UTC."}}`,
		`{"error":{"code":1e400}}`, `{"error":{"message":"\ud800 <b"}}`, "{\"error\":\"\xff\"}", `{"error":{"details":[{"reason":1}]}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		env, ok := fault.ParseEnvelope(body)
		if !ok {
			assert.Equal(t, fault.Envelope{}, env)
		}
		checkMessage(t, env.Message)
		if env.Status != 0 {
			assert.True(t, env.Status >= 100 && env.Status <= 599)
		}
		assert.LessOrEqual(t, len(env.Details), 16)
		for _, w := range append(env.Details, env.Type, env.Code, env.Param, env.RequestID) {
			assert.LessOrEqual(t, len(w), 200, "a word is bounded")
		}
		if array, inArray := fault.ParseEnvelope("[" + body + "]"); ok && !strings.HasPrefix(strings.TrimSpace(body), "[") {
			assert.True(t, inArray)
			assert.Equal(t, env, array, "an array of one is the one")
		}
		checkHint(t, fault.HintFrom(func(string) string { return "" }, env, now))
		checkHint(t, fault.ResetFrom(env, now))
		member, ok := fault.ParseErrorMember(body)
		if !ok {
			assert.Equal(t, fault.Envelope{}, member)
		}
		checkMessage(t, member.Message)
		got := fault.Default().Classify(fault.Observation{Provider: "openai", Status: 429, Type: env.Type, Code: env.Code, Details: env.Details, Message: env.Message})
		assert.True(t, got.Class.Known())
		checkHint(t, got.Hint)
	})
}
