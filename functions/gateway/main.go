// Command gateway is the streaming front door: a Lambda function behind a function URL with RESPONSE_STREAM, or a plain
// HTTP server when SPILLWAY_ADDR is set.
package main

import (
	"fmt"
	"os"

	"spillway/internal/edge"
	"spillway/internal/settings"
)

func main() {
	if err := run(os.Getenv); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(getenv func(string) string) error {
	s, err := settings.Load(getenv)
	if err != nil {
		return fmt.Errorf("reading the settings: %w", err)
	}
	handler, err := wire(s, getenv, os.ReadFile, os.Stdout)
	if err != nil {
		return err
	}
	if s.Addr != "" {
		return edge.ListenAndServe(s.Addr, handler)
	}
	edge.Start(handler, edge.LambdaOptions{})
	return nil
}
