package fetch

import (
	"net/netip"
	"strings"
)

// Addresses outside global are not fetched from, nor those in the blocks that are reserved although they lie inside it:
// loopback, private and link-local networks (the Lambda Runtime API and the metadata services are there), shared addresses
// of carriers, multicast, documentation, tunnels that hide another address. From the IANA registries of special-purpose
// addresses, https://www.iana.org/assignments/iana-ipv4-special-registry and …-ipv6-special-registry, 2026-11-30.
var (
	global = prefixes("0.0.0.0/0", "2000::/3")

	reserved = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
		"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")

	// translated holds IPv4 addresses that a network without IPv4 reaches through a translator (RFC 6052).
	translated = netip.MustParsePrefix("64:ff9b::/96")
)

func prefixes(all ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(all))
	for i, s := range all {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// public reports whether an address belongs to a host of the public internet.
func public(a netip.Addr) bool {
	if a.Zone() != "" {
		return false
	}
	if a = a.Unmap(); translated.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	return within(global, a) && !within(reserved, a)
}

func within(all []netip.Prefix, a netip.Addr) bool {
	for _, p := range all {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// numeric reports whether a host that is no IP address ends in a number, which some resolvers take for an address in
// decimal, octal or hexadecimal (https://url.spec.whatwg.org/#ends-in-a-number-checker). No name of the DNS does.
func numeric(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	digits := "0123456789"
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		last, digits = hex, "0123456789abcdef"
	}
	return strings.Trim(last, digits) == ""
}
