package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"spillway/internal/runtimeapi"
)

// stage is everything that requests are sent to, running: the upstream by itself, the upstream behind the least that a
// proxy can be, the gateway as a plain HTTP server, and two functions behind the same front end.
type stage struct {
	direct, proxy, gateway, echoFront, gatewayFront *target

	shared *shared

	closers []func()
}

func newStage(ctx context.Context, made programs, folder string) (s *stage, err error) {
	s = new(stage)
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	upstream, err := startUpstream(made)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, upstream.end)
	proxy, err := startUpstream(made, "-proxy", upstream.url)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, proxy.end)

	settings, err := configuration()
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration: %w", err)
	}
	file := filepath.Join(folder, "gateway.json")
	if err := os.WriteFile(file, settings, 0o600); err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	env := []string{"SPILLWAY_CONFIG=" + file, "SPILLWAY_SIMULATOR_URL=" + upstream.url + "/v1", "SIM_KEY=bench-upstream-key"}
	gateway, err := startGateway(ctx, made, env)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, gateway.end)
	s.direct, s.proxy, s.gateway = newTarget(upstream.url, upstream.pid()), newTarget(proxy.url, proxy.pid()), newTarget(gateway.url, gateway.pid())
	if s.gatewayFront, err = s.function(made.gateway, env); err != nil {
		return nil, err
	}
	if s.echoFront, err = s.function(made.echo, nil); err != nil {
		return nil, err
	}
	if err := s.share(ctx, made.gateway, upstream.url, folder); err != nil {
		return nil, err
	}
	return s, s.warmUp(ctx)
}

// function starts a bootstrap behind a function URL, with one environment.
func (s *stage) function(bootstrap string, env []string) (*target, error) {
	front, err := runtimeapi.New(runtimeapi.Function{Name: "bench", Bootstrap: bootstrap, Env: env, Timeout: 15 * time.Minute, MemoryMB: 256,
		Concurrency: 1, Mode: runtimeapi.Stream, Stdout: drain{}, Stderr: os.Stderr}, runtimeapi.Prestart(1))
	if err != nil {
		return nil, fmt.Errorf("starting a function: %w", err)
	}
	s.closers = append(s.closers, func() { _ = front.Close() })
	entrance, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for clients: %w", err)
	}
	server, over := &http.Server{Handler: front, ReadHeaderTimeout: time.Minute}, make(chan struct{})
	go func() {
		defer close(over)
		_ = server.Serve(entrance) // ends with the server
	}()
	s.closers = append(s.closers, func() { _ = server.Close(); <-over })
	return newTarget("http://"+entrance.Addr().String(), front.Environments()[0].PID), nil
}

func (s *stage) targets() []*target {
	return []*target{s.direct, s.proxy, s.gateway, s.echoFront, s.gatewayFront}
}

// warmUp lets connections be made, and caches and heaps find their size.
func (s *stage) warmUp(ctx context.Context) error {
	for _, t := range s.targets() {
		for range 300 {
			_, errPlain := t.plain(ctx)
			_, errStream := t.firstContent(ctx)
			if err := errors.Join(errPlain, errStream); err != nil {
				return fmt.Errorf("warming up: %w", err)
			}
		}
	}
	return nil
}

// close ends everything, the last to start first.
func (s *stage) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
	s.closers = nil
}
