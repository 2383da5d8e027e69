// Package dialect says what a client-facing wire shape must be able to do. Each shape is a folder of its own.
package dialect

import (
	"time"

	"spillway/internal/chat"
	"spillway/internal/fault"
)

// Dialect reads requests and writes answers in one client-facing shape.
//
// Parse must refuse what is wrong with an error that names the field, must not keep or change anything but the returned
// request, and its request may refer to body. The Append functions must write valid JSON whatever the values hold. All
// must be safe for concurrent use.
type Dialect interface {
	Parse(body []byte) (*chat.Request, *fault.Error)
	// NewStream begins the rendering of a streamed answer.
	NewStream(Head) Stream
	AppendAnswer(b []byte, a *chat.Answer, h Head) []byte
	AppendError(b []byte, e *fault.Error, requestID string) []byte
}

// Stream renders a streamed answer as event-stream bytes. The bytes that a call returns are valid until the next call;
// nil means that there is nothing to send. It is used by one goroutine.
type Stream interface {
	Event(*chat.Event) []byte
	// End renders the end of a whole answer.
	End(*chat.Usage) []byte
	// Interrupt renders the end of an answer that is not whole; no client may take it for a whole one.
	Interrupt(*fault.Error, *chat.Usage) []byte
}

// Head is what every part of one answer repeats.
type Head struct {
	// ID is used when the provider gave none.
	ID string
	// Model is the model that serves the answer, the same in every chunk.
	Model chat.ServedModel
	// Created is used when the provider gave no time.
	Created time.Time
	// IncludeUsage says that the client asked for a usage chunk.
	IncludeUsage bool
}
