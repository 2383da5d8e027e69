package route_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/route"
)

const regional = `{
	"version": "v",
	"providers": [{"name": "p", "kind": "openai", "base_url": "http://p"}],
	"channels": [
		{"name": "eu", "provider": "p", "models": ["m"], "region": "eu", "priority": 1, "credentials": [{"alias": "k", "secret": "env:K"}]},
		{"name": "us", "provider": "p", "models": ["m"], "region": "us", "credentials": [{"alias": "k", "secret": "env:K"}]},
		{"name": "other", "provider": "p", "models": ["n"], "credentials": [{"alias": "k", "secret": "env:K"}]}
	],
	"routes": [
		{"alias": "anywhere", "models": ["m"]},
		{"alias": "europe", "models": ["m", "n"], "region": "eu"}
	],
	"organizations": [
		{"name": "free", "models": ["*"]},
		{"name": "bound", "models": ["*"], "region": "eu", "default_model": "n"},
		{"name": "auto", "models": ["europe"]},
		{"name": "default", "models": ["*"], "default_model": "europe"}
	]
}`

func TestRegion(t *testing.T) {
	c, err := catalog.Load([]byte(regional), func(string) string { return "k" })
	require.NoError(t, err)
	tests := map[string]struct {
		organization string
		models       []chat.RequestedModel
		want         string
	}{
		"without a region any channel serves":               {"free", []chat.RequestedModel{"anywhere"}, "us:ok;eu:ok"},
		"a route keeps to its region":                       {"free", []chat.RequestedModel{"europe"}, "us:region;eu:ok;other:region"},
		"what follows the route keeps to it too":            {"free", []chat.RequestedModel{"europe", "n"}, "us:region;eu:ok;other:region"},
		"a route that follows keeps to its own":             {"free", []chat.RequestedModel{"n", "europe"}, "other:ok;us:region;eu:ok"},
		"an organization keeps to its region everywhere":    {"bound", []chat.RequestedModel{"m"}, "us:region;eu:ok;other:region"},
		"auto does not lose the region of a route":          {"auto", []chat.RequestedModel{"auto"}, "us:region;eu:ok;other:region"},
		"nor does a default model that is a route with one": {"default", []chat.RequestedModel{"n"}, "other:ok;us:region;eu:ok"},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) {
			plan, refused := route.Resolve(c, c.Organizations[test.organization], &chat.Request{Models: test.models}, func() float64 { return 0.5 }, nil)
			require.Nil(t, refused)
			assert.Equal(t, test.want, plan.String())
		})
	}
}
