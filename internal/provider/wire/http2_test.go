package wire_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/fault"
	"spillway/internal/provider/wire"
	"spillway/internal/simulate"
)

var quiet = log.New(io.Discard, "", 0)

// secure starts a TLS server that speaks HTTP/2 and returns a client that trusts it.
func secure(t *testing.T, h http.HandlerFunc) (*wire.Client, *url.URL) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = quiet
	s.StartTLS()
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	require.NoError(t, err)
	c := &wire.Client{}
	c.Trust(u, s.Certificate())
	t.Cleanup(c.Close)
	return c, u
}

func TestHTTP2(t *testing.T) {
	var requests atomic.Int32
	both := make(chan struct{})
	c, u := secure(t, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 2 {
			close(both)
		}
		body, _ := io.ReadAll(r.Body) // compared by the client
		<-both                        // two calls share the connection at one time
		_, _ = w.Write([]byte(r.Proto + " " + r.RemoteAddr + " " + string(body)))
	})
	answers := make([]string, 2)
	var calls sync.WaitGroup
	for i := range answers {
		calls.Go(func() { answers[i] = do(t, c, post(u)) })
	}
	calls.Wait()
	assert.Regexp(t, `^HTTP/2\.0 .* \{"a":1\}$`, answers[0])
	assert.Equal(t, answers[0], answers[1], "both on one connection")
	assert.EqualValues(t, 2, requests.Load())
}

func TestAQuestionWithoutABodyOverHTTP2(t *testing.T) {
	c, u := secure(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %d", r.Proto, r.ContentLength)
	})
	for range 2 {
		assert.Equal(t, "HTTP/2.0 0", do(t, c, wire.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}), "it ends with its headers")
	}
}

func TestAnHTTP2StreamThatIsResetIsNotSentAgain(t *testing.T) {
	var requests atomic.Int32
	c, u := secure(t, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) > 1 {
			panic(http.ErrAbortHandler)
		}
	})
	do(t, c, post(u))
	_, o := c.Do(t.Context(), post(u))
	require.NotNil(t, o)
	assert.Equal(t, fault.Broken, o.Local)
	assert.Equal(t, fault.PhaseSent, o.Phase)
	assert.True(t, o.Sent)
	assert.True(t, o.Reused)
	assert.EqualValues(t, 2, requests.Load())
}

// hole is a connection that can go silent: what is written is lost, and nothing comes.
type hole struct {
	net.Conn
	silent atomic.Bool
	closed chan struct{}
	once   sync.Once
}

func (h *hole) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	if h.silent.Load() {
		<-h.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (h *hole) Write(p []byte) (int, error) {
	if h.silent.Load() {
		return len(p), nil
	}
	return h.Conn.Write(p)
}

func (h *hole) Close() error {
	h.once.Do(func() { close(h.closed) })
	return h.Conn.Close()
}

// A connection that was cut while the environment was frozen gives no sign; a ping finds out.
func TestAnHTTP2ConnectionThatWentSilentIsGivenUp(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	cert := certified.TLS.Certificates[0]
	root := certified.Certificate()
	certified.Close()
	synctest.Test(t, func(t *testing.T) {
		l := simulate.NewPipeListener()
		server := &http.Server{ErrorLog: quiet, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.Proto)
		})}
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
		served := make(chan error)
		go func() { served <- server.ServeTLS(l, "", "") }()
		var last *hole
		c := &wire.Client{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := l.Dial(ctx)
			last = &hole{Conn: conn, closed: make(chan struct{})}
			return last, err
		}}
		u := &url.URL{Scheme: "https", Host: "example.com"} // the name in the certificate
		c.Trust(u, root)
		require.Equal(t, "HTTP/2.0", do(t, c, post(u)))

		last.silent.Store(true)
		began := time.Now()
		_, o := c.Do(t.Context(), post(u))
		require.NotNil(t, o)
		assert.Equal(t, fault.Broken, o.Local)
		assert.True(t, o.Reused)
		assert.Equal(t, 7*time.Second, time.Since(began), "5 s of silence, 2 s for the answer to a ping")
		assert.Equal(t, "HTTP/2.0", do(t, c, post(u)), "the next call has a connection of its own")

		c.Close()
		_ = server.Close()
		assert.ErrorIs(t, <-served, http.ErrServerClosed)
	})
}
