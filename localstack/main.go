// Command localstack runs the whole stack on one machine: it reads template.yaml, builds the functions' real bootstraps
// and runs them behind a local Lambda, with a simulated provider to call. It is run from the project's root.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	o, err := parseOptions(os.Args[1:], os.Getenv, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		os.Exit(2)
	}
	endWithParent()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	do := run
	switch {
	case o.seed:
		do = seed
	case o.demo:
		do = demo
	case o.event != "":
		do = invoke
	}
	if err := do(ctx, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "localstack:", err)
		os.Exit(1)
	}
}
