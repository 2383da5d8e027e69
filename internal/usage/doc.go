// Package usage counts the tokens of an answer while it streams and says what they cost.
//
// It promises integer money, a price only where the table names the model, and an estimate wherever a provider counted
// nothing. Who pays (the client, or wasted_cost) is the caller's decision; so is the clock.
//
// Vocabulary: a rate is the price of one unit (input tokens, cache reads, …); a price is a model's list of rates with the
// periods and tiers in which they hold; a charge is what one answer cost and how we know it. README.md has the rules.
package usage
