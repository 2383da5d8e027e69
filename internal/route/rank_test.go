package route_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/route"
)

const ranked = `{"version": "v",
"providers": [{"name": "p", "kind": "openai", "base_url": "http://p.test/v1"}],
"channels": [
  {"name": "first", "provider": "p", "models": ["m"], "priority": 0, "credentials": [{"alias": "k", "secret": "env:K"}]},
  {"name": "second", "provider": "p", "models": ["m"], "priority": 1, "credentials": [{"alias": "k", "secret": "env:K"}]},
  {"name": "third", "provider": "p", "models": ["m"], "priority": 2, "credentials": [{"alias": "k", "secret": "env:K"}]}],
"routes": [{"alias": "plain", "models": ["m"]}, {"alias": "fast", "models": ["m"], "rank": "latency"}, {"alias": "cheap", "models": ["m"], "rank": "cost"}],
"organizations": [{"name": "o", "models": ["*"]}]}`

// TestRank: a route's rank replaces the priority of the channels of each of its models.
func TestRank(t *testing.T) {
	c, err := catalog.Load([]byte(ranked), func(string) string { return "secret" })
	require.NoError(t, err)
	ranking := func(by catalog.Rank, ch *catalog.Channel) float64 {
		return map[catalog.Rank]map[string]float64{
			catalog.RankLatency: {"first": 3, "second": 1, "third": 2},
			catalog.RankCost:    {"first": 2, "second": 3, "third": 1},
		}[by][ch.Name]
	}
	for model, want := range map[chat.RequestedModel]string{
		"plain": "first:ok;second:ok;third:ok",
		"m":     "first:ok;second:ok;third:ok",
		"fast":  "second:ok;third:ok;first:ok",
		"cheap": "third:ok;first:ok;second:ok",
	} {
		for range 3 { // the catalog's own order is not touched
			p, refused := route.Resolve(c, c.Organizations["o"], &chat.Request{Models: []chat.RequestedModel{model}}, func() float64 { return 0.5 }, ranking)
			require.Nil(t, refused)
			assert.Equal(t, want, p.String(), model)
		}
	}
}

func TestLatencies(t *testing.T) {
	var l route.Latencies
	a, b := &catalog.Channel{}, &catalog.Channel{}
	assert.Zero(t, l.Of(a), "a channel that was not seen comes first")
	l.Observe(a, time.Second)
	assert.Equal(t, time.Second, l.Of(a))
	l.Observe(a, 2*time.Second)
	assert.Equal(t, 1200*time.Millisecond, l.Of(a))
	for range 50 {
		l.Observe(a, 100*time.Millisecond)
	}
	assert.InDelta(t, 0.1, l.Of(a).Seconds(), 0.001, "what was long ago is forgotten")
	assert.Zero(t, l.Of(b))
}
