package main

import (
	cryptorand "crypto/rand"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"

	"spillway/internal/breaker"
	"spillway/internal/catalog"
	chatdialect "spillway/internal/dialect/openai"
	"spillway/internal/edge"
	"spillway/internal/fault"
	"spillway/internal/fetch"
	"spillway/internal/gateway"
	"spillway/internal/provider"
	"spillway/internal/provider/anthropic"
	"spillway/internal/provider/gemini"
	"spillway/internal/provider/openai"
	upstream "spillway/internal/provider/wire"
	"spillway/internal/retry"
	"spillway/internal/route"
	"spillway/internal/settings"
	"spillway/internal/telemetry"
	"spillway/internal/tenant"
	"spillway/internal/usage"
)

// version is set by the build: -ldflags "-X main.version=…".
var version = "dev"

// maxStream ends a stream before Lambda does at 200 MB, with an error event that says so
// (https://docs.aws.amazon.com/lambda/latest/dg/configuration-response-streaming.html, 2026-11-30): the rest is room for
// what the gateway adds.
const maxStream = 190 << 20

// wire builds the graph of the gateway from its settings and its configuration file.
func wire(s settings.Settings, getenv func(string) string, readFile func(string) ([]byte, error), records io.Writer) (http.Handler, error) {
	data, err := readFile(s.ConfigPath)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	config, err := catalog.Load(data, getenv)
	if err != nil {
		return nil, fmt.Errorf("loading the configuration %s:\n%w", s.ConfigPath, err)
	}
	policy := fault.Default()
	digestKey := []byte(s.DigestKey.Reveal())
	if len(digestKey) == 0 {
		digestKey = []byte(cryptorand.Text())
	}
	recorder := telemetry.New(records, s.LogLevel)
	for _, n := range config.Notices {
		recorder.Notice(n)
	}
	providers := map[string]provider.Provider{
		"anthropic": &anthropic.Provider{Wire: &upstream.Client{}, Policy: policy},
		"gemini":    &gemini.Provider{Wire: &upstream.Client{}, Policy: policy},
		"openai":    &openai.Provider{Wire: &upstream.Client{}, Policy: policy},
	}
	g := &gateway.Gateway{
		Catalog:   config,
		Keys:      tenant.NewTable(config),
		Providers: providers,
		Policy:    policy,
		Health:    &breaker.Fleet{},
		Prices:    usage.Embedded(),
		Shares:    &retry.Shares{},
		Latencies: &route.Latencies{},
		Recorder:  recorder,
		Fetcher:   &fetch.Client{},
		MaxStream: maxStream,
		DigestKey: digestKey,
		Random:    rand.Float64,
	}
	return edge.New(edge.Config{Gateway: g, Recorder: recorder, Chat: chatdialect.Chat{}, Version: version,
		ConfigVersion: config.Version, PolicyVersion: policy.Version}), nil
}
