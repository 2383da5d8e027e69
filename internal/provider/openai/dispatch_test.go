package openai_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"spillway/internal/catalog"
	"spillway/internal/simulate/conversation"
)

// TestTheModelChoosesTheAPI: to the same address, with the same key.
func TestTheModelChoosesTheAPI(t *testing.T) {
	const chatAPI, responsesAPI = "/v1/chat/completions", "/v1/responses"
	const plainly, withTools = `{"model":"fast","messages":[{"role":"user","content":"x"}]}`,
		`{"model":"fast","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}]}`
	replies := map[string]string{
		chatAPI:      `{"choices":[{"index":0,"message":{"content":"Hi"},"finish_reason":"stop"}]}`,
		responsesAPI: `{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Hi"}]}]}`,
	}
	for name, tt := range map[string]struct {
		responses catalog.Responses
		body      string
		vendor    string
		want      string
	}{
		"a model that needs it for nothing":     {catalog.ResponsesNever, withTools, "", chatAPI},
		"one that needs it for tools":           {catalog.ResponsesWithTools, withTools, "", responsesAPI},
		"the same one without them":             {catalog.ResponsesWithTools, plainly, "", chatAPI},
		"one that needs it always":              {catalog.ResponsesAlways, plainly, "", responsesAPI},
		"one whose key has a header of its own": {catalog.ResponsesAlways, plainly, "azure", responsesAPI},
	} {
		t.Run(name, func(t *testing.T) {
			far := &conversation.Upstream{Reply: conversation.Reply{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: replies[tt.want]}}
			s := conversation.Channel{Vendor: tt.vendor, Plain: true}
			c := adapter.Call(conversation.Parse(t, tt.body), s)
			c.Channel.Capabilities.Responses = tt.responses
			got := conversation.Follow(t, adapter.New(conversation.Serve(t, far)), c)
			require.Nil(t, got.Failure)
			require.Len(t, far.Calls, 1)
			assert.Equal(t, tt.want, far.Calls[0].URL.Path)
			assert.Equal(t, "Hi", got.Answer.Choices[0].Text)
			if tt.vendor == "azure" {
				assert.Equal(t, conversation.Key, far.Calls[0].Header.Get("Api-Key"))
			} else {
				assert.Equal(t, "Bearer "+conversation.Key, far.Calls[0].Header.Get("Authorization"))
			}
		})
	}
}

// TestTheNearestEffort: a model is told the nearest effort that it has, over either API, and one of which nothing is known
// the client's.
func TestTheNearestEffort(t *testing.T) {
	const ask, tools = `"messages":[{"role":"user","content":"x"}]`, `"tools":[{"type":"function","function":{"name":"f"}}]`
	for name, tt := range map[string]struct{ model, members, want string }{
		"one that it has":                           {"gpt-5.1", `"reasoning_effort":"none"`, "none"},
		"one that it cannot do without":             {"gpt-5", `"reasoning_effort":"none"`, "minimal"},
		"more than it has":                          {"gpt-5", `"reasoning_effort":"xhigh"`, "high"},
		"the same with tools, by the Responses API": {"gpt-6-astra", `"reasoning_effort":"none",` + tools, "low"},
		"a model of which nothing is known":         {"new-model", `"reasoning_effort":"xhigh"`, "xhigh"},
	} {
		t.Run(name, func(t *testing.T) {
			far := &conversation.Upstream{Reply: conversation.Reply{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: "{}"}}
			c := adapter.Call(conversation.Parse(t, `{"model":"fast",`+ask+`,`+tt.members+`}`), conversation.Channel{Model: tt.model, Plain: true})
			conversation.Follow(t, adapter.New(conversation.Serve(t, far)), c)
			require.Len(t, far.Calls, 1)
			got := gjson.GetManyBytes(far.Body, "reasoning_effort", "reasoning.effort")
			assert.Equal(t, tt.want, got[0].Str+got[1].Str)
		})
	}
}
