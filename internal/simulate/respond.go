package simulate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// A wire is one provider's wire format.
type wire interface {
	// parse understands a request; an error is the format's answer to a bad one.
	parse(body []byte) (request, *failure)
	// answer is the healthy answer to the request that has this id.
	answer(r request, id string) draft
	// refuse spells a failure in the format's envelope.
	refuse(f failure) Reply
}

// wires are the formats by the path at which they are spoken.
var wires = map[string]wire{
	"/v1/chat/completions": openAIChat{},
}

// respond answers one request; the connection lives on if it returns true.
func (p *Provider) respond(c *connection, in incoming) bool {
	path := in.request.URL.Path
	if strings.HasPrefix(path, "/_sim/") {
		_, keep := c.play(p.control(in.request.Method, path), "sim")
		return keep
	}
	call := Call{
		Path:    path,
		At:      in.at,
		Headers: loggedHeaders(in.request.Header),
		Body:    in.body,
		Conn:    c.number,
	}
	call.Model, call.Stream = peek(in.body)
	t := p.ledger.admit(call)
	r := p.choose(t, in)
	outcome, keep := c.play(r, RequestID(t.call.N))
	status := r.Status
	if status == 0 {
		status = http.StatusOK
	}
	p.ledger.finish(t, status, outcome)
	return keep
}

// RequestID is the X-Request-Id of the answer to the call with that number.
func RequestID(n int) string { return fmt.Sprintf("req_sim_%06d", n) }

// peek reads what the log needs from any body.
func peek(body []byte) (model string, stream bool) {
	var head struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
	}
	_ = json.Unmarshal(body, &head) // a body that is no JSON names no model
	return head.Model, head.Stream
}

// choose finds the reply: a script first, then what any provider checks, then
// the model's fault.
func (p *Provider) choose(t ticket, in incoming) Reply {
	scripted, isScripted := p.ledger.next(t)
	if isScripted && !scripted.healthy {
		return scripted
	}
	if in.request.URL.Path == "/v1/models" && in.request.Method == http.MethodGet {
		return listModels()
	}
	w, ok := wires[in.request.URL.Path]
	if !ok {
		return openAIChat{}.refuse(failure{status: 404, typ: "invalid_request_error",
			message: fmt.Sprintf("Invalid URL (%s %s)", in.request.Method, in.request.URL.Path)})
	}
	if in.request.Method != http.MethodPost {
		return w.refuse(failure{status: 405, typ: "invalid_request_error",
			message: fmt.Sprintf("Not allowed to %s on %s", in.request.Method, in.request.URL.Path)})
	}
	if strings.HasPrefix(in.request.Header.Get("Authorization"), "Bearer bad") {
		return w.refuse(badKey)
	}
	req, bad := w.parse(in.body)
	if bad != nil {
		return w.refuse(*bad)
	}
	x := exchange{wire: w, request: req, id: t.call.N, ordinal: t.ordinal, first: t.first, gap: p.gap}
	if isScripted {
		return x.healthy()
	}
	behave, ok := faults[cmp.Or(p.names[req.model], req.model)]
	if !ok {
		p.ledger.surprise(t, fmt.Sprintf("call for %q: no such model and no script for it", req.model))
		return w.refuse(failure{status: 404, typ: "invalid_request_error", code: "model_not_found",
			message: fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", req.model)})
	}
	return behave(x)
}

// control answers the provider's own paths: its log, its counts, its reset.
func (p *Provider) control(method, path string) Reply {
	switch method + " " + path {
	case "GET /_sim/log":
		return Reply{Body: encode(logged(p.Calls()))}
	case "GET /_sim/counts":
		return Reply{Body: encode(p.counts())}
	case "POST /_sim/reset":
		p.Reset()
		return Reply{Body: `{"reset":true}`}
	}
	return Error(404, "invalid_request_error", "", "GET /_sim/log, GET /_sim/counts, POST /_sim/reset")
}

// logged shows bodies as text.
func logged(calls []Call) any {
	type entry struct {
		Call
		Body string `json:"body"`
	}
	out := make([]entry, 0, len(calls))
	for _, c := range calls {
		out = append(out, entry{c, string(c.Body)})
	}
	return out
}

func listModels() Reply {
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		OwnedBy string `json:"owned_by"`
	}
	data := make([]model, 0, len(faults))
	for name := range faults {
		data = append(data, model{ID: name, Object: "model", Created: modelsCreated, OwnedBy: "simulate"})
	}
	slices.SortFunc(data, func(a, b model) int { return strings.Compare(a.ID, b.ID) })
	return Reply{Body: encode(map[string]any{"object": "list", "data": data})}
}

// modelsCreated is the first of January 2026, for a list that never changes.
const modelsCreated = 1767225600
