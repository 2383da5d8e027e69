package responses_test

import (
	"flag"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"spillway/internal/catalog"
	"spillway/internal/fault"
	"spillway/internal/provider"
	"spillway/internal/provider/openai/responses"
	"spillway/internal/provider/wire"
	"spillway/internal/simulate/conversation"
)

var update = flag.Bool("update", false, "write what was seen into testdata/*/*.txtar; read the difference before committing it")

var adapter = conversation.Adapter{
	New: func(client *wire.Client) provider.Provider {
		return &responses.Provider{Wire: client, Policy: fault.Default(), Headers: headers}
	},
	Provider: catalog.Provider{Kind: "openai", Vendor: "openai"},
	Model:    "gpt-5.4",
	Check:    checkCall,
}

// headers are those of the chat API of the same provider, which are not this package's business.
func headers(c provider.Call) http.Header {
	h := http.Header{"X-Of-The-Provider": {"1"}}
	wire.Finish(h, c)
	return h
}

func TestConversations(t *testing.T) { adapter.Run(t, *update) }

func TestEventsDoNotDependOnHowTheBytesArrive(t *testing.T) { adapter.RunCut(t) }

// checkCall asserts what every upstream call has, and what none has.
func checkCall(t *testing.T, r *http.Request, s conversation.Channel) {
	t.Helper()
	assert.Equal(t, http.MethodPost, r.Method)
	assert.Equal(t, "/v1/responses", r.URL.Path)
	assert.Equal(t, "acme.test", r.Host)
	want := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"spillway"}, "Accept": {"text/event-stream"},
		"Content-Length": r.Header["Content-Length"], "X-Of-The-Provider": {"1"}}
	if s.Plain {
		want.Set("Accept", "application/json")
	}
	assert.Equal(t, want, r.Header)
}
