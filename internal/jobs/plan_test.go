package jobs_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/fault"
	"spillway/internal/jobs"
	"spillway/internal/media"
	"spillway/internal/route"
)

// TestThoseWhoRefusedAJobArePassedBy: also where equals are drawn by their weights, by whoever looks, each is asked once.
func TestThoseWhoRefusedAJobArePassedBy(t *testing.T) {
	seen := map[string]bool{}
	for n := range 20 {
		w := newWorld()
		w.studio.submit, w.studio.poll = []submitted{{err: status(429, fault.RateLimited)}}, []polled{pending()}
		o := order()
		o.Model, o.Key = "equals", fmt.Sprint("k", n)
		j := w.post(t, o)
		assert.Equal(t, media.Failed, j.State)
		assert.ElementsMatch(t, []string{"left", "right"}, w.studio.asked)
		seen[w.studio.asked[0]] = true
	}
	assert.Len(t, seen, 2, "they share the load")
}

// candidates are some of the configuration, by channel and credential.
func candidates(names ...string) (all []route.Candidate) {
	for _, name := range names {
		channel, credential, _ := strings.Cut(name, " ")
		ch := loaded.ByName(channel)
		for _, c := range ch.Credentials {
			if c.Alias == credential {
				all = append(all, route.Candidate{Channel: ch, Credential: c})
			}
		}
	}
	return all
}

// TestWhoRefusedIsKnownByName: whatever the plan has become since, none is asked twice, and none is passed over for another.
func TestWhoRefusedIsKnownByName(t *testing.T) {
	throttled, one, two := submitted{err: status(429, fault.RateLimited)}, media.Refuser{Channel: "one", Credential: "main"}, media.Refuser{Channel: "two", Credential: "main"}
	for name, c := range map[string]struct {
		refusals  int
		refusedBy []media.Refuser
		plan      []string
		asked     []string
		want      media.State
	}{
		"nobody has":                                           {0, nil, []string{"one main", "two main"}, []string{"one", "two"}, media.Failed},
		"the first":                                            {1, []media.Refuser{one}, []string{"one main", "two main"}, []string{"two"}, media.Failed},
		"the order has changed since":                          {1, []media.Refuser{one}, []string{"two main", "one main"}, []string{"two"}, media.Failed},
		"one has come in front of it":                          {1, []media.Refuser{two}, []string{"one main", "two main", "left main"}, []string{"one", "left"}, media.Failed},
		"it has left, and nobody else does":                    {1, []media.Refuser{one}, []string{"two main", "left main"}, []string{"two", "left"}, media.Failed},
		"of the others there is none":                          {1, []media.Refuser{one}, []string{"one main"}, nil, media.Queued},
		"with another key of the same":                         {1, []media.Refuser{one}, []string{"one own", "one main", "two main"}, []string{"one", "two"}, media.Failed},
		"both, and there are three":                            {2, []media.Refuser{one, two}, []string{"one main", "two main", "left main"}, []string{"left"}, media.Failed},
		"three: the fourth is the last that is asked":          {3, []media.Refuser{one, two, {Channel: "gone", Credential: "main"}}, []string{"left main", "right main"}, []string{"left"}, media.Failed},
		"from before names were kept: as many as refused":      {1, nil, []string{"one main", "two main"}, []string{"two"}, media.Failed},
		"from before names were kept, and one since":           {2, []media.Refuser{two}, []string{"one main", "two main", "left main"}, []string{"left"}, media.Failed},
		"from before names were kept, and the plan is shorter": {3, nil, []string{"one main", "two main"}, nil, media.Queued},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.studio.submit, w.engine.Plan = []submitted{throttled}, func(context.Context, media.Job) *route.Plan {
				return &route.Plan{Candidates: candidates(c.plan...)}
			}
			j, _, err := w.engine.Begin(ctx, order())
			require.NoError(t, err)
			j.Refusals, j.RefusedBy, j.Version = c.refusals, c.refusedBy, j.Version+1
			require.NoError(t, w.memory.Replace(ctx, j))
			got, err := w.engine.Submit(ctx, j)
			if c.want == media.Queued {
				require.ErrorIs(t, err, jobs.ErrNobody)
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, c.want, got.State)
			assert.Equal(t, c.asked, w.studio.asked)
		})
	}
}

func TestAPreferredChannelIsAskedFirst(t *testing.T) {
	w := newWorld()
	w.studio.submit, w.studio.poll = []submitted{{err: status(429, fault.RateLimited)}}, []polled{pending()}
	o := order()
	o.Request = []byte(`{"model":"veo","prompt":"p","prefer":"two"}`)
	w.post(t, o)
	assert.Equal(t, []string{"two", "one"}, w.studio.asked)
}
