// Package fetch reads the images and files that a request names by address, for candidates whose provider does not read
// them itself; it opens the finished works of media jobs, and tells their ends to callbacks. The address is the caller's, so it is not trusted: what it leads to must be a host of the public internet,
// looked up once and judged where the connection is made, at every redirect again; nothing of ours or of the caller's is
// sent along; and what comes back is bounded in size, time and kind.
//
// Not guarded here: hosts that are public by their number and are reached only from inside, such as IPv6 hosts of the
// function's own VPC. Those are its security groups' to guard.
package fetch

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"spillway/internal/chat"
	"spillway/internal/provider"
)

const (
	// maxSize is the largest image or file, in bytes.
	maxSize = 5 << 20
	// maxTime bounds a whole fetch, maxConnect one connection of it.
	maxTime    = 5 * time.Second
	maxConnect = 2 * time.Second
	// maxRedirects is how many redirects are followed.
	maxRedirects = 3
	maxHeader    = 64 << 10
)

// media are the types that are taken, by the kind of part: those that every provider with such a part reads. What the far
// end says of the type does not count.
var media = map[chat.PartKind][]string{
	chat.ImagePart: {"image/jpeg", "image/png", "image/gif", "image/webp"},
	chat.FilePart:  {"application/pdf"},
}

// Refusal is why nothing was fetched, in words that are fit for the caller: neither the address nor anything that the far
// end said is in it. What is not public and what does not answer read the same, so that nobody can explore a network by it.
type Refusal string

// The refusals.
const (
	NotHTTP     Refusal = "its address must begin with http:// or https:// and hold no user name"
	Unreachable Refusal = "no public host answers at its address"
	Redirected  Refusal = "its address redirects too often, or to one that is not secure"
	NotFound    Refusal = "it is not there for everybody: the answer's status is not 200"
	TooLarge    Refusal = "it is larger than 5 MB"
	TooSlow     Refusal = "it did not arrive within 5 seconds"
	WrongImage  Refusal = "it is no JPEG, PNG, GIF or WebP image"
	WrongFile   Refusal = "it is no PDF"
)

func (r Refusal) Error() string { return string(r) }

// Client fetches. The zero value uses the network, and no proxy: a proxy would look hosts up by itself. Its fields must not
// be changed after the first call; it is then safe for concurrent use.
type Client struct {
	// Lookup finds the addresses of a host; nil: the resolver of this machine.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial connects to an address that has been found public; nil: TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS configures secure connections; nil: the defaults.
	TLS *tls.Config
	// Known reports, for Work alone, whether an operator has vouched for a host and port, as by naming it in a provider's base
	// URL: it may be inside, and speak without TLS. nil: none is known.
	Known func(hostPort string) bool
	// Receiver reports the same for Tell alone. A callback's address is the client's, so that nothing but the simulated provider
	// of a developer's machine is ever vouched for; nil: none is.
	Receiver func(hostPort string) bool
}

// Fetch reads what stands at an address, as the content of a part of the kind. The error is a Refusal, unless the context
// ended first.
func (c *Client) Fetch(ctx context.Context, kind chat.PartKind, address string) (provider.Content, error) {
	u, err := url.Parse(address)
	if err != nil || !allowed(u) {
		return provider.Content{}, NotHTTP
	}
	own, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	data, err := c.read(own, u)
	switch {
	case err == nil:
		return content(kind, data)
	case ctx.Err() != nil:
		return provider.Content{}, ctx.Err() //nolint:wrapcheck // whose end it was is the caller's to know
	case own.Err() != nil:
		return provider.Content{}, TooSlow
	default:
		return provider.Content{}, refusalOf(err)
	}
}

// allowed reports whether an address may be asked at all.
func allowed(u *url.URL) bool {
	return (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil
}

// refusalOf drops what an error says beside its reason: it may repeat the address.
func refusalOf(err error) Refusal {
	if r, ok := errors.AsType[Refusal](err); ok {
		return r
	}
	return Unreachable
}

func (c *Client) read(ctx context.Context, u *url.URL) ([]byte, error) {
	transport := &http.Transport{DialContext: c.dial, TLSClientConfig: c.TLS, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader}
	client := &http.Client{Transport: transport, CheckRedirect: checkRedirect}
	header := http.Header{"User-Agent": {"spillway"}, "Accept": {"*/*"}}
	resp, err := client.Do((&http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: header}).WithContext(ctx))
	if err != nil {
		return nil, err //nolint:wrapcheck // refusalOf reads it, and nobody else
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, NotFound
	case resp.ContentLength > maxSize:
		return nil, TooLarge
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxSize+1))
	if err == nil && len(data) > maxSize {
		err = TooLarge
	}
	return data, err //nolint:wrapcheck // likewise
}

// checkRedirect judges where an answer sends us. The address is not told to where it leads: it may be signed.
func checkRedirect(next *http.Request, before []*http.Request) error {
	next.Header.Del("Referer")
	secure := before[len(before)-1].URL.Scheme == "https"
	if len(before) > maxRedirects || !allowed(next.URL) || secure && next.URL.Scheme != "https" {
		return Redirected
	}
	return nil
}

// dial connects to the first public address of a host that answers. The host is looked up once and the address itself is
// dialled, so that no second answer of the resolver can lead elsewhere.
func (c *Client) dial(ctx context.Context, network, hostPort string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, Unreachable
	}
	all, err := c.lookup(ctx, host)
	if err != nil {
		return nil, Unreachable
	}
	for _, a := range all {
		if !public(a) {
			continue
		}
		if conn, err := c.connect(ctx, network, net.JoinHostPort(a.Unmap().String(), port)); err == nil {
			return conn, nil
		}
	}
	return nil, Unreachable
}

func (c *Client) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	switch {
	case numeric(host):
		return nil, Unreachable
	case c.Lookup != nil:
		return c.Lookup(ctx, host)
	default:
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host) //nolint:wrapcheck // nobody reads it
	}
}

func (c *Client) connect(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, maxConnect)
	defer cancel()
	if c.Dial != nil {
		return c.Dial(ctx, network, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address) //nolint:wrapcheck // nobody reads it
}

// content holds what was read to the kind of part that it is for.
func content(kind chat.PartKind, data []byte) (provider.Content, error) {
	found := http.DetectContentType(data)
	for _, m := range media[kind] {
		if m == found {
			return provider.Content{Media: m, Base64: base64.StdEncoding.EncodeToString(data)}, nil
		}
	}
	if kind == chat.FilePart {
		return provider.Content{}, WrongFile
	}
	return provider.Content{}, WrongImage
}
