package breaker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"spillway/internal/breaker"
	"spillway/internal/catalog"
	"spillway/internal/fault"
)

// start is the beginning of a bucket.
var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	second = time.Second
	middle = 0.5 // a random number without any jitter
	limit  = 10 * time.Second
)

// line is a circuit on a line of time, driven by a test.
type line struct {
	breaker.Circuit
	now     time.Time
	changes []breaker.Transition
}

func newLine() *line { return &line{now: start} }

func (l *line) next(e breaker.Event) {
	var ts []breaker.Transition
	l.Circuit, ts = l.Next(e, l.now, middle)
	l.changes = append(l.changes, ts...)
}

func (l *line) wait(d time.Duration) *line {
	l.now = l.now.Add(d)
	return l
}

// call lets a call begin.
func (l *line) call() breaker.Attempt {
	l.next(breaker.Ask{FirstContent: limit})
	return l.Attempt(l.now)
}

// calls lets n calls begin at once.
func (l *line) calls(n int) []breaker.Attempt {
	out := make([]breaker.Attempt, n)
	for i := range out {
		out[i] = l.call()
	}
	return out
}

func (l *line) ok(a breaker.Attempt) { l.next(breaker.Success{Attempt: a}) }

func (l *line) fail(a breaker.Attempt) { l.next(failure(a)) }

func failure(a breaker.Attempt) breaker.Failure {
	return breaker.Failure{Attempt: a, Class: fault.ServerError, Weight: 1}
}

// oks and fails are whole calls, one after another, each a millisecond after the one before.
func (l *line) oks(n int) {
	for range n {
		l.wait(time.Millisecond)
		l.ok(l.call())
	}
}

func (l *line) fails(n int) {
	for range n {
		l.wait(time.Millisecond)
		l.fail(l.call())
	}
}

// causes are the causes of the transitions so far.
func (l *line) causes() (out []breaker.Cause) {
	for _, t := range l.changes {
		out = append(out, t.Cause)
	}
	return out
}

// openedLine is a circuit that has just opened, for 30 s.
func openedLine(t *testing.T) *line {
	t.Helper()
	l := newLine()
	l.fails(3)
	assert.Equal(t, breaker.Open, l.State)
	l.changes = nil
	return l
}

// probingLine is a circuit whose first probe is on its way.
func probingLine(t *testing.T) (*line, breaker.Attempt) {
	t.Helper()
	l := openedLine(t).wait(30 * second)
	probe := l.call()
	assert.Equal(t, breaker.HalfOpen, l.State)
	return l, probe
}

func TestNames(t *testing.T) {
	k := breaker.Key{Provider: "openai", Model: "gpt-5", Region: "eu", Credential: "main"}
	assert.Equal(t, "openai/gpt-5/eu/main", k.String())
	assert.Equal(t, "openai/gpt-5/eu/", k.Channel().String())
	for state, want := range map[breaker.State]string{breaker.Closed: "closed", breaker.Open: "open", breaker.HalfOpen: "half_open"} {
		text, err := state.MarshalText()
		assert.NoError(t, err)
		assert.Equal(t, want, string(text))
	}
}

// TestEachCandidateHasACircuit: whoever asks, for a chat or for a job; a key of an organization's own is not the platform's of the same name.
func TestEachCandidateHasACircuit(t *testing.T) {
	ch := &catalog.Channel{Name: "east", Provider: &catalog.Provider{Name: "google"}, Model: "veo/fast", Region: "eu"}
	for want, c := range map[string]*catalog.Credential{
		"google/veo/fast/eu/main":      {Alias: "main"},
		"google/veo/fast/eu/acme:main": {Alias: "main", Organization: "acme"},
		"google/veo/fast/eu/":          nil,
	} {
		assert.Equal(t, want, breaker.KeyOf(ch, c).String())
	}
}
