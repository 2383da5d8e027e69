package gemini_test

import (
	"flag"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"spillway/internal/catalog"
	"spillway/internal/fault"
	"spillway/internal/provider"
	"spillway/internal/provider/gemini"
	"spillway/internal/provider/wire"
	"spillway/internal/simulate/conversation"
)

var update = flag.Bool("update", false, "write what was seen into testdata/*/*.txtar; read the difference before committing it")

const model = "gemini-3.1-flash"

var adapter = conversation.Adapter{
	New:      func(client *wire.Client) provider.Provider { return counting(client) },
	Provider: catalog.Provider{Kind: "gemini", Vendor: "gemini"},
	Model:    model,
	Check:    checkCall,
}

// counting is an adapter that makes the same ids of calls in every test.
func counting(client *wire.Client) *gemini.Provider {
	n := 0
	return &gemini.Provider{Wire: client, Policy: fault.Default(), NewID: func() string { n++; return "call_" + strconv.Itoa(n) }}
}

func TestConversations(t *testing.T) { adapter.Run(t, *update) }

func TestEventsDoNotDependOnHowTheBytesArrive(t *testing.T) { adapter.RunCut(t) }

// checkCall asserts what every upstream call has, and what none has: the key is in a header and nowhere else.
func checkCall(t *testing.T, r *http.Request, s conversation.Channel) {
	t.Helper()
	assert.Equal(t, http.MethodPost, r.Method)
	assert.Equal(t, "acme.test", r.Host)
	want := http.Header{"X-Goog-Api-Key": {conversation.Key}, "Content-Type": {"application/json"}, "User-Agent": {"spillway"}, "Accept": {"text/event-stream"},
		"Content-Length": r.Header["Content-Length"]}
	method, query := "streamGenerateContent", url.Values{"alt": {"sse"}}
	if s.Plain {
		want.Set("Accept", "application/json")
		method, query = "generateContent", url.Values{}
	}
	for name, value := range s.Query {
		query.Set(name, value)
	}
	path := "models/" + model
	switch {
	case strings.Contains(s.Model, "/"):
		path = s.Model
	case s.Model != "":
		path = "models/" + s.Model
	}
	assert.Equal(t, "/v1/"+path+":"+method, r.URL.Path)
	assert.Equal(t, query, r.URL.Query())
	assert.NotContains(t, r.URL.String(), conversation.Key)
	for name, value := range s.Headers {
		want.Set(name, value)
	}
	assert.Equal(t, want, r.Header)
}
