package main

import (
	"testing"

	"spillway/internal/runtimeapi/runtest"
)

func TestMain(m *testing.M) { runtest.Main(m, main) }

func TestABadConfigurationFailsTheInitWithEveryProblem(t *testing.T) { runtest.Misconfigured(t) }
