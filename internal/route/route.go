// Package route turns a request into an ordered list of candidates, each considered channel with its reason. It is
// pure: the catalog, the caller and the drawn random numbers go in. Eligibility comes before preference: a channel that
// cannot serve the request is never ahead of one that can.
package route

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/fault"
)

// Reason says why a channel is, or is not, among the candidates.
type Reason string

// The reasons; a missing feature reads "no_" and the feature's name.
const (
	OK            Reason = "ok"
	NotAllowed    Reason = "not_allowed"
	NoCredential  Reason = "no_credential"
	OutputTooLong Reason = "max_output"
	Unreachable   Reason = "no_address"
)

// Candidate is one channel with one credential, in the order of trying.
type Candidate struct {
	Channel    *catalog.Channel
	Credential *catalog.Credential
}

// Considered is a channel that was looked at, with the outcome.
type Considered struct {
	Channel string
	Reason  Reason
}

// Plan is what a request may try. Candidates of one channel stand next to each other.
type Plan struct {
	// Route is the name that the client called: an alias, or the model itself.
	Route string
	// Policy is the route's own; never nil.
	Policy     *catalog.Route
	Candidates []Candidate
	Considered []Considered
}

// Skipped reports whether a channel was passed over before the first candidate.
func (p *Plan) Skipped() bool {
	return len(p.Considered) > 0 && p.Considered[0].Reason != OK
}

// String is the compact form of X-LLM-Routing-Reason: `a:no_tools;b:ok`.
func (p *Plan) String() string {
	var b strings.Builder
	for i, c := range p.Considered {
		if i > 0 {
			b.WriteByte(';')
		}
		b.WriteString(c.Channel + ":" + string(c.Reason))
	}
	return b.String()
}

var direct = &catalog.Route{}

// Resolve makes the plan of a request for an organization. random draws numbers in [0, 1) for the share of equals.
func Resolve(c *catalog.Catalog, org *catalog.Organization, r *chat.Request, random func() float64) (*Plan, *fault.Error) {
	p := &Plan{Policy: direct, Route: string(r.Models[0])}
	needs := NeedsOf(r)
	seen := map[*catalog.Channel]bool{}
	for i, m := range r.Models {
		channels, policy := expand(c, org, m)
		if channels == nil {
			return nil, unknownModel(r, i)
		}
		if i == 0 && policy != nil {
			p.Policy = policy
		}
		if !org.Allows(m) && m != "auto" {
			if i == 0 {
				return nil, &fault.Error{Code: fault.ModelNotAllowed, Param: "model", Message: "this key may not call the requested model"}
			}
			for _, ch := range flatten(channels) {
				p.consider(ch, NotAllowed, seen)
			}
			continue
		}
		for _, ofModel := range channels {
			for _, ch := range order(ofModel, random) {
				p.add(ch, needs, seen, random)
			}
		}
	}
	p.prefer(r.Prefer)
	return p, nil
}

func unknownModel(r *chat.Request, i int) *fault.Error {
	param := "model"
	if i > 0 {
		param = "fallback_models"
	}
	return &fault.Error{Code: fault.ModelNotFound, Param: param,
		Message: "no route or model is called " + strconv.Quote(clip(string(r.Models[i]), 80)) + "; see GET /v1/models"}
}

// expand resolves a requested name into the channels of each of its models, in order; nil when the name is unknown.
func expand(c *catalog.Catalog, org *catalog.Organization, m chat.RequestedModel) ([][]*catalog.Channel, *catalog.Route) {
	if m == "auto" {
		var all [][]*catalog.Channel
		for _, own := range org.Models {
			if own != "*" {
				more, _ := expand(c, org, own)
				all = append(all, more...)
			}
		}
		return all, nil
	}
	if r := c.Routes[m]; r != nil {
		all := make([][]*catalog.Channel, 0, len(r.Models))
		for _, own := range r.Models {
			all = append(all, c.ByModel(own))
		}
		return all, r
	}
	if channels := c.ByModel(m); channels != nil {
		return [][]*catalog.Channel{channels}, nil
	}
	return nil, nil
}

func (p *Plan) add(ch *catalog.Channel, needs Needs, seen map[*catalog.Channel]bool, random func() float64) {
	if seen[ch] {
		return
	}
	reason := lacking(ch, needs)
	switch {
	case reason != OK:
	case ch.Provider.BaseURL == "":
		reason = Unreachable
	case len(ch.Credentials) == 0:
		reason = NoCredential
	}
	p.consider(ch, reason, seen)
	if reason != OK {
		return
	}
	weight := func(c *catalog.Credential) float64 { return c.Weight }
	for _, cred := range drawn(ch.Credentials, weight, random) {
		p.Candidates = append(p.Candidates, Candidate{Channel: ch, Credential: cred})
	}
}

func (p *Plan) consider(ch *catalog.Channel, why Reason, seen map[*catalog.Channel]bool) {
	if seen[ch] {
		return
	}
	seen[ch] = true
	p.Considered = append(p.Considered, Considered{Channel: ch.Name, Reason: why})
}

// prefer moves one channel to the front, among the candidates only: a channel that cannot serve stays out.
func (p *Plan) prefer(name string) {
	if name == "" {
		return
	}
	front := func(is func(string) bool, a, b string) int {
		return cmp.Compare(boolInt(!is(a)), boolInt(!is(b)))
	}
	is := func(s string) bool { return s == name }
	slices.SortStableFunc(p.Candidates, func(a, b Candidate) int { return front(is, a.Channel.Name, b.Channel.Name) })
	slices.SortStableFunc(p.Considered, func(a, b Considered) int { return front(is, a.Channel, b.Channel) })
}

// order sorts the channels of one model by priority and draws equals by weight.
func order(channels []*catalog.Channel, random func() float64) []*catalog.Channel {
	out := drawn(channels, func(c *catalog.Channel) float64 { return c.Weight }, random)
	slices.SortStableFunc(out, func(a, b *catalog.Channel) int { return cmp.Compare(a.Priority, b.Priority) })
	return out
}

// drawn shuffles by weight: the chance to come first is the weight's share, and so on among the rest (Efraimidis and
// Spirakis: order by -ln(u)/w).
func drawn[T any](in []T, weight func(T) float64, random func() float64) []T {
	if len(in) < 2 {
		return in
	}
	type ticket struct {
		item T
		key  float64
	}
	tickets := make([]ticket, len(in))
	for i, item := range in {
		tickets[i] = ticket{item, -math.Log(1-random()) / weight(item)}
	}
	slices.SortStableFunc(tickets, func(a, b ticket) int { return cmp.Compare(a.key, b.key) })
	out := make([]T, len(in))
	for i, t := range tickets {
		out[i] = t.item
	}
	return out
}

func flatten(lists [][]*catalog.Channel) []*catalog.Channel { return slices.Concat(lists...) }

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func clip(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}
