package jobs

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"slices"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/media"
	"spillway/internal/route"
)

// planOf is the plan of a job as the configuration has it now.
func (e *Engine) planOf(ctx context.Context, j media.Job) *route.Plan {
	if e.Plan != nil {
		return e.Plan(ctx, j)
	}
	return e.plan(j)
}

// able are those of a plan who have an adapter, and have not refused the job, in the order of trying. The plan may have changed since one
// of them did: each is known by its name. Of a job from before their names were kept it is as many as refused it that are passed over.
func (e *Engine) able(p *route.Plan, j media.Job) []route.Candidate {
	all := slices.DeleteFunc(slices.Clone(p.Candidates), func(c route.Candidate) bool {
		return e.Studios[c.Channel.Provider.Kind] == nil || hasRefused(j, c)
	})
	nameless := max(j.Refusals-len(j.RefusedBy), 0)
	return all[min(nameless, len(all)):]
}

// hasRefused reports whether a candidate surely has not taken a job.
func hasRefused(j media.Job, c route.Candidate) bool {
	return slices.Contains(j.RefusedBy, media.Refuser{Channel: c.Channel.Name, Credential: alias(c)})
}

// last reports whether nobody else may be asked if one of so many refuses, too.
func last(j media.Job, able int) bool { return able == 1 || j.Refusals+1 >= maxRefusals }

// features are what a channel must be able to make.
var features = map[media.Kind]catalog.Feature{media.Video: catalog.Videos, media.Music: catalog.Music}

// plan is who may make a job: channels of its model alone, the preferred one first, then by priority, with the organization's own
// credentials before the platform's. Equals are drawn by their weights, for one job the same each time, whoever asks.
func (e *Engine) plan(j media.Job) *route.Plan {
	org := e.Catalog.Organizations[j.Organization]
	if org == nil {
		return &route.Plan{} // not in this configuration any more
	}
	var asked struct {
		Prefer string `json:"prefer"`
	}
	_ = json.Unmarshal(j.Request, &asked) // a body that is none was refused when the job was made
	p, err := route.ResolveWork(e.Catalog, org, WorkOf(j.Kind, j.Model, asked.Prefer), drawing(j.ID))
	if err != nil {
		return &route.Plan{} // likewise
	}
	return p
}

// WorkOf is what a job asks for, in the words of the plan.
func WorkOf(kind media.Kind, model, prefer string) route.Work {
	return route.Work{Model: chat.RequestedModel(model), Feature: features[kind], Prefer: prefer}
}

// drawing draws the same numbers for the same job each time.
func drawing(id string) func() float64 {
	sum := sha256.Sum256([]byte(id))
	return rand.New(rand.NewPCG(binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16]))).Float64 //nolint:gosec // it shares load, and guards nothing
}
