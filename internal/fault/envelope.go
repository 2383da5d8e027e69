package fault

import (
	"strconv"
	"strings"

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
	// Status is the HTTP status that the body names by itself (a numeric code from 100 to 599); 0 when it names none.
	Status int
}

// ParseEnvelope reads an error body of at most MaxErrorBody bytes. It knows OpenAI's object
// {"error":{message,type,param,code}} with a string, number or null as code, an error that is a bare string, the same
// inside a one-element array, and the same as JSON text inside the message. A page of a CDN or any other text is no
// envelope: ok is false and the HTTP status must decide.
func ParseEnvelope(body string) (env Envelope, ok bool) {
	if !gjson.Valid(body) {
		return Envelope{}, false
	}
	root := gjson.Parse(body)
	if root.IsArray() {
		root = root.Get("0")
	}
	return envelopeOf(root.Get("error"), 0)
}

// ParseErrorMember reads the value of an `error` member, as it stands inside a frame or a 200.
func ParseErrorMember(raw string) (Envelope, bool) { return envelopeOf(gjson.Parse(raw), 0) }

func envelopeOf(e gjson.Result, depth int) (Envelope, bool) {
	switch {
	case e.Type == gjson.String:
		return Envelope{Message: plain(e.Str)}, true
	case !e.IsObject():
		return Envelope{}, false
	}
	env := Envelope{Type: e.Get("type").String(), Param: e.Get("param").String()}
	message := e.Get("message")
	env.Message = plain(message.String())
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
	if depth == 0 && strings.HasPrefix(strings.TrimSpace(message.Str), "{") && gjson.Valid(message.Str) {
		if inner, ok := envelopeOf(gjson.Get(message.Str, "error"), depth+1); ok {
			return inner, true
		}
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
		case r == '>' && inTag:
			inTag = false
		case inTag:
		case r < ' ':
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
		if b.Len() >= maxMessage {
			break
		}
	}
	return strings.TrimSpace(b.String())
}
