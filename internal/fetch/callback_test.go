package fetch_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"spillway/internal/fetch"
)

func TestWhereEventsMayBeTold(t *testing.T) {
	for address, want := range map[string]bool{
		"https://hooks.example.com/x?a=b":      true,
		"https://hooks.example.com:8443":       true,
		"https://93.184.216.34/x":              true,
		"https://[2606:2800:220:1::1]/x":       true,
		"http://hooks.example.com/x":           false,
		"ftp://hooks.example.com/x":            false,
		"https://hooks.example.com/x#part":     false,
		"https://user:word@hooks.example.com/": false,
		"https:///x":                           false,
		"hooks.example.com":                    false,
		"":                                     false,
		"https://127.0.0.1/x":                  false,
		"https://10.1.2.3/x":                   false,
		"https://169.254.169.254/latest":       false,
		"https://192.168.1.1:8443/":            false,
		"https://[::1]/x":                      false,
		"https://[fd00::1]/x":                  false,
		"https://[::ffff:10.0.0.1]/x":          false,
		"https://2130706433/x":                 false,
		"https://0x7f000001/x":                 false,
		"https://localhost/x":                  false,
		"https://LOCALHOST./x":                 false,
		"https://printer.local/x":              false,
		"https://db.internal/x":                false,
		"https://127.1/x":                      false,
		"http://127.0.0.1:9/_sim/callback":     true, // the simulated provider of a developer's machine
		"http://127.0.0.1:10/_sim/callback":    false,
	} {
		c := &fetch.Client{Receiver: fetch.Hosts("http://127.0.0.1:9/v1")}
		assert.Equal(t, want, c.MayTell(address), address)
	}
	assert.False(t, (&fetch.Client{}).MayTell("http://127.0.0.1:9/_sim/callback"))
}
