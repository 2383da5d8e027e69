package route

import (
	"slices"
	"strconv"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/fault"
)

// Work is what a media job asks for.
type Work struct {
	Model chat.RequestedModel
	// Feature is what makes it: catalog.Videos or catalog.Music.
	Feature catalog.Feature
	// Prefer names a channel to be tried first; empty: none.
	Prefer string
}

// ResolveWork makes the plan of a job for an organization. random draws numbers in [0, 1) for the share of equals; where it draws
// the same ones for one job each time, the plan stays the same.
//
// The candidates are channels of one model alone (contract.md §3.2). A name that stands for several, an alias or auto, is the
// first of them that makes such work; the channels of the others are considered with the reason other_model. Neither the
// organization's default model follows, nor does a route rank the channels: what an environment has seen lately is no
// order that stays the same. A channel that serves only those who bring their own key bars the others, as with chat.
func ResolveWork(c *catalog.Catalog, org *catalog.Organization, w Work, random func() float64) (*Plan, *fault.Error) {
	r := &chat.Request{Models: []chat.RequestedModel{w.Model}}
	p := &Plan{Policy: direct, Route: string(w.Model), Needs: Needs{request: r, params: map[catalog.Feature]string{}}}
	p.Needs.add(w.Feature, "model", true)
	p.Needs.In(org.Region)
	b := builder{plan: p, catalog: c, org: org, seen: map[*catalog.Channel]bool{}, random: random}
	models, policy := expand(c, org, w.Model)
	if models != nil && org.DefaultWhenDenied && !b.allows(w.Model, models) {
		w.Model = org.DefaultModel
		models, policy = expand(c, org, w.Model)
	}
	switch {
	case models == nil:
		return nil, unknownModel(r, 0)
	case !b.allows(w.Model, models):
		return nil, &fault.Error{Code: fault.ModelNotAllowed, Param: "model", Message: "this key may not call the requested model"}
	case policy != nil:
		p.Policy = policy
		p.Needs.In(policy.Region)
	}
	makes := func(m choice) bool {
		return slices.ContainsFunc(m.channels, func(ch *catalog.Channel) bool { return !ch.Capabilities.Lacks(w.Feature) })
	}
	for i := range models {
		models[i].rank = catalog.RankPriority
	}
	at := max(slices.IndexFunc(models, makes), 0)
	for i, m := range models {
		if i == at {
			b.models(models[i : i+1])
			continue
		}
		for _, ch := range m.channels {
			b.consider(ch, OtherModel)
		}
	}
	p.prefer(w.Prefer)
	if len(p.Candidates) > 0 {
		return p, nil
	}
	if !slices.ContainsFunc(models, makes) {
		return p, &fault.Error{Code: fault.UnsupportedModelAPI, Param: "model",
			Message: strconv.Quote(clip(p.Route, 80)) + " makes no " + string(w.Feature) + "; see GET /v1/models"}
	}
	return p, nil
}
