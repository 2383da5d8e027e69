package simulate

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// PipeListener is a [net.Listener] whose connections live in memory. Made inside
// a testing/synctest bubble, everything that waits on it is driven by the
// bubble's clock. Its connections are [net.Pipe]s: unbuffered, and without a
// reset (a reset reads as an end of file on the other side).
type PipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewPipeListener returns a listener that accepts what its Dial connects.
func NewPipeListener() *PipeListener {
	return &PipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects to the listener and waits until the connection is accepted. A
// closed listener refuses, with an error that matches [syscall.ECONNREFUSED].
func (l *PipeListener) Dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: "pipe", Addr: l.Addr(), Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: "pipe", Addr: l.Addr(), Err: ctx.Err()}
	}
}

// DialContext is Dial in the shape of [net/http.Transport.DialContext]: every
// address leads to this listener.
func (l *PipeListener) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	return l.Dial(ctx)
}

// Accept waits for the next Dial. After Close it returns [net.ErrClosed].
func (l *PipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close refuses further connections; those already made stay open.
func (l *PipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr is the same for every PipeListener.
func (l *PipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
