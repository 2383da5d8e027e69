// Package provider defines what an adapter of an upstream wire format must do. Each adapter is a folder of its own:
// provider/openai and so on. Package provider/wire holds what they share on the wire.
package provider

import (
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
	// Stream says whether the upstream call streams, which is independent of the client's wish.
	Stream bool
	// Fresh demands a connection that has carried no request before.
	Fresh bool
	// Policy classifies the call's failure; nil: the adapter's own. A route may have rows of its own.
	Policy *fault.Policy
	// Headers are the client's headers that may go upstream, by canonical name.
	Headers map[string]string
}

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
