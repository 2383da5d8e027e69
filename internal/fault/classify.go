package fault

import (
	"slices"
	"strconv"
)

// Classify finds the class of an observed failure in the order of evidence of policy.md §2: a local cause, then the
// provider's structured words, then the HTTP status, then the explicit unknown. A message decides only where a sentence
// row of the table narrows down what these have found. A throttle without any other hint takes the one in its message.
func (p *Policy) Classify(o Observation) *Failure {
	f := &Failure{Observation: o}
	if class, ok := localClass(o); ok {
		f.Class, f.Evidence = class, ByLocalCause
		f.Ambiguous = o.Sent && (o.Local == Broken || o.Local == Silent)
		return f
	}
	row := p.statuses[o.Status]
	f.Ambiguous, f.silent = row.Ambiguous, row.Silent
	f.Class, f.Evidence = p.structured(o, row)
	if class, ok := p.bySentence(o, f.Class); ok {
		f.Class, f.Evidence = class, BySentence
	}
	if f.Class == RateLimited && !f.Hint.Known {
		f.Hint = hintFromText(o.Message)
	}
	return f
}

func (p *Policy) structured(o Observation, row statusRow) (Class, Evidence) {
	if class, ok := p.byWord(o); ok {
		return class, ByGeneric
	}
	switch {
	case row.Class != "":
		return row.Class, ByStatus
	case o.InStream:
		// An error object inside a 200 that names no code we know: the provider itself says that it failed.
		return BadResponse, ByStatus
	default:
		return Unknown, ByNothing
	}
}

// byWord looks the provider's words up, the most specific first: code, details, type. One that speaks of money wins
// over all others.
func (p *Policy) byWord(o Observation) (found Class, ok bool) {
	for _, w := range slices.Concat([]string{o.Code}, o.Details, []string{o.Type}) {
		switch class := p.words[w]; {
		case class == Quota:
			return Quota, true
		case class != "" && !ok:
			found, ok = class, true
		}
	}
	if !ok && o.InStream && p.statuses[o.Status].Class == "" {
		found, ok = p.inStream[o.Type]
	}
	return found, ok
}

// bySentence looks for a row of the provider whose sentence the message holds. A row applies only to the class that it
// narrows down.
func (p *Policy) bySentence(o Observation, so Class) (Class, bool) {
	if o.Message == "" {
		return "", false
	}
	for _, row := range p.sentences {
		if row.Provider == o.Provider && row.Within == so && row.matches(o.Message) {
			return row.Class, true
		}
	}
	return "", false
}

// matches reports whether a message holds the row's sentence. Where the sentence holds two numbers, the second must be
// larger than the first: "Limit 30000, Requested 37313".
func (r *sentenceRow) matches(message string) bool {
	m := r.pattern.FindStringSubmatch(message)
	if len(m) < 3 {
		return m != nil
	}
	limit, errLimit := strconv.ParseInt(m[1], 10, 64)
	asked, errAsked := strconv.ParseInt(m[2], 10, 64)
	return errLimit == nil && errAsked == nil && asked > limit
}

func localClass(o Observation) (Class, bool) {
	switch o.Local {
	case Dial, Broken:
		return Network, true
	case Silent:
		return Timeout, true
	case Left:
		return Cancelled, true
	case OutOfTime:
		return Deadline, true
	case NoAnswer:
		return BadResponse, true
	case Breach:
		return ContractViolation, true
	case Refused:
		return UnsupportedParameter, true
	default:
		return "", false
	}
}
