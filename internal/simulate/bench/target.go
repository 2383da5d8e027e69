package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"spillway/internal/simulate/bench/answer"
)

// target is something that answers chat completions.
type target struct {
	url    string
	pid    int // of the process whose work is measured
	client *http.Transport
	key    func() string // makes the Idempotency-Key of each request; nil: there is none
}

func newTarget(url string, pid int) *target {
	return &target{url: url, pid: pid, client: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}
}

// chatPath is where the gateway is asked, and everything that answers like it.
const chatPath = "/v1/chat/completions"

// ask sends a request and returns its answer, once its headers are there, and when it was sent. The front end may still be
// busy with the request before, on a machine that is: then it is asked again.
func (t *target) ask(ctx context.Context, path, request string) (resp *http.Response, sent time.Time, err error) {
	for range 100 {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url+path, strings.NewReader(request))
		if err != nil {
			return nil, sent, fmt.Errorf("making a request: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+clientKey)
		r.Header.Set("Content-Type", "application/json")
		if t.key != nil {
			r.Header.Set("Idempotency-Key", t.key())
		}
		sent = time.Now()
		resp, err = t.client.RoundTrip(r)
		if err != nil {
			return nil, sent, fmt.Errorf("asking %s: %w", t.url, err)
		}
		if resp.StatusCode == http.StatusOK {
			return resp, sent, nil
		}
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // what has come is all that there is to say
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusTooManyRequests {
			return nil, sent, fmt.Errorf("asking %s: status %d: %s", t.url, resp.StatusCode, text)
		}
		time.Sleep(time.Millisecond)
	}
	return nil, sent, fmt.Errorf("asking %s: it stays busy", t.url)
}

var shortPlain, shortStream, asked = answer.Request(answer.Short, false), answer.Request(answer.Short, true), answer.Request(answer.Asked, false)

// plain is how long a plain answer takes to its last byte. The end of the answer is not waited for: it may be later where
// no length was sent, and the front end holds it until the function asks for its next event, as Lambda does not.
func (t *target) plain(ctx context.Context) (time.Duration, error) {
	return t.whole(ctx, chatPath, shortPlain)
}

// asAsked is plain, of a model whose upstream call is plain as well.
func (t *target) asAsked(ctx context.Context) (time.Duration, error) {
	return t.whole(ctx, chatPath, asked)
}

func (t *target) whole(ctx context.Context, path, request string) (time.Duration, error) {
	body, at, err := t.read(ctx, path, request, "")
	if err == nil && !bytes.Contains(body, []byte(" spillway takes the flood")) {
		err = fmt.Errorf("not the answer that the upstream gives: %s", body)
	}
	return at.last, err
}

// firstContent is how long a stream takes to its first content; it is read to its end.
func (t *target) firstContent(ctx context.Context) (time.Duration, error) {
	return t.first(ctx, chatPath, shortStream, answer.OpenAI)
}

// first is how long a stream takes to its first content in the format that it comes in.
func (t *target) first(ctx context.Context, path, request string, format *answer.Format) (time.Duration, error) {
	body, at, err := t.read(ctx, path, request, format.FirstContent)
	if err == nil && (at.mark == 0 || !bytes.HasSuffix(body, []byte(format.End))) {
		err = fmt.Errorf("not the stream that the upstream gives: %s", body)
	}
	return at.mark, err
}

// times are how long after the request something came: the mark that was looked for, and the last byte.
type times struct{ mark, last time.Duration }

// read reads an answer to its end.
func (t *target) read(ctx context.Context, path, request, mark string) (body []byte, at times, err error) {
	resp, sent, err := t.ask(ctx, path, request)
	if err != nil {
		return nil, at, err
	}
	defer resp.Body.Close()
	body, part := make([]byte, 0, 16<<10), make([]byte, 8<<10)
	for err == nil {
		var n int
		n, err = resp.Body.Read(part)
		if n > 0 {
			at.last = time.Since(sent)
		}
		body = append(body, part[:n]...)
		if mark != "" && at.mark == 0 && bytes.Contains(body, []byte(mark)) {
			at.mark = at.last
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, at, fmt.Errorf("reading an answer: %w", err)
	}
	return body, at, nil
}

// stream reads a stream to its end and counts its chunks.
func (t *target) stream(ctx context.Context, request string) (chunks int, err error) {
	resp, _, err := t.ask(ctx, chatPath, request)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	counter := frames{}
	if _, err := io.Copy(&counter, resp.Body); err != nil {
		return 0, fmt.Errorf("reading a stream: %w", err)
	}
	return counter.n, nil
}

// frames counts the blank lines that end frames.
type frames struct {
	n    int
	last byte
}

func (f *frames) Write(p []byte) (int, error) {
	if len(p) > 0 && f.last == '\n' && p[0] == '\n' {
		f.n++
	}
	f.n += bytes.Count(p, []byte("\n\n"))
	f.last = p[len(p)-1]
	return len(p), nil
}
