package usage

import (
	"strings"

	"spillway/internal/chat"
)

const (
	// bytesPerToken is the usual rule of thumb for English; other scripts and code have fewer bytes to a token, so that an
	// estimate errs in the client's favour.
	bytesPerToken = 4
	// tokensPerAttachment stands for an image, a sound or a file that came inline, whose bytes say nothing about its tokens:
	// the order of magnitude of an image of 1024 × 1024 at OpenAI (765), Gemini (1120) and Anthropic (1600).
	tokensPerAttachment = 1000
)

// EstimateInput guesses the input tokens of a request from its size. Inline attachments count as a fixed number each.
func EstimateInput(r *chat.Request) int64 {
	text, attachments := r.Size, 0
	for i := range r.Messages {
		for j := range r.Messages[i].Parts {
			p := &r.Messages[i].Parts[j]
			switch {
			case strings.HasPrefix(p.URL, "data:"):
				text -= len(p.URL)
				attachments++
			case p.Data != "":
				text -= len(p.Data)
				attachments++
			case p.Kind == chat.ImagePart || p.FileID != "":
				attachments++
			}
		}
	}
	return tokens(max(text, 0)) + int64(attachments)*tokensPerAttachment
}

// Meter counts one answer while it streams. The zero value is ready; it has no estimate of the input.
//
// A provider's report is taken as it is. What came after the last report, or all of it where there was none, is estimated
// from its bytes and added: a stream that is cut is never counted at less than was reported. Reasoning that a provider does
// not show, and audio, cannot be estimated.
type Meter struct {
	input    int64
	reported chat.Usage
	// shown and reasoned are bytes since the last report of output; reasoned is a part of shown.
	shown, reasoned int
}

// NewMeter starts a meter for an answer to a request of so many input tokens by estimate.
func NewMeter(input int64) Meter { return Meter{input: input} }

// Add counts the next event. It keeps nothing of the event but the strings of its usage.
func (m *Meter) Add(e *chat.Event) {
	for i := range e.Deltas {
		d := &e.Deltas[i]
		m.shown += len(d.Text) + len(d.Refusal) + len(d.Reasoning)
		m.reasoned += len(d.Reasoning)
		for j := range d.Tools {
			m.shown += len(d.Tools[j].Name) + len(d.Tools[j].Arguments)
		}
	}
	if e.Usage == nil {
		return
	}
	m.reported = *e.Usage
	if m.reported.Completion > 0 {
		m.shown, m.reasoned = 0, 0
	}
}

// Usage is what has been used so far. It is the provider's last report, unchanged, unless output came after it or it counts
// no tokens where there were some; then the missing part is estimated, Estimated is set, and the provider's own object,
// which no longer says the same, is left out.
func (m *Meter) Usage() chat.Usage {
	u := m.reported
	if m.shown == 0 && u.Prompt > 0 {
		return u
	}
	u.Estimated, u.Raw, u.RawDialect = true, "", ""
	if u.Prompt <= 0 {
		u.Prompt = m.input
	}
	u.Completion = max(u.Completion, 0) + tokens(m.shown)
	u.Reasoning = max(u.Reasoning, 0) + min(tokens(m.reasoned), tokens(m.shown))
	return u
}

// tokens estimates the tokens of a text from its bytes, rounded up.
func tokens(bytes int) int64 { return (int64(bytes) + bytesPerToken - 1) / bytesPerToken }
