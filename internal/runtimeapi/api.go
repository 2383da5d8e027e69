package runtimeapi

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
)

const (
	runtimePath   = "/2018-06-01/runtime"
	extensionPath = "/2020-01-01/extension"

	headerErrorType = "Lambda-Runtime-Function-Error-Type"
	headerErrorBody = "Lambda-Runtime-Function-Error-Body" // trailer only; base64
)

// routes is the Runtime API, and of the Extensions API what a process needs to be sent SIGTERM.
func (e *environment) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+runtimePath+"/invocation/next", e.next)
	mux.HandleFunc("POST "+runtimePath+"/invocation/{id}/response", e.response)
	mux.HandleFunc("POST "+runtimePath+"/invocation/{id}/error", e.failure)
	mux.HandleFunc("POST "+runtimePath+"/init/error", e.initFailed)
	mux.HandleFunc("POST "+extensionPath+"/register", e.register)
	mux.HandleFunc("GET "+extensionPath+"/event/next", e.extensionNext)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !e.enter() {
			panic(http.ErrAbortHandler)
		}
		defer e.calls.Done()
		mux.ServeHTTP(w, r)
	})
}

func (e *environment) enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.calls.Add(1)
	return true
}

// next ends the invocation under way, if it is answered, and waits for an event. An event that is out and not
// answered is handed out again, as in the emulator: the process may have lost the first reply.
func (e *environment) next(w http.ResponseWriter, r *http.Request) {
	inv, parked, err := e.park()
	if err != "" {
		refuse(w, http.StatusForbidden, "InvalidStateTransition", err)
		return
	}
	if inv == nil {
		select {
		case inv = <-parked:
		case <-e.gone:
			panic(http.ErrAbortHandler)
		case <-r.Context().Done():
			// An event that comes at this moment stays current: the process gets it by its next `next`.
			panic(http.ErrAbortHandler)
		}
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(inv.event)))
	header.Set("Lambda-Runtime-Aws-Request-Id", inv.id)
	header.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(inv.deadline.UnixMilli(), 10))
	header.Set("Lambda-Runtime-Invoked-Function-Arn", e.front.fn.arn())
	header.Set("Lambda-Runtime-Trace-Id", inv.trace)
	_, _ = w.Write(inv.event)
}

// park returns the current event or a channel that brings the next one.
func (e *environment) park() (current *invocation, parked <-chan *invocation, refusal string) {
	e.mu.Lock()
	if e.phase == running {
		defer e.mu.Unlock()
		return e.current, nil, ""
	}
	if e.phase == answering || e.initError != "" || e.reason != "" {
		defer e.mu.Unlock()
		return nil, nil, "next is not allowed while an answer is on its way or after a failure"
	}
	waiting := make(chan *invocation, 1)
	e.parked = waiting
	was, finished := e.phase, e.current
	e.phase, e.current = idle, nil
	if was == answered {
		e.served++
		e.deadline.Stop()
	}
	e.mu.Unlock()

	switch was {
	case starting:
		close(e.ready)
	case answered:
		e.rest()
		finished.end()
	}
	return nil, waiting, ""
}

// claim admits one answer to the event that is out.
func (e *environment) claim(w http.ResponseWriter, id string) *invocation {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.current == nil || e.current.id != id:
		refuse(w, http.StatusBadRequest, "InvalidRequestID", "Invalid request ID")
	case e.phase != running:
		refuse(w, http.StatusForbidden, "InvalidStateTransition", "the invocation is answered already, or past its deadline")
	default:
		e.phase = answering
		return e.current
	}
	return nil
}

func (e *environment) response(w http.ResponseWriter, r *http.Request) {
	if mode := r.Header.Get("Lambda-Runtime-Function-Response-Mode"); mode != "" && mode != "streaming" {
		refuse(w, http.StatusBadRequest, "Runtime.InvalidResponseModeHeader", "Invalid response mode header")
		return
	}
	inv := e.claim(w, r.PathValue("id"))
	if inv == nil {
		return
	}
	// At the deadline reading fails, and with it the client's stream ends, whatever the process does by then.
	_ = http.NewResponseController(w).SetReadDeadline(inv.deadline)
	err := inv.answer.receive(r)
	if errors.Is(err, errCut) {
		e.breakOff(inv, err)
		panic(http.ErrAbortHandler)
	}
	e.settled(inv, err)
	if isTooLarge(err) {
		refuse(w, http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", err.Error())
		return
	}
	accept(w)
}

// breakOff ends an environment whose answer stopped in the middle: by its deadline, its death, or a process that lives
// on after closing the connection, which Lambda does not use again either.
func (e *environment) breakOff(inv *invocation, err error) {
	e.front.retire(e)
	late := errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(inv.deadline)
	switch {
	case late:
		err = e.timeout() // expire does the rest
	case e.front.isClosed():
		err = ErrClosed
	default:
		err = &FunctionError{Type: "Runtime.TruncatedResponse", Message: err.Error()}
		e.kill()
	}
	e.settled(inv, err)
}

// settled notes that the answer has arrived, good or bad, and wakes whoever waits for it.
func (e *environment) settled(inv *invocation, err error) {
	e.mu.Lock()
	e.phase = answered
	if e.closed {
		e.deadline.Stop()
	}
	e.mu.Unlock()
	inv.done <- err
}

// failure takes the function's report that it failed.
func (e *environment) failure(w http.ResponseWriter, r *http.Request) {
	inv := e.claim(w, r.PathValue("id"))
	if inv == nil {
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(inv.deadline)
	report, err := readReport(r)
	if err != nil {
		e.breakOff(inv, err)
		panic(http.ErrAbortHandler)
	}
	e.settled(inv, functionError(r.Header.Get(headerErrorType), report))
	accept(w)
}

// initFailed takes the report of a process that cannot start. It is expected to exit, and ended if it does not.
func (e *environment) initFailed(w http.ResponseWriter, r *http.Request) {
	report, err := readReport(r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.phase != starting || e.initError != "" {
		refuse(w, http.StatusForbidden, "InvalidStateTransition", "the init is over")
		return
	}
	e.initError = functionError(r.Header.Get(headerErrorType), report).Error()
	if e.killer == nil {
		e.killer = time.AfterFunc(killGrace, e.kill)
	}
	accept(w)
}

// readReport reads an error report to its end and keeps the first 256 KB.
func readReport(r *http.Request) ([]byte, error) {
	report, err := io.ReadAll(io.LimitReader(r.Body, 256<<10))
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body)
	}
	if err != nil {
		return nil, cut(err)
	}
	return report, nil
}

// functionError reads a report in Lambda's format. One that is not JSON is kept as the message.
func functionError(errorType string, report []byte) *FunctionError {
	var fields struct {
		Type    string `json:"errorType"`
		Message string `json:"errorMessage"`
	}
	failure := &FunctionError{Type: errorType, Payload: report}
	if err := json.Unmarshal(report, &fields); err != nil {
		fields.Message = string(report)
	}
	failure.Message = fields.Message
	if fields.Type != "" {
		failure.Type = fields.Type
	}
	if failure.Type == "" {
		failure.Type = "Runtime.Unknown"
	}
	return failure
}

// trailerError is the error a streaming function reported after its last byte, or nil.
func trailerError(trailer http.Header) error {
	errorType, body := trailer.Get(headerErrorType), trailer.Get(headerErrorBody)
	if errorType == "" && body == "" {
		return nil
	}
	report, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		report = []byte(body)
	}
	return functionError(errorType, report)
}

// register admits one internal extension without events: what lambda.WithEnableSIGTERM registers. Extensions that
// wait for INVOKE or SHUTDOWN events are refused, for none would come.
func (e *environment) register(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Events []string `json:"events"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, 64<<10)).Decode(&body); err != nil || r.Header.Get("Lambda-Extension-Name") == "" {
		refuse(w, http.StatusBadRequest, "Extension.InvalidRequest", "a name and a JSON body are required")
		return
	}
	if len(body.Events) > 0 {
		refuse(w, http.StatusForbidden, "Extension.NotSupported", "extension events are not delivered here")
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.phase != starting || e.extension != "" {
		refuse(w, http.StatusForbidden, "Extension.RegistrationClosed", "an extension registers once, during init")
		return
	}
	e.extension = newID()
	w.Header().Set("Lambda-Extension-Identifier", e.extension)
	reply(w, http.StatusOK, map[string]string{
		"functionName": e.front.fn.Name, "functionVersion": version, "handler": "bootstrap",
	})
}

// extensionNext waits for an event, and as none was subscribed to, for the end of the process.
func (e *environment) extensionNext(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	known := e.extension != "" && r.Header.Get("Lambda-Extension-Identifier") == e.extension
	e.mu.Unlock()
	if !known {
		refuse(w, http.StatusForbidden, "Extension.UnknownExtensionIdentifier", "unknown extension")
		return
	}
	select {
	case <-e.gone:
	case <-r.Context().Done():
	}
	panic(http.ErrAbortHandler)
}

func accept(w http.ResponseWriter) { reply(w, http.StatusAccepted, map[string]string{"status": "OK"}) }

func refuse(w http.ResponseWriter, status int, errorType, message string) {
	reply(w, status, map[string]string{"errorMessage": message, "errorType": errorType})
}

func reply(w http.ResponseWriter, status int, body map[string]string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
