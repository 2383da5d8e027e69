package edge

import (
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"spillway/internal/chat"
	"spillway/internal/dialect"
	"spillway/internal/fault"
	"spillway/internal/gateway"
	"spillway/internal/sse"
)

// exchange is the gateway's client: it writes the answer in the caller's dialect.
var _ gateway.Client = (*exchange)(nil)

// Refuse writes an error, with its status and its headers.
func (x *exchange) Refuse(h gateway.Head, e *fault.Error) {
	x.committed = true
	x.setHead(h)
	header := x.w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("X-Should-Retry", strconv.FormatBool(e.Retryable))
	if s := e.RetrySeconds(); s > 0 {
		header.Set("Retry-After", strconv.FormatInt(s, 10))
	}
	body := x.dialect.AppendError(nil, e, x.id)
	header.Set("Content-Length", strconv.Itoa(len(body))) // it is at the client before the records are made
	x.begin(e.HTTPStatus())
	_ = x.send(body) // a client that left needs no error
}

// Open sends the headers of a stream.
func (x *exchange) Open(h gateway.Head) error {
	x.setHead(h)
	header := x.w.Header()
	header.Set("Content-Type", "text/event-stream; charset=utf-8")
	header.Set("Cache-Control", "no-cache, no-transform")
	header.Set("X-Accel-Buffering", "no")
	x.committed = true
	x.stream = x.dialect.NewStream(dialect.Head{ID: "chatcmpl-" + x.id, Created: time.Now()})
	x.begin(http.StatusOK)
	return nil
}

// begin sends the status line.
func (x *exchange) begin(status int) {
	x.status = status
	x.w.WriteHeader(status)
}

// Commit sends the headers of a stream that is not open yet, and sets those of a plain answer.
func (x *exchange) Commit(h gateway.Head) error {
	x.head = dialect.Head{ID: "chatcmpl-" + x.id, Model: h.Model, Created: time.Now(), IncludeUsage: x.req.IncludeUsage}
	if !x.req.Stream {
		x.setHead(h)
		x.w.Header().Set("Content-Type", "application/json")
		return nil
	}
	if !x.committed {
		if err := x.Open(h); err != nil {
			return err
		}
	}
	x.stream = x.dialect.NewStream(x.head)
	return nil
}

// Event sends one event of a stream.
func (x *exchange) Event(ev *chat.Event) error {
	x.sent = true
	x.sentTool = x.sentTool || ev.HasTool()
	return x.send(x.stream.Event(ev))
}

// Whole sends a plain answer. It is at the client before the records are made.
func (x *exchange) Whole(a *chat.Answer) error {
	body := append(x.dialect.AppendAnswer(nil, a, x.head), '\n')
	x.committed = true
	x.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	return x.send(body)
}

// Alive sends a comment: no event, and no blank line that could end one.
func (x *exchange) Alive() error { return x.write(sse.AppendComment(nil, "ka")) }

// End ends a whole stream.
func (x *exchange) End(u *chat.Usage) error { return x.send(x.stream.End(u)) }

// Interrupt ends a stream that is not whole.
func (x *exchange) Interrupt(e *fault.Error, u *chat.Usage) error {
	return x.send(x.stream.Interrupt(e, u))
}

// send sends what belongs to the answer, and keeps it where the answer is kept.
func (x *exchange) send(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	x.keep(b)
	return x.write(b)
}

// write writes to the client.
func (x *exchange) write(b []byte) error {
	if x.gone {
		return nil
	}
	_, err := x.w.Write(b)
	if err == nil {
		err = x.flush.Flush()
	}
	if err != nil && x.kept != nil {
		x.gone, err = true, nil
	}
	return err
}

func (x *exchange) setHead(h gateway.Head) {
	header := x.w.Header()
	set := func(name, value string) {
		if value != "" {
			header.Set(name, value)
		}
	}
	set("X-LLM-Policy-Version", h.PolicyVersion)
	set("X-LLM-Route", headerText(h.Route))
	set("X-LLM-Routing-Reason", headerText(h.RoutingReason))
	set("X-LLM-Provider", h.Provider)
	set("X-LLM-Model", headerText(string(h.Model)))
	set("X-LLM-Provider-Request-Id", headerText(h.ProviderRequestID))
	set("X-LLM-Dropped-Params", headerText(strings.Join(h.Dropped, ",")))
	if h.Route != "" {
		header.Set("X-LLM-Attempts", strconv.Itoa(h.Attempts))
		header.Set("X-LLM-Fallback", strconv.FormatBool(h.Fallback))
		header.Set("X-LLM-Credential-Fallback", strconv.FormatBool(h.CredentialFallback))
	}
}

// headerText keeps a header's value to printable ASCII and to a length that every proxy takes.
func headerText(s string) string {
	s = strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, s)
	if len(s) > 1024 {
		return s[:1024]
	}
	return s
}

// fence keeps a panic from the process. Before the first byte it is a 500; in a stream it is the error event and [DONE];
// a plain answer that was cut is aborted, so that nobody takes it for whole.
func (x *exchange) fence() {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler { //nolint:errorlint // a recovered value, which nobody wraps
		panic(v)
	}
	x.h.Recorder.Panicked(x.id, panicText(v), string(debug.Stack()))
	e := &fault.Error{Code: fault.InternalError, Message: "the gateway failed; the operator has been told"}
	switch {
	case !x.committed:
		x.Refuse(gateway.Head{}, e)
	case x.stream != nil:
		e.Partial, e.Unsafe = x.sent, x.sentTool
		_ = x.Interrupt(e, nil) // the client may be gone as well
	default:
		panic(http.ErrAbortHandler)
	}
}

// panicText is what a record may show of a panic: our own words and the runtime's, and only the type of anything else,
// whose text may hold what a client sent.
func panicText(v any) string {
	switch v := v.(type) {
	case runtime.Error:
		return v.Error()
	case string:
		return v
	default:
		return "a value that is not shown"
	}
}
