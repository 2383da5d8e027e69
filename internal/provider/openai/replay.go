package openai

import (
	"slices"

	"github.com/tidwall/gjson"

	"spillway/internal/chat"
)

// messagesFor is the client's list of messages for a vendor: as written, but without the reasoning of others that a client
// brings back (chat.Message.Thinking, chat.ToolCall.Signature). Nobody takes another's proof, and some servers refuse a
// member that they do not know. OpenRouter passes reasoning on to whose it is; Google's own OpenAI endpoint takes its
// signatures.
func messagesFor(vendor string, r *chat.Request, written []byte) []byte {
	if !slices.ContainsFunc(r.Messages, carries) {
		return written
	}
	b := append(make([]byte, 0, len(written)), '[')
	gjson.ParseBytes(written).ForEach(func(_, message gjson.Result) bool {
		b = appendMessageFor(vendor, separated(b, '['), message)
		return true
	})
	return append(b, ']')
}

// carries reports whether a message brings reasoning back.
func carries(m chat.Message) bool {
	return len(m.Thinking) > 0 || slices.ContainsFunc(m.Calls, func(c chat.ToolCall) bool { return c.Signature != "" })
}

func appendMessageFor(vendor string, b []byte, message gjson.Result) []byte {
	b = append(b, '{')
	message.ForEach(func(key, value gjson.Result) bool {
		switch {
		case key.Str == "reasoning_details" && vendor != "openrouter":
		case key.Str == "tool_calls" && value.IsArray() && vendor != "gemini":
			b = append(appendName(b, key), '[')
			value.ForEach(func(_, call gjson.Result) bool {
				b = appendCallWithout(separated(b, '['), call)
				return true
			})
			b = append(b, ']')
		default:
			b = append(appendName(b, key), value.Raw...)
		}
		return true
	})
	return append(b, '}')
}

// appendCallWithout appends a tool call without the signature that belongs to somebody else.
func appendCallWithout(b []byte, call gjson.Result) []byte {
	b = append(b, '{')
	call.ForEach(func(key, value gjson.Result) bool {
		if key.Str != "extra_content" {
			b = append(appendName(b, key), value.Raw...)
		}
		return true
	})
	return append(b, '}')
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
