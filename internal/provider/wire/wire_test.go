package wire_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/fault"
	"spillway/internal/provider/wire"
	"spillway/internal/simulate"
)

// origin is the address of every server here; Dial leads it elsewhere.
var origin = &url.URL{Scheme: "http", Host: "provider.test", Path: "/v1/chat/completions"}

func post(u *url.URL) wire.Request {
	return wire.Request{Method: http.MethodPost, URL: u, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"a":1}`)}
}

// peer is a far end written by hand: it answers each request of each connection by a function, and counts both.
type peer struct {
	listener *simulate.PipeListener
	conns    atomic.Int32
	requests atomic.Int32
	done     sync.WaitGroup
}

// answer is what a peer does with a request. It returns false to close the connection.
type answer func(conn net.Conn, nthOfConn int, r *http.Request) bool

func newPeer(t *testing.T, a answer) *peer {
	t.Helper()
	p := &peer{listener: simulate.NewPipeListener()}
	p.done.Go(func() {
		for {
			conn, err := p.listener.Accept()
			if err != nil {
				return
			}
			p.conns.Add(1)
			p.done.Go(func() { p.serve(conn, a) })
		}
	})
	return p
}

func (p *peer) serve(conn net.Conn, a answer) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for n := 1; ; n++ {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		p.requests.Add(1)
		if !a(conn, n, req) {
			return
		}
	}
}

// client returns a client of the peer; both end with the test.
func (p *peer) client(t *testing.T) *wire.Client {
	t.Helper()
	c := &wire.Client{Dial: p.listener.DialContext}
	t.Cleanup(func() {
		c.Close()
		_ = p.listener.Close()
		p.done.Wait()
	})
	return c
}

const fine = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func say(conn net.Conn, text string) bool {
	_, err := io.WriteString(conn, text)
	return err == nil
}

// do makes a call that must succeed and reads its body.
func do(t *testing.T, c *wire.Client, r wire.Request) string {
	t.Helper()
	x, o := c.Do(t.Context(), r)
	require.Nil(t, o)
	defer x.Body.Close()
	body, err := io.ReadAll(x.Body)
	require.NoError(t, err)
	return string(body)
}

func TestADyingConnectionIsReportedAndNothingIsSentAgain(t *testing.T) {
	tests := map[string]struct {
		second string // what the far end says to the second request of a connection before it closes
		fresh  bool   // the call asks for a new connection, where all is well
		method string
		want   *fault.Observation // nil: answered
		sent   int32
	}{
		"a kept connection dies before a byte of the answer": {"", false, http.MethodPost,
			&fault.Observation{Local: fault.Broken, Phase: fault.PhaseSent, Sent: true, Reused: true}, 2},
		"a kept connection dies inside the headers": {"HTTP/1.1 200 OK\r\nContent-", false, http.MethodPost,
			&fault.Observation{Local: fault.Broken, Phase: fault.PhaseHeaders, Sent: true, Reused: true}, 2},
		"a method that Go thinks safe is not sent again either": {"", false, http.MethodGet,
			&fault.Observation{Local: fault.Broken, Phase: fault.PhaseSent, Sent: true, Reused: true}, 2},
		"a kept connection speaks another language": {"SSH-2.0-OpenSSH_9.9\r\n", false, http.MethodPost,
			&fault.Observation{Local: fault.Broken, Phase: fault.PhaseHeaders, Sent: true, Reused: true}, 2},
		"headers beyond all measure": {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 100<<10) + "\r\n\r\n", false, http.MethodPost,
			&fault.Observation{Local: fault.Broken, Phase: fault.PhaseHeaders, Sent: true, Reused: true}, 2},
		"a call that asks for a new connection gets one": {"", true, http.MethodPost, nil, 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, func(conn net.Conn, n int, _ *http.Request) bool {
				if n > 1 {
					say(conn, tt.second)
					return false
				}
				return say(conn, fine)
			})
			c := p.client(t)
			r := post(origin)
			r.Method = tt.method
			assert.Equal(t, "ok", do(t, c, r))
			r.Fresh = tt.fresh
			x, o := c.Do(t.Context(), r)
			if tt.want == nil {
				require.Nil(t, o)
				assert.False(t, x.Answered().Reused)
				_ = x.Body.Close()
				assert.EqualValues(t, 2, p.conns.Load())
			} else {
				require.NotNil(t, o)
				require.Error(t, o.Cause)
				assert.NotErrorIs(t, o.Cause, io.EOF, "it would pass for the end of a whole answer")
				o.Cause = nil
				assert.Equal(t, tt.want, o)
				assert.Equal(t, tt.second == "", fault.Default().Classify(*o).Stale(), "only a connection that died without a word is old")
			}
			assert.Equal(t, tt.sent, p.requests.Load(), "requests on the wire")
		})
	}
}

// TestAQuestionWithoutABodyIsNotSentAgain: what Go would send again by itself, where the connection is an old one.
func TestAQuestionWithoutABodyIsNotSentAgain(t *testing.T) {
	p := newPeer(t, func(conn net.Conn, _ int, r *http.Request) bool {
		assert.Empty(t, r.TransferEncoding)
		return r.URL.Path != "/dies" && say(conn, fine)
	})
	c := p.client(t)
	assert.Equal(t, "ok", do(t, c, post(origin)))
	ask := wire.Request{Method: http.MethodGet, URL: origin, Header: http.Header{}}
	assert.Equal(t, "ok", do(t, c, ask))

	dies := *origin
	dies.Path = "/dies"
	ask.URL = &dies
	_, o := c.Do(t.Context(), ask)
	require.NotNil(t, o)
	assert.Equal(t, fault.Broken, o.Local)
	assert.False(t, o.Reused)
	assert.EqualValues(t, 3, p.requests.Load(), "requests on the wire")
	assert.EqualValues(t, 3, p.conns.Load(), "each question has its own connection")
	assert.Equal(t, "ok", do(t, c, post(origin)))
	assert.EqualValues(t, 3, p.conns.Load(), "and leaves the others' alone")
}

func TestANewConnectionThatDiesIsNotCalledOld(t *testing.T) {
	p := newPeer(t, func(net.Conn, int, *http.Request) bool { return false })
	_, o := p.client(t).Do(t.Context(), post(origin))
	require.NotNil(t, o)
	assert.Equal(t, fault.Broken, o.Local)
	assert.Equal(t, fault.PhaseSent, o.Phase)
	assert.True(t, o.Sent)
	assert.False(t, o.Reused)
	assert.EqualValues(t, 1, p.requests.Load())
}

func TestABodyThatBreaksOffIsReportedWhereItWas(t *testing.T) {
	p := newPeer(t, func(conn net.Conn, _ int, _ *http.Request) bool {
		say(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
		return false
	})
	x, o := p.client(t).Do(t.Context(), post(origin))
	require.Nil(t, o)
	defer x.Body.Close()
	_, err := io.ReadAll(x.Body)
	require.Error(t, err)
	got := x.Broken(err, fault.PhasePostContent)
	assert.Equal(t, fault.Observation{Local: fault.Broken, Status: 200, Phase: fault.PhasePostContent, Sent: true, Cause: err}, got)
	assert.EqualValues(t, 1, p.requests.Load())
}

func TestOnlyWhatWasAskedForGoesOut(t *testing.T) {
	var got *http.Request
	p := newPeer(t, func(conn net.Conn, _ int, r *http.Request) bool { got = r; return say(conn, fine) })
	do(t, p.client(t), post(origin))
	// No Idempotency-Key, with which Go would send a request again by itself, and no wish for compression.
	assert.Equal(t, http.Header{"Content-Type": {"application/json"}, "Content-Length": {"7"}, "User-Agent": got.Header["User-Agent"]}, got.Header)
	assert.Equal(t, "provider.test", got.Host)
	assert.Equal(t, "/v1/chat/completions", got.RequestURI)
}

func TestACompressedAnswerIsNotTouched(t *testing.T) {
	p := newPeer(t, func(conn net.Conn, _ int, _ *http.Request) bool {
		return say(conn, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8bx")
	})
	assert.Equal(t, "\x1f\x8bx", do(t, p.client(t), post(origin)))
}

func TestARedirectIsAnAnswer(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		p := newPeer(t, func(conn net.Conn, _ int, _ *http.Request) bool {
			return say(conn, fmt.Sprintf("HTTP/1.1 %d Elsewhere\r\nLocation: http://elsewhere.test/\r\nContent-Length: 0\r\n\r\n", status))
		})
		x, o := p.client(t).Do(t.Context(), post(origin))
		require.Nil(t, o)
		_ = x.Body.Close()
		assert.Equal(t, status, x.StatusCode)
		assert.EqualValues(t, 1, p.requests.Load())
		assert.EqualValues(t, 1, p.conns.Load())
	}
}

func TestWithoutAConnectionNothingIsSent(t *testing.T) {
	garbage := newPeer(t, nil)
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = quiet
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	toUntrusted, err := url.Parse(untrusted.URL)
	require.NoError(t, err)
	secure := &url.URL{Scheme: "https", Host: "provider.test"}
	fails := func(err error) func(context.Context, string, string) (net.Conn, error) {
		return func(context.Context, string, string) (net.Conn, error) { return nil, err }
	}
	tests := map[string]struct {
		to   *url.URL
		dial func(context.Context, string, string) (net.Conn, error)
	}{
		"refused":                               {origin, fails(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})},
		"unknown host":                          {origin, fails(&net.DNSError{Err: "no such host", Name: "provider.test", IsNotFound: true})},
		"unreachable":                           {origin, fails(&net.OpError{Op: "dial", Err: syscall.ENETUNREACH})},
		"a server that speaks no TLS":           {secure, garbage.listener.DialContext},
		"a certificate that nobody vouches for": {toUntrusted, nil},
		"an address that cannot be one":         {&url.URL{Scheme: "gopher", Host: "provider.test"}, fails(errors.New("not dialled"))},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := &wire.Client{Dial: tt.dial}
			defer c.Close()
			_, o := c.Do(t.Context(), post(tt.to))
			require.NotNil(t, o)
			assert.Equal(t, fault.Dial, o.Local)
			assert.Equal(t, fault.PhaseConnect, o.Phase)
			assert.False(t, o.Sent)
			f := fault.Default().Classify(*o)
			assert.Equal(t, fault.Network, f.Class)
			assert.False(t, f.Ambiguous)
			assert.False(t, f.Stale())
		})
	}
	_ = garbage.listener.Close()
	garbage.done.Wait()
}

func TestAHandshakeThatNeverComesIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := simulate.NewPipeListener()
		go func() {
			conn, err := deaf.Accept()
			if err == nil {
				_, _ = io.Copy(io.Discard, conn) // until the client gives up
			}
		}()
		c := &wire.Client{Dial: deaf.DialContext}
		began := time.Now()
		_, o := c.Do(t.Context(), post(&url.URL{Scheme: "https", Host: "provider.test"}))
		require.NotNil(t, o)
		assert.Equal(t, fault.Dial, o.Local)
		assert.False(t, o.Sent)
		assert.Equal(t, wire.ConnectTimeout, time.Since(began))
	})
}

func TestTheCauseOfAContextIsTheLocalCause(t *testing.T) {
	causes := map[string]struct {
		end  func(context.Context) (context.Context, func())
		want fault.Local
	}{
		"a local cause": {func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(fault.Silent) }
		}, fault.Silent},
		"a local cause inside another error": {func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(fmt.Errorf("ending the attempt: %w", fault.OutOfTime)) }
		}, fault.OutOfTime},
		"a deadline with a local cause": {func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeoutCause(ctx, time.Second, fault.Silent)
			return ctx, func() { <-ctx.Done(); cancel() }
		}, fault.Silent},
		"a deadline": {func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			return ctx, func() { <-ctx.Done(); cancel() }
		}, fault.OutOfTime},
		"a client that left": {func(ctx context.Context) (context.Context, func()) {
			return context.WithCancel(ctx)
		}, fault.Left},
	}
	moments := map[string]struct {
		answer answer // nil: nobody accepts the connection
		phase  fault.Phase
	}{
		"while dialling":         {nil, fault.PhaseConnect},
		"while waiting":          {func(net.Conn, int, *http.Request) bool { return true }, fault.PhaseSent},
		"while reading":          {func(conn net.Conn, _ int, _ *http.Request) bool { return say(conn, "HTTP/1.1 200 OK\r\n\r\nhalf") }, fault.PhasePostContent},
		"while reading an error": {func(conn net.Conn, _ int, _ *http.Request) bool { return say(conn, "HTTP/1.1 503 Oh\r\n\r\n") }, fault.PhaseHeaders},
	}
	for when, moment := range moments {
		for how, cause := range causes {
			t.Run(when+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var c *wire.Client
					if moment.answer == nil {
						nobody := simulate.NewPipeListener()
						defer func() { _ = nobody.Close() }() // the transport goes on dialling for a later call
						c = &wire.Client{Dial: nobody.DialContext}
					} else {
						c = newPeer(t, moment.answer).client(t)
					}
					ctx, end := cause.end(t.Context())
					done := make(chan fault.Observation)
					go func() { done <- follow(c, ctx) }()
					synctest.Wait()
					end()
					o := <-done
					assert.Equal(t, cause.want, o.Local)
					assert.Equal(t, moment.phase, o.Phase)
					assert.Equal(t, moment.answer != nil, o.Sent)
				})
			})
		}
	}
}

// follow makes a call and reads its answer to the end, which must be a failure.
func follow(c *wire.Client, ctx context.Context) fault.Observation {
	x, o := c.Do(ctx, post(origin))
	if o != nil {
		return *o
	}
	defer x.Body.Close()
	if x.StatusCode != http.StatusOK {
		return x.ReadError(time.Now())
	}
	_, err := io.ReadAll(x.Body)
	return x.Broken(err, fault.PhasePostContent)
}

func TestConnectionsThatAreOldByTheWallClockAreDropped(t *testing.T) {
	p := newPeer(t, func(conn net.Conn, _ int, _ *http.Request) bool { return say(conn, fine) })
	c := p.client(t)
	do(t, c, post(origin))
	do(t, c, post(origin))
	assert.EqualValues(t, 1, p.conns.Load(), "a young connection is used again")
	c.Thaw(49 * time.Second)
	do(t, c, post(origin))
	assert.EqualValues(t, 1, p.conns.Load())
	c.Thaw(51 * time.Second)
	do(t, c, post(origin))
	assert.EqualValues(t, 2, p.conns.Load())
}

func TestAnAnswerThatIsArrivingSurvivesADrop(t *testing.T) {
	release := make(chan struct{})
	p := newPeer(t, func(conn net.Conn, _ int, r *http.Request) bool {
		if r.Header.Get("X-Slow") == "" {
			return say(conn, fine)
		}
		say(conn, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf")
		<-release
		return say(conn, "half")
	})
	c := p.client(t)
	slow := post(origin)
	slow.Header = http.Header{"X-Slow": {"1"}}
	x, o := c.Do(t.Context(), slow)
	require.Nil(t, o)
	defer x.Body.Close()
	c.Thaw(time.Hour)
	fresh := post(origin)
	fresh.Fresh = true
	assert.Equal(t, "ok", do(t, c, fresh))
	close(release)
	body, err := io.ReadAll(x.Body)
	require.NoError(t, err)
	assert.Equal(t, "halfhalf", string(body))
}

func TestOriginsDoNotShareConnections(t *testing.T) {
	p := newPeer(t, func(conn net.Conn, _ int, _ *http.Request) bool { return say(conn, fine) })
	c := p.client(t)
	do(t, c, post(origin))
	do(t, c, post(&url.URL{Scheme: "http", Host: "other.test", Path: "/"}))
	assert.EqualValues(t, 2, p.conns.Load())
}

func TestErrorBodiesAreReadUpToABound(t *testing.T) {
	tests := map[string]struct {
		reply string
		want  fault.Observation
	}{
		"an envelope": {"HTTP/1.1 429 Slow\r\nRetry-After: 3\r\nX-Request-Id: req_1\r\nX-Should-Retry: true\r\nContent-Length: 71\r\n\r\n" +
			`{"error":{"message":"m","type":"t","param":"p","code":"slow_down","x":1}}`[:71],
			fault.Observation{Status: 429, Phase: fault.PhaseHeaders, Sent: true, RequestID: "req_1",
				Hint: fault.Hint{Known: true, Wait: 3 * time.Second, Source: "retry-after"}}},
		"a body without end": {"HTTP/1.1 502 Bad\r\n\r\n" + strings.Repeat("x", 1<<20), fault.Observation{Status: 502, Phase: fault.PhaseHeaders, Sent: true}},
		"no body":            {"HTTP/1.1 503 Oh\r\nContent-Length: 0\r\n\r\n", fault.Observation{Status: 503, Phase: fault.PhaseHeaders, Sent: true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, func(conn net.Conn, _ int, _ *http.Request) bool { say(conn, tt.reply); return false })
			x, o := p.client(t).Do(t.Context(), post(origin))
			require.Nil(t, o)
			defer x.Body.Close()
			got := x.ReadError(time.Now())
			retry := got.ShouldRetry
			got.ShouldRetry = nil
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.want.Status == 429, retry != nil && *retry)
		})
	}
}
