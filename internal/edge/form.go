package edge

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"spillway/internal/fault"
)

// maxFields bounds the fields of a form.
const maxFields = 64

// literals are the fields of an order that are no texts: in a form everything is written as one.
var literals = []string{"seed", "instrumental", "force_instrumental"}

// orderJSON is the body of an order as JSON: as it is, or made of a form, which OpenAI's SDKs send. A file becomes a data URL.
func orderJSON(contentType string, body []byte) ([]byte, *fault.Error) {
	media, params, err := mime.ParseMediaType(contentType)
	switch {
	case err == nil && media == "application/x-www-form-urlencoded" && !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")): // not curl -d '{…}'
		return nil, fault.Invalid("Content-Type", "Content-Type: a form must be multipart/form-data; otherwise the body is JSON")
	case err != nil || media != "multipart/form-data":
		return body, nil
	case params["boundary"] == "":
		return nil, fault.Invalid("Content-Type", "Content-Type: names no boundary, by which the fields of the form are told apart")
	}
	form := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	fields := map[string]json.RawMessage{}
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || len(fields) == maxFields {
			return nil, fault.Invalid("body", "the form could not be read to its end, or has more than "+strconv.Itoa(maxFields)+" fields")
		}
		name, value, refused := field(part)
		if refused == nil && fields[name] != nil {
			refused = fault.Invalid(name, strconv.Quote(name)+" stands twice in the form")
		}
		if refused != nil {
			return nil, refused
		}
		fields[name] = value
	}
	if len(fields) == 0 {
		return nil, fault.Invalid("body", "the form has no field between boundaries that are those of its Content-Type")
	}
	out, err := json.Marshal(fields)
	if err != nil {
		return nil, fault.Invalid("body", "the form could not be read")
	}
	return out, nil
}

// field reads one field of a form.
func field(part *multipart.Part) (name string, value json.RawMessage, refused *fault.Error) {
	name = part.FormName()
	if name == "" || len(name) > 64 {
		return "", nil, fault.Invalid("body", "a field of the form has no name, or one of more than 64 characters")
	}
	content, err := io.ReadAll(part)
	if err != nil {
		return "", nil, fault.Invalid(name, strconv.Quote(name)+" could not be read to its end")
	}
	text := string(content)
	switch {
	case part.FileName() != "" && name != "input_reference":
		return "", nil, fault.Invalid(name, strconv.Quote(name)+" is no file")
	case part.FileName() != "":
		if text = dataURL(part.Header.Get("Content-Type"), content); text == "" {
			return "", nil, fault.Invalid(name, `"input_reference" is no picture`)
		}
	case slices.Contains(literals, name) && json.Valid(content):
		return name, content, nil
	case name == "input_reference[image_url]": // as OpenAI's SDKs write the member of a member
		name = "input_reference"
	}
	value, err = json.Marshal(text)
	if err != nil {
		return "", nil, fault.Invalid(name, strconv.Quote(name)+" could not be read")
	}
	return name, value, nil
}

// dataURL is a picture as a data URL; empty: it is none. A type that says nothing is found out from the content.
func dataURL(contentType string, content []byte) string {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil || media == "application/octet-stream" {
		media, _, _ = mime.ParseMediaType(http.DetectContentType(content))
	}
	if !strings.HasPrefix(media, "image/") || len(content) == 0 {
		return ""
	}
	return "data:" + media + ";base64," + base64.StdEncoding.EncodeToString(content)
}
