// A process that speaks the Runtime API by itself and misbehaves as BEHAVIOUR says.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

var (
	api  = os.Getenv("AWS_LAMBDA_RUNTIME_API")
	base = "http://" + api + "/2018-06-01/runtime"
)

const integration = "application/vnd.awslambda.http-integration-response"

func main() {
	// A stopped process group that loses its parent is sent SIGHUP by the kernel: not what the tests are about.
	signal.Ignore(syscall.SIGHUP)

	switch behaviour := os.Getenv("BEHAVIOUR"); behaviour {
	case "exit at init":
		fmt.Fprintln(os.Stderr, "no such table: jobs")
		os.Exit(3)
	case "report at init":
		fmt.Fprintln(os.Stderr, "reporting")
		post("/init/error", `{"errorType":"Config.Bad","errorMessage":"two routes are called a"}`)
		stay()
	case "never ready":
		stay()
	case "outlive":
		if resp, err := http.Get(base + "/invocation/next"); err == nil {
			resp.Body.Close()
		}
		stay()
	case "break the protocol":
		breakProtocol()
	default:
		for {
			id, event := next()
			answer(behaviour, id, event)
		}
	}
}

func answer(behaviour, id string, event []byte) {
	switch path := "/invocation/" + id + "/response"; behaviour {
	case "echo":
		post(path, string(event))
	case "no separator":
		post(path, `{"statusCode":200}`, "Content-Type", integration)
	case "endless prelude":
		post(path, `{"statusCode":200,"x":"`+strings.Repeat("x", 17<<10)+`"}`+nuls+"body", "Content-Type", integration)
	case "prelude is not JSON":
		post(path, `statusCode=200`+nuls+"body", "Content-Type", integration)
	case "informational status":
		post(path, `{"statusCode":103}`+nuls+"body", "Content-Type", integration)
	case "empty body":
		post(path, `{"statusCode":204}`+nuls, "Content-Type", integration)
	case "empty body of no integration response":
		post(path, "", "Content-Type", "text/x-plain")
	case "headers of the connection":
		post(path, `{"statusCode":200,"headers":{"Keep-Alive":"timeout=5","connection":"close","X-A":"1"}}`+nuls+"body", "Content-Type", integration)
	case "a length":
		post(path, `{"statusCode":200,"headers":{"content-length":"4"}}`+nuls+"body", "Content-Type", integration)
	case "byte by byte":
		post(path, `{"statusCode":201}`+nuls+"a\x00\x00b", "Content-Type", integration, "One-By-One", "yes")
	case "say streaming":
		post(path, `{"statusCode":202}`+nuls+"streamed", "Content-Type", integration, "Lambda-Runtime-Function-Response-Mode", "streaming")
	case "plain":
		post(path, "just bytes", "Content-Type", "text/x-plain")
	case "report":
		post("/invocation/"+id+"/error", "not JSON", "Lambda-Runtime-Function-Error-Type", "Function.Odd")
	case "break off":
		breakOff(path)
	default:
		log.Fatalf("no such behaviour: %q", behaviour)
	}
}

const nuls = "\x00\x00\x00\x00\x00\x00\x00\x00"

// breakProtocol makes one wrong call after the other while it serves the first event, and answers their statuses to
// the second.
func breakProtocol() {
	var statuses []string
	note := func(call string, status int) { statuses = append(statuses, fmt.Sprintf("%s: %d", call, status)) }

	note("a response before any event", post("/invocation/none/response", "x"))
	id, event := next()
	response := "/invocation/" + id + "/response"
	note("an init error after init", post("/init/error", "{}"))
	note("another id", post("/invocation/another/response", "x"))
	note("an odd response mode", post(response, "x", "Lambda-Runtime-Function-Response-Mode", "buffered"))
	note("an unknown path", post("/invocation", "x"))
	if again, same := next(); again == id && bytes.Equal(event, same) {
		statuses = append(statuses, "next without an answer: the same event")
	}
	note("the response", post(response, `"first"`))
	note("a second response", post(response, "x"))
	note("an error after the response", post("/invocation/"+id+"/error", "{}"))
	note("a late extension", call("http://"+api+"/2020-01-01/extension/register", strings.NewReader(`{}`), "Lambda-Extension-Name", "late"))

	second, _ := next()
	note("a response to the event before", post(response, "x"))
	all, _ := json.Marshal(statuses)
	post("/invocation/"+second+"/response", string(all))
	next()
}

// breakOff sends the beginning of a response, closes the connection and lives on.
func breakOff(path string) {
	conn, err := net.Dial("tcp", api)
	if err != nil {
		log.Fatal(err)
	}
	head := "{}" + nuls + "partial\n"
	fmt.Fprintf(conn, "POST /2018-06-01/runtime%s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n",
		path, api, integration, len(head), head)
	conn.Close()
	stay()
}

// stay is not select {}, which the Go runtime ends as a deadlock.
func stay() {
	for {
		time.Sleep(time.Hour)
	}
}

func next() (id string, event []byte) {
	resp, err := http.Get(base + "/invocation/next")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	if event, err = io.ReadAll(resp.Body); err != nil {
		log.Fatal(err)
	}
	return resp.Header.Get("Lambda-Runtime-Aws-Request-Id"), event
}

func post(path, body string, header ...string) int {
	return call(base+path, strings.NewReader(body), header...)
}

func call(url string, body io.Reader, header ...string) int {
	req, err := http.NewRequest(http.MethodPost, url, body)
	if err != nil {
		log.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if req.Header.Get("One-By-One") != "" {
		req.Body, req.ContentLength = io.NopCloser(oneByOne{body}), -1
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

type oneByOne struct{ r io.Reader }

func (o oneByOne) Read(p []byte) (int, error) { return o.r.Read(p[:1]) }
