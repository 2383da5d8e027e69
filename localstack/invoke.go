package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"time"
)

// invokeLog is not the log of a stack that may be running beside.
const invokeLog = "invoke.log"

// invoke hands the function one event and prints the answer while it streams. An answer that is whole is no error,
// whatever its status. Nothing that it started is left when it returns.
func invoke(ctx context.Context, o options, stdout, stderr io.Writer) error {
	event, err := os.ReadFile(o.event)
	if err != nil {
		return fmt.Errorf("reading the event (-invoke chooses another): %w", err)
	}
	if !json.Valid(event) {
		return fmt.Errorf("reading the event: %s is not JSON", o.event)
	}
	d, err := readDeployment()
	if err != nil {
		return err
	}
	s, err := o.bringUp(ctx, d, invokeLog, stderr)
	if err != nil {
		return stopped(ctx, err)
	}
	defer s.close()
	giveUp := context.AfterFunc(ctx, func() { s.front.Close() })
	defer giveUp()

	p := &printer{out: stdout, header: http.Header{}, began: time.Now()}
	if err := s.front.ServeEvent(p, event); err != nil {
		return stopped(ctx, fmt.Errorf("invoking %s with %s: %w", d.functions[0].logicalID, o.event, err))
	}
	fmt.Fprintf(stderr, "\n%d bytes of body, the first after %s, the last after %s; log %s\n",
		p.size, p.first.Round(time.Millisecond), p.last.Round(time.Millisecond), s.log.Name())
	return p.failure
}

// A printer is a response that is printed while it comes, as `curl -i` does.
type printer struct {
	out     io.Writer
	header  http.Header
	began   time.Time
	size    int
	failure error // of out

	first, last time.Duration // when parts of the body came
}

func (p *printer) Header() http.Header { return p.header }

func (p *printer) WriteHeader(status int) {
	fmt.Fprintf(p.out, "HTTP/1.1 %d %s\n", status, http.StatusText(status))
	for _, name := range slices.Sorted(maps.Keys(p.header)) {
		for _, value := range p.header[name] {
			fmt.Fprintf(p.out, "%s: %s\n", name, value)
		}
	}
	fmt.Fprintln(p.out)
}

func (p *printer) Write(part []byte) (int, error) {
	p.last = time.Since(p.began)
	if p.size == 0 {
		p.first = p.last
	}
	p.size += len(part)
	n, err := p.out.Write(part)
	p.failure = errors.Join(p.failure, err)
	return n, err
}
