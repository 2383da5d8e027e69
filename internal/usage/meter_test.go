package usage_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"spillway/internal/chat"
	"spillway/internal/usage"
)

func text(n int) chat.Event {
	return chat.Event{Deltas: []chat.Delta{{Text: strings.Repeat("x", n)}}}
}

func report(u chat.Usage) chat.Event { return chat.Event{Usage: &u} }

func TestMeter(t *testing.T) {
	final := chat.Usage{Prompt: 12, Completion: 34, Cached: 5, CacheWrite: 6, Reasoning: 7, Raw: `{"cost":1}`, RawDialect: chat.OpenAIChat}
	early := chat.Usage{Prompt: 12, Completion: 1, Cached: 5, Raw: `{}`, RawDialect: chat.OpenAIChat}
	for name, tc := range map[string]struct {
		events []chat.Event
		want   chat.Usage
	}{
		"nothing came":                      {nil, chat.Usage{Prompt: 100, Estimated: true}},
		"text and no usage":                 {[]chat.Event{text(5), text(4)}, chat.Usage{Prompt: 100, Completion: 3, Estimated: true}},
		"text and a usage at the end":       {[]chat.Event{text(400), report(final)}, final},
		"text and usage in one event":       {[]chat.Event{{Deltas: text(400).Deltas, Usage: &final}}, final},
		"a usage and no text":               {[]chat.Event{report(final)}, final},
		"the last of two usages counts":     {[]chat.Event{text(4), report(early), text(400), report(final)}, final},
		"a usage twice":                     {[]chat.Event{text(400), report(final), report(final)}, final},
		"empty deltas after the usage":      {[]chat.Event{text(400), report(final), text(0)}, final},
		"cut after an early usage":          {[]chat.Event{report(early), text(400)}, chat.Usage{Prompt: 12, Completion: 101, Cached: 5, Estimated: true}},
		"cut between cumulative usages":     {[]chat.Event{text(400), report(final), text(40)}, chat.Usage{Prompt: 12, Completion: 44, Cached: 5, CacheWrite: 6, Reasoning: 7, Estimated: true}},
		"a usage that counts no output":     {[]chat.Event{text(400), report(chat.Usage{Prompt: 12, Raw: `{}`})}, chat.Usage{Prompt: 12, Completion: 100, Estimated: true}},
		"a usage that counts no input":      {[]chat.Event{text(400), report(chat.Usage{Completion: 34, Raw: `{}`})}, chat.Usage{Prompt: 100, Completion: 34, Estimated: true}},
		"an answer without a word":          {[]chat.Event{text(0), report(chat.Usage{Prompt: 12, Raw: `{}`})}, chat.Usage{Prompt: 12, Raw: `{}`}},
		"a refusal":                         {[]chat.Event{{Deltas: []chat.Delta{{Refusal: "no, thanks"}}}}, chat.Usage{Prompt: 100, Completion: 3, Estimated: true}},
		"reasoning is a part of the output": {[]chat.Event{{Deltas: []chat.Delta{{Reasoning: "12345678"}}}, text(4)}, chat.Usage{Prompt: 100, Completion: 3, Reasoning: 2, Estimated: true}},
		"a tool call in fragments": {[]chat.Event{
			{Deltas: []chat.Delta{{Tools: []chat.ToolDelta{{ID: "call_1", Name: "find"}}}}},
			{Deltas: []chat.Delta{{Tools: []chat.ToolDelta{{Arguments: `{"q":"x"`}, {Index: 1, Arguments: `{}}}`}}}}}},
			chat.Usage{Prompt: 100, Completion: 4, Estimated: true}},
		"two choices": {[]chat.Event{{Deltas: []chat.Delta{{Text: "abcd"}, {Choice: 1, Text: "efgh"}}}}, chat.Usage{Prompt: 100, Completion: 2, Estimated: true}},
	} {
		t.Run(name, func(t *testing.T) {
			m := usage.NewMeter(100)
			for i := range tc.events {
				m.Add(&tc.events[i])
			}
			assert.Equal(t, tc.want, m.Usage())
			assert.Equal(t, tc.want, m.Usage(), "asking changes nothing")
		})
	}
	t.Run("a decoder reuses its event and its usage", func(t *testing.T) {
		m, u := usage.NewMeter(0), final
		m.Add(&chat.Event{Usage: &u})
		u = chat.Usage{}
		assert.Equal(t, final, m.Usage())
	})
	t.Run("the zero value counts", func(t *testing.T) {
		var m usage.Meter
		e := text(4)
		m.Add(&e)
		assert.Equal(t, chat.Usage{Completion: 1, Estimated: true}, m.Usage())
	})
}

// anyEvents draws the events of an answer, some of them with cumulative usage.
func anyEvents(t *rapid.T) []chat.Event {
	events := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) chat.Event {
		n := rapid.IntRange(0, 40)
		d := chat.Delta{Text: strings.Repeat("x", n.Draw(t, "text")), Reasoning: strings.Repeat("y", n.Draw(t, "reasoning"))}
		if rapid.Bool().Draw(t, "tool") {
			d.Tools = []chat.ToolDelta{{Name: "f", Arguments: strings.Repeat("z", n.Draw(t, "arguments"))}}
		}
		e := chat.Event{Deltas: []chat.Delta{d}}
		if rapid.IntRange(0, 4).Draw(t, "reports") == 0 {
			e.Usage = &chat.Usage{}
		}
		return e
	}), 0, 20).Draw(t, "events")
	sum := chat.Usage{Prompt: rapid.Int64Range(0, 1000).Draw(t, "prompt"), Raw: `{}`}
	for i := range events {
		sum.Completion += rapid.Int64Range(0, 20).Draw(t, "tokens")
		if events[i].Usage != nil {
			u := sum
			events[i].Usage = &u
		}
	}
	return events
}

func TestMeteredUsageIsTheFinalUsage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := usage.NewMeter(rapid.Int64Range(0, 1000).Draw(t, "estimate"))
		for _, e := range anyEvents(t) {
			m.Add(&e)
		}
		final := chat.Usage{Prompt: rapid.Int64Range(1, 1000).Draw(t, "prompt"), Completion: rapid.Int64Range(1, 1000).Draw(t, "completion"),
			Raw: `{"cost":1}`, RawDialect: chat.OpenAIChat}
		m.Add(&chat.Event{Usage: &final, Deltas: []chat.Delta{{Text: "the end", Finish: chat.FinishStop}}})
		m.Add(&chat.Event{Deltas: []chat.Delta{{}}})
		if got := m.Usage(); got != final {
			t.Fatalf("%+v is not %+v", got, final)
		}
	})
}

func TestMeterNeverCountsLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := usage.NewMeter(rapid.Int64Range(0, 1000).Draw(t, "estimate"))
		var reported chat.Usage
		last := m.Usage()
		for _, e := range anyEvents(t) {
			m.Add(&e)
			got := m.Usage()
			if e.Usage != nil {
				reported = *e.Usage
			} else if got.Completion < last.Completion {
				t.Fatalf("%+v was %+v before", got, last)
			}
			if got.Completion < reported.Completion || got.Prompt < reported.Prompt || got.Reasoning > got.Completion {
				t.Fatalf("%+v, %+v was reported", got, reported)
			}
			if !got.Estimated && got != reported {
				t.Fatalf("%+v is not marked, %+v was reported", got, reported)
			}
			last = got
		}
	})
}

func TestMeterDoesNotAllocate(t *testing.T) {
	m := usage.NewMeter(10)
	e := chat.Event{Deltas: []chat.Delta{{Text: "word ", Reasoning: "thought", Tools: []chat.ToolDelta{{Name: "f", Arguments: "{}"}}}},
		Usage: &chat.Usage{Prompt: 1, Completion: 2, Raw: "{}"}}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		m.Add(&e)
		_ = m.Usage()
	}))
}

func TestEstimateInput(t *testing.T) {
	data := "data:image/png;base64," + strings.Repeat("A", 100_000)
	for name, tc := range map[string]struct {
		request chat.Request
		want    int64
	}{
		"nothing":         {chat.Request{}, 0},
		"text":            {chat.Request{Size: 4001}, 1001},
		"an inline image": {request(100_822, chat.Part{Kind: chat.ImagePart, URL: data}), 200 + 1000},
		"a remote image":  {request(800, chat.Part{Kind: chat.ImagePart, URL: "https://example.com/a.png"}), 200 + 1000},
		"inline audio":    {request(100_822, chat.Part{Kind: chat.AudioPart, Data: data}), 200 + 1000},
		"an inline file":  {request(100_822, chat.Part{Kind: chat.FilePart, Data: data}), 200 + 1000},
		"a file by id":    {request(800, chat.Part{Kind: chat.FilePart, FileID: "file-1"}), 200 + 1000},
		"text parts":      {request(800, chat.Part{Kind: chat.TextPart, Text: "hello"}), 200},
		"a size that is smaller than what was in it": {request(10, chat.Part{Kind: chat.AudioPart, Data: data}), 1000},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, usage.EstimateInput(&tc.request))
		})
	}
}

func request(size int, parts ...chat.Part) chat.Request {
	return chat.Request{Size: size, Messages: []chat.Message{{Role: chat.User, Parts: parts}}}
}

func BenchmarkMeter(b *testing.B) {
	m := usage.NewMeter(10)
	e := chat.Event{Deltas: []chat.Delta{{Text: "word "}}}
	b.ReportAllocs()
	for b.Loop() {
		m.Add(&e)
	}
}
