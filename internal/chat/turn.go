package chat

import "unicode/utf8"

// Place is where something stands in an assistant's turn: after so many characters of its text and so many of its calls.
// The zero value is the very beginning.
type Place struct{ Text, Calls int }

// Piece is one piece of an assistant's turn; one of its pointers is set.
type Piece struct {
	Thinking *Thinking
	Part     *Part
	Call     *ToolCall
	// Index is that of the part in the message's Parts, one more than the last for its Refusal, or of the call in its Calls.
	Index int
}

// Pieces is an assistant's turn in the order in which the model made it: reasoning at its place, the content, and the
// calls. Models that think between their words and their calls want it back so. A text that reasoning interrupts comes in
// pieces. Reasoning whose place is unknown stands at the beginning; what replayed does not approve is left out.
func (m *Message) Pieces(replayed func(*Thinking) bool) []Piece {
	t := turn{of: m}
	for i := range m.Thinking {
		if block := &m.Thinking[i]; replayed(block) {
			t.speak(block.After.Text)
			t.call(block.After.Calls)
			t.pieces = append(t.pieces, Piece{Thinking: block})
		}
	}
	t.rest()
	return t.pieces
}

// turn is a turn that is being put in order.
type turn struct {
	of     *Message
	pieces []Piece
	// part is the first part that is not written yet, at how many bytes of it are; said and called are how much of the whole.
	part, at     int
	said, called int
}

// speak writes the text up to a number of characters.
func (t *turn) speak(upTo int) {
	for t.said < upTo && t.part < len(t.of.Parts) {
		p := &t.of.Parts[t.part]
		end := t.at
		for end < len(p.Text) && t.said < upTo {
			_, size := utf8.DecodeRuneInString(p.Text[end:])
			end += size
			t.said++
		}
		if end == len(p.Text) {
			t.finishPart()
			continue
		}
		piece := *p
		piece.Text, piece.CacheControl = p.Text[t.at:end], nil // the mark stands at the end of the whole
		t.pieces = append(t.pieces, Piece{Part: &piece, Index: t.part})
		t.at = end
	}
}

// finishPart writes what is left of a part.
func (t *turn) finishPart() {
	p := &t.of.Parts[t.part]
	if t.at > 0 {
		left := *p
		left.Text = p.Text[t.at:]
		p = &left
	}
	t.pieces = append(t.pieces, Piece{Part: p, Index: t.part})
	t.part, t.at = t.part+1, 0
}

// call writes the calls up to a number of them.
func (t *turn) call(upTo int) {
	for t.called < min(upTo, len(t.of.Calls)) {
		t.pieces = append(t.pieces, Piece{Call: &t.of.Calls[t.called], Index: t.called})
		t.called++
	}
}

// rest writes what no reasoning follows.
func (t *turn) rest() {
	for t.part < len(t.of.Parts) {
		t.finishPart()
	}
	if t.of.Refusal != "" {
		t.pieces = append(t.pieces, Piece{Part: &Part{Kind: RefusalPart, Text: t.of.Refusal}, Index: t.part})
	}
	t.call(len(t.of.Calls))
}
