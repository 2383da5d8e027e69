// Package anthropic speaks Anthropic's Messages API. Bodies are written from the canonical request alone; what cannot be
// said in Anthropic's words and would change the meaning of a request makes the call fail before it is made, what cannot
// is left out and named.
//
// The wire format is that of reference/providers.md §1.2, §3.3 and §4.3 (anthropic-sdk-go v2.15.0, 2026-11-24).
package anthropic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"spillway/internal/catalog"
	"spillway/internal/fault"
	"spillway/internal/provider"
	"spillway/internal/provider/wire"
	"spillway/internal/sse"
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
		return nil, p.fail(c, fault.Observation{Local: fault.Refused, Phase: fault.PhaseConnect, Param: refused.param, Message: refused.why,
			Cause: errors.New(refused.param + ": " + refused.why)})
	}
	target, err := endpoint(c.Channel.Provider)
	if err != nil {
		return nil, p.fail(c, fault.Observation{Local: fault.Dial, Phase: fault.PhaseConnect, Cause: err})
	}
	x, o := p.Wire.Do(ctx, wire.Request{Method: http.MethodPost, URL: target, Header: headers(c), Body: out.body, Fresh: c.Fresh,
		Vendor: c.Channel.Provider.Vendor})
	if o != nil {
		return nil, p.fail(c, *o)
	}
	if x.StatusCode/100 != 2 {
		defer x.Body.Close()
		return nil, p.fail(c, x.ReadError(time.Now()))
	}
	r := &reply{p: p, call: c, x: x, answerTool: out.answerTool,
		info: provider.Info{Status: x.StatusCode, RequestID: x.RequestID(), Dropped: out.dropped}}
	if streams(c, x.Header.Get("Content-Type")) {
		r.stream = sse.NewReader(x.Body, p.MaxEvent)
	}
	return r, nil
}

// streams reports whether an answer is an event stream; JSON is an error, or an answer that is not streamed.
func streams(c provider.Call, contentType string) bool {
	media, _, _ := mime.ParseMediaType(contentType)
	return media == "text/event-stream" || c.Stream && !strings.HasSuffix(media, "json")
}

func (p *Provider) fail(c provider.Call, o fault.Observation) *fault.Failure {
	o.Provider, o.OwnKey = c.Channel.Provider.Vendor, c.Credential.Organization != ""
	return cmp.Or(c.Policy, p.Policy).Classify(o)
}

func endpoint(p *catalog.Provider) (*url.URL, error) {
	u, err := url.Parse(p.BaseURL + "/messages")
	if err != nil {
		return nil, fmt.Errorf("parsing the provider's address: %w", err)
	}
	if len(p.Query) > 0 {
		q := u.Query()
		for name, value := range p.Query {
			q.Set(name, value)
		}
		u.RawQuery = q.Encode()
	}
	return u, nil
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
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "spillway")
	if c.Stream {
		h.Set("Accept", "text/event-stream")
	} else {
		h.Set("Accept", "application/json")
	}
	h.Set("X-Api-Key", c.Credential.Secret.Reveal())
	return h
}
