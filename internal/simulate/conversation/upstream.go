package conversation

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"spillway/internal/provider"
	"spillway/internal/provider/wire"
	"spillway/internal/simulate"
)

// Reply is what a provider replies. Cut breaks the connection after the body.
type Reply struct {
	Status int
	Header http.Header
	Body   string
	Cut    bool
}

// Upstream is a provider that gives its reply to every call and remembers the calls.
type Upstream struct {
	Reply Reply
	Calls []*http.Request
	Body  []byte
}

func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.Calls = append(u.Calls, r)
	u.Body, _ = io.ReadAll(r.Body) // a test that needs it compares it
	for name, values := range u.Reply.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(u.Reply.Status)
	_, _ = io.WriteString(w, u.Reply.Body)
	if u.Reply.Cut {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// behind is a client that reaches the provider.
func (u *Upstream) behind(t testing.TB) *wire.Client { return Serve(t, u) }

// Serve puts a handler behind an in-memory listener until the test ends, and returns the client that reaches it.
func Serve(t testing.TB, h http.Handler) *wire.Client {
	t.Helper()
	l := simulate.NewPipeListener()
	server := &http.Server{Handler: h}
	served := make(chan error)
	go func() { served <- server.Serve(l) }()
	client := &wire.Client{Dial: l.DialContext}
	t.Cleanup(func() {
		client.Close()
		_ = server.Close()
		assert.ErrorIs(t, <-served, http.ErrServerClosed)
	})
	return client
}

// Replay decodes a reply that arrives in the pieces that cut gives: how much of the rest comes next, at least 1 byte.
func (a Adapter) Replay(t testing.TB, r Reply, c provider.Call, cut func(rest int) int) Outcome {
	t.Helper()
	s := &script{cut: cut, rest: r.raw(), asked: make(chan struct{}), over: make(chan struct{})}
	client := &wire.Client{Dial: func(context.Context, string, string) (net.Conn, error) { return s, nil }}
	defer client.Close()
	return Follow(t, a.New(client), c)
}

// script is a connection whose far end has its whole answer ready: it is read in the pieces that cut gives, and then ends.
type script struct {
	cut  func(rest int) int
	rest string

	asked chan struct{} // closed by the first write
	ask   sync.Once
	over  chan struct{}
	end   sync.Once
}

func (s *script) Read(p []byte) (int, error) {
	select {
	case <-s.asked: // an answer before the request would be refused as unasked
	case <-s.over:
		return 0, net.ErrClosed
	}
	if s.rest == "" {
		return 0, io.EOF
	}
	n := copy(p, s.rest[:min(s.cut(len(s.rest)), len(s.rest))])
	s.rest = s.rest[n:]
	return n, nil
}

func (s *script) Write(p []byte) (int, error) {
	s.ask.Do(func() { close(s.asked) })
	return len(p), nil
}

func (s *script) Close() error {
	s.end.Do(func() { close(s.over) })
	return nil
}

func (*script) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (*script) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
func (*script) SetDeadline(time.Time) error      { return nil }
func (*script) SetReadDeadline(time.Time) error  { return nil }
func (*script) SetWriteDeadline(time.Time) error { return nil }

// raw is a reply as it crosses the wire.
func (r Reply) raw() string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nConnection: close\r\n", r.Status, http.StatusText(r.Status))
	_ = r.Header.Write(&b) // a Builder never fails
	if r.Cut {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(r.Body)+1)
	}
	return b.String() + "\r\n" + r.Body
}
