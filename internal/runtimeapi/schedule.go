package runtimeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Schedule is one of EventBridge Scheduler: it invokes a function at a rate, whether the invocation before is over or not.
// An invocation that fails is not made again: Scheduler would, but the next one is as good.
type Schedule struct {
	Function Invoker
	ARN      string // arn:aws:scheduler:region:account:schedule/group/name
	Every    time.Duration

	Log io.Writer // one line for each failure; nil: discarded
}

// Run invokes once for each Every from now on until ctx ends, which is no error, and returns when the invocations under way
// are over; Front.Close ends them. The error says what is wrong with s.
func (s Schedule) Run(ctx context.Context) error {
	switch {
	case s.Function == nil || s.Every <= 0:
		return errors.New("checking the schedule: it needs a function and a rate")
	case strings.Count(s.ARN, ":") != 5:
		return errors.New("checking the schedule: its ARN has six parts")
	}
	if s.Log == nil {
		s.Log = io.Discard
	}
	log := &lines{to: s.Log}
	var under sync.WaitGroup
	defer under.Wait()
	ticker := time.NewTicker(s.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case at := <-ticker.C:
			under.Go(func() {
				if _, err := s.Function.InvokeTraced(context.WithoutCancel(ctx), newTraceID(), s.event(at)); err != nil {
					log.printf("invoking by %s: %v", s.ARN, err)
				}
			})
		}
	}
}

// event is what Scheduler sends when it is not told what; its detail is text.
// https://docs.aws.amazon.com/lambda/latest/dg/with-eventbridge-scheduler.html (2026-11)
func (s Schedule) event(at time.Time) []byte {
	parts := strings.Split(s.ARN, ":")
	text, err := json.Marshal(struct {
		Version    string    `json:"version"`
		ID         string    `json:"id"`
		DetailType string    `json:"detail-type"`
		Source     string    `json:"source"`
		Account    string    `json:"account"`
		Time       string    `json:"time"`
		Region     string    `json:"region"`
		Resources  [1]string `json:"resources"`
		Detail     string    `json:"detail"`
	}{"0", newID(), "Scheduled Event", "aws.scheduler", parts[4], at.UTC().Format(time.RFC3339), parts[3], [1]string{s.ARN}, "{}"})
	if err != nil {
		panic(err) // it is made of text
	}
	return text
}

var rate = regexp.MustCompile(`^rate\(([1-9][0-9]{0,5}) (minute|hour|day)(s?)\)$`)

// ParseRate reads a ScheduleExpression of the form rate(5 minutes). Others (cron, at) are not known here.
func ParseRate(expression string) (time.Duration, error) {
	m := rate.FindStringSubmatch(expression)
	if m == nil {
		return 0, fmt.Errorf("reading the schedule %q: it is not of the form rate(5 minutes)", expression)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil || (n == 1) != (m[3] == "") { // AWS is strict about the plural
		return 0, fmt.Errorf("reading the schedule %q: one minute, or more minutes", expression)
	}
	return time.Duration(n) * map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}[m[2]], nil
}
