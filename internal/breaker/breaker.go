// Package breaker decides when a candidate may be called at all. It keeps, for each provider, model, region and
// credential, a circuit that opens when the provider fails and lets single probes find out whether it is back, and holds:
// a throttle hold skips a credential until the provider's hint has passed, a remembered hold answers from memory what the
// provider would answer again (a refused key, an empty account, a missing model).
//
// The core is pure: a Circuit is a value, Circuit.Next takes an event, the time and a random number and returns the
// next value with the transitions that happened. Memory keeps circuits and holds of one environment behind a mutex; Store
// says what a store must do that shares them. README.md is the specification: the rules, with a worked example and what
// else was considered.
//
// The package leaves to others: what a failure is (fault), whether to try again (retry), whom to try (route).
package breaker

import (
	"time"

	"spillway/internal/catalog"
	"spillway/internal/fault"
)

// Key names one circuit. A provider-wide failure shows as all of its circuits.
type Key struct {
	Provider string
	Model    string
	Region   string
	// Credential is the credential's alias; empty in the key of a channel.
	Credential string
}

// KeyOf names the circuit of a channel with a credential; nil: with none. Organizations' own credentials are apart from the
// platform's of the same alias.
func KeyOf(ch *catalog.Channel, c *catalog.Credential) Key {
	k := Key{Provider: ch.Provider.Name, Model: string(ch.Model), Region: ch.Region}
	if c != nil {
		k.Credential = c.Alias
		if c.Organization != "" {
			k.Credential = c.Organization + ":" + c.Alias
		}
	}
	return k
}

// String is provider/model/region/credential. A model's own slashes stay as they are: the form is for people and for
// the name of a stored item, not for taking apart.
func (k Key) String() string {
	return k.Provider + "/" + k.Model + "/" + k.Region + "/" + k.Credential
}

// Channel is the key of what all credentials of the channel share.
func (k Key) Channel() Key {
	k.Credential = ""
	return k
}

// State is a circuit's state. The zero value is Closed.
type State uint8

// The states.
const (
	// Closed lets every call through and counts.
	Closed State = iota
	// Open lets none through until a probe is due.
	Open
	// HalfOpen lets one probe at a time through, whoever holds the lease.
	HalfOpen
)

// String is the state's name in records: closed, open, half_open.
func (s State) String() string {
	switch s {
	case Open:
		return "open"
	case HalfOpen:
		return "half_open"
	default:
		return "closed"
	}
}

// MarshalText writes the name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Cause says why a circuit changed its state.
type Cause string

// The causes.
const (
	// FailureRate opened the circuit: too many of the known attempts failed.
	FailureRate Cause = "failure_rate"
	// FailuresInARow opened it: one environment saw nothing but failures for a while.
	FailuresInARow Cause = "failures_in_a_row"
	// ProbeDue made it half-open: its time has passed and somebody took the lease.
	ProbeDue Cause = "probe_due"
	// ProbeFailed opened it again, for longer.
	ProbeFailed Cause = "probe_failed"
	// ProbesSucceeded closed it.
	ProbesSucceeded Cause = "probes_succeeded"
	// ByOperator: somebody asked for it.
	ByOperator Cause = "operator"
)

// Transition is one change of a circuit's state. Whoever receives it emits it: records, metrics, alerts.
type Transition struct {
	// Key is set by who keeps the circuit by name; a circuit does not know its own.
	Key      Key
	From, To State
	Cause    Cause
	// Class is the class of the failure behind an opening; empty otherwise.
	Class fault.Class
	At    time.Time
	// Until is, for an opening, when the first probe is due.
	Until time.Time
}

// Reason says why a candidate may or may not be called now. The words stand in X-LLM-Routing-Reason, logs and metrics.
type Reason string

// The reasons. A candidate that keeps its place and is answered from memory reads "held_" and the remembered class.
const (
	// OK: may be called. Admit has the last word, since another request may take the probe first.
	OK Reason = "ok"
	// IsOpen: the circuit is open and no probe is due.
	IsOpen Reason = "open"
	// Probing: somebody else's probe is on its way.
	Probing Reason = "probing"
	// Throttled: the provider asked for a pause that has not passed.
	Throttled            Reason = "throttled"
	HeldAuth             Reason = "held_auth"
	HeldQuota            Reason = "held_quota"
	HeldModelUnavailable Reason = "held_model_unavailable"
)
