package openai

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"spillway/internal/chat"
	"spillway/internal/provider"
	"spillway/internal/provider/openai/strict"
)

const (
	newLimit = "max_completion_tokens"
	oldLimit = "max_tokens"
)

// encoder writes one request.
type encoder struct {
	provider.Call
	dialect *dialect
	body    []byte
	dropped []string
}

// encode writes the upstream body in one pass over the client's members, which are passed on as written but for those
// that the gateway owns: the model, streaming, the output limit, the reasoning of others, what this channel does not take,
// and what its vendor has other words for. It returns the names of the parameters that were left out. The request itself is
// not touched.
func encode(c provider.Call) (body []byte, dropped []string) {
	e := &encoder{Call: c, dialect: dialectFor(c), body: make([]byte, 0, c.Request.Size+192)}
	e.body = append(e.body, `{"model":`...)
	e.body = appendJSONString(e.body, string(c.Channel.Model))
	for _, m := range c.Request.Members {
		e.member(m)
	}
	e.limit()
	if c.Stream {
		e.add("stream", `true`)
		e.streamOptions()
	}
	return append(e.body, '}'), e.dropped
}

// member writes one of the client's members, in the vendor's words.
func (e *encoder) member(m chat.Member) {
	switch m.Name {
	case "model", "stream", "stream_options", newLimit, oldLimit:
		return
	case "tools", "tool_choice", "parallel_tool_calls":
		if len(e.Request.Tools) == 0 {
			return // an empty list of tools, and what refers to it, mean nothing; some servers refuse them
		}
	}
	if e.drops(m.Name) {
		e.leave(m)
		return
	}
	if m.Name == "response_format" && e.Firm && e.dialect.strict {
		m.Value = e.firm(m.Value)
	}
	if slices.Contains(e.dialect.omits, m.Name) && !asks(m) {
		return
	}
	word, differs := e.dialect.word(m)
	switch {
	case differs && word == "":
		e.leave(m)
		return
	case differs:
		m.Value = appendJSONString(nil, word)
	case m.Name == "messages":
		m.Value = e.messages(m.Value)
	case m.Name == "reasoning_effort" && !isNull(m.Value):
		m.Value = appendJSONString(nil, e.Channel.Capabilities.Effort(e.Request.Effort))
	}
	if m.Name == "reasoning_effort" && e.dialect.effort != "" {
		e.effort(m)
		return
	}
	name := cmp.Or(e.dialect.names[m.Name], m.Name)
	if name != m.Name && e.wrote(name) {
		e.leave(m) // the client speaks the vendor's own dialect
		return
	}
	e.add(name, string(m.Value))
}

// firm is a response_format whose schema the model is held to while it writes; as written where the schema cannot be said so.
func (e *encoder) firm(written []byte) []byte {
	f := e.Request.Format
	if f == nil || f.Kind != chat.FormatSchema || f.Strict {
		return written
	}
	closed, ok := strict.Schema(f.Schema)
	if !ok {
		return written
	}
	b := []byte(`{"type":"json_schema","json_schema":{`)
	gjson.ParseBytes(written).Get("json_schema").ForEach(func(key, value gjson.Result) bool {
		if key.Str != "schema" && key.Str != "strict" {
			b = append(appendName(b, key), value.Raw...)
		}
		return true
	})
	b = append(separated(b, '{'), `"strict":true,"schema":`...)
	return append(append(b, closed...), `}}`...)
}

// drops reports whether a top-level member is not taken and not needed.
func (e *encoder) drops(name string) bool {
	return slices.Contains(e.Channel.Capabilities.Drops, name) || slices.Contains(e.dialect.drops, name)
}

// leave leaves a member out, and names it if it says anything.
func (e *encoder) leave(m chat.Member) {
	if !isNull(m.Value) {
		e.dropped = append(e.dropped, m.Name)
	}
}

// word is the vendor's word for the value of a member, and whether it differs from OpenAI's.
func (d *dialect) word(m chat.Member) (word string, differs bool) {
	words := d.words[m.Name]
	if len(words) == 0 {
		return "", false
	}
	word, differs = words[gjson.ParseBytes(m.Value).String()]
	return word, differs
}

// asks reports whether a member asks for anything that is not the case without it.
func asks(m chat.Member) bool {
	switch value := gjson.ParseBytes(m.Value); {
	case value.Type == gjson.Null, value.Type == gjson.False:
		return false
	case m.Name == "n":
		return value.Num != 1
	case m.Name == "modalities":
		return slices.ContainsFunc(value.Array(), func(v gjson.Result) bool { return v.Str != "text" })
	case m.Name == "top_logprobs", value.Type == gjson.Number:
		return value.Num != 0
	default:
		return strings.Trim(value.Raw, "{}[] \t\r\n") != ""
	}
}

// effort writes how much the model is to reason for a vendor that has a member of its own for it. A client that wrote that
// member meant this vendor.
func (e *encoder) effort(m chat.Member) {
	own := string(e.dialect.effort)
	switch {
	case isNull(m.Value):
	case e.dialect.effort == effortInReasoning && e.wrote(own):
		e.leave(m)
	case e.dialect.effort == effortInReasoning:
		e.add(own, `{"effort":`+string(m.Value)+`}`)
	case e.wrote(own):
		e.add(m.Name, string(m.Value))
	case e.Request.Effort == "none":
		e.add(own, `{"type":"disabled"}`)
	default:
		e.add(m.Name, string(m.Value))
		e.add(own, `{"type":"enabled"}`)
	}
}

// limit writes the output limit under one name: the channel's, else the vendor's, else the client's own.
func (e *encoder) limit() {
	limit := e.OutputLimit()
	if limit == 0 {
		return
	}
	name := cmp.Or(e.Channel.Capabilities.OutputField, e.dialect.limit)
	if name == "" {
		if name = oldLimit; e.sets(newLimit) {
			name = newLimit
		}
	}
	if e.drops(name) {
		e.dropped = append(e.dropped, name)
		return
	}
	e.add(name, strconv.FormatInt(limit, 10))
}

// streamOptions asks for usage, which is metered whether or not the client wants it, and for frames without padding. What
// else the client wrote goes along.
func (e *encoder) streamOptions() {
	if e.dialect.untold || e.drops("stream_options") {
		return
	}
	options := `{"include_usage":true`
	if e.dialect.plainChunks {
		options += `,"include_obfuscation":false`
	}
	for _, m := range e.Request.Members {
		if m.Name != "stream_options" || isNull(m.Value) {
			continue
		}
		gjson.ParseBytes(m.Value).ForEach(func(key, value gjson.Result) bool {
			if key.Str != "include_usage" && (key.Str != "include_obfuscation" || !e.dialect.plainChunks) {
				options += `,` + key.Raw + `:` + value.Raw
			}
			return true
		})
	}
	e.add("stream_options", options+`}`)
}

// wrote reports whether the client has a member, and sets whether it says anything.
func (e *encoder) wrote(name string) bool {
	return slices.ContainsFunc(e.Request.Members, func(m chat.Member) bool { return m.Name == name })
}

func (e *encoder) sets(name string) bool {
	return slices.ContainsFunc(e.Request.Members, func(m chat.Member) bool { return m.Name == name && !isNull(m.Value) })
}

func (e *encoder) add(name, value string) {
	e.body = append(e.body, ',')
	e.body = appendJSONString(e.body, name)
	e.body = append(e.body, ':')
	e.body = append(e.body, value...)
}

func isNull(value []byte) bool { return strings.TrimSpace(string(value)) == "null" }
