package gateway

import (
	"errors"
	"slices"

	"spillway/internal/contract"
	"spillway/internal/fault"
	"spillway/internal/retry"
	"spillway/internal/usage"
)

// raise is how many times larger the limit is under which a truncated answer is asked for again.
const raise = 2

// truncated reports whether an answer broke its contract because its token limit cut it off.
func truncated(f *fault.Failure) bool {
	v, ok := errors.AsType[*contract.Violation](f)
	return ok && v.Kind == contract.Truncated
}

// larger is the output limit under which a candidate can be asked again for the answer that was cut off; 0: there is
// none, or the route does not want it. It is raised once a request. Where the client set no limit, the one that held is what the provider counted.
func (j *journey) larger(c *candidate) int64 {
	if !j.route.Policy.RetryTruncated {
		return 0
	}
	limit := j.req.MaxTokens
	if limit == 0 && j.spent != nil && !j.spent.Estimated {
		limit = j.spent.Completion
	}
	if raised := j.within(c, limit*raise); j.output == 0 && raised > limit {
		return raised
	}
	return 0
}

// within is the part of a limit that a candidate can give: up to its longest output, and to the end of its context. One
// that is not told of limits can be given none.
func (j *journey) within(c *candidate, limit int64) int64 {
	can := c.Channel.Capabilities
	if slices.Contains(can.Drops, "max_tokens") || slices.Contains(can.Drops, "max_completion_tokens") {
		return 0
	}
	if can.MaxOutput > 0 {
		limit = min(limit, can.MaxOutput)
	}
	if can.Context > 0 {
		limit = min(limit, can.Context-usage.EstimateInput(j.req))
	}
	return limit
}

// outputOf is the output limit of a candidate's call in place of the client's; 0: the client's own holds.
func (j *journey) outputOf(c *candidate) int64 {
	if raised := j.within(c, j.output); raised > j.req.MaxTokens {
		return raised
	}
	return 0
}

// mend makes the next call of a candidate another one than the call that broke the contract.
func (j *journey) mend(c *candidate, because retry.Reason) {
	switch because {
	case retry.LargerLimit:
		j.output = j.larger(c)
	case retry.RegenerateOnce:
		j.firm = true
	}
}

// unmend takes back what made a call another one than the client's, where a provider calls that a mistake: it is not the
// client's, and the contract is still broken.
func (g *Gateway) unmend(j *journey, c *candidate, f *fault.Failure) *fault.Failure {
	if !callersMistake[f.Class] || f.Class == fault.ContentPolicy || !j.firm && j.outputOf(c) == 0 {
		return f
	}
	j.firm, j.output = false, 0
	o := f.Observation
	o.Local, o.Cause = fault.Breach, f
	return g.policyOf(j).Classify(o)
}

// leave goes on to another candidate. A limit that was raised from the client's serves it too; what held where the client
// set none was the candidate's own.
func (j *journey) leave() {
	j.firm = false
	if j.req.MaxTokens == 0 {
		j.output = 0
	}
}
