package suite

import (
	"slices"
	"strings"
)

// format is a wire format that the simulated provider speaks.
type format struct {
	// name is what its models are called by: "sim-<name>-f01".
	name string
	// kind is what a configuration calls providers of the format.
	kind string
	// path is where it is spoken, or what all its paths begin with.
	path string
	// responses: of the two formats of OpenAI's kind it is the newer.
	responses bool
	// wholeCalls: a tool call comes in one piece.
	wholeCalls bool
	// overloaded is the class of its words for that.
	overloaded string
}

// chat is the format of the models that name none.
var chat = format{kind: "openai", path: "/v1/chat/completions"}

// others are the formats beside it.
var others = []format{
	{name: "anthropic", kind: "anthropic", path: "/v1/messages", overloaded: "overloaded"},
	// A 503 UNAVAILABLE says no more than that, and is treated alike.
	{name: "gemini", kind: "gemini", path: "/v1/models/sim-gemini-", wholeCalls: true, overloaded: "server_error"},
	{name: "responses", kind: "openai", path: "/v1/responses", responses: true, overloaded: "overloaded"},
}

// formatOf is the format that a model is called in.
func formatOf(model string) format {
	for _, f := range others {
		if strings.HasPrefix(model, f.model("")) {
			return f
		}
	}
	return chat
}

func (f format) model(fault string) string { return "sim-" + f.name + "-" + fault }

// everywhere are the rows that are run in every format: what each has its own words or
// events for.
var everywhere = []string{"F08", "F10", "F11", "F17", "F18a", "F18b", "F18c", "F18d", "F19", "F20", "F21", "F21 whole", "F22", "F32"}

// otherRows are those rows in the other formats. The fallback of each speaks the next
// format, so that each is the healthy one, too, and every fallback leads from one
// provider's words into another's.
func otherRows() (rows []Row) {
	for i, f := range others {
		for _, r := range chatRows {
			if slices.Contains(everywhere, r.Name) {
				rows = append(rows, r.in(f, others[(i+1)%len(others)].model("ok")))
			}
		}
	}
	return rows
}

// in is the row in another format. It demands what it demands in OpenAI's.
func (r Row) in(f format, backup string) Row {
	r.Name += " " + f.name
	r.Candidates = f.models(r.Candidates, backup)
	r.Steps, r.Complete = f.steps(r.Steps, backup), f.steps(r.Complete, backup)
	return r
}

func (f format) models(chat []string, backup string) (own []string) {
	for _, model := range chat {
		if model == "sim-ok" {
			own = append(own, backup)
		} else {
			own = append(own, f.model(strings.TrimPrefix(model, "sim-")))
		}
	}
	return own
}

func (f format) steps(chat []Step, backup string) (own []Step) {
	for _, s := range chat {
		s.Calls, s.Classes = f.models(s.Calls, backup), slices.Clone(s.Classes)
		for i, class := range s.Classes {
			if class == "overloaded" {
				s.Classes[i] = f.overloaded
			}
		}
		own = append(own, s)
	}
	return own
}
