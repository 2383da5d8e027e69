package catalog_test

import (
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/catalog"
)

var update = flag.Bool("update", false, "write infra/gateway.schema.json anew")

// The schema that editors read is the one that the tags of the file make: go test ./internal/catalog -update
func TestSchema(t *testing.T) {
	const golden = "../../infra/gateway.schema.json"
	if *update {
		require.NoError(t, os.WriteFile(golden, catalog.Schema(), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(catalog.Schema()), "go test ./internal/catalog -update writes it anew")
}
