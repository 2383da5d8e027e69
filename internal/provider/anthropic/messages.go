package anthropic

import (
	"encoding/base64"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"spillway/internal/catalog"
	"spillway/internal/chat"
)

// turn is one turn of the conversation; no two turns in a row have the same role.
type turn struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

const (
	user      = "user"
	assistant = "assistant"
)

// opening stands before a conversation that the assistant begins: the API wants the user to.
const opening = "(The assistant begins.)"

// block is one piece of a turn; its type says which members it has.
type block struct {
	Type   string  `json:"type"`
	Text   string  `json:"text,omitzero"`
	Source *source `json:"source,omitzero"`
	Title  string  `json:"title,omitzero"`
	// Cache ends what is to be cached here.
	Cache jsontext.Value `json:"cache_control,omitzero"`

	ID    string         `json:"id,omitzero"`
	Name  string         `json:"name,omitzero"`
	Input jsontext.Value `json:"input,omitzero"`

	ToolUseID string `json:"tool_use_id,omitzero"`
	// Content is a tool's result: a string, or a list of blocks.
	Content any `json:"content,omitzero"`

	Thinking  *string `json:"thinking,omitzero"` // empty, when only its signature was shown
	Signature string  `json:"signature,omitzero"`
	Data      string  `json:"data,omitzero"`
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type,omitzero"`
	Data      string `json:"data,omitzero"`
	URL       string `json:"url,omitzero"`
}

// messages writes the conversation: system texts in their order beside it, tool results as user content right after the
// turn that called, turns of the same role as one.
func (e *encoder) messages() {
	var last chat.Role
	for i := range e.req.Messages {
		m := &e.req.Messages[i]
		switch m.Role {
		case chat.System, chat.Developer:
			e.out.System = append(e.out.System, texts(m.Parts)...)
			continue
		case chat.User:
			e.add(user, e.parts(i, m.Parts))
		case chat.Assistant:
			e.add(assistant, e.assistant(i, m))
		case chat.ToolRole:
			e.add(user, []block{e.result(m)})
		default:
			e.refuse(at(i)+".role", "is not taken by this provider")
		}
		last = m.Role
	}
	e.ends(last)
}

func at(message int) string { return "messages[" + strconv.Itoa(message) + "]" }

func (e *encoder) add(role string, content []block) {
	switch n := len(e.out.Messages); {
	case len(content) == 0:
	case n > 0 && e.out.Messages[n-1].Role == role:
		e.out.Messages[n-1].Content = append(e.out.Messages[n-1].Content, content...)
	default:
		e.out.Messages = append(e.out.Messages, turn{role, content})
	}
}

// ends sees to the first and the last turn. last is who spoke last, system texts aside.
func (e *encoder) ends(last chat.Role) {
	if len(e.out.Messages) == 0 && len(e.out.System) > 0 {
		e.out.Messages, e.out.System = []turn{{user, e.out.System}}, nil
	}
	n := len(e.out.Messages)
	if n == 0 {
		e.refuse("messages", "hold no content")
		return
	}
	if end := &e.out.Messages[n-1]; end.Role == assistant {
		switch final := &end.Content[len(end.Content)-1]; {
		case last != chat.Assistant:
			e.refuse("messages", "end with a message without content")
		case e.can.Lacks(catalog.Prefill):
			e.refuse("messages", "this model does not continue an assistant message")
		default:
			final.Text = strings.TrimRight(final.Text, " \t\r\n") // the API refuses white space at the very end
		}
	}
	if e.out.Messages[0].Role == assistant {
		e.out.Messages = append([]turn{{user, []block{text(opening)}}}, e.out.Messages...)
	}
}

func text(s string) block { return block{Type: "text", Text: s} }

// texts are the parts that are text, those of white space alone left out: the API refuses them.
func texts(parts []chat.Part) (out []block) {
	for _, p := range parts {
		if strings.TrimSpace(p.Text) != "" {
			out = append(out, block{Type: "text", Text: p.Text, Cache: p.CacheControl})
		}
	}
	return out
}

func (e *encoder) parts(message int, parts []chat.Part) (out []block) {
	for i := range parts {
		out = append(out, e.part(fmt.Sprintf("%s.content[%d]", at(message), i), &parts[i])...)
	}
	return out
}

// part writes a part; none where it is blank, or refused.
func (e *encoder) part(param string, p *chat.Part) []block {
	switch p.Kind {
	case chat.TextPart, chat.RefusalPart:
		return texts([]chat.Part{*p})
	case chat.ImagePart:
		return []block{e.image(param+".image_url", p)}
	case chat.FilePart:
		return []block{e.file(param+".file", p)}
	default:
		e.refuse(param, "this kind of content is not taken by this provider")
		return nil
	}
}

// assistant writes a turn of the model: its reasoning as it was, what it said, and its calls.
func (e *encoder) assistant(i int, m *chat.Message) (out []block) {
	for _, p := range m.Pieces(func(t *chat.Thinking) bool { return t.Vendor == vendor }) {
		switch {
		case p.Thinking != nil:
			out = append(out, thought(p.Thinking))
		case p.Call != nil:
			out = append(out, e.use(fmt.Sprintf("%s.tool_calls[%d]", at(i), p.Index), p.Call)...)
		default:
			out = append(out, e.part(fmt.Sprintf("%s.content[%d]", at(i), p.Index), p.Part)...)
		}
	}
	for len(out) > 0 && strings.HasSuffix(out[len(out)-1].Type, "thinking") {
		out = out[:len(out)-1] // reasoning that nothing follows is refused (https://github.com/tailcallhq/forgecode/issues/2107, 2025-12-11)
	}
	return out
}

func thought(t *chat.Thinking) block {
	if t.Data != "" {
		return block{Type: "redacted_thinking", Data: t.Data}
	}
	return block{Type: "thinking", Thinking: &t.Text, Signature: t.Signature}
}

// use writes a call; none where its arguments are refused.
func (e *encoder) use(param string, c *chat.ToolCall) []block {
	input := jsontext.Value(c.Arguments)
	switch {
	case strings.TrimSpace(c.Arguments) == "":
		input = jsontext.Value("{}")
	case input.Kind() != '{' || !input.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)):
		e.refuse(param+".function.arguments", "must be a JSON object for this provider")
		return nil
	}
	return []block{{Type: "tool_use", ID: e.id(c.ID), Name: c.Name, Input: input}}
}

func (e *encoder) result(m *chat.Message) block {
	b := block{Type: "tool_result", ToolUseID: e.ids[m.CallID]}
	switch content := texts(m.Parts); {
	case len(content) == 0:
	case len(content) == 1 && content[0].Cache == nil:
		b.Content = content[0].Text
	default:
		b.Content = content
	}
	return b
}

// id is a tool call's id as the API takes it: letters, digits, _ and -, and no two the same in a conversation. Other
// providers make others, and some the same ones in every turn; a result belongs to the last call of its id.
func (e *encoder) id(id string) string {
	base := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' {
			return c
		}
		return '_'
	}, id)
	safe := base
	for n := e.same[base]; e.taken[safe]; n++ {
		safe = base + "_" + strconv.Itoa(n)
		e.same[base] = n + 1
	}
	e.ids[id], e.taken[safe] = safe, true
	return safe
}

// imageTypes are the media types of images that the API takes.
var imageTypes = map[string]string{"image/jpeg": "image/jpeg", "image/jpg": "image/jpeg", "image/png": "image/png", "image/gif": "image/gif", "image/webp": "image/webp"}

func (e *encoder) image(param string, p *chat.Part) block {
	b := block{Type: "image", Cache: p.CacheControl}
	media, data, inline := dataURL(p.URL)
	content, read := e.fetched[p.URL]
	switch {
	case read:
		b.Source = &source{Type: "base64", MediaType: content.Media, Data: content.Base64}
	case inline && imageTypes[media] != "":
		b.Source = &source{Type: "base64", MediaType: imageTypes[media], Data: data}
	case inline:
		e.refuse(param, "this provider takes JPEG, PNG, GIF and WebP")
	case secure(p.URL):
		b.Source = &source{Type: "url", URL: p.URL}
	default:
		e.refuse(param, "must be a base64 data URL or an https address for this provider")
	}
	return b
}

// secure reports whether the API reads what stands at an address.
func secure(address string) bool {
	scheme, _, ok := strings.Cut(address, "://")
	return ok && strings.EqualFold(scheme, "https")
}

// file writes a document. The API reads PDFs at an https address by itself, as it does images
// (https://docs.anthropic.com/en/docs/build-with-claude/pdf-support, 2026-11-30).
func (e *encoder) file(param string, p *chat.Part) block {
	b := block{Type: "document", Title: p.FileName, Cache: p.CacheControl}
	_, address := p.Remote()
	content, read := e.fetched[address]
	media, data, inline := dataURL(p.Data)
	if !inline {
		media, data = mediaOf(p.FileName), p.Data
	}
	switch {
	case read:
		b.Source = &source{Type: "base64", MediaType: content.Media, Data: content.Base64}
	case secure(address):
		b.Source = &source{Type: "url", URL: address}
	case address != "":
		e.refuse(param, "must be inline or at an https address for this provider")
	case p.Data == "":
		e.refuse(param+".file_id", "is not known to this provider")
	case media == "application/pdf":
		b.Source = &source{Type: "base64", MediaType: media, Data: data}
	case media == "text/plain":
		plain, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			e.refuse(param+".file_data", "is not base64")
		}
		b.Source = &source{Type: "text", MediaType: media, Data: string(plain)}
	default:
		e.refuse(param+".file_data", "this provider takes PDF and plain text")
	}
	return b
}

// mediaOf is the media type of a file that does not say its own.
func mediaOf(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".pdf":
		return "application/pdf"
	case ".txt":
		return "text/plain"
	default:
		return ""
	}
}

// dataURL takes a base64 data URL apart.
func dataURL(s string) (media, data string, ok bool) {
	rest, ok := strings.CutPrefix(s, "data:")
	if !ok {
		return "", "", false
	}
	head, data, ok := strings.Cut(rest, ",")
	head, encoded := strings.CutSuffix(head, ";base64")
	if !ok || !encoded {
		return "", "", false
	}
	media, _, _ = strings.Cut(head, ";")
	return strings.ToLower(media), data, true
}
