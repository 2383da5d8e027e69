package simulate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// maxRequestBody is above anything a gateway may send on.
const maxRequestBody = 32 << 20

// Provider is a simulated provider. Make it with New; its methods may be called
// from any goroutine.
type Provider struct {
	gap     time.Duration
	takes   time.Duration     // a job, from its order to its end
	trickle time.Duration     // the work of a slow model
	names   map[string]string // a model's other names
	ledger  ledger
	books   books
	inbox   inbox

	closed chan struct{}
	wg     sync.WaitGroup

	mu        sync.Mutex // guards the rest
	closing   bool
	listeners map[net.Listener]struct{}
	conns     map[net.Conn]struct{}
	connCount int
}

// Option changes a Provider in New.
type Option func(*Provider)

// Gap is the time between two tokens; the default is 5 ms. A plain answer takes
// as long as the stream of its tokens would.
func Gap(d time.Duration) Option { return func(p *Provider) { p.gap = d } }

// JobTakes is the time from an order to the end of its job; the default is 6 s. A third of it the job waits.
func JobTakes(d time.Duration) Option { return func(p *Provider) { p.takes = d } }

// SlowTakes is the time over which the work of a slow model trickles; the default is 20 s.
func SlowTakes(d time.Duration) Option { return func(p *Provider) { p.trickle = d } }

// Named gives a model one more name, for callers to whom names say something,
// such as a price.
func Named(name, model string) Option { return func(p *Provider) { p.names[name] = model } }

// New returns a provider that serves nothing yet.
func New(opts ...Option) *Provider {
	p := &Provider{
		gap:       5 * time.Millisecond,
		takes:     6 * time.Second,
		trickle:   20 * time.Second,
		names:     map[string]string{},
		closed:    make(chan struct{}),
		listeners: map[net.Listener]struct{}{},
		conns:     map[net.Conn]struct{}{},
	}
	for _, opt := range opts {
		opt(p)
	}
	return p
}

// Serve answers connections of l until Close, then returns nil; any other end of
// l is returned. It closes l. Several listeners may be served at once.
func (p *Provider) Serve(l net.Listener) error {
	defer l.Close()
	if !p.enter(l) {
		return nil
	}
	defer p.leave(l)
	for {
		conn, err := l.Accept()
		if err != nil {
			if p.isClosed() {
				return nil
			}
			return fmt.Errorf("accepting: %w", err)
		}
		if !p.open(conn) {
			conn.Close()
			return nil
		}
	}
}

// Close ends every listener and connection at once and returns when no goroutine
// of the provider's is left, except callers of Serve that are on their way out.
func (p *Provider) Close() error {
	p.mu.Lock()
	if !p.closing {
		p.closing = true
		close(p.closed)
	}
	for l := range p.listeners {
		l.Close()
	}
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
	return nil
}

func (p *Provider) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closing
}

func (p *Provider) enter(l net.Listener) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return false
	}
	p.listeners[l] = struct{}{}
	return true
}

func (p *Provider) leave(l net.Listener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.listeners, l)
}

// open starts the two goroutines of a connection: one reads requests, and so
// notices when the client leaves; the other answers them in order.
func (p *Provider) open(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return false
	}
	p.connCount++
	p.conns[conn] = struct{}{}
	c := &connection{
		provider: p,
		conn:     conn,
		number:   p.connCount,
		requests: make(chan incoming),
		gone:     make(chan struct{}),
		done:     make(chan struct{}),
	}
	p.wg.Go(c.read)
	p.wg.Go(func() {
		c.answer()
		p.mu.Lock()
		delete(p.conns, conn)
		p.mu.Unlock()
	})
	return true
}

// incoming is a request read whole.
type incoming struct {
	request *http.Request
	body    []byte
	at      time.Time
}

type connection struct {
	provider *Provider
	conn     net.Conn
	number   int
	requests chan incoming
	gone     chan struct{} // closed by read: the client left
	done     chan struct{} // closed by answer: nothing more will be answered
}

func (c *connection) read() {
	defer close(c.gone)
	in := bufio.NewReader(c.conn)
	for {
		request, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(io.LimitReader(request.Body, maxRequestBody+1))
		if err != nil || len(body) > maxRequestBody {
			return
		}
		select {
		case c.requests <- incoming{request: request, body: body, at: time.Now()}:
		case <-c.done:
			return
		}
	}
}

func (c *connection) answer() {
	defer c.conn.Close()
	defer close(c.done)
	for {
		select {
		case in := <-c.requests:
			if !c.provider.respond(c, in) || in.request.Close {
				return
			}
		case <-c.gone:
			return
		}
	}
}

// errProviderClosed ends a wait when the provider is closed.
var errProviderClosed = errors.New("the simulated provider was closed")

// errClientGone ends a wait or a write when the client has left.
var errClientGone = errors.New("the client left")

// pause waits d, or without bound if d is forever. It ends early when the client
// leaves or the provider closes, and reports that even when d is 0.
func (c *connection) pause(d time.Duration) error {
	select {
	case <-c.provider.closed:
		return errProviderClosed
	case <-c.gone:
		return c.lost()
	default:
	}
	if d == 0 {
		return nil
	}
	var timer <-chan time.Time // nil: never
	if d != forever {
		t := time.NewTimer(d)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-timer:
		return nil
	case <-c.gone:
		return c.lost()
	case <-c.provider.closed:
		return errProviderClosed
	}
}

// lost says why the connection died: Close kills it too.
func (c *connection) lost() error {
	if c.provider.isClosed() {
		return errProviderClosed
	}
	return errClientGone
}

const forever = time.Duration(-1)

func (c *connection) write(s string) error {
	if _, err := io.WriteString(c.conn, s); err != nil {
		return c.lost()
	}
	return nil
}

// play sends one reply and says how it ended. id is the header that names the call;
// keep is whether the connection can carry another request.
func (c *connection) play(r Reply, id http.Header) (outcome string, keep bool) {
	if err := c.send(r, id); err != nil {
		return outcomeOf(err), false
	}
	switch r.End {
	case Cut:
		return OutcomeCut, false
	case Reset:
		if tcp, ok := c.conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // the close that follows sends RST; without it, it is a Cut
		}
		return OutcomeReset, false
	case Stall:
		hold := r.Hold
		if hold == 0 {
			hold = forever
		}
		if err := c.pause(hold); err != nil {
			return outcomeOf(err), false
		}
		return OutcomeStalled, false
	default:
		return OutcomeComplete, r.Raw == "" && r.Status != NoAnswer && !strings.EqualFold(r.Header.Get("Connection"), "close")
	}
}

func outcomeOf(err error) string {
	if errors.Is(err, errProviderClosed) {
		return OutcomeClosed
	}
	return OutcomeClientGone
}

func (c *connection) send(r Reply, id http.Header) error {
	if err := c.pause(r.Delay); err != nil {
		return err
	}
	switch {
	case r.Raw != "":
		return c.write(r.Raw)
	case r.Status == NoAnswer:
		return nil
	case r.Stream != nil:
		return c.sendStream(r, id)
	case r.work != nil:
		return c.sendWork(r, id)
	}
	body := r.Body
	if r.End != Complete {
		body = body[:len(body)/2]
	}
	return c.write(head(r, id) + body)
}

func (c *connection) sendStream(r Reply, id http.Header) error {
	if err := c.write(head(r, id)); err != nil {
		return err
	}
	for _, chunk := range r.Stream {
		if err := c.pause(chunk.After); err != nil {
			return err
		}
		if chunk.Data == "" {
			continue // an empty HTTP chunk would be the end of the body
		}
		if err := c.write(fmt.Sprintf("%x\r\n%s\r\n", len(chunk.Data), chunk.Data)); err != nil {
			return err
		}
	}
	if r.End == Complete {
		return c.write("0\r\n\r\n")
	}
	return nil
}

// head is the status line and the header block with its blank line.
func head(r Reply, id http.Header) string {
	status := r.Status
	if status == 0 {
		status = http.StatusOK
	}
	h := http.Header{}
	if ct := contentType(r); ct != "" {
		h.Set("Content-Type", ct)
	}
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	maps.Copy(h, id)
	switch {
	case r.Stream != nil:
		h.Set("Transfer-Encoding", "chunked")
	case r.work != nil:
		h.Set("Content-Length", fmt.Sprint(r.work.size))
	default:
		h.Set("Content-Length", fmt.Sprint(len(r.Body)))
	}
	maps.Copy(h, r.Header)
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	_ = h.Write(&b)
	b.WriteString("\r\n")
	return b.String()
}

func contentType(r Reply) string {
	switch {
	case r.Stream != nil:
		return "text/event-stream; charset=utf-8"
	case r.work != nil:
		return r.work.mediaType()
	case strings.HasPrefix(r.Body, "{"), strings.HasPrefix(r.Body, "["):
		return "application/json"
	case strings.HasPrefix(r.Body, "<"):
		return "text/html; charset=utf-8"
	}
	return ""
}
