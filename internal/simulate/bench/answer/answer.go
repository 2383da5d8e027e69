// Package answer holds what the stand-ins of the benchmark answer: chat completions in OpenAI's shape, made once, so that
// giving them costs next to nothing. The model of a request says which answer it gets.
package answer

import (
	"bytes"
	"slices"
	"strings"
	"time"
)

// The models. Each is named in full in a request for it, and none is a part of another.
const (
	// Short is an answer of a few words. Asked is the same, and for the gateway a model whose calls stream only when its
	// client does.
	Short = "bench-short"
	Asked = "bench-asked"
	// Long is a stream of LongChunks chunks, as fast as they are taken.
	Long = "bench-long"
	// Paced is a stream of PacedChunks chunks, one every Pace.
	Paced = "bench-paced"
)

const (
	LongChunks  = 5000
	PacedChunks = 2500
	Pace        = 2 * time.Millisecond
)

// words are what an answer says; a longer answer begins again. No other part of an answer holds FirstContent.
var words = []string{"The", " spillway", " takes", " the", " flood", " around", " the", " dam", ",", " and", " never", " over", " it", "."}

// FirstContent is in the first frame that has content, and in no frame before it.
const FirstContent = `"content":"The"`

// Plain is the answer to a request that does not stream.
var Plain = []byte(`{"id":"chatcmpl-bench","object":"chat.completion","created":1700000000,"model":"` + Short + `","choices":[{"index":0,` +
	`"message":{"role":"assistant","content":"` + strings.Join(words, "") + `","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],` +
	`"usage":` + usage + `,"service_tier":"default","system_fingerprint":"fp_bench"}`)

const usage = `{"prompt_tokens":40,"completion_tokens":14,"total_tokens":54,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},` +
	`"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`

// Opening is the first frame of a stream, Chunks are the frames with content, and Closing are those after them.
var (
	Opening = frame(`{"role":"assistant","content":"","refusal":null}`, `null`)
	Chunks  = chunks()
	Closing = slices.Concat(frame(`{}`, `"stop"`),
		[]byte("data: "+head+`,"choices":[],"usage":`+usage+"}\n\n"), []byte("data: [DONE]\n\n"))
)

const head = `{"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1700000000,"model":"` + Short +
	`","service_tier":"default","system_fingerprint":"fp_bench"`

// frame is one event in the members and the order of OpenAI's own (2026-11).
func frame(delta, finish string) []byte {
	return []byte("data: " + head + `,"choices":[{"index":0,"delta":` + delta + `,"logprobs":null,"finish_reason":` + finish + `}],"usage":null,"obfuscation":"h3sYq0"}` + "\n\n")
}

func chunks() (all [][]byte) {
	for _, w := range words {
		all = append(all, frame(`{"content":"`+w+`"}`, `null`))
	}
	return all
}

// Streams reports whether a request wants a stream: a body, or an event that holds one as a JSON string.
func Streams(request []byte) bool {
	return bytes.Contains(request, []byte(`"stream":true`)) || bytes.Contains(request, []byte(`"stream\":true`))
}

// Stream gives the frames of the stream that a request asks for, one write each, until one fails.
func Stream(request []byte, write func(frame []byte) error) error {
	n, pace := len(Chunks), time.Duration(0)
	switch {
	case bytes.Contains(request, []byte(Long)):
		n = LongChunks
	case bytes.Contains(request, []byte(Paced)):
		n, pace = PacedChunks, Pace
	}
	if err := write(Opening); err != nil {
		return err
	}
	next := time.Now()
	for i := range n {
		if pace > 0 {
			next = next.Add(pace)
			time.Sleep(time.Until(next))
		}
		if err := write(Chunks[i%len(Chunks)]); err != nil {
			return err
		}
	}
	return write(Closing)
}
