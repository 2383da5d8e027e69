package simulate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// keptCalls bounds the log; counts go on beyond it.
const keptCalls = 4096

// Call is one request as it arrived and as it ended.
type Call struct {
	// N numbers the calls since the last reset, from 1.
	N int `json:"n"`
	// Model as the request names it; empty when it names none.
	Model string `json:"model"`
	Path  string `json:"path"`
	// At is when the request had been read whole.
	At time.Time `json:"at"`
	// Ended is zero while the call is being answered.
	Ended time.Time `json:"ended,omitzero"`
	// Headers has lower-case names. The values of those that carry a secret are
	// replaced by the first 12 hex digits of their SHA-256.
	Headers map[string]string `json:"headers"`
	Body    []byte            `json:"-"`
	// Stream is whether the request asked for a stream.
	Stream bool `json:"stream"`
	// Conn numbers the connections, from 1.
	Conn int `json:"conn"`
	// Status that was sent; 0 when none was.
	Status int `json:"status"`
	// Outcome is "" while the call is being answered, then one of the outcomes
	// below. It is written after the last byte: a client can be a moment ahead.
	Outcome string `json:"outcome"`
}

// The outcomes of a call.
const (
	OutcomeComplete   = "complete"    // answered to its end
	OutcomeCut        = "cut"         // closed by us without the end
	OutcomeReset      = "reset"       // reset by us
	OutcomeStalled    = "stalled"     // closed by us after a silence
	OutcomeClientGone = "client_gone" // the client left first
	OutcomeClosed     = "closed"      // the provider was closed meanwhile
)

// ledger holds what has happened since the last reset. Its zero value is empty.
type ledger struct {
	mu         sync.Mutex
	generation int
	n          int
	calls      []*Call
	models     map[string]*progress
	scripts    map[string][]Reply
	unexpected []string
}

// progress of one model.
type progress struct {
	count int
	first time.Time
}

// ticket is a call's place in the ledger.
type ticket struct {
	call       *Call
	generation int
	ordinal    int       // of this model, from 1
	first      time.Time // when this model was first called
}

// admit logs the call and says which of its model's calls it is.
func (l *ledger) admit(c Call) ticket {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.models == nil {
		l.models = map[string]*progress{}
	}
	l.n++
	c.N = l.n
	if len(l.calls) == keptCalls {
		l.calls = slices.Delete(l.calls, 0, keptCalls/4)
	}
	l.calls = append(l.calls, &c)
	m := l.models[c.Model]
	if m == nil {
		m = &progress{first: c.At}
		l.models[c.Model] = m
	}
	m.count++
	return ticket{call: &c, generation: l.generation, ordinal: m.count, first: m.first}
}

// finish writes the end of a call; a call from before a reset is forgotten with
// the log that held it.
func (l *ledger) finish(t ticket, status int, outcome string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.call.Status = max(status, 0)
	t.call.Outcome = outcome
	t.call.Ended = time.Now()
}

// next takes the model's next scripted reply. scripted is false for a model
// without a script; a script that is used up answers exhausted and is noted.
func (l *ledger) next(t ticket) (r Reply, scripted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue, scripted := l.scripts[t.call.Model]
	if !scripted {
		return Reply{}, false
	}
	if len(queue) == 0 {
		l.note(t, fmt.Sprintf("call %d of %q: its script has no reply left", t.ordinal, t.call.Model))
		return exhausted, true
	}
	l.scripts[t.call.Model] = queue[1:]
	return queue[0], true
}

// surprise notes a call that nothing prepared for.
func (l *ledger) surprise(t ticket, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(t, why)
}

// note needs l.mu.
func (l *ledger) note(t ticket, why string) {
	if t.generation == l.generation {
		l.unexpected = append(l.unexpected, why)
	}
}

// exhausted has a status that no provider sends and no policy retries by name,
// so that a test that tolerates it is hard to write by accident.
var exhausted = Error(418, "simulate_error", "unexpected_call", "the script of this model has no reply left")

// Calls are the newest calls (at least the last 3072) in the order of their arrival.
func (p *Provider) Calls() []Call {
	p.ledger.mu.Lock()
	defer p.ledger.mu.Unlock()
	out := make([]Call, 0, len(p.ledger.calls))
	for _, c := range p.ledger.calls {
		out = append(out, *c)
	}
	return out
}

// Count is the number of calls for the model since the last reset.
func (p *Provider) Count(model string) int {
	p.ledger.mu.Lock()
	defer p.ledger.mu.Unlock()
	if m := p.ledger.models[model]; m != nil {
		return m.count
	}
	return 0
}

// counts are the calls of each model that had any.
func (p *Provider) counts() map[string]int {
	p.ledger.mu.Lock()
	defer p.ledger.mu.Unlock()
	out := map[string]int{}
	for name, m := range p.ledger.models {
		out[name] = m.count
	}
	return out
}

// Reset forgets calls, counts, scripts, jobs, callbacks and the progress of every fault, as if
// the provider were new. Calls being answered go on.
func (p *Provider) Reset() {
	p.books.reset()
	p.inbox.reset()
	l := &p.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	l.generation++
	l.n, l.calls, l.models, l.scripts, l.unexpected = 0, nil, nil, nil, nil
}

// Script makes the model answer with these replies, in this order, each once; it
// appends to what is left of an earlier script. A scripted model has no other
// behaviour, whatever its name. One call too many gets a 418 and is noted in
// Unexpected.
func (p *Provider) Script(model string, replies ...Reply) {
	l := &p.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.scripts == nil {
		l.scripts = map[string][]Reply{}
	}
	l.scripts[model] = append(slices.Clip(l.scripts[model]), replies...)
}

// Unexpected says, one sentence each, how the calls so far differ from the
// scripts: calls too many, calls for models that have neither script nor fault,
// and, last, the replies nobody has asked for yet. A test ends by asserting that
// it is empty.
func (p *Provider) Unexpected() []string {
	l := &p.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	out := slices.Clone(l.unexpected)
	var left []string
	for model, queue := range l.scripts {
		if len(queue) > 0 {
			left = append(left, fmt.Sprintf("%q: %d scripted replies were not asked for", model, len(queue)))
		}
	}
	slices.Sort(left)
	return append(out, left...)
}

// secretHeaders carry credentials in one of the wire formats.
var secretHeaders = []string{"authorization", "x-api-key", "x-goog-api-key", "xi-api-key", "api-key", "cookie"}

func loggedHeaders(h http.Header) map[string]string {
	out := make(map[string]string, len(h))
	for name, values := range h {
		name = strings.ToLower(name)
		value := strings.Join(values, ", ")
		if slices.Contains(secretHeaders, name) {
			sum := sha256.Sum256([]byte(value))
			value = hex.EncodeToString(sum[:])[:12]
		}
		out[name] = value
	}
	return out
}
