package gateway

import (
	"context"
	"slices"
	"strings"
	"time"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/route"
)

// Explanation is what a request would try, found out without trying it.
type Explanation struct {
	Route         string            `json:"route"`
	PolicyVersion string            `json:"policy_version"`
	ConfigVersion string            `json:"config_version"`
	Needs         []catalog.Feature `json:"needs"`
	Commit        catalog.Commit    `json:"commit"`
	MaxAttempts   int               `json:"max_attempts"`
	MaxRetries    int               `json:"max_retries"`
	MaxFallbacks  int               `json:"max_fallbacks"`
	// Candidates are in the order of trying.
	Candidates []ExplainedCandidate `json:"candidates"`
	// Considered are all channels that were looked at, each with the outcome.
	Considered []ExplainedChannel `json:"considered"`
}

// ExplainedCandidate is one channel with one credential.
type ExplainedCandidate struct {
	Channel    string           `json:"channel"`
	Provider   string           `json:"provider"`
	Model      chat.RoutedModel `json:"model"`
	Region     string           `json:"region,omitempty"`
	Credential string           `json:"credential"`
}

// ExplainedChannel is a channel with the reason why it is, or is not, a candidate.
type ExplainedChannel struct {
	Channel string       `json:"channel"`
	Reason  route.Reason `json:"reason"`
}

// Explain plans a request and calls no provider.
func (g *Gateway) Explain(ctx context.Context, call Call) (*Explanation, *fault.Error) {
	j := g.begin(ctx, call)
	defer j.visit.End()
	for _, step := range []func(*journey) *fault.Error{g.authenticate, g.parse} {
		if err := step(j); err != nil {
			return nil, err
		}
	}
	if err := g.plan(j); err != nil && j.route == nil {
		return nil, err
	}
	e := &Explanation{Route: j.route.Route, PolicyVersion: g.policyOf(j).Version, ConfigVersion: g.Catalog.Version,
		Needs: append([]catalog.Feature{}, j.route.Needs.Features...), Commit: j.commitment().policy,
		MaxAttempts: j.limits.MaxAttempts, MaxRetries: j.limits.MaxRetries, MaxFallbacks: j.limits.MaxFallbacks,
		Candidates: []ExplainedCandidate{}, Considered: []ExplainedChannel{}}
	for _, c := range j.route.Candidates {
		e.Candidates = append(e.Candidates, ExplainedCandidate{Channel: c.Channel.Name, Provider: c.Channel.Provider.Name, Model: c.Channel.Model,
			Region: c.Channel.Region, Credential: c.Credential.Alias})
	}
	for _, c := range j.route.Considered {
		e.Considered = append(e.Considered, ExplainedChannel{Channel: c.Channel, Reason: c.Reason})
	}
	return e, nil
}

// Model is a route or model that a key may call.
type Model struct {
	ID chat.RequestedModel
	// Providers are those behind it, in no order of preference; a route is owned by the gateway.
	Providers []string
	// Route says that the id is a route's alias.
	Route bool
	// Cannot lists what none of its channels can do. Context and MaxOutput are the largest known, 0: not known.
	Cannot             []catalog.Feature
	Context, MaxOutput int64
}

// Models lists what a key may call, by id.
func (g *Gateway) Models(call Call) ([]Model, *fault.Error) {
	j := &journey{call: call, start: time.Now()}
	if err := g.authenticate(j); err != nil {
		return nil, err
	}
	var out []Model
	for alias, r := range g.Catalog.Routes {
		if j.caller.Organization.Allows(alias) {
			var channels []*catalog.Channel
			for _, m := range r.Models {
				channels = append(channels, g.Catalog.ByModel(m)...)
			}
			m := describeModel(alias, channels)
			m.Route = true
			out = append(out, m)
		}
	}
	for _, ch := range g.Catalog.Channels {
		id := chat.RequestedModel(ch.Model)
		known := func(m Model) bool { return m.ID == id }
		if j.caller.Organization.Allows(id) && !slices.ContainsFunc(out, known) {
			out = append(out, describeModel(id, g.Catalog.ByModel(id)))
		}
	}
	slices.SortFunc(out, func(a, b Model) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return out, nil
}

// Model describes one route or model that a key may call, also as provider/model; ok is false when there is none.
func (g *Gateway) Model(call Call, id chat.RequestedModel) (m Model, ok bool, err *fault.Error) {
	list, err := g.Models(call)
	if err != nil {
		return Model{}, false, err
	}
	for _, m := range list {
		if m.ID == id {
			return m, true, nil
		}
	}
	channels := g.Catalog.ByModel(id)
	if len(channels) == 0 || !slices.ContainsFunc(list, func(m Model) bool { return string(m.ID) == string(channels[0].Model) }) {
		return Model{}, false, nil
	}
	return describeModel(id, channels), true, nil
}

// describeModel sums up the channels of a model: it can do what one of them can.
func describeModel(id chat.RequestedModel, channels []*catalog.Channel) Model {
	m := Model{ID: id}
	for i, ch := range channels {
		if !slices.Contains(m.Providers, ch.Provider.Name) {
			m.Providers = append(m.Providers, ch.Provider.Name)
		}
		if i == 0 {
			m.Cannot = ch.Capabilities.Lacking()
		}
		m.Cannot = slices.DeleteFunc(m.Cannot, func(f catalog.Feature) bool { return !ch.Capabilities.Lacks(f) || f.Fetched() })
		m.Context = max(m.Context, ch.Capabilities.Context)
		m.MaxOutput = max(m.MaxOutput, ch.Capabilities.MaxOutput)
	}
	return m
}
