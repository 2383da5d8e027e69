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
func invoke(ctx context.Context, o options, stdout, terminal io.Writer) error {
	stderr := &sharedWriter{to: terminal}
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
	f, err := d.addressee(event)
	if err != nil {
		return fmt.Errorf("reading the event %s: %w", o.event, err)
	}
	s, err := o.bringUp(ctx, d, []function{f}, func(function) string { return invokeLog }, stderr)
	if err != nil {
		return stopped(ctx, err)
	}
	defer s.close()
	invoked := s.functions[f.logicalID]
	giveUp := context.AfterFunc(ctx, func() { invoked.front.Close() })
	defer giveUp()
	if err := invoked.print(ctx, event, stdout, stderr); err != nil {
		return stopped(ctx, fmt.Errorf("invoking %s with %s: %w", f.logicalID, o.event, err))
	}
	return nil
}

// addressee is the function that an event is for: that of its queue or its schedule, or the one with a function URL.
func (d deployment) addressee(event []byte) (function, error) {
	var from struct {
		Source    string
		Resources []string
		Records   []struct{ EventSourceARN string }
	}
	_ = json.Unmarshal(event, &from) // of another shape: it is from nobody
	for _, f := range d.functions {
		switch {
		case len(from.Records) > 0:
			if slices.ContainsFunc(f.events.queues, func(e queueEvent) bool { return e.queue == queueOf(from.Records[0].EventSourceARN) }) {
				return f, nil
			}
		case from.Source == "aws.scheduler":
			if slices.ContainsFunc(f.events.schedules, func(e scheduleEvent) bool { return slices.Contains(from.Resources, scheduleARN(e.name)) }) {
				return f, nil
			}
		case f.url != nil:
			return f, nil
		}
	}
	return function{}, fmt.Errorf("no function of %s is invoked by its queue or schedule", templateFile)
}

// print hands the function an event and prints what it answers: while it comes, from behind a function URL.
func (f *runningFunction) print(ctx context.Context, event []byte, stdout, stderr io.Writer) error {
	if f.url == nil {
		answer, err := f.front.Invoke(ctx, event)
		if err == nil {
			_, err = fmt.Fprintf(stdout, "%s\n", answer)
		}
		fmt.Fprintf(stderr, "\nlog %s\n", f.log.Name())
		return err //nolint:wrapcheck // the caller says what it was doing
	}
	p := &printer{out: stdout, header: http.Header{}, began: time.Now()}
	if err := f.front.ServeEvent(p, event); err != nil {
		return err //nolint:wrapcheck // likewise
	}
	fmt.Fprintf(stderr, "\n%d bytes of body, the first after %s, the last after %s; log %s\n",
		p.size, p.first.Round(time.Millisecond), p.last.Round(time.Millisecond), f.log.Name())
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
