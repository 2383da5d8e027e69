// Package openai speaks OpenAI's chat completions to OpenAI itself and to every server that copies it.
package openai

import (
	"cmp"
	"context"
	"fmt"
	"io"
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

// maxPlain is the largest plain answer that is read, in bytes.
const maxPlain = 32 << 20

// Provider is the adapter. Its fields must be set before use and not changed afterwards.
type Provider struct {
	Wire   *wire.Client
	Policy *fault.Policy
	// MaxEvent is the largest frame of a stream that is read, in bytes; 0: sse.DefaultMax.
	MaxEvent int
}

var _ provider.Provider = (*Provider)(nil)

// Call makes one chat completion call.
func (p *Provider) Call(ctx context.Context, c provider.Call) (provider.Reply, error) {
	body, dropped := encode(c)
	target, err := endpoint(c.Channel.Provider)
	if err != nil {
		return nil, p.fail(c, fault.Observation{Local: fault.Dial, Phase: fault.PhaseConnect, Cause: err})
	}
	x, o := p.Wire.Do(ctx, wire.Request{Method: http.MethodPost, URL: target, Header: headers(c), Body: body, Fresh: c.Fresh,
		Vendor: c.Channel.Provider.Vendor})
	if o != nil {
		return nil, p.fail(c, *o)
	}
	if x.StatusCode/100 != 2 {
		defer x.Body.Close()
		return nil, p.fail(c, x.ReadError(time.Now()))
	}
	r := &reply{p: p, call: c, x: x, info: provider.Info{Status: x.StatusCode, RequestID: x.RequestID(), Dropped: dropped}}
	if streams(c, x.Header.Get("Content-Type")) {
		r.stream = sse.NewReader(x.Body, p.MaxEvent)
	}
	return r, nil
}

// streams reports whether an answer is an event stream. Some servers forget to say so when they were asked for one; JSON
// is then an error, or an answer that is not streamed.
func streams(c provider.Call, contentType string) bool {
	media, _, _ := mime.ParseMediaType(contentType)
	return media == "text/event-stream" || c.Stream && !strings.HasSuffix(media, "json")
}

func (p *Provider) fail(c provider.Call, o fault.Observation) *fault.Failure {
	o.Provider, o.OwnKey = c.Channel.Provider.Vendor, c.Credential.Organization != ""
	return cmp.Or(c.Policy, p.Policy).Classify(o)
}

func endpoint(p *catalog.Provider) (*url.URL, error) {
	u, err := url.Parse(p.BaseURL + "/chat/completions")
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

func headers(c provider.Call) http.Header {
	h := make(http.Header, 8)
	for name, value := range c.Headers {
		h.Set(name, value)
	}
	for name, value := range c.Channel.Provider.Headers {
		h.Set(name, value)
	}
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "spillway")
	if c.Stream {
		h.Set("Accept", "text/event-stream")
	} else {
		h.Set("Accept", "application/json")
	}
	h.Set("Authorization", "Bearer "+c.Credential.Secret.Reveal())
	return h
}

// readPlain reads a whole plain body.
func (r *reply) readPlain() (string, error) {
	body, err := io.ReadAll(io.LimitReader(r.x.Body, maxPlain+1))
	if err != nil {
		return "", err
	}
	if len(body) > maxPlain {
		return "", sse.ErrTooLong
	}
	return string(body), nil
}
