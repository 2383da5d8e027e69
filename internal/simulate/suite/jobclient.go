package suite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"spillway/internal/media"
)

// An order is what a client asks for.
type order struct {
	key      string // Idempotency-Key; empty: none is sent
	path     string // /v1/videos
	model    string
	prompt   string
	callback string // empty: none
	id       string // of the job, once it is known
}

func (o order) body() string {
	in := map[string]string{"model": o.model, "prompt": o.prompt}
	if o.callback != "" {
		in["callback_url"] = o.callback
	}
	text, err := json.Marshal(in)
	if err != nil {
		panic("suite: encoding an order: " + err.Error()) // it is made of text
	}
	return string(text)
}

// A reaction is what a client has got.
type reaction struct {
	Status int
	Header http.Header
	Body   []byte
	Err    error
}

// job is the job that a reaction shows; of another one it has no id.
func (a reaction) job() (v media.View) {
	_ = json.Unmarshal(a.Body, &v)
	return v
}

func (a reaction) String() string {
	if a.Err != nil {
		return a.Err.Error()
	}
	return fmt.Sprintf("status %d, %s", a.Status, cut(string(a.Body)))
}

// errorCode is the code of a reaction that is an error.
func (a reaction) errorCode() string {
	if e := parseError(string(a.Body)); e != nil {
		return e.Code
	}
	return ""
}

// call makes one request of the gateway. One that finds every environment busy is made again, as Lambda's clients do. Redirects are
// not followed.
func (s *studio) call(ctx context.Context, method, path string, header map[string]string, body string) reaction {
	for {
		a := s.callOnce(ctx, method, path, header, body)
		if a.Status != http.StatusTooManyRequests || a.Header.Get("X-Amzn-Errortype") == "" || ctx.Err() != nil {
			return a
		}
		pause(ctx, 40*time.Millisecond)
	}
}

// callLimit bounds one call of the gateway: the submit inside it has a lease.
const callLimit = 30 * time.Second

func (s *studio) callOnce(ctx context.Context, method, path string, header map[string]string, body string) (a reaction) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return reaction{Err: err}
	}
	req.Header.Set("Authorization", "Bearer "+clientKey)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	return fetched(req)
}

// fetched makes a request over a connection of its own and reads the answer to its end.
func fetched(req *http.Request) (a reaction) {
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return reaction{Err: err}
	}
	defer resp.Body.Close()
	a.Status, a.Header = resp.StatusCode, resp.Header
	a.Body, a.Err = io.ReadAll(resp.Body)
	return a
}

// post places an order, once.
func (s *studio) post(ctx context.Context, o order) reaction {
	header := map[string]string{}
	if o.key != "" {
		header["Idempotency-Key"] = o.key
	}
	return s.call(ctx, http.MethodPost, o.path, header, o.body())
}

// place repeats an order until its client knows that it is taken, as a client does that must not lose it, and returns the last answer and
// how many there were.
func (s *studio) place(ctx context.Context, o order, f *Findings) (a reaction, tries int) {
	for ctx.Err() == nil {
		a = s.post(ctx, o)
		tries++
		switch {
		case a.Err == nil && a.Status == http.StatusAccepted:
			return a, tries
		case a.Err == nil && a.Status/100 == 4 && a.Status != http.StatusTooManyRequests && a.Status != http.StatusConflict:
			f.addf("%s: the order was refused: %s", o.key, a)
			return a, tries
		}
		pause(ctx, 200*time.Millisecond)
	}
	f.addf("%s: the order was not taken in time: %s", o.key, a)
	return a, tries
}

// look is what a client sees of a job now.
func (s *studio) look(ctx context.Context, id string) reaction {
	return s.call(ctx, http.MethodGet, "/v1/jobs/"+id, nil, "")
}

// given is a work as it was given out.
type given struct {
	Status int
	Size   int64
	SHA256 string
	Err    error
}

// linked is the work at the link of a job, which must do without the client's key.
func (s *studio) linked(ctx context.Context, id string) given {
	a := s.call(ctx, http.MethodGet, "/v1/jobs/"+id+"/content", nil, "")
	if a.Err != nil || a.Status != http.StatusFound {
		return given{Status: a.Status, Err: a.Err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.Header.Get("Location"), nil)
	if err != nil {
		return given{Err: err}
	}
	return giveOut(req)
}

// streamed is the work as the gateway passes it on by itself.
func (s *studio) streamed(ctx context.Context, id string) given {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/v1/jobs/"+id+"/content?stream=1", nil)
	if err != nil {
		return given{Err: err}
	}
	req.Header.Set("Authorization", "Bearer "+clientKey)
	return giveOut(req)
}

// giveOut reads a work to its end, and keeps none of it.
func giveOut(req *http.Request) (g given) {
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return given{Err: err}
	}
	defer resp.Body.Close()
	h := sha256.New()
	g.Status = resp.StatusCode
	g.Size, g.Err = io.Copy(h, resp.Body)
	g.SHA256 = hex.EncodeToString(h.Sum(nil))
	return g
}
