// Command prices writes internal/usage/prices.txt: the prices of npm's @pydantic/genai-prices at a pinned version, for the
// providers that the gateway speaks to, with overrides.json laid over them. It needs npm and node, which nothing else here
// does; run it in the root of the repository after a change of the version below or of overrides.json.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"spillway/internal/usage"
)

// The source of the prices. A new version needs its digest, and a look at the difference that it makes.
const (
	sourceName    = "@pydantic/genai-prices"
	sourceVersion = "0.1.8"
	sourceDate    = "2026-09-23"
	sourceSHA256  = "8c9ba41e46719abc54a0ae4756ba5f2b5a768b8117fb29f40c5ca7ed3146eb5b"
)

// table is where the prices are written, seen from the root of the repository.
const table = "internal/usage/prices.txt"

//go:embed dump.mjs
var dump []byte

//go:embed overrides.json
var overrides []byte

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "prices:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "prices")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := fetch(ctx, dir); err != nil {
		return fmt.Errorf("fetching %s %s: %w", sourceName, sourceVersion, err)
	}
	data, err := read(ctx, dir)
	if err != nil {
		return fmt.Errorf("reading %s: %w", sourceName, err)
	}
	licence, err := os.ReadFile(filepath.Join(dir, "package", "LICENSE"))
	if err != nil {
		return err
	}
	text, err := generate(data, overrides, string(licence))
	if err != nil {
		return err
	}
	t, err := usage.Parse(text)
	if err != nil {
		return err
	}
	if err := os.WriteFile(table, []byte(text), 0o644); err != nil {
		return err
	}
	fmt.Printf("%s: version %s, %d bytes\n", table, t.Version(), len(text))
	return nil
}

// fetch unpacks the package of the source into dir, if it is the one that we know.
func fetch(ctx context.Context, dir string) error {
	out, err := output(ctx, dir, "npm", "pack", "--silent", sourceName+"@"+sourceVersion)
	if err != nil {
		return err
	}
	archive, err := os.ReadFile(filepath.Join(dir, filepath.Base(strings.TrimSpace(string(out)))))
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(archive); hex.EncodeToString(sum[:]) != sourceSHA256 {
		return fmt.Errorf("its digest is %x, not the pinned one", sum)
	}
	return unpack(archive, dir)
}

// unpack writes the files of a gzipped tar archive below dir.
func unpack(archive []byte, dir string) error {
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case h.Typeflag != tar.TypeReg:
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if err := root.MkdirAll(filepath.Dir(h.Name), 0o755); err != nil {
			return err
		}
		if err := root.WriteFile(h.Name, data, 0o644); err != nil {
			return err
		}
	}
}

// read has node print the providers of the unpacked package.
func read(ctx context.Context, dir string) ([]provider, error) {
	if err := os.WriteFile(filepath.Join(dir, "dump.mjs"), dump, 0o644); err != nil {
		return nil, err
	}
	out, err := output(ctx, dir, "node", "dump.mjs")
	if err != nil {
		return nil, err
	}
	var providers []provider
	return providers, json.Unmarshal(out, &providers)
}

func output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("running %s: %w", name, err)
	}
	return out, nil
}
