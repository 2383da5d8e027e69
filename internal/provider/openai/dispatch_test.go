package openai_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
