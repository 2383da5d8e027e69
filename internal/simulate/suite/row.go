package suite

import (
	"cmp"
	"context"
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
	// Jobs is the mode of rows whose answers are jobs.
	Jobs Mode = "jobs"
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

// Store is how the store of the shared state is.
type Store string

const (
	// StoreDown refuses every call.
	StoreDown Store = "down"
	// StoreSilent takes every call and answers none.
	StoreSilent Store = "silent"
)

// Overrides are members of a route or of a channel, in the configuration's own words.
type Overrides = map[string]any

// Row is one fault and what is right under it.
type Row struct {
	// Name is the number in the fault table, with a letter or a word for a variant.
	Name string
	// Fault says what the primary does.
	Fault string
	// Candidates are the models of the route, in order. The first is the primary.
	Candidates []string
	// Names are candidates that are simulated models under another name: a model
	// with a price must be called as one.
	Names map[string]string
	// Route are options of the route, Channels of the channels by model; nil are
	// the contract's defaults.
	Route    Overrides
	Channels map[string]Overrides
	// Headers are sent with every request of the row.
	Headers map[string]string
	// Plain asks without "stream".
	Plain bool
	// Tool asks for a tool call in place of a text.
	Tool bool
	// Schema asks for an object of a JSON schema in place of a text.
	Schema bool
	// CommitByRoute lets the route say that answers are held back until they are
	// whole; otherwise the client does, with a header.
	CommitByRoute bool
	// Steps are the requests, one after the other. Complete are those of that
	// mode where other things are right in it; nil is the same.
	Steps    []Step
	Complete []Step
	// Conduct checks what no single step can say; nil is nothing more.
	Conduct func([]Observation, *Findings)
	// Play makes the requests in place of Steps, of a row whose requests are not made one after the other, and judges
	// them: it returns what it observed and finds what is wrong.
	Play func(context.Context, *bench, *Findings) []Observation
	// Job makes media jobs on a stage of all three functions, in place of requests, and judges them: it returns what is known of
	// them and finds what is wrong. Such a row has no candidates.
	Job func(context.Context, *studio, *Findings) []life
	// Stage is how that stage differs from one without faults.
	Stage Stage
	// Alone waits for all other rows: it needs the whole machine for a while, which those that measure times would notice.
	Alone bool
	// Lasts is how long a Play or a Job takes, at least.
	Lasts time.Duration
	// Environments is how many there are, each with a request served before the first step and in turn after it; 0 is one.
	Environments int
	// Store is how the store of the shared state is; empty is healthy.
	Store Store
	// Gap is the time between two tokens of the provider; 0 is its default.
	Gap time.Duration
	// Timeout is the function's; 0 is one that no request reaches.
	Timeout time.Duration
	// Recorded is the verdict the row has reached in each mode in which it runs.
	Recorded map[Mode]Verdict
}

// Step is one request of a row and what is right for it.
type Step struct {
	// After is the time from the beginning of the request before to this one's;
	// 0 is as soon as that one is done.
	After time.Duration
	// Right is the outcome that is right; empty is Whole.
	Right Outcome
	// Calls are the models that must be called, in this order and no others.
	Calls []string
	// Classes are the classes of the attempts that failed, in order.
	Classes []string
	// Unplanned leaves Calls and Classes, which depend on chance here, to the
	// row's Conduct.
	Unplanned bool
	// Within bounds the request; 0 is 10 s.
	Within time.Duration
	// Conduct checks what the other fields cannot say; nil is nothing more.
	Conduct func(Observation, *Findings)
}

func (s Step) right() Outcome        { return cmp.Or(s.Right, Whole) }
func (s Step) within() time.Duration { return cmp.Or(s.Within, 10*time.Second) }

func (r Row) environments() int { return max(r.Environments, 1) }

// steps are the row's requests in a mode.
func (r Row) steps(mode Mode) []Step {
	if mode == Complete && r.Complete != nil {
		return r.Complete
	}
	return r.Steps
}

// length is how long the row's requests are spread over, at least.
func (r Row) length(mode Mode) time.Duration {
	sum := r.Lasts
	for _, s := range r.steps(mode) {
		sum += s.After
	}
	return sum
}

// lastTried is the model that answered or, on an error, was tried last. A primary
// that is refused from memory counts as tried.
func (r Row) lastTried(s Step) string {
	if len(s.Calls) == 0 {
		return r.Candidates[0]
	}
	return s.Calls[len(s.Calls)-1]
}

// provider is the name under which the configuration knows a candidate's provider.
func (r Row) provider(model string) string {
	if model == r.Candidates[0] {
		return "primary"
	}
	return "backup"
}

// streams reports whether a call of the model is to be a stream.
func (r Row) streams(model string) bool {
	return !r.Plain || r.Channels[model]["upstream_stream"] != "as_client"
}

// callsOf counts the calls per candidate, the fallbacks joined by "+".
func (r Row) callsOf(all []Observation) (primary, fallbacks string) {
	var counts []string
	for _, model := range r.Candidates {
		n := 0
		for _, o := range all {
			n += o.count(model)
		}
		counts = append(counts, itoa(n))
	}
	return counts[0], strings.Join(counts[1:], "+")
}
