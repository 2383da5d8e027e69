package jobs

import (
	"cmp"
	"context"
	"slices"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/media"
	"spillway/internal/route"
)

// able are those who may make a job, have an adapter, and have not refused it.
func (e *Engine) able(ctx context.Context, j media.Job) []route.Candidate {
	plan := e.Plan
	if plan == nil {
		plan = e.byPriority
	}
	all := slices.DeleteFunc(slices.Clone(plan(ctx, j)), func(c route.Candidate) bool { return e.Studios[c.Channel.Provider.Kind] == nil })
	all = all[:min(maxRefusals, len(all))]
	return all[min(j.Refusals, len(all)):]
}

// features are what a channel must be able to make.
var features = map[media.Kind]catalog.Feature{media.Video: catalog.Videos, media.Music: catalog.Music}

// byPriority are the channels of the job's model that make media, by priority, each with the organization's own credentials
// before the platform's. Where the organization brings a key for a channel that takes no other, it is served by such alone.
func (e *Engine) byPriority(_ context.Context, j media.Job) []route.Candidate {
	channels := slices.Clone(e.Catalog.ByModel(chat.RequestedModel(j.Model)))
	slices.SortStableFunc(channels, func(a, b *catalog.Channel) int { return cmp.Compare(a.Priority, b.Priority) })
	var all []route.Candidate
	exclusive := false
	for _, ch := range channels {
		if e.Studios[ch.Provider.Kind] == nil || ch.Capabilities.Lacks(features[j.Kind]) {
			continue
		}
		var own, platform []route.Candidate
		for _, c := range ch.Credentials {
			switch {
			case c.Organization == j.Organization:
				own = append(own, route.Candidate{Channel: ch, Credential: c})
			case c.Organization == "" && !ch.BYOKOnly:
				platform = append(platform, route.Candidate{Channel: ch, Credential: c})
			}
		}
		exclusive = exclusive || ch.BYOKOnly && len(own) > 0
		all = append(append(all, own...), platform...)
	}
	if exclusive {
		all = slices.DeleteFunc(all, func(c route.Candidate) bool { return !c.Channel.BYOKOnly })
	}
	return all
}
