package suite

import (
	"cmp"
	"strings"
	"time"
)

// Mode is when the gateway commits to an answer: contract §4.
type Mode string

const (
	// Live sends each token as it comes; after the first there is no fallback.
	Live Mode = "live"
	// Complete holds the answer until it is whole.
	Complete Mode = "complete"
)

// Verdict on a row in a mode.
type Verdict string

const (
	Pass Verdict = "pass"
	Safe Verdict = "safe"
	Fail Verdict = "FAIL"
)

// rank orders verdicts, so that a drop can be told from a gain.
func (v Verdict) rank() int {
	return map[Verdict]int{Fail: 0, Safe: 1, Pass: 2}[v]
}

// Outcome is what the client is left with.
type Outcome string

const (
	// Whole is the complete answer: every token, one finish, usage, the end mark.
	Whole Outcome = "whole"
	// CleanError is an error the client can act on: a status with the contract's
	// JSON, or a final error event.
	CleanError Outcome = "clean error"
	// Broken is anything else.
	Broken Outcome = "broken"
)

// Row is one fault and what is right under it.
type Row struct {
	// Name is the number in the fault table, with a letter or a word for a variant.
	Name string
	// Fault says what the primary does.
	Fault string
	// Candidates are the models of the route, in order. The first is the primary.
	Candidates []string
	// Plain asks without "stream".
	Plain bool
	// Right is the outcome that is right; empty is Whole.
	Right Outcome
	// Calls are the models that must be called, in this order and no others.
	Calls []string
	// Classes are the classes of the attempts that failed, in order.
	Classes []string
	// Within bounds the request; 0 is 10 s.
	Within time.Duration
	// Conduct checks what the other fields cannot say; nil is nothing more.
	Conduct func(Observation, *Findings)
	// Recorded is the verdict the row has reached in each mode in which it runs.
	Recorded map[Mode]Verdict
}

func (r Row) right() Outcome        { return cmp.Or(r.Right, Whole) }
func (r Row) within() time.Duration { return cmp.Or(r.Within, 10*time.Second) }

// answeredBy is the model whose answer the client should have.
func (r Row) answeredBy() string { return r.Calls[len(r.Calls)-1] }

// provider is the name under which the configuration knows a candidate's provider.
func (r Row) provider(model string) string {
	if model == r.Candidates[0] {
		return "primary"
	}
	return "backup"
}

// callsOf counts the calls per candidate, the fallbacks joined by "+".
func (r Row) callsOf(o Observation) (primary, fallbacks string) {
	var counts []string
	for _, model := range r.Candidates {
		counts = append(counts, itoa(o.count(model)))
	}
	return counts[0], strings.Join(counts[1:], "+")
}
