package anthropic

import (
	"strings"

	"spillway/internal/catalog"
	"spillway/internal/chat"
)

// thinking is how a model is told to reason. The zero value is a model that does not.
type thinking string

const (
	// budgeted models take a number of tokens.
	budgeted thinking = "enabled"
	// adaptive models take an effort and find the rest themselves.
	adaptive thinking = "adaptive"
)

// model is what a model takes and what it refuses.
type model struct {
	// contains is the part of a model's id by which it is known.
	contains string
	// output is the longest output, in tokens.
	output int64
	// schema: takes output_config.format, and strict tools.
	schema bool
	// fixedSampling: refuses temperature, top_p and top_k.
	fixedSampling bool
	// alwaysThinks: refuses thinking of the type disabled; between: has between_tools in its place.
	alwaysThinks, between bool
	// unforced: refuses a tool_choice of the types any and tool.
	unforced bool
	// thinks is how it is told to reason; xhigh: it has an effort of that name.
	thinks thinking
	xhigh  bool
	// prefill: continues an assistant turn at the end.
	prefill bool
}

// models are the models in the order in which a part of an id is looked for (@ai-sdk/anthropic 3.0.140, 2026-11;
// reference/providers.md §3.3). That models from 4-6 on take no prefill: https://github.com/vercel/ai/issues/12296
// (2026-09-03). That xhigh begins with Opus 4.7: https://github.com/ClickHouse/nerve/pull/55 and
// https://github.com/can1357/oh-my-pi/issues/2985 (both read 2026-11-30).
var models = []model{
	{contains: "claude-sonnet-5-5", output: 128_000, schema: true, fixedSampling: true, alwaysThinks: true, between: true, unforced: true, thinks: adaptive, xhigh: true},
	{contains: "claude-opus-5-5", output: 128_000, schema: true, fixedSampling: true, alwaysThinks: true, unforced: true, thinks: adaptive, xhigh: true},
	{contains: "claude-haiku-5-5", output: 128_000, schema: true, fixedSampling: true, thinks: adaptive, xhigh: true},
	{contains: "claude-opus-5", output: 128_000, schema: true, fixedSampling: true, thinks: adaptive, xhigh: true},
	{contains: "claude-fable-5-1", output: 128_000, schema: true, fixedSampling: true, alwaysThinks: true, unforced: true, thinks: adaptive, xhigh: true},
	{contains: "claude-fable-5", output: 128_000, schema: true, fixedSampling: true, alwaysThinks: true, thinks: adaptive, xhigh: true},
	{contains: "claude-opus-4-8", output: 128_000, schema: true, fixedSampling: true, thinks: adaptive, xhigh: true},
	{contains: "claude-opus-4-7", output: 128_000, schema: true, fixedSampling: true, thinks: adaptive, xhigh: true},
	{contains: "claude-sonnet-5", output: 128_000, schema: true, fixedSampling: true, thinks: adaptive, xhigh: true},
	{contains: "claude-sonnet-4-6", output: 128_000, schema: true, thinks: adaptive},
	{contains: "claude-opus-4-6", output: 128_000, schema: true, thinks: adaptive},
	{contains: "claude-sonnet-4-5", output: 64_000, schema: true, thinks: budgeted, prefill: true},
	{contains: "claude-opus-4-5", output: 64_000, schema: true, thinks: budgeted, prefill: true},
	{contains: "claude-haiku-4-5", output: 64_000, schema: true, thinks: budgeted, prefill: true},
	{contains: "claude-opus-4-1", output: 32_000, schema: true, thinks: budgeted, prefill: true},
	{contains: "claude-sonnet-4-", output: 64_000, thinks: budgeted, prefill: true},
	{contains: "claude-opus-4-", output: 32_000, thinks: budgeted, prefill: true},
	{contains: "claude-3", output: 4096, prefill: true},
	{contains: "claude-2", output: 4096, prefill: true},
}

// unknown is a model that the table does not have: most likely a newer one.
var unknown = model{output: 128_000, schema: true, fixedSampling: true, thinks: adaptive}

func modelOf(id chat.RoutedModel) model {
	for _, m := range models {
		if strings.Contains(string(id), m.contains) {
			return m
		}
	}
	return unknown
}

// Cannot are the features that a model lacks when Anthropic's API serves it, whatever a configuration says. Requests that
// need one of them must pass its channels by.
func (*Provider) Cannot(id chat.RoutedModel) []catalog.Feature {
	m := modelOf(id)
	lacks := []catalog.Feature{catalog.Choices, catalog.LogProbs, catalog.LogitBias, catalog.Audio, catalog.CustomTools, catalog.JSONObject, catalog.PlainHTTP}
	if m.unforced {
		lacks = append(lacks, catalog.ForcedTool)
	}
	if !m.prefill {
		lacks = append(lacks, catalog.Prefill)
	}
	return lacks
}
