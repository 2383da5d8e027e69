// Command sweeper looks after the media jobs that nobody else does any more: a Lambda function that a schedule invokes every
// minute.
package main

import (
	"fmt"
	"os"

	"spillway/functions/internal/graph"
)

func main() {
	handle, err := wire(os.Getenv, os.ReadFile, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	graph.Start(handle)
}
