package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"spillway/internal/settings"
)

// TestWithoutTablesThereAreNoJobs, and who wants one is told what to set.
func TestWithoutTablesThereAreNoJobs(t *testing.T) {
	config := fmt.Sprintf(`{"version":"v","providers":[{"name":"google","kind":"veo","base_url":"https://google.test"}],
		"channels":[{"provider":"google","models":["veo"],"credentials":[{"alias":"a","secret":"env:KEY"}]}],
		"organizations":[{"name":"o","models":["*"]}],"keys":[{"sha256":"%x","organization":"o"}]}`, sha256.Sum256([]byte("sk-client")))
	for name, s := range map[string]settings.Settings{"no shared state": {}, "a shared state without jobs": {State: &settings.State{Region: "eu-central-1"}}} {
		t.Run(name, func(t *testing.T) {
			h, err := wire(s, func(string) string { return "secret" }, func(string) ([]byte, error) { return []byte(config), nil }, io.Discard)
			require.NoError(t, err)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/videos", strings.NewReader(`{"model":"veo","prompt":"p"}`))
			r.Header.Set("Authorization", "Bearer sk-client")
			r.Header.Set("Idempotency-Key", "k")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			assert.Equal(t, http.StatusServiceUnavailable, w.Code, w.Body)
			assert.Equal(t, "store_unavailable", gjson.Get(w.Body.String(), "error.code").Str)
			for _, name := range []string{settings.JobsTable, settings.JobsQueue, settings.GenerateQueue, settings.WebhooksQueue} {
				assert.Contains(t, gjson.Get(w.Body.String(), "error.message").Str, name)
			}
		})
	}
}
