package suite

import (
	"strings"
	"time"
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

// otherRows are the faults that each format has its own words for. The fallback of each
// row speaks the next format, so that each is the healthy one, too, and every fallback
// leads from one provider's words into another's.
func otherRows() (rows []Row) {
	for i, f := range others {
		rows = append(rows, f.rows(others[(i+1)%len(others)].model("ok"))...)
	}
	return rows
}

// rows are a format's. What they demand is what the rows of the same number demand of
// OpenAI's chat format.
func (f format) rows(backup string) []Row {
	row := func(number, fault string, steps func(model string) []Step) Row {
		model := f.model(strings.ToLower(number))
		return Row{Name: number + " " + f.name, Fault: fault, Candidates: []string{model, backup}, Steps: steps(model), Recorded: both}
	}
	// twice is a call, one more of the same candidate, and the fallback.
	twice := func(class string) func(string) []Step {
		return func(model string) []Step {
			return []Step{{Calls: []string{model, model, backup}, Classes: []string{class, class}}}
		}
	}
	cut := row("F21", "cut inside a tool call", func(model string) []Step {
		return []Step{{
			Calls:   []string{model},
			Classes: []string{"network"},
			Conduct: brokenOff{inCall: true, behind: f.wholeCalls, code: "provider_disconnect", class: "network"}.check,
		}}
	})
	cut.Tool, cut.Complete, cut.Recorded = true, twice("network")(cut.Candidates[0]), liveSafe
	whole := row("F21", "cut inside a tool call, on a route that sends calls in one piece", twice("network"))
	whole.Name, whole.Tool, whole.Route = "F21 whole "+f.name, true, Overrides{"tool_deltas": "whole"}
	whole.Steps[0].Conduct = inOnePiece
	breach := row("F22", "structured output that is no JSON, then one that breaks the schema", func(model string) []Step {
		once := func(text string) Step {
			return Step{Calls: []string{model}, Classes: []string{"contract_violation"}, Conduct: breaksContract(text)}
		}
		return []Step{once(noJSON), once(noObject)}
	})
	breach.Schema, breach.Complete, breach.Recorded = true, twice("contract_violation")(breach.Candidates[0]), liveSafe
	return []Row{
		row("F17", "overloaded inside a 200 stream, before content", twice(f.overloaded)),
		row("F18a", "200 with an error body", twice("server_error")),
		row("F18b", "200 with an answer that has nothing in it", twice("bad_response")),
		row("F18c", "200 with HTML", twice("bad_response")),
		row("F18d", "200 with zero bytes", twice("bad_response")),
		row("F20", "invalid key, in the format's own shape", rejected),
		cut,
		whole,
		breach,
	}
}

// rejected are the steps of a row whose key the provider refuses: one call, nothing
// waited for and no fallback; then not even a call.
func rejected(model string) []Step {
	return []Step{
		{
			Right:   CleanError,
			Calls:   []string{model},
			Classes: []string{"auth"},
			Within:  time.Second,
			Conduct: all(noKey.check, alerts("auth")),
		},
		{
			Right:   CleanError, // from memory
			Within:  time.Second,
			Conduct: noKey.check,
		},
	}
}
