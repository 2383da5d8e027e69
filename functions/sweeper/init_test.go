package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/runtimeapi/runtest"
)

func TestMain(m *testing.M) { runtest.Main(m, main) }

// TestABadConfigurationFailsTheInit: with every problem at once, of the settings and of the configuration.
func TestABadConfigurationFailsTheInit(t *testing.T) {
	f, err := runtest.Start(t, `{"version":"","providers":[{"name":"one","kind":"nobody"}]}`, "SPILLWAY_LOG_LEVEL=loud", "SPILLWAY_JOBS_TABLE=jobs")
	require.Error(t, err)
	for _, want := range []string{"SPILLWAY_LOG_LEVEL: ", "SPILLWAY_IDEMPOTENCY_TABLE: is required", "SPILLWAY_WEBHOOKS_QUEUE: is required", "version: ", "providers[0].kind: ", "providers[0].base_url: "} {
		assert.Contains(t, f.Log(), want)
	}
	assert.NotContains(t, f.Log(), "SPILLWAY_JOBS_TABLE: ")
}
