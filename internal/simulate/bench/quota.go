package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// period is that of the CPU bandwidth control: 20 ms, which Lambda is observed to use. A longer one would let an init pass
// in one piece before it is throttled.
const period = 20 * time.Millisecond

// quota is a control group that has a part of one CPU.
type quota struct{ folder string }

// newQuota makes a group below that of this process, by the first version of control groups or the second. It needs the
// right to do so, which is mostly root's.
func newQuota(share float64) (*quota, error) {
	parent, err := cpuGroup(trimmed("/proc/self/mounts"), trimmed("/proc/self/cgroup"))
	if err != nil {
		return nil, err
	}
	q := &quota{folder: filepath.Join(parent, "spillway-bench-"+strconv.Itoa(os.Getpid()))}
	if err := os.Mkdir(q.folder, 0o700); err != nil {
		return nil, fmt.Errorf("making a control group: %w", err)
	}
	if err := q.limit(share); err != nil {
		q.remove()
		return nil, fmt.Errorf("limiting a control group: %w", err)
	}
	return q, nil
}

func (q *quota) limit(share float64) error {
	whole := strconv.FormatInt(period.Microseconds(), 10)
	part := strconv.FormatInt(int64(share*float64(period.Microseconds())), 10)
	if _, err := os.Stat(filepath.Join(q.folder, "cpu.max")); err == nil {
		return q.write("cpu.max", part+" "+whole)
	}
	return errors.Join(q.write("cpu.cfs_period_us", whole), q.write("cpu.cfs_quota_us", part))
}

// take moves a process into the group.
func (q *quota) take(pid int) error {
	if err := q.write("cgroup.procs", strconv.Itoa(pid)); err != nil {
		return fmt.Errorf("moving a process into a control group: %w", err)
	}
	return nil
}

func (q *quota) write(file, text string) error {
	f, err := os.OpenFile(filepath.Join(q.folder, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// remove removes the group; its processes are gone.
func (q *quota) remove() { _ = os.Remove(q.folder) }

var errNoGroup = errors.New("no control group for CPU time is mounted here")

// cpuGroup is the folder of a process's own group for CPU time, from what its /proc says of mounts and groups
// (cgroups(7)): of the first version where the controller is mounted so, else of the second.
func cpuGroup(mounts, groups string) (string, error) {
	first, second := mountPoints(mounts)
	for line := range strings.Lines(groups) { // hierarchy:controllers:path; 0 and no controllers is the second version
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(part) != 3:
		case first != "" && listed(part[1], "cpu"):
			return filepath.Join(first, part[2]), nil
		case first == "" && second != "" && part[0] == "0":
			return filepath.Join(second, part[2]), nil
		}
	}
	return "", errNoGroup
}

// mountPoints are those of the CPU controller in the first version, and of the second version; empty: there is none.
func mountPoints(mounts string) (first, second string) {
	for line := range strings.Lines(mounts) { // device, mount point, type, options
		part := strings.Fields(line)
		switch {
		case len(part) < 4:
		case part[2] == "cgroup" && listed(part[3], "cpu"):
			first = part[1]
		case part[2] == "cgroup2":
			second = part[1]
		}
	}
	return first, second
}

// listed reports whether a list with commas holds a word.
func listed(list, word string) bool { return slices.Contains(strings.Split(list, ","), word) }
