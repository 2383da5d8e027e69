package main

import (
	"errors"
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"

	"spillway/internal/runtimeapi"
)

// events are what invokes a function besides its URL.
type events struct {
	queues    []queueEvent
	schedules []scheduleEvent
}

// A queueEvent is an event of the type SQS: an event source mapping. What is 0 has the driver's default.
type queueEvent struct {
	queue        string // name
	batchSize    int
	window       time.Duration
	concurrency  int
	itemFailures bool
}

// A scheduleEvent is an event of the type ScheduleV2.
type scheduleEvent struct {
	name  string
	every time.Duration
}

// events reads the Events of a function, without those that are disabled.
func (t *template) events(r resource) (events, error) {
	var all events
	list, err := t.mapping(member(r.properties, "Events"))
	if err != nil {
		return all, err
	}
	var problems []error
	for name, n := range members(list) {
		e, err := t.event(r.logicalID+"."+name, n)
		if err == nil {
			err = t.add(e, &all)
		}
		if err != nil {
			problems = append(problems, err)
		}
	}
	return all, errors.Join(problems...)
}

// event is one of the Events, which has the parts of a resource.
func (t *template) event(id string, n ast.Node) (resource, error) {
	e := resource{logicalID: id, node: n}
	m, err := t.mapping(n)
	if err != nil {
		return e, err
	}
	kind := member(m, "Type")
	if kind == nil {
		return e, t.errorf(n, "the event %s has no Type", id)
	}
	if e.kind, err = t.text(kind); err != nil {
		return e, err
	}
	e.properties, err = t.mapping(member(m, "Properties"))
	return e, err
}

func (t *template) add(e resource, into *events) error {
	switch e.kind {
	case "SQS":
		return t.queueEvent(e, into)
	case "ScheduleV2":
		return t.scheduleEvent(e, into)
	default:
		return t.errorf(e.node, "the event %s is a %s: known here are SQS and ScheduleV2", e.logicalID, e.kind)
	}
}

func (t *template) queueEvent(e resource, into *events) error {
	var p struct {
		Queue, BatchSize, MaximumBatchingWindowInSeconds, Enabled string
		FunctionResponseTypes                                     []string
		ScalingConfig                                             struct{ MaximumConcurrency string }
	}
	if err := t.decode(e, &p); err != nil {
		return err
	}
	var errs [3]error
	var seconds int
	q := queueEvent{queue: queueOf(p.Queue), itemFailures: slices.Contains(p.FunctionResponseTypes, "ReportBatchItemFailures")}
	q.batchSize, errs[0] = t.count(e, "BatchSize", p.BatchSize, 0)
	seconds, errs[1] = t.count(e, "MaximumBatchingWindowInSeconds", p.MaximumBatchingWindowInSeconds, 0)
	q.window = time.Duration(seconds) * time.Second
	q.concurrency, errs[2] = t.count(e, "MaximumConcurrency", p.ScalingConfig.MaximumConcurrency, 0)
	if p.Enabled != "false" {
		into.queues = append(into.queues, q)
	}
	return errors.Join(errs[:]...)
}

func (t *template) scheduleEvent(e resource, into *events) error {
	var p struct {
		Name, ScheduleExpression, State string

		Description, FlexibleTimeWindow, RetryPolicy ignored
	}
	if err := t.decode(e, &p); err != nil {
		return err
	}
	every, err := runtimeapi.ParseRate(p.ScheduleExpression)
	if err != nil {
		return t.errorf(e.node, "%w", err)
	}
	if p.Name == "" {
		p.Name = stack + "-" + e.logicalID
	}
	if p.State != "DISABLED" {
		into.schedules = append(into.schedules, scheduleEvent{p.Name, every})
	}
	return nil
}

// recursiveLoop reports whether a function may go on feeding the queue that invokes it.
func (t *template) recursiveLoop(r resource) (bool, error) {
	value, node, err := t.property(r, "RecursiveLoop")
	if err != nil || value == nil {
		return false, err
	}
	if value != "Allow" && value != "Terminate" {
		return false, t.errorf(node, "RecursiveLoop of %s is neither Allow nor Terminate", r.logicalID)
	}
	return value == "Allow", nil
}
