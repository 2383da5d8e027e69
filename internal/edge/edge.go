// Package edge is the gateway's front door: an http.Handler that reads requests, writes answers and errors in the
// caller's dialect, and holds a panic off the process; and the adapter that puts any http.Handler behind a Lambda
// function URL. It is the only writer of errors.
package edge

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/dialect"
	"spillway/internal/fault"
	"spillway/internal/gateway"
	"spillway/internal/idempotency"
	"spillway/internal/media"
	"spillway/internal/telemetry"
)

// MaxBody is the largest request body, in bytes.
const MaxBody = 5_000_000

// Config is what the handler needs.
type Config struct {
	Gateway  *gateway.Gateway
	Recorder *telemetry.Recorder
	// Chat is the dialect of POST /v1/chat/completions, and of every error outside a known path.
	Chat dialect.Dialect
	// Version, ConfigVersion and PolicyVersion are shown by GET /healthz.
	Version, ConfigVersion, PolicyVersion string
}

// New makes the handler. It is safe for concurrent use.
func New(c Config) http.Handler {
	h := &handler{Config: c}
	h.paths = map[string]methods{
		"/v1/chat/completions": {http.MethodPost: h.chat},
		"/v1/route/explain":    {http.MethodPost: h.explain},
		"/v1/models":           {http.MethodGet: h.models},
		"/v1/videos":           {http.MethodGet: h.jobs(media.Video), http.MethodPost: h.videos},
		"/v1/music":            {http.MethodPost: h.music},
		"/v1/jobs":             {http.MethodGet: h.jobs("")},
		"/healthz":             {http.MethodGet: h.health},
	}
	h.under = map[string]things{
		"/v1/models/":     {takes: methods{http.MethodGet: h.model}},
		"/v1/requests/":   {takes: methods{http.MethodGet: h.trace}},
		"/v1/tool-calls/": {takes: methods{http.MethodGet: h.toolCall, http.MethodPut: h.putToolCall}},
		"/v1/jobs/": {methods{http.MethodGet: h.job("")}, map[string]methods{
			"cancel": {http.MethodPost: h.cancel}, "content": {http.MethodGet: h.content("")}}},
		"/v1/videos/": {methods{http.MethodGet: h.job(media.Video)}, map[string]methods{"content": {http.MethodGet: h.content(media.Video)}}},
	}
	return h
}

type handler struct {
	Config
	paths map[string]methods
	// under are the paths that go on with the name of something.
	under map[string]things
}

// methods are what a path takes.
type methods map[string]func(*exchange)

// things are those of one kind, each at a path of its own.
type things struct {
	takes methods
	// parts are what stands below one of them, by name; nil: nothing does, and their names may hold slashes.
	parts map[string]methods
}

// at finds what a path takes; rest is the name of the thing at a path that goes on with one.
func (h *handler) at(path string) (m methods, rest string, ok bool) {
	if m, ok = h.paths[path]; ok {
		return m, "", true
	}
	for prefix, t := range h.under {
		rest, ok := strings.CutPrefix(path, prefix)
		if !ok {
			continue
		}
		name, part, below := strings.Cut(rest, "/")
		switch {
		case t.parts == nil:
			return t.takes, rest, true
		case name == "": // a slash too many
			return nil, "", false
		case !below:
			return t.takes, name, true
		}
		m, ok := t.parts[part]
		return m, name, ok
	}
	return nil, "", false
}

// exchange is one request and its answer.
type exchange struct {
	h       *handler
	w       http.ResponseWriter
	flush   *http.ResponseController
	r       *http.Request
	id      string
	rest    string // of the path: the name of a thing
	dialect dialect.Dialect

	req       *chat.Request
	stream    dialect.Stream // nil until a streamed answer is committed
	head      dialect.Head
	committed bool // the status line is sent
	status    int  // that it says; 0: 200
	// kept records what is sent, for a request with an Idempotency-Key; nil: nothing is recorded. gone says that the
	// client of such a request has left: what is sent is recorded only.
	kept *idempotency.Recording
	gone bool
	// sent says that something of an answer was sent in a stream, sentTool that a part of a tool call was.
	sent, sentTool bool
}

// ServeHTTP answers one request. It returns when everything that belongs to the request is done.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{h: h, w: w, flush: http.NewResponseController(w), r: r, id: requestID(r.Header.Get("X-Request-Id")), dialect: h.Chat}
	w.Header().Set("X-Request-Id", x.id)
	defer x.fence()
	takes, rest, ok := h.at(r.URL.Path)
	if !ok {
		x.Refuse(gateway.Head{}, &fault.Error{Code: fault.NotFound, Message: "there is nothing at this path; see the README for those that exist"})
		return
	}
	x.rest = rest
	serve, ok := takes[r.Method]
	if !ok {
		allowed := strings.Join(slices.Sorted(maps.Keys(takes)), ", ")
		w.Header().Set("Allow", allowed)
		x.Refuse(gateway.Head{}, &fault.Error{Code: fault.MethodNotAllowed, Message: "this path takes " + allowed})
		return
	}
	serve(x)
}

func (h *handler) chat(x *exchange) {
	h.Gateway.Serve(x.r.Context(), x.call(), x)
}

// read reads the body and the control headers.
func (x *exchange) read() (*chat.Request, gateway.Wishes, *fault.Error) {
	wishes, err := readWishes(x.r.Header)
	if err != nil {
		return nil, wishes, err
	}
	body, err := readBody(x.w, x.r)
	if err != nil {
		return nil, wishes, err
	}
	if x.req, err = x.dialect.Parse(body); err != nil {
		return nil, wishes, err
	}
	wishes.Idempotency, err = readIdempotency(x.r, body)
	return x.req, wishes, err
}

// maxWait is the longest that a request waits for another one with its key (contract.md §5).
const maxWait = 30 * time.Second

// readIdempotency reads the Idempotency-Key and what it stands for.
func readIdempotency(r *http.Request, body []byte) (gateway.Idempotency, *fault.Error) {
	const name = "Idempotency-Key"
	given, ok := r.Header[name]
	if !ok {
		return gateway.Idempotency{}, nil
	}
	if n := utf8.RuneCountInString(given[0]); n == 0 || n > idempotency.MaxKey || len(given) > 1 || !utf8.ValidString(given[0]) { // a table keeps text, and would keep another one
		return gateway.Idempotency{}, fault.Invalid(name, name+": must be one key of 1 to 255 characters of UTF-8")
	}
	f, err := idempotency.Of(r.Method, r.URL.Path, r.Header.Get("Content-Type"), body)
	if err != nil {
		return gateway.Idempotency{}, fault.Invalid("body", "the body could not be read for its Idempotency-Key")
	}
	return gateway.Idempotency{Key: given[0], Fingerprint: f, Wait: preferredWait(r.Header.Values("Prefer"))}, nil
}

// preferredWait is the preference wait=N of RFC 7240, in seconds. What is not understood is passed over, as it says.
func preferredWait(values []string) time.Duration {
	for _, v := range values {
		for p := range strings.SplitSeq(v, ",") {
			name, n, _ := strings.Cut(p, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			if seconds, err := strconv.ParseUint(strings.TrimSpace(n), 10, 16); err == nil {
				return min(time.Duration(seconds)*time.Second, maxWait)
			}
		}
	}
	return 0
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *fault.Error) {
	if r.Header.Get("Content-Encoding") != "" {
		return nil, fault.Invalid("Content-Encoding", "Content-Encoding: an encoded body is not accepted; send it as it is")
	}
	if r.ContentLength > MaxBody {
		return nil, tooLarge(MaxBody, "")
	}
	var body []byte
	var err error
	if r.ContentLength > 0 {
		body = make([]byte, r.ContentLength)
		_, err = io.ReadFull(r.Body, body)
	} else {
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	}
	var exceeded *http.MaxBytesError
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &exceeded):
		return nil, tooLarge(MaxBody, "")
	case errors.Is(err, ErrBodyTooLarge):
		return nil, tooLarge(MaxBase64Body, ", the most that is taken of one that arrives base64-encoded")
	case errors.Is(err, ErrBodyEncoding):
		return nil, fault.Invalid("body", "the body is said to be base64 and is not")
	default:
		return nil, fault.Invalid("body", "the body could not be read to its end")
	}
}

func tooLarge(bound int, why string) *fault.Error {
	return &fault.Error{Code: fault.RequestTooLarge, Param: "body", Message: "the body is larger than " + strconv.Itoa(bound) + " bytes" + why}
}

// requestID takes the client's id if it is one, else makes one.
func requestID(given string) string {
	if isRequestID(given) {
		return given
	}
	var raw [12]byte
	_, _ = rand.Read(raw[:]) // never fails
	return "req_" + hex.EncodeToString(raw[:])
}

func isRequestID(s string) bool {
	return s != "" && len(s) <= 128 && strings.IndexFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("_.:-", c)
	}) < 0
}

// presentedKey is the key in one of the headers in which the SDKs send it.
func presentedKey(h http.Header) string {
	if scheme, key, ok := strings.Cut(h.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(key)
	}
	for _, name := range []string{"X-Api-Key", "X-Goog-Api-Key"} {
		if key := h.Get(name); key != "" {
			return key
		}
	}
	return ""
}

// upstreamHeaders are the client's headers that go upstream; no other does.
var upstreamHeaders = []string{"Openai-Beta", "Anthropic-Beta"}

const maxTags = 5

func readWishes(h http.Header) (gateway.Wishes, *fault.Error) {
	var w gateway.Wishes
	if text := h.Get("X-LLM-Timeout-Ms"); text != "" {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n <= 0 {
			return w, fault.Invalid("X-LLM-Timeout-Ms", "X-LLM-Timeout-Ms: must be a whole number of milliseconds above 0")
		}
		w.Timeout = time.Duration(n) * time.Millisecond
	}
	switch c := catalog.Commit(h.Get("X-LLM-Commit")); c {
	case "", catalog.CommitFirstDelta, catalog.CommitPrefix, catalog.CommitComplete:
		w.Commit = c
	default:
		return w, fault.Invalid("X-LLM-Commit", "X-LLM-Commit: is not one of first_delta, prefix, complete")
	}
	switch h.Get("X-LLM-Tool-Deltas") {
	case "", "as_sent":
	case "whole":
		w.WholeTools = true
	default:
		return w, fault.Invalid("X-LLM-Tool-Deltas", "X-LLM-Tool-Deltas: is not one of as_sent, whole")
	}
	for _, name := range upstreamHeaders {
		if v := h.Get(name); v != "" {
			if w.Upstream == nil {
				w.Upstream = map[string]string{}
			}
			w.Upstream[name] = v
		}
	}
	if text := h.Get("X-LLM-Tags"); text != "" {
		tags, ok := parseTags(text)
		if !ok {
			return w, fault.Invalid("X-LLM-Tags", "X-LLM-Tags: must be at most 5 pairs name=value of letters, digits and _.-, separated by semicolons")
		}
		w.Tags = tags
	}
	return w, nil
}

func parseTags(text string) (map[string]string, bool) {
	tags := map[string]string{}
	for pair := range strings.SplitSeq(text, ";") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		if !isTag(name) || !isTag(value) {
			return nil, false
		}
		tags[name] = value
	}
	return tags, len(tags) <= maxTags
}

func isTag(s string) bool {
	return s != "" && len(s) <= 64 && strings.IndexFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("_.-", c)
	}) < 0
}
