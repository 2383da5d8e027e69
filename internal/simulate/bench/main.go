// Command bench measures what the gateway costs, beside a direct call of the same upstream on the same machine, and prints
// one table. It runs the real binary: as a plain HTTP server, and as a Lambda function behind package runtimeapi.
//
//	make bench
//
// Everything is measured in several runs, and in each run in small turns one after the other, so that a machine that is busy
// for a while is busy for all alike. A figure is the median of the runs, with the lowest and the highest beside it; a latency
// of one run is the median of its requests. Nothing fails because a target is missed.
//
// What media jobs take in calls and in waiting is counted on a virtual clock, and can be had alone, within a second:
//
//	go run -tags lambda.norpc ./internal/simulate/bench -jobs
//
// To see where the time of a chunk or of a request goes:
//
//	go test -tags lambda.norpc -run ^$ -bench . -cpuprofile cpu.out ./internal/simulate/bench
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"
)

// options say how much is measured. Fewer runs or requests are for working on the bench itself.
type options struct {
	runs, requests int
	// artifact is the folder that `make build` leaves for Lambda.
	artifact string
	// jobs: what media jobs take, and nothing else.
	jobs bool
}

func main() {
	var o options
	flag.IntVar(&o.runs, "runs", 5, "runs of everything")
	flag.IntVar(&o.requests, "requests", 1000, "requests of each latency in each run")
	flag.StringVar(&o.artifact, "artifact", "build/GatewayFunction", "what make build has left for Lambda")
	flag.BoolVar(&o.jobs, "jobs", false, "only what media jobs take, on a virtual clock")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures and prints the table to out; progress goes to progress.
func run(ctx context.Context, o options, out, progress io.Writer) error {
	if o.runs < 1 || o.requests < 1 {
		return errors.New("at least one run and one request are needed")
	}
	var r report
	if o.jobs {
		if err := mediaJobs(&r); err != nil {
			return err
		}
		r.print(out)
		return nil
	}
	began, before := time.Now(), load()
	scratch, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return fmt.Errorf("making a scratch folder: %w", err)
	}
	defer os.RemoveAll(scratch)
	fmt.Fprintln(progress, "building …")
	made, err := build(ctx, scratch)
	if err != nil {
		return err
	}
	s, err := newStage(ctx, made, scratch)
	if err != nil {
		return err
	}
	defer s.close()
	spawner, err := newSpawner(made, o.artifact)
	if err != nil {
		return err
	}
	defer spawner.close()

	for i := range o.runs {
		fmt.Fprintf(progress, "run %d of %d …\n", i+1, o.runs)
		for _, measure := range []func(context.Context, options, *report) error{s.latencies, s.translated, s.shared.measure, s.requests, s.chunks, relay, spawner.inits} {
			if err := measure(ctx, o, &r); err != nil {
				return err
			}
		}
	}
	if err := zipped(o.artifact, &r); err != nil {
		return err
	}
	if err := mediaJobs(&r); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\n%d runs of %d requests each, interleaved, in %s; load average before %s, after %s\n\n", machine(), o.runs, o.requests,
		time.Since(began).Round(time.Second), before, load())
	r.print(out)
	if busy(before) {
		fmt.Fprintln(out, "\nThe machine was busy before the start: latencies are too long, and may miss targets that they otherwise meet.")
	}
	return nil
}

// trimmed is a file's text on one line; empty when there is no such file.
func trimmed(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
