package edge

import (
	"cmp"
	"io"
	"net/http"
	"strconv"
	"strings"

	"spillway/internal/idempotency"
)

// Keep begins to record what is sent.
func (x *exchange) Keep() { x.kept = &idempotency.Recording{} }

// keep records what is sent.
func (x *exchange) keep(b []byte) {
	if x.kept != nil {
		x.kept.Add(b)
	}
}

// Kept is what was sent since Keep.
func (x *exchange) Kept() (idempotency.Result, bool) {
	if x.kept == nil {
		return idempotency.Result{}, false
	}
	header := map[string]string{}
	for name, values := range x.w.Header() {
		if keptHeader(name) {
			header[name] = strings.Join(values, ", ")
		}
	}
	return x.kept.Result(cmp.Or(x.status, http.StatusOK), header, x.stream != nil)
}

// keptHeader reports whether a header belongs to the answer, and is sent again with it. The request id is the repeated
// request's own, and the length is counted anew.
func keptHeader(name string) bool {
	switch name {
	case "Content-Type", "Cache-Control", "X-Accel-Buffering", "X-Should-Retry":
		return true
	default:
		return strings.HasPrefix(name, "X-Llm-")
	}
}

// Replay sends a stored result. A stream is sent as a stream: its events as they were, without a length.
func (x *exchange) Replay(r idempotency.Result, body io.Reader) {
	x.committed = true
	header := x.w.Header()
	for name, value := range r.Header {
		header.Set(name, value)
	}
	header.Set("Idempotent-Replayed", "true")
	if !r.Stream {
		header.Set("Content-Length", strconv.FormatInt(r.Size, 10))
	}
	x.begin(r.Status)
	_, _ = io.Copy(writing{x}, body) // a client that left may come again
}

// writing is an exchange as a writer.
type writing struct{ *exchange }

func (w writing) Write(b []byte) (int, error) {
	if err := w.write(b); err != nil {
		return 0, err
	}
	return len(b), nil
}
