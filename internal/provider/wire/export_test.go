package wire

import (
	"crypto/x509"
	"net/url"
	"time"
)

// Trust makes the client trust a certificate at an origin. It must be called before the first call to it.
func (c *Client) Trust(u *url.URL, cert *x509.Certificate) {
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	t := c.transport(u, false)
	t.CloseIdleConnections() // makes the transport's own TLS configuration, with HTTP/2 in it
	t.TLSClientConfig.RootCAs = roots
}

// Thaw makes every origin look as if it had been used so much earlier by the wall clock, as after a freeze: the timers of
// the transport stood still meanwhile.
func (c *Client) Thaw(after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.origins {
		o.lastUsed = o.lastUsed.Add(-after)
	}
}
