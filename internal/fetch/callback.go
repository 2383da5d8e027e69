package fetch

import (
	"net/netip"
	"net/url"
	"strings"
)

// MayTell reports whether an event may be posted to an address, as far as the address shows: that what its name leads to is public
// is judged where the connection is made.
func (c *Client) MayTell(address string) bool {
	u, err := url.Parse(address)
	if err != nil || !allowed(u) || u.Fragment != "" {
		return false
	}
	return c.Receiver != nil && c.Receiver(hostPort(u)) || trusted(u) && !inside(u.Hostname())
}

// inside reports whether a host is surely none of the public internet.
func inside(host string) bool {
	if a, err := netip.ParseAddr(host); err == nil {
		return !public(a)
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	// https://www.rfc-editor.org/rfc/rfc6761 and rfc6762: names that no public resolver knows.
	return numeric(host) || host == "localhost" || strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".local") || strings.HasSuffix(host, ".internal")
}
