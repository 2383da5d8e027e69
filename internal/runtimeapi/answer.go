package runtimeapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"
)

// errCut: the function's answer broke off; there is no telling what is missing.
var errCut = errors.New("the answer broke off")

func cut(err error) error { return fmt.Errorf("%w: %w", errCut, err) }

const typeTooLarge = "Function.ResponseSizeTooLarge"

func tooLarge(limit int) *FunctionError {
	return &FunctionError{Type: typeTooLarge, Message: fmt.Sprintf("Response payload size exceeded maximum allowed payload size (%d bytes).", limit)}
}

func isTooLarge(err error) bool {
	failure, ok := errors.AsType[*FunctionError](err)
	return ok && failure.Type == typeTooLarge
}

// collected is an answer that is read whole.
type collected struct {
	limit       int // bytes
	contentType string
	body        []byte
}

func (c *collected) receive(r *http.Request) error {
	c.contentType = r.Header.Get("Content-Type")
	body, err := io.ReadAll(io.LimitReader(r.Body, int64(c.limit)+1))
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body)
	}
	if err != nil {
		return cut(err)
	}
	if err := trailerError(r.Trailer); err != nil {
		return err
	}
	if len(body) > c.limit {
		return tooLarge(c.limit)
	}
	c.body = body
	return nil
}

func (c *collected) cut() {}

// head is the part of an answer that is not its body: the prelude of a stream, or the head of a buffered answer.
type head struct {
	StatusCode int               `json:"statusCode"`
	Headers    map[string]string `json:"headers"`
	Cookies    []string          `json:"cookies"`
}

// remapped are the headers a function cannot set: they belong to the connection, which is the platform's. Lambda passes
// them on under another name (seen for Content-Length; assumed for the others, as API Gateway documents them).
var remapped = map[string]bool{
	"Connection": true, "Content-Length": true, "Date": true, "Keep-Alive": true, "Server": true,
	"Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// check refuses a status that no final HTTP response can have; a missing one is 200.
func (h *head) check() error {
	if h.StatusCode == 0 {
		h.StatusCode = http.StatusOK
	}
	if h.StatusCode < 200 || h.StatusCode > 599 {
		return &FunctionError{Type: "Runtime.InvalidResponse", Message: fmt.Sprintf("%d is not a status of a response", h.StatusCode)}
	}
	return nil
}

func (h *head) write(w http.ResponseWriter, defaultContentType string) {
	header := w.Header()
	header.Set("Content-Type", defaultContentType)
	for name, value := range h.Headers {
		if name = http.CanonicalHeaderKey(name); remapped[name] {
			name = "X-Amzn-Remapped-" + name
		}
		header.Set(name, value)
	}
	for _, cookie := range h.Cookies {
		header.Add("Set-Cookie", cookie)
	}
	w.WriteHeader(h.StatusCode)
}

const (
	integrationType = "application/vnd.awslambda.http-integration-response"
	// preludeLimit is what API Gateway documents for the metadata of a stream; function URLs name no limit.
	// https://docs.aws.amazon.com/apigateway/latest/developerguide/response-transfer-mode-lambda.html (2026-11)
	preludeLimit = 16 << 10
)

var separator = make([]byte, 8)

// streamed is an answer that is passed on while it is written.
type streamed struct {
	front *Front
	id    string // of the invocation
	w     http.ResponseWriter

	left   int     // bytes of body until the limit
	bucket *bucket // nil: as fast as it comes
	passed bool    // there was a byte of body
	gone   bool    // the client has left

	mu      sync.Mutex
	started bool          // the status is sent; without it the owner of w answers, once the outcome is known
	severed chan struct{} // closed when nothing is to be sent any more
	over    bool          // w is no longer ours
}

func (f *Front) newStreamed(id string, w http.ResponseWriter) *streamed {
	s := &streamed{front: f, id: id, w: w, left: f.limits.Streamed, severed: make(chan struct{})}
	if f.bandwidth != nil {
		s.bucket = newBucket(*f.bandwidth, time.Now())
	}
	return s
}

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

func (s *streamed) receive(r *http.Request) error {
	defer func() {
		s.mu.Lock()
		s.over = true
		s.mu.Unlock()
	}()
	buffer := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buffer)

	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	start := s.startPlain
	if mediaType == integrationType {
		start = s.startIntegration
	}
	if err := start(r, buffer[:]); err != nil {
		if !errors.Is(err, errCut) && !isTooLarge(err) {
			if _, readErr := io.Copy(io.Discard, r.Body); readErr != nil {
				return cut(readErr)
			}
		}
		return err
	}
	if err := s.relay(r.Body, buffer[:]); err != nil {
		return err
	}
	if err := trailerError(r.Trailer); err != nil || s.passed {
		return err
	}
	return s.front.violated(s.id, Violation{Rule: EmptyBody})
}

// startIntegration reads the prelude, sends status and headers, and the beginning of the body that came with them.
func (s *streamed) startIntegration(r *http.Request, buffer []byte) error {
	limit := buffer[:preludeLimit+len(separator)]
	filled := 0
	for {
		n, err := r.Body.Read(limit[filled:])
		from := max(0, filled-len(separator)+1)
		filled += n
		if i := bytes.Index(limit[from:filled], separator); i >= 0 {
			end := from + i
			return s.begin(limit[:end], limit[end+len(separator):filled])
		}
		switch {
		case err == io.EOF:
			return s.noPrelude(r, "the answer ended before the end of its prelude")
		case err != nil:
			return cut(err)
		case filled == len(limit):
			if err := s.front.violated(s.id, Violation{Rule: LongPrelude}); err != nil {
				return err
			}
			return s.noPrelude(r, fmt.Sprintf("no end of the prelude within %d bytes", preludeLimit))
		}
	}
}

// noPrelude prefers what the function itself reported.
func (s *streamed) noPrelude(r *http.Request, message string) error {
	if err := trailerError(r.Trailer); err != nil {
		return err
	}
	return &FunctionError{Type: "Runtime.InvalidResponse", Message: message}
}

func (s *streamed) begin(prelude, body []byte) error {
	var h head
	if err := json.Unmarshal(prelude, &h); err != nil {
		return &FunctionError{Type: "Runtime.InvalidResponse", Message: "decoding the prelude: " + err.Error()}
	}
	if err := s.front.admit(s.id, &h); err != nil {
		return err
	}
	if !s.start() {
		return errCut
	}
	h.write(s.w, "application/octet-stream")
	if len(body) == 0 {
		s.flush()
	}
	return s.pass(body)
}

// startPlain sends 200 and the first bytes of an answer that is not an HTTP integration response: as it is, under the
// content type the runtime gave it. It waits for the first bytes, so that a function that fails before them is a 502.
func (s *streamed) startPlain(r *http.Request, buffer []byte) error {
	n, err := 0, error(nil)
	for n == 0 && err == nil {
		n, err = r.Body.Read(buffer)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return cut(err)
	}
	if n == 0 {
		if err := trailerError(r.Trailer); err != nil {
			return err
		}
	}
	contentType := r.Header.Get("Content-Type")
	if contentType == "" {
		contentType = "application/octet-stream"
	}
	if !s.start() {
		return errCut
	}
	s.w.Header().Set("Content-Type", contentType)
	s.w.WriteHeader(http.StatusOK)
	if n == 0 {
		s.flush()
	}
	return s.pass(buffer[:n])
}

// relay passes on each read at once. When the client has left it reads on to the end: Lambda does not tell the
// function, which would otherwise block.
func (s *streamed) relay(body io.Reader, buffer []byte) error {
	for {
		n, err := body.Read(buffer)
		if overLimit := s.pass(buffer[:n]); overLimit != nil {
			return overLimit
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return cut(err)
		}
	}
}

// pass sends a part of the body as fast and as far as is allowed. The error says that the answer is over its limit: as in
// the emulator the rest of it is then not read.
func (s *streamed) pass(p []byte) (err error) {
	if len(p) > s.left {
		p, err = p[:s.left], tooLarge(s.front.limits.Streamed)
	}
	s.left -= len(p)
	for len(p) > 0 {
		n := s.allowed(len(p))
		s.passed = true
		s.write(p[:n])
		s.flush()
		p = p[n:]
	}
	return err
}

// allowed waits until some of n bytes may pass, and returns how many.
func (s *streamed) allowed(n int) int {
	for s.bucket != nil {
		granted, wait := s.bucket.grant(n, time.Now())
		if granted > 0 {
			return granted
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-s.severed:
			timer.Stop()
			s.gone = true // the rest must not slip out before writing fails
			return n
		}
	}
	return n
}

func (s *streamed) write(p []byte) {
	if !s.gone {
		_, err := s.w.Write(p)
		s.gone = err != nil
	}
}

func (s *streamed) flush() {
	if s.gone {
		return
	}
	err := http.NewResponseController(s.w).Flush()
	s.gone = err != nil && !errors.Is(err, http.ErrNotSupported)
}

// start is asked before the first byte is sent.
func (s *streamed) start() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = !s.isSevered()
	return s.started
}

func (s *streamed) isSevered() bool {
	select {
	case <-s.severed:
		return true
	default:
		return false
	}
}

// cut makes a write to a client that does not read fail.
func (s *streamed) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isSevered() {
		close(s.severed)
	}
	if s.started && !s.over {
		_ = http.NewResponseController(s.w).SetWriteDeadline(time.Now())
	}
}
