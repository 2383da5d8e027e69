package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// sourceFolder is where the main package of a function lies: GatewayFunction is functions/gateway, as in the Makefile.
func sourceFolder(logicalID string) string {
	return "functions/" + shortName(logicalID)
}

func shortName(logicalID string) string {
	return strings.ToLower(strings.TrimSuffix(logicalID, "Function"))
}

// build makes the bootstrap of a function for this machine, in the flavour that is deployed, and returns its path:
// out/<LogicalId>/bootstrap. What has not changed comes from the build cache.
func build(ctx context.Context, logicalID, out string, progress io.Writer) (string, error) {
	bootstrap := filepath.Join(out, logicalID, "bootstrap")
	source := sourceFolder(logicalID)
	if _, err := os.Stat(bootstrap); err != nil {
		fmt.Fprintf(progress, "building %s; the first time takes a while\n", source)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", "lambda.norpc", "-o", bootstrap, "./"+source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", source, err, output)
	}
	return bootstrap, nil
}
