package suite

import (
	"bytes"
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
)

const (
	clientKey   = "suite-client-key"
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

// bench is what one row runs on in one mode: a simulated provider, and the gateway
// binary behind a function URL, configured to reach it.
type bench struct {
	row      Row
	mode     Mode
	provider *simulate.Provider
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
	b := &bench{row: row, mode: mode, provider: simulate.New(names...), log: new(bytes.Buffer)}
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the gateway: %w", err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = b.provider.Serve(upstream) }) // ends with the provider
	closeProvider := func() { b.provider.Close(); running.Wait() }

	configuration := filepath.Join(dir, "gateway.json")
	if err := os.WriteFile(configuration, row.configuration(mode), 0o600); err != nil {
		closeProvider()
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	b.front, err = runtimeapi.New(runtimeapi.Function{
		Name:      "gateway",
		Bootstrap: bootstrap,
		Dir:       dir,
		Env: []string{
			"SPILLWAY_CONFIG=" + configuration,
			"SPILLWAY_SIMULATOR_URL=http://" + upstream.Addr().String() + "/v1",
			"SIM_KEY=" + upstreamKey,
		},
		Timeout:     functionTimeout,
		MemoryMB:    256,
		Concurrency: 1,
		Mode:        runtimeapi.Stream,
		Stdout:      b.log,
		Stderr:      b.log,
	}, runtimeapi.Prestart(1), runtimeapi.Strict())
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
	digest := sha256.Sum256([]byte(clientKey))
	out, err := json.MarshalIndent(object{
		"version": "fault-suite",
		"providers": []object{
			{"name": "primary", "kind": formatOf(r.Candidates[0]).kind, "base_url": "env:SPILLWAY_SIMULATOR_URL", "prices": "openai"},
			{"name": "backup", "kind": formatOf(r.Candidates[1]).kind, "base_url": "env:SPILLWAY_SIMULATOR_URL", "prices": "openai"},
		},
		"channels":      channels,
		"routes":        []object{route},
		"organizations": []object{{"name": "suite", "models": []string{"*"}}},
		"keys":          []object{{"sha256": hex.EncodeToString(digest[:]), "alias": "suite", "organization": "suite"}},
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
func (r Row) request() string {
	ask := `{"model":"` + routeAlias + `","messages":` + r.messages()
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

// observe makes the row's requests, one after the other and each when the gateway
// is done with the one before, and closes the bench.
func (b *bench) observe(ctx context.Context) ([]Observation, error) {
	var all []Observation
	seen := 0
	for i, step := range b.row.steps(b.mode) {
		if i > 0 {
			pause(ctx, time.Until(all[i-1].Began.Add(step.After)))
		}
		o := b.ask(ctx, requestID(i), step.within()+patience)
		b.settle()
		calls := b.provider.Calls()
		o.Calls, seen = calls[seen:], len(calls)
		all = append(all, o)
	}
	err := b.stop()
	records := parseRecords(b.log.Bytes())
	for i := range all {
		all[i].Records = recordsOf(records, requestID(i))
	}
	return all, err
}

// pause waits for d, or for the end of the run if that comes first.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// ask makes one request and reads the answer to its end, but no longer than it
// takes to be sure that it hangs.
func (b *bench) ask(ctx context.Context, id string, limit time.Duration) (o Observation) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	o.Began = time.Now()
	defer func() { o.Elapsed = time.Since(o.Began) }()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/v1/chat/completions", strings.NewReader(b.row.request()))
	if err != nil {
		o.Err = err
		return o
	}
	req.Header.Set("Authorization", "Bearer "+clientKey)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", id)
	for name, value := range b.row.Headers {
		req.Header.Set(name, value)
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
	body, err := io.ReadAll(resp.Body)
	o.Status, o.Header, o.Body, o.Err = resp.StatusCode, resp.Header, string(body), err
	return o
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
