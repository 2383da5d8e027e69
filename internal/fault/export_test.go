package fault

import "time"

// What the tests need to know of the inside.
const (
	Excessive   = excessive
	MaxMessage  = maxMessage
	MaxTextHint = maxTextHint
)

// PolicyTable is the embedded table.
func PolicyTable() []byte { return append([]byte(nil), policyJSON...) }

// HintFromText reads a hint out of a message.
var HintFromText = hintFromText

// HintFromHeaders is the hint of an answer without a body.
func HintFromHeaders(get func(name string) string, now time.Time) Hint {
	return HintFrom(get, Envelope{}, now)
}

// Load loads the embedded table as Default does, each time anew.
func Load() *Policy { return table.policy() }
