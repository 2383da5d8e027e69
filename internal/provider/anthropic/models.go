package anthropic

import (
	"strings"

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

// model is how a model takes what it takes. What it cannot do at all, and how long its output is, the catalogue knows.
type model struct {
	// contains is the part of a model's id by which it is known.
	contains string
	// schema: takes output_config.format, and strict tools.
	schema bool
	// fixedSampling: refuses temperature, top_p and top_k.
	fixedSampling bool
	// alwaysThinks: refuses thinking of the type disabled; between: has between_tools in its place.
	alwaysThinks, between bool
	// thinks is how it is told to reason; xhigh: it has an effort of that name.
	thinks thinking
	xhigh  bool
}

// models are the models in the order in which a part of an id is looked for (@ai-sdk/anthropic 3.0.140, 2026-11;
// reference/providers.md §3.3). That models from 4-6 on take no prefill: https://github.com/vercel/ai/issues/12296
// (2026-09-03). That xhigh begins with Opus 4.7: https://github.com/ClickHouse/nerve/pull/55 and
// https://github.com/can1357/oh-my-pi/issues/2985 (both read 2026-11-30).
var models = []model{
	{contains: "claude-sonnet-5-5", schema: true, fixedSampling: true, alwaysThinks: true, between: true, thinks: adaptive, xhigh: true},
	{contains: "claude-opus-5-5", schema: true, fixedSampling: true, alwaysThinks: true, thinks: adaptive, xhigh: true},
	{contains: "claude-haiku-5-5", schema: true, fixedSampling: true, thinks: adaptive, xhigh: true},
	{contains: "claude-opus-5", schema: true, fixedSampling: true, thinks: adaptive, xhigh: true},
	{contains: "claude-fable-5-1", schema: true, fixedSampling: true, alwaysThinks: true, thinks: adaptive, xhigh: true},
	{contains: "claude-fable-5", schema: true, fixedSampling: true, alwaysThinks: true, thinks: adaptive, xhigh: true},
	{contains: "claude-opus-4-8", schema: true, fixedSampling: true, thinks: adaptive, xhigh: true},
	{contains: "claude-opus-4-7", schema: true, fixedSampling: true, thinks: adaptive, xhigh: true},
	{contains: "claude-sonnet-5", schema: true, fixedSampling: true, thinks: adaptive, xhigh: true},
	{contains: "claude-sonnet-4-6", schema: true, thinks: adaptive},
	{contains: "claude-opus-4-6", schema: true, thinks: adaptive},
	{contains: "claude-sonnet-4-5", schema: true, thinks: budgeted},
	{contains: "claude-opus-4-5", schema: true, thinks: budgeted},
	{contains: "claude-haiku-4-5", schema: true, thinks: budgeted},
	{contains: "claude-opus-4-1", schema: true, thinks: budgeted},
	{contains: "claude-sonnet-4-", thinks: budgeted},
	{contains: "claude-opus-4-", thinks: budgeted},
	{contains: "claude-3"},
	{contains: "claude-2"},
}

// unknown is a model that the table does not have: most likely a newer one.
var unknown = model{schema: true, fixedSampling: true, thinks: adaptive}

func modelOf(id chat.RoutedModel) model {
	for _, m := range models {
		if strings.Contains(string(id), m.contains) {
			return m
		}
	}
	return unknown
}
