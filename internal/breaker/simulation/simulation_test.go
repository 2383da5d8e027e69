package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// seeds of the test; the command runs 3,000.
const few = 16

// TestTheBoundsHold runs the cells for which something is promised, with few seeds. The false openings of all of them are
// taken together: a few minutes of one cell say nothing of an hour.
func TestTheBoundsHold(t *testing.T) {
	var all []openings
	for _, rate := range rates {
		for _, size := range sizes {
			c := cell{rate, size}
			if !c.promised() {
				continue
			}
			r := simulate(c, few)
			all = append(all, r.errors...)
			r.errors = []openings{{watched: time.Hour}}
			assert.Empty(t, r.misses())
			r.print(t.Output())
		}
	}
	first, again := perHour(all)
	t.Logf("false openings an hour: %.2f, again: %.2f", first, again)
	assert.LessOrEqual(t, first, float64(maxOpenings))
}

func TestF15(t *testing.T) {
	for _, environments := range []int{1, 8} {
		worst, misses := f15(300, environments)
		t.Logf("%d environments: at most %d primary calls, used again after at most %v", environments, worst.calls, worst.usedAgain)
		assert.Empty(t, misses)
		assert.Positive(t, worst.calls)
	}
}

// TestTheSeedDecides: the same seed gives the same run, another seed another one.
func TestTheSeedDecides(t *testing.T) {
	c := cell{1, 8}
	one := runOutage(1, c, refusing)
	assert.Equal(t, one, runOutage(1, c, refusing))
	assert.NotEqual(t, one, runOutage(2, c, refusing))
}

// TestAMissIsSaid: the bounds are checked, and not only printed.
func TestAMissIsSaid(t *testing.T) {
	r := row{cell: cell{10, 8},
		refusing: []outage{{calls: maxCalls + 1}},
		silent:   []outage{{calls: maxCalls, probes: 2}},
		errors:   []openings{{first: 3, watched: time.Hour}}}
	assert.Equal(t, []string{
		"10 requests/s over 8 environments, refusing: median of 21 primary calls, promised 20",
		"10 requests/s over 8 environments, silent: 2 probes at once",
		"10 requests/s over 8 environments: 3.00 false openings an hour, promised 2"}, r.misses())
	r.environments = 50
	assert.Len(t, r.misses(), 1, "two probes at once are promised to nobody")
}

func TestTheReportEndsWithAVerdict(t *testing.T) {
	var out bytes.Buffer
	assert.Zero(t, run(&out, 1, cell{1, 1}))
	assert.Contains(t, out.String(), "every bound holds\n")
	assert.Contains(t, out.String(), "F15 over 8 environments: ")
}
