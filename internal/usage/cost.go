package usage

import (
	"math"
	"time"

	"github.com/tidwall/gjson"

	"spillway/internal/chat"
)

// Basis says how a cost is known.
type Basis string

// The bases. The zero value means the same as BasisUnknown.
const (
	BasisUnknown  Basis = "unknown"  // no price is known; the cost is not zero
	BasisReported Basis = "reported" // the provider said what it charged
	BasisListed   Basis = "listed"   // the price table
)

// Charge is what one answer cost.
type Charge struct {
	// Cost is 0 when it is not known: look at Known first.
	Cost  Nano
	Basis Basis
	// Estimated says that the tokens were counted by us, not by the provider.
	Estimated bool
}

// Known reports whether Cost can be charged.
func (c Charge) Known() bool { return c.Basis == BasisReported || c.Basis == BasisListed }

// Charge prices the usage of one answer: what the provider says it cost, else the price of the model that it says answered
// (the routed model where it named none). provider is a name of the table, or one that the table has another name for
// (xai, gemini, bedrock).
func (t Table) Charge(provider string, served chat.ServedModel, u chat.Usage, now time.Time) Charge {
	if cost, ok := Reported(u); ok {
		return Charge{cost, BasisReported, u.Estimated}
	}
	if p, ok := t.Lookup(provider, string(served)); ok {
		if cost, ok := p.Cost(u, now); ok {
			return Charge{cost, BasisListed, u.Estimated}
		}
	}
	return Charge{Basis: BasisUnknown, Estimated: u.Estimated}
}

// Cost is what a usage costs at the rates of a time, rounded once, to the nearest nano-dollar. Prompt tokens that are
// neither cached nor written to a cache are charged as input. Where the model has no rate of its own for them, cached
// tokens, cache writes and audio tokens cost what text does, and cache writes for an hour cost what others do. False means
// that the price is unknown: there are tokens that the model has no rate for, or the sum is beyond the range of Nano.
func (p Price) Cost(u chat.Usage, now time.Time) (Nano, bool) {
	rates, ok := p.At(now, u.Prompt)
	if !ok {
		return 0, false
	}
	b := bill{rates: rates, ok: true}
	d := detailsOf(u)
	b.add(d.input, Input)
	b.add(d.audioInput, AudioInput, Input)
	b.add(d.cached, CacheRead, Input)
	b.add(d.written, CacheWrite, Input)
	b.add(d.writtenLong, CacheWrite1h, CacheWrite, Input)
	b.add(d.output, Output)
	b.add(d.audioOutput, AudioOutput, Output)
	if !b.ok {
		return 0, false
	}
	return b.sum.nano()
}

// bill sums quantities at the rates of a model.
type bill struct {
	rates Rates
	sum   picos
	ok    bool
}

// add charges tokens at the first of the units that the model has a rate for.
func (b *bill) add(tokens int64, priced ...Unit) {
	if tokens == 0 {
		return
	}
	for _, u := range priced {
		if rate, ok := b.rates.Of(u); ok {
			b.sum.add(tokens, rate)
			return
		}
	}
	b.ok = false
}

// details are the parts of a usage that are priced apart. No token is in two of them, none is negative.
type details struct {
	input, audioInput, cached, written, writtenLong int64
	output, audioOutput                             int64
}

// detailsOf takes a usage apart. What chat.Usage does not count is read from the provider's own object: audio tokens
// (OpenAI's OpenAPI 2.3.0, 2026-08-21) and cache writes for an hour (anthropic-sdk-go v2.15.0, 2026-11-24).
func detailsOf(u chat.Usage) details {
	d := details{cached: max(u.Cached, 0), written: max(u.CacheWrite, 0), output: max(u.Completion, 0)}
	d.input = max(max(u.Prompt, 0)-d.cached, 0)
	d.input = max(d.input-d.written, 0)
	if u.Raw == "" {
		return d
	}
	d.writtenLong = part(u.Raw, "cache_creation.ephemeral_1h_input_tokens", &d.written)
	d.audioInput = part(u.Raw, "prompt_tokens_details.audio_tokens", &d.input)
	d.audioOutput = part(u.Raw, "completion_tokens_details.audio_tokens", &d.output)
	return d
}

// part takes a number of tokens out of the quantity that holds them, never more than it has.
func part(raw, path string, whole *int64) int64 {
	n := min(max(gjson.Get(raw, path).Int(), 0), *whole)
	*whole -= n
	return n
}

// Reported is what the provider itself says that the answer cost: OpenRouter's usage.cost in dollars
// (https://openrouter.ai/docs/use-cases/usage-accounting; with the caller's own key at the upstream it is only OpenRouter's
// fee, and the upstream's cost stands beside it) or xAI's usage.cost_in_usd_ticks, 1e10 to the dollar
// (https://docs.x.ai/developers/cost-tracking); both seen 2026-11-30. It is rounded to the nearest nano-dollar. False: the
// provider reported none, or nothing that can be a cost.
func Reported(u chat.Usage) (Nano, bool) {
	if u.Raw == "" {
		return 0, false
	}
	if ticks := gjson.Get(u.Raw, "cost_in_usd_ticks"); ticks.Type == gjson.Number {
		if !(ticks.Num >= 0 && ticks.Num < math.MaxInt64) {
			return 0, false
		}
		n := ticks.Int()
		return Nano(n/10 + n%10/5), true
	}
	cost := gjson.Get(u.Raw, "cost")
	if cost.Type != gjson.Number {
		return 0, false
	}
	dollars := cost.Num
	if gjson.Get(u.Raw, "is_byok").Bool() {
		dollars += gjson.Get(u.Raw, "cost_details.upstream_inference_cost").Num
	}
	nanos := math.Round(dollars * 1e9)
	if !(nanos >= 0 && nanos < math.MaxInt64) {
		return 0, false
	}
	return Nano(nanos), true
}
