package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	// spawns of each program in each run.
	spawns = 40
	// share is the part of a CPU that Lambda gives a function of 256 MB: 256/1769
	// (https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html, 2026-11).
	share = 0.145
	// initPatience bounds the wait for a first `next`.
	initPatience = 10 * time.Second
)

// spawner starts functions to find out how long they take to their first `next`.
type spawner struct {
	made     programs
	artifact string // absolute

	api   *http.Server
	url   string
	asked chan time.Time // when a process asked for its first event
	over  chan struct{}  // closed when the API is
}

// newSpawner opens a Runtime API that never has an event.
func newSpawner(made programs, artifact string) (*spawner, error) {
	artifact, err := filepath.Abs(artifact)
	if err != nil {
		return nil, fmt.Errorf("locating what is deployed: %w", err)
	}
	if _, err := os.Stat(filepath.Join(artifact, "gateway.json")); err != nil {
		return nil, fmt.Errorf("finding what make build leaves: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening a runtime API: %w", err)
	}
	s := &spawner{made: made, artifact: artifact, url: listener.Addr().String(), asked: make(chan time.Time, 1), over: make(chan struct{})}
	s.api = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/invocation/next") {
			s.asked <- time.Now()
		}
		<-r.Context().Done()
	})}
	go func() {
		defer close(s.over)
		_ = s.api.Serve(listener) // ends with the server
	}()
	return s, nil
}

func (s *spawner) close() {
	_ = s.api.Close()
	<-s.over
}

// inits measures the init of the gateway as it is deployed, with its sample configuration, and that of an echo.
func (s *spawner) inits(ctx context.Context, _ options, r *report) error {
	if err := s.initsAt(ctx, r, "whole CPU", 6, s.spawn); err != nil {
		return err
	}
	group, err := newQuota(share)
	if err != nil {
		for _, name := range []string{"the gateway", "an echo, for comparison"} {
			r.skip(initFigure(name, "14.5 % of a CPU", 0), err)
		}
		return nil
	}
	defer group.remove()
	return s.initsAt(ctx, r, "14.5 % of a CPU", 0, func(ctx context.Context, bootstrap string) (time.Duration, error) {
		return s.release(ctx, bootstrap, group)
	})
}

func initFigure(name, cpu string, most float64) figure {
	return figure{section: "init: spawn to first next", name: name + ", " + cpu, unit: "ms", target: most}
}

func (s *spawner) initsAt(ctx context.Context, r *report, cpu string, most float64, spawn func(context.Context, string) (time.Duration, error)) error {
	var gateway, echo []time.Duration
	for range spawns {
		g, err := spawn(ctx, s.made.gateway)
		if err != nil {
			return fmt.Errorf("spawning the gateway: %w", err)
		}
		e, err := spawn(ctx, s.made.echo)
		if err != nil {
			return fmt.Errorf("spawning the echo: %w", err)
		}
		gateway, echo = append(gateway, g), append(echo, e)
	}
	r.add(initFigure("the gateway", cpu, most), median(gateway).Seconds()*1e3)
	r.add(initFigure("an echo, for comparison", cpu, 0), median(echo).Seconds()*1e3)
	return nil
}

// spawn starts a bootstrap and returns how long it took to its first `next`, the spawning included.
func (s *spawner) spawn(ctx context.Context, bootstrap string) (time.Duration, error) {
	cmd := s.command(bootstrap)
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("starting: %w", err)
	}
	return s.await(ctx, cmd, began)
}

// release is spawn inside a group: a shell is put there first, waits, and becomes the bootstrap. The time is that from the
// release of the shell, which the group pays for.
func (s *spawner) release(ctx context.Context, bootstrap string, group *quota) (time.Duration, error) {
	cmd := s.command("/bin/sh", "-c", `read -r go && exec "$0"`, bootstrap)
	gate, err := cmd.StdinPipe()
	if err != nil {
		return 0, fmt.Errorf("making a pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("starting a shell: %w", err)
	}
	if err := group.take(cmd.Process.Pid); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return 0, err
	}
	began := time.Now()
	if _, err := io.WriteString(gate, "go\n"); err != nil {
		err = fmt.Errorf("releasing the shell: %w", err)
		_ = cmd.Process.Kill()
		return 0, errors.Join(err, cmd.Wait())
	}
	return s.await(ctx, cmd, began)
}

// command is a program in the environment that Lambda gives it.
func (s *spawner) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.artifact
	cmd.Env = []string{"AWS_LAMBDA_RUNTIME_API=" + s.url, "_HANDLER=bootstrap", "LAMBDA_TASK_ROOT=" + s.artifact, "AWS_LAMBDA_FUNCTION_NAME=bench",
		"AWS_LAMBDA_FUNCTION_VERSION=$LATEST", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE=256", "AWS_REGION=us-east-1", "PATH=/usr/local/bin:/usr/bin:/bin",
		"SPILLWAY_CONFIG=gateway.json", "OPENAI_API_KEY=bench-upstream-key",
		"SPILLWAY_IDEMPOTENCY_TABLE=i", "SPILLWAY_HEALTH_TABLE=h", "SPILLWAY_REQUESTS_TABLE=r", "SPILLWAY_RESULTS_BUCKET=b",
		"SPILLWAY_JOBS_TABLE=j", "SPILLWAY_JOBS_QUEUE=http://127.0.0.1/p", "SPILLWAY_GENERATE_QUEUE=http://127.0.0.1/g", "SPILLWAY_WEBHOOKS_QUEUE=http://127.0.0.1/w",
		"AWS_ACCESS_KEY_ID=none", "AWS_SECRET_ACCESS_KEY=none"}
	cmd.Stdout, cmd.Stderr = drain{}, os.Stderr
	return cmd
}

// await waits for a process's first `next` and ends it.
func (s *spawner) await(ctx context.Context, cmd *exec.Cmd, began time.Time) (time.Duration, error) {
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	select {
	case at := <-s.asked:
		return at.Sub(began), nil
	case <-time.After(initPatience):
		return 0, fmt.Errorf("no next within %s", initPatience)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
