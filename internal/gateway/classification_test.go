package gateway_test

import (
	"net/http"
	"testing"

	"spillway/internal/simulate"
)

// TestA200ThatIsNotAnAnswer is B09: what counts is what the body says, not its status.
func TestA200ThatIsNotAnAnswer(t *testing.T) {
	const failing = "A 200ms A B"
	from := func(a simulate.Reply, class string) row {
		return row{a: twice(a), b: one(beta.says("from ", "B")), trace: failing, classes: class + " " + class + " ok", text: "from B",
			headers: map[string]string{"X-LLM-Provider": "beta", "X-LLM-Fallback": "true"}}
	}
	run(t, join(both(map[string]row{
		"an error object with a numeric code is that status (B09 a)": from(body(`{"error":{"message":"`+theirs+`","code":429}}`), "rate_limited"),
		"an error inside the choice (B09 b)": from(body(`{"id":"g","choices":[{"index":0,"finish_reason":"error","error":{"code":502,"message":"`+theirs+
			`"},"message":{"role":"assistant","content":""}}]}`), "server_error"),
		"choices that are null (B09 c)":      from(body(`{"id":null,"choices":null}`), "bad_response"),
		"choices that are empty (B09 d)":     from(body(`{"id":"g","choices":[],"usage":{"total_tokens":0}}`), "bad_response"),
		"a body that is null (B09 e)":        from(body(`null`), "bad_response"),
		"no byte at all (B09 f)":             from(simulate.Reply{Header: http.Header{"Content-Type": {"application/json"}}}, "bad_response"),
		"a page of a proxy":                  from(body("<html><body>"+theirs+"</body></html>"), "bad_response"),
		"half a JSON document":               from(body(`{"id":"g","choices":[{"index":0,"mess`), "bad_response"),
		"a choice without a message":         from(body(`{"id":"g","choices":[{"index":0,"finish_reason":"stop"}]}`), "bad_response"),
		"a choice without an end":            from(body(`{"id":"g","choices":[{"index":0,"message":{"role":"assistant","content":"o"},"finish_reason":null}]}`), "bad_response"),
		"an error that is a sentence":        from(body(`{"error":"`+theirs+`"}`), "bad_response"),
		"a finish reason that is a failure":  from(body(`{"id":"g","choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"error"}]}`), "bad_response"),
		"an accepted request without a body": from(simulate.Reply{Status: 204}, "bad_response"),
		"an accepted request that is a job":  from(simulate.Reply{Status: 202, Body: `{"id":"job","status":"queued"}`}, "bad_response"),

		"a money code inside a 200 is final, and alerts (B09 g)": {
			a:     one(body(`{"error":{"message":"` + theirs + `","code":"insufficient_quota"}}`)),
			trace: "A", classes: "quota", status: 502, code: "provider_error", class: "quota", provider: "alpha",
			headers: map[string]string{"X-Should-Retry": "false"},
		},
		"an error that is null is none (B09 h)": {
			a:     one(body(`{"id":"g","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"error":null}`)),
			trace: "A", classes: "ok", text: "ok",
		},
		"an empty text with an end is an answer (B09 i)": {
			a: one(body(`{"id":"g","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"stop"}],` +
				`"usage":{"prompt_tokens":3,"completion_tokens":0,"total_tokens":3}}`)),
			trace: "A", classes: "ok", text: "",
		},
		"a created answer is an answer": {
			a: one(func() simulate.Reply { r := alpha.plain("ok"); r.Status = 201; return r }()), trace: "A", classes: "ok", text: "ok",
		},
	})))
}
