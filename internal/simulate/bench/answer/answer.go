// Package answer holds what the stand-ins of the benchmark answer, in each wire format: made once, so that giving it costs next
// to nothing. The model of a request says which answer it gets.
package answer

import (
	"bytes"
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

// words are what an answer says; a longer answer begins again. No other part of an answer holds its first content.
var words = []string{"The", " spillway", " takes", " the", " flood", " around", " the", " dam", ",", " and", " never", " over", " it", "."}

// sentence is what a short answer says.
var sentence = strings.Join(words, "")

// Format is a wire format, and the answers in it.
type Format struct {
	// Name is for people, Model what a short answer in this format is asked for by.
	Name, Model string
	// Path and Ask are a call of the upstream in its own format: as much is said as in a client's.
	Path, Ask func(stream bool) string
	// Plain is the answer to a request that does not stream.
	Plain []byte
	// Opening are the first frames of a stream, Chunks the frames with content, and Closing those after them.
	Opening []byte
	Chunks  [][]byte
	Closing []byte
	// FirstContent is in the first frame that has content, and in no frame before it.
	FirstContent string
	// End is what a stream ends with, through the gateway too where its client speaks this format.
	End string
}

// Formats are all of them; what is asked of the gateway in the first has not to be translated.
var Formats = []*Format{OpenAI, Responses, Anthropic, Gemini}

// Of is the format that is spoken at a path.
func Of(path string) *Format {
	switch {
	case strings.HasSuffix(path, "/responses"):
		return Responses
	case strings.HasSuffix(path, "/messages"):
		return Anthropic
	case strings.Contains(path, "enerateContent"):
		return Gemini
	default:
		return OpenAI
	}
}

// chunks are a frame for each word.
func chunks(frame func(word string) []byte) (all [][]byte) {
	for _, w := range words {
		all = append(all, frame(w))
	}
	return all
}

// at is a path that streams share with plain answers.
func at(path string) func(bool) string { return func(bool) string { return path } }

// Streams reports whether a request wants a stream: a body, or an event that holds one as a JSON string.
func Streams(request []byte) bool {
	return bytes.Contains(request, []byte(`"stream":true`)) || bytes.Contains(request, []byte(`"stream\":true`))
}

// Stream gives the frames of the stream that a request asks for, one write each, until one fails.
func (f *Format) Stream(request []byte, write func(frame []byte) error) error {
	n, pace := len(f.Chunks), time.Duration(0)
	switch {
	case bytes.Contains(request, []byte(Long)):
		n = LongChunks
	case bytes.Contains(request, []byte(Paced)):
		n, pace = PacedChunks, Pace
	}
	if err := write(f.Opening); err != nil {
		return err
	}
	next := time.Now()
	for i := range n {
		if pace > 0 {
			next = next.Add(pace)
			time.Sleep(time.Until(next))
		}
		if err := write(f.Chunks[i%len(f.Chunks)]); err != nil {
			return err
		}
	}
	return write(f.Closing)
}
