package usage_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/usage"
)

func TestPeriodsAndTiers(t *testing.T) {
	day := func(hour, minute int) time.Time { return time.Date(2026, 8, 20, hour, minute, 0, 0, time.UTC) }
	for name, tc := range map[string]struct {
		list  string
		at    time.Time
		input int64
		want  string // dollars for input; empty: none
		out   string
	}{
		"one block holds always":                        {list: "in 1 out 2", at: now, want: "1", out: "2"},
		"a tier begins above its limit":                 {list: "in 1 out 2; over 10 in 3 out 4", at: now, input: 10, want: "1", out: "2"},
		"a tier reprices the output by the input":       {list: "in 1 out 2; over 10 in 3 out 4", at: now, input: 11, want: "3", out: "4"},
		"a tier leaves the units that it does not name": {list: "in 1 out 2; over 10 in 3", at: now, input: 11, want: "3", out: "2"},
		"of two tiers the higher one":                   {list: "in 1 out 2; over 10 in 3 out 4; over 20 in 5", at: now, input: 21, want: "5", out: "4"},
		"the lower of two tiers":                        {list: "in 1 out 2; over 10 in 3 out 4; over 20 in 5", at: now, input: 20, want: "3", out: "4"},
		"before a date":                                 {list: "in 1 out 2; from 2026-08-21 in 3 out 4", at: day(23, 59), want: "1", out: "2"},
		"on a date":                                     {list: "in 1 out 2; from 2026-08-20 in 3 out 4", at: day(0, 0), want: "3", out: "4"},
		"a date begins in UTC":                          {list: "in 1; from 2026-08-20 in 3", at: time.Date(2026, 8, 20, 1, 0, 0, 0, time.FixedZone("", 2*3600)), want: "1"},
		"a period replaces all rates":                   {list: "in 1 out 2; from 2026-01-01 in 3", at: now, want: "3"},
		"a tier belongs to its period alone":            {list: "in 1 out 2; over 10 in 9; from 2026-01-01 in 3", at: now, input: 11, want: "3"},
		"a tier of a period that does not hold":         {list: "in 1 out 2; from 2027-01-01 in 3; over 10 in 9", at: now, input: 11, want: "1", out: "2"},
		"a tier of a period that holds":                 {list: "in 1 out 2; from 2026-01-01 in 3; over 10 in 9", at: now, input: 11, want: "9"},
		"the last period that holds wins":               {list: "in 1; from 2026-01-01 in 2; from 2026-02-01 in 3; from 2027-01-01 in 4", at: now, want: "3"},
		"the last one wins whatever its date":           {list: "in 1; from 2026-02-01 in 3; from 2026-01-01 in 2", at: now, want: "2"},
		"at the beginning of a time of day":             {list: "in 1; daily 00:30-16:30 in 2", at: day(0, 30), want: "2"},
		"before it":                                     {list: "in 1; daily 00:30-16:30 in 2", at: day(0, 29).Add(59 * time.Second), want: "1"},
		"at its end":                                    {list: "in 1; daily 00:30-16:30 in 2", at: day(16, 30), want: "1"},
		"just before its end":                           {list: "in 1; daily 00:30-16:30 in 2", at: day(16, 29).Add(59 * time.Second), want: "2"},
		"past midnight, in the evening":                 {list: "in 1; daily 22:00-04:00 in 2", at: day(22, 0), want: "2"},
		"past midnight, in the morning":                 {list: "in 1; daily 22:00-04:00 in 2", at: day(3, 59), want: "2"},
		"past midnight, at noon":                        {list: "in 1; daily 22:00-04:00 in 2", at: day(12, 0), want: "1"},
		"a time of day after a date, outside of it":     {list: "in 1; from 2026-08-17 in 2; daily 01:00-04:00 in 3", at: day(5, 0), want: "2"},
		"a time of day after a date, within it":         {list: "in 1; from 2026-08-17 in 2; daily 01:00-04:00 in 3", at: day(2, 0), want: "3"},
		"a time of day is in UTC":                       {list: "in 1; daily 01:00-02:00 in 3", at: time.Date(2026, 8, 20, 3, 30, 0, 0, time.FixedZone("", 2*3600)), want: "3"},
		"the smallest amount":                           {list: "in 0.000001 out 999999999.999999", at: now, want: "0.000001", out: "999999999.999999"},
		"zero is a price":                               {list: "in 0 out 0", at: now, want: "0", out: "0"},
		"a list of other units has no input":            {list: "hour 0.36", at: now},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := usage.PriceOf(tc.list)
			require.NoError(t, err)
			r, ok := p.At(tc.at, tc.input)
			require.True(t, ok)
			for u, want := range map[usage.Unit]string{usage.Input: tc.want, usage.Output: tc.out} {
				rate, ok := r.Of(u)
				assert.Equal(t, want != "", ok, "%v", u)
				if want != "" {
					assert.Equal(t, want, perMillion(rate), "%v", u)
				}
			}
		})
	}
}

func TestZeroPrice(t *testing.T) {
	_, ok := usage.Price{}.At(now, 0)
	assert.False(t, ok)
}

func TestUnreadableList(t *testing.T) {
	p, err := usage.PriceOf("in 1; over many in 2")
	require.Error(t, err)
	_, ok := p.At(now, 0)
	assert.False(t, ok)
}

// TestDeepSeek is the one list of the source that mixes dates and times of day.
func TestDeepSeek(t *testing.T) {
	p, ok := usage.Embedded().Lookup("deepseek", "deepseek-v4-flash")
	require.True(t, ok)
	for name, tc := range map[string]struct {
		at   time.Time
		want string
	}{
		"before the new prices":         {time.Date(2026, 8, 16, 2, 0, 0, 0, time.UTC), "0.44"}, // the source lists the peak without a date
		"before them, off the peak":     {time.Date(2026, 8, 16, 12, 0, 0, 0, time.UTC), "0.14"},
		"off the peak":                  {time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), "0.22"},
		"in the first peak of the day":  {time.Date(2026, 11, 30, 1, 0, 0, 0, time.UTC), "0.44"},
		"in the second peak of the day": {time.Date(2026, 11, 30, 9, 59, 0, 0, time.UTC), "0.44"},
		"between the peaks":             {time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC), "0.22"},
	} {
		t.Run(name, func(t *testing.T) {
			r, ok := p.At(tc.at, 0)
			require.True(t, ok)
			rate, _ := r.Of(usage.Input)
			assert.Equal(t, tc.want, perMillion(rate))
		})
	}
}
