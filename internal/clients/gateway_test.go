package clients

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"spillway/internal/runtimeapi"
	"spillway/internal/simulate"
)

// models are the simulated provider's that the tests call.
var models = []string{"sim-ok", "sim-f04", "sim-f08", "sim-f12", "sim-f13", "sim-f17", "sim-f19", "sim-f21", "sim-f31", "sim-f32"}

// stack is the real gateway binary behind a function URL, with a simulated provider of its own.
type stack struct {
	url      string
	provider *simulate.Provider
}

// bootstrap is the gateway's binary, poller the other one's.
var bootstrap, poller string

const upstreamKey = "upstream-key"

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "spillway-clients-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bootstrap, poller = filepath.Join(dir, "gateway"), filepath.Join(dir, "poller")
	for binary, function := range map[string]string{bootstrap: "gateway", poller: "poller"} {
		build := exec.Command("go", "build", "-tags", "lambda.norpc", "-o", binary, "./functions/"+function)
		build.Dir = filepath.Join("..", "..")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building %s: %v\n%s", function, err, out)
			os.Exit(1)
		}
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// start runs the stack for one test.
func start(t *testing.T) *stack {
	t.Helper()
	provider := simulate.New(simulate.Gap(time.Millisecond))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = provider.Serve(listener)
	}()
	url := launch(t, []object{{"name": "sim", "kind": "openai", "base_url": "env:SPILLWAY_SIMULATOR_URL"}},
		[]object{{"provider": "sim", "models": models}}, "SPILLWAY_SIMULATOR_URL=http://"+listener.Addr().String()+"/v1")
	t.Cleanup(func() {
		provider.Close()
		<-served
	})
	return &stack{url: url, provider: provider}
}

// object is a mapping of the configuration.
type object = map[string]any

// launch runs the real binary behind a function URL until the test ends, and returns the address.
func launch(t *testing.T, providers, channels []object, env ...string) string {
	t.Helper()
	return open(t, configure(t, providers, channels), env...)
}

// configure writes a configuration with one organization and its key, and returns its folder.
func configure(t *testing.T, providers, channels []object) (dir string) {
	t.Helper()
	for _, c := range channels {
		c["credentials"] = []object{{"alias": "one", "secret": "env:UPSTREAM_KEY"}}
	}
	sum := sha256.Sum256([]byte("dev"))
	config, err := json.Marshal(object{"version": "clients", "providers": providers, "channels": channels,
		"organizations": []object{{"name": "dev", "models": []string{"*"}}},
		"keys":          []object{{"alias": "dev", "organization": "dev", "sha256": hex.EncodeToString(sum[:])}}})
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "gateway.json"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// open runs the gateway with the configuration of a folder.
func open(t *testing.T, dir string, env ...string) string {
	t.Helper()
	front, err := runtimeapi.New(runtimeapi.Function{Name: "gateway", Bootstrap: bootstrap, Dir: dir, Timeout: time.Minute, MemoryMB: 256,
		Concurrency: 4, Mode: runtimeapi.Stream, Freeze: true, Env: append(env, "UPSTREAM_KEY="+upstreamKey)})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(front)
	t.Cleanup(func() {
		server.Close()
		front.Close()
	})
	return server.URL
}

// calls are the models that the provider was asked for, in order.
func (s *stack) calls() []string {
	var out []string
	for _, c := range s.provider.Calls() {
		out = append(out, c.Model)
	}
	return out
}
