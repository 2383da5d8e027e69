package simulate

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A studio is one provider's API of jobs: it reads and judges requests as strictly as that provider does, and spells what is
// to be said of a job in its words. It keeps no job, and knows no fault but those that have words of their own.
type studio interface {
	name() string
	// speaks reports whether a request is for this API: by its path, or by the header that only its callers send.
	speaks(path string, h http.Header) bool
	// read says what a request is about. An errand without a deed is one to a path that is none.
	read(path string, body []byte) errand
	// admit looks at the headers of a request: the credential, above all.
	admit(d deed, h http.Header) *failure
	// judge reads an order; a failure is the API's answer to a bad one.
	judge(body []byte, query url.Values) (prompt string, bad *failure)
	// accepted answers an order that was taken.
	accepted(e errand, j job) Reply
	// tell answers every other deed about a job, as it was when it was asked for.
	tell(e errand, j job) Reply
	// refuse spells a failure.
	refuse(f failure) Reply
	// identify is the header that carries the number of the nth call; nil for none.
	identify(n int) http.Header
}

var studios = []studio{veo{}, fal{}, elevenLabs{}}

// A deed is what a request wants.
type deed string

const (
	begins    deed = "begin"
	polls     deed = "poll"
	collects  deed = "collect" // what was made of a job, where that is an address of its own
	cancels   deed = "cancel"
	downloads deed = "download"
)

var verbs = map[deed]string{begins: http.MethodPost, polls: http.MethodGet, collects: http.MethodGet, cancels: http.MethodPut, downloads: http.MethodGet}

// errand is a request to a studio.
type errand struct {
	deed  deed
	model string // empty: it names none
	job   string // its id; empty for an order
	// base is the address that the API is called at, with the version that the caller's base address ends with.
	base string
	// healthy: a script wants no fault.
	healthy bool
}

// unversioned is a path without the version that a base address may end with, and that version.
func unversioned(path string) (rest, version string) {
	for _, version := range []string{"/v1beta", "/v1"} {
		if rest, ok := strings.CutPrefix(path, version); ok && strings.HasPrefix(rest, "/") {
			return rest, version
		}
	}
	return path, ""
}

// studioAt is the API of jobs that a request is for, and what it wants of it.
func (p *Provider) studioAt(in incoming) (studio, errand, bool) {
	path, version := unversioned(in.request.URL.Path)
	for _, s := range studios {
		if s.speaks(path, in.request.Header) {
			e := s.read(path, in.body)
			e.base = "http://" + in.request.Host + version
			if j, ok := p.books.find(e.job); ok {
				e.model = cmp.Or(e.model, j.Model)
			}
			return s, e, true
		}
	}
	return nil, errand{}, false
}

// conclude finds the reply to a request for a studio: a script first, then what any provider checks, then the model's fault.
func (p *Provider) conclude(t ticket, in incoming, s studio, e errand) Reply {
	scripted, isScripted := p.ledger.next(t)
	if isScripted && !scripted.healthy {
		return scripted
	}
	e.healthy = isScripted
	method, path := in.request.Method, in.request.URL.Path
	switch {
	case e.deed == "":
		return s.refuse(failure{kind: badPath, message: fmt.Sprintf("Not found: %s %s", method, path)})
	case method != verbs[e.deed]:
		return s.refuse(failure{kind: badMethod, message: fmt.Sprintf("Not allowed to %s on %s", method, path)})
	}
	if bad := s.admit(e.deed, in.request.Header); bad != nil {
		return s.refuse(*bad)
	}
	reply := p.about
	if e.deed == begins {
		reply = p.begin
	}
	r := reply(t, in, s, e)
	r.Delay += scripted.Delay
	return r
}

// begin answers an order: with a refusal, or by beginning a job.
func (p *Provider) begin(t ticket, in incoming, s studio, e errand) Reply {
	prompt, bad := s.judge(in.body, in.request.URL.Query())
	if bad != nil {
		return s.refuse(*bad)
	}
	m, known := jobModels[cmp.Or(p.names[e.model], e.model)]
	switch known = known && m.studio == s.name(); {
	case e.healthy:
		m.conduct = conduct{}
	case !known:
		p.ledger.surprise(t, fmt.Sprintf("order for %q: no such model and no script for it", e.model))
		return s.refuse(failure{kind: noModel, message: fmt.Sprintf("The model `%s` does not exist.", e.model)})
	case m.refuses.kind != "":
		return s.refuse(m.refuses)
	}
	j := p.books.begin(Job{API: s.name(), Model: e.model, Prompt: prompt, Size: cmp.Or(m.size, usualSize), Created: time.Now()}, m.conduct, p.takes)
	if m.lost {
		return Reply{Status: NoAnswer, End: Cut}
	}
	return p.deliver(s.accepted(e, j), m.conduct, j.nth)
}

// about answers a request about a job that there is or is not.
func (p *Provider) about(_ ticket, _ incoming, s studio, e errand) Reply {
	j, ok := p.books.note(e, s.name(), time.Now())
	m := j.conduct
	switch asked := j.Polls; {
	case !ok:
		return s.refuse(failure{kind: missing(e.deed)})
	case e.deed == downloads && m.expired:
		return s.refuse(failure{kind: expired})
	case e.deed == downloads && (j.State != JobSucceeded || m.empty):
		return s.refuse(failure{kind: noFile})
	case e.deed == downloads:
		return p.deliver(Reply{work: &work{id: j.ID, of: s.name(), size: j.Size}}, m, j.Downloads)
	case e.deed == cancels:
		return s.tell(e, j)
	case asked <= m.broken:
		return Reply{Status: http.StatusBadGateway, Body: page}
	case m.remembered > 0 && asked > m.remembered:
		return s.refuse(failure{kind: noJob})
	}
	r := s.tell(e, j)
	if m.hint > 0 && !j.ended() {
		r = r.WithHeader("Retry-After", itoa(m.hint))
	}
	return r
}

// missing is what there is none of, where a deed asks for it.
func missing(d deed) kind {
	switch d {
	case downloads:
		return noFile
	case cancels:
		return noCancel
	default:
		return noJob
	}
}

// deliver lets an answer that is a work arrive as the job's model has it, for the nth time: slowly, or not whole at first.
func (p *Provider) deliver(r Reply, c conduct, nth int) Reply {
	if r.work == nil {
		return r
	}
	if c.slow {
		r.work.spread = p.trickle
	}
	if c.cut && nth == 1 {
		r.End = Cut
	}
	return r
}
