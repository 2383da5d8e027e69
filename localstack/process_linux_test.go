package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// However the stack ends, no bootstrap outlives it: a frozen one would hold its memory until the machine is restarted.
func TestNoProcessRemains(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "localstack")
	compile := exec.Command("go", "build", "-tags", "lambda.norpc", "-o", binary, ".")
	compile.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	direct := []string{binary, "-addr", "127.0.0.1:0", "-out", dir}
	// What make and `go run` are: a parent that waits. The second command keeps the shell from becoming the first.
	throughShell := []string{"sh", "-c", strings.Join(direct, " ") + "; exit $?"}
	tests := map[string]struct {
		command []string
		signal  syscall.Signal
		exit    int // -1: killed
	}{
		"after Ctrl-C, which is no failure": {direct, syscall.SIGINT, 0},
		"after SIGTERM":                     {direct, syscall.SIGTERM, 0},
		"after SIGKILL":                     {direct, syscall.SIGKILL, -1},
		"after SIGKILL of its parent":       {throughShell, syscall.SIGKILL, -1},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) {
			cmd := exec.Command(test.command[0], test.command[1:]...)
			cmd.Dir = ".."
			cmd.Stderr = t.Output()
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill() }() // on failure; it is gone otherwise
			greeting := untilLine(stdout, "ready ")
			url := strings.TrimSpace(strings.TrimPrefix(greeting, "ready "))
			response, err := http.Get(url + "/healthz")
			if err != nil || response.StatusCode != http.StatusOK {
				t.Fatalf("%v, %v, greeted with %q", response, err, greeting)
			}
			response.Body.Close()

			processes := descendants(t, cmd.Process.Pid)
			eventually(t, "a frozen bootstrap", func() bool {
				for _, pid := range processes {
					if name, state, _ := status(pid); name == "bootstrap" && state == "T" {
						return true
					}
				}
				return false
			})
			if err := cmd.Process.Signal(test.signal); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != test.exit {
				t.Errorf("exit code %d, want %d", got, test.exit)
			}
			for _, pid := range processes {
				eventually(t, fmt.Sprintf("the end of process %d", pid), func() bool {
					_, state, _ := status(pid)
					return state == "" || state == "Z" // a zombie is gone but for its line in the table
				})
			}
		})
	}
}

// eventually waits for something of another process's, of which nothing tells but a look.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(10 * time.Second); !holds(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// descendants are the processes below pid, without itself.
func descendants(t *testing.T, pid int) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	children := map[int][]int{}
	for _, entry := range entries {
		if child, err := strconv.Atoi(entry.Name()); err == nil {
			_, _, parent := status(child)
			children[parent] = append(children[parent], child)
		}
	}
	var found []int
	for queue := children[pid]; len(queue) > 0; queue = queue[1:] {
		found = append(found, queue[0])
		queue = append(queue, children[queue[0]]...)
	}
	return found
}

// status is the name, the state and the parent of a process, or nothing if there is none. See proc_pid_stat(5).
func status(pid int) (name, state string, parent int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", "", 0
	}
	before, after, _ := strings.Cut(string(text), ") ")
	_, name, _ = strings.Cut(before, "(")
	fields := strings.Fields(after)
	parent, _ = strconv.Atoi(fields[1])
	return name, fields[0], parent
}
