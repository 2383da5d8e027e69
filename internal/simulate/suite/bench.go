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
	requestID   = "suite-request"
	prompt      = "How does the flood pass the dam?"
	messages    = `[{"role":"user","content":"` + prompt + `"}]`

	// functionTimeout is above the contract's 120 s and its 2.5 s of reserve.
	functionTimeout = 130 * time.Second
	// settleTime bounds what may follow the last byte: the gateway's own
	// bookkeeping, which it bounds to 1.5 s.
	settleTime = 3 * time.Second
)

// bench is what one row runs on: a simulated provider, and the gateway binary
// behind a function URL, configured to reach it.
type bench struct {
	provider *simulate.Provider
	front    *runtimeapi.Front
	url      string
	log      *bytes.Buffer // written by the front; readable once it is closed
	stop     func() error
}

// newBench starts a bench for the row. Its files lie in dir.
func newBench(row Row, bootstrap, dir string) (*bench, error) {
	b := &bench{provider: simulate.New(), log: new(bytes.Buffer)}
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the gateway: %w", err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = b.provider.Serve(upstream) }) // ends with the provider
	closeProvider := func() { b.provider.Close(); running.Wait() }

	configuration := filepath.Join(dir, "gateway.json")
	if err := os.WriteFile(configuration, row.configuration(), 0o600); err != nil {
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
	}, runtimeapi.Prestart(1))
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
		err := errors.Join(server.Close(), b.front.Close())
		closeProvider()
		return err
	}
	return b, nil
}

// configuration is the row's gateway.json: one route over the row's candidates,
// everything else as the contract's defaults have it.
func (r Row) configuration() []byte {
	type object = map[string]any
	var channels []object
	for _, model := range r.Candidates {
		channels = append(channels, object{
			"provider":    r.provider(model),
			"models":      []string{model},
			"credentials": []object{{"alias": "only", "secret": "env:SIM_KEY"}},
		})
	}
	digest := sha256.Sum256([]byte(clientKey))
	out, err := json.MarshalIndent(object{
		"version": "fault-suite",
		"providers": []object{
			{"name": "primary", "kind": "openai", "base_url": "env:SPILLWAY_SIMULATOR_URL"},
			{"name": "backup", "kind": "openai", "base_url": "env:SPILLWAY_SIMULATOR_URL"},
		},
		"channels":      channels,
		"routes":        []object{{"alias": routeAlias, "models": r.Candidates}},
		"organizations": []object{{"name": "suite", "models": []string{"*"}}},
		"keys":          []object{{"sha256": hex.EncodeToString(digest[:]), "alias": "suite", "organization": "suite"}},
	}, "", "  ")
	if err != nil {
		panic("suite: encoding a configuration: " + err.Error()) // strings and slices of them
	}
	return out
}

// request is what the client asks.
func (r Row) request() string {
	ask := `{"model":"` + routeAlias + `","messages":` + messages
	if !r.Plain {
		ask += `,"stream":true,"stream_options":{"include_usage":true}`
	}
	return ask + `}`
}

// observe makes the row's request, waits until the gateway is done with it, and
// closes the bench.
func (b *bench) observe(ctx context.Context, row Row, mode Mode) (Observation, error) {
	o := b.ask(ctx, row, mode)
	b.settle()
	o.Calls = b.provider.Calls()
	err := b.stop()
	o.Records = parseRecords(b.log.Bytes())
	return o, err
}

func (b *bench) ask(ctx context.Context, row Row, mode Mode) Observation {
	start := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/v1/chat/completions", strings.NewReader(row.request()))
	if err != nil {
		return Observation{Err: err}
	}
	req.Header.Set("Authorization", "Bearer "+clientKey)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", requestID)
	if mode == Complete {
		req.Header.Set("X-LLM-Commit", "complete")
	}
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return Observation{Err: err, Elapsed: time.Since(start)}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return Observation{
		Status:  resp.StatusCode,
		Header:  resp.Header,
		Body:    string(body),
		Events:  parseStream(string(body)).events,
		Elapsed: time.Since(start),
		Err:     err,
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
