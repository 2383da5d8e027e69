package gateway_test

import (
	"context"
	"strings"
	"testing"

	"spillway/internal/fault"
	"spillway/internal/provider"
)

// picky has no words for a part of the request on some channels.
type picky struct {
	provider.Provider
	channels, param string
}

func (p picky) Call(ctx context.Context, c provider.Call) (provider.Reply, error) {
	if strings.Contains(p.channels, c.Channel.Name) {
		return nil, fault.Default().Classify(fault.Observation{Local: fault.Refused, Phase: fault.PhaseConnect, Param: p.param})
	}
	return p.Provider.Call(ctx, c)
}

// TestACandidateWithoutWordsIsPassedOver: what an adapter cannot say is no attempt, and no fault of the provider; where
// nobody can say it, the request is the caller's to change.
func TestACandidateWithoutWordsIsPassedOver(t *testing.T) {
	without := func(channels, param string) settings {
		return settings{adapter: func(p provider.Provider) provider.Provider { return picky{p, channels, param} }}
	}
	run(t, map[string]row{
		"the next candidate answers": {
			settings: without("a", "stop"), b: one(beta.says("from B")), trace: "B", classes: "ok", text: "from B",
			headers: map[string]string{"X-LLM-Attempts": "1", "X-LLM-Fallback": "true", "X-LLM-Routing-Reason": "a:unsupported;b:ok"},
		},
		"it does not hide the failure before it": {
			settings: without("b", "stop"), a: twice(unavailable()), trace: "A 200ms A", classes: "server_error server_error",
			status: 503, code: "provider_unavailable", class: "server_error", provider: "alpha",
			headers: map[string]string{"X-LLM-Attempts": "2", "X-LLM-Fallback": "false"},
		},
		"nobody has the words": {
			settings: without("ab", "stop"), status: 400, code: "unsupported_model_input", class: "unsupported_parameter",
			headers: map[string]string{"X-LLM-Attempts": "0", "X-Should-Retry": "false"},
		},
		"nobody has the words for a schema": {
			settings: without("ab", "response_format.json_schema.schema/properties/x"), status: 400, code: "unsupported_schema", class: "unsupported_parameter",
		},
	})
}

// TestARequestThatIsTooLargeForEverybody is the caller's to change: repeating it helps nobody.
func TestARequestThatIsTooLargeForEverybody(t *testing.T) {
	run(t, map[string]row{
		"a longer output than anybody writes": {
			settings: settings{a: `"max_output": 100`, b: `"max_output": 200`}, more: `,"max_completion_tokens":201`, status: 400, code: "unsupported_model_input",
			headers: map[string]string{"X-LLM-Attempts": "0", "X-Should-Retry": "false", "X-LLM-Routing-Reason": "a:max_output;b:max_output"},
		},
		"one that the second writes": {
			settings: settings{a: `"max_output": 100`, b: `"max_output": 200`}, more: `,"max_completion_tokens":200`, b: one(beta.says("from B")),
			trace: "B", classes: "ok", text: "from B", headers: map[string]string{"X-LLM-Routing-Reason": "a:max_output;b:ok"},
		},
		"a conversation that fits nobody's context": {
			settings: settings{a: `"context": 1`, b: `"context": 1`}, more: `,"max_completion_tokens":2`, status: 400, code: "unsupported_model_input",
			headers: map[string]string{"X-LLM-Routing-Reason": "a:context;b:context", "X-Should-Retry": "false"},
		},
	})
}
