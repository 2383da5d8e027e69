package route

import (
	"net/url"

	"spillway/internal/redact"
)

// Hidden are the values of a candidate's configuration that no text of its provider may repeat.
func (c *Candidate) Hidden() redact.Hidden {
	p := c.Channel.Provider
	var h redact.Hidden
	if c.Credential != nil {
		h = append(h, c.Credential.Secret.Reveal())
	}
	if u, err := url.Parse(p.BaseURL); err == nil {
		h = append(h, u.Hostname(), u.Path)
	}
	for _, values := range []map[string]string{p.Headers, p.Query} {
		for _, v := range values {
			h = append(h, v)
		}
	}
	return h
}
