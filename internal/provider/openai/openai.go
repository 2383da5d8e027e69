// Package openai speaks OpenAI's chat completions to OpenAI itself and to every server that copies it. Its folder responses
// speaks OpenAI's other API, for the models that need it.
package openai

import (
	"context"
	"net/http"

	"spillway/internal/fault"
	"spillway/internal/provider"
	"spillway/internal/provider/openai/responses"
	"spillway/internal/provider/wire"
)

// Provider is the adapter. Its fields must be set before use and not changed afterwards.
type Provider struct {
	Wire   *wire.Client
	Policy *fault.Policy
	// MaxEvent is the largest frame of a stream that is read, in bytes; 0: sse.DefaultMax.
	MaxEvent int
}

var _ provider.Provider = (*Provider)(nil)

// Call makes one call: of the Responses API where the channel's model takes the request in no other way, else a chat
// completion.
func (p *Provider) Call(ctx context.Context, c provider.Call) (provider.Reply, error) {
	if c.Channel.Capabilities.ByResponses(c.Request) {
		r := responses.Provider{Wire: p.Wire, Policy: p.Policy, Headers: headers, MaxEvent: p.MaxEvent}
		return r.Call(ctx, c)
	}
	body, dropped := encode(c)
	x, failure := p.Wire.Post(ctx, c, p.Policy, wire.Method{Path: "/chat/completions"}, headers(c), body)
	if failure != nil {
		return nil, failure
	}
	return &reply{Reply: wire.NewReply(x, c, p.Policy, dropped, wire.Stream{Max: p.MaxEvent, End: "[DONE]"})}, nil
}

func headers(c provider.Call) http.Header {
	h := make(http.Header, 8)
	for name, value := range c.Headers {
		h.Set(name, value)
	}
	for name, value := range c.Channel.Provider.Headers {
		h.Set(name, value)
	}
	wire.Finish(h, c)
	if own := dialectOf(c.Channel.Provider.Vendor).keyHeader; own != "" {
		h.Set(own, c.Credential.Secret.Reveal())
	} else {
		h.Set("Authorization", "Bearer "+c.Credential.Secret.Reveal())
	}
	return h
}
