package gemini

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/provider"
	"spillway/internal/provider/wire"
)

// unsigned stands for the signature of a call that has none, made by another provider or returned by a client that lost it:
// since Gemini 3 the first call of a step must carry one. https://ai.google.dev/gemini-api/docs/thought-signatures, 2026-11-30.
const unsigned = "skip_thought_signature_validator"

const (
	roleUser  = "user"
	roleModel = "model"
)

// The request body, as far as it is used.
type (
	request struct {
		System     *content          `json:"systemInstruction,omitzero"`
		Contents   []content         `json:"contents"`
		Tools      []declarations    `json:"tools,omitzero"`
		ToolConfig *toolConfig       `json:"toolConfig,omitzero"`
		Generation *generationConfig `json:"generationConfig,omitzero"`
	}
	content struct {
		Role  string `json:"role,omitzero"`
		Parts []part `json:"parts"`
	}
	part struct {
		Text      *utf8Text         `json:"text,omitzero"`
		Thought   bool              `json:"thought,omitzero"`
		Inline    *inlineData       `json:"inlineData,omitzero"`
		File      *fileData         `json:"fileData,omitzero"`
		Call      *functionCall     `json:"functionCall,omitzero"`
		Response  *functionResponse `json:"functionResponse,omitzero"`
		Signature string            `json:"thoughtSignature,omitzero"`
	}
	functionCall struct {
		Name string         `json:"name"`
		Args jsontext.Value `json:"args"`
	}
	functionResponse struct {
		Name     string `json:"name"`
		Response result `json:"response"`
	}
	result struct {
		Result jsontext.Value `json:"result"`
	}
)

// utf8Text is a text that cannot be written when it is not UTF-8.
type utf8Text string

// MarshalJSON writes the text.
func (t utf8Text) MarshalJSON() ([]byte, error) { return jsontext.AppendQuote(nil, string(t)) }

// encoder builds one body. The first refusal stays.
type encoder struct {
	req     *chat.Request
	limit   int64 // of the output; 0: none
	firm    bool  // hold the model to strict tools
	fetched map[string]provider.Content
	can     catalog.Capabilities
	family  family
	body    request
	dropped []string
	refused *wire.Refusal
}

// encode writes the upstream body from the canonical request, which is not touched. It returns the names of the parameters
// that were left out.
func encode(c provider.Call) (body []byte, dropped []string, refused *wire.Refusal) {
	e := &encoder{req: c.Request, limit: c.OutputLimit(), firm: c.Firm, fetched: c.Fetched, can: c.Channel.Capabilities, family: familyOf(c.Channel.Model)}
	e.messages()
	e.tools()
	e.generation()
	e.leftovers()
	if e.refused != nil {
		return nil, nil, e.refused
	}
	body, err := wire.JSON(&e.body)
	if err != nil {
		return nil, nil, &wire.Refusal{Param: "body", Why: "it cannot be written as JSON"}
	}
	return body, e.dropped, nil
}

func (e *encoder) refuse(param, format string, args ...any) {
	if e.refused == nil {
		e.refused = &wire.Refusal{Param: param, Why: fmt.Sprintf(format, args...)}
	}
}

func (e *encoder) drop(name string) {
	if !slices.Contains(e.dropped, name) {
		e.dropped = append(e.dropped, name)
	}
}

// messages writes the conversation: all system texts in order, and the turns. A conversation of system texts alone is a
// user's turn, since there must be one.
func (e *encoder) messages() {
	system := content{}
	for i := range e.req.Messages {
		m, at := &e.req.Messages[i], fmt.Sprintf("messages[%d]", i)
		switch m.Role {
		case chat.System, chat.Developer:
			system.Parts = append(system.Parts, e.parts(at, m)...)
		case chat.User:
			e.turn(roleUser, e.parts(at, m))
		case chat.Assistant:
			e.turn(roleModel, e.said(at, m))
			e.turn(roleUser, results(m.Calls, e.req.Messages[i+1:]))
		case chat.ToolRole: // went with its call
		default:
			e.refuse(at+".role", "the role %s is not known to this provider", m.Role)
		}
	}
	switch {
	case len(e.body.Contents) == 0:
		e.turn(roleUser, system.Parts)
	case len(system.Parts) > 0:
		e.body.System = &system
	}
	if n := len(e.body.Contents); n == 0 {
		e.refuse("messages", "they hold nothing to answer")
	} else if e.body.Contents[n-1].Role == roleModel {
		e.refuse("messages", "this provider cannot continue an assistant's message")
	}
}

// turn adds parts to the conversation: to its last turn where that is of the same role. Results of calls stay by themselves,
// because they are counted against the calls.
func (e *encoder) turn(role string, parts []part) {
	if len(parts) == 0 {
		return
	}
	if n := len(e.body.Contents); n > 0 {
		last := &e.body.Contents[n-1]
		if last.Role == role && last.Parts[0].Response == nil && parts[0].Response == nil {
			last.Parts = append(last.Parts, parts...)
			return
		}
	}
	e.body.Contents = append(e.body.Contents, content{Role: role, Parts: parts})
}

// said is what the model said in its turn: its reasoning as it was, its words, and its calls.
func (e *encoder) said(at string, m *chat.Message) (parts []part) {
	var signatures []part // of words: they follow them
	for _, t := range m.Thinking {
		switch {
		case t.Vendor != Vendor || t.Signature == "":
		case t.Text == "":
			signatures = append(signatures, part{Text: (*utf8Text)(&t.Text), Signature: t.Signature})
		default:
			parts = append(parts, part{Text: (*utf8Text)(&t.Text), Thought: true, Signature: t.Signature})
		}
	}
	parts = append(parts, e.parts(at, m)...)
	if m.Refusal != "" {
		parts = append(parts, part{Text: (*utf8Text)(&m.Refusal)})
	}
	parts = append(parts, signatures...)
	for i := range m.Calls {
		c := &m.Calls[i]
		p := part{Call: &functionCall{Name: c.Name, Args: argumentsOf(c.Arguments)}, Signature: c.Signature}
		if i == 0 && p.Signature == "" && e.family.major >= 3 {
			p.Signature = unsigned
		}
		parts = append(parts, p)
	}
	return parts
}

// argumentsOf are a call's arguments as an object. What is none, such as the input of a free-text tool, becomes a member.
func argumentsOf(text string) jsontext.Value {
	if v := jsontext.Value(strings.TrimSpace(text)); v.Kind() == jsontext.KindBeginObject && v.IsValid() {
		return v
	}
	v, _ := wire.JSON(map[string]string{"input": text}) // a map of strings
	return v
}

// results are the answers to calls, in the calls' order, from the tool messages that follow at once. Gemini has the names of
// functions where others have ids.
func results(calls []chat.ToolCall, following []chat.Message) (parts []part) {
	n := slices.IndexFunc(following, func(m chat.Message) bool { return m.Role != chat.ToolRole })
	if n < 0 {
		n = len(following)
	}
	for _, c := range calls {
		at := slices.IndexFunc(following[:n], func(m chat.Message) bool { return m.CallID == c.ID })
		if at >= 0 {
			parts = append(parts, part{Response: &functionResponse{Name: c.Name, Response: result{resultOf(following[at].Parts)}}})
		}
	}
	return parts
}

// resultOf is the text of a tool message: as it is where it is an object or a list, as a string otherwise.
func resultOf(parts []chat.Part) jsontext.Value {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	v := jsontext.Value(strings.TrimSpace(b.String()))
	if k := v.Kind(); (k == jsontext.KindBeginObject || k == jsontext.KindBeginArray) && v.IsValid() {
		return v
	}
	quoted, _ := jsontext.AppendQuote(nil, b.String()) // invalid UTF-8 is replaced
	return quoted
}
