package main

import (
	cryptorand "crypto/rand"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"

	"spillway/functions/internal/graph"
	"spillway/internal/breaker"
	chatdialect "spillway/internal/dialect/openai"
	"spillway/internal/dynamo"
	"spillway/internal/edge"
	"spillway/internal/fault"
	"spillway/internal/fetch"
	"spillway/internal/gateway"
	"spillway/internal/idempotency"
	"spillway/internal/ledger"
	"spillway/internal/provider"
	"spillway/internal/provider/anthropic"
	"spillway/internal/provider/gemini"
	"spillway/internal/provider/openai"
	upstream "spillway/internal/provider/wire"
	"spillway/internal/retry"
	"spillway/internal/route"
	"spillway/internal/s3store"
	"spillway/internal/settings"
	"spillway/internal/telemetry"
	"spillway/internal/tenant"
	"spillway/internal/trace"
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
	config, err := graph.Config(s, getenv, readFile)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it was doing
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
		Prices:    usage.Embedded(),
		Shares:    &retry.Shares{},
		Latencies: &route.Latencies{},
		Recorder:  recorder,
		Fetcher:   &fetch.Client{},
		MaxStream: maxStream,
		DigestKey: digestKey,
		Random:    rand.Float64,
	}
	share(g, s.State, recorder)
	makeJobs(g, s)
	return edge.New(edge.Config{Gateway: g, Recorder: recorder, Chat: chatdialect.Chat{}, Version: version,
		ConfigVersion: config.Version, PolicyVersion: policy.Version}), nil
}

// share gives the gateway the state that it shares with other environments: in AWS, or in its own memory where none is
// configured.
func share(g *gateway.Gateway, s *settings.State, recorder *telemetry.Recorder) {
	if s == nil {
		recorder.Notice("no tables are configured: Idempotency-Keys, circuits and holds, traces and tool calls are kept in this environment's memory, and no other environment sees them")
		g.Claims, g.Health, g.Traces, g.Ledger = &idempotency.Memory{}, &breaker.Fleet{}, &trace.Memory{}, &ledger.Memory{}
		return
	}
	tables := dynamo.New(graph.AWS(s, s.DynamoDB))
	g.Claims = &dynamo.Idempotency{API: tables, Table: s.IdempotencyTable}
	g.Health = graph.Fleet(s, recorder)
	g.Traces = &dynamo.Traces{API: tables, Table: s.RequestsTable}
	g.Ledger = &dynamo.Ledger{API: tables, Table: s.RequestsTable}
	g.Objects = &s3store.Objects{API: s3store.New(graph.AWS(s, s.S3)), Bucket: s.ResultsBucket}
}

// makeJobs gives the gateway what makes media jobs, where that is configured.
func makeJobs(g *gateway.Gateway, s settings.Settings) {
	if s.State == nil || s.State.Jobs == nil {
		g.NoJobs = "media jobs need tables and queues, which are not configured here: set " + strings.Join(settings.JobsNames(), ", ") + " and those of the shared state"
		return
	}
	engine := graph.Jobs(s, g.Catalog, g.Policy, g.Recorder, g.Health)
	g.Jobs, g.JobStore = engine, engine.Jobs
	g.Works = s3store.NewWorks(s3store.New(graph.AWS(s.State, s.State.S3)), s.State.ResultsBucket)
	g.Callback = (&fetch.Client{Receiver: fetch.Hosts(s.Simulator)}).MayTell
}
