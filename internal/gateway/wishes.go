package gateway

import (
	"cmp"
	"time"

	"spillway/internal/catalog"
)

const (
	// A client that asks for a prefix on a route that declares none gets these.
	defaultPrefixTokens = 20
	defaultPrefixTime   = time.Second
)

// commitment is the route's, or the client's own.
func (j *journey) commitment() commitment {
	p := j.route.Policy
	c := commitment{policy: cmp.Or(j.wishes.Commit, p.Commit, catalog.CommitFirstDelta), tokens: p.PrefixTokens, after: p.PrefixTime}
	if c.policy == catalog.CommitPrefix && c.tokens == 0 && c.after == 0 {
		c.tokens, c.after = defaultPrefixTokens, defaultPrefixTime
	}
	return c
}

func (j *journey) wholeTools() bool {
	return j.req.Stream && (j.wishes.WholeTools || j.route.Policy.WholeTools)
}
