package openai_test

import (
	"net/http"
	"regexp"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	dialect "spillway/internal/dialect/openai"
	"spillway/internal/provider/openai"
	"spillway/internal/simulate/conversation"
)

// sent is the body that goes upstream for a request over a channel, and the parameters that were left out.
func sent(t *testing.T, body string, s conversation.Channel) (upstream string, dropped []string) {
	t.Helper()
	far := &conversation.Upstream{Reply: conversation.Reply{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: `{"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"}]}`}}
	got := conversation.Follow(t, adapter.New(conversation.Serve(t, far)), adapter.Call(conversation.Parse(t, body), s))
	require.Nil(t, got.Failure)
	require.Len(t, far.Calls, 1)
	return string(far.Body), got.Info.Dropped
}

const (
	question = `"messages":[{"role":"user","content":"x"}]`
	tool     = `"tools":[{"type":"function","function":{"name":"f"}}]`
)

func TestAVendorGetsParametersInItsOwnWords(t *testing.T) {
	tests := map[string]struct {
		vendor  string
		members string // beside the question
		want    string // beside model and question
		dropped []string
	}{
		"a server that nobody knows gets them as written": {"generic",
			`"temperature":0.70,"seed":1,"logit_bias":{},"reasoning_effort":"max","store":false,"user":"u","their_own":{"a":[1]}`,
			`"temperature":0.70,"seed":1,"logit_bias":{},"reasoning_effort":"max","store":false,"user":"u","their_own":{"a":[1]}`, nil},
		"so does Together": {"together", `"seed":1,"max_completion_tokens":5,"top_k":40`, `"seed":1,"top_k":40,"max_completion_tokens":5`, nil},
		"what nobody knows goes to strict servers too, which may know it": {"mistral", `"safe_prompt":true,"prompt_mode":"reasoning","their_own":1`,
			`"safe_prompt":true,"prompt_mode":"reasoning","their_own":1`, nil},

		"Mistral calls the limit and the seed otherwise":       {"mistral", `"max_completion_tokens":5,"seed":7`, `"max_tokens":5,"random_seed":7`, nil},
		"a client that speaks Mistral's dialect has its way":   {"mistral", `"random_seed":8,"seed":7`, `"random_seed":8`, []string{"seed"}},
		"Mistral's word for a tool that must be called is any": {"mistral", tool + `,"tool_choice":"required"`, tool + `,"tool_choice":"any"`, nil},
		"other choices have Mistral's words already": {"mistral", tool + `,"tool_choice":{"type":"function","function":{"name":"f"}}`,
			tool + `,"tool_choice":{"type":"function","function":{"name":"f"}}`, nil},
		"Mistral refuses what it does not know, which is left out and named": {"mistral",
			`"user":"u","store":false,"verbosity":"low","safety_identifier":"s","metadata":{"a":"b"},"prediction":{"type":"content","content":"x"}`,
			`"metadata":{"a":"b"},"prediction":{"type":"content","content":"x"}`, []string{"user", "store", "verbosity", "safety_identifier"}},
		"what says nothing is left out and not named": {"mistral",
			`"user":null,"logprobs":false,"top_logprobs":0,"logit_bias":{},"modalities":["text"],"audio":null`, ``, nil},
		"what says something is not left out, whatever comes of it": {"mistral", `"logprobs":true,"top_logprobs":2,"logit_bias":{"5":1}`,
			`"logprobs":true,"top_logprobs":2,"logit_bias":{"5":1}`, nil},
		"Mistral has other tiers":             {"mistral", `"service_tier":"default"`, `"service_tier":"standard_only"`, nil},
		"a tier that Mistral has no word for": {"mistral", `"service_tier":"flex"`, ``, []string{"service_tier"}},
		"a tier of Mistral's own":             {"mistral", `"service_tier":"standard_only"`, `"service_tier":"standard_only"`, nil},
		"Mistral's greatest effort":           {"mistral", `"reasoning_effort":"max"`, `"reasoning_effort":"xhigh"`, nil},

		"Groq knows three efforts":         {"groq", `"reasoning_effort":"minimal"`, `"reasoning_effort":"low"`, nil},
		"and the greatest is high":         {"groq", `"reasoning_effort":"xhigh"`, `"reasoning_effort":"high"`, nil},
		"Groq's own words go through":      {"groq", `"reasoning_format":"parsed","reasoning_effort":"default"`, `"reasoning_format":"parsed","reasoning_effort":"default"`, nil},
		"Groq makes one choice":            {"groq", `"n":1,"logprobs":false,"logit_bias":{}`, ``, nil},
		"Groq takes both limits":           {"groq", `"max_tokens":5`, `"max_tokens":5`, nil},
		"Groq has other tiers":             {"groq", `"service_tier":"flex"`, `"service_tier":"flex"`, nil},
		"and one that is called otherwise": {"groq", `"service_tier":"default"`, `"service_tier":"on_demand"`, nil},
		"Groq refuses what is kept":        {"groq", `"store":true,"metadata":{"a":"b"},"prompt_cache_key":"k"`, ``, []string{"store", "metadata", "prompt_cache_key"}},

		"DeepSeek is told to think":          {"deepseek", `"reasoning_effort":"max","max_completion_tokens":5`, `"reasoning_effort":"max","thinking":{"type":"enabled"},"max_tokens":5`, nil},
		"DeepSeek is told not to think":      {"deepseek", `"reasoning_effort":"none"`, `"thinking":{"type":"disabled"}`, nil},
		"DeepSeek is told by its own client": {"deepseek", `"thinking":{"type":"disabled"},"reasoning_effort":"high"`, `"thinking":{"type":"disabled"},"reasoning_effort":"high"`, nil},
		"DeepSeek is not told":               {"deepseek", `"reasoning_effort":null`, ``, nil},

		"xAI has one name for the limit":   {"xai", `"max_tokens":5`, `"max_completion_tokens":5`, nil},
		"xAI knows five efforts":           {"xai", `"reasoning_effort":"max"`, `"reasoning_effort":"xhigh"`, nil},
		"xAI refuses a penalty of nothing": {"xai", `"frequency_penalty":0,"presence_penalty":0.0,"stop":[]`, ``, nil},
		"a penalty goes to xAI":            {"xai", `"frequency_penalty":0.5,"stop":["a"]`, `"frequency_penalty":0.5,"stop":["a"]`, nil},

		"OpenRouter has effort inside reasoning": {"openrouter", `"reasoning_effort":"high"`, `"reasoning":{"effort":"high"}`, nil},
		"OpenRouter's own client has its way":    {"openrouter", `"reasoning":{"max_tokens":2000},"reasoning_effort":"high"`, `"reasoning":{"max_tokens":2000}`, []string{"reasoning_effort"}},
		"OpenRouter's other members go through":  {"openrouter", `"provider":{"order":["a"]},"plugins":[],"models":["fast"]`, `"provider":{"order":["a"]},"plugins":[]`, nil},

		"Gemini's endpoint refuses what it does not know": {"gemini", `"store":false,"prompt_cache_key":"k","seed":1`, `"seed":1`, []string{"store", "prompt_cache_key"}},
		"Gemini's endpoint knows efforts up to high":      {"gemini", `"reasoning_effort":"xhigh","extra_body":{"google":{"thinking_config":{}}}`, `"reasoning_effort":"high","extra_body":{"google":{"thinking_config":{}}}`, nil},

		"Azure takes what OpenAI takes, and its own": {"azure", `"max_completion_tokens":5,"store":true,"data_sources":[{"type":"azure_search"}]`,
			`"store":true,"data_sources":[{"type":"azure_search"}],"max_completion_tokens":5`, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			model := `"model":"fast",`
			if gjson.Get("{"+tt.members+"}", "models").Exists() {
				model = ""
			}
			got, dropped := sent(t, `{`+model+list(question, tt.members)+`}`, conversation.Channel{Vendor: tt.vendor, Plain: true})
			assert.JSONEq(t, `{"model":"up-1",`+list(question, tt.want)+`}`, got)
			assert.Equal(t, tt.dropped, dropped)
		})
	}
}

// list joins members.
func list(a, b string) string {
	if b == "" {
		return a
	}
	return a + "," + b
}

func TestAChannelMayNameTheLimitOtherwiseThanItsVendor(t *testing.T) {
	got, dropped := sent(t, `{"model":"fast","max_tokens":5,"seed":1,`+question+`}`,
		conversation.Channel{Vendor: "mistral", Plain: true, OutputField: "max_completion_tokens", Drops: []string{"seed"}})
	assert.JSONEq(t, `{"model":"up-1","max_completion_tokens":5,`+question+`}`, got)
	assert.Equal(t, []string{"seed"}, dropped)
}

func TestStreamOptionsAreWhatAVendorTakes(t *testing.T) {
	const usage, unpadded = `{"include_usage":true}`, `{"include_usage":true,"include_obfuscation":false}`
	tests := map[string]struct{ vendor, given, want string }{
		"OpenAI pads unless it is asked not to":          {"openai", ``, unpadded},
		"nobody wants the padding":                       {"openai", `,"stream_options":{"include_obfuscation":true}`, unpadded},
		"other options go along":                         {"openai", `,"stream_options":{"include_usage":false,"of_tomorrow":[1]}`, `{"include_usage":true,"include_obfuscation":false,"of_tomorrow":[1]}`},
		"Azure's older versions do not know the padding": {"azure", ``, usage},
		"Azure gets what the client wrote":               {"azure", `,"stream_options":{"include_obfuscation":false}`, unpadded},
		"a server that nobody knows":                     {"generic", `,"stream_options":null`, usage},
		"continuous usage of vLLM":                       {"generic", `,"stream_options":{"continuous_usage_stats":true}`, `{"include_usage":true,"continuous_usage_stats":true}`},
		"Mistral refuses them":                           {"mistral", `,"stream_options":{"include_usage":true}`, ``},
		"Groq tells usage unasked":                       {"groq", `,"stream_options":{"include_usage":true}`, ``},
		"DeepSeek":                                       {"deepseek", ``, usage},
		"xAI":                                            {"xai", ``, usage},
		"OpenRouter":                                     {"openrouter", ``, usage},
		"Gemini":                                         {"gemini", ``, usage},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, _ := sent(t, `{"model":"fast","stream":true,`+question+tt.given+`}`, conversation.Channel{Vendor: tt.vendor})
			assert.True(t, gjson.Get(got, "stream").Bool())
			assert.Equal(t, tt.want, gjson.Get(got, "stream_options").Raw)
		})
	}
}

func TestAVendorGetsMessagesThatItTakes(t *testing.T) {
	const answered = `{"role":"assistant","content":"a","refusal":null,"annotations":[],"audio":null,"reasoning_content":"t"}`
	const called = `{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"D681PevKs","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	const results = `{"role":"tool","tool_call_id":"call_1","content":"r"},{"role":"tool","tool_call_id":"D681PevKs","content":"r"}`
	const user = `{"role":"user","content":"x"}`
	named := []string{"messages.name"}
	tests := map[string]struct {
		vendor, messages, want string
		dropped                []string
	}{
		"OpenAI gets them as written, but for reasoning that no model of its own showed": {"openai", `{"role":"developer","content":"d","name":"n"},` + answered + `,` + user,
			`{"role":"developer","content":"d","name":"n"},` + `{"role":"assistant","content":"a","refusal":null,"annotations":[],"audio":null}` + `,` + user, nil},
		"a server that nobody knows gets them as written": {"generic", `{"role":"developer","content":"d","name":"n"},` + answered + `,` + user, `{"role":"developer","content":"d","name":"n"},` + answered + `,` + user, nil},

		"Mistral takes no echo of an answer": {"mistral", user + `,` + answered + `,` + user, user + `,{"role":"assistant","content":"a"},` + user, nil},
		"Mistral takes neither name nor developer": {"mistral", `{"role":"developer","content":"d"},{"role":"user","content":"x","name":"n"},{"role":"user","content":"x","name":"m"}`,
			`{"role":"system","content":"d"},` + user + `,` + user, named},
		"Mistral takes short ids, and each result keeps its call": {"mistral", user + `,` + called + `,` + results,
			user + `,{"role":"assistant","content":null,"tool_calls":[{"id":"Bu09e4fdz","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"D681PevKs","type":"function","function":{"name":"f","arguments":"{}"}}]}` +
				`,{"role":"tool","tool_call_id":"Bu09e4fdz","content":"r"},{"role":"tool","tool_call_id":"D681PevKs","content":"r"}`, nil},
		"an answer that Mistral is to go on with is marked": {"mistral", user + `,{"role":"assistant","content":"a"}`, user + `,{"role":"assistant","content":"a","prefix":true}`, nil},
		"one that is marked stays as it is":                 {"mistral", user + `,{"role":"assistant","content":"a","prefix":false}`, user + `,{"role":"assistant","content":"a","prefix":false}`, nil},
		"an answer in between is not marked":                {"mistral", user + `,{"role":"assistant","content":"a"},` + user, user + `,{"role":"assistant","content":"a"},` + user, nil},

		"Groq takes no name, and no echo":         {"groq", `{"role":"developer","content":"d","name":"n"},` + answered + `,` + user, `{"role":"developer","content":"d"},{"role":"assistant","content":"a"},` + user, named},
		"a refusal is what Groq's model has said": {"groq", user + `,{"role":"assistant","content":null,"refusal":"no"},` + user, user + `,{"role":"assistant","content":"no"},` + user, nil},
		"Groq takes any id":                       {"groq", user + `,` + called + `,` + results, user + `,` + called + `,` + results, nil},

		"DeepSeek wants its reasoning back":                 {"deepseek", user + `,` + answered + `,` + user, user + `,` + answered + `,` + user, nil},
		"DeepSeek gets empty reasoning where none is known": {"deepseek", user + `,{"role":"assistant","content":"a"},` + user, user + `,{"role":"assistant","content":"a","reasoning_content":""},` + user, nil},
		"also in place of null":                             {"deepseek", user + `,{"role":"assistant","content":"a","reasoning_content":null},` + user, user + `,{"role":"assistant","content":"a","reasoning_content":""},` + user, nil},
		"DeepSeek has no developers":                        {"deepseek", `{"role":"developer","content":"d","name":"n"},` + user, `{"role":"system","content":"d","name":"n"},` + user, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, dropped := sent(t, `{"model":"fast","messages":[`+tt.messages+`]}`, conversation.Channel{Vendor: tt.vendor, Plain: true})
			assert.JSONEq(t, `{"model":"up-1","messages":[`+tt.want+`]}`, got)
			assert.Equal(t, tt.dropped, dropped)
		})
	}
}

// FuzzEncode: whatever a client may ask, what goes upstream is JSON in which no name stands twice, and the request is as it was.
func FuzzEncode(f *testing.F) {
	for _, c := range conversation.Load(f, "clean", "failures") {
		f.Add([]byte(c.Body()), byte(len(c.Body())), !c.Channel(f).Plain)
	}
	for _, body := range []string{
		`{"model":"m","messages":[{"role":"user","content":"x"}],"seed":1,"random_seed":null,"reasoning_effort":"high","reasoning":null,"thinking":null}`,
		`{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true,"stream_options":null}`,
		`{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"reasoning_content":null,"refusal":"no"}],"n":1.0,"stop":[[]]}`,
	} {
		for vendor := range byte(len(openai.Dialects) + 1) {
			f.Add([]byte(body), vendor, true)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, vendor byte, stream bool) {
		req, refusal := dialect.Chat{}.Parse(body)
		if refusal != nil {
			return // no adapter sees it
		}
		s := conversation.Channel{Vendor: "generic"}
		if n := int(vendor) % (len(openai.Dialects) + 1); n < len(openai.Dialects) {
			s.Vendor = openai.Dialects[n].Vendor()
		}
		call := adapter.Call(req, s)
		call.Stream = stream
		upstream, _ := openai.Encode(call)
		require.True(t, jsontext.Value(upstream).IsValid(), "%s", upstream)
		untouched, _ := dialect.Chat{}.Parse(body)
		require.Equal(t, untouched, req)
	})
}

func TestShortIDsAreNineLettersAndDigitsAndDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, id := range []string{"", "call_1", "call_2", "123456789", "12345678", "1234567890", "12345_789", "toolu_01A09q90qw90lq917835lq9", "ääää"} {
		short := openai.ShortID(id)
		assert.Regexp(t, regexp.MustCompile(`^[a-zA-Z0-9]{9}$`), short)
		assert.Equal(t, short, openai.ShortID(short), "short ids stay")
		assert.NotContains(t, seen, short)
		seen[short] = id
	}
	assert.Equal(t, "123456789", openai.ShortID("123456789"))
}

func TestEveryDialectSaysWhereItWasRead(t *testing.T) {
	for _, d := range openai.Dialects {
		assert.Regexp(t, regexp.MustCompile(`\b2026-\d\d-\d\d$`), d.Source(), d.Vendor())
	}
}
