package edge_test

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"

	"spillway/internal/edge"
)

func TestTheRuntimeFitsItsEnvironment(t *testing.T) {
	const threads = 4
	for name, tc := range map[string]struct {
		memoryMB, concurrency       int
		threads, heapGrowth, limits int
	}{
		"a share of a CPU, one request at a time":      {256, 1, 1, 400, 192},
		"the last size with a share of one CPU":        {1768, 1, 1, 400, 1326},
		"one CPU and more":                             {1769, 1, threads, 400, 1326},
		"several requests at a time":                   {256, 8, threads, 400, 192},
		"a size that nobody knows: all stays as it is": {0, 1, threads, 100, 0},
	} {
		t.Run(name, func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
			defer debug.SetGCPercent(debug.SetGCPercent(100))
			defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
			edge.Fit(tc.memoryMB, tc.concurrency)
			assert.Equal(t, tc.threads, runtime.GOMAXPROCS(0))
			growth := debug.SetGCPercent(100)
			assert.Equal(t, tc.heapGrowth, growth)
			limit := debug.SetMemoryLimit(-1)
			if tc.limits == 0 {
				assert.Equal(t, int64(math.MaxInt64), limit)
				return
			}
			assert.Equal(t, int64(tc.limits), limit>>20)
		})
	}
}
