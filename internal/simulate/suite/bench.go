package suite

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"spillway/internal/runtimeapi"
	"spillway/internal/simulate"
	"spillway/internal/simulate/state"
)

const (
	clientKey   = "suite-client-key"
	otherKey    = "suite-other-client-key" // of another organization
	upstreamKey = "suite-upstream-key"
	routeAlias  = "fault"
	prompt      = "How does the flood pass the dam?"

	// What a row asks that wants a tool called, and the call that the simulated
	// provider then makes: its arguments fill the schema and come in pieces of six
	// characters, each of them a token.
	toolPrompt    = "What is the weather in Lisbon?"
	toolName      = "get_weather"
	toolArguments = `{"city":"Lisbon","unit":"celsius"}`
	toolTokens    = 6
	tools         = `[{"type":"function","function":{"name":"` + toolName + `","parameters":{"type":"object",` +
		`"properties":{"city":{"type":"string"},"unit":{"type":"string"}},"required":["city","unit"]}}}]`

	// What a row asks that wants an object of a schema, and the healthy provider's answer.
	schemaFormat = `{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object",` +
		`"properties":{"answer":{"type":"string"},"level":{"type":"integer"}},"required":["answer","level"],"additionalProperties":false}}}`
	schemaAnswer = `{"answer":"spillway","level":1}`
	schemaTokens = 6

	// functionTimeout is above the contract's 120 s and its 2.5 s of reserve.
	functionTimeout = 130 * time.Second
	// settleTime bounds what may follow the last byte: the gateway's own
	// bookkeeping, which it bounds to 1.5 s.
	settleTime = 3 * time.Second
	// patience is how long after its limit a request is given up as hanging.
	patience = 5 * time.Second
)

// requestID is what a row's request names itself, the first being 0.
func requestID(i int) string { return "suite-request-" + itoa(i+1) }

// bench is what one row runs on in one mode: a simulated provider, the shared state, and the gateway
// binary behind a function URL, configured to reach both.
type bench struct {
	row      Row
	mode     Mode
	provider *simulate.Provider
	gate     *gate // before the provider
	state    *state.State
	found    Findings // by a Play
	front    *runtimeapi.Front
	url      string
	log      *bytes.Buffer // written by the front; readable once it is closed
	stop     func() error
}

// newBench starts a bench. Its files lie in dir.
func newBench(row Row, mode Mode, bootstrap, dir string) (*bench, error) {
	var names []simulate.Option
	for name, model := range row.Names {
		names = append(names, simulate.Named(name, model))
	}
	if row.Gap != 0 {
		names = append(names, simulate.Gap(row.Gap))
	}
	b := &bench{row: row, mode: mode, provider: simulate.New(names...), log: new(bytes.Buffer)}
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the gateway: %w", err)
	}
	b.gate = &gate{Listener: upstream}
	if b.state, err = row.openState(); err != nil {
		upstream.Close()
		return nil, err
	}
	var running sync.WaitGroup
	running.Go(func() { _ = b.provider.Serve(b.gate) }) // ends with the provider
	closeProvider := func() { b.provider.Close(); running.Wait(); b.state.Close() }

	configuration := filepath.Join(dir, "gateway.json")
	if err := os.WriteFile(configuration, row.configuration(mode), 0o600); err != nil {
		closeProvider()
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	b.front, err = runtimeapi.New(runtimeapi.Function{
		Name:      "gateway",
		Bootstrap: bootstrap,
		Dir:       dir,
		Env: append(b.state.Env(),
			"SPILLWAY_CONFIG="+configuration,
			"SPILLWAY_SIMULATOR_URL=http://"+upstream.Addr().String()+"/v1",
			"SIM_KEY="+upstreamKey,
		),
		Timeout:     cmp.Or(row.Timeout, functionTimeout),
		MemoryMB:    256,
		Concurrency: row.environments(),
		Mode:        runtimeapi.Stream,
		Stdout:      b.log,
		Stderr:      b.log,
	}, runtimeapi.Prestart(row.environments()), runtimeapi.RoundRobin(), runtimeapi.Strict())
	if err != nil {
		closeProvider()
		return nil, fmt.Errorf("starting the gateway: %w: %s", err, cut(b.log.String()))
	}
	entrance, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.front.Close()
		closeProvider()
		return nil, fmt.Errorf("listening for clients: %w", err)
	}
	b.url = "http://" + entrance.Addr().String()
	server := &http.Server{Handler: b.front}
	running.Go(func() { _ = server.Serve(entrance) }) // ends with the server
	b.stop = func() error {
		err := errors.Join(server.Close(), b.front.Close(), b.violations())
		closeProvider()
		return err
	}
	return b, nil
}

// openState is the state that the row's environments share.
func (r Row) openState() (*state.State, error) {
	s, err := state.Open()
	if err != nil {
		return nil, fmt.Errorf("opening the shared state: %w", err)
	}
	switch r.Store {
	case StoreDown:
		s.Watch(state.Refuse)
	case StoreSilent:
		s.Delay(time.Hour)
	}
	return s, nil
}

// gate is a listener that can turn callers away.
type gate struct {
	net.Listener
	mu    sync.Mutex
	knock func() // nil: everybody is let in
}

// set has each new connection closed after knock has returned; nil lets them in again.
func (g *gate) set(knock func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.knock = knock
}

func (g *gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		g.mu.Lock()
		knock := g.knock
		g.mu.Unlock()
		if knock == nil {
			return conn, nil
		}
		knock()
		conn.Close()
	}
}

// violations are the answers that Lambda would have let pass and that would have hung or surprised its client.
func (b *bench) violations() error {
	var all []error
	for _, v := range b.front.Violations() {
		all = append(all, fmt.Errorf("the answer to a client breaks a rule of the platform: %s", v))
	}
	return errors.Join(all...)
}

// configuration is the row's gateway.json: one route over the row's candidates
// with the row's own options, everything else as the contract's defaults have it.
func (r Row) configuration(mode Mode) []byte {
	type object = map[string]any
	var channels []object
	for _, model := range r.Candidates {
		channel := object{
			"provider":    r.provider(model),
			"models":      []string{model},
			"credentials": []object{{"alias": "only", "secret": "env:SIM_KEY"}},
		}
		if formatOf(model).responses {
			channel["responses"] = "always"
		}
		maps.Copy(channel, r.Channels[model])
		channels = append(channels, channel)
	}
	route := object{"alias": routeAlias, "models": r.Candidates}
	maps.Copy(route, r.Route)
	if mode == Complete && r.CommitByRoute {
		route["commit"] = "complete"
	}
	hash := func(key string) string {
		digest := sha256.Sum256([]byte(key))
		return hex.EncodeToString(digest[:])
	}
	out, err := json.MarshalIndent(object{
		"version": "fault-suite",
		"providers": []object{
			{"name": "primary", "kind": formatOf(r.Candidates[0]).kind, "base_url": "env:SPILLWAY_SIMULATOR_URL", "prices": "openai"},
			{"name": "backup", "kind": formatOf(r.Candidates[1]).kind, "base_url": "env:SPILLWAY_SIMULATOR_URL", "prices": "openai"},
		},
		"channels":      channels,
		"routes":        []object{route},
		"organizations": []object{{"name": "suite", "models": []string{"*"}}, {"name": "other", "models": []string{"*"}}},
		"keys": []object{{"sha256": hash(clientKey), "alias": "suite", "organization": "suite"},
			{"sha256": hash(otherKey), "alias": "other", "organization": "other"}},
	}, "", "  ")
	if err != nil {
		panic("suite: encoding a configuration: " + err.Error()) // a row's options are JSON values
	}
	return out
}

// question is what the row's client asks.
func (r Row) question() string {
	if r.Tool {
		return toolPrompt
	}
	return prompt
}

// messages are the question as a conversation.
func (r Row) messages() string { return `[{"role":"user","content":"` + r.question() + `"}]` }

// request is what the client asks.
func (r Row) request() string { return r.requestOf(routeAlias) }

func (r Row) requestOf(model string) string {
	ask := `{"model":"` + model + `","messages":` + r.messages()
	if r.Tool {
		ask += `,"tools":` + tools
	}
	if r.Schema {
		ask += `,"response_format":` + schemaFormat
	}
	if !r.Plain {
		ask += `,"stream":true,"stream_options":{"include_usage":true}`
	}
	return ask + `}`
}

// observe makes the row's requests and closes the bench.
func (b *bench) observe(ctx context.Context) ([]Observation, error) {
	var all []Observation
	if b.row.Play != nil {
		all = b.row.Play(ctx, b, &b.found)
	} else {
		all = b.steps(ctx)
	}
	err := b.stop()
	records := parseRecords(b.log.Bytes())
	for i := range all {
		all[i].Records = recordsOf(records, all[i].id)
	}
	return all, err
}

// steps makes the row's requests one after the other, each when the gateway is done with the one before.
func (b *bench) steps(ctx context.Context) (all []Observation) {
	if b.row.Environments > 1 {
		b.warmUp(ctx)
	}
	seen := len(b.provider.Calls())
	for i, step := range b.row.steps(b.mode) {
		if i > 0 {
			pause(ctx, time.Until(all[i-1].Began.Add(step.After)))
		}
		o := b.ask(ctx, asked{id: requestID(i), limit: step.within() + patience})
		b.settle()
		calls := b.provider.Calls()
		o.Calls, seen = calls[seen:], len(calls)
		all = append(all, o)
	}
	return all
}

// warmUp has each environment serve a request that the row's fault has no part in.
func (b *bench) warmUp(ctx context.Context) {
	for range b.row.environments() {
		b.ask(ctx, asked{id: "warm-up", model: b.row.Candidates[len(b.row.Candidates)-1], limit: patience})
		b.settle()
	}
}

// pause waits for d, or for the end of the run if that comes first.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// asked is one request of a client.
type asked struct {
	id     string
	key    string // the client's; empty: the suite's own
	model  string // empty: the row's route
	header map[string]string
	limit  time.Duration
	// whole is called when the whole answer is there, which may be before its end, and at its end; nil: nobody is told.
	whole func()
}

// ask makes one request and reads the answer to its end, but no longer than it
// takes to be sure that it hangs. One that finds every environment busy is made again, as Lambda's clients do.
func (b *bench) ask(ctx context.Context, a asked) (o Observation) {
	ctx, cancel := context.WithTimeout(ctx, a.limit)
	defer cancel()
	for {
		o = b.askOnce(ctx, a)
		if o.Status != http.StatusTooManyRequests || o.Header.Get("X-Amzn-Errortype") == "" || ctx.Err() != nil {
			return o
		}
		pause(ctx, 40*time.Millisecond) // not sooner: fifty that wait would leave those that are served no CPU
	}
}

func (b *bench) askOnce(ctx context.Context, a asked) (o Observation) {
	o.id, o.Began = a.id, time.Now()
	defer func() { o.Elapsed = time.Since(o.Began) }()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/v1/chat/completions", strings.NewReader(b.row.requestOf(cmp.Or(a.model, routeAlias))))
	if err != nil {
		o.Err = err
		return o
	}
	req.Header.Set("Authorization", "Bearer "+cmp.Or(a.key, clientKey))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", a.id)
	for _, header := range []map[string]string{b.row.Headers, a.header} {
		for name, value := range header {
			req.Header.Set(name, value)
		}
	}
	if b.mode == Complete && !b.row.CommitByRoute {
		req.Header.Set("X-LLM-Commit", "complete")
	}
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		o.Err = err
		return o
	}
	defer resp.Body.Close()
	body, err := a.read(resp.Body)
	o.Status, o.Header, o.Body, o.Err = resp.StatusCode, resp.Header, string(body), err
	return o
}

// read reads an answer to its end.
func (a asked) read(from io.Reader) (body []byte, err error) {
	if a.whole == nil {
		return io.ReadAll(from)
	}
	defer a.whole()
	part := make([]byte, 32<<10)
	for {
		n, err := from.Read(part)
		body = append(body, part[:n]...)
		if bytes.HasSuffix(body, []byte("data: [DONE]\n\n")) || n > 0 && part[n-1] == '}' && json.Valid(body) {
			a.whole()
		}
		if errors.Is(err, io.EOF) {
			return body, nil
		}
		if err != nil {
			return body, err
		}
	}
}

// settle waits until the gateway has asked for its next event, after which it
// does nothing more, and until the provider has seen how its calls ended.
func (b *bench) settle() {
	until := time.Now().Add(settleTime)
	for time.Now().Before(until) && (b.busy() || b.answering()) {
		time.Sleep(5 * time.Millisecond)
	}
}

func (b *bench) busy() bool {
	for _, e := range b.front.Environments() {
		if e.Busy {
			return true
		}
	}
	return false
}

func (b *bench) answering() bool {
	for _, c := range b.provider.Calls() {
		if c.Outcome == "" {
			return true
		}
	}
	return false
}
