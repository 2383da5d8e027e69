package gateway

import (
	"net/url"
	"regexp"
	"strings"
	"sync"

	"spillway/internal/route"
)

const (
	// maxUpstreamText is how much of a provider's own validation message a client sees, in characters.
	maxUpstreamText = 200
	// maxUpstreamWord is the longest word of a provider (a code, a type, a field) that is shown, in bytes.
	maxUpstreamWord = 80
	// minHidden is the length from which a configured value counts as one that must not be shown: "v1" and "true" hide
	// nothing.
	minHidden = 6
)

// The patterns are compiled when a provider's text is first shown, not at every cold start: that takes 0.1 ms of a whole CPU.
var (
	// address matches a word that holds an address or the name of a host.
	address = pattern(`(?i)://|(?:^|[^a-z0-9-])(?:[a-z0-9-]+\.)+(?:com|net|org|io|ai|dev|app|cloud|cn|eu|internal|local)(?:[^a-z0-9-]|$)|` +
		`(?:^|[^0-9.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?:[^0-9.]|$)`)
	// keyLike matches a word that holds a key in one of the forms that providers give them.
	keyLike = pattern(`(?i)(?:^|[^a-z0-9])(?:sk|pk|rk|gsk|xai|hf)[-_][a-z0-9_-]{8,}|AIza[a-z0-9_-]{20,}`)
	// identifier matches a provider's word: `invalid_value`, `messages[0].content`, `429`.
	identifier = pattern(`^[A-Za-z0-9_.:/\[\]-]+$`)
)

func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// hidden are the values of a candidate's configuration that no text of its provider may repeat to a client or a record:
// the key, the host and the path of the address, static headers and query parameters.
type hidden []string

func hiddenOf(c *route.Candidate) hidden {
	p := c.Channel.Provider
	h := hidden{c.Credential.Secret.Reveal()}
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

func (h hidden) in(text string) bool {
	for _, v := range h {
		if len(v) >= minHidden && strings.Contains(text, v) {
			return true
		}
	}
	return address().MatchString(text) || keyLike().MatchString(text)
}

// word is a provider's word, if it is one and gives nothing away.
func (h hidden) word(s string) string {
	if len(s) > maxUpstreamWord || !identifier().MatchString(s) || h.in(s) {
		return ""
	}
	return s
}

// quote is a provider's validation message, fit to be shown: bounded, and without the words that give something away.
func (h hidden) quote(s string) string {
	words := strings.Fields(s)
	kept := words[:0]
	for _, w := range words {
		if !h.in(w) {
			kept = append(kept, w)
		}
	}
	text := []rune(strings.Join(kept, " "))
	if len(text) > maxUpstreamText {
		text = append(text[:maxUpstreamText-1], '…')
	}
	return string(text)
}
