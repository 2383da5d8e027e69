package storetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/trace"
)

// Traces runs what every trace.Store must do.
func Traces(t *testing.T, s trace.Store) {
	ctx := t.Context()
	now := truncated(time.Now())
	id := func() string { return fmt.Sprintf("req_%016x", rand.Uint64()) }
	cost := int64(1500)
	story := func() trace.Trace {
		return trace.Trace{RequestID: id(), Kept: trace.FellBack, Route: "fast", StartedAt: now, Outcome: "answered", Status: 200, Provider: "b", Fallback: true,
			Calls: 2, Duration: 1234.5, Cost: &cost, Tags: map[string]string{"app": "a"}, Considered: []trace.Channel{{Channel: "a", Reason: "ok"}},
			Attempts: []trace.Attempt{{N: 1, Channel: "a", Class: "server_error", Decision: "next", Wait: 200},
				{N: 2, Channel: "b", Decision: "answered", Usage: &trace.Usage{Prompt: 1, Completion: 2}, Cost: &cost}}}.Sealed()
	}
	get := func(t *testing.T, organization, id string) *trace.Trace {
		t.Helper()
		got, err := s.Get(ctx, trace.Key{Organization: organization, RequestID: id})
		require.NoError(t, err)
		return got
	}
	t.Run("a request that left no trace has none", func(t *testing.T) { assert.Nil(t, get(t, "acme", id())) })
	t.Run("a trace is read back as it was written", func(t *testing.T) {
		written := story()
		require.NoError(t, s.Put(ctx, "acme", written))
		assert.Equal(t, &written, get(t, "acme", written.RequestID))
	})
	t.Run("a trace is its organization's alone", func(t *testing.T) {
		written := story()
		require.NoError(t, s.Put(ctx, "acme", written))
		assert.Nil(t, get(t, "other", written.RequestID))
		assert.Nil(t, get(t, "acme#"+written.RequestID, ""))
	})
	t.Run("of two with the same id the one that is written last counts", func(t *testing.T) {
		first := story()
		require.NoError(t, s.Put(ctx, "acme", first))
		second := story()
		second.RequestID, second.Attempts, second.Class = first.RequestID, []trace.Attempt{}, "auth"
		require.NoError(t, s.Put(ctx, "acme", second))
		assert.Equal(t, &second, get(t, "acme", first.RequestID))
	})
	t.Run("the largest one fits", func(t *testing.T) {
		written := story()
		long := strings.Repeat("\x01", 300)
		for range 1000 {
			written.Attempts = append(written.Attempts, trace.Attempt{Channel: long[:256], Provider: long[:64], Model: long[:256], Served: long, Region: long[:64],
				Credential: long[:64], Class: "server_error", Type: long, Code: long, ProviderRequestID: long, Usage: &trace.Usage{}, Cost: &cost})
			written.Considered = append(written.Considered, trace.Channel{Channel: long[:256], Reason: "no_tools"})
		}
		written.Model = long
		written = written.Sealed()
		assert.True(t, written.Shortened)
		require.NoError(t, s.Put(ctx, "acme", written))
		assert.Equal(t, &written, get(t, "acme", written.RequestID))
	})
}
