package route

import (
	"strings"

	"spillway/internal/catalog"
	"spillway/internal/chat"
)

// Needs is what a request needs of a candidate.
type Needs struct {
	Features []catalog.Feature
	// Output is the output limit the client set, in tokens; 0: none.
	Output int64
	// Input is a low estimate of the input's tokens: what surely does not fit is left out, what may fit is asked.
	Input int64
	// Regions are where the request's data must stay, all of them: the organization's and the routes'. Empty: anywhere.
	Regions []string
}

// In adds a region where the data must stay; empty adds none.
func (n *Needs) In(region string) {
	if region != "" {
		n.Regions = append(n.Regions, region)
	}
}

// lowBytesPerToken is more than a token of plain text usually takes, so that the estimate is low.
const lowBytesPerToken = 6

// NeedsOf reads a request's needs.
func NeedsOf(r *chat.Request) Needs {
	n := Needs{Output: r.MaxTokens}
	add := func(f catalog.Feature, needed bool) {
		if needed {
			n.Features = append(n.Features, f)
		}
	}
	custom := false
	for _, t := range r.Tools {
		custom = custom || t.Custom
	}
	parts := map[chat.PartKind]bool{}
	text := 0
	history := false
	for i := range r.Messages {
		m := &r.Messages[i]
		history = history || len(m.Calls) > 0
		for j := range m.Parts {
			parts[m.Parts[j].Kind] = true
			text += len(m.Parts[j].Text)
		}
	}
	n.Input = int64(text / lowBytesPerToken)
	add(catalog.Tools, len(r.Tools) > 0 || history)
	add(catalog.CustomTools, custom)
	add(catalog.ForcedTool, len(r.Tools) > 0 && r.Choice.Forced())
	add(catalog.Images, parts[chat.ImagePart])
	add(catalog.Audio, parts[chat.AudioPart])
	add(catalog.Files, parts[chat.FilePart])
	add(catalog.JSONSchema, r.Format != nil && r.Format.Kind == chat.FormatSchema)
	add(catalog.JSONObject, r.Format != nil && r.Format.Kind == chat.FormatObject)
	add(catalog.Choices, r.Choices > 1)
	add(catalog.LogProbs, r.LogProbs)
	add(catalog.Streaming, r.Stream)
	add(catalog.Prefill, len(r.Messages) > 0 && r.Messages[len(r.Messages)-1].Role == chat.Assistant)
	for _, m := range r.Members {
		add(catalog.LogitBias, m.Name == "logit_bias" && strings.TrimSpace(string(m.Value)) != "null" && len(m.Value) > 2)
	}
	return n
}

// lacking says why a channel cannot serve the needs; OK when it can.
func lacking(ch *catalog.Channel, n Needs) Reason {
	for _, f := range n.Features {
		if ch.Capabilities.Lacks(f) {
			return Reason("no_" + string(f))
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
