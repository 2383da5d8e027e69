package conversation

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"spillway/internal/catalog"
	"spillway/internal/fault"
	"spillway/internal/provider"
	"spillway/internal/provider/anthropic"
	"spillway/internal/provider/gemini"
	"spillway/internal/provider/openai"
	"spillway/internal/provider/openai/responses"
	"spillway/internal/provider/wire"
)

var update = flag.Bool("update", false, "write what was sent upstream into testdata/matrix/*.txtar; read the difference before committing it")

// adapters are all wire formats that a client's question can be put in.
var adapters = map[string]Adapter{
	"openai": {Provider: catalog.Provider{Kind: "openai", Vendor: "openai"}, Model: "up-1",
		New: func(c *wire.Client) provider.Provider { return &openai.Provider{Wire: c, Policy: fault.Default()} }},
	"responses": {Provider: catalog.Provider{Kind: "openai", Vendor: "openai"}, Model: "gpt-5.4",
		New: func(c *wire.Client) provider.Provider {
			return &responses.Provider{Wire: c, Policy: fault.Default(), Headers: func(provider.Call) http.Header { return http.Header{} }}
		}},
	"anthropic": {Provider: catalog.Provider{Kind: anthropic.Kind, Vendor: "anthropic"}, Model: "claude-sonnet-4-5",
		New: func(c *wire.Client) provider.Provider { return &anthropic.Provider{Wire: c, Policy: fault.Default()} }},
	"gemini": {Provider: catalog.Provider{Kind: "gemini", Vendor: "gemini"}, Model: "gemini-3.1-flash",
		New: func(c *wire.Client) provider.Provider {
			n := 0
			return &gemini.Provider{Wire: c, Policy: fault.Default(), NewID: func() string { n++; return "call_" + strconv.Itoa(n) }}
		}},
}

// TestAQuestionMeansTheSameToAll: the same request of a client goes upstream in the words of each provider, each replies in
// its own, at once or as a stream, and the client understands the same, whether it asked for a stream or not.
//
// Sections of a file: request is the client's body and answer what it must understand; of each provider there is what goes
// upstream (with a call that streams), and its two replies.
func TestAQuestionMeansTheSameToAll(t *testing.T) {
	for name, c := range Load(t, "matrix") {
		for who, a := range adapters {
			for _, mode := range []struct {
				name            string
				plain, streamed bool // of the call upstream, of the client's
				reply           string
			}{
				{"plain over a plain call", true, false, who + ", plain reply"},
				{"plain over a stream", false, false, who + ", reply"},
				{"a stream", false, true, who + ", reply"},
			} {
				t.Run(strings.Join([]string{strings.TrimPrefix(name, "matrix/"), who, mode.name}, "/"), func(t *testing.T) {
					body := c.section("request")
					if mode.streamed {
						body, _ = c.streamed(t)
					}
					far := &Upstream{Reply: reply(t, c.section(mode.reply))}
					got := a.serve(t, body, Channel{Plain: mode.plain}, far.behind)

					require.Len(t, far.Calls, 1, "one call and no other: %s", got.Body)
					sent := unstreamed(t, far.Body)
					if *update {
						c.set(t, who+", upstream", who+", reply", sent)
					}
					assert.JSONEq(t, c.section(who+", upstream"), sent)
					assert.Empty(t, got.Header.Get("X-LLM-Dropped-Params"))
					want := c.section("answer")
					seen, err := json.MarshalIndent(got.meaning(t), "", "  ")
					require.NoError(t, err)
					assert.JSONEq(t, want, string(seen))
				})
			}
		}
	}
}

// unstreamed is a body without the wish for a stream, which is the only thing in it that depends on how the call is made.
func unstreamed(t *testing.T, body []byte) string {
	t.Helper()
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(body, &members))
	delete(members, "stream")
	delete(members, "stream_options")
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	require.NoError(t, enc.Encode(members))
	return b.String()
}

// set puts a section into the file, before another.
func (c *Conversation) set(t *testing.T, name, before, text string) {
	t.Helper()
	var files []txtar.File
	for _, f := range c.archive.Files {
		if f.Name == before {
			files = append(files, txtar.File{Name: name, Data: []byte(text)})
		}
		if f.Name != name {
			files = append(files, f)
		}
	}
	c.archive.Files = files
	require.NoError(t, os.WriteFile(filepath.Clean(c.file), txtar.Format(c.archive), 0o644))
}
