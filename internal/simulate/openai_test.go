package simulate_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"spillway/internal/simulate"
)

func TestPlainAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		a := u.post(t.Context(), ask("sim-ok", ""))
		same(t, "content type", "application/json", a.header.Get("Content-Type"))
		c := a.decode(t)
		same(t, "object", "chat.completion", c.Object)
		same(t, "model", "sim-ok", c.Model)
		same(t, "text", simulate.Answer(), *c.Choices[0].Message.Content)
		same(t, "finish reason", "stop", *c.Choices[0].FinishReason)
		same(t, "completion tokens", 60, c.Usage.CompletionTokens)
		same(t, "time", 300*time.Millisecond, a.total)
	})
}

func TestUsageOnlyIfAsked(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		a := u.post(t.Context(), ask("sim-ok", `,"stream":true`))
		same(t, "mentions usage", false, strings.Contains(a.body, `"usage"`))
		same(t, "events", 1+60+1+1, len(a.payloads()))
		a = u.post(t.Context(), ask("sim-ok", streaming))
		same(t, "null usages", 62, strings.Count(a.body, `"usage":null`))
	})
}

func TestTokenLimit(t *testing.T) {
	cases := map[string]struct {
		more   string
		tokens int
		reason string
	}{
		"max_tokens cuts":                 {`,"max_tokens":7`, 7, "length"},
		"max_completion_tokens cuts":      {`,"max_completion_tokens":7`, 7, "length"},
		"the exact length is no cut":      {`,"max_tokens":60`, 60, "stop"},
		"a limit above changes nothing":   {`,"max_tokens":4000`, 60, "stop"},
		"a limit cuts structured answers": {`,"max_tokens":2,"response_format":{"type":"json_object"}`, 2, "length"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, u upstream) {
				plain := u.post(t.Context(), ask("sim-ok", c.more)).decode(t)
				same(t, "tokens", c.tokens, plain.Usage.CompletionTokens)
				same(t, "reason", c.reason, *plain.Choices[0].FinishReason)
				stream := u.post(t.Context(), ask("sim-ok", c.more+streaming))
				same(t, "streamed text", *plain.Choices[0].Message.Content, stream.text())
				same(t, "events", 1+c.tokens+1+1+1, len(stream.payloads()))
			})
		})
	}
}

func TestSeveralChoices(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		plain := u.post(t.Context(), ask("sim-ok", `,"n":3`)).decode(t)
		same(t, "choices", 3, len(plain.Choices))
		same(t, "text", simulate.Answer(), *plain.Choices[2].Message.Content)
		same(t, "index", 2, plain.Choices[2].Index)
		same(t, "tokens", 180, plain.Usage.CompletionTokens)

		all, _ := u.post(t.Context(), ask("sim-ok", `,"n":3`+streaming)).chunks()
		texts, reasons := map[int]string{}, map[int]string{}
		for _, c := range all {
			for _, ch := range c.Choices {
				texts[ch.Index] += ch.Delta.Content
				if ch.FinishReason != nil {
					reasons[ch.Index] = *ch.FinishReason
				}
			}
		}
		same(t, "texts", map[int]string{0: simulate.Answer(), 1: simulate.Answer(), 2: simulate.Answer()}, texts)
		same(t, "reasons", map[int]string{0: "stop", 1: "stop", 2: "stop"}, reasons)
	})
}

const weatherTools = `,"tools":[{"type":"function","function":{"name":"get_time","parameters":{"type":"object","properties":{"zone":{"enum":["utc","cet"]}}}}},` +
	`{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","minimum":3}},"required":["city","days"]}}}]`

func TestToolCalls(t *testing.T) {
	user := func(text string) string { return `[{"role":"user","content":` + text + `}]` }
	cases := map[string]struct {
		messages, more  string
		tool, arguments string // empty: a text answer
	}{
		"a question about the weather":           {user(`"How is the Weather?"`), weatherTools, "get_weather", `{"city":"Lisbon","days":3}`},
		"the same in parts":                      {user(`[{"type":"text","text":"weather?"}]`), weatherTools, "get_weather", `{"city":"Lisbon","days":3}`},
		"another question":                       {user(`"hello"`), weatherTools, "", ""},
		"required":                               {user(`"hello"`), weatherTools + `,"tool_choice":"required"`, "get_weather", `{"city":"Lisbon","days":3}`},
		"a named tool":                           {user(`"hello"`), weatherTools + `,"tool_choice":{"type":"function","function":{"name":"get_time"}}`, "get_time", `{"zone":"utc"}`},
		"none, in spite of the weather":          {user(`"weather"`), weatherTools + `,"tool_choice":"none"`, "", ""},
		"no tools, in spite of the weather":      {user(`"weather"`), "", "", ""},
		"the tool has answered: no second call":  {`[{"role":"user","content":"weather"},{"role":"assistant","content":null,"tool_calls":[]},{"role":"tool","content":"rain"}]`, weatherTools, "", ""},
		"a tool without parameters, as required": {user(`"x"`), `,"tools":[{"type":"function","function":{"name":"ping"}}],"tool_choice":"required"`, "ping", `{}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, u upstream) {
				body := `{"model":"sim-ok","messages":` + c.messages + c.more
				plain := u.post(t.Context(), body+`}`).decode(t).Choices[0]
				stream := u.post(t.Context(), body+streaming+`}`)
				if c.tool == "" {
					same(t, "text", simulate.Answer(), *plain.Message.Content)
					same(t, "streamed text", simulate.Answer(), stream.text())
					return
				}
				same(t, "calls", 1, len(plain.Message.ToolCalls))
				same(t, "tool", c.tool, plain.Message.ToolCalls[0].Function.Name)
				same(t, "arguments", c.arguments, plain.Message.ToolCalls[0].Function.Arguments)
				same(t, "reason", "tool_calls", *plain.FinishReason)
				tool, arguments := stream.toolCall()
				same(t, "streamed tool", c.tool, tool)
				same(t, "streamed arguments", c.arguments, arguments)
				same(t, "streamed text", "", stream.text())
			})
		})
	}
}

func TestStructuredOutput(t *testing.T) {
	cases := map[string]struct{ schema, want string }{
		"the required members only": {
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a"]}`, `{"a":"spillway"}`},
		"all members if none is required": {
			`{"type":"object","properties":{"a":{"type":"boolean"},"b":{"type":"null"}}}`, `{"a":true,"b":null}`},
		"enum, const and bounds": {
			`{"type":"object","properties":{"e":{"enum":["x","y"]},"c":{"const":4},"n":{"type":"number","minimum":2.5},"s":{"type":"string","maxLength":5}}}`,
			`{"c":4,"e":"x","n":2.5,"s":"spill"}`},
		"arrays and nested objects": {
			`{"type":"object","properties":{"list":{"type":"array","minItems":2,"items":{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}}}}`,
			`{"list":[{"ok":true},{"ok":true}]}`},
		"references and alternatives": {
			`{"type":"object","properties":{"n":{"anyOf":[{"$ref":"#/$defs/leaf"},{"type":"null"}]}},"required":["n"],"$defs":{"leaf":{"type":["integer","null"]}}}`,
			`{"n":1}`},
		"a schema that refers to itself ends": {
			`{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["next"]}`,
			`{"next":{"next":{"next":{"next":null}}}}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, u upstream) {
				format := `,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":` + c.schema + `}}`
				same(t, "plain", c.want, *u.post(t.Context(), ask("sim-ok", format)).decode(t).Choices[0].Message.Content)
				same(t, "stream", c.want, u.post(t.Context(), ask("sim-ok", format+streaming)).text())
			})
		})
	}
}

func TestRefusals(t *testing.T) {
	cases := map[string]struct {
		body, key string
		status    int
		code      string
	}{
		"a bad key":          {ask("sim-ok", ""), "Bearer bad-key", 401, "invalid_api_key"},
		"no JSON":            {`{"model":`, "Bearer k", 400, "invalid_request_error"},
		"no model":           {`{"messages":[{"role":"user","content":"x"}]}`, "Bearer k", 400, "invalid_request_error"},
		"no messages":        {`{"model":"sim-ok","messages":[]}`, "Bearer k", 400, "invalid_request_error"},
		"a model nobody has": {ask("gpt-0", ""), "Bearer k", 404, "model_not_found"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, u upstream) {
				a := u.post(t.Context(), c.body, "Authorization", c.key)
				same(t, "status", c.status, a.status)
				same(t, "code", c.code, a.errorCode())
				same(t, "names all four members", true, json.Valid([]byte(a.body)) && strings.Contains(a.body, `"param":null`))
			})
		})
	}
}
