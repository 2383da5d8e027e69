package catalog

import (
	"slices"
	"strings"

	"spillway/internal/chat"
)

// table is what is known of APIs, vendors and their models, as models.json says it. A cold start does not decode that,
// which would cost most of a millisecond: known holds the same as Go data, and a test holds the two together. A channel's capabilities come from three rows: what the API of its provider's kind cannot say,
// what the vendor does not serve with any model, and what the model cannot do; of the last two the first that fits counts.
// The file ends with the rows of models that nobody knows: these lack what only some of their vendor's models can do, and
// no limit is assumed of them.
type table struct {
	APIs    []apiRow    `json:"apis" required:"" many:"10"`
	Vendors []vendorRow `json:"vendors" required:"" many:"50"`
	Models  []modelRow  `json:"models" required:"" many:"500"`
}

// An apiRow says what an API has no words for.
type apiRow struct {
	API    string    `json:"api" required:"" oneof:"anthropic elevenlabs fal gemini openai responses veo"`
	Cannot []Feature `json:"cannot" required:"" many:"50"`
	Source string    `json:"source" required:"" max:"1000"`
	Date   string    `json:"date" required:"" form:"date"`
}

// A vendorRow says what a vendor's server does not do for any of its models, spoken to over an API of that kind.
type vendorRow struct {
	Kind    string    `json:"kind" required:"" oneof:"anthropic gemini openai"`
	Vendors []vendor  `json:"vendors" required:"" many:"20"`
	Cannot  []Feature `json:"cannot" required:"" many:"50"`
	Source  string    `json:"source" required:"" max:"1000"`
	Date    string    `json:"date" required:"" form:"date"`
}

// A modelRow says what a model can do. Members that are left out say nothing.
type modelRow struct {
	// Kinds and Vendors are whose models; empty: anybody's.
	Kinds   []string `json:"kinds" many:"10" oneof:"anthropic elevenlabs fal gemini openai veo"`
	Vendors []vendor `json:"vendors" many:"20"`
	// Models are patterns of their ids, in which * stands for any text.
	Models    []string  `json:"models" required:"" many:"50"`
	Cannot    []Feature `json:"cannot" many:"50"`
	Context   int64     `json:"context" min:"1" max:"100000000"`
	MaxOutput int64     `json:"max_output" min:"1" max:"100000000"`
	Responses Responses `json:"responses" oneof:"with_tools always"`
	Efforts   []string  `json:"efforts" many:"10" oneof:"none minimal low medium high xhigh max"`
	Source    string    `json:"source" required:"" max:"1000"`
	Date      string    `json:"date" required:"" form:"date"`
}

// CapabilitiesOf is what the gateway knows of a model without its operator: of a kind of API, the vendor behind it, and
// the model's id. The slices are shared and must not be changed.
func CapabilitiesOf(kind, of string, id chat.RoutedModel) Capabilities {
	return known.capabilities(kind, vendor(of), string(id))
}

func (t *table) capabilities(kind string, of vendor, id string) Capabilities {
	c := Capabilities{Unsayable: t.unsayable(kind)}
	if kind == "openai" {
		c.UnsayableByResponses = t.unsayable("responses")
	}
	at := slices.IndexFunc(t.Vendors, func(r vendorRow) bool { return r.Kind == kind && slices.Contains(r.Vendors, of) })
	if at >= 0 {
		c.Cannot = t.Vendors[at].Cannot
	}
	at = slices.IndexFunc(t.Models, func(r modelRow) bool { return r.of(kind, of, id) })
	if at < 0 {
		return c
	}
	row := &t.Models[at]
	c.Cannot = slices.Concat(c.Cannot, row.Cannot)
	c.Context, c.MaxOutput, c.Responses, c.Efforts = row.Context, row.MaxOutput, row.Responses, row.Efforts
	return c
}

func (t *table) unsayable(api string) []Feature {
	at := slices.IndexFunc(t.APIs, func(r apiRow) bool { return r.API == api })
	if at < 0 {
		return nil
	}
	return t.APIs[at].Cannot
}

// of reports whether the row is a model's.
func (r *modelRow) of(kind string, of vendor, id string) bool {
	return (len(r.Kinds) == 0 || slices.Contains(r.Kinds, kind)) && (len(r.Vendors) == 0 || slices.Contains(r.Vendors, of)) &&
		slices.ContainsFunc(r.Models, func(pattern string) bool { return like(pattern, id) })
}

// like reports whether a text looks like a pattern, in which * stands for any text, slashes included.
func like(pattern, text string) bool {
	head, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, head)
	if !ok {
		return false
	}
	for at := 0; at <= len(text); at++ {
		if like(rest, text[at:]) {
			return true
		}
	}
	return false
}
