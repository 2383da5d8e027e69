package openai

import (
	"github.com/tidwall/gjson"

	"spillway/internal/chat"
)

// maxThoughts is the largest number of unfinished reasoning blocks that an answer may have open.
const maxThoughts = 1024

// formats are OpenRouter's names for whose reasoning a block is (https://openrouter.ai/docs/use-cases/reasoning-tokens,
// 2026-11-30). The blocks of others are passed on in their frames, and are not part of a plain answer.
var formats = map[string]string{"anthropic-claude-v1": "anthropic", "google-gemini-v1": "gemini"}

// thoughts puts the pieces of reasoning_details together: blocks with the proof that their model wants back with a tool's
// result. The zero value is ready for use.
type thoughts struct {
	text map[thought]string
}

// thought says which block a piece belongs to.
type thought struct{ choice, index int }

// read adds the blocks that have become whole to a delta: those whose signature or data has come.
func (t *thoughts) read(d *chat.Delta, details gjson.Result) {
	details.ForEach(func(_, piece gjson.Result) bool {
		at := thought{d.Choice, int(piece.Get("index").Int())}
		block := chat.Thinking{Vendor: formats[piece.Get("format").Str], Text: t.text[at] + piece.Get("text").Str,
			Signature: piece.Get("signature").Str, Data: piece.Get("data").Str}
		switch {
		case block.Vendor == "":
		case block.Data != "":
			d.Thinking = append(d.Thinking, chat.Thinking{Vendor: block.Vendor, Data: block.Data})
		case block.Signature != "":
			d.Thinking = append(d.Thinking, block)
			delete(t.text, at)
		case len(t.text) < maxThoughts:
			if t.text == nil {
				t.text = map[thought]string{}
			}
			t.text[at] = block.Text
		}
		return true
	})
}
