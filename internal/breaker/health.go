package breaker

import (
	"time"

	"spillway/internal/fault"
)

// Health is the record of one key for operators.
type Health struct {
	Key    Key
	State  State
	Reason Reason
	// Until ends what Reason says; zero for OK.
	Until time.Time
	// Attempts counts every attempt of the last 60 s, Failures those that failed through the provider's doing or our
	// account's. A caller's mistake and a cancelled call are attempts only.
	Attempts, Failures int
	// LastClass and LastError are of the latest such failure; empty and zero: none was seen.
	LastClass fault.Class
	LastError time.Time
	// ConsecutiveOpens counts openings since the circuit was last closed.
	ConsecutiveOpens int
}

// pulse is what every attempt leaves behind, whether or not the circuit listens to it.
type pulse struct {
	// window counts attempts, and as weight the failures.
	window    Window
	lastClass fault.Class
	lastError time.Time
}

func (p pulse) after(o Outcome, attempts int, now time.Time) pulse {
	failures := 0.0
	if o.tells() {
		failures = 1
		p.lastClass, p.lastError = o.Class, now
	}
	p.window = p.window.Add(now, attempts, failures)
	return p
}
