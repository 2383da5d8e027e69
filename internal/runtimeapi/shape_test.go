//go:build linux

package runtimeapi_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"spillway/internal/runtimeapi"
)

// TestABucketKeepsItsBandwidth sends through buckets in a time of its own.
func TestABucketKeepsItsBandwidth(t *testing.T) {
	const mb = 1 << 20
	began := time.Unix(0, 0)
	send := func(b *runtimeapi.Bucket, bytes int, now time.Time) time.Time {
		for bytes > 0 {
			n, wait := b.Grant(min(bytes, 32<<10), now)
			check(t, (n > 0) != (wait > 0), "neither bytes nor a wait, or both")
			bytes, now = bytes-n, now.Add(wait)
		}
		return now
	}
	near := func(want, got time.Duration) {
		t.Helper()
		check(t, (got-want).Abs() < time.Millisecond, fmt.Sprintf("want %v, got %v", want, got))
	}
	b := runtimeapi.NewBucket(runtimeapi.LambdaBandwidth, began)
	now := send(b, 6*mb, began)
	near(0, now.Sub(began))
	now = send(b, 34*mb, now)
	near(17*time.Second, now.Sub(began))

	idle := now.Add(time.Second) // saves up 2 MB
	near(0, send(b, 2*mb, idle).Sub(idle))
	idle = idle.Add(time.Hour) // saves up no more than the burst
	near(500*time.Millisecond, send(b, 7*mb, idle).Sub(idle))

	tiny := runtimeapi.NewBucket(runtimeapi.Bandwidth{Burst: 1, PerSecond: 1}, began)
	near(2*time.Second, send(tiny, 3, began).Sub(began))
}

func TestAShapedStream(t *testing.T) {
	t.Run("keeps to its bandwidth and loses nothing", func(t *testing.T) {
		s := start(t, streaming(), runtimeapi.Shape(runtimeapi.Bandwidth{Burst: 64 << 10, PerSecond: 256 << 10}))
		began := time.Now()
		_, body, err := s.fetch(t, "/bytes?size=131072")
		must(t, err)
		equal(t, strings.Repeat("x", 128<<10), body)
		took := time.Since(began)
		check(t, took >= 240*time.Millisecond, fmt.Sprint("64 KB at 256 KB/s came in ", took))
	})
	t.Run("passes its burst at once, and Close does not wait for the rest", func(t *testing.T) {
		fn := streaming()
		fn.Timeout = time.Hour
		s, dir := start(t, fn, runtimeapi.Shape(runtimeapi.Bandwidth{Burst: 64 << 10, PerSecond: 1})), t.TempDir()
		resp := s.get(t, "/flood?dir="+dir)
		open(t, dir, "flood")
		_, err := io.ReadFull(resp.Body, make([]byte, 64<<10))
		must(t, err)
		must(t, s.Close())
		rest, err := io.ReadAll(resp.Body)
		check(t, err != nil, "the stream ended well")
		check(t, len(rest) < 100, fmt.Sprint("beyond the burst came ", len(rest)))
		check(t, !exists(dir, "written"), "the function did not feel the bandwidth")
	})
}

func TestTheDeadlineAlsoEndsAShapedStream(t *testing.T) {
	fn := streaming()
	fn.Timeout = 200 * time.Millisecond
	s := start(t, fn, runtimeapi.Shape(runtimeapi.Bandwidth{Burst: 10, PerSecond: 1}))
	_, body, err := s.fetch(t, "/bytes?size=1000")
	errorIs(t, err, io.ErrUnexpectedEOF)
	check(t, strings.HasPrefix(body, "xxxxxxxxxx") && len(body) < 100, body)
	eventually(t, "the environment is gone", func() bool { return len(s.Environments()) == 0 })
}

func TestAnAnswerEndsAtItsLimit(t *testing.T) {
	limits := runtimeapi.LimitAnswers(runtimeapi.Limits{Streamed: 100_000, Buffered: 100})
	t.Run("a stream at the limit is whole", func(t *testing.T) {
		s := start(t, streaming(), limits)
		_, body, err := s.fetch(t, "/bytes?size=100000")
		must(t, err)
		equal(t, 100_000, len(body))
		s.pid(t)
		equal(t, 1, s.Boots())
	})
	t.Run("a stream above it is cut there, and its process ends", func(t *testing.T) {
		s, dir := start(t, streaming(), limits), t.TempDir()
		resp := s.get(t, "/flood?dir="+dir)
		open(t, dir, "flood")
		body, err := io.ReadAll(resp.Body)
		errorIs(t, err, io.ErrUnexpectedEOF)
		equal(t, 100_000, len(body))
		contains(t, s.logs.String(), "Function.ResponseSizeTooLarge: Response payload size exceeded maximum allowed payload size (100000 bytes).")
		eventually(t, "the process has ended", func() bool { return len(s.Environments()) == 0 })
		check(t, !exists(dir, "written"), "the function wrote everything")
	})
	t.Run("a buffered answer above it is a 502", func(t *testing.T) {
		s := start(t, buffered(), limits)
		for size, status := range map[string]int{"100": 200, "101": 502} {
			resp, err := http.Post(s.url, "application/json", strings.NewReader(`{"size":`+size+`}`))
			must(t, err)
			resp.Body.Close()
			equal(t, status, resp.StatusCode, size)
		}
	})
}

func TestARecordedEvent(t *testing.T) {
	t.Run("is answered as it streams", func(t *testing.T) {
		s, dir := start(t, streaming()), t.TempDir()
		r, w := io.Pipe()
		served := make(chan error, 1)
		go func() {
			err := s.ServeEvent(pipeResponse{httptest.NewRecorder(), w}, []byte(`{"rawPath":"/gated","rawQueryString":"dir=`+dir+`"}`))
			served <- errors.Join(err, w.Close())
		}()
		body := bufio.NewReader(r)
		for i := range 3 {
			equal(t, fmt.Sprintf("tick %d", i), readLine(t, body))
			open(t, dir, fmt.Sprint(i))
		}
		_, err := body.ReadByte()
		equal(t, io.EOF, err)
		must(t, <-served)
	})
	t.Run("that is cut says why", func(t *testing.T) {
		s, w := start(t, streaming()), httptest.NewRecorder()
		err := s.ServeEvent(w, []byte(`{"rawPath":"/broken"}`))
		equal(t, "upstream died", functionError(t, err).Message)
		equal(t, "partial\n", w.Body.String())
	})
	t.Run("that is refused writes nothing", func(t *testing.T) {
		s, w := start(t, streaming()), &pipeResponse{} // which would panic
		equal(t, "refused", functionError(t, s.ServeEvent(w, []byte(`{"rawPath":"/refused"}`))).Message)
		errorIs(t, s.ServeEvent(w, make([]byte, 6<<20+1)), runtimeapi.ErrTooLarge)
	})
	t.Run("is decoded behind a buffered URL", func(t *testing.T) {
		s, w := start(t, buffered()), httptest.NewRecorder()
		must(t, s.ServeEvent(w, []byte(`{"answer":{"statusCode":201,"body":"made"}}`)))
		equal(t, 201, w.Code)
		equal(t, "made", w.Body.String())
	})
}

// pipeResponse is a response whose body is read while it is written.
type pipeResponse struct {
	http.ResponseWriter
	body io.Writer
}

func (p pipeResponse) Write(b []byte) (int, error) { return p.body.Write(b) }
