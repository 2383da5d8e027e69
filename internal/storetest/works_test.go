package storetest_test

import (
	"net/http/httptest"
	"testing"

	"spillway/internal/storetest"
)

func TestMemoryWorks(t *testing.T) {
	works := &storetest.MemoryWorks{}
	server := httptest.NewServer(works)
	t.Cleanup(server.Close)
	works.Base = server.URL
	storetest.Works(t, works, storetest.WorksBackend{Left: func(*testing.T) []string { return nil }})
}
