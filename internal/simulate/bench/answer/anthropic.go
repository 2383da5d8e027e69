package answer

import "slices"

const anthropicModel = "bench-anthropic"

// Anthropic is Anthropic's Messages API, in the members and the order of its own (2026-11).
var Anthropic = &Format{
	Name: "Anthropic's Messages", Model: anthropicModel,
	Path: at("/v1/messages"), Ask: func(stream bool) string {
		ask := `{"model":"` + anthropicModel + `","max_tokens":256,"system":[{"type":"text","text":"` + system + `"}],` +
			`"messages":[{"role":"user","content":[{"type":"text","text":"` + question + `"}]}],"metadata":{"user_id":"bench"}`
		if stream {
			ask += `,"stream":true`
		}
		return ask + `}`
	},
	Plain: []byte(`{"id":"msg_bench","type":"message","role":"assistant","model":"` + anthropicModel + `","content":[{"type":"text","text":"` + sentence + `"}],` +
		`"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":40,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":14,"service_tier":"standard"}}`),
	Opening: slices.Concat(
		named("message_start", `"message":{"id":"msg_bench","type":"message","role":"assistant","model":"`+anthropicModel+`","content":[],"stop_reason":null,`+
			`"stop_sequence":null,"usage":{"input_tokens":40,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1,"service_tier":"standard"}}`),
		named("content_block_start", `"index":0,"content_block":{"type":"text","text":""}`), named("ping", "")),
	Chunks: chunks(func(word string) []byte {
		return named("content_block_delta", `"index":0,"delta":{"type":"text_delta","text":"`+word+`"}`)
	}),
	Closing: slices.Concat(named("content_block_stop", `"index":0`),
		named("message_delta", `"delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":14}`), named("message_stop", "")),
	FirstContent: `"text":"The"`,
	End:          string(named("message_stop", "")),
}

// named is an event whose name stands beside its data, too.
func named(kind, members string) []byte {
	if members != "" {
		members = "," + members
	}
	return []byte("event: " + kind + "\ndata: {\"type\":\"" + kind + "\"" + members + "}\n\n")
}
