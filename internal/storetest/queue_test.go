package storetest_test

import (
	"testing"
	"testing/synctest"

	"spillway/internal/storetest"
)

func TestMemoryQueue(t *testing.T) {
	storetest.Queue(t, func(t *testing.T, test func(*testing.T, storetest.Ends)) {
		synctest.Test(t, func(t *testing.T) {
			dead := &storetest.MemoryQueue{Visibility: storetest.QueueVisibility}
			q := &storetest.MemoryQueue{Visibility: storetest.QueueVisibility, Receives: storetest.QueueReceives, Dead: dead}
			test(t, storetest.Ends{Sender: q, Queue: q, Dead: dead})
		})
	})
}
