// Package anthropic speaks Anthropic's Messages API. Bodies are written from the canonical request alone; what cannot be
// said in Anthropic's words and would change the meaning of a request makes the call fail before it is made, what cannot
// is left out and named.
//
// The wire format is that of reference/providers.md §1.2, §3.3 and §4.3 (anthropic-sdk-go v2.15.0, 2026-11-24).
package anthropic

import (
	"context"
	"net/http"

	"spillway/internal/fault"
	"spillway/internal/provider"
	"spillway/internal/provider/wire"
)

const (
	// Kind is what a configuration calls providers that this adapter speaks to.
	Kind = "anthropic"
	// vendor is whose reasoning blocks these are; those of anybody else are not sent.
	vendor = "anthropic"
	// version is the version of the API. A provider's own header replaces it.
	version = "2023-06-01"

	versionHeader = "Anthropic-Version"
	betaHeader    = "Anthropic-Beta"
)

// Provider is the adapter. Its fields must be set before use and not changed afterwards.
type Provider struct {
	Wire   *wire.Client
	Policy *fault.Policy
	// MaxEvent is the largest frame of a stream that is read, in bytes; 0: sse.DefaultMax.
	MaxEvent int
}

var _ provider.Provider = (*Provider)(nil)

// Call makes one Messages call. A request that cannot be put into Anthropic's words fails with the local cause Refused,
// its Param naming the parameter, and nothing is sent.
func (p *Provider) Call(ctx context.Context, c provider.Call) (provider.Reply, error) {
	out, refused := encode(c)
	if refused != nil {
		return nil, wire.Refuse(c, p.Policy, refused)
	}
	x, failure := p.Wire.Post(ctx, c, p.Policy, wire.Method{Path: "/messages"}, headers(c), out.body)
	if failure != nil {
		return nil, failure
	}
	return &reply{Reply: wire.NewReply(x, c, p.Policy, out.dropped, wire.Stream{Max: p.MaxEvent}), answerTool: out.answerTool}, nil
}

// headers are those of a call. Of the client's only the betas that it wants are meant for Anthropic; they join those of
// the configuration.
func headers(c provider.Call) http.Header {
	h := make(http.Header, 8)
	h.Set(versionHeader, version)
	for name, value := range c.Channel.Provider.Headers {
		h.Set(name, value)
	}
	if wanted := c.Headers[betaHeader]; wanted != "" {
		if own := h.Get(betaHeader); own != "" {
			wanted = own + "," + wanted
		}
		h.Set(betaHeader, wanted)
	}
	wire.Finish(h, c)
	h.Set("X-Api-Key", c.Credential.Secret.Reveal())
	return h
}
