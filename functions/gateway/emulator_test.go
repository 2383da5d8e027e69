package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"spillway/internal/runtimeapi/runtest"
	"spillway/internal/settings"
)

func TestTheRuntimeInterfaceEmulatorRunsTheFunction(t *testing.T) {
	emulator := runtest.Emulate(t, sampleConfiguration(t), settings.Simulator+"="+startProvider(t), "SIM_KEY=any")
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		t.Run(name, func(t *testing.T) {
			answers[name](t, readAnswer(t, emulator.Invoke(t, readEvent(t, name))))
		})
	}
	record := emulator.Log(t)
	assert.Equal(t, 1, strings.Count(record, "INIT RTDONE(status: success)"), "one process serves all events")
	assert.Equal(t, len(answers), strings.Count(record, "INVOKE RTDONE(status: success"))
}
