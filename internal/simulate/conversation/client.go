package conversation

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/breaker"
	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/dialect"
	"spillway/internal/dialect/openai"
	"spillway/internal/edge"
	"spillway/internal/fault"
	"spillway/internal/gateway"
	"spillway/internal/provider"
	"spillway/internal/provider/wire"
	"spillway/internal/retry"
	"spillway/internal/route"
	"spillway/internal/telemetry"
	"spillway/internal/tenant"
)

// clientKey is the key of the one client.
const clientKey = "sk-client-0123456789"

// received is what a client gets: the status, the headers that a client acts on, and the body.
type received struct {
	Status int
	Header http.Header
	Body   string
}

// shown are the headers that a conversation has of an answer; the others are the business of the edge's own tests.
var shown = []string{"Retry-After", "X-Should-Retry", "X-LLM-Dropped-Params"}

// text writes an answer as the files have it, in the shape of a reply.
func (r received) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s\n", r.Status, r.Header.Get("Content-Type"))
	for _, name := range shown {
		if v := r.Header.Get(name); v != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, v)
		}
	}
	return b.String() + "\n" + r.Body
}

// serve lets a client ask the whole gateway, from its HTTP handler to the wire, with the adapter's one channel behind it
// and one call to a request; upstream makes what reaches the provider. Time is that of a bubble, so that ids and times are the same in every run. It asserts that
// neither the body nor the request that was read from it was changed on the way.
func (a Adapter) serve(t *testing.T, body string, s Channel, upstream func(testing.TB) *wire.Client) (got received) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		watched := &watchedDialect{Dialect: openai.Chat{}}
		handler := a.gateway(t, a.Call(Parse(t, body), s), watched, a.New(upstream(t)))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+clientKey)
		r.Header.Set("X-Request-Id", "req-1")
		for name, value := range s.Client {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		watched.check(t, body)
		got = received{w.Code, w.Header(), w.Body.String()}
	})
	return got
}

// there is what stands at addresses.
type there map[string]provider.Content

func (t there) Fetch(_ context.Context, _ chat.PartKind, address string) (provider.Content, error) {
	c, ok := t[address]
	if !ok {
		return provider.Content{}, errors.New("nothing is there")
	}
	return c, nil
}

// gateway is a whole gateway whose routes all lead to the channel of a call.
func (a Adapter) gateway(t *testing.T, made provider.Call, d dialect.Dialect, p provider.Provider) http.Handler {
	t.Helper()
	name := made.Channel.Provider.Name
	var routes []any
	for _, asked := range made.Request.Models {
		routes = append(routes, map[string]any{"alias": asked, "models": []any{made.Channel.Model}, "max_attempts": 1})
	}
	config, err := json.Marshal(map[string]any{"version": "conversation",
		"providers":     []any{map[string]any{"name": name, "kind": a.Provider.Kind, "base_url": made.Channel.Provider.BaseURL}},
		"channels":      []any{map[string]any{"provider": name, "models": []any{made.Channel.Model}, "credentials": []any{map[string]any{"alias": "main", "secret": "env:KEY"}}}},
		"routes":        routes,
		"organizations": []any{map[string]any{"name": "org", "models": []any{"*"}}},
		"keys":          []any{map[string]any{"sha256": fmt.Sprintf("%x", sha256.Sum256([]byte(clientKey))), "organization": "org"}}})
	require.NoError(t, err)
	c, err := catalog.Load(config, func(string) string { return Key })
	require.NoError(t, err)
	require.Len(t, c.Channels, 1)
	c.Channels[0].Provider, c.Channels[0].Capabilities, c.Channels[0].StreamAsClient = made.Channel.Provider, made.Channel.Capabilities, !made.Stream

	recorder := telemetry.New(io.Discard, slog.LevelError)
	return edge.New(edge.Config{Recorder: recorder, Chat: d, Version: "test", Gateway: &gateway.Gateway{
		Catalog: c, Keys: tenant.NewTable(c), Providers: map[string]provider.Provider{a.Provider.Kind: p}, Policy: fault.Default(),
		Health: &breaker.Fleet{}, Shares: &retry.Shares{}, Latencies: &route.Latencies{}, Recorder: recorder, DigestKey: []byte("digest"), Fetcher: there(made.Fetched),
		Random: func() float64 { return 0.5 }}})
}

// watchedDialect keeps the body that was read and the request that came of it.
type watchedDialect struct {
	dialect.Dialect
	body []byte
	req  *chat.Request
}

func (d *watchedDialect) Parse(body []byte) (*chat.Request, *fault.Error) {
	req, err := d.Dialect.Parse(body)
	d.body, d.req = body, req
	return req, err
}

// check asserts that what was read is still what the client wrote.
func (d *watchedDialect) check(t *testing.T, body string) {
	t.Helper()
	assert.Equal(t, body, string(d.body), "the body was changed")
	assert.Equal(t, Parse(t, body), d.req, "the request was changed")
}
