package main

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

func parallel[T any](n int, f func(seed uint64) T) []T {
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

func main() {
	seeds := flag.Int("seeds", 3000, "")
	flag.Parse()
	q := func(x []float64, p float64) float64 { slices.Sort(x); return x[int(p*float64(len(x)-1))] }
	for _, rate := range []float64{.25, 1, 10, 50} {
		for _, n := range []int{1, 8, 50} {
			for _, silent := range []bool{false, true} {
				os := parallel(*seeds, func(s uint64) outage { return runOutage(s, rate, n, silent) })
				var calls, fl, used, closed []float64
				unopened := 0
				for _, o := range os {
					calls = append(calls, float64(o.calls))
					fl = append(fl, float64(o.inFlight))
					used = append(used, o.usedAgain.Seconds())
					closed = append(closed, o.closed.Seconds())
					if !o.opened {
						unopened++
					}
				}
				fmt.Printf("%5.2f rps %2d env silent=%-5v calls p50 %3.0f p95 %3.0f inflight %3.0f  used p50 %.1f p95 %.1f closed p50 %.1f p95 %.1f unopened %d\n", rate, n, silent, q(calls, .5), q(calls, .95), q(fl, .5), q(used, .5), q(used, .95), q(closed, .5), q(closed, .95), unopened)
			}
			es := parallel(*seeds/5, func(s uint64) int { return runErrors(s, rate, n) })
			sum := 0
			for _, e := range es {
				sum += e
			}
			fmt.Printf("      false openings/h %.2f\n", float64(sum)/float64(len(es))/errorTime.Hours())
		}
	}
	for _, n := range []int{1, 8} {
		worst := 0
		var lag time.Duration
		for s := range *seeds {
			o := runF15(uint64(s), n)
			worst = max(worst, o.calls+o.inFlight)
			lag = max(lag, o.usedAgain)
			if o.usedAgain < 0 {
				fmt.Println("never")
			}
		}
		fmt.Println("F15", n, worst, lag)
	}
}
