package trace_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/storetest"
	"spillway/internal/trace"
)

func TestTheMemoryKeepsWhatAStoreMust(t *testing.T) { storetest.Traces(t, &trace.Memory{}) }

func TestTheMemoryHoldsTheLatestThousand(t *testing.T) {
	m := &trace.Memory{}
	for i := range 1001 {
		require.NoError(t, m.Put(t.Context(), "acme", trace.Trace{RequestID: fmt.Sprint(i)}))
	}
	for id, there := range map[string]bool{"0": false, "1": true, "1000": true} {
		got, err := m.Get(t.Context(), trace.Key{Organization: "acme", RequestID: id})
		require.NoError(t, err)
		assert.Equal(t, there, got != nil, id)
	}
}

func TestWhichRequestsLeaveATrace(t *testing.T) {
	for name, c := range map[string]struct {
		course trace.Course
		sample float64
		random float64
		want   trace.Reason
		drawn  bool
	}{
		"one that went well":                             {trace.Course{}, 0, 0, trace.NotKept, false},
		"one that went well, and is drawn":               {trace.Course{}, 0.25, 0.2, trace.Sampled, true},
		"one that went well, and is not drawn":           {trace.Course{}, 0.25, 0.25, trace.NotKept, true},
		"every one, if all are wanted":                   {trace.Course{}, 1, 0.999, trace.Sampled, true},
		"one that failed":                                {trace.Course{Failed: true}, 0, 0, trace.Failed, false},
		"one that failed after a fallback has failed":    {trace.Course{Failed: true, FellBack: true, Retried: true}, 1, 0, trace.Failed, false},
		"one that fell back":                             {trace.Course{FellBack: true, CredentialFallback: true, Retried: true}, 0, 0, trace.FellBack, false},
		"one that was answered with a second credential": {trace.Course{CredentialFallback: true, Retried: true}, 0, 0, trace.CredentialFallback, false},
		"one that was retried":                           {trace.Course{Retried: true}, 0, 0, trace.Retried, false},
	} {
		t.Run(name, func(t *testing.T) {
			drawn := false
			got := trace.Keep(c.course, c.sample, func() float64 { drawn = true; return c.random })
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.drawn, drawn, "randomness is drawn only when it matters")
		})
	}
}

func TestASealedTraceKeepsItsBounds(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 123_456_789, time.FixedZone("", 3600))
	attempts := make([]trace.Attempt, 40)
	attempts[0].Code = strings.Repeat("é", 200)
	given := trace.Trace{StartedAt: now, Attempts: attempts}
	sealed := given.Sealed()
	assert.Len(t, sealed.Attempts, 32)
	assert.True(t, sealed.Shortened)
	assert.Equal(t, strings.Repeat("é", 64), sealed.Attempts[0].Code)
	assert.Equal(t, strings.Repeat("é", 200), attempts[0].Code, "what was given is not changed")
	assert.Equal(t, time.Date(2029, 12, 31, 23, 0, 0, 123_000_000, time.UTC), sealed.StartedAt)
	assert.True(t, sealed.Live(now.Add(6*24*time.Hour)))
	assert.False(t, sealed.Live(now.Add(7*24*time.Hour)))
	assert.False(t, (*trace.Trace)(nil).Live(now))
	assert.Equal(t, sealed, sealed.Sealed(), "once is enough")
}

// TestAnEmptyTraceHasItsLists: a client need not tell null from nothing.
func TestAnEmptyTraceHasItsLists(t *testing.T) {
	text, err := json.Marshal(trace.Trace{}.Sealed())
	require.NoError(t, err)
	assert.Contains(t, string(text), `"attempts":[]`)
	assert.Contains(t, string(text), `"considered":[]`)
	assert.Contains(t, string(text), `"cost_nano_usd":null`)
}
