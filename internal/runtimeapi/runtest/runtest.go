// Package runtest has the local Lambda run the function whose tests they are: the test's own binary is its bootstrap, so that
// nothing has to be built, and what the race detector watches is the function's own main.
package runtest

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/runtimeapi"
)

// asFunction has the binary be the function.
const asFunction = "BE_THE_FUNCTION"

// Main is what TestMain calls, with the function's own main.
func Main(m *testing.M, main func()) {
	if os.Getenv(asFunction) != "" {
		main()
		os.Exit(1) // a function does not return
	}
	os.Exit(m.Run())
}

// A Function runs until its test is over.
type Function struct {
	*runtimeapi.Front
	log log
}

// Log ends the function and returns all that it has written: while it runs, some of that may be on its way.
func (f *Function) Log() string {
	if f.Front != nil {
		_ = f.Close() // always nil
	}
	return f.log.String()
}

// Start starts one environment, with a configuration and variables beside those that Lambda sets. The error is that of its
// init.
func Start(t *testing.T, configuration string, env ...string) (*Function, error) {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "gateway.json"), []byte(configuration), 0o600))
	f := &Function{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the function's log:\n%s", f.Log())
		}
	})
	f.Front, err = runtimeapi.New(runtimeapi.Function{Name: "function", Bootstrap: binary, Dir: root, Env: append(env, asFunction+"=yes"), Timeout: 20 * time.Second,
		MemoryMB: 256, Freeze: true, Stdout: &f.log, Stderr: &f.log}, runtimeapi.Prestart(1))
	if err == nil {
		t.Cleanup(func() { assert.NoError(t, f.Close()) })
	}
	return f, err
}

type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Misconfigured starts a function that only events invoke with wrong settings and a wrong configuration: its init must fail, and
// tell every problem of both at once.
func Misconfigured(t *testing.T) {
	f, err := Start(t, `{"version":"","providers":[{"name":"one","kind":"nobody"}]}`, "SPILLWAY_LOG_LEVEL=loud", "SPILLWAY_JOBS_TABLE=jobs")
	require.Error(t, err)
	for _, want := range []string{"SPILLWAY_LOG_LEVEL: ", "SPILLWAY_IDEMPOTENCY_TABLE: is required", "SPILLWAY_WEBHOOKS_QUEUE: is required", "version: ", "providers[0].kind: ", "providers[0].base_url: "} {
		assert.Contains(t, f.Log(), want)
	}
	assert.NotContains(t, f.Log(), "SPILLWAY_JOBS_TABLE: ")
}
