// Package responses speaks OpenAI's Responses API, for models that take tools or a high effort in no other way. Bodies are
// written from the canonical request alone; what cannot be said in its words and would change the meaning of a request
// makes the call fail before it is made, what cannot is left out and named.
//
// The wire format is that of reference/providers.md §1.1, §3.2 and §4.2 (openai-go v3.99.0, 2026-11-12).
package responses

import (
	"context"
	"net/http"

	"spillway/internal/fault"
	"spillway/internal/provider"
	"spillway/internal/provider/wire"
)

// Provider is the adapter. Its fields must be set before use and not changed afterwards.
type Provider struct {
	Wire   *wire.Client
	Policy *fault.Policy
	// Headers makes the headers of a call, which are those of any other API of the same provider.
	Headers func(provider.Call) http.Header
	// MaxEvent is the largest frame of a stream that is read, in bytes; 0: sse.DefaultMax.
	MaxEvent int
}

var _ provider.Provider = (*Provider)(nil)

// Call makes one call. A request that cannot be put into the API's words fails with the local cause Refused, its Param
// naming the parameter, and nothing is sent.
func (p *Provider) Call(ctx context.Context, c provider.Call) (provider.Reply, error) {
	body, dropped, refused := encode(c)
	if refused != nil {
		return nil, wire.Refuse(c, p.Policy, refused)
	}
	x, failure := p.Wire.Post(ctx, c, p.Policy, wire.Method{Path: "/responses"}, p.Headers(c), body)
	if failure != nil {
		return nil, failure
	}
	// [DONE] is the other API's end; whatever sends it here ends without having said how.
	r := &reply{Reply: wire.NewReply(x, c, p.Policy, dropped, wire.Stream{Max: p.MaxEvent, End: "[DONE]"})}
	r.output.vendor, r.output.account = c.Channel.Provider.Vendor, account(c)
	return r, nil
}
