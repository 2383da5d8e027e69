package fault

import (
	"cmp"
	"slices"
)

// Classify finds the class of an observed failure in the order of evidence of policy.md §2: a local cause, then the words
// of a route's own rows, then those of the provider's rows, then the codes that all have in common, then the HTTP status,
// then the explicit unknown. A message decides only where a sentence row of the provider narrows down what these have
// found. A spent allowance waits for its stated reset; a throttle without any other hint takes the one in its message.
func (p *Policy) Classify(o Observation) *Failure {
	f := &Failure{Observation: o}
	o.Provider = cmp.Or(o.Provider, Generic)
	if class, ok := localClass(o); ok {
		f.Class, f.Evidence = class, ByLocalCause
		f.Ambiguous = o.Sent && (o.Local == Broken || o.Local == Silent)
		return f
	}
	f.Class, f.Evidence = p.structured(&o)
	if f.Evidence != ByRoute {
		if class, ok := p.bySentence(&o, f.Class); ok {
			f.Class, f.Evidence = class, BySentence
		}
	}
	status := p.status(o.Status)
	f.Ambiguous = f.Class == Timeout || (status.Ambiguous && f.Class == status.Class)
	f.silent = status.Silent && f.Class == Timeout
	switch {
	case f.Class == Quota && o.Reset.Known:
		f.Hint = o.Reset
	case f.Class == Quota && f.Hint.Source == googleDelay:
		f.Hint = Hint{} // Google sends the delay of a throttle with every quota
	case f.Class == RateLimited && !f.Hint.Known:
		f.Hint = hintFromText(o.Message)
	}
	return f
}

// structured decides by everything but the message.
func (p *Policy) structured(o *Observation) (Class, Evidence) {
	if class, ok := first(p.own, o, true); ok {
		return class, ByRoute
	}
	if class, ok := first(p.rows, o, true); ok {
		return class, ByCode
	}
	if class, ok := p.byWord(o); ok {
		return class, ByGeneric
	}
	if class, ok := first(p.own, o, false); ok {
		return class, ByRoute
	}
	if class, ok := first(p.rows, o, false); ok {
		return class, ByStatus
	}
	if class := p.status(o.Status).Class; class != "" {
		return class, ByStatus
	}
	if o.InStream {
		// An error object inside a 200 that names no code we know: the provider itself says that it failed.
		return BadResponse, ByStatus
	}
	return Unknown, ByNothing
}

// byWord looks the provider's words up, the most specific first: code, details, type. One that speaks of money wins
// over all others.
func (p *Policy) byWord(o *Observation) (found Class, ok bool) {
	words := slices.Concat([]string{o.Code}, o.Details, []string{o.Type})
	for _, w := range words {
		switch class := p.words[w]; {
		case class == Quota:
			return Quota, true
		case class != "" && !ok:
			found, ok = class, true
		}
	}
	if ok || !o.InStream || p.status(o.Status).Class != "" {
		return found, ok
	}
	for _, w := range words {
		if found, ok = p.inStream[w]; ok {
			break
		}
	}
	return found, ok
}

// bySentence looks for a sentence of the provider's. A row applies only to the class that it narrows down.
func (p *Policy) bySentence(o *Observation, so Class) (Class, bool) {
	for i := range p.sentences {
		if o.Message != "" && p.sentences[i].fits(o, so) {
			return p.sentences[i].Class, true
		}
	}
	return "", false
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
