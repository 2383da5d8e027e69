package storetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/idempotency"
)

// Objects runs what every idempotency.Objects must do.
func Objects(t *testing.T, o idempotency.Objects) {
	name := func() string { return fmt.Sprintf("results/acme/%016x/owner", rand.Uint64()) }
	t.Run("an object is read back as it was put, once Put has returned", func(t *testing.T) {
		n, body := name(), bytes.Repeat([]byte{0, 1, 0x8b, 0xff, '\n'}, 100_000)
		require.NoError(t, o.Put(t.Context(), n, "application/gzip", body))
		got, err := o.Get(t.Context(), n, int64(len(body)))
		require.NoError(t, err)
		assert.True(t, bytes.Equal(body, got))
	})
	t.Run("B37 f: a repeated write overwrites", func(t *testing.T) {
		n := name()
		require.NoError(t, o.Put(t.Context(), n, "application/gzip", []byte("first")))
		require.NoError(t, o.Put(t.Context(), n, "application/gzip", []byte("second")))
		got, err := o.Get(t.Context(), n, 100)
		require.NoError(t, err)
		assert.Equal(t, "second", string(got))
	})
	t.Run("one that is larger than expected is refused", func(t *testing.T) {
		n := name()
		require.NoError(t, o.Put(t.Context(), n, "application/gzip", []byte("12345")))
		_, err := o.Get(t.Context(), n, 4)
		assert.Error(t, err)
	})
	t.Run("one that is not there is an error", func(t *testing.T) {
		_, err := o.Get(t.Context(), name(), 100)
		assert.Error(t, err)
	})
}
