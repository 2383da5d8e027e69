package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/dialect"
	chatdialect "spillway/internal/dialect/openai"
	"spillway/internal/fault"
	"spillway/internal/provider"
	"spillway/internal/provider/anthropic"
	"spillway/internal/provider/gemini"
	"spillway/internal/provider/openai"
	"spillway/internal/provider/wire"
	"spillway/internal/simulate/bench/answer"
)

const relaySection = "relay of a stream, per chunk"

const inProcess = "relay in this process, decode → event → render, per chunk, by the upstream's format"

// relay measures in this process what one chunk costs from the upstream's bytes to those for the client.
func relay(_ context.Context, _ options, r *report) error {
	for _, f := range answer.Formats {
		var failed error
		result := testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			failed = relayChunks(f, b.N)
		})
		if failed != nil {
			return fmt.Errorf("relaying in this process: %s: %w", f.Name, failed)
		}
		took, allocations := figure{section: inProcess, name: f.Name, unit: "µs"}, figure{section: inProcess, name: f.Name, unit: "allocations"}
		if f == answer.OpenAI {
			took.target, allocations.target = 2.5, 2
		}
		n := float64(result.N)
		r.add(took, result.T.Seconds()*1e6/n)
		r.add(allocations, float64(result.MemAllocs)/n)
	}
	return nil
}

// relayChunks takes n chunks through the adapter and the dialect. Each arrives by itself, as in a stream that is written as
// it is made.
func relayChunks(f *answer.Format, n int) error {
	upstream := &script{rest: []io.Reader{bytes.NewReader([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")),
		bytes.NewReader(f.Opening), &repeated{frames: f.Chunks, left: n}, bytes.NewReader(f.Closing)}, asked: make(chan struct{})}
	adapter := adapterOf(f, &wire.Client{Dial: func(context.Context, string, string) (net.Conn, error) { return upstream, nil }})
	channel := &catalog.Channel{Model: chat.RoutedModel(f.Model), Provider: &catalog.Provider{BaseURL: "http://upstream.invalid/v1"}}
	if f == answer.Responses {
		channel.Capabilities.Responses = catalog.ResponsesAlways
	}
	reply, err := adapter.Call(context.Background(), provider.Call{Stream: true,
		Request:    &chat.Request{Choices: 1, Messages: []chat.Message{{Role: chat.User, Parts: []chat.Part{{Kind: chat.TextPart, Text: "x"}}}}},
		Channel:    channel,
		Credential: &catalog.Credential{}})
	if err != nil {
		return err
	}
	defer reply.Close()
	out := chatdialect.Chat{}.NewStream(dialect.Head{ID: "chatcmpl-bench", Model: answer.Short, Created: time.Now()})
	sent := 0
	for {
		ev, err := reply.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if len(out.Event(ev)) > 0 {
			sent++
		}
	}
	if sent < n {
		return fmt.Errorf("%d of %d chunks came out", sent, n)
	}
	return nil
}

// adapterOf is the adapter that speaks a format.
func adapterOf(f *answer.Format, client *wire.Client) provider.Provider {
	switch f {
	case answer.Anthropic:
		return &anthropic.Provider{Policy: fault.Default(), Wire: client}
	case answer.Gemini:
		return &gemini.Provider{Policy: fault.Default(), Wire: client}
	default:
		return &openai.Provider{Policy: fault.Default(), Wire: client}
	}
}

// script is a connection whose far end answers the first request with what its readers give, one read of each at a time.
type script struct {
	rest  []io.Reader
	asked chan struct{} // closed by the first write
	once  sync.Once
	net.Conn
}

func (s *script) Read(p []byte) (int, error) {
	<-s.asked
	for len(s.rest) > 0 {
		n, err := s.rest[0].Read(p)
		if errors.Is(err, io.EOF) {
			s.rest = s.rest[1:]
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, io.EOF
}

func (s *script) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.asked) })
	return len(p), nil
}

func (s *script) Close() error {
	s.once.Do(func() { close(s.asked) })
	return nil
}

// repeated gives frames one after the other, one for each read, so many in all.
type repeated struct {
	frames [][]byte
	next   int
	left   int
	rest   []byte // of a frame that did not fit
}

func (r *repeated) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.left == 0 {
			return 0, io.EOF
		}
		r.rest = r.frames[r.next%len(r.frames)]
		r.next++
		r.left--
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
