package runtest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/settings"
)

// emulatorVariable names the variable with the path of the emulator's binary.
const emulatorVariable = "AWS_LAMBDA_RIE"

// Emulator is AWS's own Runtime Interface Emulator with the function whose test it is: it judges the function's binary, beside the local
// Lambda of internal/runtimeapi, which is ours. It collects an answer instead of streaming it, passes the prelude on as it came, and
// crashes on two events at once (v0.0.0-20261030222936): the events come one at a time.
type Emulator struct {
	url     string
	process *os.Process
	ended   chan struct{} // closed when the process is gone
	log     bytes.Buffer  // what it and its function have written; readable then
}

// Emulate runs the emulator with the function, built for this machine, with a configuration and variables, until the end of the test.
// Where there is no emulator the test is skipped.
func Emulate(t *testing.T, configuration []byte, env ...string) *Emulator {
	t.Helper()
	binary := os.Getenv(emulatorVariable)
	if binary == "" {
		t.Skipf("%s does not name the emulator's binary; `make rie` builds it and runs this", emulatorVariable)
	}
	bootstrap := filepath.Join(t.TempDir(), "bootstrap")
	build := exec.Command("go", "build", "-tags", "lambda.norpc", "-o", bootstrap, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	output, err := build.CombinedOutput()
	require.NoError(t, err, "building the function:\n%s", output)

	addresses := freeAddresses(t, 2)
	e := &Emulator{url: "http://" + addresses[0] + "/2015-03-31/functions/function/invocations", ended: make(chan struct{})}
	cmd := exec.Command(binary, "--runtime-interface-emulator-address", addresses[0], "--runtime-api-address", addresses[1], bootstrap)
	cmd.Dir = filepath.Dir(bootstrap)
	file := filepath.Join(cmd.Dir, "gateway.json")
	require.NoError(t, os.WriteFile(file, configuration, 0o600))
	// What the emulator has, its function gets.
	cmd.Env = append(env, "AWS_LAMBDA_FUNCTION_TIMEOUT=30", settings.Config+"="+file)
	cmd.Stdout, cmd.Stderr = &e.log, &e.log
	require.NoError(t, cmd.Start())
	e.process = cmd.Process
	go func() {
		_ = cmd.Wait() // stopped by a signal, or to be seen in its log
		close(e.ended)
	}()
	t.Cleanup(func() {
		e.end(t)
		if t.Failed() {
			t.Logf("the emulator's log:\n%s", e.log.Bytes())
		}
	})
	e.awaitListening(t, addresses[0])
	return e
}

// patience bounds each wait for the emulator.
const patience = 10 * time.Second

// Log ends the emulator, which ends the function, and returns what both have written.
func (e *Emulator) Log(t *testing.T) string {
	t.Helper()
	e.end(t)
	return e.log.String()
}

// end can be called again.
func (e *Emulator) end(t *testing.T) {
	t.Helper()
	if err := e.process.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		assert.NoError(t, err)
	}
	select {
	case <-e.ended:
	case <-time.After(patience):
		t.Errorf("the emulator does not end on SIGTERM")
		_ = e.process.Kill()
		<-e.ended
	}
}

func (e *Emulator) awaitListening(t *testing.T, address string) {
	t.Helper()
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}, patience, 5*time.Millisecond)
}

// Invoke returns what the function answered to the event, prelude and all.
func (e *Emulator) Invoke(t *testing.T, event []byte) []byte {
	t.Helper()
	client := http.Client{Timeout: patience}
	resp, err := client.Post(e.url, "application/json", bytes.NewReader(event))
	require.NoError(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "the emulator says: %s", raw)
	return raw
}

// freeAddresses are n different ones that were free a moment ago: the emulator cannot be asked which it took.
func freeAddresses(t *testing.T, n int) []string {
	t.Helper()
	var addresses []string
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer listener.Close()
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses
}
