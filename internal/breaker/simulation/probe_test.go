package main

import (
	"fmt"
	"sort"
	"spillway/internal/breaker"
	"testing"
	"time"
)

func TestWhy(t *testing.T) {
	for _, c := range []struct {
		r float64
		n int
	}{{10, 8}, {50, 1}, {50, 8}, {10, 50}, {50, 50}} {
		for _, silent := range []bool{false, true} {
			var before, infl, probes, after float64
			var opening float64
			N := 200.
			var tot []int
			for s := range uint64(200) {
				down, up := epoch.Add(warmUp), epoch.Add(warmUp+outageTime)
				w := newWorld(s, c.n, provider{silent: silent, down: func(t time.Time) bool { return !t.Before(down) && t.Before(up) }})
				w.poisson(c.r, up)
				w.runUntil(up.Add(time.Minute))
				tot = append(tot, w.outage(down, up).calls)
				var opened time.Time
				for _, x := range w.changes {
					if x.To == breaker.Open && opened.IsZero() {
						opened = x.At
					}
				}
				opening += opened.Sub(down).Seconds()
				for _, k := range w.calls {
					if k.began.Before(down) {
						continue
					}
					switch {
					case k.probe:
						probes++
					case k.ended.Before(opened) || k.ended.Equal(opened):
						before++
					case k.began.Before(opened):
						infl++
					default:
						after++
					}
				}
			}
			sort.Ints(tot)
			fmt.Println(c, silent, "med", tot[100], "until opening", opening/N, "ended before", before/N, "inflight", infl/N, "begun after", after/N, "probes", probes/N)
		}
	}
}
func TestFalse(t *testing.T) {
	for _, c := range []struct {
		r float64
		n int
	}{{1, 8}, {10, 1}, {10, 8}, {10, 50}, {50, 1}, {50, 8}, {50, 50}} {
		m := map[string]int{}
		N := 120
		res := parallel(N, func(s uint64) *world {
			w := newWorld(s, c.n, provider{errors: errorRate})
			w.poisson(c.r, epoch.Add(warmUp+errorTime))
			w.runUntil(epoch.Add(warmUp + errorTime))
			w.calls = nil
			w.queue = queue{}
			return w
		})
		for _, w := range res {
			var closed time.Time
			for _, x := range w.changes {
				if x.To == breaker.Closed {
					closed = x.At
				}
				if x.To == breaker.Open {
					k := string(x.Cause)
					if !closed.IsZero() && x.At.Sub(closed) < 5*time.Second {
						k += " soon after close"
					}
					if x.At.Sub(epoch) < warmUp {
						k += " warm"
					}
					m[k]++
				}
			}
		}
		fmt.Println(c, "per", float64(N)/6, "h", m)
	}
}
