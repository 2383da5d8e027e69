//go:build linux

package runtimeapi_test

import (
	"strconv"
	"testing"

	"spillway/internal/runtimeapi"
)

func TestThePeakOfAnEnvironmentsMemoryIsTold(t *testing.T) {
	const answer = 32 << 20
	fn := streaming()
	fn.Freeze, fn.Concurrency = true, 1
	s := start(t, fn, runtimeapi.Prestart(1))
	environment := s.Environments()[0]
	before, err := environment.PeakRSS()
	must(t, err)
	check(t, before > 1<<20 && before < answer, "an idle program has "+strconv.FormatInt(before, 10)+" bytes")

	_, body, err := s.fetch(t, "/bytes?size="+strconv.Itoa(answer))
	must(t, err)
	equal(t, answer, len(body))
	after, err := environment.PeakRSS()
	must(t, err)
	check(t, after >= answer, "what it has held is not seen: "+strconv.FormatInt(after, 10)+" bytes")

	must(t, s.Kill(environment.PID))
	_, err = environment.PeakRSS()
	check(t, err != nil, "a process that is gone has no memory")
}

func TestTheHighWaterMarkOfAStatus(t *testing.T) {
	for name, c := range map[string]struct {
		status string
		want   int64 // -1: an error
	}{
		"among others":          {"Name:\tbootstrap\nVmPeak:\t 1266620 kB\nVmHWM:\t   15360 kB\nVmRSS:\t    9000 kB\n", 15360 << 10},
		"of a zombie":           {"Name:\tbootstrap\nState:\tZ (zombie)\nThreads:\t1\n", -1},
		"in another unit":       {"VmHWM:\t15 MB\n", -1},
		"that is no number":     {"VmHWM:\tmany kB\n", -1},
		"below nothing":         {"VmHWM:\t-5 kB\n", -1},
		"past counting":         {"VmHWM:\t9223372036854775807 kB\n", -1},
		"of nothing":            {"", -1},
		"in the name of a file": {"Name:\tVmHWM: 5 kB\n", -1},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := runtimeapi.HighWater([]byte(c.status))
			if c.want < 0 {
				check(t, err != nil, "no error")
				return
			}
			must(t, err)
			equal(t, c.want, got)
		})
	}
}
