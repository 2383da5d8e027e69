package storetest_test

import (
	"testing"

	"spillway/internal/storetest"
)

func TestTheMemoryKeepsWhatAStoreMust(t *testing.T) { storetest.Circuits(t, &storetest.Health{}) }
