package conversation

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/provider"
)

// Outcome is what came of a call. Text is the whole of it in words, as the files of conversations have it.
type Outcome struct {
	Events  []string
	Usage   *chat.Usage
	Answer  *chat.Answer
	Failure *fault.Failure
	Info    provider.Info
}

// Text is all of an outcome that must not depend on how it arrived.
func (o Outcome) Text() string {
	return lines(o.Events) + describeUsage(o.Usage) + describeInfo(o.Info) + describeFailure(o.Failure)
}

// Follow makes a call and reads its reply to the end.
func Follow(t testing.TB, p provider.Provider, c provider.Call) (o Outcome) {
	t.Helper()
	reply, err := p.Call(t.Context(), c)
	if err != nil {
		require.ErrorAs(t, err, &o.Failure)
		return o
	}
	defer reply.Close()
	var last chat.Event
	var all chat.Assembler
	for {
		ev, err := reply.Next()
		o.Info, o.Answer = reply.Info(), all.Answer()
		if errors.Is(err, io.EOF) { // as its callers ask: a failure must not match it
			return o
		}
		if err != nil {
			require.ErrorAs(t, err, &o.Failure)
			return o
		}
		all.Add(ev)
		o.Events = append(o.Events, describe(&last, ev))
		if ev.Usage != nil {
			u := *ev.Usage
			o.Usage = &u
		}
	}
}

// describe writes an event in one line: id, created and model where they change, the marks, each choice's delta, usage.
func describe(last, ev *chat.Event) string {
	var b strings.Builder
	if ev.ID != last.ID || ev.Created != last.Created || ev.Model != last.Model {
		fmt.Fprintf(&b, "[%s %d %s] ", ev.ID, ev.Created, ev.Model)
		last.ID, last.Created, last.Model = ev.ID, ev.Created, ev.Model
	}
	if ev.Whole {
		b.WriteString("whole ")
	}
	if ev.Rebuilt {
		b.WriteString("normalised ")
	}
	if ev.Content() {
		b.WriteString("content ")
	}
	for i := range ev.Deltas {
		b.WriteString(describeDelta(&ev.Deltas[i]))
	}
	if ev.Usage != nil {
		b.WriteString("usage")
	}
	if b.Len() == 0 {
		return "nothing"
	}
	return strings.TrimSpace(b.String())
}

func describeDelta(d *chat.Delta) string {
	s := fmt.Sprintf("%d:", d.Choice)
	for _, part := range []struct{ name, text string }{{"text", d.Text}, {"refusal", d.Refusal}, {"reasoning", d.Reasoning}} {
		if part.text != "" {
			s += fmt.Sprintf(" %s %q", part.name, part.text)
		}
	}
	for _, t := range d.Tools {
		s += fmt.Sprintf(" tool[%d]", t.Index)
		if t.ID != "" || t.Name != "" {
			s += fmt.Sprintf(" %s %s", t.ID, t.Name)
		}
		s += fmt.Sprintf("(%s)", t.Arguments)
		if t.Signature != "" {
			s += " signed " + t.Signature
		}
	}
	for _, t := range d.Thinking {
		s += fmt.Sprintf(" %s's block %q signed %q data %q", t.Vendor, t.Text, t.Signature, t.Data)
		if t.After != (chat.Place{}) {
			s += fmt.Sprintf(" after %d characters and %d calls", t.After.Text, t.After.Calls)
		}
	}
	if d.Media {
		s += " media"
	}
	if d.LogProbs != "" {
		s += " logprobs " + d.LogProbs
	}
	if d.Finish != "" {
		s += " finish " + string(d.Finish)
	}
	if d.Native != "" {
		s += " (" + d.Native + ")"
	}
	return s + "; "
}

func describeUsage(u *chat.Usage) string {
	if u == nil {
		return ""
	}
	return fmt.Sprintf("prompt %d, completion %d, cached %d, written %d, reasoning %d\n", u.Prompt, u.Completion, u.Cached, u.CacheWrite, u.Reasoning)
}

// facts writes a fact a line.
type facts struct{ strings.Builder }

func (b *facts) line(name string, value any, known bool) {
	if known {
		fmt.Fprintf(b, "%s: %v\n", name, value)
	}
}

func describeInfo(i provider.Info) string {
	var b facts
	b.line("request id", i.RequestID, i.RequestID != "")
	b.line("left out", strings.Join(i.Dropped, ", "), len(i.Dropped) > 0)
	b.line("skipped", i.Malformed, i.Malformed > 0)
	return b.String()
}

// describeFailure writes what an attempt's decision needs of a failure; what is zero is left out. How the words of an error
// lead to its class is the business of package fault.
func describeFailure(f *fault.Failure) string {
	if f == nil {
		return ""
	}
	var b facts
	b.line("class", f.Class, true)
	b.line("local cause", string(f.Local), f.Local != "")
	b.line("status", f.Status, f.Status != 0)
	b.line("phase", f.Phase, true)
	b.line("code", f.Code, f.Code != "")
	b.line("param", f.Param, f.Param != "")
	b.line("hint", fmt.Sprintf("%s, from %s", f.Hint.Wait, f.Hint.Source), f.Hint.Known)
	b.line("reset", fmt.Sprintf("%s, from %s", f.Reset.Wait, f.Reset.Source), f.Reset.Known)
	if f.ShouldRetry != nil {
		b.line("should retry", *f.ShouldRetry, true)
	}
	b.line("request id", f.RequestID, f.RequestID != "")
	b.line("ambiguous", true, f.Ambiguous)
	b.line("in stream", true, f.InStream)
	return b.String()
}

func lines(events []string) string {
	if len(events) == 0 {
		return ""
	}
	return strings.Join(events, "\n") + "\n"
}
