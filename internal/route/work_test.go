package route_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/route"
)

const studios = `{"version": "v",
	"providers": [{"name": "google", "kind": "veo", "base_url": "http://g/v1"}, {"name": "fal", "kind": "fal", "base_url": "http://f"},
		{"name": "eleven", "kind": "elevenlabs", "base_url": "http://e"}, {"name": "acme", "kind": "openai", "base_url": "http://a/v1"}, {"name": "off", "kind": "veo", "base_url": "env:UNSET_URL"}],
	"channels": [
		{"name": "second", "provider": "fal", "models": ["veo"], "priority": 2, "region": "us", "credentials": [{"alias": "k", "secret": "env:K"}]},
		{"name": "first", "provider": "google", "models": ["veo"], "priority": 1, "region": "eu", "credentials": [{"alias": "k", "secret": "env:K"}, {"alias": "own", "secret": "env:K", "organization": "bring"}]},
		{"name": "chats", "provider": "acme", "models": ["gpt"], "credentials": [{"alias": "k", "secret": "env:K"}]},
		{"name": "sings", "provider": "eleven", "models": ["music"], "credentials": [{"alias": "k", "secret": "env:K"}]},
		{"name": "heavy", "provider": "fal", "models": ["shared"], "weight": 3, "credentials": [{"alias": "k", "secret": "env:K"}]},
		{"name": "light", "provider": "google", "models": ["shared"], "weight": 1, "credentials": [{"alias": "k", "secret": "env:K"}]},
		{"name": "unkeyed", "provider": "fal", "models": ["unkeyed"], "credentials": [{"alias": "k", "secret": "env:UNSET"}]},
		{"name": "away", "provider": "off", "models": ["away"], "credentials": [{"alias": "k", "secret": "env:K"}]},
		{"name": "only", "provider": "google", "models": ["mine"], "byok_only": true, "credentials": [{"alias": "own", "secret": "env:K", "organization": "bring"}]},
		{"name": "open", "provider": "fal", "models": ["mine"], "credentials": [{"alias": "k", "secret": "env:K"}]}],
	"routes": [{"alias": "clip", "models": ["veo"]}, {"alias": "either", "models": ["gpt", "veo", "shared"], "rank": "latency"}, {"alias": "home", "models": ["veo"], "region": "us"},
		{"alias": "talk", "models": ["gpt"]}],
	"organizations": [{"name": "all", "models": ["*"], "default_model": "shared"}, {"name": "some", "models": ["gpt", "music", "veo"]}, {"name": "bring", "models": ["*"]},
		{"name": "lenient", "models": ["talk"], "default_model": "veo", "when_not_enabled": "default_model"}, {"name": "european", "models": ["*"], "region": "eu"},
		{"name": "none", "models": []}]}`

func TestWhoMayMakeAWork(t *testing.T) {
	c := load(t, studios)
	for name, tt := range map[string]struct {
		org        string
		work       route.Work
		candidates []string
		considered string
		code       fault.Code
	}{
		"the channels of a model, by priority":                                   {"all", route.Work{Model: "veo"}, []string{"first k", "second k"}, "first:ok;second:ok", ""},
		"no default model follows":                                               {"all", route.Work{Model: "fal/veo"}, []string{"second k"}, "second:ok", ""},
		"an alias of one model is that model":                                    {"all", route.Work{Model: "clip"}, []string{"first k", "second k"}, "first:ok;second:ok", ""},
		"a name of several is the first that makes such work, and no other":      {"all", route.Work{Model: "either"}, []string{"first k", "second k"}, "chats:other_model;first:ok;second:ok;heavy:other_model;light:other_model", ""},
		"auto is the organization's first that makes it":                         {"some", route.Work{Model: "auto", Feature: catalog.Music}, []string{"sings k"}, "chats:other_model;sings:ok;second:other_model;first:other_model", ""},
		"a preferred channel comes first":                                        {"all", route.Work{Model: "veo", Prefer: "second"}, []string{"second k", "first k"}, "second:ok;first:ok", ""},
		"one that does not make it is preferred in vain":                         {"all", route.Work{Model: "veo", Prefer: "chats"}, []string{"first k", "second k"}, "first:ok;second:ok", ""},
		"an organization's own key comes before the platform's":                  {"bring", route.Work{Model: "veo"}, []string{"first own", "first k", "second k"}, "first:ok;second:ok", ""},
		"who brings a key for a channel that takes no other is served by that":   {"bring", route.Work{Model: "mine"}, []string{"only own"}, "open:byok_only;only:ok", ""},
		"and nobody else is":                                                     {"all", route.Work{Model: "mine"}, []string{"open k"}, "only:no_credential;open:ok", ""},
		"a route keeps to its region":                                            {"all", route.Work{Model: "home"}, []string{"second k"}, "first:region;second:ok", ""},
		"so does an organization":                                                {"european", route.Work{Model: "veo"}, []string{"first k"}, "first:ok;second:region", ""},
		"what is not enabled is served by the default model where that is asked": {"lenient", route.Work{Model: "shared"}, []string{"first k", "second k"}, "first:ok;second:ok", ""},
		"nobody has a key":                                                       {"all", route.Work{Model: "unkeyed"}, nil, "unkeyed:no_credential", ""},
		"a provider without an address":                                          {"all", route.Work{Model: "away"}, nil, "away:no_address", ""},
		"a model that chats":                                                     {"all", route.Work{Model: "gpt"}, nil, "chats:no_videos", fault.UnsupportedModelAPI},
		"a model of the other kind":                                              {"all", route.Work{Model: "veo", Feature: catalog.Music}, nil, "first:no_music;second:no_music", fault.UnsupportedModelAPI},
		"a route of nothing that makes it":                                       {"all", route.Work{Model: "talk"}, nil, "chats:no_videos", fault.UnsupportedModelAPI},
		"auto of nothing":                                                        {"none", route.Work{Model: "auto"}, nil, "", fault.UnsupportedModelAPI},
		"nobody knows the name":                                                  {"all", route.Work{Model: "sora"}, nil, "", fault.ModelNotFound},
		"not for this organization":                                              {"some", route.Work{Model: "shared"}, nil, "", fault.ModelNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.work.Feature == "" {
				tt.work.Feature = catalog.Videos
			}
			p, err := route.ResolveWork(c, c.Organizations[tt.org], tt.work, middle)
			if tt.code != "" {
				require.NotNil(t, err)
				assert.Equal(t, tt.code, err.Code)
				assert.Equal(t, "model", err.Param)
			} else {
				require.Nil(t, err)
			}
			if p == nil {
				assert.Empty(t, tt.considered)
				return
			}
			var got []string
			for _, cand := range p.Candidates {
				got = append(got, cand.Channel.Name+" "+cand.Credential.Alias)
			}
			assert.Equal(t, tt.candidates, got)
			assert.Equal(t, tt.considered, p.String())
		})
	}
}

// TestEqualsShareTheWork: by their weights, and with the same numbers in the same order.
func TestEqualsShareTheWork(t *testing.T) {
	c := load(t, studios)
	first := map[string]int{}
	for n := range uint64(1000) {
		var names [2]string
		for i := range names {
			p, err := route.ResolveWork(c, c.Organizations["all"], route.Work{Model: chat.RequestedModel("shared"), Feature: catalog.Videos}, rand.New(rand.NewPCG(n, n)).Float64)
			require.Nil(t, err)
			require.Len(t, p.Candidates, 2)
			names[i] = p.Candidates[0].Channel.Name
		}
		assert.Equal(t, names[0], names[1])
		first[names[0]]++
	}
	assert.InDelta(t, 750, first["heavy"], 60)
	assert.InDelta(t, 250, first["light"], 60)
}
