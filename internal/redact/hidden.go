package redact

import (
	"regexp"
	"strings"
	"sync"
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

// Hidden are the values of a configuration that no text of a provider may repeat to a client or a record: the key, the host and the path of
// the address, static headers and query parameters. Short ones hide nothing. Without any, Word and Quote still hold back addresses, names of
// hosts, and what looks like a key.
type Hidden []string

func (h Hidden) in(text string) bool {
	for _, v := range h {
		if len(v) >= minHidden && strings.Contains(text, v) {
			return true
		}
	}
	return address().MatchString(text) || keyLike().MatchString(text)
}

// Word is a provider's word, if it is one and gives nothing away.
func (h Hidden) Word(s string) string {
	if len(s) > maxUpstreamWord || !identifier().MatchString(s) || h.in(s) {
		return ""
	}
	return s
}

// Quote is a provider's validation message, fit to be shown: bounded, and without the words that give something away.
func (h Hidden) Quote(s string) string {
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
