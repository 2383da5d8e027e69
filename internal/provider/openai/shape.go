package openai

import (
	"reflect"
	"strings"

	"github.com/tidwall/gjson"

	"spillway/internal/chat"
)

// shape is what the frames of a stream that carry nothing but text have in common. Nearly all frames of an answer are such,
// and differ in two strings only: the text, and the padding against eavesdroppers that OpenAI adds. A frame of the known
// shape says what the one said from which the shape was learnt, but for the text; it is read in a tenth of the time.
//
// The zero value fits no frame.
type shape struct {
	// before stands before the text, between behind it. after stands behind the padding; empty: there is none.
	before, between, after string
	says                   chat.Event // but for the text
}

// fit is the text of a frame of this shape. The two strings hold nothing that is escaped and nothing that needed to be, so
// that the frame is JSON as the learnt one was.
func (s *shape) fit(frame string) (text string, ok bool) {
	if s.before == "" || !strings.HasPrefix(frame, s.before) {
		return "", false
	}
	text, rest, ok := cutString(frame[len(s.before):])
	if !ok || text == "" || !strings.HasPrefix(rest, s.between) {
		return "", false
	}
	rest = rest[len(s.between):]
	if s.after != "" {
		if _, rest, ok = cutString(rest); !ok {
			return "", false
		}
	}
	return text, rest == s.after
}

// cutString cuts at the next quote; ok is false when there is none, or a character before it that is not its own JSON.
func cutString(s string) (inside, rest string, ok bool) {
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"':
			return s[:i], s[i:], true
		case c == '\\' || c < ' ':
			return "", "", false
		}
	}
	return "", "", false
}

// learn takes the shape of a frame that has been decoded to an event, if it carries nothing but text. at is where the value
// of its content stands, padding is the padding.
func (s *shape) learn(frame string, ev *chat.Event, at int, padding gjson.Result) {
	if len(ev.Deltas) != 1 || ev.Deltas[0].Text == "" {
		return
	}
	choice, text := ev.Deltas[0].Choice, ev.Deltas[0].Text
	says := chat.Event{ID: ev.ID, Created: ev.Created, Model: ev.Model, Dialect: ev.Dialect}
	carries := says
	carries.Raw, carries.Deltas = frame, []chat.Delta{{Choice: choice, Text: text}}
	begin := at + 1 // behind the quote
	if !strings.HasPrefix(frame[min(begin, len(frame)):], text+`"`) || !reflect.DeepEqual(*ev, carries) {
		return
	}
	says.Deltas = []chat.Delta{{Choice: choice}}
	end := begin + len(text)
	*s = shape{before: frame[:begin], between: frame[end:], says: says}
	if p := padding.Index + 1; padding.Type == gjson.String && p > end && len(padding.Raw) > 1 {
		s.between, s.after = frame[end:p], frame[padding.Index+len(padding.Raw)-1:]
	}
}

// again decodes a frame of the known shape; nil when it is not of it.
func (r *reply) again(frame string) *chat.Event {
	text, ok := r.shape.fit(frame)
	if !ok || r.choices.over[r.shape.says.Deltas[0].Choice] {
		return nil
	}
	deltas := append(r.event.Deltas[:0], chat.Delta{Choice: r.shape.says.Deltas[0].Choice, Text: text})
	r.event = r.shape.says
	r.event.Raw, r.event.Deltas = frame, deltas
	r.content = true
	return &r.event
}
