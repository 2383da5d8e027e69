package runtimeapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ServeHTTP is the function URL. Failures are answered in AWS's shape: 413 for an event over 6 MB, 429 when every
// environment is busy, 502 when the function failed before its status. One that failed later has its client's
// connection aborted.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, trace := newID(), r.Header.Get("X-Amzn-Trace-Id")
	if trace == "" {
		trace = newTraceID()
	}
	w.Header().Set("X-Amzn-Requestid", id)
	w.Header().Set("X-Amzn-Trace-Id", trace)
	event, err := f.event(r, id, trace)
	if err != nil {
		f.writeFailure(w, id, err)
		return
	}
	switch started, err := f.serve(w, id, trace, event); {
	case err == nil:
	case started:
		f.logf("RequestId: %s stream cut: %v", id, err)
		panic(http.ErrAbortHandler)
	default:
		f.writeFailure(w, id, err)
	}
}

// ServeEvent hands the function an event of a function URL, as it was recorded, and answers w as the URL does. The error
// says why there is no answer, which nothing has then been written of, or why it is not whole.
func (f *Front) ServeEvent(w http.ResponseWriter, event []byte) error {
	if len(event) > maxPayload {
		return ErrTooLarge
	}
	_, err := f.serve(w, newID(), newTraceID(), event)
	return err
}

// serve also reports whether w has been written to.
func (f *Front) serve(w http.ResponseWriter, id, trace string, event []byte) (started bool, err error) {
	if f.fn.Mode == Stream {
		answer := f.newStreamed(id, w)
		err := f.run(newInvocation(id, trace, event, answer))
		return answer.started, err
	}
	answer := &collected{limit: f.limits.Buffered}
	if err := f.run(newInvocation(id, trace, event, answer)); err != nil {
		return false, err
	}
	h, body, err := decodeBuffered(answer)
	if err != nil {
		return false, err
	}
	if err := f.admit(id, &h); err != nil {
		return false, err
	}
	h.write(w, "application/json")
	_, _ = w.Write(body)
	return true, nil
}

// run sees inv through, whether or not its client stays: once begun, Lambda does not call an invocation back.
func (f *Front) run(inv *invocation) error {
	if err := f.start(inv); err != nil {
		return err
	}
	err := <-inv.done
	inv.settle()
	return err
}

// decodeBuffered applies payload format 2.0: an object with a statusCode is a response, any other JSON is the body of
// a 200. https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html#urls-payloads (2026-11)
func decodeBuffered(answer *collected) (head, []byte, error) {
	invalid := func(message string) (head, []byte, error) {
		return head{}, nil, &FunctionError{Type: "Runtime.InvalidResponse", Message: message}
	}
	if mediaType, _, _ := mime.ParseMediaType(answer.contentType); mediaType == integrationType {
		return invalid("the function streams, its URL is BUFFERED")
	}
	if !json.Valid(answer.body) {
		return invalid("the answer is not JSON")
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(answer.body, &object) != nil || object["statusCode"] == nil {
		return head{StatusCode: http.StatusOK}, answer.body, nil
	}
	var response struct {
		head
		Body            string `json:"body"`
		IsBase64Encoded bool   `json:"isBase64Encoded"`
	}
	if err := json.Unmarshal(answer.body, &response); err != nil {
		return invalid("decoding the answer: " + err.Error())
	}
	body := []byte(response.Body)
	if response.IsBase64Encoded {
		decoded, err := base64.StdEncoding.DecodeString(response.Body)
		if err != nil {
			return invalid("decoding the body: " + err.Error())
		}
		body = decoded
	}
	return response.head, body, nil
}

// errUnread: the client's request could not be read.
var errUnread = errors.New("reading request body")

// writeFailure answers what the function did not. The shapes are Lambda's as far as they are documented
// (https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html#API_Invoke_Errors, 2026-11); a function's own error
// text is logged and never sent.
func (f *Front) writeFailure(w http.ResponseWriter, id string, err error) {
	status, errorType := http.StatusBadGateway, ""
	body := map[string]string{"message": "Internal Server Error"}
	switch {
	case errors.Is(err, ErrThrottled):
		status, errorType = http.StatusTooManyRequests, "TooManyRequestsException"
		body = map[string]string{"Reason": "ConcurrentInvocationLimitExceeded", "Type": "User", "message": "Rate Exceeded."}
	case errors.Is(err, ErrTooLarge):
		status, errorType = http.StatusRequestEntityTooLarge, "RequestTooLargeException"
		body = map[string]string{"Type": "User", "message": fmt.Sprintf("Request must be smaller than %d bytes for the InvokeFunction operation", maxPayload)}
	case errors.Is(err, errUnread):
		status = http.StatusBadRequest
		body = map[string]string{"message": "Bad Request"}
	case errors.Is(err, ErrClosed):
		status = http.StatusServiceUnavailable
		body = map[string]string{"message": "Service Unavailable"}
	default:
		firstLine, _, _ := strings.Cut(err.Error(), "\n") // a failed init has logged its last output already
		f.logf("RequestId: %s 502: %s", id, firstLine)
	}
	if errorType != "" {
		w.Header().Set("X-Amzn-Errortype", errorType)
	}
	reply(w, status, body)
}

// urlEvent is payload format 2.0 with the fields in AWS's order.
type urlEvent struct {
	Version               string            `json:"version"`
	RouteKey              string            `json:"routeKey"`
	RawPath               string            `json:"rawPath"`
	RawQueryString        string            `json:"rawQueryString"`
	Cookies               []string          `json:"cookies,omitempty"`
	Headers               map[string]string `json:"headers"`
	QueryStringParameters map[string]string `json:"queryStringParameters,omitempty"`
	RequestContext        requestContext    `json:"requestContext"`
	Body                  string            `json:"body,omitempty"`
	IsBase64Encoded       bool              `json:"isBase64Encoded"`
}

type requestContext struct {
	AccountID    string      `json:"accountId"`
	APIID        string      `json:"apiId"`
	DomainName   string      `json:"domainName"`
	DomainPrefix string      `json:"domainPrefix"`
	HTTP         httpContext `json:"http"`
	RequestID    string      `json:"requestId"`
	RouteKey     string      `json:"routeKey"`
	Stage        string      `json:"stage"`
	Time         string      `json:"time"`
	TimeEpoch    int64       `json:"timeEpoch"`
}

type httpContext struct {
	Method    string `json:"method"`
	Path      string `json:"path"`
	Protocol  string `json:"protocol"`
	SourceIP  string `json:"sourceIp"`
	UserAgent string `json:"userAgent"`
}

// event makes the event of a request, as recorded from a deployed function (aws-lambda-go, lambdaurl/testdata).
func (f *Front) event(r *http.Request, id, trace string) ([]byte, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	sourceIP, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		sourceIP = r.RemoteAddr
	}
	now := time.Now().UTC()
	path := r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	host, _, _ := strings.Cut(r.Host, ".")
	event := urlEvent{
		Version:               "2.0",
		RouteKey:              "$default",
		RawPath:               path,
		RawQueryString:        r.URL.RawQuery,
		Cookies:               cookies(r.Header),
		Headers:               eventHeaders(r, len(body), sourceIP, trace),
		QueryStringParameters: queryParameters(r),
		RequestContext: requestContext{
			AccountID:    "anonymous",
			APIID:        f.fn.Name,
			DomainName:   r.Host,
			DomainPrefix: host,
			HTTP: httpContext{
				Method: r.Method, Path: path, Protocol: r.Proto, SourceIP: sourceIP, UserAgent: r.UserAgent(),
			},
			RequestID: id,
			RouteKey:  "$default",
			Stage:     "$default",
			Time:      now.Format("02/Jan/2006:15:04:05 -0700"),
			TimeEpoch: now.UnixMilli(),
		},
	}
	if len(body) > 0 {
		if isText(r.Header.Get("Content-Type")) {
			event.Body = string(body)
		} else {
			event.Body, event.IsBase64Encoded = base64.StdEncoding.EncodeToString(body), true
		}
	}
	return encodeEvent(event)
}

func encodeEvent(event urlEvent) ([]byte, error) {
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false) // six bytes for a "<" would count against the limit
	if err := encoder.Encode(event); err != nil {
		return nil, fmt.Errorf("encoding event: %w", err)
	}
	if encoded.Len() > maxPayload {
		return nil, ErrTooLarge
	}
	return bytes.TrimSuffix(encoded.Bytes(), []byte("\n")), nil
}

func readBody(r *http.Request) ([]byte, error) {
	if r.ContentLength > maxPayload {
		return nil, ErrTooLarge
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxPayload+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnread, err)
	}
	if len(body) > maxPayload {
		return nil, ErrTooLarge
	}
	return body, nil
}

// isText says which bodies a function URL passes on as they are; all others, and those without a type, are base64. AWS
// lists no types. These were found with an HTTP API, whose payload format 2.0 is the same, also that a form is base64
// (https://github.com/ministackorg/ministack/pull/766, 2026-06).
func isText(contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	switch mediaType {
	case "application/json", "application/xml", "application/javascript":
		return true
	}
	return strings.HasPrefix(mediaType, "text/")
}

// hopByHop are the request headers that end at the platform.
var hopByHop = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true, "Expect": true,
}

func eventHeaders(r *http.Request, bodyLength int, sourceIP, trace string) map[string]string {
	headers := make(map[string]string, len(r.Header)+6)
	for name, values := range r.Header {
		if !hopByHop[name] {
			headers[strings.ToLower(name)] = strings.Join(values, ",")
		}
	}
	if values := r.Header["Cookie"]; len(values) > 1 {
		headers["cookie"] = strings.Join(values, "; ")
	}
	if bodyLength > 0 {
		headers["content-length"] = strconv.Itoa(bodyLength)
	}
	if forwarded := headers["x-forwarded-for"]; forwarded != "" {
		sourceIP = forwarded + "," + sourceIP
	}
	headers["host"] = r.Host
	headers["x-amzn-trace-id"] = trace
	headers["x-forwarded-for"] = sourceIP
	headers["x-forwarded-proto"] = "http"
	if r.TLS != nil {
		headers["x-forwarded-proto"] = "https"
	}
	if port := localPort(r.Context()); port != "" {
		headers["x-forwarded-port"] = port
	}
	return headers
}

func localPort(ctx context.Context) string {
	addr, ok := ctx.Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return ""
	}
	_, port, _ := net.SplitHostPort(addr.String())
	return port
}

// cookies splits the Cookie headers into their pairs; the header itself stays in the event too.
func cookies(header http.Header) []string {
	var pairs []string
	for _, line := range header["Cookie"] {
		for pair := range strings.SplitSeq(line, ";") {
			if pair = strings.TrimSpace(pair); pair != "" {
				pairs = append(pairs, pair)
			}
		}
	}
	return pairs
}

func queryParameters(r *http.Request) map[string]string {
	query := r.URL.Query()
	parameters := make(map[string]string, len(query))
	for name, values := range query {
		parameters[name] = strings.Join(values, ",")
	}
	return parameters
}
