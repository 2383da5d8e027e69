package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/sivchari/kumo"

	"spillway/internal/runtimeapi"
)

// An emulator is the embedded emulator, behind what makes it keep the traces of messages: without them a loop that Lambda
// would stop goes on here for ever.
type emulator struct {
	url       string
	kumo      *kumo.Server
	server    *http.Server
	transport *http.Transport
	serving   sync.WaitGroup
}

func startEmulator() (*emulator, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the callers of AWS: %w", err)
	}
	e := &emulator{url: "http://" + listener.Addr().String(), kumo: kumo.NewServer(), transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	to, err := url.Parse(e.kumo.URL)
	if err != nil {
		e.kumo.Close()
		return nil, fmt.Errorf("reaching the emulator: %w", err)
	}
	proxy := &httputil.ReverseProxy{Transport: e.transport, ErrorHandler: cutOff, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
	}}
	e.server = &http.Server{Handler: runtimeapi.KeepTraces(proxy), ReadHeaderTimeout: 30 * time.Second}
	e.serving.Go(func() { _ = e.server.Serve(listener) }) // ends with close
	return e, nil
}

// cutOff ends a call that got no answer. Who has left, as every poll of a queue does at the end, is nothing to be told of.
func cutOff(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }

func (e *emulator) close() {
	_ = e.server.Close() // the connections are to this machine's own functions, which have ended
	e.serving.Wait()
	e.transport.CloseIdleConnections()
	e.kumo.Close()
}
