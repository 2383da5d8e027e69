// Package openai is the client-facing shape of OpenAI's chat completions: it reads a request, refuses what is wrong by
// naming the field, and writes answers, streams and errors as OpenAI's SDKs expect them.
package openai

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"spillway/internal/chat"
	"spillway/internal/dialect"
	"spillway/internal/fault"
)

const (
	maxModels  = 8
	maxDepth   = 128
	maxChoices = 128
	maxStops   = 4
)

// Chat is the dialect of POST /v1/chat/completions.
type Chat struct{}

var _ dialect.Dialect = Chat{}

// Parse reads the body of POST /v1/chat/completions. The body is checked once for what two parsers could read
// differently (duplicate names, invalid UTF-8, depth); an error names the field. The request refers to body, which must
// not be changed afterwards.
func (Chat) Parse(body []byte) (*chat.Request, *fault.Error) {
	spans, err := topLevel(body)
	if err != nil {
		return nil, err
	}
	p := parser{req: &chat.Request{Dialect: chat.OpenAIChat, Choices: 1, Size: len(body)}, fields: make(map[string]gjson.Result, len(spans))}
	text := string(body) // once: it may be megabytes
	for _, m := range spans {
		p.fields[m.name] = gjson.Parse(text[m.from:m.to])
		switch m.name {
		case "models", "fallback_models", "prefer":
		default:
			p.req.Members = append(p.req.Members, chat.Member{Name: m.name, Value: body[m.from:m.to:m.to]})
		}
	}
	for _, read := range []func(*parser){(*parser).models, (*parser).messages, (*parser).tools, (*parser).toolChoice, (*parser).format,
		(*parser).limits, (*parser).sampling, (*parser).flags} {
		read(&p)
		if p.err != nil {
			return nil, p.err
		}
	}
	return p.req, nil
}

// span is where the value of a member stands in a body.
type span struct {
	name     string
	from, to int
}

// topLevel finds the members of a body's object.
func topLevel(body []byte) ([]span, *fault.Error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, fault.Invalid("body", "the body is empty; a JSON object is expected")
	}
	if depth(body) > maxDepth {
		return nil, fault.Invalid("body", "the body is nested deeper than "+strconv.Itoa(maxDepth)+" levels")
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(body))
	if dec.PeekKind() != '{' {
		return nil, fault.Invalid("body", "the body must be one JSON object")
	}
	var members []span
	if _, err := dec.ReadToken(); err != nil {
		return nil, badJSON(err)
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, badJSON(err)
		}
		key := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			return nil, badJSON(err)
		}
		end := int(dec.InputOffset())
		members = append(members, span{name: key, from: end - len(value), to: end})
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, badJSON(err)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, fault.Invalid("body", "something follows the JSON object")
	}
	return members, nil
}

// badJSON says where the body stops being JSON, without repeating any of it.
func badJSON(err error) *fault.Error {
	var syntactic *jsontext.SyntacticError
	if !errors.As(err, &syntactic) {
		return fault.Invalid("body", "the body is not valid JSON")
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		param := path(syntactic.JSONPointer)
		return fault.Invalid(param, fmt.Sprintf("%s: is given twice, the second time at byte %d of the body", param, syntactic.ByteOffset))
	}
	return fault.Invalid("body", fmt.Sprintf("the body is not valid JSON at byte %d", syntactic.ByteOffset))
}

// path writes a JSON pointer as errors name a field: messages[0].role.
func path(pointer jsontext.Pointer) string {
	var b strings.Builder
	for token := range pointer.Tokens() {
		switch {
		case token != "" && strings.Trim(token, "0123456789") == "":
			b.WriteString("[" + token + "]")
		case b.Len() == 0:
			b.WriteString(token)
		default:
			b.WriteString("." + token)
		}
	}
	if b.Len() == 0 { // the name is empty
		return "body"
	}
	return clipped(b.String())
}

// depth is how deep a JSON text nests; text inside strings does not count.
func depth(body []byte) int {
	deepest, level, quoted, escaped := 0, 0, false, false
	for _, c := range body {
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped = c == '\\'
			quoted = c != '"'
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}

// parser reads the members one group after another; the first problem stops it.
type parser struct {
	req    *chat.Request
	fields map[string]gjson.Result
	err    *fault.Error
}

func (p *parser) fail(param, format string, args ...any) {
	if p.err == nil {
		p.err = fault.Invalid(param, param+": "+fmt.Sprintf(format, args...))
	}
}

// get returns a member, null counting as absent.
func (p *parser) get(name string) (gjson.Result, bool) {
	v, ok := p.fields[name]
	return v, ok && v.Type != gjson.Null
}

func (p *parser) models() {
	list, replaced := p.names("models")
	if !replaced {
		v, ok := p.get("model")
		switch {
		case !ok:
			p.fail("model", "is required")
			return
		case v.Type != gjson.String || v.Str == "" || len(v.Str) > 256:
			p.fail("model", "must be a non-empty string of at most 256 characters")
			return
		}
		list = []chat.RequestedModel{chat.RequestedModel(v.Str)}
	}
	fallbacks, _ := p.names("fallback_models")
	for _, m := range append(list, fallbacks...) {
		if !slices.Contains(p.req.Models, m) {
			p.req.Models = append(p.req.Models, m)
		}
	}
	if v, ok := p.get("prefer"); ok {
		if v.Type != gjson.String {
			p.fail("prefer", "must be the name of a channel")
			return
		}
		p.req.Prefer = v.Str
	}
}

// names reads a list of model names.
func (p *parser) names(field string) (list []chat.RequestedModel, given bool) {
	v, ok := p.get(field)
	if !ok {
		return nil, false
	}
	items := v.Array()
	if !v.IsArray() || len(items) == 0 || len(items) > maxModels {
		p.fail(field, "must be a list of 1 to %d model names", maxModels)
		return nil, true
	}
	for i, item := range items {
		if item.Type != gjson.String || item.Str == "" || len(item.Str) > 256 {
			p.fail(fmt.Sprintf("%s[%d]", field, i), "must be a non-empty string of at most 256 characters")
		}
		list = append(list, chat.RequestedModel(item.Str))
	}
	return list, true
}

// limits reads the bounds of the output.
func (p *parser) limits() {
	p.req.MaxTokens = p.integer("max_completion_tokens", 1, 1<<31)
	if n := p.integer("max_tokens", 1, 1<<31); p.req.MaxTokens == 0 {
		p.req.MaxTokens = n
	}
	if n := p.integer("n", 1, maxChoices); n > 0 {
		p.req.Choices = int(n)
	}
	p.stop()
}

func (p *parser) stop() {
	v, ok := p.get("stop")
	if !ok {
		return
	}
	items := v.Array() // a single value is an array of itself
	if len(items) > maxStops {
		p.fail("stop", "holds %d sequences; at most %d are allowed", len(items), maxStops)
	}
	for _, s := range items {
		if s.Type != gjson.String || s.Str == "" {
			p.fail("stop", "must be a non-empty string or a list of them")
		}
		p.req.Stop = append(p.req.Stop, s.Str)
	}
}

func (p *parser) sampling() {
	p.req.Temperature = p.number("temperature", 0, 2)
	p.req.TopP = p.number("top_p", 0, 1)
	p.req.FrequencyPenalty = p.number("frequency_penalty", -2, 2)
	p.req.PresencePenalty = p.number("presence_penalty", -2, 2)
	if n := p.integer("seed", -1<<62, 1<<62); p.err == nil {
		if _, ok := p.get("seed"); ok {
			p.req.Seed = &n
		}
	}
	p.req.LogProbs = p.boolean("logprobs")
	if p.req.TopLogProbs = int(p.integer("top_logprobs", 0, 20)); p.req.TopLogProbs > 0 && !p.req.LogProbs {
		p.fail("top_logprobs", "needs logprobs: true")
	}
	if v, ok := p.get("logit_bias"); ok && !v.IsObject() {
		p.fail("logit_bias", "must be an object")
	}
	if v, ok := p.get("reasoning_effort"); ok {
		if v.Type != gjson.String {
			p.fail("reasoning_effort", "must be a string")
		}
		p.req.Effort = v.Str
	}
}

func (p *parser) flags() {
	p.req.Stream = p.boolean("stream")
	p.req.Store = p.boolean("store")
	if v, ok := p.get("modalities"); ok {
		p.req.Spoken = slices.ContainsFunc(v.Array(), func(m gjson.Result) bool { return m.Str == "audio" })
	}
	if parallel := p.boolean("parallel_tool_calls"); !parallel {
		_, p.req.OneCall = p.get("parallel_tool_calls")
	}
	if v, ok := p.get("stream_options"); ok {
		switch {
		case !v.IsObject():
			p.fail("stream_options", "must be an object")
		case !p.req.Stream:
			p.fail("stream_options", "is only allowed with stream: true")
		default:
			p.req.IncludeUsage = p.flag("stream_options.include_usage", v.Get("include_usage"))
		}
	}
	for _, name := range []string{"user", "service_tier", "verbosity", "safety_identifier", "prompt_cache_key"} {
		if v, ok := p.get(name); ok && v.Type != gjson.String {
			p.fail(name, "must be a string")
		}
	}
	for _, name := range []string{"user", "safety_identifier"} {
		if v, ok := p.get(name); ok {
			p.req.User = v.Str
		}
	}
	if v, ok := p.get("metadata"); ok {
		if !v.IsObject() {
			p.fail("metadata", "must be an object")
		}
		p.req.Conversation = v.Get("conversation_id").String()
	}
}

func (p *parser) integer(name string, least, most int64) int64 {
	v, ok := p.get(name)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(v.Raw, 10, 64)
	if v.Type != gjson.Number || err != nil || n < least || n > most {
		p.fail(name, "must be a whole number from %d to %d", least, most)
		return 0
	}
	return n
}

// number reads an optional number; nil when there is none.
func (p *parser) number(name string, least, most float64) *float64 {
	v, ok := p.get(name)
	if !ok {
		return nil
	}
	if v.Type != gjson.Number || v.Num < least || v.Num > most {
		p.fail(name, "must be a number from %g to %g", least, most)
	}
	return &v.Num
}

func (p *parser) boolean(name string) bool {
	v, ok := p.get(name)
	if ok && !v.IsBool() {
		p.fail(name, "must be true or false")
	}
	return ok && v.Bool()
}

// optional reports whether a nested value is given, null counting as absent.
func optional(v gjson.Result) bool { return v.Exists() && v.Type != gjson.Null }

// text reads an optional nested string.
func (p *parser) text(at string, v gjson.Result) string {
	if optional(v) && v.Type != gjson.String {
		p.fail(at, "must be a string")
	}
	return v.Str
}

// flag reads an optional nested boolean.
func (p *parser) flag(at string, v gjson.Result) bool {
	if optional(v) && !v.IsBool() {
		p.fail(at, "must be true or false")
	}
	return v.IsBool() && v.Bool()
}

// required reads a nested string that must be there.
func (p *parser) required(at string, v gjson.Result) string {
	if v.Type != gjson.String {
		p.fail(at, "is required and must be a string")
	}
	return v.Str
}

// oneOf writes a closed set for a message.
func oneOf[S ~string](words []S) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return strings.Join(out, ", ")
}
