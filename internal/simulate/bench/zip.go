package main

import (
	"archive/zip"
	"compress/flate"
	"fmt"
	"io"
	"os"
)

// zipped measures what is uploaded to Lambda: the folder that `make build` leaves, zipped as small as it gets.
func zipped(folder string, r *report) error {
	var size counter
	w := zip.NewWriter(&size)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) { return flate.NewWriter(out, flate.BestCompression) })
	if err := w.AddFS(os.DirFS(folder)); err != nil {
		return fmt.Errorf("zipping %s: %w", folder, err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("zipping %s: %w", folder, err)
	}
	r.add(figure{section: "size", name: "zip of the linux/arm64 function", unit: "MB of 10⁶ bytes", target: 3.5}, float64(size)/1e6)
	return nil
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
