package suite

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"spillway/internal/catalog"
	"spillway/internal/simulate"
)

// row is one that falls back after two calls.
var row = Row{
	Name:       "F00",
	Candidates: []string{"sim-bad", "sim-ok"},
	Steps:      []Step{{Calls: []string{"sim-bad", "sim-bad", "sim-ok"}, Classes: []string{"overloaded", "overloaded"}}},
	Recorded:   map[Mode]Verdict{Live: Pass},
}

const (
	finish     = `data: {"object":"chat.completion.chunk","model":"sim-ok","choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	usageEvent = `data: {"object":"chat.completion.chunk","model":"sim-ok","choices":[],"usage":{"completion_tokens":60}}` + "\n\n"
	errorEvent = `data: {"error":{"message":"cut","type":"upstream_error","param":null,"code":"provider_disconnect",` +
		`"provider":"primary","class":"network","retry_safe":true,"partial":true}}` + "\n\n"
	errorBody = `{"error":{"message":"m","type":"api_error","param":null,"code":"provider_unavailable","retryable":true,"request_id":"r"}}`
	done      = "data: [DONE]\n\n"
)

func streamOf(tokens ...string) string {
	var b strings.Builder
	for _, token := range tokens {
		delta, _ := json.Marshal(token)
		fmt.Fprintf(&b, `data: {"object":"chat.completion.chunk","model":"sim-ok","choices":[{"delta":{"content":%s},"finish_reason":null}]}`+"\n\n", delta)
	}
	return b.String()
}

// callOf streams a tool call, each part in a chunk.
func callOf(parts ...string) string {
	var b strings.Builder
	id := `"id":"call_1","type":"function",`
	for _, part := range parts {
		arguments, _ := json.Marshal(part)
		name := ""
		if id != "" {
			name = `"name":"get_weather",`
		}
		fmt.Fprintf(&b, `data: {"object":"chat.completion.chunk","choices":[{"delta":{"tool_calls":[{"index":0,%s"function":{%s"arguments":%s}}]},"finish_reason":null}]}`+"\n\n", id, name, arguments)
		id = ""
	}
	return b.String()
}

func call(n int, model, messages string, stream bool) simulate.Call {
	if f := formatOf(model); f != chat {
		return simulate.Call{N: n, Model: model, Path: f.path, Stream: stream, Outcome: simulate.OutcomeComplete, Body: []byte(messages)}
	}
	usage := ""
	if stream {
		usage = `"stream":true,"stream_options":{"include_usage":true},`
	}
	return simulate.Call{N: n, Model: model, Outcome: simulate.OutcomeComplete,
		Body: []byte(`{"model":"` + model + `",` + usage + `"messages":` + messages + `}`)}
}

// ends are the errors in which rows end: those with a status, and those inside a
// stream after the part that was sent.
var (
	ends = map[string]struct {
		status      int
		code, class string
		retryable   bool
	}{
		"F12 equal":  {502, "provider_error", "context_length", false},
		"F13":        {502, "provider_error", "content_policy", false},
		"F19":        {502, "provider_error", "quota", false},
		"F20":        {502, "provider_error", "auth", false},
		"F23":        {429, "provider_rate_limited", "rate_limited", true},
		"F24":        {504, "provider_timeout", "deadline", true},
		"F24 useful": {503, "provider_unavailable", "server_error", true},
	}
	cuts = map[string]string{
		"F08": streamOf(simulate.Tokens()[:40]...) + errorEvent,
		"F09": streamOf(simulate.Tokens()[:20]...) +
			strings.NewReplacer("provider_disconnect", "stream_interrupted", "network", "timeout").Replace(errorEvent),
		"F14": streamOf(simulate.Tokens()[:40]...) + errorEvent,
		"F21": callOf("", `{"city`) + strings.Replace(errorEvent, `"retry_safe":true`, `"retry_safe":false`, 1),
	}
)

// chatName is what the row of the same fault in OpenAI's chat format is called.
func (r Row) chatName() string {
	if f := formatOf(r.Candidates[0]); f != chat {
		return strings.TrimSuffix(r.Name, " "+f.name)
	}
	return r.Name
}

// flawless is what a row should leave behind in a mode.
func flawless(r Row, mode Mode) []Observation {
	var out []Observation
	now, n := time.Unix(0, 0), 0
	for i, step := range r.steps(mode) {
		now = now.Add(step.After)
		if step.Unplanned {
			step.Calls, step.Classes = unplanned(i)
		}
		o := Observation{Status: 200, Began: now, Elapsed: 500 * time.Millisecond, Header: http.Header{}}
		for k, model := range step.Calls {
			n++
			c := call(n, model, r.messages(), r.streams(model))
			c.At = now.Add(time.Duration(k) * 100 * time.Millisecond)
			class := ""
			if k < len(step.Classes) {
				class = step.Classes[k]
			}
			if class == "timeout" {
				c.Outcome = simulate.OutcomeClientGone
			}
			o.Calls = append(o.Calls, c)
			o.Records = append(o.Records, Record{"msg": "attempt_finished", "request_id": requestID(i), "class": class, "ambiguous": class == "timeout"})
		}
		o.Records = append(o.Records, Record{"msg": "request_finished", "request_id": requestID(i)})
		r.answer(&o, step, mode, i)
		now = now.Add(o.Elapsed)
		out = append(out, o)
	}
	for _, adjust := range []func(Row, Mode, []Observation){times, alert, account} {
		adjust(r, mode, out)
	}
	return out
}

// unplanned are the calls of F15's requests: the outage takes the first 15, of
// which three reach the primary; the primary is back from the 20th on.
func unplanned(i int) (calls, classes []string) {
	switch {
	case i == 0:
		return []string{"sim-f15", "sim-f15", "sim-ok"}, []string{"overloaded", "overloaded"}
	case i == 1 || i == 9:
		return []string{"sim-f15", "sim-ok"}, []string{"overloaded"}
	case i < 19:
		return []string{"sim-ok"}, nil
	}
	return []string{"sim-f15"}, nil
}

// answer is the client's end of a step.
func (r Row) answer(o *Observation, s Step, mode Mode, i int) {
	last := r.lastTried(s)
	set := func(name, value string) { o.Header.Set(name, value) }
	set("X-Request-Id", requestID(i))
	set("X-LLM-Route", routeAlias)
	set("X-LLM-Provider", r.provider(last))
	set("X-LLM-Attempts", itoa(len(s.Calls)))
	set("X-LLM-Credential-Fallback", "false")
	set("X-LLM-Policy-Version", "1")
	reason := "ok"
	if !slices.Contains(s.Calls, r.Candidates[0]) {
		reason = "open"
	}
	set("X-LLM-Routing-Reason", "primary/"+r.Candidates[0]+":"+reason+";backup/"+r.Candidates[1]+":ok")
	if s.right() == CleanError {
		end := ends[r.chatName()]
		o.Status = end.status
		attempts := ""
		if r.Name == "F23" {
			attempts = `,"provider_code":"rate_limit_exceeded","attempts":[{"provider":"primary","model":"sim-f23a","status":503,"class":"overloaded","n":2},` +
				`{"provider":"backup","model":"sim-f23b","status":502,"class":"server_error","n":1},` +
				`{"provider":"backup","model":"sim-f23c","status":429,"class":"rate_limited","n":1}]`
		}
		o.Body = fmt.Sprintf(`{"error":{"message":"m","type":"t","code":%q,"class":%q,"provider":%q,"retryable":%t,"request_id":"r"%s}}`,
			end.code, end.class, r.provider(last), end.retryable, attempts)
		set("Content-Type", "application/json")
		set("X-Should-Retry", fmt.Sprint(end.retryable))
		set("Retry-After", "2")
		return
	}
	set("X-LLM-Model", last)
	set("X-LLM-Fallback", fmt.Sprint(last != r.Candidates[0]))
	set("X-LLM-Provider-Request-Id", simulate.RequestID(o.Calls[len(o.Calls)-1].N))
	if r.Plain {
		set("Content-Type", "application/json")
		text, _ := json.Marshal(simulate.Answer())
		o.Body = `{"object":"chat.completion","choices":[{"message":{"content":` + string(text) + `},"finish_reason":"stop"}],"usage":{"completion_tokens":60}}`
		return
	}
	set("Content-Type", "text/event-stream")
	set("Cache-Control", "no-cache, no-transform")
	set("X-Accel-Buffering", "no")
	switch {
	case r.chatName() == "F22" && mode == Live:
		text := []string{noJSON, noObject}[i]
		o.Body = streamOf(text) + strings.NewReplacer("provider_disconnect", "contract_violation", "network", "contract_violation").Replace(errorEvent) + done
	case r.Recorded[mode] == Safe:
		o.Body = cuts[r.chatName()] + done
		if formatOf(r.Candidates[0]).wholeCalls {
			o.Body = callOf(toolArguments) + strings.TrimPrefix(o.Body, callOf("", `{"city`))
		}
	case r.Schema:
		o.Body = streamOf(schemaAnswer) + finish + strings.Replace(usageEvent, "60", "6", 1) + done
	case r.Tool:
		o.Body = callOf(toolArguments) + strings.Replace(finish, "stop", "tool_calls", 1) + strings.Replace(usageEvent, "60", "6", 1) + done
	default:
		o.Body = streamOf(simulate.Tokens()...) + finish + usageEvent + done
	}
}

// times are those of rows whose conduct lies in them.
func times(r Row, mode Mode, all []Observation) {
	switch r.Name {
	case "F01":
		all[0].Calls[1].At = all[0].Calls[0].At.Add(2100 * time.Millisecond)
	case "F09":
		all[0].Elapsed = 10 * time.Second
	case "F33":
		all[0].Elapsed = 16 * time.Second
	}
}

// alert adds the operator's notice where a row demands one.
func alert(r Row, mode Mode, all []Observation) {
	if reason := map[string]string{"F19": "quota", "F20": "auth"}[r.chatName()]; reason != "" {
		all[0].Records = append(all[0].Records, Record{"msg": "alert", "reason": reason})
	}
}

// account adds what an answer costs where a row checks it.
func account(r Row, mode Mode, all []Observation) {
	charged := Record{"served_model": "gpt-4o-mini", "prompt_tokens": 11.0, "completion_tokens": 60.0, "cost_nano_usd": 40.0}
	switch r.Name {
	case "F16":
		maps.Copy(all[0].Records[2], charged)
		maps.Copy(all[0].Records[3], charged)
	case "F16 wasted":
		all[0].Records[0]["cost_nano_usd"] = 400.0
		all[0].Records[1]["cost_nano_usd"] = 500.0
		maps.Copy(all[0].Records[2], charged)
		maps.Copy(all[0].Records[3], charged)
		all[0].Records[3]["wasted_cost_nano_usd"] = 900.0
	}
}

func TestFlawlessRowsReachWhatIsRecorded(t *testing.T) {
	for _, r := range append(slices.Clone(Rows), row) {
		for mode, want := range r.Recorded {
			t.Run(r.Name+" "+string(mode), func(t *testing.T) {
				if v, why := r.verdict(mode, flawless(r, mode)); v != want || len(why) > 0 {
					t.Errorf("got %s, want %s: %q", v, want, why)
				}
			})
		}
	}
}

// What every call in another format has to be, the judge has to miss.
func TestWhatFailsInAnotherFormat(t *testing.T) {
	at := slices.IndexFunc(Rows, func(r Row) bool { return r.Name == "F17 anthropic" })
	for name, c := range map[string]struct {
		spoil func(*simulate.Call)
		why   string
	}{
		"a call in the client's format": {func(c *simulate.Call) { c.Path = chat.path }, "call 1: went to /v1/chat/completions, want /v1/messages"},
		"a call that does not stream":   {func(c *simulate.Call) { c.Stream = false }, "call 1: streams: got false, want true"},
		"a call without the question":   {func(c *simulate.Call) { c.Body = []byte(`{}`) }, "call 1: times the question was put: got 0, want 1"},
		"an idempotency key":            {func(c *simulate.Call) { c.Headers = map[string]string{"idempotency-key": "x"} }, "call 1: an Idempotency-Key went upstream"},
	} {
		t.Run(name, func(t *testing.T) {
			all := flawless(Rows[at], Live)
			c.spoil(&all[0].Calls[0])
			failsFor(t, Rows[at], Live, all, c.why)
		})
	}
}

// Each case spoils one thing of a flawless observation; the judge has to name it.
func TestWhatFails(t *testing.T) {
	cases := map[string]struct {
		spoil func(*Observation)
		why   string // part of a finding
	}{
		"a truncated answer that looks whole": {func(o *Observation) {
			o.Body = streamOf(simulate.Tokens()[:40]...) + finish + usageEvent + "data: [DONE]\n\n"
		}, "text: 40 words, not the 60 of the answer"},
		"an end mark alone after a break": {func(o *Observation) {
			o.Body = streamOf(simulate.Tokens()[:40]...) + "data: [DONE]\n\n"
		}, "finish reasons: got []"},
		"no end mark":         {func(o *Observation) { o.Body = strings.TrimSuffix(o.Body, "data: [DONE]\n\n") }, "0 end marks"},
		"an unfinished event": {func(o *Observation) { o.Body = strings.TrimSuffix(o.Body, "\n") }, "the last event has no end"},
		"no usage":            {func(o *Observation) { o.Body = strings.Replace(o.Body, usageEvent, "", 1) }, "0 times usage"},
		"usage twice":         {func(o *Observation) { o.Body = strings.Replace(o.Body, usageEvent, usageEvent+usageEvent, 1) }, "2 times usage"},
		"two finishes":        {func(o *Observation) { o.Body = strings.Replace(o.Body, finish, finish+finish, 1) }, "finish reasons"},
		"a null error member": {func(o *Observation) {
			o.Body = strings.Replace(o.Body, `{"object"`, `{"error":null,"object"`, 1)
		}, "an ordinary chunk with an error member"},
		"an event after the end": {func(o *Observation) { o.Body += finish }, "an event after the end"},
		"a malformed event":      {func(o *Observation) { o.Body = "data: {\"ob\n\n" + o.Body }, "an event that is no JSON"},
		"a hang":                 {func(o *Observation) { o.Err = http.ErrHandlerTimeout }, "could not be read to its end"},
		"slowness":               {func(o *Observation) { o.Elapsed = time.Minute }, "took 1m0s, may take 10s"},
		"a call too many":        {func(o *Observation) { o.Calls = append(o.Calls, o.Calls[2]) }, "calls: got"},
		"a call too few":         {func(o *Observation) { o.Calls = o.Calls[1:] }, "calls: got"},
		"a prefill": {func(o *Observation) {
			o.Calls[2].Body = []byte(`{"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"assistant","content":"When"}]}`)
		}, "call 3: messages"},
		"an upstream call without usage": {func(o *Observation) {
			o.Calls[0].Body = []byte(`{"stream":true,"messages":` + row.messages() + `}`)
		}, "call 1: upstream was asked with stream true and usage false"},
		"an upstream idempotency key": {func(o *Observation) { o.Calls[0].Headers = map[string]string{"idempotency-key": "x"} }, "Idempotency-Key went upstream"},
		"a wrong provider":            {func(o *Observation) { o.Header.Set("X-LLM-Provider", "primary") }, "X-LLM-Provider: got primary, want backup"},
		"no routing reason":           {func(o *Observation) { o.Header.Del("X-LLM-Routing-Reason") }, "no X-LLM-Routing-Reason"},
		"a wrong class":               {func(o *Observation) { o.Records[1]["class"] = "unknown" }, "classes: got"},
		"an attempt not recorded":     {func(o *Observation) { o.Records = o.Records[1:] }, "attempt_finished records: got 2, want 3"},
		"a request not recorded":      {func(o *Observation) { o.Records = o.Records[:3] }, "request_finished records: got 0, want 1"},
		"a leaked prompt":             {func(o *Observation) { o.Records[3]["x"] = prompt }, "holds the key or the prompt"},
		"another text type":           {func(o *Observation) { o.Header.Set("Content-Type", "text/html") }, "content type"},
		"no cache control":            {func(o *Observation) { o.Header.Del("Cache-Control") }, "Cache-Control: got"},
		"a clean error is a drop from the recorded pass": {func(o *Observation) {
			o.Body = streamOf(simulate.Tokens()[:40]...) + errorEvent + "data: [DONE]\n\n"
		}, "safe, but the table records pass"},
		"an error event that is not typed": {func(o *Observation) {
			o.Body = streamOf("When") + `data: {"error":{"message":"m","type":"upstream_error","code":"provider_disconnect"}}` + "\n\ndata: [DONE]\n\n"
		}, "the error event lacks a member"},
		"a finish invented before an error event": {func(o *Observation) {
			o.Body = streamOf("When") + finish + errorEvent + "data: [DONE]\n\n"
		}, "was invented before the error event"},
		"a status without the contract's error": {func(o *Observation) { o.Status, o.Body = 502, "<html>" }, "status 502 without the contract's error"},
		"an error without Retry-After": {func(o *Observation) {
			o.Status, o.Body = 503, errorBody
			o.Header.Set("Content-Type", "application/json")
			o.Header.Set("X-Should-Retry", "true")
		}, "status 503 without Retry-After"},
		"an error that contradicts its header": {func(o *Observation) {
			o.Status, o.Body = 502, errorBody
			o.Header.Set("X-Should-Retry", "false")
		}, "x-should-retry: got false, want true"},
		"an error that names a host": {func(o *Observation) {
			o.Status, o.Body = 502, strings.Replace(errorBody, `"m"`, `"dial 127.0.0.1:4000"`, 1)
		}, "gives away an address"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			all := flawless(row, Live)
			c.spoil(&all[0])
			failsFor(t, row, Live, all, c.why)
		})
	}
}

func failsFor(t *testing.T, r Row, mode Mode, all []Observation, because string) {
	t.Helper()
	v, why := r.verdict(mode, all)
	if v != Fail {
		t.Errorf("verdict %s, want FAIL", v)
	}
	if !slices.ContainsFunc(why, func(w string) bool { return strings.Contains(w, because) }) {
		t.Errorf("reasons %q do not say %q", why, because)
	}
}

// Each case spoils what one row is about.
func TestWhatFailsInARow(t *testing.T) {
	replace := func(i int, old, new string) func([]Observation) {
		return func(all []Observation) {
			if !strings.Contains(all[i].Body, old) {
				panic("nothing to spoil: " + old)
			}
			all[i].Body = strings.Replace(all[i].Body, old, new, 1)
		}
	}
	calls := func(i int, models ...string) func([]Observation) {
		return func(all []Observation) {
			all[i].Calls = nil
			for k, model := range models {
				all[i].Calls = append(all[i].Calls, simulate.Call{N: k, Model: model, At: all[i].Began})
			}
		}
	}
	cases := map[string]struct {
		row   string
		mode  Mode
		spoil func([]Observation)
		why   string
	}{
		"a hint is not waited for in full": {"F01", Live, func(all []Observation) {
			all[0].Calls[1].At = all[0].Calls[0].At.Add(1999 * time.Millisecond)
		}, "the second call came 1.999s after the first"},
		"a hint is waited for too long": {"F01", Live, func(all []Observation) {
			all[0].Calls[1].At = all[0].Calls[0].At.Add(3001 * time.Millisecond)
		}, "the second call came 3.001s after the first"},
		"a silent call is kept": {"F06", Live, func(all []Observation) {
			all[0].Calls[0].Outcome = simulate.OutcomeComplete
		}, "want the gateway to close it"},
		"a late first token is waited for":      {"F07", Complete, func(all []Observation) { all[0].Elapsed = 20 * time.Second }, "may take 15s"},
		"a token is lost before the break":      {"F08", Live, replace(0, streamOf(simulate.Tokens()[39]), ""), "text: 39 words, not the 40"},
		"a break is called something else":      {"F08", Live, replace(0, "provider_disconnect", "deadline_exceeded"), "error event: code: got deadline_exceeded"},
		"text alone is called unsafe to repeat": {"F08", Live, replace(0, `"retry_safe":true`, `"retry_safe":false`), "retry_safe: got false"},
		"a break is not recovered from although nothing was sent": {"F08", Complete, func(all []Observation) {
			all[0].Body = cuts["F08"] + done
		}, "safe, but the table records pass"},
		"silence is ended too early":              {"F09", Live, func(all []Observation) { all[0].Elapsed = 8 * time.Second }, "was over after 8s"},
		"silence is ended too late":               {"F09", Live, func(all []Observation) { all[0].Elapsed = 12 * time.Second }, "may take 11s"},
		"an end mark that never comes is awaited": {"F11", Live, func(all []Observation) { all[0].Elapsed = 3 * time.Second }, "may take 2.5s"},
		"a context no larger is tried":            {"F12 equal", Live, calls(0, "sim-f12", "sim-ok"), "calls: got [sim-f12 sim-ok]"},
		"a refusal is passed over": {"F13", Live, func(all []Observation) {
			all[0] = flawless(row, Live)[0]
		}, "the client has an answer where an error is right"},
		"a refusal is called an outage": {"F13", Live, replace(0, "content_policy", "server_error"), "error.class: got server_error"},
		"a prefill is sent": {"F14", Complete, func(all []Observation) {
			all[0].Calls[2].Body = []byte(`{"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"assistant","content":"When"}]}`)
		}, "call 3: messages"},
		"a failed attempt is charged": {"F16 wasted", Live, func(all []Observation) {
			all[0].Records[3]["cost_nano_usd"] = 940.0
		}, "cost_nano_usd of the request: got 940, want 40"},
		"waste is forgotten": {"F16 wasted", Live, func(all []Observation) {
			delete(all[0].Records[3], "wasted_cost_nano_usd")
		}, "wasted cost: got 0, want 900"},
		"a failed attempt is said to be free": {"F16 wasted", Live, func(all []Observation) {
			delete(all[0].Records[0], "cost_nano_usd")
			delete(all[0].Records[1], "cost_nano_usd")
		}, "the failed attempts cost 0"},
		"a refusal costs something": {"F16", Live, func(all []Observation) {
			all[0].Records[0]["cost_nano_usd"] = 1.0
		}, "the failed attempts cost 1 "},
		"the wrong model is charged": {"F16", Live, func(all []Observation) {
			all[0].Records[3]["served_model"] = "sim-f16"
		}, "served_model of the request: got sim-f16"},
		"an answer has no price": {"F16", Live, func(all []Observation) {
			delete(all[0].Records[2], "cost_nano_usd")
		}, "the answering attempt has no cost"},
		"an empty account is waited for":            {"F19", Live, func(all []Observation) { all[0].Elapsed = 1300 * time.Millisecond }, "request 1: took 1.3s"},
		"nobody is told of it":                      {"F19", Live, func(all []Observation) { all[0].Records = all[0].Records[:2] }, "alerts: got []"},
		"it is asked again during the hold":         {"F19", Complete, calls(1, "sim-f19"), "request 2: calls: got [sim-f19]"},
		"it hides behind the fallback":              {"F19", Live, calls(1, "sim-ok"), "request 2: calls: got [sim-ok]"},
		"half a tool call is called safe to repeat": {"F21", Live, replace(0, `"retry_safe":false`, `"retry_safe":true`), "retry_safe: got true"},
		"a tool call loses an argument":             {"F21", Complete, replace(0, `\"unit\":\"celsius\"`, ""), "arguments: got"},
		"a tool call is sent in pieces": {"F21 whole", Live, func(all []Observation) {
			all[0].Body = strings.Replace(all[0].Body, callOf(toolArguments), callOf("", toolArguments), 1)
		}, "pieces of the tool call: got 2"},
		"a broken contract is called a broken connection": {"F22", Live, replace(1, `"code":"contract_violation"`, `"code":"provider_disconnect"`), "request 2: error event: code: got provider_disconnect"},
		"a broken answer is called whole":                 {"F22", Live, func(all []Observation) { all[0].Body = streamOf(noJSON) + finish + usageEvent + done }, "request 1: structured answer: got"},
		"a broken answer is regenerated twice":            {"F22", Complete, calls(0, "sim-f22", "sim-f22", "sim-f22", "sim-ok"), "calls: got"},
		"a candidate is left out of the error":            {"F23", Live, replace(0, `"n":2`, `"n":1`), "error.attempts"},
		"a call is begun that cannot end": {"F24", Live, func(all []Observation) {
			all[0].Calls[1].At = all[0].Began.Add(7100 * time.Millisecond)
		}, "was begun after 7.1s, which leaves too little time"},
		"a throttled credential is called":    {"F31", Live, calls(2, "sim-f31", "sim-ok"), "request 3: calls: got [sim-f31 sim-ok]"},
		"a throttled credential is forgotten": {"F31", Live, calls(3, "sim-ok"), "request 4: calls: got [sim-ok]"},
		"a skip is not explained": {"F31", Live, func(all []Observation) {
			all[1].Header.Set("X-LLM-Routing-Reason", "primary/sim-f31:ok;backup/sim-ok:ok")
		}, "does not say why sim-f31 was passed over"},
		"work that may have been done is not marked": {"F33", Live, func(all []Observation) {
			all[0].attempts()[0]["ambiguous"] = false
		}, "ambiguous, after timeout: got false, want true"},
		"a plain call is made a stream": {"F33", Live, func(all []Observation) {
			all[0].Calls[0] = call(1, "sim-f33a", row.messages(), true)
		}, "call 1: upstream was asked with stream true"},
		"a probe is retried":             {"F34", Live, calls(3, "sim-f34", "sim-f34", "sim-ok"), "request 4: calls: got"},
		"a circuit reopens for as short": {"F34", Live, calls(4, "sim-f34", "sim-ok"), "request 5: calls: got"},
		"a request is not made":          {"F34", Live, func(all []Observation) { all[5] = Observation{Err: http.ErrHandlerTimeout} }, "request 6: the answer could not be read"},
		"an outage is called too often":  {"F15", Live, calls(5, "sim-f15", "sim-ok"), "5 calls of sim-f15 during its outage"},
		"a request of an outage is lost": {"F15", Live, func(all []Observation) {
			all[7].Status, all[7].Body = 503, errorBody
			all[7].Header = http.Header{"Content-Type": {"application/json"}, "X-Should-Retry": {"true"}, "Retry-After": {"2"}}
		}, "safe, but the table records pass"},
		"a recovery is noticed late": {"F15", Live, func(all []Observation) {
			for i := 15; i < 25; i++ {
				calls(i, "sim-ok")(all)
			}
		}, "was used again 52.5s after its recovery"},
		"a recovery is not noticed": {"F15", Live, func(all []Observation) {
			for i := 15; i < 26; i++ {
				calls(i, "sim-ok")(all)
			}
		}, "sim-f15 was never used again"},
		"a recovery is forgotten again": {"F15", Live, calls(25, "sim-ok"), "the last request was not served by sim-f15"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			at := slices.IndexFunc(Rows, func(r Row) bool { return r.Name == c.row })
			all := flawless(Rows[at], c.mode)
			c.spoil(all)
			failsFor(t, Rows[at], c.mode, all, c.why)
		})
	}
}

func TestAStepLeftOutFails(t *testing.T) {
	failsFor(t, row, Live, nil, "requests: got 0, want 1")
}

func TestRecordsBelongToTheRequestUnderWay(t *testing.T) {
	records := parseRecords([]byte(`{"msg":"notice"}
not a record
{"msg":"attempt_finished","request_id":"suite-request-1"}
{"msg":"alert"}
{"msg":"request_finished","request_id":"suite-request-1"}
{"msg":"request_finished","request_id":"suite-request-2"}
`))
	for id, want := range map[string]string{
		"suite-request-1": "attempt_finished alert request_finished",
		"suite-request-2": "request_finished",
	} {
		var got []string
		for _, r := range recordsOf(records, id) {
			got = append(got, r.kind())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %s", id, got, want)
		}
	}
}

// The table must be runnable and must not demand the impossible.
func TestRowsAreComplete(t *testing.T) {
	names := map[string]bool{}
	getenv := func(name string) string {
		return map[string]string{"SPILLWAY_SIMULATOR_URL": "http://127.0.0.1:1/v1", "SIM_KEY": upstreamKey}[name]
	}
	for _, r := range Rows {
		t.Run(r.Name, func(t *testing.T) {
			if names[r.Name] {
				t.Error("the name stands twice")
			}
			names[r.Name] = true
			if r.Fault == "" || len(r.Recorded) == 0 || len(r.Candidates) < 2 || len(r.Steps) == 0 {
				t.Error("a fault, candidates, requests and a recorded verdict are required")
			}
			for mode, v := range r.Recorded {
				if v == Fail {
					t.Errorf("%s records a failure", mode)
				}
				for _, step := range r.steps(mode) {
					for _, model := range step.Calls {
						if !slices.Contains(r.Candidates, model) {
							t.Errorf("%s is called and no candidate", model)
						}
					}
				}
				if r.length(mode) > limit/2 {
					t.Errorf("%s takes %s of the run's %s", mode, r.length(mode), limit)
				}
				if c, err := catalog.Load(r.configuration(mode), getenv); err != nil || len(c.Notices) > 0 {
					t.Errorf("its configuration does not load: %v", err)
				}
			}
			if !json.Valid([]byte(r.request())) {
				t.Error("its request is no JSON")
			}
		})
	}
}

func TestPlaysAreComplete(t *testing.T) {
	names := map[string]bool{}
	getenv := func(name string) string {
		return map[string]string{"SPILLWAY_SIMULATOR_URL": "http://127.0.0.1:1/v1", "SIM_KEY": upstreamKey}[name]
	}
	for _, r := range Plays {
		t.Run(r.Name, func(t *testing.T) {
			if names[r.Name] || slices.ContainsFunc(Rows, func(other Row) bool { return other.Name == r.Name }) {
				t.Error("the name stands twice")
			}
			names[r.Name] = true
			if r.Fault == "" || len(r.Recorded) == 0 || len(r.Candidates) < 2 || r.Play == nil || r.Steps != nil {
				t.Error("a fault, candidates, a play in place of steps, and a recorded verdict are required")
			}
			for mode, v := range r.Recorded {
				if v != Pass {
					t.Errorf("%s records %s: a play passes or fails", mode, v)
				}
				if _, err := catalog.Load(r.configuration(mode), getenv); err != nil {
					t.Errorf("its configuration does not load: %v", err)
				}
			}
		})
	}
}

func TestAPlayFailsForWhatItFinds(t *testing.T) {
	var f Findings
	if v, why := f.verdict(); v != Pass || len(why) != 0 {
		t.Errorf("got %s, %q for nothing found", v, why)
	}
	f.addf("a finding")
	if v, why := f.verdict(); v != Fail || len(why) != 1 {
		t.Errorf("got %s, %q for a finding", v, why)
	}
}

func TestReport(t *testing.T) {
	done := make(chan struct{})
	close(done)
	var out strings.Builder
	ok := report([]*trial{
		{row: row, mode: Live, verdict: Pass, observed: flawless(row, Live), done: done},
		{row: row, mode: Complete, verdict: Safe, done: done},
		{row: row, mode: Live, verdict: Fail, why: []string{"calls: got 1, want 2"}, done: done},
	}, &out)
	if ok {
		t.Error("a failed row must fail the run")
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{
		"row verdict calls",
		"F00 live pass 2 1 0.50 overloaded",
		"F00 complete safe 0 0 0.00",
		"F00 live FAIL 0 0 0.00",
		"calls: got 1, want 2",
		"faults: 3 rows, 1 pass, 1 safe, 1 failed",
	}
	for i, line := range lines[1:] {
		if got := strings.Join(strings.Fields(line), " "); got != want[i+1] {
			t.Errorf("line %d: got %q, want %q", i+1, got, want[i+1])
		}
	}
	if strings.Count(out.String(), "FAIL") != 1 {
		t.Errorf("FAIL belongs on failing rows only:\n%s", out.String())
	}
}

func TestPlan(t *testing.T) {
	names := func(only ...string) string {
		trials, err := plan(only)
		if err != nil {
			return err.Error()
		}
		var out []string
		for _, trial := range trials {
			out = append(out, trial.row.Name)
		}
		return strings.Join(out, ",")
	}
	for want, got := range map[string]string{
		"F12 larger,F12 larger,F12 equal,F12 equal": names("F12"),
		"F03 plain,F03 plain,F09,F09":               names("F09", "F03 plain"),
		"F08 gemini,F08 gemini":                     names("F08 gemini"),
		"F08,F08,F08 anthropic,F08 anthropic,F08 gemini,F08 gemini,F08 responses,F08 responses": names("F08"),
		"no row is named F99, F0": names("F03", "F99", "F0"),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	want := 0
	for _, r := range slices.Concat(Rows, Plays, JobRows) {
		want += len(r.Recorded)
	}
	if all, _ := plan(nil); len(all) != want {
		t.Errorf("%d trials, want %d: one for each mode of each row", len(all), want)
	}
}
