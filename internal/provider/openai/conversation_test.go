package openai_test

import (
	"flag"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"spillway/internal/catalog"
	"spillway/internal/fault"
	"spillway/internal/provider"
	"spillway/internal/provider/openai"
	"spillway/internal/provider/wire"
	"spillway/internal/simulate/conversation"
)

var update = flag.Bool("update", false, "write what was seen into testdata/*/*.txtar; read the difference before committing it")

var adapter = conversation.Adapter{
	New: func(client *wire.Client) provider.Provider {
		return &openai.Provider{Wire: client, Policy: fault.Default()}
	},
	Provider: catalog.Provider{Kind: "openai", Vendor: "openai"},
	Model:    "up-1",
	Check:    checkCall,
}

func TestConversations(t *testing.T) { adapter.Run(t, *update) }

func TestEventsDoNotDependOnHowTheBytesArrive(t *testing.T) { adapter.RunCut(t) }

// checkCall asserts what every upstream call has, and what none has.
func checkCall(t *testing.T, r *http.Request, s conversation.Channel) {
	t.Helper()
	assert.Equal(t, http.MethodPost, r.Method)
	assert.Equal(t, "/v1/chat/completions", r.URL.Path)
	assert.Equal(t, "acme.test", r.Host)
	for name, value := range s.Query {
		assert.Equal(t, value, r.URL.Query().Get(name))
	}
	want := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"spillway"},
		"Accept": {"text/event-stream"}, "Content-Length": r.Header["Content-Length"]}
	if s.Vendor == "azure" {
		want.Set("Api-Key", conversation.Key)
	} else {
		want.Set("Authorization", "Bearer "+conversation.Key)
	}
	if s.Plain {
		want.Set("Accept", "application/json")
	}
	for name, value := range s.Headers {
		want.Set(name, value)
	}
	assert.Equal(t, want, r.Header)
}
