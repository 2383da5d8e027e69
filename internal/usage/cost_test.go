package usage_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"spillway/internal/chat"
	"spillway/internal/usage"
)

func TestCost(t *testing.T) {
	const (
		full  = "in 2 out 10 read 0.2 write 2.5 write1h 4 audio-in 32 audio-out 64"
		plain = "in 2 out 10"
	)
	for name, tc := range map[string]struct {
		list  string
		usage chat.Usage
		want  string // dollars; empty: unknown
	}{
		"nothing costs nothing":                            {full, chat.Usage{}, "0"},
		"input and output":                                 {full, chat.Usage{Prompt: 1_000_000, Completion: 1_000_000}, "12"},
		"one token of each":                                {full, chat.Usage{Prompt: 1, Completion: 1}, "0.000012"},
		"cached tokens are a part of the prompt":           {full, chat.Usage{Prompt: 1000, Cached: 900}, "0.00038"},                  // 100·2 + 900·0.2
		"cache writes are a part of the prompt":            {full, chat.Usage{Prompt: 1000, Cached: 500, CacheWrite: 400}, "0.0013"},  // 100·2 + 500·0.2 + 400·2.5
		"reasoning is a part of the output":                {full, chat.Usage{Completion: 1000, Reasoning: 900}, "0.01"},              // 1000·10
		"more cached than prompt is no refund":             {full, chat.Usage{Prompt: 100, Cached: 1000}, "0.0002"},                   // 1000·0.2
		"more cached and written than prompt is no refund": {full, chat.Usage{Prompt: 1000, Cached: 800, CacheWrite: 800}, "0.00216"}, // 800·0.2 + 800·2.5
		"negative counts count nothing":                    {full, chat.Usage{Prompt: -5, Completion: -5, Cached: -5, CacheWrite: -5}, "0"},
		"without a cache price cached tokens are input":    {plain, chat.Usage{Prompt: 1000, Cached: 900, CacheWrite: 100}, "0.002"},                       // 1000·2
		"without an hour's price it is a cache write":      {"in 2 write 2.5", withRaw(anthropicHour, chat.Usage{Prompt: 10, CacheWrite: 10}), "0.000025"}, // 10·2.5
		"an hour of cache costs more":                      {full, withRaw(anthropicHour, chat.Usage{Prompt: 100, CacheWrite: 100}), "0.00034"},            // 60·4 + 40·2.5
		"an hour of cache is never more than was written":  {full, withRaw(anthropicHour, chat.Usage{Prompt: 10, CacheWrite: 10}), "0.00004"},              // 10·4
		"audio has prices of its own":                      {full, withRaw(audio, chat.Usage{Prompt: 100, Completion: 50}), "0.00406"},                     // 60·2 + 40·32 + 10·10 + 40·64
		"audio without a price is text":                    {plain, withRaw(audio, chat.Usage{Prompt: 100, Completion: 50}), "0.0007"},                     // 100·2 + 50·10
		"an embedding has no output":                       {"in 0.13", chat.Usage{Prompt: 1000}, "0.00013"},
		"output that has no price":                         {"in 0.13", chat.Usage{Prompt: 1000, Completion: 1}, ""},
		"a model that is priced by the hour":               {"hour 0.36", chat.Usage{Prompt: 1000}, ""},
		"half a nano-dollar is rounded up":                 {"in 0.0005", chat.Usage{Prompt: 1}, "0.000000001"},
		"less than half is rounded down":                   {"in 0.000499", chat.Usage{Prompt: 1}, "0"},
		"rounded once, after the sum":                      {"in 0.0004 out 0.0004", chat.Usage{Prompt: 1, Completion: 1}, "0.000000001"},
		"a tier is chosen by all of the input":             {"in 1 out 2 read 0.1; over 100 in 3 out 4 read 0.3", chat.Usage{Prompt: 101, Cached: 100, Completion: 10}, "0.000073"}, // 1·3 + 100·0.3 + 10·4
		"and not by the uncached part":                     {"in 1 out 2 read 0.1; over 100 in 3 out 4 read 0.3", chat.Usage{Prompt: 100, Cached: 100, Completion: 10}, "0.00003"},  // 100·0.1 + 10·2
		"the largest cost":                                 {"in 1000", chat.Usage{Prompt: 9_223_372_036_854}, "9223372036.854"},
		"a cost beyond the range":                          {"in 1000", chat.Usage{Prompt: 9_223_372_036_855}, ""},
		"counts beyond all reason":                         {"in 999999999 out 999999999 read 999999999 write 999999999", chat.Usage{Prompt: math.MaxInt64, Completion: math.MaxInt64, Cached: math.MaxInt64, CacheWrite: math.MaxInt64}, ""},
		"a free model":                                     {"in 0 out 0", chat.Usage{Prompt: 1000, Completion: 1000}, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := usage.PriceOf(tc.list)
			require.NoError(t, err)
			got, ok := p.Cost(tc.usage, now)
			assert.Equal(t, tc.want != "", ok)
			if ok {
				assert.Equal(t, tc.want, got.String())
			} else {
				assert.Zero(t, got)
			}
		})
	}
}

// Objects as providers send them: shapes of reference/providers.md §3.1 and §3.3.
const (
	anthropicHour = `{"input_tokens":0,"cache_creation_input_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":40,"ephemeral_1h_input_tokens":60}}`
	audio         = `{"prompt_tokens":100,"completion_tokens":50,"prompt_tokens_details":{"audio_tokens":40},"completion_tokens_details":{"audio_tokens":40}}`
)

func withRaw(raw string, u chat.Usage) chat.Usage {
	u.Raw = raw
	return u
}

func TestReported(t *testing.T) {
	for name, tc := range map[string]struct {
		raw, want string // want is dollars; empty: nothing was reported
	}{
		"no object":                           {``, ""},
		"an object without a cost":            {`{"prompt_tokens":1}`, ""},
		"OpenRouter":                          {`{"prompt_tokens":194,"cost":0.95,"cost_details":{"upstream_inference_cost":19}}`, "0.95"},
		"OpenRouter, a small cost":            {`{"cost":5.1e-05}`, "0.000051"},
		"OpenRouter, less than a nano-dollar": {`{"cost":4e-10}`, "0"},
		"OpenRouter, a free model":            {`{"cost":0}`, "0"},
		"OpenRouter, a key of the upstream":   {`{"cost":0.01,"is_byok":true,"cost_details":{"upstream_inference_cost":0.2}}`, "0.21"},
		"OpenRouter, no key of the upstream":  {`{"cost":0.01,"is_byok":false,"cost_details":{"upstream_inference_cost":0.2}}`, "0.01"},
		"OpenRouter, a key without its cost":  {`{"cost":0.01,"is_byok":true,"cost_details":{"upstream_inference_cost":null}}`, "0.01"},
		"xAI":                                 {`{"cost_in_usd_ticks":37756000}`, "0.0037756"},
		"xAI, half a nano-dollar is a whole":  {`{"cost_in_usd_ticks":15}`, "0.000000002"},
		"xAI, less than half is none":         {`{"cost_in_usd_ticks":14}`, "0.000000001"},
		"xAI, more digits than a float has":   {`{"cost_in_usd_ticks":90071992547409931}`, "9007199.254740993"},
		"ticks come before dollars":           {`{"cost":5,"cost_in_usd_ticks":10000000000}`, "1"},
		"a negative cost":                     {`{"cost":-1}`, ""},
		"negative ticks":                      {`{"cost_in_usd_ticks":-1}`, ""},
		"a cost beyond the range":             {`{"cost":1e300}`, ""},
		"ticks beyond the range":              {`{"cost_in_usd_ticks":1e300}`, ""},
		"a cost that is text":                 {`{"cost":"0.95"}`, ""},
		"a cost that is null":                 {`{"cost":null}`, ""},
		"a cost that is an object":            {`{"cost":{"total_cost":0.1}}`, ""},
		"a cost deeper in the object":         {`{"details":{"cost":1}}`, ""},
		"an object that is cut":               {`{"cost":`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := usage.Reported(chat.Usage{Raw: tc.raw})
			assert.Equal(t, tc.want != "", ok)
			if ok {
				assert.Equal(t, tc.want, got.String())
			} else {
				assert.Zero(t, got)
			}
		})
	}
}

func TestCharge(t *testing.T) {
	table := usage.Embedded()
	tokens := chat.Usage{Prompt: 1_000_000, Completion: 100_000}
	for name, tc := range map[string]struct {
		provider string
		served   chat.ServedModel
		usage    chat.Usage
		want     usage.Charge
	}{
		"a listed price":                             {"openai", "gpt-6.1-terra", tokens, usage.Charge{Cost: 1_500_000_000, Basis: usage.BasisListed}},
		"an estimate stays one":                      {"openai", "gpt-6.1-terra", chat.Usage{Prompt: 1_000_000, Estimated: true}, usage.Charge{Cost: 1_000_000_000, Basis: usage.BasisListed, Estimated: true}},
		"what the provider reports wins":             {"openrouter", "openai/gpt-6-sol", withRaw(`{"cost":0.5}`, tokens), usage.Charge{Cost: 500_000_000, Basis: usage.BasisReported}},
		"even where no price is known":               {"somebody", "something", withRaw(`{"cost":0.5}`, tokens), usage.Charge{Cost: 500_000_000, Basis: usage.BasisReported}},
		"and even when it is nothing":                {"openrouter", "openai/gpt-6-sol", withRaw(`{"cost":0}`, tokens), usage.Charge{Basis: usage.BasisReported}},
		"an unknown model is not free":               {"openai", "gpt-99", tokens, usage.Charge{Basis: usage.BasisUnknown}},
		"nor is a model without a name":              {"openai", "", tokens, usage.Charge{Basis: usage.BasisUnknown}},
		"nor is output that has no price":            {"openai", "text-embedding-3-small", tokens, usage.Charge{Basis: usage.BasisUnknown}},
		"a simulated model has a made-up price":      {"sim", "sim-ok", tokens, usage.Charge{Cost: 1_200_000_000, Basis: usage.BasisListed}},
		"a new model is not charged as its ancestor": {"anthropic", "claude-sonnet-5-5", chat.Usage{Prompt: 1_000_000, Cached: 1_000_000}, usage.Charge{Cost: 100_000_000, Basis: usage.BasisListed}},
	} {
		t.Run(name, func(t *testing.T) {
			got := table.Charge(tc.provider, tc.served, tc.usage, now)
			assert.Equal(t, tc.want, got)
			assert.Equal(t, tc.want.Basis != usage.BasisUnknown, got.Known())
		})
	}
	assert.False(t, usage.Charge{}.Known(), "the zero value is unknown")
	assert.Equal(t, usage.Charge{Basis: usage.BasisUnknown}, usage.Table{}.Charge("openai", "gpt-4o", tokens, now))
}

func TestNano(t *testing.T) {
	for want, n := range map[string]usage.Nano{"0": 0, "1": 1e9, "0.000000001": 1, "-0.5": -5e8, "12.34": 12_340_000_000,
		"9223372036.854775807": math.MaxInt64, "-9223372036.854775808": math.MinInt64} {
		assert.Equal(t, want, n.String())
	}
	assert.Equal(t, usage.Nano(3), usage.Nano(1).Plus(2))
	assert.Equal(t, usage.Nano(-1), usage.Nano(1).Plus(-2))
	assert.Equal(t, usage.Nano(math.MaxInt64), usage.Nano(math.MaxInt64).Plus(1))
	assert.Equal(t, usage.Nano(math.MinInt64), usage.Nano(math.MinInt64).Plus(-1))
	assert.Equal(t, usage.Nano(math.MinInt64), usage.Nano(math.MinInt64).Plus(math.MinInt64))
}

// anyUsage draws a usage as a provider may report it, the parts at times larger than the whole.
func anyUsage(t *rapid.T) chat.Usage {
	count := rapid.OneOf(rapid.Int64Range(0, 2_000_000), rapid.Int64Range(-1000, math.MaxInt64))
	return chat.Usage{Prompt: count.Draw(t, "prompt"), Completion: count.Draw(t, "completion"), Cached: count.Draw(t, "cached"),
		CacheWrite: count.Draw(t, "written")}
}

// anyPrice draws a price of the embedded table.
func anyPrice(t *rapid.T) usage.Price {
	m := rapid.SampledFrom(usage.Embedded().Priced()).Draw(t, "model")
	p, ok := usage.Embedded().Lookup(m[0], m[1])
	if !ok {
		t.Fatalf("%v has a line", m)
	}
	return p
}

func anyTime(t *rapid.T) time.Time {
	return time.Unix(rapid.Int64Range(1_700_000_000, 1_900_000_000).Draw(t, "now"), 0)
}

func TestCostIsNeverNegative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if cost, ok := anyPrice(t).Cost(anyUsage(t), anyTime(t)); cost < 0 || (!ok && cost != 0) {
			t.Fatalf("%d, %t", cost, ok)
		}
	})
}

func TestMoreTokensNeverCostLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, at, less := anyPrice(t), anyTime(t), anyUsage(t)
		more := less
		extra := rapid.Int64Range(0, 500_000).Draw(t, "extra")
		grow := func(n int64) int64 { return n + min(extra, math.MaxInt64-max(n, 0)) }
		if rapid.Bool().Draw(t, "output") {
			more.Completion = grow(less.Completion)
		} else {
			more.Prompt = grow(less.Prompt)
		}
		a, known := p.Cost(less, at)
		b, ok := p.Cost(more, at)
		if known && ok && b < a {
			t.Fatalf("%v costs %d, %v costs %d", less, a, more, b)
		}
		if ok && !known {
			t.Fatalf("%v has no cost, %v costs %d", less, more, b)
		}
	})
}

// Without tiers a cost is the sum of its parts: no token is charged twice, none is forgotten.
func TestCachedTokensAreCountedOnce(t *testing.T) {
	p, err := usage.PriceOf("in 3 out 7 read 0.5 write 4")
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.Int64Range(0, 3_000_000)
		plain, cached, written, out := count.Draw(t, "plain"), count.Draw(t, "cached"), count.Draw(t, "written"), count.Draw(t, "out")
		got, ok := p.Cost(chat.Usage{Prompt: plain + cached + written, Cached: cached, CacheWrite: written, Completion: out,
			Reasoning: out / 2}, now)
		if want := usage.Nano(3000*plain + 500*cached + 4000*written + 7000*out); !ok || got != want {
			t.Fatalf("%d, %t; want %d", got, ok, want)
		}
	})
}

func BenchmarkCharge(b *testing.B) {
	table := usage.Embedded()
	u := chat.Usage{Prompt: 300_000, Completion: 1000, Cached: 200_000,
		Raw: `{"prompt_tokens":300000,"completion_tokens":1000,"total_tokens":301000,"prompt_tokens_details":{"cached_tokens":200000,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0}}`}
	b.ReportAllocs()
	for b.Loop() {
		if !table.Charge("openai", "gpt-5.6-luna", u, now).Known() {
			b.Fatal("no price")
		}
	}
}
