package answer

import "slices"

const responsesModel = "bench-responses"

// Responses is OpenAI's Responses API, in the members and the order of its own (2026-11).
var Responses = &Format{
	Name: "OpenAI's Responses", Model: responsesModel,
	Path: at("/v1/responses"), Ask: func(stream bool) string {
		ask := `{"model":"` + responsesModel + `","input":[{"type":"message","role":"system","content":[{"type":"input_text","text":"` + system + `"}]},` +
			`{"type":"message","role":"user","content":[{"type":"input_text","text":"` + question + `"}]}],"max_output_tokens":256,"safety_identifier":"bench","store":false`
		if stream {
			ask += `,"stream":true`
		}
		return ask + `}`
	},
	Plain: []byte(response("completed", message, counted)),
	Opening: slices.Concat(named("response.created", `"sequence_number":0,"response":`+response("in_progress", "", "null")),
		named("response.in_progress", `"sequence_number":1,"response":`+response("in_progress", "", "null")),
		named("response.output_item.added", `"sequence_number":2,"output_index":0,"item":{"id":"msg_bench","type":"message","status":"in_progress","role":"assistant","content":[]}`),
		named("response.content_part.added", `"sequence_number":3,`+within+`,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""}`)),
	Chunks: chunks(func(word string) []byte {
		return named("response.output_text.delta", `"sequence_number":4,`+within+`,"delta":"`+word+`","logprobs":[],"obfuscation":"h3sYq0"`)
	}),
	Closing: slices.Concat(named("response.output_text.done", `"sequence_number":5,`+within+`,"text":"`+sentence+`","logprobs":[]`),
		named("response.content_part.done", `"sequence_number":6,`+within+`,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":"`+sentence+`"}`),
		named("response.output_item.done", `"sequence_number":7,"output_index":0,"item":`+message), completed),
	FirstContent: `"delta":"The"`,
	End:          string(completed),
}

const (
	within  = `"item_id":"msg_bench","output_index":0,"content_index":0`
	counted = `{"input_tokens":40,"input_tokens_details":{"cached_tokens":0},"output_tokens":14,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":54}`
)

var (
	message = `{"id":"msg_bench","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"` +
		sentence + `"}]}`
	completed = named("response.completed", `"sequence_number":8,"response":`+response("completed", message, counted))
)

func response(status, output, usage string) string {
	return `{"id":"resp_bench","object":"response","created_at":1700000000,"status":"` + status + `","error":null,"incomplete_details":null,"model":"` + responsesModel +
		`","output":[` + output + `],"parallel_tool_calls":true,"store":false,"usage":` + usage + `}`
}
