// Command faults runs the fault suite: the real function binaries against providers
// that misbehave on purpose, one line a fault. It exits with 1 when a row failed
// or fell behind what the table records, and with 2 when it could not run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"spillway/internal/simulate/suite"
)

func main() {
	var o suite.Options
	flag.StringVar(&o.Bin, "bin", "", "folder to build the functions into (default: a temporary one)")
	flag.Uint64Var(&o.Seed, "seed", 0, "where the randomness of rows with media jobs begins, as such a row has printed it (default: drawn)")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: faults [-bin folder] [-seed number] [row …]\nRows are named as in the table, or by number: F03")
		flag.PrintDefaults()
	}
	flag.Parse()
	o.Only = flag.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ok, err := suite.Run(ctx, o, os.Stdout)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(2)
	case !ok:
		os.Exit(1)
	}
}
