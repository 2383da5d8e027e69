package simulate

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// respond answers one request; the connection lives on if it returns true.
func (p *Provider) respond(c *connection, in incoming) bool {
	path := in.request.URL.Path
	if strings.HasPrefix(path, "/_sim/") {
		_, keep := c.play(p.control(in), nil)
		return keep
	}
	call := Call{
		Path:    path,
		At:      in.at,
		Headers: loggedHeaders(in.request.Header),
		Body:    in.body,
		Conn:    c.number,
	}
	w, spoken := wireAt(in.request.URL)
	if !spoken {
		if s, e, ok := p.studioAt(in); ok {
			call.Model = e.model
			t := p.ledger.admit(call)
			return p.end(c, t, p.conclude(t, in, s, e), s.identify(t.call.N))
		}
		w = openAIChat{}
	}
	call.Model, call.Stream = w.peek(in.body)
	t := p.ledger.admit(call)
	return p.end(c, t, p.choose(t, in, w, spoken), w.identify(t.call.N))
}

// end sends the reply and logs how that ended.
func (p *Provider) end(c *connection, t ticket, r Reply, id http.Header) (keep bool) {
	outcome, keep := c.play(r, id)
	status := r.Status
	if status == 0 {
		status = http.StatusOK
	}
	p.ledger.finish(t, status, outcome)
	return keep
}

// RequestID is the id of the call with that number, as the answer to it carries it:
// in X-Request-Id (OpenAI), Request-Id (Anthropic, ElevenLabs), X-Fal-Request-Id or responseId (Gemini).
func RequestID(n int) string { return fmt.Sprintf("req_sim_%06d", n) }

// choose finds the reply: a script first, then what any provider checks, then the
// model's fault. spoken is whether there is a format at the path; w spells the answer
// all the same.
func (p *Provider) choose(t ticket, in incoming, w wire, spoken bool) Reply {
	method, path, n := in.request.Method, in.request.URL.Path, t.call.N
	refuse := func(k kind, message string) Reply { return w.refuse(failure{kind: k, message: message}, n) }
	scripted, isScripted := p.ledger.next(t)
	switch {
	case isScripted && !scripted.healthy:
		return scripted
	case path == "/v1/models" && method == http.MethodGet:
		return listModels()
	case !spoken:
		return refuse(badPath, fmt.Sprintf("Invalid URL (%s %s)", method, path))
	case method != http.MethodPost:
		return refuse(badMethod, fmt.Sprintf("Not allowed to %s on %s", method, path))
	}
	if bad := w.admit(in.request.Header); bad != nil {
		return w.refuse(*bad, n)
	}
	req, bad := w.parse(in.body)
	if bad != nil {
		return w.refuse(*bad, n)
	}
	x := exchange{wire: w, request: req, id: n, ordinal: t.ordinal, first: t.first, gap: p.gap}
	if isScripted {
		return slowly(scripted.Delay, exchange.healthy)(x)
	}
	behave, ok := faults[p.model(req.model, w)]
	if !ok {
		p.ledger.surprise(t, fmt.Sprintf("call for %q: no such model and no script for it", req.model))
		return refuse(noModel, fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", req.model))
	}
	return behave(x)
}

// model is what the fault table calls a model: without its other name, and without the
// name of the format that it is called in.
func (p *Provider) model(name string, w wire) string {
	name = cmp.Or(p.names[name], name)
	if rest, ok := strings.CutPrefix(name, "sim-"+w.name()+"-"); ok && w.name() != "" {
		return "sim-" + rest
	}
	return name
}

// control answers the provider's own paths: its log, its counts, its jobs, its reset, and the callback that it is too.
func (p *Provider) control(in incoming) Reply {
	switch in.request.Method + " " + in.request.URL.Path {
	case "GET /_sim/log":
		return Reply{Body: encode(logged(p.Calls()))}
	case "GET /_sim/counts":
		return Reply{Body: encode(p.counts())}
	case "GET /_sim/jobs":
		return Reply{Body: encode(p.Jobs())}
	case "POST /_sim/callback":
		return p.inbox.take(in)
	case "GET /_sim/callbacks":
		return Reply{Body: encode(p.Callbacks())}
	case "POST /_sim/reset":
		p.Reset()
		return Reply{Body: `{"reset":true}`}
	}
	return Error(404, "invalid_request_error", "", "GET /_sim/log, GET /_sim/counts, GET /_sim/jobs, GET /_sim/callbacks, POST /_sim/callback, POST /_sim/reset")
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
