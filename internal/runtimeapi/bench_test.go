//go:build linux

package runtimeapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"spillway/internal/runtimeapi"
)

// BenchmarkWarmRoundTrip is a client's request through the front and a warm function and back, one at a time.
func BenchmarkWarmRoundTrip(b *testing.B) {
	for name, freeze := range map[string]bool{"running": false, "frozen between": true} {
		b.Run(name, func(b *testing.B) {
			front, err := runtimeapi.New(runtimeapi.Function{
				Name: "bench", Bootstrap: filepath.Join(bootstraps, "streaming"), Mode: runtimeapi.Stream, Freeze: freeze,
			}, runtimeapi.Prestart(1))
			must(b, err)
			defer front.Close()
			server := httptest.NewServer(front)
			defer server.Close()
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				resp, err := http.Get(server.URL + "/pid")
				must(b, err)
				_, err = io.Copy(io.Discard, resp.Body)
				must(b, err)
				resp.Body.Close()
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
			equal(b, 1, front.Boots())
		})
	}
}
