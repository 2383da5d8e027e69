package openai

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"spillway/internal/chat"
)

// Reasoning blocks that must be replayed travel in reasoning_details, a member that OpenRouter's clients return with the
// assistant's message (https://openrouter.ai/docs/use-cases/reasoning-tokens, 2026-11-30):
//
//	{"type":"reasoning.text","text","signature","format","id","index"}
//	{"type":"reasoning.encrypted","data","format","id","index"}
//
// The format says whose block it is, the id at which place of its turn it stood: clients keep an id as it is, and may drop
// members that they do not know. A client that drops the member loses the reasoning, and nothing else.

// formats are the vendors' names of their reasoning blocks.
var formats = map[string]string{"anthropic": "anthropic-claude-v1", "azure": "azure-openai-responses-v1", "gemini": "google-gemini-v1",
	"openai": "openai-responses-v1", "xai": "xai-responses-v1"}

// appendDetails appends `"reasoning_details":[…]`, numbered from first on.
func appendDetails(b []byte, blocks []chat.Thinking, first int) []byte {
	b = append(b, `"reasoning_details":[`...)
	for i, t := range blocks {
		if i > 0 {
			b = append(b, ',')
		}
		if t.Data != "" {
			b = append(b, `{"type":"reasoning.encrypted","data":`...)
			b = appendString(b, t.Data)
		} else {
			b = append(b, `{"type":"reasoning.text","text":`...)
			b = appendString(b, t.Text)
			b = appendText(b, "signature", t.Signature)
		}
		b = appendText(b, "format", formats[t.Vendor])
		if t.After != (chat.Place{}) {
			b = appendText(b, "id", placeID(first+i, t.After))
		}
		b = append(b, `,"index":`...)
		b = append(strconv.AppendInt(b, int64(first+i), 10), '}')
	}
	return append(b, ']')
}

// thinking reads the blocks that an assistant's message brings back. One that cannot be replayed is passed over: it has
// neither a signature nor data, or is nobody's that we know.
func thinking(details gjson.Result) (blocks []chat.Thinking) {
	details.ForEach(func(_, v gjson.Result) bool {
		t := chat.Thinking{Vendor: vendorOf(v.Get("format").Str)}
		switch v.Get("type").Str {
		case "reasoning.text":
			t.Text, t.Signature = v.Get("text").Str, v.Get("signature").Str
		case "reasoning.encrypted":
			t.Data = v.Get("data").Str
		}
		t.After = placeOf(v.Get("id").Str)
		if t.Vendor != "" && (t.Signature != "" || t.Data != "") {
			blocks = append(blocks, t)
		}
		return true
	})
	return blocks
}

func vendorOf(format string) string {
	for vendor, name := range formats {
		if name == format {
			return vendor
		}
	}
	return ""
}

// placeID is the id of the block of a number that stood at a place: its own, since two may have stood there.
func placeID(number int, at chat.Place) string {
	return fmt.Sprintf("%d-%d-%d", number, at.Text, at.Calls)
}

// placeOf is the place that an id tells; the zero value where it is none of ours.
func placeOf(id string) chat.Place {
	parts := strings.Split(id, "-")
	if len(parts) != 3 {
		return chat.Place{}
	}
	_, noNumber := strconv.Atoi(parts[0])
	text, noText := strconv.Atoi(parts[1])
	calls, noCalls := strconv.Atoi(parts[2])
	if noNumber != nil || noText != nil || noCalls != nil {
		return chat.Place{}
	}
	return chat.Place{Text: text, Calls: calls}
}
