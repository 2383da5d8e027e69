package fault_test

import (
	"encoding/json"
	"regexp/syntax"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/fault"
)

// TestRowsOfARoute: a route may override single rows of the table.
func TestRowsOfARoute(t *testing.T) {
	for name, c := range map[string]struct {
		rows     []fault.Row
		seen     fault.Observation
		class    fault.Class
		evidence fault.Evidence
	}{
		"a word beats the provider's own row": {[]fault.Row{{Provider: "mistral", Code: "3505", Class: fault.RateLimited}},
			from("mistral", answered(429, "", "3505")), fault.RateLimited, fault.ByRoute},
		"a word beats a common code": {[]fault.Row{{Code: "insufficient_quota", Class: fault.RateLimited}},
			answered(429, "insufficient_quota", "insufficient_quota"), fault.RateLimited, fault.ByRoute},
		"a word and its status": {[]fault.Row{{Status: 400, Code: "odd", Class: fault.Overloaded}}, answered(400, "", "odd"), fault.Overloaded, fault.ByRoute},
		"a word under another status is another row": {[]fault.Row{{Status: 400, Code: "odd", Class: fault.Overloaded}},
			answered(422, "", "odd"), fault.InvalidRequest, fault.ByStatus},
		"a row of another provider": {[]fault.Row{{Provider: "groq", Code: "odd", Class: fault.Overloaded}}, answered(400, "", "odd"), fault.InvalidRequest, fault.ByStatus},
		"a type":                    {[]fault.Row{{Type: "odd", Class: fault.Quota}}, answered(500, "odd", ""), fault.Quota, fault.ByRoute},
		"a status, where no word is known": {[]fault.Row{{Status: 503, Class: fault.Overloaded}},
			answered(503, "odd", "odder"), fault.Overloaded, fault.ByRoute},
		"a status, under a page of a CDN": {[]fault.Row{{Status: 403, Class: fault.Overloaded}},
			fault.Observation{Provider: "openai", Status: 403}, fault.Overloaded, fault.ByRoute},
		"a status beats the provider's own": {[]fault.Row{{Provider: "together", Status: 403, Class: fault.Auth}},
			from("together", answered(403, "", "")), fault.Auth, fault.ByRoute},
		"a known word beats a status": {[]fault.Row{{Status: 503, Class: fault.InvalidRequest}}, answered(503, "", "rate_limit_exceeded"), fault.RateLimited, fault.ByGeneric},
		"no sentence narrows a route's row down": {[]fault.Row{{Status: 429, Type: "tokens", Class: fault.RateLimited}},
			saying(answered(429, "tokens", ""), "Limit 30000, Requested 37313"), fault.RateLimited, fault.ByRoute},
		"the first of two": {[]fault.Row{{Code: "odd", Class: fault.Quota}, {Code: "odd", Class: fault.Auth}}, answered(400, "", "odd"), fault.Quota, fault.ByRoute},
		"a local cause comes before every row": {[]fault.Row{{Status: 429, Class: fault.Quota}},
			fault.Observation{Local: fault.Left, Status: 429}, fault.Cancelled, fault.ByLocalCause},
		"what it does not name is as before": {[]fault.Row{{Code: "odd", Class: fault.Quota}}, answered(401, "", ""), fault.Auth, fault.ByStatus},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range c.rows {
				require.NoError(t, fault.Default().Check(r))
			}
			p := fault.Default().With(c.rows)
			got := p.Classify(c.seen)
			assert.Equal(t, c.class, got.Class)
			assert.Equal(t, c.evidence, got.Evidence)
			assert.Equal(t, fault.Default().Version+"+route", p.Version, "the records must tell that rows of a route apply")
			assert.Equal(t, fault.Default().Rule(c.class), p.Rule(c.class), "what a class means is the same on every route")
			before := fault.Default().Classify(c.seen)
			assert.NotEqual(t, fault.ByRoute, before.Evidence, "the table itself is unchanged")
		})
	}
	assert.Same(t, fault.Default(), fault.Default().With(nil))
}

func TestRowsOfARouteThatAreNone(t *testing.T) {
	for name, c := range map[string]struct {
		row  fault.Row
		want string
	}{
		"nothing named":         {fault.Row{Provider: "openai", Class: fault.Auth}, "it names neither a status nor a word"},
		"a stranger":            {fault.Row{Provider: "acme", Status: 400, Class: fault.Auth}, `provider "acme" is not a vendor`},
		"no class":              {fault.Row{Status: 400}, `class "" is not one of ours`},
		"a class that is none":  {fault.Row{Status: 400, Class: "oops"}, `class "oops" is not one of ours`},
		"a success":             {fault.Row{Status: 200, Class: fault.BadResponse}, "status 200 is not from 300 to 599"},
		"a client that left":    {fault.Row{Status: 499, Class: fault.Cancelled}, `class "cancelled" is nothing that a provider can answer`},
		"our deadline":          {fault.Row{Status: 504, Class: fault.Deadline}, `class "deadline" is nothing that a provider can answer`},
		"everything at once, 1": {fault.Row{Provider: "acme", Class: "oops"}, "is not a vendor\nclass"},
	} {
		t.Run(name, func(t *testing.T) { assert.ErrorContains(t, fault.Default().Check(c.row), c.want) })
	}
}

// TestSpentAllowancesWaitForTheirReset: of a quota the stated reset is the hint, whatever else was said.
func TestSpentAllowancesWaitForTheirReset(t *testing.T) {
	o := answered(402, "", "")
	o.Hint = fault.Hint{Known: true, Wait: time.Second, Source: "retry-after"}
	assert.Equal(t, o.Hint, fault.Default().Classify(o).Hint)
	o.Reset = fault.Hint{Known: true, Wait: 20 * time.Hour, Source: "resets_at"}
	assert.Equal(t, o.Reset, fault.Default().Classify(o).Hint)
	o.Status = 429
	assert.Equal(t, "retry-after", fault.Default().Classify(o).Hint.Source, "a throttle asks to come back, and needs no reset")
}

// TestSentencesAreAnchored: a text may hold the user's own words, so that a sentence counts only at the beginning, or by
// its two numbers.
func TestSentencesAreAnchored(t *testing.T) {
	var table struct {
		Sentences []struct {
			Provider, Sentence string
			Within             fault.Class
		}
	}
	require.NoError(t, json.Unmarshal(fault.PolicyTable(), &table))
	require.NotEmpty(t, table.Sentences)
	for _, s := range table.Sentences {
		pattern, err := syntax.Parse(s.Sentence, syntax.Perl)
		require.NoError(t, err)
		alternatives := []*syntax.Regexp{pattern}
		if pattern.Op == syntax.OpAlternate {
			alternatives = pattern.Sub
		}
		for _, a := range alternatives {
			anchored := len(a.Sub) > 0 && a.Sub[0].Op == syntax.OpBeginText
			assert.True(t, anchored || pattern.MaxCap() == 2, "%s: %s", s.Provider, s.Sentence)
		}
	}
}

// TestNoTextDecidesAlone: a message without any word of the provider's changes no class, but for the sentences.
func TestNoTextDecidesAlone(t *testing.T) {
	texts := []string{"insufficient_quota", "rate limit exceeded, quota exceeded, overloaded", "invalid api key", "context_length_exceeded",
		"My app says: Your credit balance is too low to access the Anthropic API.", "please fix: prompt is too long: 5 tokens > 4 maximum",
		"I said System is experiencing high demand", "model not found", "content policy violation", "PerDay"}
	for _, vendor := range fault.Vendors() {
		for _, status := range []int{400, 401, 403, 404, 422, 429, 500, 503} {
			plain := fault.Default().Classify(from(vendor, answered(status, "", "")))
			for _, text := range texts {
				got := fault.Default().Classify(from(vendor, saying(answered(status, "", ""), text)))
				assert.Equal(t, plain.Class, got.Class, "%s %d %q", vendor, status, text)
			}
		}
	}
}
