package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"
)

// cell is one rate of requests over one number of environments.
type cell struct {
	rate         float64 // requests a second
	environments int
}

// promised reports whether the bounds hold for the cell: at 1 request a second or more, over 8 environments at most.
func (c cell) promised() bool { return c.rate >= 1 && c.environments <= 8 }

// The bounds (issue 3).
const (
	maxCalls    = 20 // median of the outages, besides those in flight
	maxOpenings = 2  // an hour, at 10 % errors
	maxF15Calls = 4
	maxF15Lag   = 30 * time.Second
	maxAtOnce   = 1 // probes
)

var rates, sizes = []float64{0.25, 1, 10, 50}, []int{1, 8, 50}

// row is what the runs of one cell came to.
type row struct {
	cell
	refusing, silent []outage
	errors           []openings
}

// perHour is how often a circuit opened, and opened again.
func perHour(runs []openings) (first, again float64) {
	var hours float64
	for _, r := range runs {
		first += float64(r.first)
		again += float64(r.again)
		hours += r.watched.Hours()
	}
	return first / hours, again / hours
}

// simulate runs a cell with the seeds 0 to n-1.
func simulate(c cell, n int) row {
	return row{cell: c,
		refusing: each(n, func(seed uint64) outage { return runOutage(seed, c, refusing) }),
		silent:   each(n, func(seed uint64) outage { return runOutage(seed, c, silent) }),
		errors:   each(n, func(seed uint64) openings { return runErrors(seed, c) }),
	}
}

// each runs f once a seed on all processors; the results stand in the order of the seeds.
func each[T any](n int, f func(seed uint64) T) []T {
	out := make([]T, n)
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for k := range workers {
		wg.Go(func() {
			for i := k; i < n; i += workers {
				out[i] = f(uint64(i))
			}
		})
	}
	wg.Wait()
	return out
}

// percentile of what is measured of each outage.
func percentile(runs []outage, p int, of func(outage) float64) float64 {
	values := make([]float64, len(runs))
	for i, r := range runs {
		values[i] = of(r)
	}
	slices.Sort(values)
	return values[p*(len(values)-1)/100]
}

func calls(o outage) float64     { return float64(o.calls) }
func inFlight(o outage) float64  { return float64(o.inFlight) }
func usedAgain(o outage) float64 { return o.usedAgain.Seconds() }
func closed(o outage) float64    { return o.closed.Seconds() }
func atOnce(o outage) float64    { return float64(o.probes) }

const heading = `                         primary calls   in     recovery lag, s: used   closed         false openings
 req/s  env.  outage     p50    p95      flight     p50    p95        p50    p95       an hour  (again)
`

func (r row) print(w io.Writer) {
	first, again := perHour(r.errors)
	line := func(k kind, runs []outage) {
		fmt.Fprintf(w, "%6.2f %5d  %-8s %5.0f  %5.0f      %6.0f   %5.1f  %5.1f      %5.1f  %5.1f", r.rate, r.environments, k,
			percentile(runs, 50, calls), percentile(runs, 95, calls), percentile(runs, 50, inFlight),
			percentile(runs, 50, usedAgain), percentile(runs, 95, usedAgain), percentile(runs, 50, closed), percentile(runs, 95, closed))
	}
	line(refusing, r.refusing)
	fmt.Fprintf(w, "       %7.2f  %7.2f\n", first, again)
	line(silent, r.silent)
	fmt.Fprintln(w)
}

// misses says which bounds the row breaks.
func (r row) misses() []string {
	var out []string
	for k, runs := range map[kind][]outage{refusing: r.refusing, silent: r.silent} {
		if n := percentile(runs, 50, calls); r.promised() && n > maxCalls {
			out = append(out, fmt.Sprintf("%v, %s: median of %.0f primary calls, promised %d", r.cell, k, n, maxCalls))
		}
		if n := percentile(runs, 100, atOnce); n > maxAtOnce {
			out = append(out, fmt.Sprintf("%v, %s: %.0f probes at once", r.cell, k, n))
		}
	}
	if first, _ := perHour(r.errors); r.promised() && first > maxOpenings {
		out = append(out, fmt.Sprintf("%v: %.2f false openings an hour, promised %d", r.cell, first, maxOpenings))
	}
	slices.Sort(out)
	return out
}

func (c cell) String() string {
	return fmt.Sprintf("%g requests/s over %d environments", c.rate, c.environments)
}

// f15 runs the pattern and says the worst of it.
func f15(n, environments int) (worst outage, misses []string) {
	runs := each(n, func(seed uint64) outage { return runF15(seed, environments) })
	for _, r := range runs {
		worst.calls = max(worst.calls, r.calls+r.inFlight)
		worst.usedAgain = max(worst.usedAgain, r.usedAgain)
	}
	if worst.calls > maxF15Calls {
		misses = append(misses, fmt.Sprintf("F15 over %d environments: %d primary calls, promised %d", environments, worst.calls, maxF15Calls))
	}
	if worst.usedAgain > maxF15Lag {
		misses = append(misses, fmt.Sprintf("F15 over %d environments: used again after %v, promised %v", environments, worst.usedAgain, maxF15Lag))
	}
	return worst, misses
}
