package fault_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"spillway/internal/fault"
)

func TestVendorOf(t *testing.T) {
	for host, want := range map[string]string{
		"api.openai.com":                           "openai",
		"eu.api.openai.com":                        "openai",
		"API.OpenAI.com:443":                       "openai",
		"res-1.openai.azure.com":                   "azure",
		"res-1.services.ai.azure.com":              "azure",
		"openrouter.ai":                            "openrouter",
		"api.groq.com":                             "groq",
		"api.deepseek.com":                         "deepseek",
		"us-east-1.api.x.ai":                       "xai",
		"queue.fal.run":                            "fal",
		"api.elevenlabs.io":                        "elevenlabs",
		"api.us.elevenlabs.io":                     "elevenlabs",
		"api.mistral.ai":                           "mistral",
		"api.together.xyz":                         "together",
		"api.anthropic.com":                        "anthropic",
		"generativelanguage.googleapis.com":        "gemini",
		"us-central1-aiplatform.googleapis.com":    "gemini",
		"bedrock-runtime.eu-west-1.amazonaws.com":  "bedrock",
		"lb-1.eu-west-1.elb.amazonaws.com":         "generic",
		"api.openai.com.example.net":               "generic",
		"127.0.0.1:8000":                           "generic",
		"[::1]:8000":                               "generic",
		"":                                         "generic",
		"llm.internal":                             "generic",
		"notapi.openai.com-proxy.example":          "generic",
		"bedrock-mantle.us-east-1.api.aws":         "bedrock",
		"x.bedrock-runtime.us-east-1.amazonaws.co": "generic",
	} {
		t.Run(host, func(t *testing.T) {
			got := fault.VendorOf(host)
			assert.Equal(t, want, got)
			assert.Contains(t, fault.Vendors(), got)
		})
	}
}

func TestRequestID(t *testing.T) {
	long := make([]byte, 201)
	for i := range long {
		long[i] = 'a'
	}
	for name, c := range map[string]struct {
		vendor string
		header map[string]string
		want   string
	}{
		"OpenAI's":                                {"openai", map[string]string{"X-Request-Id": "req_1", "Cf-Ray": "ray"}, "req_1"},
		"Azure's gateway knows its own id best":   {"azure", map[string]string{"X-Request-Id": "a", "X-Ms-Request-Id": "b", "Apim-Request-Id": "c"}, "c"},
		"Anthropic's before that of a proxy":      {"anthropic", map[string]string{"X-Request-Id": "proxy", "Request-Id": "req_011"}, "req_011"},
		"Mistral's gateway, where no correlation": {"mistral", map[string]string{"X-Kong-Request-Id": "k", "Cf-Ray": "ray"}, "k"},
		"Mistral's correlation":                   {"mistral", map[string]string{"X-Kong-Request-Id": "k", "Mistral-Correlation-Id": "m"}, "m"},
		"OpenRouter's generation":                 {"openrouter", map[string]string{"X-Request-Id": "r", "X-Generation-Id": "gen-1"}, "gen-1"},
		"Bedrock's":                               {"bedrock", map[string]string{"X-Amzn-Requestid": "b-1"}, "b-1"},
		"DeepSeek's trace before the CDN's":       {"deepseek", map[string]string{"X-Ds-Trace-Id": "t", "Cf-Ray": "ray"}, "t"},
		"a server that we do not know":            {"generic", map[string]string{"X-Kong-Request-Id": "k", "Cf-Ray": "ray"}, "ray"},
		"a page of CloudFront":                    {"xai", map[string]string{"X-Amz-Cf-Id": "cf"}, "cf"},
		"an id beyond all bounds is passed over":  {"openai", map[string]string{"X-Request-Id": string(long), "Cf-Ray": "ray"}, "ray"},
		"none":                                    {"openai", nil, ""},
		"a vendor that nobody knows":              {"nobody", map[string]string{"X-Request-Id": "r"}, "r"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, fault.RequestID(c.vendor, func(name string) string { return c.header[name] }))
		})
	}
}
