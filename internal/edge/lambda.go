package edge

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
)

// DefaultMargin is the time kept back before Lambda kills the invocation, for a
// final event and the bookkeeping: 2.5 s.
const DefaultMargin = 2500 * time.Millisecond

// ErrBodyEncoding is what reading the body of a request returns if the function
// URL event says that the body is base64 and it is not. The handler answers it
// like any other unreadable body.
var ErrBodyEncoding = errors.New("the request body is not valid base64")

// MaxBase64Body is the largest body that is taken from an event which delivers it
// base64-encoded, in bytes before encoding: above it the event nears Lambda's own
// limit of 6 MB.
const MaxBase64Body = 4_400_000

// ErrBodyTooLarge is what reading a base64 body above MaxBase64Body returns.
var ErrBodyTooLarge = errors.New("the request body is too large")

// ErrResponseClosed is returned by Write, and is the cause of the request
// context, after the runtime gave up sending the response.
var ErrResponseClosed = errors.New("the response can no longer be sent")

// StreamError ends the body of a response whose handler panicked after its first
// byte. The runtime client reports it in the trailers
// Lambda-Runtime-Function-Error-Type and -Body, and the client sees a truncated
// answer instead of a clean end.
type StreamError struct{}

func (StreamError) Error() string { return "the response ended before it was complete" }

// LambdaOptions tunes Lambda. The zero value is ready to use.
type LambdaOptions struct {
	// Margin is how long before Lambda's own deadline the context of a request
	// expires; writing still works then. 0 means DefaultMargin, negative no margin.
	// It must be well below the function's timeout: an invocation with less time
	// than this starts with an expired context.
	Margin time.Duration

	// OnPanic is told of a panic that reached the adapter, http.ErrAbortHandler
	// excepted, before the response ends. Nil means a record of slog.Default with
	// the stack and, unless it is a runtime error, only the type of the value: its
	// text may hold what a client sent.
	OnPanic func(ctx context.Context, value any, stack []byte)
}

// Start serves the invocations of this process with h and does not return. It makes the Go runtime fit the environment
// first: see fit.
func Start(h http.Handler, opt LambdaOptions) {
	fit(lambdacontext.MemoryLimitInMB, lambdacontext.MaxConcurrency())
	lambda.StartWithOptions(Lambda(h, opt))
}

// Lambda returns a function for lambda.StartWithOptions that serves a function
// URL of invoke mode RESPONSE_STREAM with h, and promises what net/http's server
// promises, as far as the platform allows:
//
//   - The request is a server's: Host, RequestURI, ContentLength and a RemoteAddr
//     with a port (always 0) are set.
//   - The header is taken at WriteHeader, later changes are not sent. Informational
//     statuses and a second WriteHeader are ignored.
//   - Nothing is sent before the first byte of the body, Flush, or the return of
//     h. Then each Write is one read of the runtime, so that Flush has nothing
//     left to do and succeeds.
//   - A panic before that is answered with 500 and a JSON body; after it the body
//     ends with StreamError. The process lives on in both cases.
//   - The body ends after h returned: what h does after its last Write is done
//     before Lambda freezes the environment.
//   - If the runtime cannot send the response, Write returns ErrResponseClosed, the
//     request context is cancelled, and h is waited for. The runtime client notices a
//     broken connection only while it sends (aws-lambda-go v1.55.1): a handler that
//     writes nothing is not told.
//
// The body is never empty, because a streamed response without a byte of body can
// hang the client for minutes (github.com/aws/aws-lambda-nodejs-runtime-interface-client/issues/95):
// to an answer without body, a 204 or 304 included, "{}" is added, which every
// client of a JSON API can parse, or a line feed if its Content-Type is not JSON.
//
// The returned function never fails: an error would be answered by the platform,
// in its own shape. It keeps no state between calls and may be called concurrently.
func Lambda(h http.Handler, opt LambdaOptions) func(context.Context, *events.LambdaFunctionURLRequest) (*events.LambdaFunctionURLStreamingResponse, error) {
	if opt.Margin == 0 {
		opt.Margin = DefaultMargin
	}
	if opt.OnPanic == nil {
		opt.OnPanic = logPanic
	}
	return func(ctx context.Context, event *events.LambdaFunctionURLRequest) (*events.LambdaFunctionURLStreamingResponse, error) {
		if event == nil { // the payload "null"
			event = new(events.LambdaFunctionURLRequest)
		}
		ctx, cancel := withMargin(ctx, max(opt.Margin, 0))
		reader, writer := io.Pipe()
		w := &lambdaWriter{
			cancel: cancel,
			reader: reader,
			writer: writer,
			ready:  make(chan *events.LambdaFunctionURLStreamingResponse, 1),
			done:   make(chan struct{}),
			header: make(http.Header),
		}
		go w.serve(h, lambdaRequest(ctx, event), opt.OnPanic)
		return <-w.ready, nil
	}
}

// withMargin derives a context that expires margin before ctx does.
func withMargin(ctx context.Context, margin time.Duration) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx, cancel
	}
	ctx, stop := context.WithDeadline(ctx, deadline.Add(-margin))
	return ctx, func(cause error) {
		cancel(cause)
		stop()
	}
}

func logPanic(ctx context.Context, value any, stack []byte) {
	text := fmt.Sprintf("%T", value)
	if err, ok := value.(runtime.Error); ok {
		text = err.Error()
	}
	slog.ErrorContext(ctx, "handler panicked", "panic", text, "stack", string(stack))
}

// lambdaRequest makes the request that net/http's server would have made.
func lambdaRequest(ctx context.Context, event *events.LambdaFunctionURLRequest) *http.Request {
	about := event.RequestContext.HTTP
	r := &http.Request{
		Method:     about.Method,
		URL:        lambdaURL(event.RawPath, event.RawQueryString),
		Proto:      about.Protocol,
		Header:     make(http.Header, len(event.Headers)),
		Host:       event.RequestContext.DomainName,
		RemoteAddr: net.JoinHostPort(about.SourceIP, "0"),
	}
	if r.Method == "" {
		r.Method = http.MethodGet
	}
	var ok bool
	if r.ProtoMajor, r.ProtoMinor, ok = http.ParseHTTPVersion(r.Proto); !ok {
		r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	}
	r.RequestURI = r.URL.RequestURI()
	for name, value := range event.Headers {
		r.Header.Add(name, value)
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	r.Header.Del("Host")
	// A function URL sends the cookies in both places, an HTTP API only here.
	if len(event.Cookies) > 0 && r.Header.Get("Cookie") == "" {
		r.Header.Set("Cookie", strings.Join(event.Cookies, "; "))
	}
	r.Body, r.ContentLength = lambdaRequestBody(event)
	return r.WithContext(ctx)
}

// lambdaURL takes the path as it was sent; one that is not escaped properly
// stands for itself.
func lambdaURL(rawPath, rawQuery string) *url.URL {
	if !strings.HasPrefix(rawPath, "/") {
		rawPath = "/" + rawPath
	}
	path, err := url.PathUnescape(rawPath)
	if err != nil {
		path = rawPath
	}
	u := &url.URL{Path: path, RawQuery: rawQuery}
	if u.EscapedPath() != rawPath {
		u.RawPath = rawPath // a hint, used only if it is an escaping of Path
	}
	return u
}

// lambdaRequestBody returns the body and its length, -1 for one that is broken.
func lambdaRequestBody(event *events.LambdaFunctionURLRequest) (io.ReadCloser, int64) {
	var body interface {
		io.Reader
		Len() int
	} = strings.NewReader(event.Body)
	if event.IsBase64Encoded {
		decoded, err := base64.StdEncoding.DecodeString(event.Body)
		if err != nil {
			return io.NopCloser(brokenBody{fmt.Errorf("%w: %w", ErrBodyEncoding, err)}), -1
		}
		if len(decoded) > MaxBase64Body {
			return io.NopCloser(brokenBody{ErrBodyTooLarge}), -1
		}
		body = bytes.NewReader(decoded)
	}
	if body.Len() == 0 {
		return http.NoBody, 0
	}
	return io.NopCloser(body), int64(body.Len())
}

// brokenBody is a body that cannot be read.
type brokenBody struct{ err error }

func (b brokenBody) Read([]byte) (int, error) { return 0, b.err }

// lambdaWriter is the http.ResponseWriter of one invocation.
type lambdaWriter struct {
	cancel context.CancelCauseFunc // of the request context
	reader *io.PipeReader          // the body, as the runtime reads it
	writer *io.PipeWriter
	ready  chan *events.LambdaFunctionURLStreamingResponse // gets the response, once; never blocks
	done   chan struct{}                                   // closed when the handler's goroutine is over

	header http.Header // the handler's

	mu       sync.Mutex // guards the fields below
	status   int        // 0 until WriteHeader
	snapshot http.Header
	sent     bool // the response is in ready: status and header are final
	wrote    bool // the body is not empty
}

var (
	_ http.Flusher = (*lambdaWriter)(nil)
	_ io.Closer    = lambdaBody{}
)

// serve runs h and ends the response however h ends: by returning, by a panic or
// by runtime.Goexit. The request context is cancelled before the body ends.
func (w *lambdaWriter) serve(h http.Handler, r *http.Request, onPanic func(context.Context, any, []byte)) {
	defer close(w.done)
	returned := false
	defer func() { w.finish(returned) }()
	defer w.cancel(nil)
	defer func() {
		if v := recover(); v != nil && v != http.ErrAbortHandler { //nolint:errorlint // a recovered value, which nobody wraps
			onPanic(r.Context(), v, debug.Stack())
		}
	}()
	h.ServeHTTP(w, r)
	returned = true
}

// internalError is the answer for a handler that gave none. The text is fixed, as
// the adapter knows nothing of the caller's dialect.
const internalError = `{"error":{"message":"internal error","type":"api_error","param":null,"code":"internal_error"}}`

// finish sends what is missing and ends the body.
func (w *lambdaWriter) finish(returned bool) {
	w.mu.Lock()
	missing := ""
	switch {
	case !returned && !w.sent:
		w.status = http.StatusInternalServerError
		w.snapshot = http.Header{"Content-Type": {"application/json"}, "X-Should-Retry": {"false"}}
		missing, returned = internalError, true
	case !w.wrote:
		w.writeHeader(http.StatusOK)
		missing = w.filler()
	}
	w.send(nil)
	w.mu.Unlock()

	if missing != "" {
		_, _ = io.WriteString(w.writer, missing) // fails only if nobody reads
	}
	if !returned {
		_ = w.writer.CloseWithError(StreamError{})
		return
	}
	_ = w.writer.Close()
}

// filler returns the body of a response without one; see Lambda.
func (w *lambdaWriter) filler() string {
	contentType := w.snapshot.Get("Content-Type")
	if contentType != "" && !strings.Contains(contentType, "json") {
		return "\n"
	}
	w.snapshot.Set("Content-Type", "application/json")
	return "{}"
}

func (w *lambdaWriter) Header() http.Header { return w.header }

// WriteHeader panics if status is no HTTP status, as net/http's does; 0 is 200.
func (w *lambdaWriter) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(status)
}

func (w *lambdaWriter) writeHeader(status int) {
	switch {
	case w.status != 0 || 100 <= status && status < 200:
		return
	case status == 0:
		status = http.StatusOK
	case status < 100 || status > 999:
		panic(fmt.Sprintf("invalid WriteHeader code %d", status))
	}
	w.status, w.snapshot = status, w.header.Clone()
}

// Write returns when the runtime has taken p.
func (w *lambdaWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.writeHeader(http.StatusOK)
	if len(p) == 0 {
		w.mu.Unlock()
		return 0, nil
	}
	w.wrote = true
	w.send(p)
	w.mu.Unlock()
	return w.writer.Write(p)
}

func (w *lambdaWriter) Flush() { _ = w.FlushError() }

// FlushError sends the header if nothing was sent yet.
func (w *lambdaWriter) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(http.StatusOK)
	w.send(nil)
	return nil
}

// send hands the response to the runtime, at the first call; body is the first
// part of the body, if known. The caller holds mu and has set the status.
func (w *lambdaWriter) send(body []byte) {
	if w.sent {
		return
	}
	w.sent = true
	_, typed := w.snapshot["Content-Type"]
	if !typed && len(body) > 0 && w.snapshot.Get("Content-Encoding") == "" {
		w.snapshot.Set("Content-Type", http.DetectContentType(body))
	}
	headers, cookies := lambdaHeaders(w.snapshot)
	w.ready <- &events.LambdaFunctionURLStreamingResponse{
		StatusCode: w.status,
		Headers:    headers,
		Cookies:    cookies,
		Body:       lambdaBody{w},
	}
}

// lambdaHeaders returns what the prelude of a response can hold: one value for
// each name, cookies apart. Names that are none are left out, and so are those
// that concern one connection only: Lambda frames the body by itself, and a length
// would contradict that.
func lambdaHeaders(header http.Header) (headers map[string]string, cookies []string) {
	headers = make(map[string]string, len(header))
	for _, key := range slices.Sorted(maps.Keys(header)) {
		values := make([]string, len(header[key]))
		for i, value := range header[key] {
			values[i] = strings.TrimSpace(newlineToSpace.Replace(value))
		}
		name := http.CanonicalHeaderKey(key)
		switch name {
		case "Set-Cookie":
			cookies = append(cookies, values...)
			continue
		case "Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
			continue
		}
		if len(values) == 0 || strings.ContainsFunc(name, notTokenRune) || name == "" {
			continue
		}
		if before, ok := headers[name]; ok {
			values = append([]string{before}, values...)
		}
		headers[name] = strings.Join(values, ", ")
	}
	return headers, cookies
}

var newlineToSpace = strings.NewReplacer("\r", " ", "\n", " ")

// notTokenRune reports whether r cannot be part of a header name (RFC 9110, 5.6.2).
func notTokenRune(r rune) bool {
	alphanumeric := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	return !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// lambdaBody is the body as the runtime reads it: what the handler wrote, one read
// for each Write, then io.EOF or StreamError by itself.
type lambdaBody struct{ w *lambdaWriter }

func (b lambdaBody) Read(p []byte) (int, error) { return b.w.reader.Read(p) }

// Close tells the handler that nobody reads on, and waits for its end. The runtime
// calls it before the next invocation, or before it exits.
func (b lambdaBody) Close() error {
	_ = b.w.reader.CloseWithError(ErrResponseClosed)
	b.w.cancel(ErrResponseClosed)
	<-b.w.done
	return nil
}
