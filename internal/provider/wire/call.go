package wire

import (
	"cmp"
	"context"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"spillway/internal/catalog"
	"spillway/internal/fault"
	"spillway/internal/provider"
)

// Fail classifies what an adapter saw of a call, by the call's own rows first.
func Fail(c provider.Call, policy *fault.Policy, o fault.Observation) *fault.Failure {
	o.Provider, o.OwnKey = c.Channel.Provider.Vendor, c.Credential.Organization != ""
	return cmp.Or(c.Policy, policy).Classify(o)
}

// Refusal is a parameter that cannot be put into a provider's words without changing what the request means, and why.
type Refusal struct{ Param, Why string }

func (r *Refusal) Error() string { return r.Param + ": " + r.Why }

// Refuse is the failure of a call that is not made.
func Refuse(c provider.Call, policy *fault.Policy, r *Refusal) *fault.Failure {
	return Fail(c, policy, fault.Observation{Local: fault.Refused, Phase: fault.PhaseConnect, Param: r.Param, Message: r.Error(), Cause: r})
}

// Method is what an adapter calls: a path after the provider's address, and a query beside the provider's own.
type Method struct {
	Path  string
	Query map[string]string
}

// address is a method's address at a provider.
func address(p *catalog.Provider, m Method) (*url.URL, error) {
	u, err := url.Parse(p.BaseURL)
	if err != nil {
		return nil, errors.New("parsing the provider's address: it is no URL") // the error would repeat the address
	}
	u.Path += m.Path
	if len(p.Query)+len(m.Query) == 0 {
		return u, nil
	}
	q := u.Query()
	for _, own := range []map[string]string{p.Query, m.Query} {
		for name, value := range own {
			q.Set(name, value)
		}
	}
	u.RawQuery = q.Encode()
	return u, nil
}

// Finish adds what every call of an adapter sends to the headers that it has so far.
func Finish(h http.Header, c provider.Call) {
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "spillway")
	if c.Stream {
		h.Set("Accept", "text/event-stream")
	} else {
		h.Set("Accept", "application/json")
	}
}

// Post makes an adapter's one call and returns a 2xx, whose body must be closed. Everything else is a classified failure.
func (c *Client) Post(ctx context.Context, call provider.Call, policy *fault.Policy, m Method, h http.Header, body []byte) (*Exchange, *fault.Failure) {
	return c.send(ctx, http.MethodPost, call, policy, m, h, body)
}

func (c *Client) send(ctx context.Context, verb string, call provider.Call, policy *fault.Policy, m Method, h http.Header, body []byte) (*Exchange, *fault.Failure) {
	target, err := address(call.Channel.Provider, m)
	if err != nil {
		return nil, Fail(call, policy, fault.Observation{Local: fault.Dial, Phase: fault.PhaseConnect, Cause: err})
	}
	x, o := c.Do(ctx, Request{Method: verb, URL: target, Header: h, Body: body, Fresh: call.Fresh, Vendor: call.Channel.Provider.Vendor})
	if o != nil {
		return nil, Fail(call, policy, *o)
	}
	if x.StatusCode/100 != 2 {
		defer x.Body.Close()
		return nil, Fail(call, policy, x.ReadError(time.Now()))
	}
	return x, nil
}

// Streams reports whether an answer is an event stream. Some servers forget to say so when they were asked for one; JSON
// is then an error, or an answer that is not streamed.
func (x *Exchange) Streams(asked bool) bool {
	media, _, _ := mime.ParseMediaType(x.Header.Get("Content-Type"))
	return media == "text/event-stream" || asked && !strings.HasSuffix(media, "json")
}
