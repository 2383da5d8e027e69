// Package wire is what all adapters share: HTTP, with one transport per origin, tuned for an environment that is frozen
// between requests, and a trace of each call that tells what had been sent when it failed; and the Reply that reads an answer.
//
// It makes exactly the calls that it is asked to make. Go's transport replays a request by itself only when it can
// rewind the body or the request is idempotent; the body here cannot be rewound and no Idempotency-Key is sent, and a GET
// without a body has a connection of its own, so it never does. Redirects are not followed: a credential must not travel to another host.
package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"spillway/internal/fault"
)

const (
	// ConnectTimeout bounds dialling and the TLS handshake, each (contract.md §3.4).
	ConnectTimeout = 5 * time.Second
	// maxIdle is how long a kept connection is trusted by the wall clock. The monotonic clock stands still while an
	// environment is frozen, so the transport's own idle timer does not see that time.
	maxIdle      = 50 * time.Second
	pingAfter    = 5 * time.Second
	pingTimeout  = 2 * time.Second
	idlePerHost  = 64
	maxHeaderLen = 64 << 10
)

// Client makes calls. It is safe for concurrent use. The zero value dials the network.
type Client struct {
	// Dial replaces the network, for tests over an in-memory listener; nil: TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu      sync.Mutex
	origins map[string]*origin
}

type origin struct {
	transport *http.Transport
	once      *http.Transport // for requests that must have a connection of their own; nil: there was none yet
	lastUsed  time.Time       // wall clock, guarded by Client.mu
}

// Request is one call to make.
type Request struct {
	Method string
	URL    *url.URL
	Header http.Header
	Body   []byte
	// Fresh demands a connection that has carried no request before.
	Fresh bool
	// Vendor says whose answer it will be, and so in which header its id of the call stands: one of fault.Vendors.
	Vendor string
}

// Exchange is a call whose headers have arrived. Its body must be closed.
type Exchange struct {
	*http.Response
	vendor string
	ctx    context.Context
	trace  *trace
}

type trace struct {
	mu sync.Mutex
	// There is a connection, it had carried a request before, the request is written, a byte of the answer has come.
	got, reused, wrote, answered bool
}

// Do makes the call once. An error is a *fault.Failure's observation: a local cause with its phase.
func (c *Client) Do(ctx context.Context, r Request) (*Exchange, *fault.Observation) {
	transport := c.carrier(r)
	t := &trace{}
	req := (&http.Request{Method: r.Method, URL: r.URL, Host: r.URL.Host, Header: r.Header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: bodyOf(r), ContentLength: int64(len(r.Body))}).WithContext(httptrace.WithClientTrace(ctx, t.hooks()))
	resp, err := transport.RoundTrip(req) //nolint:bodyclose // the caller closes the exchange, as its comment says
	if err != nil {
		o := t.observe(ctx, err, fault.PhaseSent)
		return nil, &o
	}
	return &Exchange{Response: resp, vendor: r.Vendor, ctx: ctx, trace: t}, nil
}

// bodyOf is a request's body. An empty one is none: servers are not sure what an empty body of a GET is.
func bodyOf(r Request) io.ReadCloser {
	if len(r.Body) == 0 {
		return http.NoBody
	}
	return io.NopCloser(bytes.NewReader(r.Body))
}

// carrier is what makes a request's one call. Without a body, Go's transport sends a GET again by itself when a kept connection
// dies; over one that has carried nothing before, it does not.
func (c *Client) carrier(r Request) *http.Transport {
	t := c.transport(r.URL, r.Fresh)
	if r.Method != http.MethodGet || len(r.Body) > 0 {
		return t
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.origins[keyOf(r.URL)]
	if o.once == nil {
		o.once = o.transport.Clone()
		o.once.DisableKeepAlives = true
	}
	return o.once
}

// Broken describes an error while the body was read, of an answer that had its status by then. phase is how far it had come.
func (x *Exchange) Broken(err error, phase fault.Phase) fault.Observation {
	o := x.trace.observe(x.ctx, err, phase)
	o.Status, o.RequestID = x.StatusCode, x.RequestID()
	return o
}

func (t *trace) hooks() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) {
			t.mu.Lock()
			t.got, t.reused = true, i.Reused
			t.mu.Unlock()
		},
		WroteHeaders: func() {
			t.mu.Lock()
			t.wrote = true
			t.mu.Unlock()
		},
		GotFirstResponseByte: func() {
			t.mu.Lock()
			t.answered = true
			t.mu.Unlock()
		},
	}
}

// observe turns a transport error into facts. The context's cause comes first: an attempt that we ended ourselves fails
// with whatever error the connection happened to show.
func (t *trace) observe(ctx context.Context, err error, phase fault.Phase) fault.Observation {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // a failure must not match the error that says that an answer is whole
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	o := fault.Observation{Phase: phase, Sent: t.wrote, Reused: t.reused, Cause: err}
	switch {
	case !t.got:
		o.Phase = fault.PhaseConnect
	case t.answered && phase == fault.PhaseSent:
		o.Phase = fault.PhaseHeaders // the far end was alive
	}
	var local fault.Local
	switch {
	case errors.As(context.Cause(ctx), &local):
		o.Local = local
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		o.Local = fault.OutOfTime
	case ctx.Err() != nil:
		o.Local = fault.Left
	case !t.got:
		o.Local = fault.Dial
	default:
		o.Local = fault.Broken
	}
	return o
}

// RoundTrip makes one call over the origin's transport, for clients that bring their own requests: those of AWS. Like all
// calls here it is made once, and not over a connection that a freeze may have killed.
//
// The transport reads a body on beyond its length, to see that there is no more, when the answer may be here already. The SDK
// closes the body as soon as it is, and its body then fails with io.EOF where it is asked to write itself out, which costs the
// answer its connection in the middle (https://github.com/aws/aws-sdk-go-v2/issues/1825, 2737, 2935; smithy-go v1.28.9). It is only
// ever asked to be read here, at which a closed one just ends.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, ok := r.Body.(io.WriterTo); ok {
		plain := *r // the caller's stays as it is
		plain.Body = struct{ io.ReadCloser }{r.Body}
		r = &plain
	}
	return c.transport(r.URL, false).RoundTrip(r)
}

func keyOf(u *url.URL) string { return u.Scheme + "://" + u.Host }

// transport returns the origin's transport, without connections that a freeze may have killed.
func (c *Client) transport(u *url.URL, fresh bool) *http.Transport {
	key := keyOf(u)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.origins == nil {
		c.origins = map[string]*origin{}
	}
	o := c.origins[key]
	if o == nil {
		o = &origin{transport: c.newTransport()}
		c.origins[key] = o
	}
	now := time.Now().Round(0) // without the monotonic reading
	if fresh || now.Sub(o.lastUsed) > maxIdle {
		o.transport.CloseIdleConnections()
	}
	o.lastUsed = now
	return o.transport
}

func (c *Client) newTransport() *http.Transport {
	t := &http.Transport{
		DialContext:            c.Dial,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		TLSHandshakeTimeout:    ConnectTimeout,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        maxIdle,
		MaxResponseHeaderBytes: maxHeaderLen,
		DisableCompression:     true,
	}
	if c.Dial == nil {
		t.DialContext = (&net.Dialer{Timeout: ConnectTimeout, KeepAlive: 15 * time.Second}).DialContext
		t.Proxy = http.ProxyFromEnvironment
	}
	return t
}

// Close closes the idle connections.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.origins {
		o.transport.CloseIdleConnections()
	}
}

// RequestID is the provider's own id of the call; empty: it sent none.
func (x *Exchange) RequestID() string { return fault.RequestID(x.vendor, x.Header.Get) }

// ReadError reads at most fault.MaxErrorBody bytes of an error's body and gives the facts of the answer: status, hints,
// request id and the words of the envelope. A body that cannot be read to its end is judged by what has arrived, unless
// it was the request that ended.
func (x *Exchange) ReadError(now time.Time) fault.Observation {
	body, err := io.ReadAll(io.LimitReader(x.Body, fault.MaxErrorBody))
	if err != nil {
		if o := x.Broken(err, fault.PhaseHeaders); o.Local == fault.Left || o.Local == fault.OutOfTime || (o.Local == fault.Silent && len(body) == 0) {
			return o
		}
	}
	o := x.Answered()
	env, ok := fault.ParseAnswer(string(body), x.Header.Get)
	o.Parsed = ok
	o.Read(env, x.Header.Get, now)
	return o
}

// Answered gives the facts of the answer itself: its status, and how it came.
func (x *Exchange) Answered() fault.Observation {
	return fault.Observation{Status: x.StatusCode, Phase: fault.PhaseHeaders, Sent: true, Reused: x.trace.reused, RequestID: x.RequestID()}
}
