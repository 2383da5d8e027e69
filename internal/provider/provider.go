// Package provider defines what an adapter of an upstream wire format must do. Each adapter is a folder of its own:
// provider/openai and so on. Package provider/wire holds what they share on the wire.
package provider

import (
	"cmp"
	"context"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/fault"
)

// Call is one physical upstream call.
type Call struct {
	// Request is shared by all candidates and must not be changed.
	Request    *chat.Request
	Channel    *catalog.Channel
	Credential *catalog.Credential
	// MaxTokens bounds the output in place of the request's own bound; 0: the request's. OutputLimit is the one that holds.
	MaxTokens int64
	// Firm says that the answer to this call broke the request's contract before: the model must be held to it by the firmest
	// means of the wire format, such as a strict schema, where those hold it to nothing that the client did not ask for.
	Firm bool
	// Stream says whether the upstream call streams, which is independent of the client's wish.
	Stream bool
	// Fresh demands a connection that has carried no request before.
	Fresh bool
	// Policy classifies the call's failure; nil: the adapter's own. A route may have rows of its own.
	Policy *fault.Policy
	// Headers are the client's headers that may go upstream, by canonical name.
	Headers map[string]string
	// Fetched holds what the gateway has read of the addresses in the request (chat.Part.Remote), by address. An adapter must
	// send the content instead of an address that is here. Shared by all candidates: it must not be changed.
	Fetched map[string]Content
}

// Content is an image or a file that was fetched.
type Content struct {
	// Media is its media type, as its first bytes tell it: image/jpeg, image/png, image/gif, image/webp or application/pdf.
	Media string `json:"media"`
	// Base64 is the content in standard base64, as every wire format wants it.
	Base64 string `json:"base64"`
}

// DataURL is the content as an address of its own.
func (c Content) DataURL() string { return "data:" + c.Media + ";base64," + c.Base64 }

// OutputLimit bounds the output of this call, in tokens; 0: nobody set a bound.
func (c Call) OutputLimit() int64 { return cmp.Or(c.MaxTokens, c.Request.MaxTokens) }

// Provider speaks one upstream wire format.
//
// Call must make at most one physical call: it must neither retry nor follow a redirect. It must build the body from
// the canonical request alone. It must return as soon as the headers of a 2xx have arrived. Every error that it or the
// Reply returns, except io.EOF, must be a *fault.Failure, classified. When the context ends with a fault.Local as its
// cause, that cause must be the failure's. It must be safe for concurrent use.
type Provider interface {
	Call(ctx context.Context, c Call) (Reply, error)
}

// Reply is an answer that is arriving. It is used by one goroutine.
//
// Next must return the events in order, each valid until the next call, and io.EOF only after a terminal event of the
// wire format: an answer that merely stops is a failure. After any error it must not be called again. Close must be
// called, releases the connection, and may be called more than once.
type Reply interface {
	Next() (*chat.Event, error)
	Info() Info
	Close()
}

// Info is what is known of a reply besides its events.
type Info struct {
	Status int
	// RequestID is the provider's own id of the call; empty: none was sent.
	RequestID string
	// Dropped names the client's parameters that were left out for this channel.
	Dropped []string
	// Malformed counts the frames that were skipped.
	Malformed int
}
