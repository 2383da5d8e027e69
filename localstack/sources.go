package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"spillway/internal/runtimeapi"
	"spillway/internal/runtimeapi/sqspoll"
	"spillway/internal/sqsqueue"
)

// sources are what invokes f besides its URL: its queues, and its schedules. Both write to log.
func (s *services) sources(d deployment, f function, invoker runtimeapi.Invoker, log io.Writer) ([]runtimeapi.EventSource, []runtimeapi.Schedule) {
	api := sqsqueue.New(s.config())
	var queues []runtimeapi.EventSource
	for _, e := range f.events.queues {
		queues = append(queues, runtimeapi.EventSource{Function: invoker, Queue: &sqspoll.Queue{API: api, URL: queueURL(e.queue)}, QueueARN: queueARN(e.queue),
			BatchSize: e.batchSize, Window: e.window, Concurrency: e.concurrency, Visibility: d.visibilityOf(e.queue),
			ItemFailures: e.itemFailures, AllowLoop: f.allowLoop, Log: log})
	}
	var schedules []runtimeapi.Schedule
	for _, e := range f.events.schedules {
		schedules = append(schedules, runtimeapi.Schedule{Function: invoker, ARN: scheduleARN(e.name), Every: e.every, Log: log})
	}
	return queues, schedules
}

func scheduleARN(name string) string {
	return "arn:aws:scheduler:" + region + ":" + account + ":schedule/default/" + name
}

// visibilityOf is the visibility timeout of a queue; one that the template does not make has the default.
func (d deployment) visibilityOf(name string) time.Duration {
	for _, q := range d.queues {
		if q.name == name {
			return q.visibility
		}
	}
	return queueVisibility
}

// feed starts the sources of the functions. They end with close.
func (s *running) feed(o options, d deployment, stderr io.Writer) {
	ctx, cancel := context.WithCancel(context.Background())
	s.starve = cancel
	for _, f := range s.functions {
		queues, schedules := s.aws.sources(d, f.function, f.front, f.log)
		for _, source := range queues {
			source.Queue = o.faults.spoil(source.Queue)
			s.feeding.Go(func() { complain(stderr, f, source.Run(ctx)) })
		}
		for _, schedule := range schedules {
			s.feeding.Go(func() { complain(stderr, f, schedule.Run(ctx)) })
		}
	}
}

// complain says what a source that cannot run has told.
func complain(stderr io.Writer, f *runningFunction, err error) {
	if err != nil {
		fmt.Fprintf(stderr, "nothing will come to %s from one of its events: %v\n", f.logicalID, err)
	}
}
