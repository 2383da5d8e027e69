package clients

import (
	"slices"
	"strings"
	"testing"
)

// TestWhatAnSDKDoesNotKnowIsFound: a comparison that finds nothing in any body would say nothing of ours. Each of these bodies
// has one thing that is not the vendor's.
func TestWhatAnSDKDoesNotKnowIsFound(t *testing.T) {
	const claude, flash = "claude-sonnet-4-5", "gemini-3.1-flash"
	for name, c := range map[string]struct {
		vendor      vendor
		model, body string
		want        string // in the SDK's error, or in the list of what differs; empty: nothing is found
	}{
		"Anthropic, nothing": {anthropicVendor, claude, `{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}`, ""},
		"Anthropic, a member that is OpenAI's": {anthropicVendor, claude,
			`{"model":"claude-sonnet-4-5","max_tokens":9,"seed":1,"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}`, "/seed: 1 became null"},
		"Anthropic, a member of a block": {anthropicVendor, claude,
			`{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"x","detail":"low"}]}]}`, `"detail":"low"`},
		"Anthropic, a kind of block": {anthropicVendor, claude,
			`{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`, `"type":"image_url"`},
		"Responses, nothing": {responsesVendor, "gpt-5.4", `{"model":"gpt-5.4","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}],"store":false}`, ""},
		"Responses, a member of the older API": {responsesVendor, "gpt-5.4",
			`{"model":"gpt-5.4","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}],"max_tokens":9}`, "/max_tokens: 9 became null"},
		"Responses, a piece of content of the older API": {responsesVendor, "gpt-5.4",
			`{"model":"gpt-5.4","input":[{"type":"message","role":"user","content":[{"type":"text","text":"x"}]}]}`, `"type":"text"`},
		"Gemini, nothing":  {geminiVendor, flash, `{"contents":[{"role":"user","parts":[{"text":"x"}]}]}`, ""},
		"Gemini, a member": {geminiVendor, flash, `{"contents":[{"role":"user","parts":[{"text":"x"}]}],"max_tokens":9}`, "max_tokens"},
		"Gemini, a member in the configuration": {geminiVendor, flash,
			`{"contents":[{"role":"user","parts":[{"text":"x"}]}],"generationConfig":{"max_output_tokens":9}}`, "max_output_tokens"},
		"Gemini, a member that the SDK sends to another service only": {geminiVendor, flash,
			`{"contents":[{"role":"user","parts":[{"text":"x"}]}],"generationConfig":{"audioTimestamp":true}}`, "/generationConfig/audioTimestamp: true became null"},
	} {
		t.Run(name, func(t *testing.T) {
			far := listen(t)
			far.expect(1, false, func(stream bool) (string, string) { return c.vendor.answer(said{text: "x", finish: "stop"}, stream) })
			found := []string{}
			if _, err := c.vendor.again(t.Context(), far.url, c.model, []byte(c.body), false); err != nil {
				found = append(found, err.Error())
			} else {
				written, err := c.vendor.written([]byte(c.body))
				if err != nil {
					t.Fatal(err)
				}
				found = differences(t, written, far.got()[0].body)
			}
			if (c.want == "") != (len(found) == 0) || !slices.ContainsFunc(append(found, ""), func(s string) bool { return strings.Contains(s, c.want) }) {
				t.Errorf("found %q, want %q", found, c.want)
			}
		})
	}
}
