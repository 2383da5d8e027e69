package responses

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"spillway/internal/chat"
)

const (
	// maxItems is the largest number of items in one answer.
	maxItems = 1024
	// maxArguments bounds the arguments of one call, in bytes: they are checked as JSON, by recursion.
	maxArguments = 2 << 20
)

// output is what is known of an answer's items. A tool call's index counts the calls and not the items.
type output struct {
	// vendor is whose reasoning it is, account which of the vendor's accounts can read it.
	vendor, account string
	items           map[int64]*outputItem
	begun           int // how many items there have been
	ids             []string
	calls           int
	said            int // characters of text
	// reasoned is the part of the reasoning that spoke last; nil: none has.
	reasoned *reasonedPart
	// beyond says that there is more than any model makes.
	beyond bool
}

// outputItem is an item that has begun.
type outputItem struct {
	kind string
	// tool is the index of a call.
	tool int
	// said counts the bytes that have been passed on of it.
	said int
	// argued: a call has arguments that are more than white space.
	argued bool
	done   bool
	// after is what of the answer had been passed on when it began.
	after chat.Place
}

// part is a part of an item's reasoning: one of its summary, or of its text.
type part struct {
	kind  string
	index int64
}

type reasonedPart struct {
	item int64
	part
}

// item is the item at an index, which begins now where nobody said that it did.
func (o *output) item(at int64) *outputItem {
	it := o.items[at]
	if it == nil {
		it = o.begin(at)
	}
	return it
}

func (o *output) begin(at int64) *outputItem {
	if o.items == nil {
		o.items = map[int64]*outputItem{}
	}
	o.begun++
	o.beyond = o.beyond || o.begun > maxItems
	it := &outputItem{after: chat.Place{Text: o.said, Calls: o.calls}}
	o.items[at] = it
	return it
}

// add begins an item. A call is passed on at once, with its first arguments.
func (o *output) add(d *chat.Delta, answer string, at int64, v gjson.Result) {
	o.close(d, at)
	o.open(d, answer, o.begin(at), v)
	o.argue(d, at, written(v))
}

// called reports whether the item is a tool call of the client's.
func (it *outputItem) called() bool { return it.kind == functionCall || it.kind == customCall }

const (
	functionCall = "function_call"
	customCall   = "custom_tool_call"
)

// written are a call's arguments, or a free-text tool's input.
func written(v gjson.Result) string {
	if v.Get("type").Str == customCall {
		return v.Get("input").Str
	}
	return v.Get("arguments").Str
}

// open notes an item's kind, and passes on that a call begins. answer is the answer's id, from which missing ids are made.
func (o *output) open(d *chat.Delta, answer string, it *outputItem, v gjson.Result) {
	it.kind = v.Get("type").Str
	if !it.called() {
		return
	}
	id := v.Get("call_id").Str
	if id == "" {
		id = "call_" + strings.TrimPrefix(answer, "resp_") + "_" + strconv.Itoa(o.calls)
	}
	for slices.Contains(o.ids, id) {
		id += "_"
	}
	it.tool = o.calls
	o.ids = append(o.ids, id)
	o.calls++
	d.Tools = append(d.Tools, chat.ToolDelta{Index: it.tool, ID: id, Name: v.Get("name").Str, Custom: it.kind == customCall})
}

// text passes on a piece of a message's text.
func (o *output) text(d *chat.Delta, at int64, text string) {
	o.say(at, &d.Text, text)
	o.said += utf8.RuneCountInString(text)
}

// say passes on a piece of a message: into is the delta's text or its refusal.
func (o *output) say(at int64, into *string, text string) {
	if text == "" {
		return
	}
	o.item(at).said += len(text)
	*into += text
}

// reason passes on a piece of the reasoning. Its parts are paragraphs.
func (o *output) reason(d *chat.Delta, at int64, p part, text string) {
	if text == "" {
		return
	}
	o.item(at).said += len(text)
	this := reasonedPart{at, p}
	if o.reasoned != nil && *o.reasoned != this {
		d.Reasoning += "\n\n"
	}
	o.reasoned = &this
	d.Reasoning += text
}

// argue passes a piece of a call's arguments on.
func (o *output) argue(d *chat.Delta, at int64, text string) {
	it := o.items[at]
	if text == "" || it == nil || !it.called() {
		return
	}
	it.said += len(text)
	it.argued = it.argued || strings.TrimSpace(text) != ""
	o.beyond = o.beyond || it.said > maxArguments
	d.Tools = append(d.Tools, chat.ToolDelta{Index: it.tool, Arguments: text})
}

// finish ends an item, which is given whole: what has not been passed on of it is now, and reasoning can be replayed.
func (o *output) finish(d *chat.Delta, answer string, at int64, v gjson.Result) {
	it := o.item(at)
	if it.done {
		return
	}
	if it.kind == "" {
		o.open(d, answer, it, v)
	}
	it.done = true
	switch {
	case it.said > 0:
	case it.kind == "message":
		o.message(d, at, v.Get("content"))
	case it.kind == "reasoning":
		o.reasoning(d, at, v)
	default:
		o.argue(d, at, written(v))
	}
	o.close(d, at)
	if data := v.Get("encrypted_content").Str; it.kind == "reasoning" && data != "" {
		d.Thinking = append(d.Thinking, chat.Thinking{Vendor: o.vendor, Data: o.account + data, After: it.after})
	}
}

// close gives a function's call that has no arguments an empty object of them.
func (o *output) close(d *chat.Delta, at int64) {
	if it := o.items[at]; it != nil && it.kind == functionCall && !it.argued {
		o.argue(d, at, "{}")
	}
}

func (o *output) message(d *chat.Delta, at int64, parts gjson.Result) {
	parts.ForEach(func(_, p gjson.Result) bool {
		switch p.Get("type").Str {
		case "output_text":
			o.text(d, at, p.Get("text").Str)
			logProbs(d, p.Get("logprobs"))
		case "refusal":
			o.say(at, &d.Refusal, p.Get("refusal").Str)
		}
		return true
	})
}

func (o *output) reasoning(d *chat.Delta, at int64, v gjson.Result) {
	for _, list := range []string{"summary", "content"} {
		index := int64(0)
		v.Get(list).ForEach(func(_, p gjson.Result) bool {
			o.reason(d, at, part{list, index}, p.Get("text").Str)
			index++
			return true
		})
	}
}

// rest reads the items that the end of an answer repeats: all of them where no frame told of any, else those that have not
// ended.
func (o *output) rest(d *chat.Delta, answer string, items gjson.Result) {
	untold, at := o.begun == 0, int64(0)
	items.ForEach(func(_, v gjson.Result) bool {
		if it := o.items[at]; untold || it != nil && it.kind == v.Get("type").Str {
			o.finish(d, answer, at, v)
		}
		at++
		return !o.beyond
	})
	for _, at := range slices.Sorted(maps.Keys(o.items)) {
		o.close(d, at)
	}
}

// logProbs passes the probabilities of tokens on, in the shape that they have in the chat API.
func logProbs(d *chat.Delta, tokens gjson.Result) {
	const head, tail = `{"content":[`, `],"refusal":null}`
	list := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(tokens.Raw), "["), "]")
	if !tokens.IsArray() || strings.TrimSpace(list) == "" {
		return
	}
	if before, ok := strings.CutSuffix(d.LogProbs, tail); ok {
		d.LogProbs = before + "," + list + tail
		return
	}
	d.LogProbs = head + list + tail
}
