package main

import (
	"context"
	"io"
	"time"

	"spillway/functions/internal/graph"
	"spillway/internal/breaker"
	"spillway/internal/fault"
	"spillway/internal/media"
	"spillway/internal/telemetry"
)

// most is how many jobs one sweep looks after: more than a minute's worth, the rest is the next one's.
const most = 1000

// handler sweeps once, whatever the event, and answers with what it did for how many jobs.
type handler func(context.Context) (map[media.Task]int, error)

// wire builds the graph of the sweeper from the environment and its configuration file. What is to be
// noticed of that the gateway tells, whose it is too.
func wire(getenv func(string) string, readFile func(string) ([]byte, error), records io.Writer) (handler, error) {
	s, config, err := graph.Worker(getenv, readFile)
	if err != nil {
		return nil, err //nolint:wrapcheck // it lists problems, each with its place
	}
	recorder := telemetry.New(records, s.LogLevel)
	engine := graph.Jobs(s, config, fault.Default(), recorder, &breaker.Fleet{}) // it submits nothing, and asks no health
	return func(ctx context.Context) (map[media.Task]int, error) {
		start := time.Now()
		did, err := engine.Sweep(ctx, most)
		counts := make(map[string]int, len(did))
		for task, n := range did {
			counts[string(task)] = n
		}
		recorder.Swept(counts, time.Since(start), err)
		return did, err //nolint:wrapcheck // it says what it was doing
	}, nil
}
