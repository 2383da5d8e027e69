package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// report is the table: figures under their sections, in the order in which they first came.
type report struct {
	figures []*figure
}

// figure is one line of the table.
type figure struct {
	section, name, unit string
	// target is the most that it should be; 0: it is there for comparison.
	target float64
	runs   []float64
	// missing says why it could not be measured.
	missing string
}

// add notes what one run found.
func (r *report) add(f figure, value float64) {
	line := r.line(f)
	line.runs = append(line.runs, value)
}

// skip notes that a figure cannot be measured on this machine.
func (r *report) skip(f figure, why error) { r.line(f).missing = why.Error() }

func (r *report) line(f figure) *figure {
	is := func(other *figure) bool {
		return other.section == f.section && other.name == f.name && other.unit == f.unit
	}
	if i := slices.IndexFunc(r.figures, is); i >= 0 {
		return r.figures[i]
	}
	r.figures = append(r.figures, &f)
	return &f
}

// print writes the table, section by section.
func (r *report) print(out io.Writer) {
	w := new(strings.Builder)
	defer func() { _, _ = io.WriteString(out, w.String()) }()
	fmt.Fprintf(w, "%-62s  %9s  %9s  %9s  %9s\n", "", "median", "lowest", "highest", "target")
	var sections []string
	for _, f := range r.figures {
		if !slices.Contains(sections, f.section) {
			sections = append(sections, f.section)
		}
	}
	for _, s := range sections {
		fmt.Fprintln(w, s)
		for _, f := range r.figures {
			if f.section == s {
				fmt.Fprintln(w, f)
			}
		}
	}
}

// String is the line of a figure.
func (f *figure) String() string {
	name := "  " + f.name + ", " + f.unit
	if f.missing != "" {
		return fmt.Sprintf("%-62s  could not be measured: %s", name, f.missing)
	}
	line := fmt.Sprintf("%-62s  %9s  %9s  %9s", name, number(median(f.runs)), number(slices.Min(f.runs)), number(slices.Max(f.runs)))
	switch {
	case f.target == 0:
		return line
	case median(f.runs) <= f.target:
		return line + fmt.Sprintf("  %9s  met", "≤ "+number(f.target))
	default:
		return line + fmt.Sprintf("  %9s  MISSED", "≤ "+number(f.target))
	}
}

// number is a value with three significant digits or so.
func number(v float64) string {
	switch abs := max(v, -v); {
	case abs >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case abs >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

// median is the middle one of some values, the upper one of the two where their number is even. There must be one.
func median[T cmp.Ordered](values []T) (middle T) {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// machine says where this runs.
func machine() string {
	return fmt.Sprintf("%s/%s, %d CPUs, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
}

// load is the load average of the last minute; "?" where the system does not tell.
func load() string {
	minute, _, _ := strings.Cut(trimmed("/proc/loadavg"), " ")
	return cmp.Or(minute, "?")
}

// busy reports whether the machine had other things to do than to run the bench.
func busy(load string) bool {
	v, err := strconv.ParseFloat(load, 64)
	return err == nil && v > float64(runtime.NumCPU())/2
}
