package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"spillway/internal/provider"
)

const (
	// maxSilence bounds the wait for the headers of a work, or of a callback's answer.
	maxSilence = 15 * time.Second
	// maxTelling bounds a callback, all of it.
	maxTelling = 10 * time.Second
)

// Work opens the finished work of a provider at its address, as a stream that is not bounded in size: who reads it is. The
// artefact that is returned has a Body to close, and the type and size that the far end gave.
//
// The artefact's header, which may hold a credential, goes to the host of its address alone: a redirect to another one loses
// it. Addresses must be https and public, except the work's own where Known names its host. The error wraps provider.ErrGone or
// provider.ErrUntrusted, or may pass; the address is in none.
func (c *Client) Work(ctx context.Context, a provider.Artifact) (provider.Artifact, error) {
	u, err := url.Parse(a.URL)
	if err != nil || !allowed(u) {
		return provider.Artifact{}, provider.ErrUntrusted
	}
	own := hostPort(u)
	known := c.Known != nil && c.Known(own)
	if !known && !trusted(u) {
		return provider.Artifact{}, provider.ErrUntrusted
	}
	dial := func(ctx context.Context, network, hostPort string) (net.Conn, error) {
		if known && hostPort == own {
			return c.connect(ctx, network, hostPort)
		}
		return c.dial(ctx, network, hostPort)
	}
	header := a.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set("User-Agent", "spillway")
	client := &http.Client{Transport: c.transport(dial), CheckRedirect: func(next *http.Request, before []*http.Request) error {
		next.Header.Del("Referer")
		if same := next.URL.Scheme == u.Scheme && next.URL.Host == u.Host; len(before) > maxRedirects || !trusted(next.URL) && (!known || !same) {
			return provider.ErrUntrusted
		}
		for _, earlier := range append(before, next) {
			if earlier.URL.Host != u.Host || earlier.URL.Scheme != u.Scheme { // net/http gives each redirect the first header again
				next.Header = http.Header{"User-Agent": header["User-Agent"]}
			}
		}
		return nil
	}}
	resp, err := client.Do((&http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: header}).WithContext(ctx))
	if err != nil {
		return provider.Artifact{}, workError(ctx, err)
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return provider.Artifact{Body: resp.Body, ContentType: resp.Header.Get("Content-Type"), Size: max(resp.ContentLength, 0)}, nil
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusGone:
		err = provider.ErrGone
	default:
		err = errors.New("it is not given out now")
	}
	resp.Body.Close()
	return provider.Artifact{}, fmt.Errorf("opening the work: status %d: %w", resp.StatusCode, err)
}

// workError drops what an error says beside its reason: it may repeat the address, which may be signed.
func workError(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, provider.ErrUntrusted):
		return provider.ErrUntrusted
	case ctx.Err() != nil:
		return fmt.Errorf("opening the work: %w", ctx.Err())
	default:
		return fmt.Errorf("opening the work: %w", refusalOf(err))
	}
}

// Tell posts an event to a callback's address, which must be https and public, except where Receiver names its host, and returns the
// answer's status: a redirect is not followed. The answer's body is not read. The address is in no error.
func (c *Client) Tell(ctx context.Context, address string, header http.Header, body []byte) (status int, err error) {
	u, err := url.Parse(address)
	if err != nil || !allowed(u) {
		return 0, Unreachable
	}
	dial := c.dial
	if c.Receiver != nil && c.Receiver(hostPort(u)) {
		dial = c.connect
	} else if !trusted(u) {
		return 0, Unreachable
	}
	own, cancel := context.WithTimeout(ctx, maxTelling)
	defer cancel()
	header = header.Clone()
	header.Set("User-Agent", "spillway")
	client := &http.Client{Transport: c.transport(dial), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do((&http.Request{Method: http.MethodPost, URL: u, Host: u.Host, Header: header, ContentLength: int64(len(body)),
		Body: io.NopCloser(bytes.NewReader(body))}).WithContext(own))
	switch {
	case err == nil:
		resp.Body.Close()
		return resp.StatusCode, nil
	case ctx.Err() != nil:
		return 0, fmt.Errorf("telling the callback: %w", ctx.Err())
	default:
		return 0, fmt.Errorf("telling the callback: %w", refusalOf(err))
	}
}

// trusted reports whether a stranger's address may be asked: over TLS. That its host is public is judged where the connection
// is made.
func trusted(u *url.URL) bool { return allowed(u) && u.Scheme == "https" }

// Hosts reports whether a host and port is that of one of the addresses; an empty address names none.
func Hosts(addresses ...string) func(hostPort string) bool {
	named := map[string]bool{}
	for _, a := range addresses {
		if u, err := url.Parse(a); err == nil && u.Hostname() != "" {
			named[strings.ToLower(hostPort(u))] = true
		}
	}
	return func(hostPort string) bool { return named[strings.ToLower(hostPort)] }
}

// hostPort is the host of an address with its port, which its scheme may imply.
func hostPort(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	return net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
}

func (c *Client) transport(dial func(ctx context.Context, network, hostPort string) (net.Conn, error)) *http.Transport {
	return &http.Transport{DialContext: dial, TLSClientConfig: c.TLS, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
		ResponseHeaderTimeout: maxSilence, TLSHandshakeTimeout: maxConnect}
}
