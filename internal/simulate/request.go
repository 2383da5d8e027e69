package simulate

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// request is what the faults need to know of any request, in any wire format, and
// what its healthy answer says.
type request struct {
	model         string
	stream        bool
	usage         bool // the stream is to end with a usage event, where a format leaves that to the client
	limit         int  // tokens; 0 is none
	choices       int  // ≥ 1
	thinking      string
	hides         bool // what is thought is counted and not told
	text          string
	calls         []toolCall      // the answer is these calls
	schema        json.RawMessage // the answer is an object of this schema
	endsAssistant bool            // the last message is the assistant's
	promptTokens  int
}

type toolCall struct {
	name      string
	arguments string
}

// asked is what a request asks, as its wire format read it.
type asked struct {
	model          string
	stream, usage  bool
	limit, choices int
	messages       []message
	tools          []tool
	choice         choice
	oneCall        bool // no more than one tool call
	schema         json.RawMessage
	anyObject      bool // JSON is wanted, of any shape
	thinks, hides  bool // the answer has reasoning; and does not show it
}

// message is one turn of a conversation.
type message struct {
	assistant bool
	user      bool // spoken by a user; a tool's result is not
	text      string
	images    int
}

type tool struct {
	name   string
	schema json.RawMessage
}

// choice is how free the answer is in calling tools. The zero value is free.
type choice struct {
	none, required bool
	name           string // this tool
}

// anyObject is the shape of JSON that nobody asked a shape of.
const anyObject = `{"type":"object","properties":{"answer":{"type":"string"}}}`

// plan decides what the healthy answer says.
func (a asked) plan() request {
	last := a.messages[len(a.messages)-1]
	r := request{model: a.model, stream: a.stream, usage: a.usage, limit: a.limit, choices: max(a.choices, 1),
		endsAssistant: last.assistant, calls: a.calls(last), schema: a.schema, hides: a.hides}
	images := 0
	for _, m := range a.messages {
		r.promptTokens += 4 + len(m.text)/4
		images += m.images
	}
	if r.schema == nil && a.anyObject {
		r.schema = json.RawMessage(anyObject)
	}
	if a.thinks {
		r.thinking = thought
	}
	switch {
	case r.schema != nil:
		r.text = satisfy(r.schema)
	case images > 0:
		r.text = fmt.Sprintf("I see %d image(s). %s", images, answerText)
	default:
		r.text = answerText
	}
	return r
}

// thought is the reasoning of those models that show it.
const thought = "Water that has no way out finds one."

// calls are those that the request leads to: a forced one, or those about the
// weather, and about what else has a tool, that the user asked for and that have no
// results yet.
func (a asked) calls(last message) []toolCall {
	weather := last.user && mentions(last.text, "weather")
	switch {
	case len(a.tools) == 0 || a.choice.none:
		return nil
	case a.choice.name == "" && !a.choice.required && !weather:
		return nil
	}
	first := a.tool(a.choice.name)
	calls := []toolCall{first.call()}
	for _, t := range a.tools {
		if t.name != first.name && weather && a.choice.name == "" && !a.oneCall && mentions(last.text, t.subject()) {
			calls = append(calls, t.call())
		}
	}
	return calls
}

// tool is the one of that name, or of the weather, or the first.
func (a asked) tool(name string) tool {
	for _, wanted := range []string{name, "get_weather"} {
		if at := slices.IndexFunc(a.tools, func(t tool) bool { return t.name == wanted }); at >= 0 {
			return a.tools[at]
		}
	}
	return a.tools[0]
}

func (t tool) call() toolCall { return toolCall{name: t.name, arguments: satisfy(t.schema)} }

// subject is the last word of a tool's name.
func (t tool) subject() string { return t.name[strings.LastIndexByte(t.name, '_')+1:] }

func mentions(text, word string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(word))
}

// answer is what a request is answered with, in pieces of one token each.
type answer struct {
	request
	n        int   // which call it answers
	created  int64 // seconds since 1970
	thinking []string
	text     []string
	calls    []calling
	cut      bool // by the token limit
}

// calling is a tool call in pieces.
type calling struct {
	name   string
	pieces []string
}

func (c calling) arguments() string { return strings.Join(c.pieces, "") }

// answer cuts what the request is answered with into pieces, at most as many as it
// allows.
func (r request) answer(n int, created int64) answer {
	a := answer{request: r, n: n, created: created}
	left := r.limit
	if left == 0 {
		left = math.MaxInt
	}
	take := func(pieces []string) []string {
		if len(pieces) > left {
			pieces, a.cut = pieces[:left], true
		}
		left -= len(pieces)
		return pieces
	}
	a.thinking = take(words(r.thinking))
	for _, c := range r.calls {
		if !a.cut {
			a.calls = append(a.calls, calling{c.name, take(fragments(c.arguments))})
		}
	}
	switch {
	case len(r.calls) > 0:
	case r.schema != nil:
		a.text = take(fragments(r.text))
	default:
		a.text = take(words(r.text))
	}
	return a
}

// id is the answer's own, after the prefix that a format gives it.
func (a answer) id() string { return fmt.Sprintf("sim%06d", a.n) }

// tokens of one choice.
func (a answer) tokens() int {
	n := len(a.thinking) + len(a.text)
	for _, c := range a.calls {
		n += len(c.pieces)
	}
	return n
}

// said is the text in one piece.
func (a answer) said() string { return strings.Join(a.text, "") }

// thoughts is the reasoning in one piece.
func (a answer) thoughts() string { return strings.Join(a.thinking, "") }

// answerText is the whole healthy answer: 60 words, each of them one token.
const answerText = "When the river rises behind the dam, a spillway opens a second path: the extra water leaves " +
	"the reservoir over a broad concrete lip, runs down a smooth channel beside the wall, loses its force " +
	"in a deep stilling basin, and returns to the riverbed below, calm and spent, so that the dam stays whole " +
	"and the valley never floods."

// Answer is the text that "sim-ok" gives when the request limits nothing.
func Answer() string { return answerText }

// Tokens is Answer in the pieces in which it is streamed.
func Tokens() []string { return words(answerText) }

// words cuts before each space, so that the pieces join to the text.
func words(text string) []string {
	var out []string
	for len(text) > 0 {
		end := strings.IndexByte(text[1:], ' ') + 1
		if end == 0 {
			end = len(text)
		}
		out = append(out, text[:end])
		text = text[end:]
	}
	return out
}

// fragments cuts JSON into pieces of six characters.
func fragments(text string) []string {
	var out []string
	runes := []rune(text)
	for len(runes) > 0 {
		n := min(6, len(runes))
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}

func itoa(n int) string { return strconv.Itoa(n) }
