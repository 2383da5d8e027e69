package openai

import (
	"github.com/tidwall/gjson"

	"spillway/internal/chat"
)

// calls keeps track of the tool calls of a stream, so that servers which leave out the index, or repeat id and name
// with every fragment, come out the same: one index a call, id and name with its first fragment only.
type calls struct {
	seen []callSeen
}

type callSeen struct {
	choice, index int
	id            string
}

// readCalls adds the fragments of a tool_calls value to a delta.
func (r *reply) readCalls(d *chat.Delta, value gjson.Result) {
	value.ForEach(func(_, c gjson.Result) bool {
		t := chat.ToolDelta{ID: c.Get("id").String(), Name: c.Get("function.name").String(), Arguments: argumentsOf(c.Get("function.arguments"))}
		if custom := c.Get("custom"); custom.Exists() {
			t.Name, t.Arguments = custom.Get("name").String(), custom.Get("input").String()
		}
		index := c.Get("index")
		first, given := false, index.Exists() && index.Type == gjson.Number
		if r.event.Whole {
			t.Index, first, given = len(d.Tools), true, true // each entry of a plain message is a call
		} else if given {
			t.Index = int(index.Int())
			first = r.calls.open(d.Choice, t.Index, t.ID)
		} else {
			t.Index, first = r.calls.place(d.Choice, t.ID)
		}
		if !given || (!first && (t.ID != "" || t.Name != "")) {
			r.event.Rebuilt = true
		}
		if !first {
			t.ID, t.Name = "", ""
		}
		d.Tools = append(d.Tools, t)
		return true
	})
}

// argumentsOf is the text of the arguments; some servers send an object instead of a string.
func argumentsOf(v gjson.Result) string {
	if v.IsObject() {
		return v.Raw
	}
	return v.String()
}

// open notes a fragment with an index and reports whether it is the call's first.
func (c *calls) open(choice, index int, id string) bool {
	for _, s := range c.seen {
		if s.choice == choice && s.index == index {
			return false
		}
	}
	c.seen = append(c.seen, callSeen{choice, index, id})
	return true
}

// place finds the index of a fragment that names none: a new id opens a call, a known one or none continues one.
func (c *calls) place(choice int, id string) (index int, first bool) {
	last := -1
	for _, s := range c.seen {
		if s.choice != choice {
			continue
		}
		if id != "" && s.id == id {
			return s.index, false
		}
		last = max(last, s.index)
	}
	if id == "" && last >= 0 {
		return last, false
	}
	c.seen = append(c.seen, callSeen{choice, last + 1, id})
	return last + 1, true
}
