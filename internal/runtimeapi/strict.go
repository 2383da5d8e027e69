package runtimeapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// A Rule is one that Strict holds the answers of a function URL to: named after its breach.
type Rule string

const (
	// EmptyBody: a stream without a byte of body, whatever its status, can hang its client for minutes
	// (https://github.com/aws/aws-lambda-nodejs-runtime-interface-client/issues/95).
	EmptyBody Rule = "empty body"
	// InformationalStatus: a 1xx is not the status of an answer.
	InformationalStatus Rule = "informational status"
	// HopByHopHeader: the connection to the client is the platform's.
	HopByHopHeader Rule = "hop-by-hop header"
	// LongPrelude: status, headers and cookies of a stream are over 16 KB.
	LongPrelude Rule = "prelude over 16 KB"
	// LengthOfStream: a stream is sent in chunks, and a length beside them contradicts that.
	LengthOfStream Rule = "Content-Length on a stream"
)

// A Violation is one breach of a Rule.
type Violation struct {
	RequestID string // of the invocation
	Rule      Rule
	Detail    string // what was found, or empty
}

func (v Violation) String() string {
	if v.Detail == "" {
		return string(v.Rule)
	}
	return string(v.Rule) + ": " + v.Detail
}

// Strict fails an answer of a function URL that breaks a Rule, with 502 or, after the status, by cutting the connection,
// and keeps the breach for Violations. Without it the Front does what Lambda does: it mends some and lets others pass.
func Strict() Option { return func(f *Front) { f.strict = true } }

// Violations are the breaches since New, in the order in which they were found; none without Strict.
func (f *Front) Violations() []Violation {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.violations)
}

// violated keeps what was found in the invocation and returns the failure that it is. It is nil when nothing was found
// and when nobody asked for strictness.
func (f *Front) violated(id string, found ...Violation) error {
	if !f.strict || len(found) == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range found {
		found[i].RequestID = id
	}
	f.violations = append(f.violations, found...)
	return &FunctionError{Type: "Runtime.InvalidResponse", Message: fmt.Sprintf("strict: %v", found)}
}

// admit refuses the head of an answer that no HTTP response can have and, when strict, one that breaks a rule.
func (f *Front) admit(id string, h *head) error {
	if err := f.violated(id, h.breaches(f.fn.Mode)...); err != nil {
		return err
	}
	return h.check()
}

func (h *head) breaches(mode InvokeMode) []Violation {
	var found []Violation
	if 100 <= h.StatusCode && h.StatusCode < 200 {
		found = append(found, Violation{Rule: InformationalStatus, Detail: fmt.Sprint(h.StatusCode)})
	}
	for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
		switch canonical := http.CanonicalHeaderKey(name); {
		case hopByHop[canonical]:
			found = append(found, Violation{Rule: HopByHopHeader, Detail: name})
		case canonical == "Content-Length" && mode == Stream:
			found = append(found, Violation{Rule: LengthOfStream, Detail: h.Headers[name]})
		}
	}
	return found
}
