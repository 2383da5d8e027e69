package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// A stack that runs until the end of the test, with what it prints first. With AWS_ENDPOINT_URL set, its tables are there.
type testStack struct {
	url, greeting string
	log           string // its path
	end           func() error
}

func startStack(t *testing.T, args ...string) testStack {
	t.Helper()
	t.Chdir("..")
	o, err := parseOptions(append(args, "-addr", "127.0.0.1:0", "-out", t.TempDir()), os.Getenv, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var stderr bytes.Buffer
	stdout, printed := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, o, printed, &stderr)
		printed.CloseWithError(io.EOF)
		ended <- err
	}()
	end := sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = end() })
	greeting := untilLine(stdout, "by-status")
	go func() { _, _ = io.Copy(io.Discard, stdout) }() // ends with run
	ready := regexp.MustCompile(`^ready (http://127\.0\.0\.1:\d+)\n`).FindStringSubmatch(greeting)
	if ready == nil {
		t.Fatalf("printed %q, ended with %v, said %s", greeting, end(), stderr.String())
	}
	return testStack{url: ready[1], greeting: greeting, log: filepath.Join(o.out, "gateway.log"), end: end}
}

// pasted are the calls of the greeting, as a shell would make them; each takes headers beside or instead of those there.
func (s testStack) pasted(t *testing.T) (requests []func(own http.Header) *http.Response) {
	t.Helper()
	for _, c := range regexp.MustCompile(`(?s)curl -N -i (\S+) (.*?)-d '(.*?)'\n`).FindAllStringSubmatch(s.greeting, -1) {
		requests = append(requests, func(own http.Header) *http.Response {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c[1], strings.NewReader(c[3]))
			if err != nil {
				t.Fatal(err)
			}
			for _, header := range regexp.MustCompile(`-H '(.*?): (.*?)'`).FindAllStringSubmatch(c[2], -1) {
				request.Header.Set(header[1], header[2])
			}
			maps.Copy(request.Header, own)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { response.Body.Close() })
			return response
		})
	}
	return requests
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The first call of a newcomer, taken from what the stack prints.
func TestFirstCall(t *testing.T) {
	s := startStack(t)
	calls := s.pasted(t)
	if len(calls) != 3 {
		t.Fatalf("%d calls in %s", len(calls), s.greeting)
	}
	response := calls[0](nil)
	if response.StatusCode != http.StatusOK || response.Header.Get("X-LLM-Fallback") != "true" || response.Header.Get("X-LLM-Model") != "sim-ok" {
		t.Errorf("answered %s, %v", response.Status, response.Header)
	}
	if body := body(t, response); !strings.HasPrefix(body, "data: {") || !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("not a whole stream: %s", body)
	}
	if err := s.end(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if log := string(readFile(t, s.log)); !strings.Contains(log, "request_finished") {
		t.Errorf("the log says nothing of the request: %s", log)
	}
}

// The second call, twice, while a stream occupies the environment that answered first: another one answers again what
// that one has kept.
func TestEnvironmentsShareTheirTables(t *testing.T) {
	s := startStack(t)
	calls := s.pasted(t)
	if len(calls) != 3 {
		t.Fatalf("%d calls in %s", len(calls), s.greeting)
	}
	key := http.Header{"Idempotency-Key": {rand.Text()}} // the emulator of this process, or the endpoint, may know that of the greeting
	first := calls[1](key)
	want := body(t, first)
	if first.StatusCode != http.StatusOK || first.Header.Get("Idempotent-Replayed") != "" {
		t.Fatalf("answered %s, %v: %s", first.Status, first.Header, want)
	}

	stream := calls[0](nil)
	again := calls[1](key)
	if got := body(t, again); got != want || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("answered %v: %s\nwant %s again", again.Header, got, want)
	}
	if got := body(t, stream); !strings.HasSuffix(got, "data: [DONE]\n\n") {
		t.Errorf("not a whole stream: %s", got)
	}
	if err := s.end(); err != nil {
		t.Errorf("ended with %v", err)
	}
	log := string(readFile(t, s.log))
	if replayed, streamed := strings.Index(log, `"outcome":"replayed"`), strings.Index(log, `"stream":true`); replayed < 0 || streamed < replayed {
		t.Errorf("the stream did not outlast the second answer, so that one environment may have given both:\n%s", log)
	}
}

// The third call: the poller makes the job, once, although every message comes twice, late and in another order; each function
// has a log of its own.
func TestAJobIsMadeInSpiteOfItsQueues(t *testing.T) {
	s := startStack(t, "-queue-faults", "duplicate=1,late=0.5,reorder")
	calls := s.pasted(t)
	if len(calls) != 3 {
		t.Fatalf("%d calls in %s", len(calls), s.greeting)
	}
	key := http.Header{"Idempotency-Key": {rand.Text()}}
	response := calls[2](key)
	made := body(t, response)
	if response.StatusCode != http.StatusAccepted {
		t.Fatalf("answered %s: %s", response.Status, made)
	}
	var story string
	for end := time.Now().Add(time.Minute); !strings.Contains(story, `"succeeded"`); time.Sleep(200 * time.Millisecond) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+response.Header.Get("Location"), nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer dev")
		now, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		story = body(t, now)
		now.Body.Close()
		if time.Now().After(end) {
			t.Fatalf("the job is not there after a minute: %s", story)
		}
	}
	if again := calls[2](key); body(t, again) == "" || again.StatusCode/100 != 2 {
		t.Errorf("asked for again it is %s", again.Status)
	}
	simulated := regexp.MustCompile(`what it has been sent is at (\S+)/_sim/log`).FindStringSubmatch(s.greeting)
	listed, err := http.Get(simulated[1] + "/_sim/jobs")
	if err != nil {
		t.Fatal(err)
	}
	defer listed.Body.Close()
	var jobs []struct{ Submits int }
	if err := json.NewDecoder(listed.Body).Decode(&jobs); err != nil || len(jobs) != 1 || jobs[0].Submits != 1 {
		t.Errorf("the provider was asked for %+v, %v", jobs, err)
	}
	if err := s.end(); err != nil {
		t.Errorf("ended with %v", err)
	}
	for _, f := range []string{"gateway", "poller", "sweeper"} {
		path := filepath.Join(filepath.Dir(s.log), f+".log")
		if !strings.Contains(s.greeting, path) {
			t.Errorf("the greeting does not name %s", path)
		}
		if log := string(readFile(t, path)); f == "poller" && strings.Count(log, `"job_finished"`) != 1 {
			t.Errorf("the poller's log: %s", log)
		}
	}
}

// untilLine reads until a line that holds text, or to the end, and returns what it has read.
func untilLine(r io.Reader, text string) string {
	var read strings.Builder
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadString('\n')
		read.WriteString(line)
		if err != nil || strings.Contains(line, text) {
			return read.String()
		}
	}
}

func TestRunSaysWhatIsMissing(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	const broken = "internal/catalog/source/testdata/busted_many_at_once.yaml"
	tests := map[string]struct {
		dir  string
		args []string
		want []string
	}{
		"a port in use names the flag":         {"..", []string{"-addr", taken.Addr().String()}, []string{"-addr", taken.Addr().String(), "in use"}},
		"a missing configuration names it":     {"..", []string{"-addr", "127.0.0.1:0", "-config", "no.json"}, []string{"-config", "no.json"}},
		"every mistake in it has its line":     {"..", []string{"-addr", "127.0.0.1:0", "-config", broken}, []string{"-config", broken + ":17: version: ", broken + ":51: kyes: "}},
		"outside the root it says where to be": {".", nil, []string{"project's root"}},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) {
			t.Chdir(test.dir)
			o, err := parseOptions(append(test.args, "-out", t.TempDir()), os.Getenv, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			err = run(t.Context(), o, io.Discard, io.Discard)
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want it to say %q", err, want)
				}
			}
		})
	}
}

func TestConfigurationInJSON(t *testing.T) {
	const file = "../internal/catalog/source/testdata/working_every_member.json"
	got, err := options{config: file}.readConfiguration()
	if err != nil || !bytes.Equal(got, readFile(t, file)) {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestReachable(t *testing.T) {
	tests := map[string]struct {
		ip   net.IP
		want string
	}{
		"a wildcard is no destination": {net.IPv4zero, "127.0.0.1:3000"},
		"nor is that of IPv6":          {net.IPv6unspecified, "127.0.0.1:3000"},
		"an address is itself":         {net.IPv4(127, 0, 0, 1), "127.0.0.1:3000"},
		"IPv6 is bracketed":            {net.IPv6loopback, "[::1]:3000"},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) {
			if got := reachable(&net.TCPAddr{IP: test.ip, Port: 3000}); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
