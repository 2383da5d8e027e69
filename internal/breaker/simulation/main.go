// Simulation runs the rules of package breaker over rates of requests and numbers of environments that share a store,
// and prints what an outage of a minute costs, how soon the provider is used again, and how often a circuit opens that
// should not:
//
//	go run ./internal/breaker/simulation            3,000 seeds a cell, some minutes
//	go run ./internal/breaker/simulation -seeds 100
//
// The same seeds give the same numbers. It ends with an error when a bound that is promised does not hold. What it
// assumes: requests arrive at random (Poisson), each at an environment drawn at random; the first content takes 0.3 to
// 1.5 s, a refusal 20 to 200 ms, silence 10 s; a refused call is retried once after 100 to 300 ms unless the circuit is
// open by then; failures are independent; the store answers at once.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	seeds := flag.Int("seeds", 3000, "runs of each cell")
	flag.Parse()
	var cells []cell
	for _, rate := range rates {
		for _, size := range sizes {
			cells = append(cells, cell{rate, size})
		}
	}
	if run(os.Stdout, *seeds, cells...) > 0 {
		os.Exit(1)
	}
}

// run prints the table of the cells and returns how many bounds are broken.
func run(w io.Writer, seeds int, cells ...cell) int {
	var misses []string
	fmt.Fprint(w, heading)
	for _, c := range cells {
		r := simulate(c, seeds)
		r.print(w)
		misses = append(misses, r.misses()...)
	}
	for _, size := range []int{1, 8} {
		worst, missed := f15(seeds, size)
		fmt.Fprintf(w, "F15 over %d environments: at most %d primary calls, used again after at most %.1f s\n", size, worst.calls, worst.usedAgain.Seconds())
		misses = append(misses, missed...)
	}
	for _, m := range misses {
		fmt.Fprintln(w, "MISSED:", m)
	}
	if len(misses) == 0 {
		fmt.Fprintln(w, "every bound holds")
	}
	return len(misses)
}
