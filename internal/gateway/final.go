package gateway

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/retry"
	"spillway/internal/route"
)

// sentences say what happened, one for each class, to the caller.
var sentences = map[fault.Class]string{
	fault.RateLimited:          "the provider is limiting our requests; try again later",
	fault.Overloaded:           "the provider is overloaded; try again later",
	fault.ServerError:          "the provider failed; try again later",
	fault.Network:              "the provider could not be reached, or broke the connection; try again later",
	fault.Timeout:              "the provider did not answer in time",
	fault.Conflict:             "the provider reported a conflict; try again later",
	fault.TooEarly:             "the provider refused the request as too early; try again later",
	fault.BadResponse:          "the provider's answer was unusable; try again",
	fault.ContractViolation:    "the model's answer does not keep the requested contract",
	fault.GenerationFailed:     "the provider generated nothing",
	fault.Auth:                 "the provider refused the gateway's credential; the operator has been told",
	fault.Quota:                "the gateway's allowance at the provider is used up; the operator has been told",
	fault.ModelUnavailable:     "the provider does not offer this model to the gateway; the operator has been told",
	fault.ContextLength:        "the request does not fit the model's context",
	fault.RequestExceedsLimit:  "this one request is larger than the provider's whole allowance per minute",
	fault.ContentPolicy:        "the provider refused the content",
	fault.UnsupportedParameter: "the model does not take one of the parameters",
	fault.InvalidRequest:       "the provider refused the request as invalid",
	fault.Cancelled:            "the client left",
	fault.Deadline:             "the request's time was used up before an answer came",
	fault.Unknown:              "the provider failed in a way that is not known; the operator has been told",
}

// quotable are the classes in which the provider's own text explains the caller's mistake.
var quotable = map[fault.Class]bool{fault.InvalidRequest: true, fault.ContextLength: true, fault.UnsupportedParameter: true}

// callersMistake are the classes that a route may answer with the provider's own status.
var callersMistake = map[fault.Class]bool{fault.InvalidRequest: true, fault.ContextLength: true, fault.ContentPolicy: true, fault.UnsupportedParameter: true}

// final is the error of a chain that ended without an answer: the last failure decides, and the attempts show the rest.
func (g *Gateway) final(j *journey, f *fault.Failure) *fault.Error {
	rule, hidden := g.Policy.Rule(f.Class), j.lastCand.Hidden()
	e := &fault.Error{Code: rule.Code, Class: f.Class, Message: sentences[f.Class], Retryable: rule.Retryable,
		Provider: j.lastCand.Channel.Provider.Name, Model: string(j.lastCand.Channel.Model), ProviderStatus: f.Status, ProviderCode: hidden.Word(f.Code),
		Attempts: j.tried, Cause: f}
	if quotable[f.Class] && f.Parsed {
		e.Param = hidden.Word(f.Param)
		if text := hidden.Quote(f.Message); text != "" {
			e.Message += ": " + text
		}
	}
	e.Message += broken(f)
	if j.replayUnsafe() && (f.Ambiguous || e.Code == fault.ProviderTimeout) {
		e.Code, e.Retryable = fault.ProviderTimeout, false
		e.Message = "the provider may have done the work although no answer came; it was not repeated"
	}
	if errors.Is(f, errTooLarge) {
		e.Message, e.Retryable = "the answer is too large to be held back whole; use another commit policy", false
	}
	if j.route.Policy.SurfaceStatus && callersMistake[f.Class] && f.Status >= 400 && f.Status < 500 {
		e.Status = f.Status
	}
	if status := e.HTTPStatus(); e.Retryable && (status == 429 || status == 503) {
		e.RetryAfter = j.retryAfter()
	}
	conceal(e, j.route.Policy.Expose)
	return e
}

// ending is the error of a chain that a decision ended: the last failure's, unless it is the tenant's own share of the
// fallbacks that is used up.
func (g *Gateway) ending(j *journey, f *fault.Failure, d retry.Decision) *fault.Error {
	e := g.final(j, f)
	if d.Reason == retry.ShareEmpty {
		e.Code, e.Status, e.Retryable, e.RetryAfter = fault.FallbackShareExhausted, 0, true, j.retryAfter()
		e.Message = "the provider fails, and this route has used up its share of fallbacks for now"
	}
	return e
}

// retryAfter is when it is worth coming back: the shortest hint of all attempts, at least a second; where none is known,
// two.
func (j *journey) retryAfter() time.Duration {
	if j.soonest.IsZero() {
		return 2 * time.Second
	}
	return max(time.Until(j.soonest), time.Second)
}

// conceal leaves out what the route does not show.
func conceal(e *fault.Error, level catalog.Expose) {
	switch level {
	case catalog.ExposeNone:
		e.Provider, e.Model, e.ProviderStatus, e.ProviderCode, e.Attempts = "", "", 0, "", nil
	case catalog.ExposeProvider:
		e.Attempts = nil
	}
}

// interruption is the error that ends a committed stream.
func (j *journey) interruption(f *found, failure *fault.Failure) *fault.Error {
	code := fault.StreamInterrupted
	message := "the answer was interrupted and is not whole"
	switch failure.Local {
	case fault.Broken:
		code, message = fault.ProviderDisconnect, "the provider broke the connection: the answer is not whole"
	case fault.OutOfTime:
		code, message = fault.DeadlineExceeded, "the time for this answer was used up: it is not whole"
	case fault.Breach:
		code, message = fault.StreamContractViolation, "the answer does not keep the requested contract"
	}
	e := &fault.Error{Code: code, Class: failure.Class, Message: message + broken(failure), Provider: f.cand.Channel.Provider.Name,
		Partial: true, Unsafe: f.sentTool, Cause: failure}
	conceal(e, j.route.Policy.Expose)
	return e
}

// cannotTake is the error of a request that no candidate's provider has words for: the caller's to change.
func cannotTake(f *fault.Failure) *fault.Error {
	e := &fault.Error{Code: fault.UnsupportedModelInput, Param: f.Param, Class: f.Class, Cause: f,
		Message: "no candidate of this model can take " + cmp.Or(strconv.Quote(f.Param), "a part of the request")}
	if why, ok := errors.AsType[*notFetched](f); ok {
		e.Message += ": " + why.Error()
	}
	if strings.Contains(f.Param, "schema") || strings.Contains(f.Param, "parameters") {
		e.Code = fault.UnsupportedSchema
	}
	return e
}

// noCandidate is the error of a request that no candidate can serve to begin with. Where each of them lacks what the
// request needs, that is the caller's to change, and the first one's reason says what.
func noCandidate(p *route.Plan) *fault.Error {
	var lacks []string
	param := ""
	for _, c := range p.Considered {
		if of, needed := p.Needs.Param(c.Reason); needed {
			param = cmp.Or(param, of)
			lacks = append(lacks, string(c.Reason))
		}
	}
	if len(lacks) > 0 && !slices.ContainsFunc(p.Considered, func(c route.Considered) bool { return c.Reason != route.NoChat }) {
		return &fault.Error{Code: fault.UnsupportedModelAPI, Param: param, Message: "no candidate of this model chats: it makes videos or music, as jobs"}
	}
	if len(lacks) > 0 && len(lacks) == len(p.Considered) {
		return &fault.Error{Code: fault.UnsupportedModelInput, Param: param,
			Message: "no candidate of this model can serve what the request needs (" + strings.Join(lacks, ", ") + ")"}
	}
	return &fault.Error{Code: fault.NoProviderAvailable, Message: "no candidate is available for this model", Retryable: true, RetryAfter: 2 * time.Second}
}

// head says what is known of the request for the headers of its answer or error.
func (g *Gateway) head(j *journey, f *found) Head {
	h := Head{PolicyVersion: g.policyOf(j).Version, Attempts: j.progress.Attempts}
	if j.route == nil {
		return h
	}
	h.Route, h.RoutingReason = j.route.Route, j.route.String()
	if j.lastCand == nil {
		return h
	}
	h.Provider = j.lastCand.Channel.Provider.Name
	h.Fallback = j.lastCand.Channel != j.route.Candidates[0].Channel
	h.CredentialFallback = j.lastCand.Credential != j.firstCredential(j.lastCand.Channel)
	if f == nil {
		if j.last != nil {
			h.ProviderRequestID = j.last.RequestID
		}
		return h
	}
	h.Model, h.ProviderRequestID, h.Dropped = f.served, f.info().RequestID, f.info().Dropped
	if h.Model == "" {
		h.Model = chat.ServedModel(j.lastCand.Channel.Model)
	}
	return h
}

func (j *journey) firstCredential(ch *catalog.Channel) *catalog.Credential {
	for _, c := range j.route.Candidates {
		if c.Channel == ch {
			return c.Credential
		}
	}
	return nil
}
