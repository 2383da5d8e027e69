package simulate_test

import (
	"strings"
	"testing"

	"spillway/internal/simulate"
)

// judged is a request that a format must refuse, or take.
type judged struct {
	body string
	// why is a part of the refusal; empty is a 200.
	why string
}

// judge sends each to the format's healthy model.
func judge(t *testing.T, path string, headers map[string]string, cases map[string]judged) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, u upstream) {
				status, answer := u.send(t, path, []byte(c.body), headers)
				if c.why == "" {
					same(t, "status of "+answer, 200, status)
					return
				}
				same(t, "status of "+answer, 400, status)
				same(t, c.why+" in "+answer, true, strings.Contains(answer, c.why))
			}, simulate.Gap(0))
		})
	}
}

func TestAnthropicIsStrict(t *testing.T) {
	const (
		tools = `,"tools":[{"name":"f","input_schema":{"type":"object"}}]`
		use   = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"b","name":"f","input":{}}]}`
		hello = `{"role":"user","content":"x"}`
	)
	result := func(ids ...string) string {
		var all []string
		for _, id := range ids {
			all = append(all, `{"type":"tool_result","tool_use_id":"`+id+`","content":"y"}`)
		}
		return `{"role":"user","content":[` + strings.Join(all, ",") + `]}`
	}
	with := func(more string, turns ...string) string {
		return `{"model":"sim-anthropic-ok","max_tokens":2000,"messages":[` + strings.Join(turns, ",") + `]` + more + `}`
	}
	block := func(b string) string { return with("", `{"role":"user","content":[`+b+`]}`) }
	format := func(schema string) string {
		return with(`,"output_config":{"format":{"type":"json_schema","schema":`+schema+`}}`, hello)
	}
	judge(t, "/v1/messages", formats["anthropic"].headers, map[string]judged{
		"one text":                                  {with("", hello), ""},
		"no JSON":                                   {`{`, "not valid JSON"},
		"no limit":                                  {`{"model":"sim-anthropic-ok","messages":[` + hello + `]}`, "max_tokens: Field required"},
		"no model":                                  {`{"max_tokens":1,"messages":[` + hello + `]}`, "model: Field required"},
		"no messages":                               {with(""), "at least one message"},
		"a member of another format":                {with(`,"max_completion_tokens":1`, hello), "max_completion_tokens: Extra inputs are not permitted"},
		"two turns of one role":                     {with("", hello, hello), "roles must alternate"},
		"the assistant begins":                      {with("", `{"role":"assistant","content":"x"}`, hello), "roles must alternate"},
		"a system turn":                             {with("", `{"role":"system","content":"x"}`), "roles must alternate"},
		"an empty text":                             {block(`{"type":"text","text":" "}`), "non-whitespace"},
		"no blocks":                                 {block(``), "at least one content block"},
		"a block of another format":                 {block(`{"type":"image_url"}`), "does not match any of the expected tags"},
		"calls and their results":                   {with(tools, hello, use, result("a", "b")), ""},
		"results in another order":                  {with(tools, hello, use, result("b", "a")), ""},
		"a call without a result":                   {with(tools, hello, use, result("a")), "were found without `tool_result` blocks"},
		"a call at the end":                         {with(tools, hello, use), "were found without `tool_result` blocks"},
		"a result of no call":                       {with(tools, hello, use, result("a", "b", "c")), "unexpected `tool_use_id`"},
		"a result twice":                            {with(tools, hello, use, result("a", "a")), "unexpected `tool_use_id`"},
		"a result that comes late":                  {with(tools, hello, use, hello), "were found without `tool_result` blocks"},
		"a text before a result":                    {with(tools, hello, use, `{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"a"},{"type":"tool_result","tool_use_id":"b"}]}`), "were found without `tool_result` blocks"},
		"an id that was used before":                {with(tools, hello, use, result("a", "b"), use, result("a", "b")), "ids must be unique"},
		"an id of other characters":                 {with(tools, hello, strings.Replace(use, `"a"`, `"a:1"`, 1), result("a:1", "b")), "String should match pattern"},
		"arguments as a string":                     {with(tools, hello, strings.Replace(use, `"input":{}`, `"input":"{}"`, 1), result("a", "b")), "Input should be a valid dictionary"},
		"calls without declared tools":              {with("", hello, use, result("a", "b")), "must define tools"},
		"a tool without a type":                     {with(`,"tools":[{"name":"f","input_schema":{}}]`, hello), "Input should be 'object'"},
		"a tool with a bad name":                    {with(`,"tools":[{"name":"f.g","input_schema":{"type":"object"}}]`, hello), "String should match pattern"},
		"a tool twice":                              {with(`,"tools":[{"name":"f","input_schema":{"type":"object"}},{"name":"f","input_schema":{"type":"object"}}]`, hello), "must be unique"},
		"a choice without tools":                    {with(`,"tool_choice":{"type":"auto"}`, hello), "while providing tools"},
		"a choice of no tool":                       {with(tools+`,"tool_choice":{"type":"tool","name":"g"}`, hello), "not found in provided tools"},
		"a choice in OpenAI's words":                {with(tools+`,"tool_choice":{"type":"required"}`, hello), "tool_choice: Input tag 'required'"},
		"a forced tool with thinking":               {with(tools+`,"tool_choice":{"type":"any"},"thinking":{"type":"adaptive"}`, hello), "Thinking may not be enabled"},
		"thinking of too little":                    {with(`,"thinking":{"type":"enabled","budget_tokens":10}`, hello), "greater than or equal to 1024"},
		"thinking of all the limit":                 {with(`,"thinking":{"type":"enabled","budget_tokens":2000}`, hello), "must be greater than `thinking.budget_tokens`"},
		"thinking and a temperature":                {with(`,"thinking":{"type":"enabled","budget_tokens":1024},"temperature":0.5`, hello), "may only be set to 1"},
		"thinking, and a call that has lost it":     {with(tools+`,"thinking":{"type":"enabled","budget_tokens":1024}`, hello, use, result("a", "b")), "Expected `thinking`"},
		"thinking that nothing follows":             {with("", hello, `{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"redacted_thinking","data":"c2ltdWxhdGUxMjM0NTY3ODkwMTI="}]}`, hello), "cannot be `thinking`"},
		"a signature of somebody else's":            {with("", hello, `{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"c2ln"},{"type":"text","text":"x"}]}`, hello), "Invalid `signature`"},
		"a temperature of OpenAI's":                 {with(`,"temperature":1.5`, hello), "range: 0..1"},
		"temperature and top_p":                     {with(`,"temperature":1,"top_p":1`, hello), "cannot both be specified"},
		"a blank stop":                              {with(`,"stop_sequences":["\n"]`, hello), "non-whitespace"},
		"an effort of OpenAI's":                     {with(`,"output_config":{"effort":"minimal"}`, hello), "output_config.effort"},
		"a schema":                                  {format(`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`), ""},
		"a schema that is open":                     {format(`{"type":"object"}`), "'additionalProperties' must be explicitly set to false"},
		"a schema that is open deeper":              {format(`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"}}},"additionalProperties":false}`), "'additionalProperties'"},
		"a schema with a bound":                     {format(`{"type":"object","properties":{"a":{"anyOf":[{"type":"integer","minimum":1}]}},"additionalProperties":false}`), "For 'integer' type, property 'minimum' is not supported"},
		"a picture":                                 {block(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}`), ""},
		"a picture by address":                      {block(`{"type":"image","source":{"type":"url","url":"https://a.test/b.png"}}`), ""},
		"a picture by an address that is not safe":  {block(`{"type":"image","source":{"type":"url","url":"http://a.test/b.png"}}`), "source that this kind of block takes"},
		"a picture of another type":                 {block(`{"type":"image","source":{"type":"base64","media_type":"image/bmp","data":"aGk="}}`), "source that this kind of block takes"},
		"a picture that is no base64":               {block(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"!"}}`), "Invalid base64 data"},
		"a call in a user's turn":                   {block(`{"type":"tool_use","id":"a","name":"f","input":{}}`), "can only be in `assistant` messages"},
		"a strict tool whose schema cannot be said": {with(`,"tools":[{"name":"f","strict":true,"input_schema":{"type":"object"}}]`, hello), "'additionalProperties'"},
	})
}

func TestGeminiIsStrict(t *testing.T) {
	const (
		hello  = `{"role":"user","parts":[{"text":"x"}]}`
		signed = `{"role":"model","parts":[{"functionCall":{"name":"f","args":{}},"thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"name":"f","args":{}}}]}`
		reply  = `{"functionResponse":{"name":"f","response":{"result":1}}}`
		both   = `{"role":"user","parts":[` + reply + `,` + reply + `]}`
	)
	with := func(more string, turns ...string) string {
		return `{"contents":[` + strings.Join(turns, ",") + `]` + more + `}`
	}
	part := func(p string) string { return with("", `{"role":"user","parts":[`+p+`]}`) }
	generation := func(g string) string { return with(`,"generationConfig":{`+g+`}`, hello) }
	judge(t, formats["gemini"].plain, formats["gemini"].headers, map[string]judged{
		"one text":                        {with("", hello), ""},
		"no JSON":                         {`[]`, "Invalid JSON payload received."},
		"no turns":                        {with(""), "contents is not specified"},
		"a member of another format":      {with(`,"model":"x"`, hello), `Unknown name \"model\": Cannot find field.`},
		"a role of OpenAI's":              {with("", `{"role":"assistant","parts":[{"text":"x"}]}`), "Please use a valid role"},
		"a turn without parts":            {with("", `{"role":"user","parts":[]}`), "must not be empty"},
		"a part without content":          {part(`{}`), "must have one initialized field"},
		"a part with two":                 {part(`{"text":"x","inlineData":{"mimeType":"image/png","data":"aGk="}}`), "must have one initialized field"},
		"the model speaks last":           {with("", hello, `{"role":"model","parts":[{"text":"x"}]}`), "end with a user role or a function response"},
		"calls and their results":         {with("", hello, signed, both), ""},
		"a call without a signature":      {with("", hello, strings.Replace(signed, `,"thoughtSignature":"skip_thought_signature_validator"`, "", 1), both), "missing a thought_signature"},
		"a signature that nobody made":    {with("", hello, strings.Replace(signed, "skip_thought_signature_validator", "c2ln", 1), both), "Corrupted thought signature."},
		"fewer results than calls":        {with("", hello, signed, `{"role":"user","parts":[`+reply+`]}`), "is equal to the number of function call parts"},
		"a result of no call":             {with("", hello, `{"role":"user","parts":[`+reply+`]}`), "immediately after a function call turn"},
		"a call that nobody asked for":    {with("", signed, both), "comes immediately after a user turn"},
		"a call that is not answered":     {with("", hello, signed, hello), "is equal to the number of function call parts"},
		"a result that is no object":      {with("", hello, signed, strings.ReplaceAll(both, `{"result":1}`, `"1"`)), "google.protobuf.Struct"},
		"a picture":                       {part(`{"inlineData":{"mimeType":"image/png","data":"aGk="}}`), ""},
		"a picture that is no base64":     {part(`{"inlineData":{"mimeType":"image/png","data":"!"}}`), "Base64 decoding failed"},
		"a picture without a type":        {part(`{"inlineData":{"data":"aGk="}}`), "Base64 decoding failed"},
		"a file by an address not safe":   {part(`{"fileData":{"fileUri":"http://a.test/b"}}`), "unsupported file uri"},
		"a function with a bad name":      {with(`,"tools":[{"functionDeclarations":[{"name":"1f"}]}]`, hello), "Invalid function name"},
		"a function twice":                {with(`,"tools":[{"functionDeclarations":[{"name":"f"},{"name":"f"}]}]`, hello), "Duplicate function declaration"},
		"a mode of OpenAI's":              {with(`,"toolConfig":{"functionCallingConfig":{"mode":"required"}}`, hello), "function_calling_config.mode"},
		"names in the mode AUTO":          {with(`,"tools":[{"functionDeclarations":[{"name":"f"}]}],"toolConfig":{"functionCallingConfig":{"mode":"AUTO","allowedFunctionNames":["f"]}}`, hello), "should only be set when function calling mode is ANY"},
		"a call demanded of no function":  {with(`,"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}`, hello), "without function_declarations"},
		"too many stops":                  {generation(`"stopSequences":["a","b","c","d","e","f"]`), "at most 5"},
		"a temperature too high":          {generation(`"temperature":2.5`), "out of the range"},
		"a schema without its type":       {generation(`"responseJsonSchema":{"type":"object"}`), "only supported for response mime type"},
		"a level and a budget":            {generation(`"thinkingConfig":{"thinkingLevel":"LOW","thinkingBudget":5}`), "only one of thinking budget and thinking level"},
		"an effort of OpenAI's":           {generation(`"thinkingConfig":{"thinkingLevel":"high"}`), "thinking_level"},
		"a schema in Google's older form": {generation(`"responseMimeType":"application/json","responseSchema":{"type":"OBJECT","properties":{"a":{"type":"INTEGER"}}}`), ""},
	})
	judge(t, strings.Replace(formats["gemini"].stream, "?alt=sse", "", 1), formats["gemini"].headers, map[string]judged{
		"a stream that is not one of events": {with("", hello), "alt=sse"},
	})
}

// Before Gemini 3 a call needed no signature, and JSON and functions did not go together.
func TestOlderGeminisAreJudgedAsSuch(t *testing.T) {
	const unsigned = `{"contents":[{"role":"user","parts":[{"text":"x"}]},{"role":"model","parts":[{"functionCall":{"name":"f"}}]},` +
		`{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}]MORE}`
	inBubble(t, func(t *testing.T, u upstream) {
		path := "/v1beta/models/gemini-2.5-flash:generateContent"
		status, _ := u.send(t, path, []byte(strings.Replace(unsigned, "MORE", "", 1)), formats["gemini"].headers)
		same(t, "unsigned", 200, status)
		more := `,"tools":[{"functionDeclarations":[{"name":"f"}]}],"generationConfig":{"responseMimeType":"application/json"}`
		status, answer := u.send(t, path, []byte(strings.Replace(unsigned, "MORE", more, 1)), formats["gemini"].headers)
		same(t, "JSON with functions", 400, status)
		same(t, answer, true, strings.Contains(answer, "is unsupported"))
	}, simulate.Named("gemini-2.5-flash", "sim-ok"))
}

func TestResponsesIsStrict(t *testing.T) {
	const (
		hello  = `{"role":"user","content":[{"type":"input_text","text":"x"}]}`
		called = `{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}`
		output = `{"type":"function_call_output","call_id":"a","output":"y"}`
	)
	with := func(more string, items ...string) string {
		return `{"model":"sim-responses-ok","input":[` + strings.Join(items, ",") + `]` + more + `}`
	}
	judge(t, "/v1/responses", map[string]string{"Authorization": "Bearer key"}, map[string]judged{
		"one text":                        {`{"model":"sim-responses-ok","input":"x"}`, ""},
		"one item":                        {with("", hello), ""},
		"no JSON":                         {`{`, "could not parse"},
		"no model":                        {`{"input":"x"}`, "Missing required parameter: 'model'"},
		"no input":                        {`{"model":"sim-responses-ok"}`, "Missing required parameter: 'input'"},
		"no items":                        {with(""), "empty array"},
		"an input that is a number":       {`{"model":"sim-responses-ok","input":1}`, "Invalid type for 'input'"},
		"the chat API's messages":         {`{"model":"sim-responses-ok","messages":[]}`, "Unknown parameter: 'messages'"},
		"the chat API's limit":            {with(`,"max_completion_tokens":1`, hello), "Unknown parameter: 'max_completion_tokens'"},
		"a limit below the least":         {with(`,"max_output_tokens":15`, hello), "integer below minimum value"},
		"a stop":                          {with(`,"stop":["x"]`, hello), "Unknown parameter: 'stop'"},
		"the chat API's part":             {with("", `{"role":"user","content":[{"type":"text","text":"x"}]}`), "Invalid value: 'text'"},
		"an assistant's input":            {with("", hello, `{"role":"assistant","content":[{"type":"input_text","text":"x"}]}`), "Invalid value: 'input_text'"},
		"an assistant's output":           {with("", hello, `{"role":"assistant","content":[{"type":"output_text","text":"x"}]}`, hello), ""},
		"a role of the chat API":          {with("", `{"role":"tool","content":"x"}`), "Invalid value: 'tool'"},
		"a picture":                       {with("", `{"role":"user","content":[{"type":"input_image","image_url":"`+pixel+`"}]}`), ""},
		"a picture as the chat API's":     {with("", `{"role":"user","content":[{"type":"input_image","image_url":{"url":"`+pixel+`"}}]}`), "Invalid type"},
		"a picture that is none":          {with("", `{"role":"user","content":[{"type":"input_image","image_url":"x"}]}`), "Expected a valid URL"},
		"a call and its output":           {with("", hello, called, output), ""},
		"a call without output":           {with("", hello, called), "No tool output found for function call a"},
		"an output without call":          {with("", hello, output), "No tool call found for function call output with call_id a"},
		"a call twice":                    {with("", hello, called, called, output), "Duplicate function call"},
		"a call without arguments":        {with("", hello, `{"type":"function_call","call_id":"a","name":"f"}`), "Missing required parameter"},
		"reasoning of somebody else's":    {with("", hello, `{"type":"reasoning","summary":[],"encrypted_content":"x"}`, hello), "could not be verified"},
		"reasoning without a summary":     {with("", hello, `{"type":"reasoning"}`, hello), "Missing required parameter"},
		"a tool as the chat API's":        {with(`,"tools":[{"type":"function","function":{"name":"f"}}]`, hello), "Missing required parameter: 'tools[0].name'"},
		"a tool that is not said strict":  {with(`,"tools":[{"type":"function","name":"f","parameters":{}}]`, hello), "Missing required parameter: 'tools[0].strict'"},
		"a tool":                          {with(`,"tools":[{"type":"function","name":"f","parameters":{},"strict":false}],"tool_choice":{"type":"function","name":"f"}`, hello), ""},
		"a choice as the chat API's":      {with(`,"tools":[{"type":"function","name":"f","parameters":{},"strict":false}],"tool_choice":{"type":"function","function":{"name":"f"}}`, hello), "Missing required parameter: 'tool_choice.name'"},
		"a choice of no tool":             {with(`,"tool_choice":{"type":"function","name":"g"}`, hello), "not found in 'tools'"},
		"a choice that is no word":        {with(`,"tool_choice":"any"`, hello), "Invalid value for 'tool_choice'"},
		"a schema":                        {with(`,"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}}}`, hello), ""},
		"a schema without a name":         {with(`,"text":{"format":{"type":"json_schema","schema":{"type":"object"}}}`, hello), "text.format.name"},
		"a schema as the chat API's":      {with(`,"response_format":{"type":"json_schema"}`, hello), "Unknown parameter: 'response_format'"},
		"a format that nobody knows":      {with(`,"text":{"format":{"type":"xml"}}`, hello), "text.format.type"},
		"an item that nobody knows":       {with("", hello, `{"type":"x"}`), "Invalid value: 'x'"},
		"an item that is not stored here": {with("", hello, `{"type":"item_reference"}`), "not persisted"},
	})
}

// Keys are looked at where each provider looks.
func TestKeysAreLookedAt(t *testing.T) {
	for _, c := range []struct {
		name, path string
		headers    map[string]string
		status     int
		why        string
	}{
		{"anthropic, none", "/v1/messages", map[string]string{"Authorization": "Bearer key"}, 401, "authentication_error"},
		{"anthropic, a bad one", "/v1/messages", map[string]string{"X-Api-Key": "bad-key"}, 401, "invalid x-api-key"},
		{"anthropic, no version", "/v1/messages", map[string]string{"X-Api-Key": "key"}, 400, "anthropic-version"},
		{"gemini, none", formats["gemini"].plain, map[string]string{"Authorization": "Bearer key"}, 403, "PERMISSION_DENIED"},
		{"gemini, a bad one", formats["gemini"].plain, map[string]string{"X-Goog-Api-Key": "bad-key"}, 400, "API_KEY_INVALID"},
		{"responses, none", "/v1/responses", nil, 401, "didn't provide an API key"},
		{"responses, a bad one", "/v1/responses", map[string]string{"Authorization": "Bearer bad-key"}, 401, "invalid_api_key"},
		{"chat, a bad one", "/v1/chat/completions", map[string]string{"Authorization": "Bearer bad-key"}, 401, "invalid_api_key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, u upstream) {
				status, answer := u.send(t, c.path, []byte(`{}`), c.headers)
				same(t, "status", c.status, status)
				same(t, answer, true, strings.Contains(answer, c.why))
			})
		})
	}
}
