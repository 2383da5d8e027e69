package openai

import (
	"crypto/sha256"
	"slices"

	"github.com/tidwall/gjson"

	"spillway/internal/chat"
)

// messages is the client's list of messages for a vendor: as written, but without the reasoning of others that a client
// brings back (chat.Message.Thinking, chat.ToolCall.Signature), and in the vendor's words. Nobody takes another's proof, and
// some servers refuse a member that they do not know. OpenRouter passes reasoning on to whose it is; Google's own OpenAI
// endpoint takes its signatures.
func (e *encoder) messages(written []byte) []byte {
	if !e.dialect.editsMessages(written) && len(e.Fetched) == 0 && !slices.ContainsFunc(e.Request.Messages, carries) {
		return written
	}
	b := append(make([]byte, 0, len(written)), '[')
	left := len(e.Request.Messages)
	gjson.ParseBytes(written).ForEach(func(_, message gjson.Result) bool {
		left--
		b = e.appendMessage(separated(b, '['), message, left == 0)
		return true
	})
	return append(b, ']')
}

// carries reports whether a message brings reasoning back.
func carries(m chat.Message) bool {
	return len(m.Thinking) > 0 || slices.ContainsFunc(m.Calls, func(c chat.ToolCall) bool { return c.Signature != "" })
}

func (e *encoder) appendMessage(b []byte, message gjson.Result, last bool) []byte {
	d := e.dialect
	assistant := message.Get("role").Str == string(chat.Assistant)
	refusal := message.Get("refusal").Str
	recalled, marked := false, false
	b = append(b, '{')
	message.ForEach(func(key, value gjson.Result) bool {
		switch {
		case key.Str == "reasoning_details" && !d.details:
		case slices.Contains(d.without, key.Str):
			if key.Str == "name" && value.Str != "" && !slices.Contains(e.dropped, "messages.name") {
				e.dropped = append(e.dropped, "messages.name") // the others are the answer's own, and say nothing new
			}
		case key.Str == "content" && value.Str == "" && !value.IsArray() && refusal != "" && slices.Contains(d.without, "refusal"):
			b = appendJSONString(appendName(b, key), refusal) // a turn must say something
		case key.Str == "role" && d.roles[value.Str] != "":
			b = appendJSONString(appendName(b, key), d.roles[value.Str])
		case key.Str == "content" && value.IsArray() && len(e.Fetched) > 0:
			b = e.appendParts(appendName(b, key), value)
		case key.Str == "tool_calls" && value.IsArray():
			marked = marked || len(value.Array()) > 0 // a turn that ends in calls is no beginning of an answer
			b = d.appendCalls(appendName(b, key), value)
		case key.Str == "tool_call_id" && d.shortIDs:
			b = appendJSONString(appendName(b, key), shortID(value.Str))
		case key.Str == "reasoning_content" && d.recalls && value.Type != gjson.String:
		default:
			recalled = recalled || key.Str == "reasoning_content"
			marked = marked || key.Str == "prefix"
			b = append(appendName(b, key), value.Raw...)
		}
		return true
	})
	if assistant && d.recalls && !recalled {
		b = append(separated(b, '{'), `"reasoning_content":""`...)
	}
	if assistant && d.prefix && last && !marked {
		b = append(separated(b, '{'), `"prefix":true`...)
	}
	return append(b, '}')
}

// appendCalls appends tool calls without the signatures that belong to somebody else, and with ids that the vendor takes.
func (d *dialect) appendCalls(b []byte, calls gjson.Result) []byte {
	b = append(b, '[')
	calls.ForEach(func(_, call gjson.Result) bool {
		b = append(separated(b, '['), '{')
		call.ForEach(func(key, value gjson.Result) bool {
			switch {
			case key.Str == "extra_content" && !d.signatures:
			case key.Str == "id" && d.shortIDs:
				b = appendJSONString(appendName(b, key), shortID(value.Str))
			default:
				b = append(appendName(b, key), value.Raw...)
			}
			return true
		})
		b = append(b, '}')
		return true
	})
	return append(b, ']')
}

// shortID is the id of a tool call as nine letters and digits: the id itself where it is that already, else always the same
// one for the same id, so that a call and its result stay together. Two ids that come out the same are as likely as a
// collision among 2^53.
func shortID(id string) string {
	const digits, length = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 9
	if len(id) == length && !slices.ContainsFunc([]byte(id), func(c byte) bool { return !isAlphanumeric(c) }) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	n := uint64(0)
	for _, c := range sum[:8] {
		n = n<<8 | uint64(c)
	}
	var short [length]byte
	for i := range short {
		short[i] = digits[n%uint64(len(digits))]
		n /= uint64(len(digits))
	}
	return string(short[:])
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// appendName appends a member's name as it was written, after a comma unless it is the first of its object.
func appendName(b []byte, name gjson.Result) []byte {
	return append(append(separated(b, '{'), name.Raw...), ':')
}

// separated appends a comma unless b ends with the bracket that opens a list or an object.
func separated(b []byte, open byte) []byte {
	if b[len(b)-1] == open {
		return b
	}
	return append(b, ',')
}
