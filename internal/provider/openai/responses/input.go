package responses

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"spillway/internal/chat"
	"spillway/internal/provider"
)

// item is one piece of the conversation; its type says which members it has.
type item struct {
	Type    string `json:"type"`
	Role    string `json:"role,omitzero"`
	Content any    `json:"content,omitempty"` // a string, or a list of content

	CallID    string  `json:"call_id,omitzero"`
	Name      string  `json:"name,omitzero"`
	Arguments *string `json:"arguments,omitzero"` // of a function's call
	Input     *string `json:"input,omitzero"`     // of a free-text tool's call
	Output    any     `json:"output,omitempty"`   // of a tool: a string, or a list of content

	Summary   any    `json:"summary,omitempty"` // of reasoning; it must be there, and may be an empty list
	Encrypted string `json:"encrypted_content,omitzero"`
}

// content is one piece of a message, or of a tool's output.
type content struct {
	Type    string  `json:"type"`
	Text    *string `json:"text,omitzero"`
	Refusal *string `json:"refusal,omitzero"`

	ImageURL string `json:"image_url,omitzero"`
	Detail   string `json:"detail,omitzero"`

	FileData string `json:"file_data,omitzero"`
	FileID   string `json:"file_id,omitzero"`
	FileName string `json:"filename,omitzero"`
}

// maxID is the longest call_id, in bytes (https://platform.openai.com/docs/api-reference/responses/create, 2026-11-30).
const maxID = 64

// call is a tool call of the conversation: its id upstream, and whether it is a free-text tool's.
type call struct {
	id     string
	custom bool
}

// input writes the conversation as a list of items.
func (e *encoder) input() {
	for i := range e.req.Messages {
		m := &e.req.Messages[i]
		switch m.Role {
		case chat.System, chat.Developer:
			e.message(e.systemRole(m.Role), e.parts(i, m.Parts))
		case chat.User:
			e.message("user", e.parts(i, m.Parts))
		case chat.Assistant:
			e.assistant(m)
		case chat.ToolRole:
			e.result(m)
		default:
			e.refuse(at(i)+".role", "is not taken by the Responses API")
		}
	}
	if len(e.out.Input) == 0 {
		e.refuse("messages", "hold no content")
	}
}

func at(message int) string { return "messages[" + strconv.Itoa(message) + "]" }

// systemRole is what a model calls the one who instructs it.
func (e *encoder) systemRole(role chat.Role) string {
	if e.model.Reasons {
		role = chat.Developer
	}
	return string(role)
}

func (e *encoder) message(role string, parts []content) {
	if len(parts) > 0 {
		e.out.Input = append(e.out.Input, item{Type: "message", Role: role, Content: parts})
	}
}

func (e *encoder) parts(message int, parts []chat.Part) []content {
	out := make([]content, 0, len(parts))
	for i := range parts {
		switch p := &parts[i]; p.Kind {
		case chat.TextPart:
			out = append(out, content{Type: "input_text", Text: &p.Text})
		case chat.ImagePart:
			out = append(out, e.image(p))
		case chat.FilePart:
			out = append(out, e.file(p))
		default:
			e.refuse(fmt.Sprintf("%s.content[%d]", at(message), i), "this kind of content is not taken by the Responses API")
		}
	}
	return out
}

// image writes an image: what was fetched of it, or where it is. The API wants to be told its resolution.
func (e *encoder) image(p *chat.Part) content {
	out := content{Type: "input_image", ImageURL: p.URL, Detail: cmp.Or(p.Detail, "auto")}
	if read, ok := e.fetched[p.URL]; ok {
		out.ImageURL = read.DataURL()
	}
	return out
}

// unnamed is the name of a file that the client gave no name: the API takes no content without one.
const unnamed = "file.pdf"

// file writes a file: its content, or its id at the provider.
func (e *encoder) file(p *chat.Part) content {
	out := content{Type: "input_file", FileData: p.Data, FileID: p.FileID, FileName: p.FileName}
	_, address := p.Remote()
	if read, ok := e.fetched[address]; ok {
		out.FileData, out.FileID = read.DataURL(), ""
	}
	if out.FileData != "" {
		out.FileName = cmp.Or(out.FileName, unnamed)
	}
	return out
}

// assistant writes a turn of the model: its reasoning as it was, what it said, and its calls.
func (e *encoder) assistant(m *chat.Message) {
	for _, p := range m.Pieces(e.replayed) {
		switch {
		case p.Thinking != nil:
			e.thinking(p.Thinking)
		case p.Call != nil:
			e.call(p.Call)
		default:
			e.said(p.Part)
		}
	}
	for n := len(e.out.Input); n > 0 && e.out.Input[n-1].Type == "reasoning"; n-- {
		e.out.Input = e.out.Input[:n-1] // reasoning that nothing follows is refused
	}
}

// said writes what the model said in a part: text as it is. As the part of an answer it would need an id, a status and
// annotations for servers that are strict (https://github.com/langchain-ai/langchain/pull/32557, 2025-08-15); a refusal has no
// other form.
func (e *encoder) said(p *chat.Part) {
	switch {
	case p.Text == "":
	case p.Kind == chat.RefusalPart:
		e.message("assistant", []content{{Type: "refusal", Refusal: &p.Text}})
	default:
		e.out.Input = append(e.out.Input, item{Type: "message", Role: "assistant", Content: p.Text})
	}
}

func (e *encoder) call(c *chat.ToolCall) {
	out := item{Type: "function_call", CallID: e.id(c), Name: c.Name, Arguments: &c.Arguments}
	if c.Custom {
		out.Type, out.Arguments, out.Input = "custom_tool_call", nil, &c.Arguments
	}
	e.out.Input = append(e.out.Input, out)
}

// replayed reports whether reasoning is the account's own.
func (e *encoder) replayed(t *chat.Thinking) bool {
	return t.Vendor == e.vendor && strings.HasPrefix(t.Data, e.account) && len(t.Data) > len(e.account)
}

// thinking writes reasoning that the account gave. It needs no id: what is not kept is not looked up
// (https://github.com/openai/codex, codex-rs/protocol/src/models.rs, 2026-11-30).
func (e *encoder) thinking(t *chat.Thinking) {
	e.out.Input = append(e.out.Input, item{Type: "reasoning", Summary: []content{}, Encrypted: strings.TrimPrefix(t.Data, e.account)})
}

// account is a mark that stands before encrypted reasoning on its way to a client and back. Another account that is sent it
// refuses the whole request (https://github.com/openai/codex/issues/13724, 2026-03-06), and where a request falls back to
// one, the answer matters more than the reasoning. It tells the credentials of a configuration apart, and says nothing of
// a key.
func account(c provider.Call) string {
	h := fnv.New64a()
	for _, part := range []string{c.Channel.Provider.Name, c.Credential.Organization, c.Credential.Alias} {
		_, _ = h.Write([]byte(part + "\x00")) // a hash never fails
	}
	return strconv.FormatUint(h.Sum64(), 36) + "."
}

func (e *encoder) result(m *chat.Message) {
	c := e.calls[m.CallID]
	out := item{Type: "function_call_output", CallID: c.id}
	if c.custom {
		out.Type = "custom_tool_call_output"
	}
	switch len(m.Parts) {
	case 0:
		out.Output = ""
	case 1:
		out.Output = m.Parts[0].Text
	default:
		texts := make([]content, len(m.Parts))
		for i := range m.Parts {
			texts[i] = content{Type: "input_text", Text: &m.Parts[i].Text}
		}
		out.Output = texts
	}
	e.out.Input = append(e.out.Input, out)
}

// id is the id of a call as the API takes it: not too long, and no two the same in a conversation. Other providers make
// others, and some the same ones in every turn; a result belongs to the last call of its id.
func (e *encoder) id(c *chat.ToolCall) string {
	safe := c.ID
	for len(safe) > maxID || e.taken[safe] {
		e.made++
		safe = "call_" + strconv.Itoa(e.made)
	}
	e.calls[c.ID], e.taken[safe] = call{safe, c.Custom}, true
	return safe
}
