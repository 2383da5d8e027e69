package gateway_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"spillway/internal/breaker"
	"spillway/internal/catalog"
	"spillway/internal/dialect"
	chatdialect "spillway/internal/dialect/openai"
	"spillway/internal/edge"
	"spillway/internal/fault"
	"spillway/internal/gateway"
	"spillway/internal/idempotency"
	"spillway/internal/ledger"
	"spillway/internal/provider"
	"spillway/internal/provider/openai"
	"spillway/internal/provider/wire"
	"spillway/internal/retry"
	"spillway/internal/route"
	"spillway/internal/simulate"
	"spillway/internal/telemetry"
	"spillway/internal/tenant"
	routetrace "spillway/internal/trace"
)

// Words that must not travel: they are planted where the gateway reads them and looked for wherever it writes.
const (
	clientKey = "client-key-4711"
	// operatorKey may read traces, and so may strangerKey, of another organization.
	operatorKey = "operator-key-4712"
	strangerKey = "stranger-key-4713"
	// secret is in the upstream credentials, in the providers' static headers and in every part of their addresses.
	secret = "SECRET123"
	// domain is the end of the providers' host names.
	domain = "upstream.test"
	// prompt is what the user says.
	prompt = "PROMPT-TEXT"
	// theirs is the text of every scripted error.
	theirs = "UPSTREAM-TEXT"
)

// letters name the scripted channels in a trace by the model that is called.
var letters = map[string]string{"a-1": "A", "b-9": "B", "c-5": "C"}

// world is the whole gateway, from the HTTP handler to the wire, over scripted providers. It lives in one bubble.
type world struct {
	handler  http.Handler
	provider *simulate.Provider
	wire     *wire.Client
	records  bytes.Buffer
	traces   routetrace.Store
	start    time.Time
	close    func()

	mu sync.Mutex
	// down are the hosts that refuse connections; refused are the refusals.
	down    map[string]bool
	refused []call
}

// settings are what a row changes of the configuration: members of the JSON objects, as written there.
type settings struct {
	route, a, b, c, organization string
	// credentials of channel a beside its first one.
	credentials []string
	// adapter and dialect wrap the real ones.
	adapter func(provider.Provider) provider.Provider
	dialect func(dialect.Dialect) dialect.Dialect
	// pictures is the host that images are fetched from; nil: nothing can be fetched.
	pictures *pictures
	// maxEvent is the largest frame of a stream; 0: the default.
	maxEvent int
	// maxStream bounds what is relayed of a stream; 0: no bound.
	maxStream int
	// claims and objects keep Idempotency-Keys, nil: in memory, and large answers, nil: none are kept. storeless says that
	// there is no place for keys.
	claims    idempotency.Store
	storeless bool
	objects   idempotency.Objects
	// health is what is known of the candidates; nil: nothing yet, and nobody else's.
	health *breaker.Fleet
	// traces keeps traces and ledger tool calls; nil: in memory. config are more members of the configuration, key of the key.
	traces      routetrace.Store
	ledger      ledger.Store
	config, key string
	// down are the letters of the channels whose hosts refuse connections.
	down string
}

// config has three channels of a model each: `fast` is A then B, `three` is A, B, C, `alone` is A, `other` is B.
const config = `{"version": "cases",
"providers": [
  {"name": "alpha", "kind": "openai", "base_url": "http://a.%[1]s/%[2]s/v1", "query": {"key": "%[2]s"}, "headers": {"X-Tenant": "%[2]s-tenant"}},
  {"name": "beta", "kind": "openai", "base_url": "http://b.%[1]s/%[2]s/v1", "query": {"key": "%[2]s"}},
  {"name": "gamma", "kind": "openai", "base_url": "http://c.%[1]s/%[2]s/v1", "query": {"key": "%[2]s"}}],
"channels": [
  {"name": "a", "provider": "alpha", "models": ["a-1"], "credentials": [{"alias": "a-key", "secret": "env:A"}%[3]s]%[4]s},
  {"name": "b", "provider": "beta", "models": ["b-9"], "credentials": [{"alias": "b-key", "secret": "env:B"}]%[5]s},
  {"name": "c", "provider": "gamma", "models": ["c-5"], "credentials": [{"alias": "c-key", "secret": "env:C"}]%[6]s}],
"routes": [
  {"alias": "fast", "models": ["a-1", "b-9"]%[7]s},
  {"alias": "three", "models": ["a-1", "b-9", "c-5"]%[7]s},
  {"alias": "alone", "models": ["a-1"]%[7]s},
  {"alias": "other", "models": ["b-9"]%[7]s}],
"organizations": [{"name": "org", "models": %[8]s}, {"name": "elsewhere", "models": ["*"]}],
"keys": [{"sha256": "%[9]s", "alias": "key", "organization": "org"%[10]s},
  {"sha256": "%[11]s", "alias": "operator", "organization": "org", "permissions": ["trace"]},
  {"sha256": "%[12]s", "alias": "stranger", "organization": "elsewhere", "permissions": ["trace"]}]%[13]s}`

// digest is a key as the configuration knows it.
func digest(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

func (s settings) json() string {
	more := func(members string) string {
		if members == "" {
			return ""
		}
		return ", " + members
	}
	var credentials strings.Builder
	for _, alias := range s.credentials {
		fmt.Fprintf(&credentials, `, {"alias": %q, "secret": "env:%s"}`, alias, alias)
	}
	return fmt.Sprintf(config, domain, secret, credentials.String(), more(s.a), more(s.b), more(s.c), more(s.route),
		cmp.Or(s.organization, `["*"]`), digest(clientKey), more(s.key), digest(operatorKey), digest(strangerKey), more(s.config))
}

// inBubble runs a test in a bubble with a world that is gone, with all its goroutines, at the end.
func inBubble(t *testing.T, s settings, test func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, s)
		defer w.close()
		test(t, w)
	})
}

func newWorld(t *testing.T, s settings) *world {
	t.Helper()
	w := &world{provider: simulate.New(), start: time.Now(), down: map[string]bool{}}
	listener := simulate.NewPipeListener()
	served := make(chan error, 1)
	go func() { served <- w.provider.Serve(listener) }()
	w.wire = &wire.Client{Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
		if w.refuses(address) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("dialling %s: %w", address, syscall.ECONNREFUSED)}
		}
		return listener.Dial(ctx)
	}}
	for _, letter := range s.down {
		w.down[strings.ToLower(string(letter))] = true
	}
	w.handler = w.gateway(t, s)
	closePictures := s.pictures.serve()
	w.close = func() {
		closePictures()
		w.wire.Close()
		require.NoError(t, w.provider.Close())
		require.NoError(t, <-served)
	}
	return w
}

func (w *world) gateway(t *testing.T, s settings) http.Handler {
	t.Helper()
	c, err := catalog.Load([]byte(s.json()), func(name string) string { return "sk-" + secret + "-" + name })
	require.NoError(t, err)
	var adapter provider.Provider = &openai.Provider{Wire: w.wire, Policy: fault.Default(), MaxEvent: s.maxEvent}
	if s.adapter != nil {
		adapter = s.adapter(adapter)
	}
	var chat dialect.Dialect = chatdialect.Chat{}
	if s.dialect != nil {
		chat = s.dialect(chat)
	}
	recorder := telemetry.New(&w.records, slog.LevelDebug)
	claims := s.claims
	if claims == nil && !s.storeless {
		claims = &idempotency.Memory{}
	}
	health := s.health
	if health == nil {
		health = &breaker.Fleet{}
	}
	health.Lost = recorder.StoreLost
	if w.traces = s.traces; w.traces == nil {
		w.traces = &routetrace.Memory{}
	}
	tools := s.ledger
	if tools == nil {
		tools = &ledger.Memory{}
	}
	g := &gateway.Gateway{Traces: w.traces, Ledger: tools, Catalog: c, Keys: tenant.NewTable(c), Providers: map[string]provider.Provider{"openai": adapter},
		Policy: fault.Default(), Health: health, Shares: &retry.Shares{}, Latencies: &route.Latencies{}, Recorder: recorder, Fetcher: s.pictures.fetcher(), Claims: claims, Objects: s.objects, DigestKey: []byte("digest"), MaxStream: s.maxStream, Random: func() float64 { return 0.5 }}
	return edge.New(edge.Config{Gateway: g, Recorder: recorder, Chat: chat, Version: "test", ConfigVersion: c.Version,
		PolicyVersion: fault.Default().Version})
}

// refuses notes a refused connection; address is host:port, and a host begins with its letter.
func (w *world) refuses(address string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	letter := address[:1]
	if !w.down[letter] {
		return false
	}
	w.refused = append(w.refused, call{letter: strings.ToUpper(letter), at: time.Since(w.start), ended: time.Since(w.start)})
	return true
}

// call is one physical call as the provider saw it, times since the world began.
type call struct {
	letter    string
	at, ended time.Duration
	open      bool // still being answered
	body      string
	headers   map[string]string
	path      string
	conn      int
}

// calls are all physical calls in order; a refused connection is one, and comes before a call of the same moment.
func (w *world) calls() []call {
	w.mu.Lock()
	out := slices.Clone(w.refused)
	w.mu.Unlock()
	for _, c := range w.provider.Calls() {
		letter := letters[c.Model]
		if letter == "" {
			letter = "?" + c.Model
		}
		out = append(out, call{letter: letter, at: c.At.Sub(w.start), ended: c.Ended.Sub(w.start), open: c.Ended.IsZero(),
			body: string(c.Body), headers: c.Headers, path: c.Path, conn: c.Conn})
	}
	slices.SortStableFunc(out, func(x, y call) int { return cmp.Compare(x.at, y.at) })
	return out
}

// trace writes calls as "A 200ms A B": who was called, and the time between two arrivals where there was any.
func trace(calls []call) string {
	var b strings.Builder
	for i, c := range calls {
		if i > 0 {
			if gap := c.at - calls[i-1].at; gap > 0 {
				b.WriteString(" " + gap.String())
			}
			b.WriteByte(' ')
		}
		b.WriteString(c.letter)
	}
	return b.String()
}

// request is one client call.
type request struct {
	method, path, key, body string
	header                  http.Header
	// deadline is the request context's, as the platform sets it; 0: none.
	deadline time.Duration
	// leaves says when the client goes away.
	leaves departure
}

// departure is when a client leaves; the zero value stays.
type departure struct {
	// after is a time, writes a number of writes received; what comes first counts.
	after  time.Duration
	writes int
	// unnoticed says that only a write can find out, as behind Lambda.
	unnoticed bool
}

var errGone = errors.New("the client has left")

// client is the far end of an answer. Like net/http's it takes the header as it is at the first write.
type client struct {
	header http.Header
	sent   http.Header // nil until the status line is out
	status int
	pieces []piece
	// flushed is how many bytes have been flushed.
	flushed, size int

	start  time.Time
	leaves departure
	leave  context.CancelFunc
	gone   atomic.Bool
}

// piece is one write.
type piece struct {
	at   time.Duration
	data string
}

func (c *client) Header() http.Header { return c.header }

func (c *client) WriteHeader(status int) {
	if c.sent != nil {
		panic("the status line is written twice")
	}
	c.status, c.sent = status, c.header.Clone()
	c.pieces = append(c.pieces, piece{at: time.Since(c.start)})
}

func (c *client) Write(b []byte) (int, error) {
	if c.sent == nil {
		c.WriteHeader(http.StatusOK)
	}
	if c.gone.Load() {
		return 0, errGone
	}
	c.size += len(b)
	c.pieces = append(c.pieces, piece{at: time.Since(c.start), data: string(b)})
	if c.leaves.writes > 0 && len(c.pieces)-1 >= c.leaves.writes {
		c.goAway()
	}
	return len(b), nil
}

func (c *client) Flush() { c.flushed = c.size }

func (c *client) goAway() {
	c.gone.Store(true)
	if !c.leaves.unnoticed {
		c.leave()
	}
}

// outcome is everything that can be seen of one client call.
type outcome struct {
	status   int
	header   http.Header
	body     string
	pieces   []piece
	flushed  bool // everything that was written
	returned time.Duration
	aborted  bool // the handler cut the connection
	left     bool // the client was gone before the end
	calls    []call
	records  []record
	// raw are the records' lines.
	raw string
	// trace is the trace that it left; nil: none.
	trace *routetrace.Trace
}

// committed is when the status line was sent.
func (o outcome) committed() time.Duration { return o.pieces[0].at }

// do makes one client call and waits until everything that belongs to it is over.
func (w *world) do(t *testing.T, r request) outcome {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if r.deadline > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, r.deadline)
		defer stop()
	}
	before, logged := len(w.calls()), w.records.Len()
	req := httptest.NewRequestWithContext(ctx, cmp.Or(r.method, http.MethodPost), cmp.Or(r.path, "/v1/chat/completions"), strings.NewReader(r.body))
	for name, values := range r.header {
		req.Header[name] = values
	}
	if r.key != "-" {
		req.Header.Set("Authorization", "Bearer "+cmp.Or(r.key, clientKey))
	}
	c := &client{header: http.Header{}, start: time.Now(), leaves: r.leaves, leave: cancel}
	if r.leaves.after > 0 {
		timer := time.AfterFunc(r.leaves.after, c.goAway)
		defer timer.Stop()
	}
	o := outcome{aborted: w.serve(c, req), returned: time.Since(c.start)}
	synctest.Wait()
	var err error
	o.status, o.header, o.pieces, o.flushed = c.status, c.sent, c.pieces, c.flushed == c.size
	o.left = c.gone.Load()
	for _, p := range c.pieces {
		o.body += p.data
	}
	o.calls = w.calls()[before:]
	o.raw = w.records.String()[logged:]
	o.records = parseRecords(t, o.raw)
	if o.trace, err = w.traces.Get(t.Context(), routetrace.Key{Organization: "org", RequestID: o.header.Get("X-Request-Id")}); err != nil {
		o.trace = nil // a store that fails on purpose
	}
	checkEnded(t, w, o, time.Since(w.start))
	return o
}

func (w *world) serve(c http.ResponseWriter, r *http.Request) (aborted bool) {
	defer func() {
		if v := recover(); v != nil {
			if v != http.ErrAbortHandler { //nolint:errorlint // a recovered value, which nobody wraps
				panic(v)
			}
			aborted = true
		}
	}()
	w.handler.ServeHTTP(c, r)
	return false
}

// checkEnded holds every call to be at its end when the handler returns, and the time to stand still after that.
func checkEnded(t *testing.T, w *world, o outcome, now time.Duration) {
	t.Helper()
	for i, c := range o.calls {
		require.False(t, c.open, "call %d (%s) goes on after the handler has returned", i+1, c.letter)
		require.LessOrEqual(t, c.ended, now, "call %d (%s)", i+1, c.letter)
	}
	require.Empty(t, unscripted(w.provider.Unexpected()), "calls that the script does not know")
}

// unscripted are the complaints about calls too many; replies too many are the row's to check.
func unscripted(all []string) []string {
	return slices.DeleteFunc(all, func(s string) bool { return strings.HasSuffix(s, "were not asked for") })
}
