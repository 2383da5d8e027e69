package fault_test

import (
	"testing"

	"spillway/internal/fault"
)

// BenchmarkLoad is what the embedded table costs a cold start.
func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		fault.Load()
	}
}

func BenchmarkParsePolicy(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := fault.ParsePolicy(fault.PolicyTable()); err != nil {
			b.Fatal(err)
		}
	}
}
