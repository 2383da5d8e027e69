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
	TooLong       Reason = "context"
	BYOKOnly      Reason = "byok_only"
	WrongRegion   Reason = "region"
	Unreachable   Reason = "no_address"
	OtherModel    Reason = "other_model"
)

// missing stands before the name of a feature that a channel lacks.
const missing = "no_"

// NoChat is the reason of a channel that makes videos or music.
const NoChat = missing + Reason(catalog.Chat)

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
	// Needs are those of the request.
	Needs Needs
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

// Ranking gives a channel's place among the channels of its model, lowest first, for a rank that is not its priority.
type Ranking func(catalog.Rank, *catalog.Channel) float64

// Resolve makes the plan of a request for an organization. random draws numbers in [0, 1) for the share of equals;
// ranking serves routes that order channels by what they cost or how fast they are.
//
// The order is: the requested models, each model's channels, each channel's credentials with the organization's own
// first, and at last the organization's default model. A channel that serves only those who bring their own key ends
// the list of its model and bars the default model.
func Resolve(c *catalog.Catalog, org *catalog.Organization, r *chat.Request, random func() float64, ranking Ranking) (*Plan, *fault.Error) {
	p := &Plan{Policy: direct, Route: string(r.Models[0]), Needs: NeedsOf(r)}
	b := builder{plan: p, catalog: c, org: org, seen: map[*catalog.Channel]bool{}, random: random, ranking: ranking}
	p.Needs.In(org.Region)
	for i, m := range r.Models {
		channels, policy := expand(c, org, m)
		if i == 0 && channels != nil && org.DefaultWhenDenied && !b.allows(m, channels) {
			m = org.DefaultModel
			channels, policy = expand(c, org, m)
		}
		if channels == nil {
			return nil, unknownModel(r, i)
		}
		if i == 0 && policy != nil {
			p.Policy = policy
			p.Needs.In(policy.Region) // the request came for this route: what follows it keeps to its region too
		}
		if b.allows(m, channels) {
			b.models(channels)
			continue
		}
		if i == 0 {
			return nil, &fault.Error{Code: fault.ModelNotAllowed, Param: "model", Message: "this key may not call the requested model"}
		}
		for _, ofModel := range channels {
			for _, ch := range ofModel.channels {
				b.consider(ch, NotAllowed)
			}
		}
	}
	if org.DefaultModel != "" && !b.byokOnly {
		channels, _ := expand(c, org, org.DefaultModel)
		b.models(channels)
	}
	p.prefer(r.Prefer)
	return p, nil
}

// builder adds channels to a plan.
type builder struct {
	plan    *Plan
	catalog *catalog.Catalog
	org     *catalog.Organization
	seen    map[*catalog.Channel]bool // among the candidates
	random  func() float64
	ranking Ranking
	// byokOnly says that a channel was added that serves only those who bring their own key.
	byokOnly bool
}

// allows reports whether the organization may call a name: itself, or as provider/model of a model that it may call.
func (b *builder) allows(m chat.RequestedModel, channels []choice) bool {
	if b.org.Allows(m) || m == "auto" || (m != "" && m == b.org.DefaultModel) {
		return true
	}
	return b.catalog.Routes[m] == nil && len(channels) == 1 && b.org.Allows(chat.RequestedModel(channels[0].channels[0].Model))
}

// models adds the channels of each model in turn.
func (b *builder) models(all []choice) {
	for _, ofModel := range all {
		ordered := b.order(ofModel)
		if own := slices.DeleteFunc(slices.Clone(ordered), func(c *catalog.Channel) bool { return !c.BYOKOnly || !b.bringsKey(c) }); len(own) > 0 {
			for _, ch := range ordered {
				if !slices.Contains(own, ch) {
					b.consider(ch, BYOKOnly)
				}
			}
			ordered, b.byokOnly = own, true
		}
		for _, ch := range ordered {
			b.add(ch, ofModel.region)
		}
	}
}

// bringsKey reports whether the organization has a key of its own for the channel.
func (b *builder) bringsKey(ch *catalog.Channel) bool {
	return slices.ContainsFunc(ch.Credentials, func(c *catalog.Credential) bool { return c.Organization == b.org.Name })
}

// add looks at one channel and lists its credentials if it can serve and lies in region; empty: any.
func (b *builder) add(ch *catalog.Channel, region string) {
	if b.seen[ch] {
		return
	}
	reason := lacking(ch, &b.plan.Needs)
	if reason == OK && region != "" && ch.Region != region {
		reason = WrongRegion
	}
	credentials := b.credentials(ch)
	switch {
	case reason != OK:
	case ch.Provider.BaseURL == "":
		reason = Unreachable
	case len(credentials) == 0:
		reason = NoCredential
	}
	b.consider(ch, reason)
	if reason != OK {
		return
	}
	b.seen[ch] = true
	for _, cred := range credentials {
		b.plan.Candidates = append(b.plan.Candidates, Candidate{Channel: ch, Credential: cred})
	}
}

// credentials are those that the organization may use: its own first, then the platform's.
func (b *builder) credentials(ch *catalog.Channel) []*catalog.Credential {
	var own, platform []*catalog.Credential
	for _, c := range ch.Credentials {
		switch {
		case c.Organization == b.org.Name:
			own = append(own, c)
		case c.Organization == "" && !ch.BYOKOnly:
			platform = append(platform, c)
		}
	}
	weight := func(c *catalog.Credential) float64 { return c.Weight }
	return append(slices.Clip(drawn(own, weight, b.random)), drawn(platform, weight, b.random)...)
}

// consider notes what became of a channel. The first refusal stands, until another name leads to the channel after all.
func (b *builder) consider(ch *catalog.Channel, why Reason) {
	considered := b.plan.Considered
	at := slices.IndexFunc(considered, func(c Considered) bool { return c.Channel == ch.Name })
	switch {
	case at < 0:
	case why == OK:
		considered = slices.Delete(considered, at, at+1)
	default:
		return
	}
	b.plan.Considered = append(considered, Considered{Channel: ch.Name, Reason: why})
}

func unknownModel(r *chat.Request, i int) *fault.Error {
	param := "model"
	if i > 0 {
		param = "fallback_models"
	}
	return &fault.Error{Code: fault.ModelNotFound, Param: param,
		Message: "no route or model is called " + strconv.Quote(clip(string(r.Models[i]), 80)) + "; see GET /v1/models"}
}

// A choice is a model that a name stands for.
type choice struct {
	channels []*catalog.Channel
	region   string       // of the route that names the model
	rank     catalog.Rank // likewise
}

// expand resolves a requested name into the models it stands for, in order; nil when the name is unknown.
func expand(c *catalog.Catalog, org *catalog.Organization, m chat.RequestedModel) ([]choice, *catalog.Route) {
	if m == "auto" {
		all := []choice{}
		for _, own := range org.Models {
			if own != "*" {
				more, _ := expand(c, org, own)
				all = append(all, more...)
			}
		}
		return all, nil
	}
	if r := c.Routes[m]; r != nil {
		all := make([]choice, 0, len(r.Models))
		for _, own := range r.Models {
			all = append(all, choice{c.ByModel(own), r.Region, r.Rank})
		}
		return all, r
	}
	if channels := c.ByModel(m); channels != nil {
		return []choice{{channels: channels}}, nil
	}
	return nil, nil
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

// order sorts the channels of one model by priority, or as its route ranks them, and draws equals by weight.
func (b *builder) order(m choice) []*catalog.Channel {
	out := drawn(m.channels, func(c *catalog.Channel) float64 { return c.Weight }, b.random)
	if m.rank == "" || m.rank == catalog.RankPriority {
		slices.SortStableFunc(out, func(x, y *catalog.Channel) int { return cmp.Compare(x.Priority, y.Priority) })
		return out
	}
	out = slices.Clone(out) // drawn may give the catalog's own slice
	slices.SortStableFunc(out, func(x, y *catalog.Channel) int { return cmp.Compare(b.ranking(m.rank, x), b.ranking(m.rank, y)) })
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
