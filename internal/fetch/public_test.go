package fetch

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOnlyHostsOfThePublicInternetArePublic(t *testing.T) {
	for address, want := range map[string]bool{
		"93.184.215.14": true, "1.1.1.1": true, "223.255.255.255": true, "172.32.0.1": true, "100.63.255.255": true, "100.128.0.0": true, "192.0.1.1": true,
		"2606:4700:4700::1111": true, "2a00:1450:4001:830::200e": true, "::ffff:93.184.215.14": true, "64:ff9b::5db8:d70e": true,

		"127.0.0.1": false, "127.255.255.254": false, "::1": false, "0.0.0.0": false, "0.1.2.3": false, "::": false,
		"10.0.0.1": false, "172.16.0.1": false, "172.31.255.255": false, "192.168.1.1": false, "fc00::1": false, "fd00:ec2::254": false,
		"169.254.169.254": false, "169.254.100.1": false, "fe80::1": false, "fe80::1%eth0": false, "fec0::1": false,
		"100.64.0.1": false, "100.127.255.255": false, "192.0.0.8": false, "192.88.99.1": false, "198.18.0.1": false, "198.19.255.255": false,
		"192.0.2.1": false, "198.51.100.1": false, "203.0.113.1": false, "2001:db8::1": false, "3fff::1": false,
		"224.0.0.1": false, "239.255.255.255": false, "ff02::1": false, "ff0e::1": false, "240.0.0.1": false, "255.255.255.255": false,
		"::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::ffff:169.254.169.254": false, "::ffff:100.64.0.1": false, "::127.0.0.1": false,
		"64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b:1::1": false, "2002:7f00:1::1": false, "2001:0:5db8:d70e::1": false,
		"2606:4700:4700::1111%eth0": false, "100::1": false, "5f00::1": false,
	} {
		t.Run(address, func(t *testing.T) { assert.Equal(t, want, public(netip.MustParseAddr(address))) })
	}
	assert.False(t, public(netip.Addr{}), "no address at all")
}

func TestAHostThatEndsInANumberIsNoName(t *testing.T) {
	for host, want := range map[string]bool{"2130706433": true, "0x7f000001": true, "0X7F.1": true, "0177.0.0.1": true, "127.1": true, "127.0.0.1.": true, "0x": true, "": true,
		"pictures.example": false, "1.example": false, "example.0xg": false, "3com": false, "a1": false} {
		assert.Equal(t, want, numeric(host), host)
	}
}
