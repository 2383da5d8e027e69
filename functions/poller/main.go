// Command poller drives media jobs: a Lambda function behind the queues of polls, of orders to be submitted and of callbacks
// to be told.
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
