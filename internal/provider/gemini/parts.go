package gemini

import (
	"fmt"
	"path"
	"strings"

	"spillway/internal/catalog"
	"spillway/internal/chat"
)

type (
	inlineData struct {
		MIME string `json:"mimeType"`
		Data string `json:"data"`
	}
	fileData struct {
		MIME string `json:"mimeType,omitzero"`
		URI  string `json:"fileUri"`
	}
)

// mimeTypes are those of files that Gemini reads, by the ends of their names: an address may come without a type.
// https://ai.google.dev/gemini-api/docs/file-input-methods, 2026-11-30.
var mimeTypes = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp", ".heic": "image/heic", ".heif": "image/heif",
	".pdf": "application/pdf", ".txt": "text/plain", ".md": "text/markdown", ".html": "text/html", ".csv": "text/csv", ".xml": "text/xml",
	".json": "application/json", ".wav": "audio/wav", ".mp3": "audio/mp3", ".flac": "audio/flac", ".ogg": "audio/ogg", ".mp4": "video/mp4",
	".webm": "video/webm", ".mov": "video/quicktime",
}

// parts writes the content of a message. Texts without a letter are left out, which Gemini refuses, but for a user's who says
// nothing else.
func (e *encoder) parts(at string, m *chat.Message) (parts []part) {
	for i := range m.Parts {
		p, at := &m.Parts[i], fmt.Sprintf("%s.content[%d]", at, i)
		switch p.Kind {
		case chat.TextPart, chat.RefusalPart:
			if p.Text != "" || (m.Role == chat.User && len(m.Parts) == 1) {
				parts = append(parts, part{Text: (*utf8Text)(&p.Text)})
			}
		case chat.ImagePart:
			parts = append(parts, e.image(at+".image_url", p))
		case chat.AudioPart:
			parts = append(parts, part{Inline: &inlineData{"audio/" + p.Encoding, p.Data}})
		case chat.FilePart:
			parts = append(parts, e.file(at+".file", p))
		default:
			e.refuse(at+".type", "this provider takes no %s", p.Kind)
		}
	}
	return parts
}

func (e *encoder) image(at string, p *chat.Part) part {
	if p.Detail != "" && p.Detail != "auto" {
		e.drop("image_url.detail")
	}
	if in := inline(p.URL); in != nil {
		return part{Inline: in}
	}
	return e.remote(at+".url", p.URL, catalog.RemoteImages)
}

func (e *encoder) file(at string, p *chat.Part) part {
	if member, address := p.Remote(); address != "" {
		return e.remote(strings.Replace(at, ".file", "."+member, 1), address, catalog.RemoteFiles)
	}
	if p.Data == "" {
		return e.remote(at+".file_id", p.FileID, catalog.RemoteFiles)
	}
	if in := inline(p.Data); in != nil {
		return part{Inline: in}
	}
	kind := mimeOf(p.FileName)
	if kind == "" || strings.HasPrefix(p.Data, "data:") {
		e.refuse(at+".file_data", "it must be a data URL in base64, or have a file name that tells its type")
	}
	return part{Inline: &inlineData{kind, p.Data}}
}

// remote is a file that was fetched, or that the provider fetches by itself, which is a feature of the model.
func (e *encoder) remote(at, address string, feature catalog.Feature) part {
	if c, ok := e.fetched[address]; ok {
		return part{Inline: &inlineData{c.Media, c.Base64}}
	}
	scheme, _, _ := strings.Cut(strings.ToLower(address), "://")
	switch {
	case scheme != "https" && scheme != "gs":
		e.refuse(at, "it must be a data URL in base64 or an https address")
	case e.can.Lacks(feature):
		e.refuse(at, "this model fetches no addresses")
	}
	bare, _, _ := strings.Cut(address, "?")
	return part{File: &fileData{MIME: mimeOf(bare), URI: address}}
}

func mimeOf(name string) string { return mimeTypes[strings.ToLower(path.Ext(name))] }

// inline takes a data URL in base64 apart; nil for all else.
func inline(address string) *inlineData {
	rest, ok := strings.CutPrefix(address, "data:")
	kind, data, found := strings.Cut(rest, ";base64,")
	if !ok || !found || kind == "" {
		return nil
	}
	kind, _, _ = strings.Cut(kind, ";") // parameters
	return &inlineData{kind, data}
}
