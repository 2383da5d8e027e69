package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"spillway/internal/simulate/bench/answer"
)

const clientKey = "bench-client-key"

// programs are the paths of what is measured, built as it is deployed but for this machine.
type programs struct{ gateway, echo, upstream string }

func build(ctx context.Context, folder string) (programs, error) {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "lambda.norpc", "-ldflags", "-s -w", "-o", folder+string(filepath.Separator),
		"spillway/functions/gateway", "spillway/internal/simulate/bench/echo", "spillway/internal/simulate/bench/upstream")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return programs{}, fmt.Errorf("building what is measured: %w\n%s", err, output)
	}
	in := func(name string) string { return filepath.Join(folder, name) }
	return programs{gateway: in("gateway"), echo: in("echo"), upstream: in("upstream")}, nil
}

// configuration is the gateway's for the bench: channels of each wire format and a key, and everything else as the contract's defaults have it.
func configuration() ([]byte, error) {
	type object = map[string]any
	digest := sha256.Sum256([]byte(clientKey))
	provider := func(name, kind string) object {
		return object{"name": name, "kind": kind, "base_url": "env:SPILLWAY_SIMULATOR_URL", "prices": "sim"}
	}
	credentials := []object{{"alias": "only", "secret": "env:SIM_KEY"}}
	return json.Marshal(object{
		"version":   "bench",
		"providers": []object{provider("upstream", "openai"), provider("anthropic", "anthropic"), provider("gemini", "gemini")},
		"channels": []object{
			{"provider": "upstream", "models": []string{answer.Responses.Model}, "responses": "always", "credentials": credentials},
			{"provider": "anthropic", "models": []string{answer.Anthropic.Model}, "credentials": credentials},
			{"provider": "gemini", "models": []string{answer.Gemini.Model}, "credentials": credentials},
			{"provider": "upstream", "models": []string{answer.Short, answer.Long, answer.Paced}, "credentials": credentials},
			{"provider": "upstream", "models": []string{answer.Asked}, "upstream_stream": "as_client", "attempt_ms": 10000, "credentials": credentials},
		},
		"organizations": []object{{"name": "bench", "models": []string{"*"}}},
		"keys":          []object{{"sha256": hex.EncodeToString(digest[:]), "alias": "bench", "organization": "bench"}},
	})
}

// process is a program that runs until it is ended.
type process struct {
	cmd *exec.Cmd
	url string
}

func (p process) pid() int { return p.cmd.Process.Pid }

func (p process) end() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// startUpstream starts the upstream, or a proxy of it.
func startUpstream(made programs, args ...string) (process, error) {
	cmd := exec.Command(made.upstream, args...)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil { // it ends when this process does, however that ends
		return process{}, fmt.Errorf("making a pipe: %w", err)
	}
	lines, err := cmd.StdoutPipe()
	if err != nil {
		return process{}, fmt.Errorf("making a pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return process{}, fmt.Errorf("starting the upstream: %w", err)
	}
	p := process{cmd: cmd}
	address, err := bufio.NewReader(lines).ReadString('\n')
	if err != nil {
		p.end()
		return process{}, fmt.Errorf("reading the upstream's address: %w", err)
	}
	p.url = strings.TrimSpace(address)
	return p, nil
}

// startGateway starts the gateway as a plain HTTP server. Its records go through a pipe, as they do in Lambda.
func startGateway(ctx context.Context, made programs, env []string) (process, error) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return process{}, fmt.Errorf("finding a free port: %w", err)
	}
	address := free.Addr().String()
	_ = free.Close()
	cmd := exec.Command(made.gateway)
	cmd.Env = append(env, "SPILLWAY_ADDR="+address)
	cmd.Stdout, cmd.Stderr = drain{}, os.Stderr
	if err := cmd.Start(); err != nil {
		return process{}, fmt.Errorf("starting the gateway: %w", err)
	}
	p := process{cmd: cmd, url: "http://" + address}
	if err := p.ready(ctx); err != nil {
		p.end()
		return process{}, err
	}
	return p, nil
}

// ready waits until the process answers.
func (p process) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/healthz", nil)
		if err != nil {
			return fmt.Errorf("asking for its health: %w", err)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the gateway: %w", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// drain takes a program's output from a pipe and drops it. io.Discard would do without the pipe.
type drain struct{}

var _ io.Writer = drain{}

func (drain) Write(p []byte) (int, error) { return len(p), nil }
