//go:build linux

// The tests look at processes through /proc, so they are for Linux; the package is not.
package runtimeapi_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"spillway/internal/runtimeapi"
)

// bootstraps is where TestMain builds the functions of testdata.
var bootstraps string

func TestMain(m *testing.M) {
	if bootstrap := os.Getenv("BE_A_PARENT_OF"); bootstrap != "" {
		beParent(bootstrap)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "bootstraps")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	bootstraps = dir
	build := exec.Command("go", "build", "-tags", "lambda.norpc", "-o", dir, "./testdata/streaming", "./testdata/buffered", "./testdata/raw", "./testdata/queued")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the functions of testdata: %v\n%s", err, out)
		return 1
	}
	code := m.Run()
	if left := leftBehind(); left != "" && code == 0 {
		fmt.Fprintln(os.Stderr, "left behind by the tests:", left)
		return 1
	}
	return code
}

// leftBehind names the goroutines and processes that outlived their Front. The one goroutine that may is the spawner.
func leftBehind() string {
	var left string
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		left = ""
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		for stack := range strings.SplitSeq(string(stacks), "\n\n") {
			if strings.Contains(stack, "runtimeapi") && !strings.Contains(stack, "leftBehind") && !strings.Contains(stack, "spawn_linux.go") {
				left += stack + "\n"
			}
		}
		children, err := filepath.Glob("/proc/self/task/*/children")
		if err != nil {
			return err.Error()
		}
		for _, file := range children {
			pids, _ := os.ReadFile(file)
			left += string(pids)
		}
		if left == "" {
			return ""
		}
	}
	return left
}

// patience bounds every wait for a condition; no test is meant to come near it.
const patience = 10 * time.Second

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v still not: %s", patience, what)
		}
	}
}

// stack is a Front, an HTTP server before it and what the function logs.
type stack struct {
	*runtimeapi.Front
	url  string
	logs *logs
}

func start(t *testing.T, fn runtimeapi.Function, options ...runtimeapi.Option) stack {
	t.Helper()
	s := stack{logs: new(logs)}
	if fn.Name == "" {
		fn.Name = filepath.Base(fn.Bootstrap)
	}
	if fn.Timeout == 0 {
		fn.Timeout = patience
	}
	fn.Stdout, fn.Stderr = s.logs, s.logs
	var err error
	s.Front, err = runtimeapi.New(fn, options...)
	must(t, err)
	server := httptest.NewServer(s.Front)
	s.url = server.URL
	t.Cleanup(func() {
		must(t, s.Close())
		http.DefaultClient.CloseIdleConnections()
		server.Close()
		equal(t, 0, len(s.Environments()))
		if t.Failed() {
			t.Logf("the function's log:\n%s", s.logs)
		}
	})
	return s
}

func streaming() runtimeapi.Function {
	return runtimeapi.Function{Bootstrap: filepath.Join(bootstraps, "streaming"), Mode: runtimeapi.Stream}
}

func buffered() runtimeapi.Function {
	return runtimeapi.Function{Bootstrap: filepath.Join(bootstraps, "buffered")}
}

func raw(behaviour string) runtimeapi.Function {
	return runtimeapi.Function{
		Bootstrap: filepath.Join(bootstraps, "raw"), Mode: runtimeapi.Stream, Env: []string{"BEHAVIOUR=" + behaviour},
	}
}

func (s stack) get(t *testing.T, path string) *http.Response {
	t.Helper()
	resp, err := http.Get(s.url + path)
	must(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// fetch returns the status and the whole body; the error is the one of reading the body.
func (s stack) fetch(t *testing.T, path string) (int, string, error) {
	t.Helper()
	resp := s.get(t, path)
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	return resp.StatusCode, string(body), err
}

func (s stack) pid(t *testing.T) string {
	t.Helper()
	status, pid, err := s.fetch(t, "/pid")
	must(t, err)
	equal(t, 200, status, pid)
	return pid
}

func readLine(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	line, err := r.ReadString('\n')
	must(t, err)
	return strings.TrimSuffix(line, "\n")
}

// open lets a function go on that waits for that gate.
func open(t *testing.T, dir, gate string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, gate), nil, 0o600))
}

func exists(dir, file string) bool {
	_, err := os.Stat(filepath.Join(dir, file))
	return err == nil
}

// state is the letter of proc(5) for the process: T stopped, Z ended but not reaped, "" gone.
func state(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, fields, _ := strings.Cut(string(stat), ") ")
	return fields[:1]
}

func stopped(pid int) bool { return state(pid) == "T" }

// alive is false for an orphan that waits for init to reap it.
func alive(pid int) bool { return state(pid) != "" && state(pid) != "Z" }

type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
