package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"spillway/internal/breaker"
)

// show prints what the environments share, one line a key; of the key only alone if it is named.
func show(w io.Writer, s breaker.Snapshot, only string, now time.Time) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CIRCUIT\tSTATE\tSINCE\tOPENINGS\tCLASS\tNEXT\tHOLDS")
	shown := 0
	for _, k := range slices.Sorted(maps.Keys(s)) {
		e := s[k]
		if only != "" && k != only || only == "" && e.Circuit.Plain(now) && e.Holds.None(now) {
			continue
		}
		shown++
		c := e.Circuit
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", k, c.State, ago(c.OpenedAt, now), c.Opens, or(string(c.Class)), next(c, now), holds(e.Holds, now))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if shown == 0 {
		fmt.Fprintln(w, "nothing: what is not shown is closed, and not held")
	}
	return nil
}

// next is what will happen to a circuit.
func next(c breaker.Circuit, now time.Time) string {
	switch {
	case c.State == breaker.Open && now.Before(c.Until):
		return "a probe in " + in(c.Until, now)
	case c.State == breaker.Open:
		return "a probe is due"
	case c.State == breaker.HalfOpen && c.Lease.Live(now):
		return fmt.Sprintf("a probe is on its way, %s left; %d passed", in(c.Lease.Until, now), c.Passed)
	case c.State == breaker.HalfOpen:
		return fmt.Sprintf("a probe is due; %d passed", c.Passed)
	case c.Watched(now):
		return "watched for " + in(c.WatchUntil, now)
	default:
		return "-"
	}
}

// holds is what keeps a candidate from being called besides its circuit.
func holds(h breaker.Holds, now time.Time) string {
	var held []string
	if h.Throttled(now) {
		held = append(held, "passed over for "+in(h.ThrottledUntil, now))
	}
	if h.Answers(now) {
		held = append(held, fmt.Sprintf("answered from memory for %s: %s, status %d", in(h.Remembered.Until, now), h.Remembered.Class, h.Remembered.Status))
	}
	return or(strings.Join(held, "; "))
}

func in(t, now time.Time) string { return t.Sub(now).Round(time.Second).String() }

func ago(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return in(now, t) + " ago"
}

// or is text, or a dash where there is none: no column is ever empty.
func or(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
