package edge

import (
	"runtime"
	"runtime/debug"
)

const (
	// oneCPU is the memory, in MB, with which a function has the time of one CPU; with less it has a share of it
	// (https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html, 2026-11).
	oneCPU = 1769
	// heapGrowth lets the heap become five times what is in use before it is collected. What is in use is a few MB, which
	// Go's own value of 100 collects every few dozen requests.
	heapGrowth = 400
)

// fit makes the Go runtime fit an environment of so much memory that serves so many requests at a time; 0 MB is an unknown
// size. In a share of one CPU a second thread that runs Go code only takes from the first: a handful of goroutines pass one
// request along, and each hand-over would wake a thread. That, and collecting less often, saves about a quarter of the CPU
// time of a request each (make bench, 2026-11-30). The limit makes collection frequent before the memory is used up.
func fit(memoryMB, concurrency int) {
	if memoryMB <= 0 {
		return
	}
	if memoryMB < oneCPU && concurrency == 1 {
		runtime.GOMAXPROCS(1)
	}
	debug.SetGCPercent(heapGrowth)
	debug.SetMemoryLimit(int64(memoryMB) << 20 / 4 * 3)
}
