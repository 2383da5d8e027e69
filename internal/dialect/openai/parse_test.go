package openai_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/chat"
	"spillway/internal/dialect/openai"
	"spillway/internal/fault"
)

// with is a valid request with more members.
func with(members string) string {
	return `{"model":"fast","messages":[{"role":"user","content":"x"}],` + members + `}`
}

// saying is a request of these messages.
func saying(messages string) string { return `{"model":"fast","messages":` + messages + `}` }

const oneTool = `"tools":[{"type":"function","function":{"name":"f"}}]`

// called is an assistant turn that calls tools c1 and c2.
const called = `{"role":"assistant","content":null,"tool_calls":[
	{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},
	{"id":"c2","type":"function","function":{"name":"g","arguments":""}}]}`

func TestARequestThatIsWrongIsRefusedByTheFieldThatIsWrong(t *testing.T) {
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	tests := map[string]struct{ body, param string }{
		"an empty body":                              {"", "body"},
		"a body of white space":                      {" \r\n\t", "body"},
		"words":                                      {"hello", "body"},
		"an array":                                   {"[]", "body"},
		"a string":                                   {`"x"`, "body"},
		"null":                                       {"null", "body"},
		"an object that is cut":                      {`{"model":"fast"`, "body"},
		"a value that is cut":                        {`{"model":"fa`, "body"},
		"a name without a value":                     {`{"model"}`, "body"},
		"a trailing comma":                           {`{"model":"fast",}`, "body"},
		"a comment":                                  {`{/* */"model":"fast"}`, "body"},
		"single quotes":                              {`{'model':'fast'}`, "body"},
		"a second object after the first":            {with(`"n":1`) + `{}`, "body"},
		"text after the object":                      {with(`"n":1`) + ` x`, "body"},
		"a NUL byte after the object":                {with(`"n":1`) + "\x00", "body"},
		"a NUL byte inside a string":                 {saying("[{\"role\":\"user\",\"content\":\"a\x00b\"}]"), "body"},
		"a line feed inside a string":                {saying("[{\"role\":\"user\",\"content\":\"a\nb\"}]"), "body"},
		"invalid UTF-8 inside a string":              {saying("[{\"role\":\"user\",\"content\":\"a\xffb\"}]"), "body"},
		"invalid UTF-8 inside a name":                {with("\"a\xc3\":1"), "body"},
		"half a surrogate pair":                      {saying(`[{"role":"user","content":"\ud800"}]`), "body"},
		"UTF-16":                                     {"\xff\xfe{\x00}\x00", "body"},
		"a byte order mark":                          {"\xef\xbb\xbf" + with(`"n":1`), "body"},
		"NaN":                                        {with(`"temperature":NaN`), "body"},
		"a number with a leading zero":               {with(`"n":01`), "body"},
		"200 nested arrays":                          {with(`"metadata":` + deep), "body"},
		"a million open arrays":                      {strings.Repeat("[", 1_000_000), "body"},
		"a million open objects":                     {strings.Repeat(`{"a":`, 1_000_000), "body"},
		"the same name twice":                        {`{"model":"a","messages":[],"model":"b"}`, "model"},
		"the same name twice, once escaped":          {`{"model":"a","mod\u0065l":"b"}`, "model"},
		"the empty name twice":                       {`{"":1,"":2}`, "body"},
		"the same name twice inside a message":       {saying(`[{"role":"user","content":"x","r\u006fle":"system"}]`), "messages[0].role"},
		"the same name twice inside a tool's schema": {with(`"tools":[{"type":"function","function":{"name":"f","parameters":{"a":1,"a":2}}}]`), "tools[0].function.parameters.a"},

		"no model":                            {`{"messages":[{"role":"user","content":"x"}]}`, "model"},
		"model null":                          {`{"model":null,"messages":[]}`, "model"},
		"model a number":                      {`{"model":4,"messages":[]}`, "model"},
		"model empty":                         {`{"model":"","messages":[]}`, "model"},
		"a model of 257 characters":           {`{"model":"` + strings.Repeat("m", 257) + `"}`, "model"},
		"models a string":                     {with(`"models":"fast"`), "models"},
		"models empty":                        {with(`"models":[]`), "models"},
		"nine models":                         {with(`"models":["1","2","3","4","5","6","7","8","9"]`), "models"},
		"a model in models that is a number":  {with(`"models":["a",2]`), "models[1]"},
		"an empty model in models":            {with(`"models":[""]`), "models[0]"},
		"a model of 257 characters in models": {with(`"models":["a","` + strings.Repeat("m", 257) + `"]`), "models[1]"},
		"fallback_models an object":           {with(`"fallback_models":{}`), "fallback_models"},
		"nine fallback models":                {with(`"fallback_models":["1","2","3","4","5","6","7","8","9"]`), "fallback_models"},
		"a fallback model that is null":       {with(`"fallback_models":[null]`), "fallback_models[0]"},
		"prefer a number":                     {with(`"prefer":1`), "prefer"},
		"no messages":                         {`{"model":"fast"}`, "messages"},
		"messages null":                       {saying(`null`), "messages"},
		"messages an object":                  {saying(`{}`), "messages"},
		"messages a string":                   {saying(`"hello"`), "messages"},
		"no message":                          {saying(`[]`), "messages"},
		"a message that is a string":          {saying(`["hello"]`), "messages[0]"},
		"a message that is a string which looks like it": {saying(`["{\"role\":\"user\",\"content\":\"x\"}"]`), "messages[0]"},
		"a message without a role":                       {saying(`[{"content":"x"}]`), "messages[0].role"},
		"a role that is a number":                        {saying(`[{"role":1,"content":"x"}]`), "messages[0].role"},
		"an unknown role in the second message":          {saying(`[{"role":"user","content":"x"},{"role":"root","content":"x"}]`), "messages[1].role"},
		"a role in capitals":                             {saying(`[{"role":"User","content":"x"}]`), "messages[0].role"},
		"a name that is a list":                          {saying(`[{"role":"user","name":[],"content":"x"}]`), "messages[0].name"},
		"a user message without content":                 {saying(`[{"role":"user"}]`), "messages[0].content"},
		"a user message whose content is null":           {saying(`[{"role":"user","content":null}]`), "messages[0].content"},
		"content that is a number":                       {saying(`[{"role":"user","content":1}]`), "messages[0].content"},
		"content that is an object":                      {saying(`[{"role":"user","content":{"type":"text","text":"x"}}]`), "messages[0].content"},
		"an empty list of parts":                         {saying(`[{"role":"user","content":[]}]`), "messages[0].content"},
		"a part that is a string":                        {saying(`[{"role":"user","content":["x"]}]`), "messages[0].content[0].type"},
		"a part of an unknown type":                      {saying(`[{"role":"user","content":[{"type":"video"}]}]`), "messages[0].content[0].type"},
		"a text part without text":                       {saying(`[{"role":"user","content":[{"type":"text"}]}]`), "messages[0].content[0].text"},
		"a text part whose text is a number":             {saying(`[{"role":"user","content":[{"type":"text","text":"x"},{"type":"text","text":2}]}]`), "messages[0].content[1].text"},
		"an image in a system message":                   {saying(`[{"role":"system","content":[{"type":"image_url","image_url":{"url":"u"}}]}]`), "messages[0].content[0].type"},
		"an image in a tool message":                     {saying(`[` + called + `,{"role":"tool","tool_call_id":"c1","content":[{"type":"image_url"}]}]`), "messages[1].content[0].type"},
		"an image without a URL":                         {saying(`[{"role":"user","content":[{"type":"image_url","image_url":"u"}]}]`), "messages[0].content[0].image_url.url"},
		"an image whose detail is an object":             {saying(`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u","detail":{}}}]}]`), "messages[0].content[0].image_url.detail"},
		"audio without data":                             {saying(`[{"role":"user","content":[{"type":"input_audio","input_audio":{"format":"wav"}}]}]`), "messages[0].content[0].input_audio.data"},
		"audio without a format":                         {saying(`[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"eA=="}}]}]`), "messages[0].content[0].input_audio.format"},
		"a file without anything":                        {saying(`[{"role":"user","content":[{"type":"file","file":{}}]}]`), "messages[0].content[0].file"},
		"a file whose data is a number":                  {saying(`[{"role":"user","content":[{"type":"file","file":{"file_data":7}}]}]`), "messages[0].content[0].file.file_data"},
		"a refusal part in a user message":               {saying(`[{"role":"user","content":[{"type":"refusal","refusal":"no"}]}]`), "messages[0].content[0].type"},
		"a refusal part without a refusal":               {saying(`[{"role":"assistant","content":[{"type":"refusal"}]}]`), "messages[0].content[0].refusal"},
		"a refusal that is a list":                       {saying(`[{"role":"assistant","refusal":[]}]`), "messages[0].refusal"},

		"tool_calls that are an object":               {saying(`[{"role":"assistant","tool_calls":{}}]`), "messages[0].tool_calls"},
		"a tool call that is a string":                {saying(`[{"role":"assistant","tool_calls":["f"]}]`), "messages[0].tool_calls[0].id"},
		"a tool call without an id":                   {saying(`[{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f"}}]}]`), "messages[0].tool_calls[0].id"},
		"a tool call with an empty id":                {saying(`[{"role":"assistant","tool_calls":[{"id":"","function":{"name":"f"}}]}]`), "messages[0].tool_calls[0].id"},
		"a tool call of an unknown type":              {saying(`[{"role":"assistant","tool_calls":[{"id":"c1","type":"shell","function":{"name":"f"}}]}]`), "messages[0].tool_calls[0].type"},
		"a tool call without a name":                  {saying(`[{"role":"assistant","tool_calls":[{"id":"c1","function":{}}]}]`), "messages[0].tool_calls[0].function.name"},
		"a tool call whose arguments are an object":   {saying(`[{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"f","arguments":{}}}]}]`), "messages[0].tool_calls[0].function.arguments"},
		"a signature that is a number":                {saying(`[{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"f"},"extra_content":{"google":{"thought_signature":1}}}]}]`), "messages[0].tool_calls[0].extra_content.google.thought_signature"},
		"a custom tool call without a name":           {saying(`[{"role":"assistant","tool_calls":[{"id":"c1","type":"custom","custom":{}}]}]`), "messages[0].tool_calls[0].custom.name"},
		"a custom tool call whose input is a list":    {saying(`[{"role":"assistant","tool_calls":[{"id":"c1","type":"custom","custom":{"name":"f","input":[]}}]}]`), "messages[0].tool_calls[0].custom.input"},
		"two tool calls of one id":                    {saying(`[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f"}},{"id":"c","function":{"name":"g"}}]}]`), "messages[0].tool_calls[1].id"},
		"a tool message without an id":                {saying(`[{"role":"tool","content":"x"}]`), "messages[0].tool_call_id"},
		"a tool message whose id is a number":         {saying(`[{"role":"tool","tool_call_id":1,"content":"x"}]`), "messages[0].tool_call_id"},
		"a tool message without content":              {saying(`[` + called + `,{"role":"tool","tool_call_id":"c1"}]`), "messages[1].content"},
		"a tool message before any call":              {saying(`[{"role":"user","content":"x"},{"role":"tool","tool_call_id":"c1","content":"x"}]`), "messages[1].tool_call_id"},
		"a tool message for a call nobody made":       {saying(`[` + called + `,{"role":"tool","tool_call_id":"c3","content":"x"}]`), "messages[1].tool_call_id"},
		"a call answered twice":                       {saying(`[` + called + `,{"role":"tool","tool_call_id":"c1","content":"x"},{"role":"tool","tool_call_id":"c1","content":"x"}]`), "messages[2].tool_call_id"},
		"a call answered after the user spoke":        {saying(`[` + called + `,{"role":"user","content":"x"},{"role":"tool","tool_call_id":"c1","content":"x"}]`), "messages[0].tool_calls[0]"},
		"the second of two calls unanswered":          {saying(`[{"role":"user","content":"x"},` + called + `,{"role":"tool","tool_call_id":"c1","content":"x"}]`), "messages[1].tool_calls[1]"},
		"calls that nobody answers":                   {saying(`[` + called + `]`), "messages[0].tool_calls[0]"},
		"a call of an older turn answered in a newer": {saying(`[` + called + `,{"role":"tool","tool_call_id":"c1","content":"x"},{"role":"tool","tool_call_id":"c2","content":"x"},{"role":"assistant","content":"y"},{"role":"tool","tool_call_id":"c1","content":"x"}]`), "messages[4].tool_call_id"},

		"tools an object":                            {with(`"tools":{}`), "tools"},
		"a tool that is a string":                    {with(`"tools":["f"]`), "tools[0].type"},
		"a tool of an unknown type":                  {with(`"tools":[{"type":"web_search"}]`), "tools[0].type"},
		"a tool without a name":                      {with(`"tools":[{"type":"function","function":{}}]`), "tools[0].function.name"},
		"a tool with an empty name":                  {with(`"tools":[{"type":"function","function":{"name":""}}]`), "tools[0].function.name"},
		"a tool whose name has a dot":                {with(`"tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"a.b"}}]`), "tools[1].function.name"},
		"a tool whose name has 65 letters":           {with(`"tools":[{"type":"function","function":{"name":"` + strings.Repeat("n", 65) + `"}}]`), "tools[0].function.name"},
		"a tool whose description is a list":         {with(`"tools":[{"type":"function","function":{"name":"f","description":[]}}]`), "tools[0].function.description"},
		"a tool whose parameters are a string":       {with(`"tools":[{"type":"function","function":{"name":"f","parameters":"{}"}}]`), "tools[0].function.parameters"},
		"a tool whose strict is a word":              {with(`"tools":[{"type":"function","function":{"name":"f","strict":"true"}}]`), "tools[0].function.strict"},
		"a custom tool without a name":               {with(`"tools":[{"type":"custom","custom":{}}]`), "tools[0].custom.name"},
		"a custom tool whose description is a list":  {with(`"tools":[{"type":"custom","custom":{"name":"f","description":[]}}]`), "tools[0].custom.description"},
		"tool_choice an unknown word":                {with(oneTool + `,"tool_choice":"any"`), "tool_choice"},
		"tool_choice a number":                       {with(oneTool + `,"tool_choice":1`), "tool_choice"},
		"tool_choice of an unknown type":             {with(oneTool + `,"tool_choice":{"type":"tool","tool":{"name":"f"}}`), "tool_choice"},
		"tool_choice whose type is a path":           {with(oneTool + `,"tool_choice":{"type":"@this.x","x":{"name":"f"}}`), "tool_choice"},
		"tool_choice without a name":                 {with(oneTool + `,"tool_choice":{"type":"function","function":{}}`), "tool_choice.function.name"},
		"tool_choice that names another tool":        {with(oneTool + `,"tool_choice":{"type":"function","function":{"name":"g"}}`), "tool_choice.function.name"},
		"tool_choice that names a tool without any":  {with(`"tool_choice":{"type":"function","function":{"name":"f"}}`), "tool_choice.function.name"},
		"tool_choice required without tools":         {with(`"tool_choice":"required"`), "tool_choice"},
		"tool_choice required with an empty list":    {with(`"tools":[],"tool_choice":"required"`), "tool_choice"},
		"allowed_tools without its object":           {with(oneTool + `,"tool_choice":{"type":"allowed_tools"}`), "tool_choice.allowed_tools"},
		"response_format a string":                   {with(`"response_format":"json"`), "response_format.type"},
		"response_format of an unknown type":         {with(`"response_format":{"type":"xml"}`), "response_format.type"},
		"a schema without a name":                    {with(`"response_format":{"type":"json_schema","json_schema":{"schema":{}}}`), "response_format.json_schema.name"},
		"a schema with a space in its name":          {with(`"response_format":{"type":"json_schema","json_schema":{"name":"a b","schema":{}}}`), "response_format.json_schema.name"},
		"a schema format without a schema":           {with(`"response_format":{"type":"json_schema","json_schema":{"name":"s"}}`), "response_format.json_schema.schema"},
		"a schema that is a list":                    {with(`"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":[]}}`), "response_format.json_schema.schema"},
		"a schema whose strict is a number":          {with(`"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{},"strict":1}}`), "response_format.json_schema.strict"},
		"max_tokens 0":                               {with(`"max_tokens":0`), "max_tokens"},
		"max_tokens below 0":                         {with(`"max_tokens":-1`), "max_tokens"},
		"max_tokens with a fraction":                 {with(`"max_tokens":1.5`), "max_tokens"},
		"max_tokens a string":                        {with(`"max_tokens":"100"`), "max_tokens"},
		"max_tokens beyond any integer":              {with(`"max_tokens":99999999999999999999`), "max_tokens"},
		"max_completion_tokens 0":                    {with(`"max_completion_tokens":0`), "max_completion_tokens"},
		"max_tokens 0 beside a good limit":           {with(`"max_completion_tokens":5,"max_tokens":0`), "max_tokens"},
		"n 0":                                        {with(`"n":0`), "n"},
		"n 129":                                      {with(`"n":129`), "n"},
		"five stop sequences":                        {with(`"stop":["1","2","3","4","5"]`), "stop"},
		"an empty stop sequence":                     {with(`"stop":[""]`), "stop"},
		"stop an empty string":                       {with(`"stop":""`), "stop"},
		"stop a number":                              {with(`"stop":1`), "stop"},
		"stop an object":                             {with(`"stop":{}`), "stop"},
		"temperature above 2":                        {with(`"temperature":2.01`), "temperature"},
		"temperature below 0":                        {with(`"temperature":-0.1`), "temperature"},
		"temperature a string":                       {with(`"temperature":"hot"`), "temperature"},
		"top_p above 1":                              {with(`"top_p":1.1`), "top_p"},
		"frequency_penalty below -2":                 {with(`"frequency_penalty":-2.5`), "frequency_penalty"},
		"presence_penalty true":                      {with(`"presence_penalty":true`), "presence_penalty"},
		"seed with a fraction":                       {with(`"seed":0.5`), "seed"},
		"logprobs a number":                          {with(`"logprobs":1`), "logprobs"},
		"top_logprobs 21":                            {with(`"logprobs":true,"top_logprobs":21`), "top_logprobs"},
		"top_logprobs without logprobs":              {with(`"top_logprobs":2`), "top_logprobs"},
		"logit_bias a list":                          {with(`"logit_bias":[]`), "logit_bias"},
		"reasoning_effort a number":                  {with(`"reasoning_effort":3`), "reasoning_effort"},
		"stream a word":                              {with(`"stream":"true"`), "stream"},
		"store a number":                             {with(`"store":1`), "store"},
		"parallel_tool_calls a word":                 {with(`"parallel_tool_calls":"yes"`), "parallel_tool_calls"},
		"stream_options true":                        {with(`"stream":true,"stream_options":true`), "stream_options"},
		"stream_options without stream":              {with(`"stream_options":{"include_usage":true}`), "stream_options"},
		"include_usage a word":                       {with(`"stream":true,"stream_options":{"include_usage":"yes"}`), "stream_options.include_usage"},
		"user a number":                              {with(`"user":1`), "user"},
		"service_tier an object":                     {with(`"service_tier":{}`), "service_tier"},
		"verbosity a list":                           {with(`"verbosity":[]`), "verbosity"},
		"safety_identifier true":                     {with(`"safety_identifier":true`), "safety_identifier"},
		"prompt_cache_key a number":                  {with(`"prompt_cache_key":5`), "prompt_cache_key"},
		"metadata a string":                          {with(`"metadata":"x"`), "metadata"},
		"a duplicate name as long as a whole prompt": {`{"` + strings.Repeat("n", 9000) + `":1,"` + strings.Repeat("n", 9000) + `":1}`, strings.Repeat("n", 64) + "…"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			req, err := openai.Chat{}.Parse([]byte(tt.body))
			require.NotNil(t, err, "accepted as %+v", req)
			assert.Nil(t, req)
			assert.Equal(t, fault.ValidationFailed, err.Code)
			assert.Equal(t, tt.param, err.Param, err.Message)
			assert.Equal(t, 400, err.HTTPStatus())
			assert.False(t, err.Retryable)
			assert.Less(t, len(openai.Chat{}.AppendError(nil, err, "req_1")), 2048)
		})
	}
}

// A message says which field is wrong, so that a person who only sees the message can mend it.
func TestAMessageNamesItsField(t *testing.T) {
	for _, body := range []string{with(`"n":0`), with(`"stop":[""]`), saying(`[{"role":"root"}]`), `{"model":"a","model":"b"}`} {
		_, err := openai.Chat{}.Parse([]byte(body))
		require.NotNil(t, err)
		assert.Contains(t, err.Message, err.Param)
	}
}

func TestAnUnansweredCallIsNamed(t *testing.T) {
	_, err := openai.Chat{}.Parse([]byte(saying(`[` + called + `,{"role":"tool","tool_call_id":"c1","content":"x"}]`)))
	require.NotNil(t, err)
	assert.Contains(t, err.Message, `"c2"`)
}

func TestAValidRequestIsReadInto(t *testing.T) {
	user := []chat.Message{{Role: chat.User, Parts: []chat.Part{{Kind: chat.TextPart, Text: "x"}}}}
	tests := map[string]struct {
		body string
		want chat.Request // without Members and Size
	}{
		"the least": {saying(`[{"role":"user","content":"x"}]`), chat.Request{Messages: user}},
		"white space around the object": {" \n" + saying(`[{"role":"user","content":"x"}]`) + "\r\n ",
			chat.Request{Messages: user}},
		"members that are null count as absent": {with(`"temperature":null,"stop":null,"tools":null,"tool_choice":null,"response_format":null,
			"max_tokens":null,"n":null,"stream":null,"stream_options":null,"models":null,"fallback_models":null,"prefer":null,"logprobs":null,
			"metadata":null,"user":null,"logit_bias":null,"reasoning_effort":null,"seed":null`), chat.Request{Messages: user}},
		"every role, contents of every kind": {saying(`[
			{"role":"system","content":"s"},
			{"role":"developer","content":[{"type":"text","text":"d"}],"name":"boss"},
			{"role":"user","content":[{"type":"text","text":"t"},
				{"type":"image_url","image_url":{"url":"https://a/b.png","detail":"low"}},
				{"type":"input_audio","input_audio":{"data":"eA==","format":"wav"}},
				{"type":"file","file":{"file_data":"data:x","filename":"f.pdf"}},
				{"type":"file","file":{"file_id":"file-1"}}]},
			{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"refusal","refusal":"no"}],"refusal":"never"},
			{"role":"assistant"},
			{"role":"assistant","content":[]},
			{"role":"function","name":"old","content":null}]`), chat.Request{Messages: []chat.Message{
			{Role: chat.System, Parts: []chat.Part{{Kind: chat.TextPart, Text: "s"}}},
			{Role: chat.Developer, Name: "boss", Parts: []chat.Part{{Kind: chat.TextPart, Text: "d"}}},
			{Role: chat.User, Parts: []chat.Part{{Kind: chat.TextPart, Text: "t"},
				{Kind: chat.ImagePart, URL: "https://a/b.png", Detail: "low"},
				{Kind: chat.AudioPart, Data: "eA==", Encoding: "wav"},
				{Kind: chat.FilePart, Data: "data:x", FileName: "f.pdf"},
				{Kind: chat.FilePart, FileID: "file-1"}}},
			{Role: chat.Assistant, Refusal: "never", Parts: []chat.Part{{Kind: chat.TextPart, Text: "a"}, {Kind: chat.RefusalPart, Text: "no"}}},
			{Role: chat.Assistant},
			{Role: chat.Assistant, Parts: []chat.Part{}},
			{Role: "function", Name: "old"}}}},
		"a call that comes back with its signature": {saying(`[{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"f"},"extra_content":{"google":{"thought_signature":"c2ln"}}},
			{"id":"c2","function":{"name":"f"},"extra_content":null}]},{"role":"tool","tool_call_id":"c1","content":"x"},{"role":"tool","tool_call_id":"c2","content":"x"}]`),
			chat.Request{Messages: []chat.Message{
				{Role: chat.Assistant, Calls: []chat.ToolCall{{ID: "c1", Name: "f", Arguments: "{}", Signature: "c2ln"}, {ID: "c2", Name: "f", Arguments: "{}"}}},
				{Role: chat.ToolRole, CallID: "c1", Parts: []chat.Part{{Kind: chat.TextPart, Text: "x"}}},
				{Role: chat.ToolRole, CallID: "c2", Parts: []chat.Part{{Kind: chat.TextPart, Text: "x"}}}}}},
		"escaped names mean the same": {`{"mod\u0065l":"fast","m\u0065ssages":[{"r\u006fle":"user","c\u006fntent":"x"}]}`, chat.Request{Messages: user}},
		"text with every kind of character": {saying(`[{"role":"user","content":"é漢🌍\u0000\u2028\ud83c\udf0d\"\\"}]`), chat.Request{
			Messages: []chat.Message{{Role: chat.User, Parts: []chat.Part{{Kind: chat.TextPart, Text: "é漢🌍\x00\u2028🌍\"\\"}}}}}},
		"tool calls with their answers in any order, and a turn after them": {saying(`[` + called + `,
			{"role":"tool","tool_call_id":"c2","content":"two"},{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"one"}]},
			{"role":"user","content":"x"}]`), chat.Request{Messages: []chat.Message{
			{Role: chat.Assistant, Calls: []chat.ToolCall{{ID: "c1", Name: "f", Arguments: `{"x":1}`}, {ID: "c2", Name: "g", Arguments: "{}"}}},
			{Role: chat.ToolRole, CallID: "c2", Parts: []chat.Part{{Kind: chat.TextPart, Text: "two"}}},
			{Role: chat.ToolRole, CallID: "c1", Parts: []chat.Part{{Kind: chat.TextPart, Text: "one"}}},
			user[0]}}},
		"a custom tool call": {saying(`[{"role":"assistant","tool_calls":[{"id":"c1","type":"custom","custom":{"name":"sh","input":"ls"}}]},
			{"role":"tool","tool_call_id":"c1","content":""}]`), chat.Request{Messages: []chat.Message{
			{Role: chat.Assistant, Calls: []chat.ToolCall{{ID: "c1", Name: "sh", Custom: true, Arguments: "ls"}}},
			{Role: chat.ToolRole, CallID: "c1", Parts: []chat.Part{{Kind: chat.TextPart}}}}}},
		"an id used again in a later turn": {saying(`[
			{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"c","content":"1"},
			{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"c","content":"2"}]`), chat.Request{Messages: []chat.Message{
			{Role: chat.Assistant, Calls: []chat.ToolCall{{ID: "c", Name: "f", Arguments: "{}"}}},
			{Role: chat.ToolRole, CallID: "c", Parts: []chat.Part{{Kind: chat.TextPart, Text: "1"}}},
			{Role: chat.Assistant, Calls: []chat.ToolCall{{ID: "c", Name: "f", Arguments: "{}"}}},
			{Role: chat.ToolRole, CallID: "c", Parts: []chat.Part{{Kind: chat.TextPart, Text: "2"}}}}}},
		"tools": {with(`"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"},"strict":true}},
			{"type":"function","function":{"name":"g","parameters":null}},{"type":"custom","custom":{"name":"h","description":"free"}}],"parallel_tool_calls":false`),
			chat.Request{Messages: user, Tools: []chat.Tool{{Name: "f", Description: "d", Parameters: []byte(`{"type":"object"}`), Strict: true}, {Name: "g"},
				{Custom: true, Name: "h", Description: "free"}}, OneCall: true}},
		"no tools and tool_choice none": {with(`"tools":[],"tool_choice":"none"`), chat.Request{Messages: user, Choice: chat.ToolChoice{Mode: chat.ChoiceNone}}},
		"tool_choice auto":              {with(`"tool_choice":"auto"`), chat.Request{Messages: user, Choice: chat.ToolChoice{Mode: chat.ChoiceAuto}}},
		"tool_choice required": {with(oneTool + `,"tool_choice":"required"`),
			chat.Request{Messages: user, Tools: []chat.Tool{{Name: "f"}}, Choice: chat.ToolChoice{Mode: chat.ChoiceRequired}}},
		"tool_choice written before the tools that it names": {with(`"tool_choice":{"type":"function","function":{"name":"f"}},` + oneTool),
			chat.Request{Messages: user, Tools: []chat.Tool{{Name: "f"}}, Choice: chat.ToolChoice{Mode: chat.ChoiceNamed, Name: "f"}}},
		"tool_choice of some tools": {with(oneTool + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"f"}}]}}`),
			chat.Request{Messages: user, Tools: []chat.Tool{{Name: "f"}}, Choice: chat.ToolChoice{Mode: chat.ChoiceAllowed, Allowed: []string{"f"}, Required: true}}},
		"format text":   {with(`"response_format":{"type":"text"}`), chat.Request{Messages: user}},
		"format object": {with(`"response_format":{"type":"json_object"}`), chat.Request{Messages: user, Format: &chat.Format{Kind: chat.FormatObject}}},
		"format schema": {with(`"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object"},"strict":true}}`),
			chat.Request{Messages: user, Format: &chat.Format{Kind: chat.FormatSchema, Name: "s", Schema: []byte(`{"type":"object"}`), Strict: true}}},
		"max_tokens":            {with(`"max_tokens":100`), chat.Request{Messages: user, MaxTokens: 100}},
		"max_completion_tokens": {with(`"max_completion_tokens":100`), chat.Request{Messages: user, MaxTokens: 100}},
		"both limits: max_completion_tokens wins": {with(`"max_tokens":50,"max_completion_tokens":100`),
			chat.Request{Messages: user, MaxTokens: 100}},
		"everything else": {with(`"n":3,"stop":["a","b"],"temperature":0,"top_p":1,"seed":-5,"frequency_penalty":-2,"presence_penalty":2,"logprobs":true,
			"top_logprobs":20,"logit_bias":{"5":-100},"reasoning_effort":"high","stream":true,"stream_options":{"include_usage":true},"store":true,"user":"u",
			"metadata":{"a":"b"},"service_tier":"flex","verbosity":"low","safety_identifier":"s","prompt_cache_key":"k","unknown_member":[{}]`),
			chat.Request{Messages: user, Choices: 3, LogProbs: true, Effort: "high", Stream: true, IncludeUsage: true, Store: true,
				TopLogProbs: 20, Temperature: new(0.0), TopP: new(1.0), FrequencyPenalty: new(-2.0), PresencePenalty: new(2.0), Seed: new(int64(-5)),
				Stop: []string{"a", "b"}, User: "s"}},
		"an answer as sound": {with(`"modalities":["text","audio"]`), chat.Request{Messages: user, Spoken: true}},
		"an answer as text":  {with(`"modalities":["text"]`), chat.Request{Messages: user}},
		"one stop sequence":  {with(`"stop":"END"`), chat.Request{Messages: user, Stop: []string{"END"}}},
		"models and fallbacks, without duplicates": {with(`"models":["a","b","a"],"fallback_models":["b","c"],"prefer":"p"`),
			chat.Request{Messages: user, Models: []chat.RequestedModel{"a", "b", "c"}, Prefer: "p"}},
		"fallbacks after the model": {with(`"fallback_models":["slow","fast"]`), chat.Request{Messages: user, Models: []chat.RequestedModel{"fast", "slow"}}},
		"models without a model":    {`{"models":["a"],"messages":[{"role":"user","content":"x"}]}`, chat.Request{Messages: user, Models: []chat.RequestedModel{"a"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			body := []byte(tt.body)
			got, err := openai.Chat{}.Parse(body)
			require.Nil(t, err)
			assert.Equal(t, tt.body, string(body), "the body was changed")
			assert.Equal(t, len(tt.body), got.Size)
			want := tt.want
			want.Dialect, want.Choices = chat.OpenAIChat, max(want.Choices, 1)
			if want.Models == nil {
				want.Models = []chat.RequestedModel{"fast"}
			}
			want.Members, want.Size = got.Members, got.Size
			assert.Equal(t, &want, got)
		})
	}
}

func TestMembersAreTheClientsOwnWithoutThoseOfTheGateway(t *testing.T) {
	req, err := openai.Chat{}.Parse([]byte(`{"mod\u0065ls":["a"],"x":{"y": [1, 2]},"fallback_models":["b"],"temperature":0.70,"pref\u0065r":"c",
		"messages":[{"role":"user","content":"x"}],"model":"m","é\n":null}`))
	require.Nil(t, err)
	var got []string
	for _, m := range req.Members {
		got = append(got, fmt.Sprintf("%s=%s", m.Name, m.Value))
	}
	assert.Equal(t, []string{`x={"y": [1, 2]}`, `temperature=0.70`, `messages=[{"role":"user","content":"x"}]`, `model="m"`, "é\n=null"}, got)
}

// rebuilt is the JSON object that the members of a request make.
func rebuilt(t *testing.T, req *chat.Request) []byte {
	t.Helper()
	b := []byte{'{'}
	for i, m := range req.Members {
		if i > 0 {
			b = append(b, ',')
		}
		name, err := json.Marshal(m.Name)
		require.NoError(t, err)
		b = append(append(append(b, name...), ':'), m.Value...)
	}
	return append(b, '}')
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "{", "[]", with(`"n":1`), with(oneTool + `,"tool_choice":{"type":"function","function":{"name":"f"}}`),
		saying(`[` + called + `,{"role":"tool","tool_call_id":"c1","content":"x"},{"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"y"}]}]`),
		with(`"models":["a"],"fallback_models":["b"],"stop":["x"],"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{}}}`),
		with(`"stream":true,"stream_options":{"include_usage":true},"max_tokens":5,"logprobs":true,"top_logprobs":2`),
		`{"model":"a","mod\u0065l":"b"}`, "{\"a\":\"\xff\"}", saying(`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]}]`)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		req, refusal := openai.Chat{}.Parse(body)
		require.Equal(t, before, body, "the body was changed")
		if refusal != nil {
			require.Nil(t, req)
			require.NotEmpty(t, refusal.Param)
			require.Equal(t, fault.ValidationFailed, refusal.Code)
			require.True(t, json.Valid(openai.Chat{}.AppendError(nil, refusal, "id")))
			return
		}
		require.True(t, json.Valid(body))
		require.NotEmpty(t, req.Models)
		require.LessOrEqual(t, len(req.Models), 16)
		for _, m := range req.Members {
			require.NotContains(t, []string{"models", "fallback_models", "prefer"}, m.Name)
		}
		again, refusal := openai.Chat{}.Parse(before)
		require.Nil(t, refusal)
		require.Equal(t, req, again, "two readings differ")
		if _, named := memberOf(req, "model"); named {
			// What goes upstream is read in the same way as what came in, but for the members that the gateway keeps.
			upstream, refusal := openai.Chat{}.Parse(rebuilt(t, req))
			if refusal != nil {
				require.Equal(t, "model", refusal.Param, "a model that `models` replaced is not read")
				return
			}
			upstream.Models, upstream.Prefer, upstream.Size = req.Models, req.Prefer, req.Size
			require.Equal(t, req, upstream)
		}
	})
}

func memberOf(req *chat.Request, name string) ([]byte, bool) {
	for _, m := range req.Members {
		if m.Name == name {
			return m.Value, true
		}
	}
	return nil, false
}
