package retry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"spillway/internal/retry"
)

// TestLimitsOfAnAttempt is contract.md §3.4.
func TestLimitsOfAnAttempt(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		turn         retry.Turn
		content, all time.Duration // with and without streaming
	}{
		"while others are left":                   {retry.Turn{Others: true, First: true, Rest: 120 * s}, 10 * s, 100 * s},
		"a second call while others are left":     {retry.Turn{Others: true, Rest: 120 * s}, 10 * s, 100 * s},
		"a long input has more time":              {retry.Turn{Others: true, Rest: 120 * s, InputTokens: 80_000}, 20 * s, 100 * s},
		"a short input has no more":               {retry.Turn{Others: true, Rest: 120 * s, InputTokens: 7_999}, 10 * s, 100 * s},
		"a channel's own limit":                   {retry.Turn{Others: true, Rest: 120 * s, Own: 60 * s}, 60 * s, 60 * s},
		"its own limit, whatever the input":       {retry.Turn{Others: true, Rest: 120 * s, Own: 60 * s, InputTokens: 80_000}, 60 * s, 60 * s},
		"its own limit within the rest":           {retry.Turn{Others: true, Rest: 30 * s, Own: 60 * s}, 30 * s, 30 * s},
		"the default within the rest":             {retry.Turn{Others: true, Rest: 8 * s}, 8 * s, 1 * s},
		"the last one, first call":                {retry.Turn{First: true, Rest: 121 * s}, 60 * s, 60 * s},
		"the last one, first call, own limit":     {retry.Turn{First: true, Rest: 121 * s, Own: 8 * s}, 8 * s, 8 * s},
		"the last one, own limit beyond the half": {retry.Turn{First: true, Rest: 121 * s, Own: 100 * s}, 60 * s, 60 * s},
		"the last one, own limit of a moment":     {retry.Turn{First: true, Rest: 5 * s, Own: 300 * time.Millisecond}, 300 * time.Millisecond, 300 * time.Millisecond},
		"the last one, second call":               {retry.Turn{Rest: 60 * s, Own: 8 * s}, 60 * s, 60 * s},
		"the last one, little time":               {retry.Turn{First: true, Rest: 2 * s}, 1 * s, 1 * s},
		"the last one, less than the useful time": {retry.Turn{First: true, Rest: s / 2}, s / 2, s / 2},
	} {
		t.Run(name, func(t *testing.T) {
			l := retry.Default()
			assert.Equal(t, c.content, l.FirstContent(c.turn), "first content")
			assert.Equal(t, c.all, l.Plain(c.turn), "without streaming")
		})
	}
}

// TestLimitsStayWithinTheRest: no attempt may take longer than what is left, and none is given nothing.
func TestLimitsStayWithinTheRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		turn := retry.Turn{Rest: time.Duration(rapid.Int64Range(int64(time.Second), int64(15*time.Minute)).Draw(t, "rest")),
			Own: time.Duration(rapid.Int64Range(0, int64(2*time.Minute)).Draw(t, "own")), InputTokens: rapid.Int64Range(0, 2_000_000).Draw(t, "tokens"),
			Others: rapid.Bool().Draw(t, "others"), First: rapid.Bool().Draw(t, "first")}
		for _, d := range []time.Duration{retry.Default().FirstContent(turn), retry.Default().Plain(turn)} {
			assert.LessOrEqual(t, d, turn.Rest)
			assert.Positive(t, d)
		}
	})
}
