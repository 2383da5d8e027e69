package suite

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// parallel rows; each is a process that mostly waits.
	parallel = 24
	// stagger is the time between the starts of two rows: dozens of processes that boot at once would be a fault of its own.
	stagger = 40 * time.Millisecond
	// limit of the whole run.
	limit = 240 * time.Second
)

// Options choose what Run does. The zero value builds the gateway and runs every row.
type Options struct {
	// Bin is the folder that the gateway is built into; empty is a temporary one.
	Bin string
	// Only, when not empty, are the rows to run: a name, or its number ("F03").
	Only []string
	// Seed is where the randomness of rows with media jobs begins; 0 is one that is drawn. It is printed with what depends on it.
	Seed uint64
}

// trial is a row in a mode, and what came of it.
type trial struct {
	row      Row
	mode     Mode
	verdict  Verdict
	why      []string
	notes    []string
	observed []Observation
	jobs     []life // of a row with jobs
	done     chan struct{}
}

// binaries are the functions' bootstraps.
type binaries struct{ gateway, poller, sweeper string }

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
	bin, err := buildFor(ctx, trials, o.Bin)
	if err != nil {
		return false, err
	}
	go start(ctx, trials, stage{bin: bin, scratch: scratch, seed: cmp.Or(o.Seed, rand.Uint64())})
	return report(trials, out), nil
}

// buildFor makes the bootstraps that the trials need.
func buildFor(ctx context.Context, trials []*trial, folder string) (bin binaries, err error) {
	functions := map[string]*string{"gateway": &bin.gateway}
	if slices.ContainsFunc(trials, func(t *trial) bool { return t.row.Job != nil }) {
		functions["poller"], functions["sweeper"] = &bin.poller, &bin.sweeper
	}
	for name, at := range functions {
		if *at, err = build(ctx, folder, name); err != nil {
			return bin, err
		}
	}
	return bin, nil
}

// build makes a function's bootstrap as it is deployed, but for this machine.
func build(ctx context.Context, folder, function string) (string, error) {
	bootstrap, err := filepath.Abs(filepath.Join(folder, function, "bootstrap"))
	if err != nil {
		return "", fmt.Errorf("locating the binary of the %s: %w", function, err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "lambda.norpc", "-o", bootstrap, "spillway/functions/"+function)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the %s: %w\n%s", function, err, output)
	}
	return bootstrap, nil
}

// stage is what all trials of a run stand on.
type stage struct {
	bin     binaries
	scratch string
	seed    uint64
}

// plan lists the trials in the order of the table. A name that no row has is an
// error: a run of fewer rows than were asked for would look green.
func plan(only []string) ([]*trial, error) {
	var out []*trial
	unknown := slices.Clone(only)
	for _, row := range slices.Concat(Rows, Plays, JobRows) {
		number, _, _ := strings.Cut(row.Name, " ")
		meant := func(name string) bool { return name == row.Name || name == number }
		if len(only) > 0 && !slices.ContainsFunc(only, meant) {
			continue
		}
		unknown = slices.DeleteFunc(unknown, meant)
		for _, mode := range []Mode{Live, Complete, Jobs} {
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

// start runs the trials, the longest first, and at the end those that run alone; each closes its done.
func start(ctx context.Context, trials []*trial, s stage) {
	longestFirst := slices.Clone(trials)
	slices.SortStableFunc(longestFirst, func(a, b *trial) int {
		return cmp.Compare(b.row.length(b.mode), a.row.length(a.mode))
	})
	places := make(chan struct{}, parallel)
	var together sync.WaitGroup
	for i, t := range longestFirst {
		if t.row.Alone {
			continue
		}
		places <- struct{}{}
		pause(ctx, stagger)
		together.Go(func() {
			defer func() { <-places }()
			defer close(t.done)
			t.run(ctx, s, filepath.Join(s.scratch, itoa(i)))
		})
	}
	together.Wait()
	for i, t := range longestFirst {
		if t.row.Alone {
			t.run(ctx, s, filepath.Join(s.scratch, itoa(i)))
			close(t.done)
		}
	}
}

func (t *trial) run(ctx context.Context, s stage, dir string) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.verdict, t.why = Fail, []string{err.Error()}
		return
	}
	if t.row.Job != nil {
		t.runJobs(ctx, s, dir)
		return
	}
	b, err := newBench(t.row, t.mode, s.bin.gateway, dir)
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

// runJobs runs a row of jobs.
func (t *trial) runJobs(ctx context.Context, on stage, dir string) {
	began := time.Now()
	s, err := newStudio(t.row, on.bin, dir, on.seed)
	if err != nil {
		t.verdict, t.why = Fail, []string{err.Error()}
		return
	}
	var f Findings
	t.jobs = t.row.Job(ctx, s, &f)
	s.checkLog(&f)
	if err := s.stop(); err != nil {
		f.addf("%v", err)
	}
	if ctx.Err() != nil {
		f.addf("the suite's time is over: %v", ctx.Err())
	}
	t.verdict, t.why = f.verdict()
	t.notes = s.notes
	t.observed = []Observation{{Began: began, Elapsed: time.Since(began)}}
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
		a, b, classes := t.account()
		line(t.row.Name, t.mode, t.verdict, a, b, fmt.Sprintf("%.2f", lasted(t.observed).Seconds()), classes)
		for _, why := range slices.Concat(t.notes, t.why) {
			fmt.Fprintf(out, "            %s\n", why)
		}
	}
	fmt.Fprintf(out, "faults: %d rows, %d pass, %d safe, %d failed\n", len(trials), counts[Pass], counts[Safe], counts[Fail])
	return counts[Fail] == 0
}

// account is what a trial's line says of calls and classes. Of jobs it is their submits, their polls and how they have ended.
func (t *trial) account() (a, b, classes string) {
	if t.row.Job != nil {
		return accountOf(t.jobs)
	}
	a, b = t.row.callsOf(t.observed)
	var all []string
	for _, o := range t.observed {
		all = append(all, o.classes()...)
	}
	return a, b, strings.Join(slices.Compact(all), ", ")
}
