package fault

// Classify finds the class of an observed failure in the order of evidence of policy.md §2: a local cause, then the
// provider's structured words, then the HTTP status, then the explicit unknown. No message text decides anything here.
func (p *Policy) Classify(o Observation) *Failure {
	f := &Failure{Observation: o}
	if class, ok := localClass(o); ok {
		f.Class, f.Evidence = class, ByLocalCause
		f.Ambiguous = o.Sent && (o.Local == Broken || o.Local == Silent)
		return f
	}
	row := p.statuses[o.Status]
	f.Ambiguous = row.Ambiguous
	if class, ok := p.byWord(o); ok {
		f.Class, f.Evidence = class, ByGeneric
		return f
	}
	switch {
	case row.Class != "":
		f.Class, f.Evidence = row.Class, ByStatus
	case o.InStream:
		// An error object inside a 200 that names no code we know: the provider itself says that it failed.
		f.Class, f.Evidence = BadResponse, ByStatus
	default:
		f.Class, f.Evidence = Unknown, ByNothing
	}
	return f
}

// byWord looks the provider's words up, the most specific first: code, details, type.
func (p *Policy) byWord(o Observation) (Class, bool) {
	for _, w := range append([]string{o.Code}, o.Details...) {
		if class, ok := p.words[w]; ok {
			return class, true
		}
	}
	if class, ok := p.words[o.Type]; ok {
		return class, true
	}
	if o.InStream && p.statuses[o.Status].Class == "" {
		if class, ok := p.inStream[o.Type]; ok {
			return class, true
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
