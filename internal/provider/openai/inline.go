package openai

import (
	"cmp"

	"github.com/tidwall/gjson"

	"spillway/internal/provider"
)

// unnamed is the name of a file that the client gave no name: the API takes no file without one.
const unnamed = "file.pdf"

// appendParts appends the parts of a message, with what the gateway has fetched in the place of its address.
func (e *encoder) appendParts(b []byte, parts gjson.Result) []byte {
	b = append(b, '[')
	parts.ForEach(func(_, part gjson.Result) bool {
		b = e.appendPart(separated(b, '['), part)
		return true
	})
	return append(b, ']')
}

func (e *encoder) appendPart(b []byte, part gjson.Result) []byte {
	image, isImage := e.Fetched[part.Get("image_url.url").Str]
	file, isFile := e.Fetched[cmp.Or(part.Get("file.file_data").Str, part.Get("file.file_id").Str)]
	if !isImage && !isFile {
		return append(b, part.Raw...)
	}
	b = append(b, '{')
	part.ForEach(func(key, value gjson.Result) bool {
		b = appendName(b, key)
		switch {
		case key.Str == "image_url" && isImage:
			b = appendInline(b, value, image, "url", "")
		case key.Str == "file" && isFile:
			b = appendInline(b, value, file, "file_data", unnamed)
		default:
			b = append(b, value.Raw...)
		}
		return true
	})
	return append(b, '}')
}

// appendInline appends what describes an image or a file, its content in the member that holds it. name is that of a file
// that has none; empty: it needs none.
func appendInline(b []byte, written gjson.Result, c provider.Content, member, name string) []byte {
	b = append(append(append(b, '{'), '"'), member...)
	b = append(append(append(b, `":"`...), c.DataURL()...), '"')
	written.ForEach(func(key, value gjson.Result) bool {
		if key.Str != member && key.Str != "file_id" {
			b = append(appendName(b, key), value.Raw...)
		}
		return true
	})
	if name != "" && written.Get("filename").Str == "" {
		b = append(append(append(b, `,"filename":"`...), name...), '"')
	}
	return append(b, '}')
}
