package wire_test

import (
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/catalog"
	"spillway/internal/fault"
	"spillway/internal/media"
	"spillway/internal/provider"
	"spillway/internal/provider/wire"
)

// TestAnOrderIsNotSentOverAKeptConnection: one that has died unnoticed would leave it open whether the order was taken.
func TestAnOrderIsNotSentOverAKeptConnection(t *testing.T) {
	p := newPeer(t, func(conn net.Conn, n int, _ *http.Request) bool { return n == 1 && say(conn, fine) }) // it takes one request, and keeps the connection
	desk := wire.Desk{Wire: p.client(t), Policy: fault.Default()}
	task := provider.Task{Job: &media.Job{}, Channel: &catalog.Channel{Provider: &catalog.Provider{BaseURL: "http://provider.test/v1"}}, Credential: &catalog.Credential{}}
	for range 3 {
		x, f := desk.Submit(t.Context(), task, wire.Method{Path: "/videos"}, wire.Header(task, "*/*"), []byte(`{}`))
		require.Nil(t, f)
		text, f := desk.Text(task, x, 10)
		require.Nil(t, f)
		assert.Equal(t, "ok", text)
		require.NoError(t, x.Body.Close())
	}
	assert.EqualValues(t, 3, p.requests.Load())
	assert.EqualValues(t, 3, p.conns.Load())
}
