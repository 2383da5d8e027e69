// Package gemini speaks Google's generateContent (https://ai.google.dev/api/generate-content, 2026-11-30) to the Gemini API
// and to servers that copy it. The base address ends with the version: https://generativelanguage.googleapis.com/v1beta.
package gemini

import (
	"context"
	"net/http"
	"strings"

	"spillway/internal/fault"
	"spillway/internal/provider"
	"spillway/internal/provider/wire"
)

// Vendor marks the reasoning blocks that are Gemini's own, in chat.Thinking.
const Vendor = "gemini"

// Provider is the adapter. Its fields must be set before use and not changed afterwards.
type Provider struct {
	Wire   *wire.Client
	Policy *fault.Policy
	// MaxEvent is the largest frame of a stream that is read, in bytes; 0: sse.DefaultMax.
	MaxEvent int
	// NewID makes the id of a tool call, for which Gemini has none; nil: call_ and 26 random characters.
	NewID func() string
}

var _ provider.Provider = (*Provider)(nil)

// Call makes one generateContent call. A request that cannot be put into Gemini's words without changing what it means is
// not sent: the failure then has the local cause fault.Refused and names the parameter.
func (p *Provider) Call(ctx context.Context, c provider.Call) (provider.Reply, error) {
	body, dropped, refused := encode(c)
	if refused != nil {
		return nil, wire.Refuse(c, p.Policy, refused)
	}
	x, failure := p.Wire.Post(ctx, c, p.Policy, method(c), headers(c), body)
	if failure != nil {
		return nil, failure
	}
	return &reply{Reply: wire.NewReply(x, c, p.Policy, dropped, wire.Stream{Max: p.MaxEvent}), newID: p.NewID}, nil
}

// method is what is called: the model and the method stand in the path, the key never in the query. A model with a slash in
// its name is a path of its own (tunedModels/…, publishers/…).
func method(c provider.Call) wire.Method {
	model := string(c.Channel.Model)
	if !strings.Contains(model, "/") {
		model = "models/" + model
	}
	if !c.Stream {
		return wire.Method{Path: "/" + model + ":generateContent"}
	}
	return wire.Method{Path: "/" + model + ":streamGenerateContent", Query: map[string]string{"alt": "sse"}}
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
	h.Set("X-Goog-Api-Key", c.Credential.Secret.Reveal())
	return h
}
