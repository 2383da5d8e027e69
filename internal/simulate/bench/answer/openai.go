package answer

import "slices"

// OpenAI is OpenAI's Chat Completions, in the members and the order of its own (2026-11).
var OpenAI = &Format{
	Name: "OpenAI's chat, nothing to translate", Model: Short,
	Path: at("/v1/chat/completions"), Ask: func(stream bool) string { return Request(Short, stream) },
	Plain: []byte(`{"id":"chatcmpl-bench","object":"chat.completion","created":1700000000,"model":"` + Short + `","choices":[{"index":0,` +
		`"message":{"role":"assistant","content":"` + sentence + `","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],` +
		`"usage":` + usage + `,"service_tier":"default","system_fingerprint":"fp_bench"}`),
	Opening: frame(`{"role":"assistant","content":"","refusal":null}`, `null`),
	Chunks:  chunks(func(word string) []byte { return frame(`{"content":"`+word+`"}`, `null`) }),
	Closing: slices.Concat(frame(`{}`, `"stop"`),
		[]byte("data: "+head+`,"choices":[],"usage":`+usage+"}\n\n"), []byte(done)),
	FirstContent: `"content":"The"`,
	End:          done,
}

const done = "data: [DONE]\n\n"

// What a client says, in a usual length.
const (
	system   = "You are a helpful assistant of a water board. Answer in one sentence."
	question = "How does the flood pass the dam, and what keeps it from running over the crest?"
)

// Request is what a client of the gateway sends.
func Request(model string, stream bool) string {
	ask := `{"model":"` + model + `","messages":[{"role":"system","content":"` + system + `"},{"role":"user","content":"` + question + `"}],` +
		`"temperature":0.2,"max_tokens":256,"user":"bench"`
	if stream {
		ask += `,"stream":true,"stream_options":{"include_usage":true}`
	}
	return ask + `}`
}

const usage = `{"prompt_tokens":40,"completion_tokens":14,"total_tokens":54,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},` +
	`"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`

const head = `{"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1700000000,"model":"` + Short +
	`","service_tier":"default","system_fingerprint":"fp_bench"`

func frame(delta, finish string) []byte {
	return []byte("data: " + head + `,"choices":[{"index":0,"delta":` + delta + `,"logprobs":null,"finish_reason":` + finish + `}],"usage":null,"obfuscation":"h3sYq0"}` + "\n\n")
}
