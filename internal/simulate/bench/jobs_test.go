package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSimulatedJobsAreTheSameForASeed(t *testing.T) {
	for _, s := range shops {
		t.Run(s.kind, func(t *testing.T) {
			first, sweeps, err := simulateJobs(7, 20, s, s.lengths[len(s.lengths)-1])
			require.NoError(t, err)
			again, sweepsAgain, err := simulateJobs(7, 20, s, s.lengths[len(s.lengths)-1])
			require.NoError(t, err)
			assert.Equal(t, first, again)
			assert.Equal(t, sweeps, sweepsAgain)
			assert.Len(t, first, 20)
		})
	}
}

func TestAJobOf20MinutesNeedsFewPolls(t *testing.T) {
	for _, s := range shops {
		if s.atOnce {
			continue
		}
		t.Run(s.kind, func(t *testing.T) {
			all, _, err := simulateJobs(1, 50, s, 20*time.Minute)
			require.NoError(t, err)
			for _, c := range all {
				assert.Less(t, c.polls, 40)
				assert.Equal(t, c.polls, c.jobs, "each poll has a message of its own, and none is sent in vain")
				assert.Equal(t, 1, c.webhooks)
				assert.Less(t, c.waited, 75*time.Second, "the longest pause, what the queue's seconds add to it, and a second question")
			}
		})
	}
}

func TestAWorkInTheAnswerIsNeverAskedFor(t *testing.T) {
	s := shops[2]
	require.True(t, s.atOnce)
	all, _, err := simulateJobs(1, 5, s, 20*time.Second)
	require.NoError(t, err)
	for _, c := range all {
		assert.Equal(t, [4]int{0, 0, 1, 1}, [4]int{c.polls, c.jobs, c.generate, c.webhooks})
	}
}

func TestJobsThatDoNotSucceedAreNoFigures(t *testing.T) {
	_, _, err := simulateJobs(1, 3, shops[0], time.Hour) // past their deadline
	assert.ErrorContains(t, err, "a job is expired")
}

func TestPercentile(t *testing.T) {
	var all []course
	for i := range 200 {
		all = append(all, course{polls: (i*7)%200 + 1})
	}
	polls := func(c course) float64 { return float64(c.polls) }
	assert.InDelta(t, 190, percentile(all, polls, 95), 0)
	assert.InDelta(t, 200, percentile(all, polls, 100), 0)
	assert.InDelta(t, 1, percentile(all[:1], polls, 95), 0)
}
