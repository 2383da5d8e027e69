package simulate_test

import (
	"context"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"spillway/internal/simulate"
)

func TestPipeListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := simulate.NewPipeListener()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.Dial(ctx) // nobody accepts
		fails(t, context.DeadlineExceeded, err)

		accepted := make(chan net.Conn, 1)
		go func() {
			conn, _ := l.Accept()
			accepted <- conn
		}()
		client, err := l.Dial(t.Context())
		ok(t, err)
		server := <-accepted
		go func() { _, _ = client.Write([]byte("x")) }()
		n, err := server.Read(make([]byte, 2))
		ok(t, err)
		same(t, "bytes", 1, n)

		ok(t, l.Close())
		ok(t, l.Close())
		_, err = l.Dial(t.Context())
		fails(t, syscall.ECONNREFUSED, err)
		_, err = l.Accept()
		fails(t, net.ErrClosed, err)
		ok(t, client.Close())
		ok(t, server.Close())
	})
}
