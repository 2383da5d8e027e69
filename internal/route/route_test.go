package route_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/route"
)

// load loads a configuration in which every variable is set.
func load(t require.TestingT, text string) *catalog.Catalog {
	c, err := catalog.Load([]byte(text), func(name string) string {
		if strings.HasPrefix(name, "UNSET") {
			return ""
		}
		return "the-value-of-" + name
	})
	require.NoError(t, err)
	return c
}

// middle draws the same number each time: equals stay in the order of the file.
func middle() float64 { return 0.5 }

const sample = `{
	"version": "v",
	"providers": [
		{"name": "p", "kind": "openai", "base_url": "http://p/v1"},
		{"name": "q", "kind": "openai", "base_url": "http://q/v1"},
		{"name": "off", "kind": "openai", "base_url": "env:UNSET_URL"}
	],
	"channels": [
		{"name": "fast-p", "provider": "p", "models": ["fast"], "credentials": [{"alias": "k1", "secret": "env:K1"}, {"alias": "k2", "secret": "env:K2"}]},
		{"name": "fast-q", "provider": "q", "models": ["fast"], "priority": 2, "credentials": [{"alias": "k3", "secret": "env:K3"}]},
		{"name": "fast-r", "provider": "q", "models": ["fast"], "region": "eu", "priority": 1, "credentials": [{"alias": "k4", "secret": "env:K4"}]},
		{"name": "slow", "provider": "p", "models": ["slow"], "cannot": ["tools", "images", "n", "stream"], "context": 1000, "max_output": 400,
			"credentials": [{"alias": "k1", "secret": "env:K1"}]},
		{"name": "unkeyed", "provider": "p", "models": ["unkeyed"], "credentials": [{"alias": "k", "secret": "env:UNSET_KEY"}]},
		{"name": "away", "provider": "off", "models": ["away"], "credentials": [{"alias": "k", "secret": "env:K1"}]},
		{"name": "nested", "provider": "q", "models": ["vendor/model"], "credentials": [{"alias": "k", "secret": "env:K1"}]},
		{"name": "own", "provider": "q", "models": ["mine"], "credentials": [{"alias": "platform", "secret": "env:K1"}, {"alias": "acme", "secret": "env:K2", "organization": "acme"}]},
		{"name": "byok", "provider": "p", "models": ["mine"], "priority": 1, "byok_only": true,
			"credentials": [{"alias": "platform", "secret": "env:K1"}, {"alias": "globex", "secret": "env:K2", "organization": "globex"}]}
	],
	"routes": [
		{"alias": "support", "models": ["slow", "fast"], "idle_ms": 5000},
		{"alias": "shadow", "models": ["fast"]}
	],
	"organizations": [
		{"name": "all", "models": ["*"]},
		{"name": "some", "models": ["support", "slow"]},
		{"name": "one", "models": ["fast"]},
		{"name": "acme", "models": ["*"], "default_model": "fast"},
		{"name": "globex", "models": ["*"], "default_model": "fast"},
		{"name": "lenient", "models": ["slow"], "default_model": "slow", "when_not_enabled": "default_model"}
	]
}`

func models(names ...chat.RequestedModel) *chat.Request {
	return &chat.Request{Models: names, Choices: 1}
}

func preferring(channel string, r *chat.Request) *chat.Request {
	r.Prefer = channel
	return r
}

// credentials are the candidates as channel/credential.
func credentials(p *route.Plan) string {
	var all []string
	for _, c := range p.Candidates {
		all = append(all, c.Channel.Name+"/"+c.Credential.Alias)
	}
	return strings.Join(all, " ")
}

func TestResolve(t *testing.T) {
	c := load(t, sample)
	withTools := models("slow", "fast")
	withTools.Tools = []chat.Tool{{Name: "f"}}
	for name, test := range map[string]struct {
		org        string
		request    *chat.Request
		considered string
		candidates string
	}{
		"an exact model is all its channels, by priority": {"all", models("fast"), "fast-p:ok;fast-r:ok;fast-q:ok", "fast-p/k1 fast-p/k2 fast-r/k4 fast-q/k3"},
		"provider/model is that provider's channels":      {"all", models("q/fast"), "fast-r:ok;fast-q:ok", "fast-r/k4 fast-q/k3"},
		"a model with a slash of its own":                 {"all", models("vendor/model"), "nested:ok", "nested/k"},
		"provider/model is split at the first slash":      {"all", models("q/vendor/model"), "nested:ok", "nested/k"},
		"an alias is its models in order":                 {"all", models("support"), "slow:ok;fast-p:ok;fast-r:ok;fast-q:ok", "slow/k1 fast-p/k1 fast-p/k2 fast-r/k4 fast-q/k3"},
		"models in order":                                 {"all", models("slow", "q/fast"), "slow:ok;fast-r:ok;fast-q:ok", "slow/k1 fast-r/k4 fast-q/k3"},
		"a channel is tried once":                         {"all", models("q/fast", "fast", "shadow"), "fast-r:ok;fast-q:ok;fast-p:ok", "fast-r/k4 fast-q/k3 fast-p/k1 fast-p/k2"},
		"auto is the organization's models in order":      {"some", models("auto"), "slow:ok;fast-p:ok;fast-r:ok;fast-q:ok", "slow/k1 fast-p/k1 fast-p/k2 fast-r/k4 fast-q/k3"},
		"auto of one": {"one", models("auto"), "fast-p:ok;fast-r:ok;fast-q:ok", "fast-p/k1 fast-p/k2 fast-r/k4 fast-q/k3"},

		"what cannot serve is passed over, before any preference": {"all", preferring("slow", withTools), "slow:no_tools;fast-p:ok;fast-r:ok;fast-q:ok", "fast-p/k1 fast-p/k2 fast-r/k4 fast-q/k3"},
		"a preferred channel comes first":                         {"all", preferring("fast-q", models("fast")), "fast-q:ok;fast-p:ok;fast-r:ok", "fast-q/k3 fast-p/k1 fast-p/k2 fast-r/k4"},
		"with all its credentials":                                {"all", preferring("fast-p", models("slow", "fast")), "fast-p:ok;slow:ok;fast-r:ok;fast-q:ok", "fast-p/k1 fast-p/k2 slow/k1 fast-r/k4 fast-q/k3"},
		"a preferred channel that nobody knows changes nothing":   {"all", preferring("gone", models("q/fast")), "fast-r:ok;fast-q:ok", "fast-r/k4 fast-q/k3"},
		"a preferred channel is not added":                        {"all", preferring("slow", models("q/fast")), "fast-r:ok;fast-q:ok", "fast-r/k4 fast-q/k3"},
		"without a key":                                           {"all", models("unkeyed", "slow"), "unkeyed:no_credential;slow:ok", "slow/k1"},
		"without an address":                                      {"all", models("away", "slow"), "away:no_address;slow:ok", "slow/k1"},
		"nothing that can serve":                                  {"all", models("away"), "away:no_address", ""},

		"a later model that is not allowed is dropped":    {"some", models("slow", "q/fast"), "slow:ok;fast-q:not_allowed;fast-r:not_allowed", "slow/k1"},
		"an allowed alias brings its models":              {"some", models("support"), "slow:ok;fast-p:ok;fast-r:ok;fast-q:ok", "slow/k1 fast-p/k1 fast-p/k2 fast-r/k4 fast-q/k3"},
		"an allowed name leads to a channel after all":    {"some", models("slow", "fast", "support"), "slow:ok;fast-p:ok;fast-r:ok;fast-q:ok", "slow/k1 fast-p/k1 fast-p/k2 fast-r/k4 fast-q/k3"},
		"an allowed model is allowed as provider/model":   {"one", models("q/fast"), "fast-r:ok;fast-q:ok", "fast-r/k4 fast-q/k3"},
		"a denied name after an allowed one says nothing": {"some", models("support", "fast"), "slow:ok;fast-p:ok;fast-r:ok;fast-q:ok", "slow/k1 fast-p/k1 fast-p/k2 fast-r/k4 fast-q/k3"},

		"an organization's own key comes first, the default model last": {"acme", models("mine"), "own:ok;byok:no_credential;fast-p:ok;fast-r:ok;fast-q:ok", "own/acme own/platform fast-p/k1 fast-p/k2 fast-r/k4 fast-q/k3"},
		"others use the platform's":                                     {"all", models("mine"), "own:ok;byok:no_credential", "own/platform"},
		"byok_only bars all others":                                     {"globex", models("mine"), "own:byok_only;byok:ok", "byok/globex"},
		"a default that is among them already":                          {"acme", models("fast"), "fast-p:ok;fast-r:ok;fast-q:ok", "fast-p/k1 fast-p/k2 fast-r/k4 fast-q/k3"},
		"a default instead of a refusal":                                {"lenient", models("fast"), "slow:ok", "slow/k1"},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := json.Marshal(test.request)
			require.NoError(t, err)
			p, refused := route.Resolve(c, c.Organizations[test.org], test.request, middle, nil)
			require.Nil(t, refused)
			assert.Equal(t, test.considered, p.String(), "X-LLM-Routing-Reason")
			assert.Equal(t, test.candidates, credentials(p))
			assert.NotNil(t, p.Policy)
			after, err := json.Marshal(test.request)
			require.NoError(t, err)
			assert.Equal(t, string(before), string(after), "the request is read only")
		})
	}
}

func TestRefusals(t *testing.T) {
	c := load(t, sample)
	for name, test := range map[string]struct {
		org     string
		request *chat.Request
		want    fault.Error
	}{
		"an unknown model": {"all", models("gpt-99"), fault.Error{Code: fault.ModelNotFound, Param: "model",
			Message: `no route or model is called "gpt-99"; see GET /v1/models`}},
		"an unknown provider":          {"all", models("r/fast"), fault.Error{Code: fault.ModelNotFound, Param: "model", Message: `no route or model is called "r/fast"; see GET /v1/models`}},
		"a model of another provider":  {"all", models("p/vendor/model"), fault.Error{Code: fault.ModelNotFound, Param: "model", Message: `no route or model is called "p/vendor/model"; see GET /v1/models`}},
		"another case is another name": {"all", models("Fast"), fault.Error{Code: fault.ModelNotFound, Param: "model", Message: `no route or model is called "Fast"; see GET /v1/models`}},
		"an unknown fallback":          {"all", models("fast", "gpt-99"), fault.Error{Code: fault.ModelNotFound, Param: "fallback_models", Message: `no route or model is called "gpt-99"; see GET /v1/models`}},
		"a long unknown name is cut": {"all", models(chat.RequestedModel(strings.Repeat("x", 200))), fault.Error{Code: fault.ModelNotFound, Param: "model",
			Message: `no route or model is called "` + strings.Repeat("x", 80) + `…"; see GET /v1/models`}},
		"a name with quotes and newlines stays one line": {"all", models("a\"\n"), fault.Error{Code: fault.ModelNotFound, Param: "model",
			Message: `no route or model is called "a\"\n"; see GET /v1/models`}},
		"a model that is not allowed":  {"some", models("fast"), fault.Error{Code: fault.ModelNotAllowed, Param: "model", Message: "this key may not call the requested model"}},
		"an alias that is not allowed": {"one", models("support"), fault.Error{Code: fault.ModelNotAllowed, Param: "model", Message: "this key may not call the requested model"}},
		"an alias of an allowed model": {"one", models("shadow"), fault.Error{Code: fault.ModelNotAllowed, Param: "model", Message: "this key may not call the requested model"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, refused := route.Resolve(c, c.Organizations[test.org], test.request, middle, nil)
			assert.Nil(t, p)
			require.NotNil(t, refused)
			assert.Equal(t, &test.want, refused)
		})
	}
}

func TestRouteAndPolicy(t *testing.T) {
	c := load(t, sample)
	for name, test := range map[string]struct {
		request *chat.Request
		route   string
		idle    float64
	}{
		"an alias has its policy":           {models("support"), "support", 5},
		"a model has none":                  {models("slow"), "slow", 0},
		"the first name's policy counts":    {models("support", "shadow"), "support", 5},
		"a later alias does not bring its":  {models("slow", "support"), "slow", 0},
		"provider/model is called as it is": {models("q/fast"), "q/fast", 0},
	} {
		t.Run(name, func(t *testing.T) {
			p, refused := route.Resolve(c, c.Organizations["all"], test.request, middle, nil)
			require.Nil(t, refused)
			assert.Equal(t, test.route, p.Route)
			assert.Equal(t, test.idle, p.Policy.Idle.Seconds())
		})
	}
}

func TestSizes(t *testing.T) {
	c := load(t, sample) // slow: a context of 1000, an output of 400
	text := func(bytes int) []chat.Message {
		return []chat.Message{{Role: chat.User, Parts: []chat.Part{{Kind: chat.TextPart, Text: strings.Repeat("x", bytes)}}}}
	}
	for name, test := range map[string]struct {
		output int64
		bytes  int
		want   string
	}{
		"no limit was set":                   {0, 10, "slow:ok"},
		"the longest output":                 {400, 10, "slow:ok"},
		"a longer output":                    {401, 10, "slow:max_output"},
		"what surely does not fit":           {0, 6*1001 + 6, "slow:context"},
		"what may fit is asked":              {0, 4 * 1001, "slow:ok"},
		"input and output together":          {400, 6 * 601, "slow:context"},
		"input and output that just may fit": {400, 6 * 600, "slow:ok"},
	} {
		t.Run(name, func(t *testing.T) {
			r := models("slow")
			r.MaxTokens, r.Messages = test.output, text(test.bytes)
			p, refused := route.Resolve(c, c.Organizations["all"], r, middle, nil)
			require.Nil(t, refused)
			assert.Equal(t, test.want, p.String())
		})
	}
	r := models("fast")
	r.MaxTokens, r.Messages = math.MaxInt32, text(10_000)
	p, refused := route.Resolve(c, c.Organizations["all"], r, middle, nil)
	require.Nil(t, refused)
	assert.Len(t, p.Candidates, 4, "what is not declared limits nothing")
}

// TestWeights draws many plans: equals come first by their share, and so do the credentials of a channel.
func TestWeights(t *testing.T) {
	c := load(t, `{"version": "v", "providers": [{"name": "p", "kind": "openai", "base_url": "http://p/v1"}],
		"channels": [
			{"name": "a", "provider": "p", "models": ["m"], "weight": 6, "credentials": [{"alias": "k", "secret": "env:K"}]},
			{"name": "b", "provider": "p", "models": ["m"], "weight": 3, "credentials": [{"alias": "k", "secret": "env:K"}]},
			{"name": "c", "provider": "p", "models": ["m"], "credentials": [{"alias": "x", "secret": "env:X", "weight": 9}, {"alias": "y", "secret": "env:Y"}]},
			{"name": "last", "provider": "p", "models": ["m"], "priority": 1, "weight": 1000, "credentials": [{"alias": "k", "secret": "env:K"}]}
		],
		"organizations": [{"name": "all", "models": ["*"]}]}`)
	random := rand.New(rand.NewPCG(1, 2)).Float64
	const n = 20_000
	first, second, key := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for range n {
		p, refused := route.Resolve(c, c.Organizations["all"], models("m"), random, nil)
		require.Nil(t, refused)
		first[p.Considered[0].Channel]++
		if p.Considered[0].Channel == "a" {
			second[p.Considered[1].Channel]++
		}
		require.Equal(t, "last", p.Considered[3].Channel, "priority comes before weight")
		for i, cand := range p.Candidates {
			if cand.Channel.Name == "c" {
				require.Equal(t, "c", p.Candidates[i+1].Channel.Name, "the credentials of a channel stand together")
				key[cand.Credential.Alias]++
				break
			}
		}
	}
	const tolerance = 0.015 // four standard deviations of the largest
	assert.InDelta(t, 0.6, first["a"]/n, tolerance)
	assert.InDelta(t, 0.3, first["b"]/n, tolerance)
	assert.InDelta(t, 0.1, first["c"]/n, tolerance)
	assert.InDelta(t, 0.75, second["b"]/first["a"], tolerance, "the rest share as if the first were not there")
	assert.InDelta(t, 0.9, key["x"]/n, tolerance)
}

// TestPlansHold draws whole requests: each channel is considered once, each candidate was considered ok, those of one
// channel stand together, and nothing that a preference moved was lost.
func TestPlansHold(t *testing.T) {
	c := load(t, sample)
	names := []chat.RequestedModel{"fast", "slow", "q/fast", "p/fast", "unkeyed", "away", "mine", "vendor/model", "support", "shadow"}
	channels := []string{"", "fast-p", "fast-q", "fast-r", "slow", "unkeyed", "own", "byok", "gone"}
	orgs := []string{"all", "some", "one", "acme", "globex", "lenient"}
	rapid.Check(t, func(t *rapid.T) {
		r := &chat.Request{Models: rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 5, rapid.ID[chat.RequestedModel]).Draw(t, "models"),
			Choices: rapid.IntRange(1, 2).Draw(t, "n"), Stream: rapid.Bool().Draw(t, "stream")}
		org := c.Organizations[rapid.SampledFrom(orgs).Draw(t, "organization")]
		seed := rapid.Uint64().Draw(t, "seed")
		p, refused := route.Resolve(c, org, r, rand.New(rand.NewPCG(seed, 0)).Float64, nil)
		if refused != nil {
			assert.Nil(t, p)
			return
		}
		reasons := map[string]route.Reason{}
		for _, seen := range p.Considered {
			assert.NotContains(t, reasons, seen.Channel)
			reasons[seen.Channel] = seen.Reason
		}
		left := map[string]bool{}
		for i, cand := range p.Candidates {
			name := cand.Channel.Name
			assert.Equal(t, route.OK, reasons[name])
			assert.False(t, left[name], "%s stands apart from itself", name)
			if i > 0 && p.Candidates[i-1].Channel != cand.Channel {
				left[p.Candidates[i-1].Channel.Name] = true
			}
			assert.Contains(t, []string{"", org.Name}, cand.Credential.Organization, "nobody uses another's key")
		}
		for name, reason := range reasons {
			if reason == route.OK {
				assert.True(t, strings.Contains(credentials(p), name+"/"), "%s is ok and no candidate", name)
			}
		}
		r.Prefer = rapid.SampledFrom(channels).Draw(t, "prefer")
		preferred, refused := route.Resolve(c, org, r, rand.New(rand.NewPCG(seed, 0)).Float64, nil)
		require.Nil(t, refused)
		assert.ElementsMatch(t, p.Candidates, preferred.Candidates)
		assert.ElementsMatch(t, p.Considered, preferred.Considered)
		if reasons[r.Prefer] == route.OK {
			assert.Equal(t, r.Prefer, preferred.Candidates[0].Channel.Name)
		}
	})
}

func TestString(t *testing.T) {
	assert.Equal(t, "", (&route.Plan{}).String())
	assert.Equal(t, "a:no_tools;b:ok", (&route.Plan{Considered: []route.Considered{{Channel: "a", Reason: "no_tools"}, {Channel: "b", Reason: route.OK}}}).String())
}
