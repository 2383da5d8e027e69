package breaker

import (
	"time"

	"spillway/internal/fault"
)

// Outcome is what became of an attempt. Succeeded and Failed make the two kinds.
type Outcome struct {
	// Success is the first content of an attempt, or its whole answer.
	Success bool
	// Class and Weight are the failure's. Weight 0 says nothing of the provider and moves no circuit.
	Class  fault.Class
	Weight float64
	// Hold says whether the candidate is to be held, HoldFor for how long when the provider did not say.
	Hold    fault.HoldKind
	HoldFor time.Duration
	Hint    fault.Hint
	// Status and Code are what a remembered hold answers with.
	Status int
	Code   string
	// Stale says that a kept-alive connection was dead before the provider could answer. It counts as an attempt, and
	// for nothing else, whatever its class.
	Stale bool
}

// Succeeded is the outcome of an attempt at its first content.
func Succeeded() Outcome { return Outcome{Success: true} }

// Failed is the outcome of an attempt that failed, before or after its content; rule is the class's, with the route's
// overrides. Class deadline has no weight: where the attempt itself stalled, set it.
func Failed(f *fault.Failure, rule fault.Rule) Outcome {
	return Outcome{Class: f.Class, Weight: rule.Weight, Hold: rule.Hold, HoldFor: rule.HoldFor, Hint: f.Hint, Status: f.Status, Code: f.Code,
		Stale: f.Stale()}
}

// weight is what the outcome counts for the circuit.
func (o Outcome) weight() float64 {
	if o.Success || o.Stale {
		return 0
	}
	return o.Weight
}

// tells reports whether an outcome is news of the provider or of our account there: something for the health record.
func (o Outcome) tells() bool {
	return !o.Success && !o.Stale && (o.Weight > 0 || o.Hold != "")
}

// hinted is the provider's hint; 0: none.
func (o Outcome) hinted() time.Duration {
	if !o.Hint.Known {
		return 0
	}
	return o.Hint.Wait
}
