// Command compile checks a configuration and writes the JSON of it that functions load. Everything that is wrong is
// printed, one line each, as file:line: path: message.
//
//	go run ./internal/catalog/source/compile -check
//	go run ./internal/catalog/source/compile -in infra/gateway.yaml -out build/GatewayFunction/gateway.json
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"spillway/internal/catalog/source"
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

// run returns the exit code: 1 when something is wrong with the configuration or a file, 2 when it is with the flags.
func run(args []string, output io.Writer) int {
	flags := flag.NewFlagSet("compile", flag.ContinueOnError)
	flags.SetOutput(output)
	in := flags.String("in", "infra/gateway.yaml", "the configuration, a `path`")
	out := flags.String("out", "", "where its JSON goes, a `path`; its folder is made")
	checkOnly := flags.Bool("check", false, "write nothing")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0 || (*out == "") != *checkOnly:
		fmt.Fprintln(output, "either -out or -check is needed, and nothing else")
		flags.Usage()
		return 2
	}
	if err := compile(*in, *out); err != nil {
		fmt.Fprintln(output, err)
		return 1
	}
	return 0
}

// compile writes nothing when out is empty.
func compile(in, out string) error {
	document, err := source.Read(in)
	if err != nil || out == "" {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return fmt.Errorf("making the folder of the configuration: %w", err)
	}
	if err := os.WriteFile(out, document, 0o644); err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}
	return nil
}
