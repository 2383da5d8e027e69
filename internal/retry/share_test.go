package retry_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"spillway/internal/retry"
)

// TestAnIncidentUsesUpItsOwnShare: a route that always falls back pays with its own requests, twice a request more than
// it earns; another tenant's buckets stay full.
func TestAnIncidentUsesUpItsOwnShare(t *testing.T) {
	var s retry.Shares
	mine, other := retry.Tenant{Organization: "a", Route: "r"}, retry.Tenant{Organization: "b", Route: "r"}
	served := 0
	for !s.Of(mine).NoMoves() {
		s.Change(mine, retry.Buckets.Requested)
		s.Change(mine, retry.Buckets.Moved)
		s.Change(mine, retry.Buckets.Moved)
		served++
	}
	assert.Equal(t, 9, served, "two moves for one request earned, from ten")
	assert.Equal(t, retry.Full(), s.Of(other))
	assert.False(t, s.Of(mine).NoRetries(), "moves do not pay for retries")
	s.Change(mine, retry.Buckets.Requested)
	assert.False(t, s.Of(mine).NoMoves(), "an own request earns a move")
}

func TestOneMoveARequestNeverRunsOut(t *testing.T) {
	var s retry.Shares
	tenant := retry.Tenant{Organization: "a", Route: "r"}
	for range 1000 {
		s.Change(tenant, retry.Buckets.Requested)
		assert.False(t, s.Of(tenant).NoMoves())
		s.Change(tenant, retry.Buckets.Moved)
	}
}

// TestRetriesAreEarned: ten at once, then one for five successes.
func TestRetriesAreEarned(t *testing.T) {
	b := retry.Full()
	for i := range 10 {
		assert.False(t, b.NoRetries(), "retry %d", i+1)
		b = b.Retried()
	}
	assert.True(t, b.NoRetries())
	for range 4 {
		b = b.Succeeded()
	}
	assert.True(t, b.NoRetries())
	assert.False(t, b.Succeeded().NoRetries())
	assert.Equal(t, 0.0, retry.Buckets{}.Retried().Retries, "never below nothing")
	assert.Equal(t, retry.Full(), retry.Full().Succeeded().Requested(), "never above all")
}

// TestSharesAreBounded: tenants beyond the bound are let through, and what is full again is forgotten.
func TestSharesAreBounded(t *testing.T) {
	var s retry.Shares
	var done sync.WaitGroup
	for i := range 5000 {
		done.Go(func() { s.Change(retry.Tenant{Organization: fmt.Sprint(i)}, retry.Buckets.Moved) })
	}
	done.Wait()
	kept := 0
	for i := range 5000 {
		tenant := retry.Tenant{Organization: fmt.Sprint(i)}
		if s.Of(tenant) != retry.Full() {
			kept++
		}
		s.Change(tenant, func(retry.Buckets) retry.Buckets { return retry.Full() })
	}
	assert.Equal(t, 4096, kept)
	s.Change(retry.Tenant{Organization: "new"}, retry.Buckets.Moved)
	assert.NotEqual(t, retry.Full(), s.Of(retry.Tenant{Organization: "new"}), "there is room again")
}
