package chat_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"spillway/internal/chat"
)

func all(*chat.Thinking) bool { return true }

func TestATurnComesBackInTheOrderInWhichItWasMade(t *testing.T) {
	text := func(s string) chat.Part { return chat.Part{Kind: chat.TextPart, Text: s} }
	marked := chat.Part{Kind: chat.TextPart, Text: "cd", CacheControl: []byte(`{}`)}
	after := func(name string, characters, calls int) chat.Thinking {
		return chat.Thinking{Text: name, After: chat.Place{Text: characters, Calls: calls}}
	}
	two := []chat.ToolCall{{Name: "f"}, {Name: "g"}}
	for what, row := range map[string]struct {
		m    chat.Message
		want string
	}{
		"nothing":                             {chat.Message{}, ""},
		"no reasoning":                        {chat.Message{Parts: []chat.Part{text("ab"), marked}, Calls: two, Refusal: "no"}, "ab cd(marked) no f g"},
		"places nobody knows":                 {chat.Message{Thinking: []chat.Thinking{after("A", 0, 0), after("B", 0, 0)}, Parts: []chat.Part{text("ab")}, Calls: two}, "<A> <B> ab f g"},
		"between two parts":                   {chat.Message{Thinking: []chat.Thinking{after("A", 2, 0)}, Parts: []chat.Part{text("ab"), marked}}, "ab <A> cd(marked)"},
		"within a part, whose mark ends it":   {chat.Message{Thinking: []chat.Thinking{after("A", 3, 0)}, Parts: []chat.Part{text("ab"), marked}}, "ab c <A> d(marked)"},
		"twice within a part":                 {chat.Message{Thinking: []chat.Thinking{after("A", 1, 0), after("B", 2, 0)}, Parts: []chat.Part{text("süß")}}, "s <A> ü <B> ß"},
		"between words and calls":             {chat.Message{Thinking: []chat.Thinking{after("A", 2, 0), after("B", 2, 1)}, Parts: []chat.Part{text("ab")}, Calls: two}, "ab <A> f <B> g"},
		"words after a call":                  {chat.Message{Thinking: []chat.Thinking{after("A", 0, 1)}, Parts: []chat.Part{text("ab")}, Calls: two}, "f <A> ab g"},
		"places beyond the turn":              {chat.Message{Thinking: []chat.Thinking{after("A", 9, 0), after("B", 9, 9)}, Parts: []chat.Part{text("ab")}, Calls: two}, "ab <A> f g <B>"},
		"places that go back":                 {chat.Message{Thinking: []chat.Thinking{after("A", 2, 1), after("B", 1, 0), after("C", -1, -1)}, Parts: []chat.Part{text("abc")}, Calls: two}, "ab f <A> <B> <C> c g"},
		"what is not to be replayed":          {chat.Message{Thinking: []chat.Thinking{{Vendor: "other", After: chat.Place{Text: 1}}}, Parts: []chat.Part{text("ab")}}, "ab"},
		"an empty part":                       {chat.Message{Thinking: []chat.Thinking{after("A", 1, 0)}, Parts: []chat.Part{text(""), text("ab")}}, " a <A> b"},
		"a refusal comes after all the words": {chat.Message{Thinking: []chat.Thinking{after("A", 9, 0)}, Parts: []chat.Part{text("ab")}, Refusal: "no"}, "ab <A> no"},
	} {
		t.Run(what, func(t *testing.T) {
			got := row.m.Pieces(func(b *chat.Thinking) bool { return b.Vendor == "" })
			assert.Equal(t, row.want, strings.Join(words(got), " "))
		})
	}
}

// words describes pieces, each in a word.
func words(pieces []chat.Piece) (out []string) {
	for _, p := range pieces {
		switch {
		case p.Thinking != nil:
			out = append(out, "<"+p.Thinking.Text+">")
		case p.Call != nil:
			out = append(out, p.Call.Name)
		case p.Part.CacheControl != nil:
			out = append(out, p.Part.Text+"(marked)")
		default:
			out = append(out, p.Part.Text)
		}
	}
	return out
}

func TestNoPlaceOfReasoningChangesWhatWasSaid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		place := rapid.Custom(func(t *rapid.T) chat.Thinking {
			n := rapid.IntRange(-1, 12)
			return chat.Thinking{After: chat.Place{Text: n.Draw(t, "characters"), Calls: n.Draw(t, "calls")}}
		})
		m := chat.Message{Thinking: rapid.SliceOfN(place, 0, 5).Draw(t, "thinking"), Calls: make([]chat.ToolCall, rapid.IntRange(0, 3).Draw(t, "calls"))}
		whole := ""
		for _, s := range rapid.SliceOfN(rapid.StringN(0, 5, -1), 0, 3).Draw(t, "parts") {
			m.Parts = append(m.Parts, chat.Part{Kind: chat.TextPart, Text: s})
			whole += s
		}
		text, blocks, calls := "", 0, 0
		for _, p := range m.Pieces(all) {
			switch {
			case p.Thinking != nil:
				assert.Same(t, &m.Thinking[blocks], p.Thinking)
				blocks++
			case p.Call != nil:
				assert.Same(t, &m.Calls[calls], p.Call)
				calls++
			default:
				text += p.Part.Text
			}
		}
		assert.Equal(t, whole, text)
		assert.Equal(t, []int{len(m.Thinking), len(m.Calls)}, []int{blocks, calls})
	})
}
