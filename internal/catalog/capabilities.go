package catalog

import (
	"slices"

	"spillway/internal/chat"
)

// Responses says which requests a model of OpenAI's takes through the Responses API alone. The zero value is none.
type Responses string

// The uses of the Responses API. A configuration calls the zero value "never".
const (
	ResponsesNever     Responses = ""
	ResponsesWithTools Responses = "with_tools"
	ResponsesAlways    Responses = "always"
)

// Capabilities say what a channel's model can serve. The zero value can everything.
type Capabilities struct {
	// Cannot lists the features that the model lacks, so that a request which needs one of them passes the channel by.
	Cannot []Feature
	// Unsayable lists the features that the API of the provider's kind has no words for, whatever the model, and
	// UnsayableByResponses those that OpenAI's Responses API has none for. Only the table has them.
	Unsayable, UnsayableByResponses []Feature
	// Drops lists top-level parameters that the model does not take and that may be left out without changing what
	// the request means. They are named in X-LLM-Dropped-Params.
	Drops []string
	// Context is the model's context in tokens, MaxOutput the longest output; 0: not known, no limit is assumed.
	Context   int64
	MaxOutput int64
	// DefaultOutput is the output limit, in tokens, of a request that sets none, where the provider demands one: the
	// longest output that the operator declared. 0: the adapter's own.
	DefaultOutput int64
	// OutputField names the output limit in this model's dialect: max_completion_tokens or max_tokens. Empty: the
	// adapter's own, or as the client wrote it.
	OutputField string
	// Responses says which requests must go through the Responses API.
	Responses Responses
	// Efforts are the reasoning efforts that the model knows, least first; nil: not known, any is asked.
	Efforts []string
}

// Lacks reports whether the channel lacks a feature for every request.
func (c Capabilities) Lacks(f Feature) bool {
	return slices.Contains(c.Cannot, f) || slices.Contains(c.Unsayable, f) ||
		c.Responses == ResponsesAlways && slices.Contains(c.UnsayableByResponses, f)
}

// LacksFor reports whether the channel lacks a feature for a request, which may have to go through the Responses API.
func (c Capabilities) LacksFor(r *chat.Request, f Feature) bool {
	return c.Lacks(f) || c.ByResponses(r) && slices.Contains(c.UnsayableByResponses, f)
}

// Fetched reports whether the gateway makes up for the lack of a feature: it fetches what stands at an address.
func (f Feature) Fetched() bool { return f == RemoteImages || f == RemoteFiles || f == PlainHTTP }

// Lacking are all features that the channel lacks for every request, in their order by name.
func (c Capabilities) Lacking() []Feature {
	var all []Feature
	for _, name := range keysOf(everyFeature) {
		if f := Feature(name); c.Lacks(f) {
			all = append(all, f)
		}
	}
	return all
}

// ByResponses reports whether a request must go through the Responses API. With tools also means with the search, which is
// a tool there, and with the effort max, which only that API has.
func (c Capabilities) ByResponses(r *chat.Request) bool {
	return c.Responses == ResponsesAlways || c.Responses == ResponsesWithTools && (len(r.Tools) > 0 || r.Effort == "max" || searches(r))
}

func searches(r *chat.Request) bool {
	return slices.ContainsFunc(r.Members, func(m chat.Member) bool { return m.Name == "web_search_options" && string(m.Value) != "null" })
}

// efforts are OpenAI's words, least first.
var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// Effort is the effort nearest to the one asked for that the model knows, of two as near the greater: an effort changes
// how good an answer is and not what it is, so that no request passes a channel by for it. What is no word of OpenAI's,
// and any effort of a model whose own are not known, stays as it is.
func (c Capabilities) Effort(asked string) string {
	at := slices.Index(efforts, asked)
	if at < 0 || len(c.Efforts) == 0 {
		return asked
	}
	for away := range efforts {
		for _, i := range []int{at + away, at - away} {
			if i >= 0 && i < len(efforts) && slices.Contains(c.Efforts, efforts[i]) {
				return efforts[i]
			}
		}
	}
	return asked
}
