package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spillway/internal/simulate/bench/answer"
)

const (
	concurrency = 50
	// loadRequests is long enough for the kernel's clock ticks of 10 ms to be fine enough.
	loadRequests = 5000
	longStreams  = 10
)

// requests measures the CPU time of the process that serves, per request.
func (s *stage) requests(ctx context.Context, _ options, r *report) error {
	const section = "CPU of the serving process per request"
	for _, m := range []struct {
		name    string
		target  *target
		at      int
		request string
	}{
		{"plain answers, 50 at a time, net/http's reverse proxy", s.proxy, concurrency, shortPlain},
		{"plain answers, 50 at a time, the gateway over net/http", s.gateway, concurrency, shortPlain},
		{"streams of 14 chunks, 50 at a time, the reverse proxy", s.proxy, concurrency, shortStream},
		{"streams of 14 chunks, 50 at a time, the gateway", s.gateway, concurrency, shortStream},
		{"plain answers, one at a time, an echo in Lambda", s.echoFront, 1, shortPlain},
		{"plain answers, one at a time, the gateway in Lambda", s.gatewayFront, 1, shortPlain},
	} {
		f := figure{section: section, name: m.name, unit: "µs"}
		used, err := m.target.used(func() error { return m.target.flood(ctx, m.request, m.at, loadRequests) })
		if errors.Is(err, errNoProc) {
			r.skip(f, err)
			continue
		}
		if err != nil {
			return err
		}
		r.add(f, micros(used, loadRequests))
	}
	return nil
}

// flood makes n requests, so many at a time, and reads each answer to its end.
func (t *target) flood(ctx context.Context, request string, at, n int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var made atomic.Int64
	var workers sync.WaitGroup
	for range at {
		workers.Go(func() {
			for made.Add(1) <= int64(n) && ctx.Err() == nil {
				if _, err := t.stream(ctx, request); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// chunks measures the CPU time of the process that serves, per chunk of long streams.
func (s *stage) chunks(ctx context.Context, _ options, r *report) error {
	long, paced := answer.Request(answer.Long, true), answer.Request(answer.Paced, true)
	for _, m := range []struct {
		name    string
		target  *target
		request string
		streams int
		most    float64
	}{
		{"CPU through the binary in Lambda, streams of 5,000 chunks", s.gatewayFront, long, longStreams, 12},
		{"CPU through the binary over net/http, the same", s.gateway, long, longStreams, 12},
		{"CPU through net/http's reverse proxy, the same", s.proxy, long, longStreams, 0},
		{"CPU in Lambda with 2 ms between chunks: wake-ups included", s.gatewayFront, paced, 1, 0},
	} {
		f := figure{section: relaySection, name: m.name, unit: "µs", target: m.most}
		total := 0
		used, err := m.target.used(func() error {
			for range m.streams {
				n, err := m.target.stream(ctx, m.request)
				if err != nil {
					return err
				}
				total += n
			}
			return nil
		})
		if errors.Is(err, errNoProc) {
			r.skip(f, err)
			continue
		}
		if err != nil {
			return err
		}
		if total < m.streams*answer.PacedChunks {
			return fmt.Errorf("%s: only %d chunks in %d streams", m.name, total, m.streams)
		}
		r.add(f, micros(used, total))
	}
	return nil
}

func micros(d time.Duration, n int) float64 { return d.Seconds() * 1e6 / float64(n) }

// errNoProc: the system does not tell what another process uses.
var errNoProc = errors.New("this system has no /proc")

// used is the CPU time that the target's process takes while do runs.
func (t *target) used(do func() error) (time.Duration, error) {
	before, err := cpuTime(t.pid)
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := cpuTime(t.pid)
	return after - before, err
}

// tick is the unit of /proc/PID/stat: USER_HZ, which is 100 on every architecture that Go runs on (proc_pid_stat(5)).
const tick = 10 * time.Millisecond

// cpuTime is the user and system time of a process.
func cpuTime(pid int) (time.Duration, error) {
	stat := trimmed("/proc/" + strconv.Itoa(pid) + "/stat")
	_, afterName, ok := strings.Cut(stat, ") ")
	if !ok {
		return 0, errNoProc
	}
	fields := strings.Fields(afterName) // the first is the third of proc_pid_stat(5); utime is the 14th, stime the 15th
	if len(fields) < 13 {
		return 0, errNoProc
	}
	user, errUser := strconv.ParseInt(fields[11], 10, 64)
	system, errSystem := strconv.ParseInt(fields[12], 10, 64)
	if err := errors.Join(errUser, errSystem); err != nil {
		return 0, fmt.Errorf("reading the CPU time of process %d: %w", pid, err)
	}
	return time.Duration(user+system) * tick, nil
}
