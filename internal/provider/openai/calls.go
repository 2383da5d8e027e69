package openai

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"spillway/internal/chat"
)

// maxCalls is the largest number of tool calls in one answer; OpenAI makes at most 128.
const maxCalls = 1024

// calls keeps track of the tool calls of an answer, so that servers which leave out the index or the id, or repeat id and
// name with every fragment, come out the same: one index a call, an id of its own, id and name sent once, and arguments
// that are {} where there are none.
type calls struct {
	seen []callSeen
}

type callSeen struct {
	choice, index   int
	id              string
	named, argument bool
}

// readCalls adds the fragments of a tool_calls value to a delta.
func (r *reply) readCalls(d *chat.Delta, value gjson.Result) {
	value.ForEach(func(_, c gjson.Result) bool {
		arguments := c.Get("function.arguments")
		t := chat.ToolDelta{ID: c.Get("id").String(), Name: c.Get("function.name").String(), Arguments: argumentsOf(arguments),
			Signature: c.Get("extra_content.google.thought_signature").Str}
		if custom := c.Get("custom"); custom.Exists() {
			t.Custom = true
			t.Name, t.Arguments = custom.Get("name").String(), custom.Get("input").String()
		}
		index := c.Get("index")
		t.Index = int(index.Int())
		numbered := index.Type == gjson.Number
		blank := t.ID == "" && t.Name == "" && strings.TrimSpace(t.Arguments) == ""
		if blank && (t.Arguments == "" || r.event.Whole || r.calls.place(d.Choice, numbered, &t) < 0) {
			r.event.Rebuilt = true // it says nothing, and must not open a call: that would be content
			return true
		}
		if r.event.Whole { // each entry of a message is a call, and has no number
			t.Index, numbered = len(d.Tools), true
		}
		changed := r.calls.add(d.Choice, numbered, &t, r.event.ID)
		if changed || !numbered || arguments.Exists() && arguments.Type != gjson.String {
			r.event.Rebuilt = true
		}
		d.Tools = append(d.Tools, t)
		return len(r.calls.seen) <= maxCalls
	})
}

// argumentsOf is the text of the arguments; some servers send an object instead of a string.
func argumentsOf(v gjson.Result) string {
	if v.IsObject() {
		return v.Raw
	}
	return v.Str
}

// add finds the call that a fragment belongs to, gives the fragment its index if it is not numbered, and takes from it
// what has been said before. It reports whether the fragment no longer says what the provider wrote. answer is the
// answer's id, from which missing ids are made.
func (c *calls) add(choice int, numbered bool, t *chat.ToolDelta, answer string) (changed bool) {
	id := t.ID
	at := c.place(choice, numbered, t)
	if at < 0 {
		at = len(c.seen)
		t.ID = c.unique(choice, t, answer)
		c.seen = append(c.seen, callSeen{choice: choice, index: t.Index, id: t.ID})
		changed = t.ID != id
	} else {
		t.Index, t.ID = c.seen[at].index, ""
		changed = id != "" || t.Name != "" && c.seen[at].named
	}
	s := &c.seen[at]
	if s.named {
		t.Name = ""
	}
	s.named = s.named || t.Name != ""
	s.argument = s.argument || t.Custom || strings.TrimSpace(t.Arguments) != ""
	return changed
}

// place is the position of the call that a fragment continues; negative: it opens a call, whose index it then has. Where
// the fragment names no index, a new id or a name without an id opens a call, all else continues one.
func (c *calls) place(choice int, numbered bool, t *chat.ToolDelta) int {
	if numbered {
		return slices.IndexFunc(c.seen, func(s callSeen) bool { return s.choice == choice && s.index == t.Index })
	}
	last := -1
	for i, s := range c.seen {
		if s.choice != choice {
			continue
		}
		if t.ID != "" && s.id == t.ID {
			return i
		}
		last = i
		t.Index = max(t.Index, s.index+1)
	}
	if t.ID == "" && t.Name == "" {
		return last
	}
	return -1
}

// unique is the id of a call that opens: its own, unless that is missing or taken.
func (c *calls) unique(choice int, t *chat.ToolDelta, answer string) string {
	taken := func(id string) bool {
		return slices.ContainsFunc(c.seen, func(s callSeen) bool { return s.choice == choice && s.id == id })
	}
	if t.ID != "" && !taken(t.ID) {
		return t.ID
	}
	id := "call_" + strings.TrimPrefix(answer, "chatcmpl-") + "_" + strconv.Itoa(t.Index)
	for taken(id) {
		id += "_"
	}
	return id
}

// made reports whether a choice has called a tool.
func (c *calls) made(choice int) bool {
	return slices.ContainsFunc(c.seen, func(s callSeen) bool { return s.choice == choice })
}

// close adds the arguments {} for the calls of a choice that ends without any, and reports whether there was one.
func (c *calls) close(d *chat.Delta) (changed bool) {
	for i := range c.seen {
		if s := &c.seen[i]; s.choice == d.Choice && !s.argument {
			s.argument, changed = true, true
			d.Tools = append(d.Tools, chat.ToolDelta{Index: s.index, Arguments: "{}"})
		}
	}
	return changed
}
