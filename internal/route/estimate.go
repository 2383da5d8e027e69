package route

import "spillway/internal/chat"

// The estimate of the input is made without a call, and low on purpose: it leaves out what surely does not fit, and the
// provider judges the rest, whose refusal then looks for a larger context (class context_length). It counts the texts of
// the whole conversation, its tool calls, the tools and the schema of the answer, at lowBytesPerToken; and each image,
// file and audio clip at lowAttachment, whatever its size. Reasoning that is sent back is not counted, which only its own
// vendor gets, nor what the API adds around each message.
const (
	// lowBytesPerToken is more than a token usually takes: English text has about 4 bytes a token, JSON and source text
	// fewer, and other scripts have more than a token for every 6.
	lowBytesPerToken = 6
	// lowAttachment is what the cheapest attachment costs, in tokens: OpenAI's image of low detail
	// (https://platform.openai.com/docs/guides/images-vision, 2026-11-30). Gemini's takes 258.
	lowAttachment = 85
)

// inputOf is a low estimate of a request's input, in tokens.
func inputOf(r *chat.Request) int64 {
	bytes, attachments := 0, 0
	for i := range r.Messages {
		m := &r.Messages[i]
		bytes += len(m.Refusal)
		for j := range m.Parts {
			switch p := &m.Parts[j]; p.Kind {
			case chat.TextPart, chat.RefusalPart:
				bytes += len(p.Text)
			default:
				attachments++
			}
		}
		for _, c := range m.Calls {
			bytes += len(c.Name) + len(c.Arguments)
		}
	}
	for i := range r.Tools {
		t := &r.Tools[i]
		bytes += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	if r.Format != nil {
		bytes += len(r.Format.Schema)
	}
	return int64(bytes/lowBytesPerToken + attachments*lowAttachment)
}
