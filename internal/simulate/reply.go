package simulate

import (
	"encoding/json"
	"net/http"
	"time"
)

// NoAnswer as a Reply's Status sends nothing at all, not even a status line.
const NoAnswer = -1

// Reply is what one call gets. The zero value is a complete 200 with no body.
//
// The order on the wire: Delay, then the status line and Header, then Body or
// Stream, then End.
type Reply struct {
	// Delay is the silence before the first byte.
	Delay time.Duration
	// Status of the answer; 0 is 200, NoAnswer sends nothing and leaves only End.
	Status int
	// Header of the answer, over the defaults: a content type guessed from Body
	// or Stream, and the call's id where the wire format has a header for it.
	Header http.Header
	// Body is sent with its Content-Length. When End is not Complete only its
	// first half is sent, under the length of the whole.
	Body string
	// Stream, when not nil, is sent as a chunked body in place of Body.
	Stream []Chunk
	// Raw, when not empty, is sent as it is in place of status line, header and
	// body; the connection is closed after it.
	Raw string
	// End is how the exchange ends.
	End End
	// Hold bounds the silence of Stall, after which the connection is closed.
	// 0 is without bound: until the client leaves or the provider closes.
	Hold time.Duration

	healthy bool
	// work, when not nil, is sent in place of Body; its first half, when End is not Complete.
	work *work
}

// Chunk is one HTTP chunk of a streamed body.
type Chunk struct {
	// After is the silence before this chunk.
	After time.Duration
	// Data is sent as it is; an event needs its "data: " and blank line.
	Data string
}

// End is how an exchange ends.
type End string

const (
	// Complete ends the body as HTTP demands and keeps the connection.
	Complete End = ""
	// Cut closes the connection without the end of the body.
	Cut End = "cut"
	// Reset closes it with a TCP RST; on a connection that knows no reset it is Cut.
	Reset End = "reset"
	// Stall falls silent with the connection open and the body without its end.
	Stall End = "stall"
)

// Healthy is the reply that "sim-ok" gives to the same request, for scripts. It heeds Delay, and no other field.
func Healthy() Reply { return Reply{healthy: true} }

// Error is an OpenAI error envelope. An empty code is null.
// Shape: https://platform.openai.com/docs/guides/error-codes (2026-11).
func Error(status int, typ, code, message string) Reply {
	return openAIError(status, errorObject{Message: message, Type: typ, Code: nullable(code)})
}

// Events is a 200 event stream with one "data:" event per payload, gap apart,
// that ends as end says. It adds no "[DONE]".
func Events(gap time.Duration, end End, payloads ...string) Reply {
	stream := make([]Chunk, 0, len(payloads))
	for _, p := range payloads {
		stream = append(stream, Chunk{After: gap, Data: frame{data: p}.String()})
	}
	return Reply{Stream: stream, End: end}
}

// WithHeader returns the reply with one more header.
func (r Reply) WithHeader(name, value string) Reply {
	h := r.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set(name, value)
	r.Header = h
	return r
}

type errorObject struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// encode is for values built from strings, numbers and maps of them, which
// always encode.
func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("simulate: encoding an answer: " + err.Error())
	}
	return string(b)
}
