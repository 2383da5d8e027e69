package usage_test

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/usage"
)

// now is a day on which the spot values of the source hold.
var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func TestEmbeddedTable(t *testing.T) {
	text := usage.EmbeddedText()
	table, err := usage.Parse(text)
	require.NoError(t, err, "make prices writes it anew")
	assert.Equal(t, usage.Embedded(), table)
	assert.Regexp(t, `^genai-prices-\d+\.\d+\.\d+\+[0-9a-f]{8}$`, table.Version())
	assert.Less(t, len(text), 100<<10, "it is a part of every binary")
	for _, notice := range []string{"npm @pydantic/genai-prices", "source-sha256: ", "The MIT License", "Copyright (c) Pydantic Services Inc.",
		"Permission is hereby granted", `THE SOFTWARE IS PROVIDED "AS IS"`} {
		assert.Contains(t, text, notice)
	}
	models := map[string]int{}
	for _, m := range table.Priced() {
		models[m[0]]++
		_, ok := table.Lookup(m[0], m[1])
		assert.True(t, ok, "%s/%s has a line", m[0], m[1])
	}
	for provider, least := range map[string]int{"openai": 90, "anthropic": 20, "google": 50, "azure": 20, "mistral": 40, "groq": 30,
		"deepseek": 7, "x-ai": 20, "openrouter": 250, "aws": 90} {
		assert.GreaterOrEqual(t, models[provider], least, provider)
		delete(models, provider)
	}
	assert.Empty(t, models, "providers that the gateway does not speak to")
}

// The values are those of reference/providers.md §6, compiled from the source and from charm.land/catwalk v0.52.86.
func TestSpotValues(t *testing.T) {
	later := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	type rates map[usage.Unit]string
	for name, tc := range map[string]struct {
		provider, model string
		at              time.Time
		input           int64
		want            rates
	}{
		"claude-opus-5-5":            {"anthropic", "claude-opus-5-5", now, 0, rates{usage.Input: "4", usage.Output: "20", usage.CacheRead: "0.2", usage.CacheWrite: "5", usage.CacheWrite1h: "8"}},
		"claude-fable-5-1":           {"anthropic", "claude-fable-5-1", now, 0, rates{usage.Input: "10", usage.Output: "50", usage.CacheRead: "0.25", usage.CacheWrite: "12.5"}},
		"claude-sonnet-5":            {"anthropic", "claude-sonnet-5", now, 0, rates{usage.CacheRead: "0.2"}},
		"claude-sonnet-5-5":          {"anthropic", "claude-sonnet-5-5", now, 0, rates{usage.Input: "2", usage.Output: "10", usage.CacheRead: "0.1", usage.CacheWrite: "2.5", usage.CacheWrite1h: "4"}},
		"gpt-6-sol":                  {"openai", "gpt-6-sol", now, 272000, rates{usage.Input: "2", usage.Output: "10"}},
		"gpt-6-sol, a long request":  {"openai", "gpt-6-sol", now, 272001, rates{usage.Input: "4", usage.Output: "15"}},
		"gpt-6-luna":                 {"openai", "gpt-6-luna", now, 0, rates{usage.Input: "0.1", usage.Output: "0.5"}},
		"gpt-6-astra":                {"openai", "gpt-6-astra", now, 271999, rates{usage.Input: "10", usage.Output: "50", usage.CacheRead: "1", usage.CacheWrite: "12.5"}},
		"gpt-6-astra, a long one":    {"openai", "gpt-6-astra", now, 272000, rates{usage.Input: "20", usage.Output: "75", usage.CacheRead: "2", usage.CacheWrite: "25"}},
		"gpt-6.1-sol":                {"openai", "gpt-6.1-sol", now, 0, rates{usage.Input: "2", usage.Output: "10", usage.CacheRead: "0.1", usage.CacheWrite: "2.5"}},
		"gpt-6.1-terra":              {"openai", "gpt-6.1-terra", now, 0, rates{usage.Input: "1", usage.Output: "5", usage.CacheRead: "0.05", usage.CacheWrite: "1.25"}},
		"gemini-4-argon":             {"google", "gemini-4-argon", now, 0, rates{usage.Input: "2", usage.Output: "10", usage.CacheRead: "0.1"}},
		"gemini-3.8-flash":           {"google", "gemini-3.8-flash", later.Add(-time.Nanosecond), 0, rates{usage.Input: "0.75", usage.Output: "3.75", usage.CacheRead: "0.075"}},
		"gemini-3.8-flash, in 2027":  {"google", "gemini-3.8-flash", later, 0, rates{usage.Input: "1.5", usage.Output: "7.5", usage.CacheRead: "0.15"}},
		"gemini-3.1-pro-preview":     {"google", "gemini-3.1-pro-preview", now, 200000, rates{usage.Input: "2", usage.Output: "12"}},
		"gemini-3.1-pro, a long one": {"google", "gemini-3.1-pro-preview", now, 200001, rates{usage.Input: "4", usage.Output: "18"}},
		"whisper-1, an hour":         {"openai", "whisper-1", now, 0, rates{usage.AudioHour: "0.36"}},
		"gpt-image-2":                {"openai", "gpt-image-2", now, 0, rates{usage.Input: "5", usage.ImageInput: "8", usage.Output: "30"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, ok := usage.Embedded().Lookup(tc.provider, tc.model)
			require.True(t, ok)
			r, ok := p.At(tc.at, tc.input)
			require.True(t, ok)
			for u, dollars := range tc.want {
				got, ok := r.Of(u)
				assert.True(t, ok, "%v has a rate", u)
				assert.Equal(t, dollars, perMillion(got), "%v", u)
			}
		})
	}
}

// perMillion writes a rate as dollars for a million units.
func perMillion(r usage.Rate) string { return (usage.Nano(r) * 1000).String() }

func TestLookupMatches(t *testing.T) {
	table := parse(t, `aws/amazon.titan-embed-text-v1	in 13
aws/anthropic.claude-opus-4-5	in 10
aws/anthropic.claude-opus-4-6	in 11
aws/anthropic.claude-sonnet-4-5-20250929	in 12
aws/eu.anthropic.claude-opus-4-5	=anthropic.claude-opus-4-5
bedrock/	=aws
mistral/mistral-large	in 20
one/	=two three
one/a	in 1
three/a	in 3
three/b	in 4
three/c	in 5
two/a	in 6
two/b	in 7
two/b-2026-01-02	in 8
wide/	in 30
wide/a	in 31`)
	for name, tc := range map[string]struct {
		provider, model, want string // want is dollars for input; empty: unknown
	}{
		"an exact id":                                           {"one", "a", "1"},
		"an id minus a compact date":                            {"one", "a-20251101", "1"},
		"an id minus a date with hyphens":                       {"one", "a-2026-04-21", "1"},
		"a snapshot with a price of its own":                    {"two", "b-2026-01-02", "8"},
		"another snapshot of it":                                {"two", "b-2026-01-03", "7"},
		"two dates are one date too many, then the rest":        {"two", "b-2026-01-02-20260103", "8"},
		"a longer name":                                         {"one", "a-5", ""},
		"a name with something before it":                       {"one", "x-a", ""},
		"a name in other letters":                               {"one", "A", ""},
		"a month that does not exist":                           {"one", "a-20251301", ""},
		"a day that does not exist":                             {"one", "a-2025-01-32", ""},
		"another century":                                       {"one", "a-19990101", ""},
		"four digits are no date":                               {"mistral", "mistral-large-2512", ""},
		"only a date":                                           {"one", "-20251101", ""},
		"no name":                                               {"one", "", ""},
		"a provider that is not in the table":                   {"four", "a", ""},
		"no provider":                                           {"", "a", ""},
		"a model of the first provider that is asked":           {"one", "b", "7"},
		"a snapshot at a provider that is asked":                {"one", "c-20260101", "5"},
		"an own price comes before those of others":             {"one", "a-2026-01-02", "1"},
		"a provider with one price for the rest":                {"wide", "whatever", "30"},
		"and its models with a line":                            {"wide", "a", "31"},
		"Bedrock: a revision":                                   {"aws", "anthropic.claude-opus-4-5-v1:0", "10"},
		"Bedrock: a date and a revision":                        {"aws", "anthropic.claude-opus-4-5-20251101-v1:0", "10"},
		"Bedrock: a revision without a minor":                   {"aws", "anthropic.claude-opus-4-6-v1", "11"},
		"Bedrock: a date that belongs to the id":                {"aws", "anthropic.claude-sonnet-4-5-20250929-v1:0", "12"},
		"Bedrock: a region":                                     {"bedrock", "eu.anthropic.claude-opus-4-5-20251101-v1:0", "10"},
		"Bedrock: a region that the source does not name":       {"aws", "mars.anthropic.claude-opus-4-5", ""},
		"Bedrock: a revision that belongs to the id":            {"aws", "amazon.titan-embed-text-v1", "13"},
		"Bedrock: another revision of it is another model":      {"aws", "amazon.titan-embed-text-v2:0", ""},
		"a revision means nothing elsewhere":                    {"one", "a-v1", ""},
		"a tab in a name cannot reach a price list":             {"one", "a\tin 1", ""},
		"a line's end in a name cannot reach another line":      {"one", "a\nthree/a", ""},
		"a comment of the header is no key":                     {"# version", "", ""},
		"a provider's line is not a model":                      {"one", "/", ""},
		"what another provider's line asks is no model's price": {"bedrock", "aws", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, ok := table.Lookup(tc.provider, tc.model)
			assert.Equal(t, tc.want != "", ok)
			if tc.want == "" {
				return
			}
			r, ok := p.At(now, 0)
			require.True(t, ok)
			got, ok := r.Of(usage.Input)
			require.True(t, ok)
			assert.Equal(t, tc.want, perMillion(got))
		})
	}
}

func TestEmbeddedTableGuessesNothing(t *testing.T) {
	table := usage.Embedded()
	for name, tc := range map[string]struct{ provider, model string }{
		"a model newer than the table":                    {"anthropic", "claude-haiku-5-5"},
		"a model with a known one's beginning":            {"openai", "gpt-6-sol-mini"},
		"a model with a known one's name and a word more": {"anthropic", "claude-sonnet-5-6"},
		"an image model newer than the table":             {"openai", "gpt-image-2.5"},
		"a model of another provider":                     {"anthropic", "gpt-6-sol"},
		"a server that copies OpenAI":                     {"my-vllm", "gpt-4o"},
	} {
		t.Run(name, func(t *testing.T) {
			_, ok := table.Lookup(tc.provider, tc.model)
			assert.False(t, ok)
		})
	}
	whatever := regexp.MustCompile(`(?m)^([^/\n]+)/\t[^=]`).FindAllStringSubmatch(usage.EmbeddedText(), -1)
	require.Len(t, whatever, 1, "a price for models that nobody has named")
	assert.Equal(t, "sim", whatever[0][1], "only simulated models may have one")
}

func TestEmbeddedTableKnowsOtherNames(t *testing.T) {
	table := usage.Embedded()
	for name, tc := range map[string]struct{ provider, model, sameAs, as string }{
		"OpenAI's models at Azure":         {"azure", "gpt-6-sol", "openai", "gpt-6-sol"},
		"with the date that Azure answers": {"azure", "gpt-4o-2024-08-06", "openai", "gpt-4o"},
		"xai":                              {"xai", "grok-4.6", "x-ai", "grok-4.6"},
		"gemini":                           {"gemini", "gemini-3.8-flash", "google", "gemini-3.8-flash"},
		"a dated Claude":                   {"anthropic", "claude-opus-4-5-20251101", "anthropic", "claude-opus-4-5"},
		"a dated image model":              {"openai", "gpt-image-2-2026-04-21", "openai", "gpt-image-2"},
		"an inference profile":             {"bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "aws", "anthropic.claude-sonnet-4-5-20250929"},
		"a profile without a revision":     {"bedrock", "jp.anthropic.claude-sonnet-4-6", "aws", "anthropic.claude-sonnet-4-6"},
		"a snapshot at OpenRouter":         {"openrouter", "openai/gpt-6-sol-20260801", "openrouter", "openai/gpt-6-sol"},
		"any simulated model":              {"sim", "sim-f04", "sim", "sim-ok"},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := table.Lookup(tc.provider, tc.model)
			require.True(t, ok)
			want, ok := table.Lookup(tc.sameAs, tc.as)
			require.True(t, ok)
			assert.Equal(t, want, got)
		})
	}
	global, ok := table.Lookup("aws", "global.anthropic.claude-opus-5")
	require.True(t, ok)
	regional, ok := table.Lookup("aws", "eu.anthropic.claude-opus-5")
	require.True(t, ok)
	assert.NotEqual(t, global, regional, "a region costs more than the world")
}

func TestParseRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ body, want string }{
		"lines out of order":                        {"b/x\tin 1\na/x\tin 1\n", `"a/x"`},
		"a line twice":                              {"a/x\tin 1\na/x\tin 2\n", "not in its place"},
		"a key without a provider":                  {"x\tin 1\n", "provider/model"},
		"a key that sorts among the comments":       {"!/x\tin 1\n", "provider/model"},
		"no price":                                  {"a/x\n", "no rates"},
		"an empty price":                            {"a/x\t\n", "no rates"},
		"a unit that does not exist":                {"a/x\tinn 1\n", `"inn" is not a unit`},
		"a unit without an amount":                  {"a/x\tin\n", `"" is not an amount`},
		"a negative amount":                         {"a/x\tin -1\n", `"-1" is not an amount`},
		"an amount with an exponent":                {"a/x\tin 1e9\n", `"1e9" is not an amount`},
		"seven digits after the point":              {"a/x\tin 0.0000001\n", "is not an amount"},
		"ten digits before the point":               {"a/x\tin 1000000000\n", "is not an amount"},
		"a point without digits":                    {"a/x\tin 1.\n", "is not an amount"},
		"a condition on the first block":            {"a/x\tfrom 2026-01-01 in 1\n", "has no condition"},
		"a second block without a condition":        {"a/x\tin 1; in 2\n", "has no condition"},
		"a tier first":                              {"a/x\tover 10 in 1\n", "has no condition"},
		"tiers that descend":                        {"a/x\tin 1; over 20 in 2; over 10 in 3\n", "ascend"},
		"a day that does not exist":                 {"a/x\tin 1; from 2026-02-30 in 2\n", "2026-02-30"},
		"a time that does not exist":                {"a/x\tin 1; daily 00:30-24:30 in 2\n", "24:30"},
		"half a span":                               {"a/x\tin 1; daily 00:30 in 2\n", "reading the block"},
		"another name of a model that has no line":  {"a/x\t=y\n", `"y" has no price`},
		"another name of another name":              {"a/x\t=y\na/y\t=z\na/z\tin 1\n", `"y" has no price`},
		"another name of the provider's own line":   {"a/\tin 1\na/x\t=\n", `"" has no price`},
		"a provider that asks one without models":   {"a/\t=b\nb/\tin 1\n", `"b" has no models`},
		"a provider that asks one that nobody is":   {"a/\t=b\na/x\tin 1\n", `"b" has no models`},
		"a last line that is cut":                   {"a/x\tin 1", "is cut"},
		"an empty line":                             {"a/x\tin 1\n\n", "not in its place"},
		"a second space where one block ends":       {"a/x\tin 1;  over 10 in 2\n", "is not a unit"},
		"a comment between the lines of the prices": {"a/x\tin 1\n# note\n", "not in its place"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := usage.Parse(withHeader(tc.body))
			require.ErrorContains(t, err, tc.want)
		})
	}
	t.Run("a changed price", func(t *testing.T) {
		_, err := usage.Parse(strings.Replace(withHeader("a/x\tin 1\n"), "in 1\n", "in 2\n", 1))
		require.ErrorContains(t, err, "body-sha256")
	})
	t.Run("no version", func(t *testing.T) {
		_, err := usage.Parse("# body-sha256: 0\n")
		require.ErrorContains(t, err, "version")
	})
}

// parse makes a table of lines.
func parse(t testing.TB, body string) usage.Table {
	t.Helper()
	table, err := usage.Parse(withHeader(body + "\n"))
	require.NoError(t, err)
	return table
}

func withHeader(body string) string {
	return fmt.Sprintf("# A table.\n# version: test-1\n# body-sha256: %x\n#\n%s", sha256.Sum256([]byte(body)), body)
}

// FuzzTable feeds the decoder with tables: nothing may panic, and a table that is accepted must find each of its models
// and be able to price it.
func FuzzTable(f *testing.F) {
	f.Add("a/\t=b\na/x\tin 1 out 2.5; over 10 in 2\na/y\t=x\nb/z\tin 1; from 2027-01-01 in 2; daily 22:00-04:00 hour 0.000001\n", "x-20260101", int64(11))
	f.Add("aws/m-v1:0\tin 1\n", "m-v1:0", int64(0))
	f.Add("", "", int64(-1))
	f.Fuzz(func(t *testing.T, body, model string, input int64) {
		raw := usage.Table{}
		if table, err := usage.Parse(withHeader(body)); err == nil {
			for _, m := range table.Priced() {
				p, ok := table.Lookup(m[0], m[1])
				require.True(t, ok, "%s/%s has a line", m[0], m[1])
				_, ok = p.At(now, input)
				require.True(t, ok, "%s/%s has passed the check", m[0], m[1])
			}
			raw = table
		}
		for _, provider := range []string{"a", "aws", ""} {
			if p, ok := raw.Lookup(provider, model); ok {
				p.At(now, input)
			}
		}
	})
}

// FuzzPrice feeds the reader of price lists: what passes the check can be read at any time, and no rate is negative.
func FuzzPrice(f *testing.F) {
	f.Add("in 2 out 10 read 0.2; over 272000 in 4; from 2027-01-01 in 3; daily 00:30-16:30 in 1", int64(1796083200), int64(1))
	f.Add("from 2027-01-01 in 3", int64(0), int64(0))
	f.Add("in 1; over 9223372036854775807 in 2", int64(-1), int64(-1))
	f.Fuzz(func(t *testing.T, list string, at, input int64) {
		p, err := usage.PriceOf(list)
		r, ok := p.At(time.Unix(at%(1<<40), 0), input)
		if err == nil {
			require.True(t, ok)
		}
		for u := usage.Input; u <= usage.AudioHour; u++ {
			rate, _ := r.Of(u)
			require.GreaterOrEqual(t, rate, usage.Rate(0))
		}
	})
}

func BenchmarkLookup(b *testing.B) {
	table := usage.Embedded()
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := table.Lookup("anthropic", "claude-opus-4-5-20251101"); !ok {
			b.Fatal("no price")
		}
	}
}
