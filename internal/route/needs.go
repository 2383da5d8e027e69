package route

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"spillway/internal/catalog"
	"spillway/internal/chat"
)

// Needs is what a request needs of a candidate (reference/providers.md §3.8, 2026-11-30). What is not among them may be
// left out without changing what the request means, and is named where it is: a seed, a temperature, a penalty of 0, the
// verbosity, a prediction, what says how an answer is kept, cached or billed. So may a reasoning effort that a model does
// not have: it is told the nearest it has. What stands at an address is the gateway's to fetch where a channel does not.
type Needs struct {
	Features []catalog.Feature
	// Output is the output limit the client set, in tokens; 0: none.
	Output int64
	// Input is a low estimate of the input's tokens: what surely does not fit is left out, what may fit is asked.
	Input int64
	// Regions are where the request's data must stay, all of them: the organization's and the routes'. Empty: anywhere.
	Regions []string

	request *chat.Request
	// params are the members of the request that need each feature.
	params map[catalog.Feature]string
}

// In adds a region where the data must stay; empty adds none.
func (n *Needs) In(region string) {
	if region != "" {
		n.Regions = append(n.Regions, region)
	}
}

// NeedsOf reads a request's needs.
func NeedsOf(r *chat.Request) Needs {
	n := Needs{Output: r.MaxTokens, Input: inputOf(r), request: r, params: map[catalog.Feature]string{}}
	n.add(catalog.Chat, "model", true)
	for _, read := range []func(*Needs, *chat.Request){toolNeeds, contentNeeds, formatNeeds, samplingNeeds} {
		read(&n, r)
	}
	last := len(r.Messages) - 1
	n.add(catalog.Streaming, "stream", r.Stream)
	n.add(catalog.Prefill, message(last), last >= 0 && r.Messages[last].Role == chat.Assistant)
	return n
}

// add adds a feature that a member of the request needs, once.
func (n *Needs) add(f catalog.Feature, param string, needed bool) {
	if _, twice := n.params[f]; needed && !twice {
		n.Features = append(n.Features, f)
		n.params[f] = param
	}
}

// Param is the member of the request whose need a channel does not meet; needed is false for a reason that is not the
// request's.
func (n *Needs) Param(r Reason) (name string, needed bool) {
	switch r {
	case OutputTooLong:
		return "max_completion_tokens", true
	case TooLong:
		return "messages", true
	}
	feature, lacking := strings.CutPrefix(string(r), missing)
	name, needed = n.params[catalog.Feature(feature)]
	return name, lacking && needed
}

func toolNeeds(n *Needs, r *chat.Request) {
	called := slices.ContainsFunc(r.Messages, func(m chat.Message) bool { return len(m.Calls) > 0 })
	declared, choice := len(r.Tools) > 0, r.Choice
	some := declared && choice.Mode == chat.ChoiceAllowed
	n.add(catalog.Tools, "tools", declared || called)
	for i := range r.Tools {
		n.add(catalog.CustomTools, fmt.Sprintf("tools[%d]", i), r.Tools[i].Custom)
	}
	n.add(catalog.ForcedTool, "tool_choice", declared && choice.Forced() || some && choice.Required)
	n.add(catalog.AllowedTools, "tool_choice", some)
	n.add(catalog.ToolsNoneWithHistory, "tool_choice", declared && called && choice.Mode == chat.ChoiceNone)
	n.add(catalog.Functions, "functions", !slices.Contains([]string{"", "[]"}, value(r, "functions")))
	n.add(catalog.Functions, "function_call", !slices.Contains([]string{"", `"none"`, `"auto"`}, value(r, "function_call")))
	n.add(catalog.WebSearch, "web_search_options", value(r, "web_search_options") != "")
}

func contentNeeds(n *Needs, r *chat.Request) {
	for i := range r.Messages {
		for j := range r.Messages[i].Parts {
			n.part(fmt.Sprintf("%s.content[%d]", message(i), j), &r.Messages[i].Parts[j])
		}
	}
	n.add(catalog.AudioOut, "modalities", strings.Contains(value(r, "modalities"), `"audio"`))
	n.add(catalog.AudioOut, "audio", value(r, "audio") != "")
}

func (n *Needs) part(at string, p *chat.Part) {
	n.add(catalog.Images, at, p.Kind == chat.ImagePart)
	n.add(catalog.Audio, at, p.Kind == chat.AudioPart)
	n.add(catalog.Files, at, p.Kind == chat.FilePart)
	n.add(catalog.FileIDs, at+".file.file_id", p.Kind == chat.FilePart && p.Data == "" && p.FileID != "" && !strings.Contains(p.FileID, "://"))
}

func formatNeeds(n *Needs, r *chat.Request) {
	schema, object := r.Format != nil && r.Format.Kind == chat.FormatSchema, r.Format != nil && r.Format.Kind == chat.FormatObject
	n.add(catalog.JSONSchema, "response_format", schema)
	n.add(catalog.JSONObject, "response_format", object)
	n.add(catalog.SchemaWithTools, "response_format", (schema || object) && len(r.Tools) > 0)
}

func samplingNeeds(n *Needs, r *chat.Request) {
	blank := func(s string) bool { return strings.TrimSpace(s) == "" }
	set := func(penalty *float64) bool { return penalty != nil && *penalty != 0 }
	n.add(catalog.Choices, "n", r.Choices > 1)
	n.add(catalog.LogProbs, "logprobs", r.LogProbs)
	n.add(catalog.ReasonedLogProbs, "logprobs", r.LogProbs && r.Effort != "none")
	n.add(catalog.LogitBias, "logit_bias", !slices.Contains([]string{"", "{}"}, value(r, "logit_bias")))
	n.add(catalog.Penalties, "frequency_penalty", set(r.FrequencyPenalty))
	n.add(catalog.Penalties, "presence_penalty", set(r.PresencePenalty))
	n.add(catalog.Stop, "stop", len(r.Stop) > 0)
	n.add(catalog.BlankStop, "stop", slices.ContainsFunc(r.Stop, blank))
}

func message(i int) string { return "messages[" + strconv.Itoa(i) + "]" }

// value is a member of the client's body as written but for its white space; empty where there is none, or null.
func value(r *chat.Request, name string) string {
	for _, m := range r.Members {
		if m.Name == name {
			return strings.TrimPrefix(strings.Join(strings.Fields(string(m.Value)), ""), "null")
		}
	}
	return ""
}

// lacking says why a channel cannot serve the needs; OK when it can. A parameter that its operator has it drop is no need.
func lacking(ch *catalog.Channel, n *Needs) Reason {
	for _, f := range n.Features {
		if ch.Capabilities.LacksFor(n.request, f) && !slices.Contains(ch.Capabilities.Drops, n.params[f]) {
			return missing + Reason(f)
		}
	}
	for _, region := range n.Regions {
		if ch.Region != region {
			return WrongRegion
		}
	}
	if limit := ch.Capabilities.MaxOutput; limit > 0 && n.Output > limit {
		return OutputTooLong
	}
	if limit := ch.Capabilities.Context; limit > 0 && n.Input+n.Output > limit {
		return TooLong
	}
	return OK
}
