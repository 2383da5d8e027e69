package conversation

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	"pgregory.net/rapid"

	"spillway/internal/catalog"
	"spillway/internal/provider"
	"spillway/internal/provider/wire"
)

// Adapter is what is tested.
type Adapter struct {
	// New makes it; it must use the client and the default policy.
	New func(*wire.Client) provider.Provider
	// Provider holds the kind and the vendor, Model the model, where a conversation says nothing else.
	Provider catalog.Provider
	Model    string
	// Check asserts what every upstream call has, and what none has.
	Check func(*testing.T, *http.Request, Channel)
}

// Run holds the adapter to the conversations of testdata/clean and testdata/failures. With update it writes what it saw
// into them; read the difference before committing it.
func (a Adapter) Run(t *testing.T, update bool) {
	for name, c := range Load(t, "clean", "failures") {
		t.Run(name, func(t *testing.T) {
			body := []byte(c.section("request"))
			req, untouched := Parse(t, string(body)), Parse(t, string(body))

			far := &Upstream{Reply: c.Reply(t)}
			s := c.Channel(t)
			got := Follow(t, a.New(Serve(t, far)), a.Call(req, s))
			plain, streamed := a.clients(t, c, far.Body)

			if update {
				c.write(t, far.Body, got, plain, streamed)
			}
			assert.Equal(t, untouched, req, "the request was changed")
			assert.Equal(t, c.section("events"), lines(got.Events))
			assert.Equal(t, c.section("usage"), describeUsage(got.Usage))
			assert.Equal(t, c.section("info"), describeInfo(got.Info))
			assert.Equal(t, c.section("failure"), describeFailure(got.Failure))
			assert.Equal(t, c.section("client"), plain)
			assert.Equal(t, c.section("client, streamed"), streamed)
			assert.Equal(t, strings.HasPrefix(name, "failures/"), got.Failure != nil, "the conversation is in the wrong folder")
			if c.section("upstream") == "" {
				assert.Empty(t, far.Calls, "there must be no call")
				return
			}
			assert.JSONEq(t, c.section("upstream"), string(far.Body))
			require.Len(t, far.Calls, 1, "one call and no other")
			a.Check(t, far.Calls[0], s)
		})
	}
}

// clients are what a client gets that asks as the conversation does, and what it gets that asks for a stream; empty where
// that is the same. The provider must get the same body, once, whichever asks.
func (a Adapter) clients(t *testing.T, c *Conversation, upstream []byte) (plain, streamed string) {
	t.Helper()
	var asked []received
	ask := func(body string) string {
		far := &Upstream{Reply: c.Reply(t)}
		got := a.serve(t, body, c.Channel(t), far.behind)
		asked = append(asked, got)
		if len(upstream) == 0 {
			assert.Empty(t, far.Calls, "there must be no call")
		} else if assert.Len(t, far.Calls, 1, "one call and no other") {
			assert.JSONEq(t, string(upstream), string(far.Body))
		}
		return got.text()
	}
	plain = ask(c.section("request"))
	if body, other := c.streamed(t); other {
		streamed = ask(body)
	}
	if len(asked) == 2 && asked[0].Status == http.StatusOK {
		assert.Equal(t, asked[0].meaning(t), asked[1].meaning(t), "a stream must mean what a plain answer does")
	}
	if streamed == plain {
		streamed = ""
	}
	return plain, streamed
}

// RunCut asserts that the outcome of no conversation depends on how the bytes of its reply arrive.
func (a Adapter) RunCut(t *testing.T) {
	all := Load(t, "clean", "failures")
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 2, 3, 7, 64, 1 << 20} {
				got := a.Replay(t, c.Reply(t), a.Call(c.Request(t), c.Channel(t)), func(int) int { return size })
				assert.Equal(t, c.Outcome(), got.Text(), "in pieces of %d bytes", size)
			}
		})
	}
	names := slices.Sorted(maps.Keys(all))
	rapid.Check(t, func(rt *rapid.T) {
		c := all[rapid.SampledFrom(names).Draw(rt, "conversation")]
		cuts := rapid.SliceOfN(rapid.IntRange(1, 400), 1, 40).Draw(rt, "cuts")
		n := 0
		got := a.Replay(t, c.Reply(t), a.Call(c.Request(t), c.Channel(t)), func(int) int { n++; return cuts[n%len(cuts)] })
		require.Equal(rt, c.Outcome(), got.Text())
	})
}

// write puts what was seen into the file.
func (c *Conversation) write(t *testing.T, body []byte, got Outcome, plain, streamed string) {
	t.Helper()
	var pretty bytes.Buffer
	if len(body) > 0 {
		require.NoError(t, json.Indent(&pretty, body, "", "  "))
		pretty.WriteByte('\n')
	}
	seen := []txtar.File{{Name: "upstream", Data: pretty.Bytes()}, {Name: "events", Data: []byte(lines(got.Events))},
		{Name: "usage", Data: []byte(describeUsage(got.Usage))}, {Name: "info", Data: []byte(describeInfo(got.Info))},
		{Name: "failure", Data: []byte(describeFailure(got.Failure))}, {Name: "client", Data: []byte(plain)}, {Name: "client, streamed", Data: []byte(streamed)}}
	var files []txtar.File
	for _, name := range []string{"channel", "request", "upstream", "reply", "reply, cut", "events", "usage", "info", "failure", "client", "client, streamed"} {
		for _, f := range append(seen, c.archive.Files...) {
			if f.Name == name && len(f.Data) > 0 {
				files = append(files, f)
				break
			}
		}
	}
	c.archive.Files = files
	require.NoError(t, os.WriteFile(c.file, txtar.Format(c.archive), 0o644))
}
