// Command upstream is a provider that answers at once with what package answer holds, in the wire format that it is asked in. It listens on a port of its own
// choice, writes its address as its first line, and ends when its standard input does. With -proxy it is instead the least
// that can stand between a client and a provider: net/http's reverse proxy.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"

	"spillway/internal/simulate/bench/answer"
)

func main() {
	proxied := flag.String("proxy", "", "address of the upstream to pass requests on to; empty: answer them")
	flag.Parse()
	if err := run(*proxied); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

func run(proxied string) error {
	handler := http.Handler(http.HandlerFunc(serve))
	if proxied != "" {
		target, err := url.Parse(proxied)
		if err != nil {
			return fmt.Errorf("parsing the proxied address: %w", err)
		}
		handler = proxy(target)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	fmt.Println("http://" + listener.Addr().String())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return http.Serve(listener, handler) //nolint:gosec // loopback only, and no longer than its parent
}

// proxy reads a request whole before it passes it on: net/http's server closes the body when the answer begins, and the
// transport, if it has not yet seen the body's end by then, breaks the connection off.
func proxy(target *url.URL) http.Handler {
	onward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
		FlushInterval: -1,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, err := io.ReadAll(r.Body)
		if err != nil {
			return // nobody is there
		}
		r.Body = io.NopCloser(bytes.NewReader(request))
		onward.ServeHTTP(w, r)
	})
}

func serve(w http.ResponseWriter, r *http.Request) {
	request, err := io.ReadAll(r.Body)
	if err != nil {
		return // nobody is there
	}
	format := answer.Of(r.URL.Path)
	if !answer.Streams(request) && !strings.Contains(r.URL.Path, ":stream") {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(format.Plain)))
		_, _ = w.Write(format.Plain)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	flush := http.NewResponseController(w)
	_ = format.Stream(request, func(frame []byte) error { // fails when the caller leaves
		if _, err := w.Write(frame); err != nil {
			return err
		}
		return flush.Flush()
	})
}
