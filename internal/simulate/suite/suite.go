package suite

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// parallel rows; each is a process that mostly waits.
	parallel = 24
	// limit of the whole run.
	limit = 240 * time.Second
)

// Options choose what Run does. The zero value builds the gateway and runs every row.
type Options struct {
	// Bin is the folder that the gateway is built into; empty is a temporary one.
	Bin string
	// Only, when not empty, are the rows to run: a name, or its number ("F03").
	Only []string
}

// trial is a row in a mode, and what came of it.
type trial struct {
	row      Row
	mode     Mode
	verdict  Verdict
	why      []string
	observed []Observation
	done     chan struct{}
}

// Run runs the fault suite and reports it to out, one line a row and mode. ok is
// false when a row failed; err says that the suite itself could not run.
func Run(ctx context.Context, o Options, out io.Writer) (ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	trials, err := plan(o.Only)
	if err != nil {
		return false, err
	}
	scratch, err := os.MkdirTemp("", "faults-")
	if err != nil {
		return false, fmt.Errorf("making a scratch folder: %w", err)
	}
	defer os.RemoveAll(scratch)
	if o.Bin == "" {
		o.Bin = scratch
	}
	bootstrap, err := build(ctx, o.Bin)
	if err != nil {
		return false, err
	}
	go start(ctx, trials, bootstrap, scratch)
	return report(trials, out), nil
}

// build makes the gateway's bootstrap as it is deployed, but for this machine.
func build(ctx context.Context, folder string) (string, error) {
	bootstrap, err := filepath.Abs(filepath.Join(folder, "bootstrap"))
	if err != nil {
		return "", fmt.Errorf("locating the gateway's binary: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "lambda.norpc", "-o", bootstrap, "spillway/functions/gateway")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the gateway: %w\n%s", err, output)
	}
	return bootstrap, nil
}

// plan lists the trials in the order of the table. A name that no row has is an
// error: a run of fewer rows than were asked for would look green.
func plan(only []string) ([]*trial, error) {
	var out []*trial
	unknown := slices.Clone(only)
	for _, row := range slices.Concat(Rows, Plays) {
		number, _, _ := strings.Cut(row.Name, " ")
		meant := func(name string) bool { return name == row.Name || name == number }
		if len(only) > 0 && !slices.ContainsFunc(only, meant) {
			continue
		}
		unknown = slices.DeleteFunc(unknown, meant)
		for _, mode := range []Mode{Live, Complete} {
			if _, ok := row.Recorded[mode]; ok {
				out = append(out, &trial{row: row, mode: mode, done: make(chan struct{})})
			}
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("no row is named %s", strings.Join(unknown, ", "))
	}
	return out, nil
}

// start runs the trials, the longest first; each closes its done.
func start(ctx context.Context, trials []*trial, bootstrap, scratch string) {
	longestFirst := slices.Clone(trials)
	slices.SortStableFunc(longestFirst, func(a, b *trial) int {
		return cmp.Compare(b.row.length(b.mode), a.row.length(a.mode))
	})
	places := make(chan struct{}, parallel)
	for i, t := range longestFirst {
		places <- struct{}{}
		go func() {
			defer func() { <-places }()
			defer close(t.done)
			t.run(ctx, bootstrap, filepath.Join(scratch, itoa(i)))
		}()
	}
}

func (t *trial) run(ctx context.Context, bootstrap, dir string) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.verdict, t.why = Fail, []string{err.Error()}
		return
	}
	b, err := newBench(t.row, t.mode, bootstrap, dir)
	if err != nil {
		t.verdict, t.why = Fail, []string{err.Error()}
		return
	}
	t.observed, err = b.observe(ctx)
	if t.row.Play != nil {
		t.verdict, t.why = b.found.verdict()
	} else {
		t.verdict, t.why = t.row.verdict(t.mode, t.observed)
	}
	if err != nil {
		t.verdict, t.why = Fail, append(t.why, err.Error())
	}
}

// lasted is the time from the first request to the end of the last.
func lasted(all []Observation) time.Duration {
	if len(all) == 0 {
		return 0
	}
	last := all[len(all)-1]
	return last.Began.Add(last.Elapsed).Sub(all[0].Began)
}

// report prints each trial when it and those before it are done.
func report(trials []*trial, out io.Writer) (ok bool) {
	line := func(columns ...any) {
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("%-20s  %-8s  %-7s  %7s  %7s  %7s  %s", columns...), " "))
	}
	line("row", "mode", "verdict", "calls A", "calls B", "seconds", "class")
	counts := map[Verdict]int{}
	for _, t := range trials {
		<-t.done
		counts[t.verdict]++
		a, b := t.row.callsOf(t.observed)
		var classes []string
		for _, o := range t.observed {
			classes = append(classes, o.classes()...)
		}
		line(t.row.Name, t.mode, t.verdict, a, b, fmt.Sprintf("%.2f", lasted(t.observed).Seconds()), strings.Join(slices.Compact(classes), ", "))
		for _, why := range t.why {
			fmt.Fprintf(out, "            %s\n", why)
		}
	}
	fmt.Fprintf(out, "faults: %d rows, %d pass, %d safe, %d failed\n", len(trials), counts[Pass], counts[Safe], counts[Fail])
	return counts[Fail] == 0
}
