package fault

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// MaxErrorBody is how much of an error body is read, in bytes.
const MaxErrorBody = 64 << 10

const maxMessage = 512

// Envelope is what an error body said, in the provider's words.
type Envelope struct {
	Type    string
	Code    string
	Message string
	Param   string
	// Details are the reasons of Google's error details (API_KEY_INVALID), which its OpenAI-shaped answers carry too.
	Details []string
	// Status is the HTTP status that the body names by itself (a numeric code from 100 to 599); 0 when it names none.
	Status int
}

// ParseEnvelope reads an error body of at most MaxErrorBody bytes. It knows OpenAI's object
// {"error":{message,type,param,code}} with a string, number or null as code, an error that is a bare string, the object
// without its wrapper where it says "object":"error" (vLLM, SGLang), any of them in a one-element array, and any of them
// once more as JSON text: the whole body, the error or its message. A page of a CDN or any other text is no envelope: ok
// is false and the HTTP status must decide.
func ParseEnvelope(body string) (env Envelope, ok bool) {
	if !gjson.Valid(body) {
		return Envelope{}, false
	}
	return envelopeIn(gjson.Parse(body), 0)
}

// ParseErrorMember reads the value of an `error` member, as it stands inside a frame or a 200.
func ParseErrorMember(raw string) (Envelope, bool) { return envelopeOf(gjson.Parse(raw), 0) }

// envelopeIn finds the error in a body.
func envelopeIn(root gjson.Result, depth int) (Envelope, bool) {
	if root.IsArray() {
		root = root.Get("0")
	}
	switch e := root.Get("error"); {
	case root.Type == gjson.String:
		return envelopeInText(root.Str, depth)
	case e.Exists():
		return envelopeOf(e, depth)
	case root.Get("object").Str == "error":
		return envelopeOf(root, depth)
	default:
		return Envelope{}, false
	}
}

// envelopeInText finds an error in a text that is JSON itself. Deeper than once it does not look.
func envelopeInText(text string, depth int) (Envelope, bool) {
	if depth > 0 || !strings.HasPrefix(strings.TrimLeft(text, " \t\r\n["), "{") || !gjson.Valid(text) {
		return Envelope{}, false
	}
	return envelopeIn(gjson.Parse(text), depth+1)
}

func envelopeOf(e gjson.Result, depth int) (Envelope, bool) {
	switch {
	case e.Type == gjson.String:
		if inner, ok := envelopeInText(e.Str, depth); ok {
			return inner, true
		}
		return Envelope{Message: plain(e.Str)}, true
	case !e.IsObject():
		return Envelope{}, false
	}
	env := Envelope{Type: e.Get("type").String(), Param: e.Get("param").String()}
	message := e.Get("message")
	env.Message = plain(message.String())
	for _, reason := range e.Get("details.#.reason").Array() {
		env.Details = append(env.Details, reason.String())
	}
	switch code := e.Get("code"); code.Type {
	case gjson.String:
		env.Code = code.Str
		if n, err := strconv.Atoi(code.Str); err == nil {
			env.Status = httpStatus(n)
		}
	case gjson.Number:
		env.Code = code.Raw
		env.Status = httpStatus(int(code.Int()))
	}
	if inner, ok := envelopeInText(message.Str, depth); ok {
		return inner, true
	}
	return env, true
}

func httpStatus(n int) int {
	if n < 100 || n > 599 {
		return 0
	}
	return n
}

// plain is a provider's text without markup and control characters, at most maxMessage bytes.
func plain(s string) string {
	var b strings.Builder
	inTag := false
	for _, r := range s {
		switch {
		case r == '<':
			inTag = true
			continue
		case r == '>' && inTag:
			inTag = false
			continue
		case inTag:
			continue
		case unicode.IsControl(r):
			r = ' '
		}
		if b.Len()+utf8.RuneLen(r) > maxMessage {
			break
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}
