package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/catalog"
	"spillway/internal/simulate/bench/answer"
	"spillway/internal/simulate/state"
)

func BenchmarkRelay(b *testing.B) {
	for _, f := range answer.Formats {
		b.Run(f.Model, func(b *testing.B) {
			b.ReportAllocs()
			require.NoError(b, relayChunks(f, b.N))
		})
	}
}

func TestEveryChunkIsRelayed(t *testing.T) {
	for _, f := range answer.Formats {
		t.Run(f.Name, func(t *testing.T) { require.NoError(t, relayChunks(f, 1000)) })
	}
}

func TestTheTableSaysWhatWasMetAndMissed(t *testing.T) {
	var r report
	for _, v := range []float64{3, 0.5, 1} {
		r.add(figure{section: "a section", name: "met", unit: "ms", target: 1}, v)
		r.add(figure{section: "another", name: "missed", unit: "µs", target: 0.4}, v)
		r.add(figure{section: "a section", name: "for comparison", unit: "ms"}, v*100)
	}
	r.skip(figure{section: "another", name: "not here", unit: "ms", target: 1}, errors.New("no such thing"))
	var out strings.Builder
	r.print(&out)
	var got [][]string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Fields(line))
	}
	assert.Equal(t, [][]string{
		{"median", "lowest", "highest", "target"},
		{"a", "section"},
		{"met,", "ms", "1.00", "0.50", "3.00", "≤", "1.00", "met"},
		{"for", "comparison,", "ms", "100", "50.0", "300"},
		{"another"},
		{"missed,", "µs", "1.00", "0.50", "3.00", "≤", "0.40", "MISSED"},
		{"not", "here,", "ms", "could", "not", "be", "measured:", "no", "such", "thing"},
	}, got)
}

func TestTheMedianIsTheMiddleOne(t *testing.T) {
	for name, tc := range map[string]struct {
		values []time.Duration
		want   time.Duration
	}{
		"one":  {[]time.Duration{4}, 4},
		"odd":  {[]time.Duration{9, 1, 4}, 4},
		"even": {[]time.Duration{9, 1, 4, 3}, 4},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, median(tc.values)) })
	}
}

func TestTheGroupForCPUTimeIsFound(t *testing.T) {
	const first = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\ncgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n"
	const second = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"
	const beside = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
	for name, tc := range map[string]struct {
		mounts, groups, want string // want is empty: there is none
	}{
		"the first version":             {first, "4:memory:/a\n2:cpu,cpuacct:/b\n", "/sys/fs/cgroup/cpu,cpuacct/b"},
		"the second version":            {second, "0::/user.slice\n", "/sys/fs/cgroup/user.slice"},
		"both, the first one has CPU":   {first + beside, "9:cpuset:/x\n1:cpu,cpuacct:/\n0::/y\n", "/sys/fs/cgroup/cpu,cpuacct"},
		"cpuset is another controller":  {"cgroup /c cgroup rw,cpuset 0 0\n", "3:cpuset:/\n", ""},
		"nothing is mounted":            {"proc /proc proc rw 0 0\n", "0::/\n", ""},
		"a system that has none of it":  {"", "", ""},
		"a mount without its own group": {first, "4:memory:/a\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := cpuGroup(tc.mounts, tc.groups)
			assert.Equal(t, tc.want, got)
			assert.Equal(t, tc.want == "", errors.Is(err, errNoGroup))
		})
	}
}

func TestCPUTimeOfAProcess(t *testing.T) {
	if trimmed("/proc/self/stat") == "" {
		t.Skip("needs /proc")
	}
	before, err := cpuTime(os.Getpid())
	require.NoError(t, err)
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); {
		now, err := cpuTime(os.Getpid())
		require.NoError(t, err)
		if now > before {
			return
		}
	}
	t.Error("5 s of work took no time")
}

func TestFramesAreCountedHoweverTheyArrive(t *testing.T) {
	var stream bytes.Buffer
	require.NoError(t, answer.OpenAI.Stream([]byte(shortStream), func(frame []byte) error {
		_, err := stream.Write(frame)
		return err
	}))
	want := len(answer.OpenAI.Chunks) + 4 // the opening, and the end, the usage and [DONE]
	for size := 1; size < 40; size++ {
		var f frames
		for part := range slices.Chunk(stream.Bytes(), size) {
			_, _ = f.Write(part)
		}
		assert.Equal(t, want, f.n, "in pieces of %d bytes", size)
	}
	assert.Equal(t, 1, strings.Count(stream.String(), answer.OpenAI.FirstContent))
}

func TestAnEventThatHoldsARequestIsUnderstoodLikeTheRequest(t *testing.T) {
	for name, tc := range map[string]struct {
		request string
		want    bool
	}{
		"a stream":           {answer.Request(answer.Short, true), true},
		"a plain answer":     {answer.Request(answer.Short, false), false},
		"a stream, event":    {`{"body":"{\"model\":\"bench-short\",\"stream\":true}"}`, true},
		"a plain one, event": {`{"body":"{\"model\":\"bench-short\"}"}`, false},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, answer.Streams([]byte(tc.request))) })
	}
}

func TestWithoutAnArtifactNothingIsMeasured(t *testing.T) {
	_, err := newSpawner(programs{}, t.TempDir())
	assert.ErrorContains(t, err, "make build")
	assert.Error(t, run(context.Background(), options{}, nil, nil))
}

func TestConfigurationsLoad(t *testing.T) {
	for name, configuration := range map[string]func() ([]byte, error){"the gateway's": configuration, "of the shared state": sharedConfiguration} {
		t.Run(name, func(t *testing.T) {
			data, err := configuration()
			require.NoError(t, err)
			_, err = catalog.Load(data, func(string) string { return "http://127.0.0.1:1/v1" })
			require.NoError(t, err)
		})
	}
}

func TestCallsOfTheStoreAreCountedByWhatTheyDo(t *testing.T) {
	shared := shared{}
	var err error
	shared.state, err = state.Open()
	require.NoError(t, err)
	t.Cleanup(shared.state.Close)
	var endpoint string
	for _, e := range shared.state.Env() {
		if value, ok := strings.CutPrefix(e, "AWS_ENDPOINT_URL="); ok {
			endpoint = value
		}
	}
	got, err := shared.count(func() error {
		for _, call := range [][2]string{{"GetItem", shared.state.Names.Health}, {"UpdateItem", shared.state.Names.Health}, {"PutItem", shared.state.Names.Idempotency},
			{"PutItem", shared.state.Names.Requests}} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, strings.NewReader(`{"TableName":"`+call[1]+`"}`))
			if err != nil {
				return err
			}
			req.Header.Set("X-Amz-Target", "DynamoDB_20120810."+call[0])
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				return err
			}
			_ = resp.Body.Close()
		}
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, counted{reads: 1, writes: 2, traces: 1}, got)
}
