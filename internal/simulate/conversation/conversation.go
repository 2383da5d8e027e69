// Package conversation holds an adapter to calls that are written down as text files: what the client asked, what must go
// upstream, what the provider replies, and what must come of it. The tests of each adapter use it.
package conversation

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	dialect "spillway/internal/dialect/openai"
	"spillway/internal/provider"
	"spillway/internal/redact"
)

// A Conversation is one call as a text file. Its sections, in this order:
//
//	channel   optional; JSON, see Channel
//	request   the client's body
//	upstream  the body that the provider must get, compared as JSON; absent: there must be no call
//	reply     status, media type and headers, a blank line, the body as it is; "reply, cut" breaks the connection after it
//	events    the events that must come out, one a line, see describe
//	usage     the usage that must be known in the end; absent: none
//	info      the provider's request id, the parameters left out, the frames skipped; absent: none of them
//	failure   what the failure must say; absent: the answer is whole
//	client    what the client gets, from the whole gateway: status, media type and the headers that it acts on, a blank
//	          line, the body
//	client, streamed
//	          the same if it asks for a stream and for usage; absent: the same bytes, or the request says already whether
//	          it wants a stream, or the upstream call does not stream
//
// Conversations in testdata/clean end whole, those in testdata/failures do not.
type Conversation struct {
	file    string
	archive *txtar.Archive
}

// Channel is what a conversation's channel has that others have not.
type Channel struct {
	Model     string `json:"model"`  // default: the adapter's
	Vendor    string `json:"vendor"` // default: the adapter's
	Plain     bool   `json:"plain"`  // the upstream call does not stream
	MaxOutput int64  `json:"max_output"`
	// OutputField names the output limit; default: the client's name.
	OutputField string            `json:"output"`
	Drops       []string          `json:"drops"`
	Headers     map[string]string `json:"headers"`
	Query       map[string]string `json:"query"`
	// Client are the client's headers that may go upstream.
	Client map[string]string `json:"client"`
	Cannot []catalog.Feature `json:"cannot"`
	// Fetched is what stands at the request's addresses for a gateway that fetches.
	Fetched map[string]provider.Content `json:"fetched"`
}

// Load reads the conversations in folders of testdata, by folder and name.
func Load(t testing.TB, folders ...string) map[string]*Conversation {
	t.Helper()
	all := map[string]*Conversation{}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
		require.NoError(t, err)
		require.NotEmpty(t, files, folder)
		for _, file := range files {
			archive, err := txtar.ParseFile(file)
			require.NoError(t, err)
			all[folder+"/"+strings.TrimSuffix(filepath.Base(file), ".txtar")] = &Conversation{file, archive}
		}
	}
	return all
}

// section is a part of the file; "" when it is not there.
func (c *Conversation) section(name string) string {
	for _, f := range c.archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// Channel is what the conversation's channel has of its own.
func (c *Conversation) Channel(t testing.TB) (s Channel) {
	t.Helper()
	if text := c.section("channel"); text != "" {
		dec := json.NewDecoder(strings.NewReader(text))
		dec.DisallowUnknownFields()
		require.NoError(t, dec.Decode(&s))
	}
	return s
}

// Body is the client's body.
func (c *Conversation) Body() string { return c.section("request") }

// Request is what the client asks.
func (c *Conversation) Request(t testing.TB) *chat.Request {
	t.Helper()
	return Parse(t, c.section("request"))
}

// streamed is the client's body with the wish for a stream and for usage; false where that would be no other conversation.
func (c *Conversation) streamed(t testing.TB) (string, bool) {
	t.Helper()
	said := func(m chat.Member) bool { return m.Name == "stream" || m.Name == "stream_options" }
	if slices.ContainsFunc(c.Request(t).Members, said) || c.Channel(t).Plain {
		return "", false
	}
	_, rest, _ := strings.Cut(c.section("request"), "{")
	return `{"stream":true,"stream_options":{"include_usage":true},` + rest, true
}

// Parse reads a client's body.
func Parse(t testing.TB, body string) *chat.Request {
	t.Helper()
	req, refusal := dialect.Chat{}.Parse([]byte(body))
	require.Nil(t, refusal)
	return req
}

// Outcome is all that must come of the conversation, as text.
func (c *Conversation) Outcome() string {
	return c.section("events") + c.section("usage") + c.section("info") + c.section("failure")
}

// Reply is what the provider replies.
func (c *Conversation) Reply(t testing.TB) Reply {
	t.Helper()
	if text := c.section("reply"); text != "" {
		return reply(t, text)
	}
	r := reply(t, c.section("reply, cut"))
	r.Cut = true
	return r
}

func reply(t testing.TB, text string) Reply {
	t.Helper()
	r := Reply{Header: http.Header{}}
	head, body, ok := strings.Cut(text, "\n\n")
	require.True(t, ok, "the reply has no blank line")
	r.Body = body
	first, headers, _ := strings.Cut(head, "\n")
	status, media, _ := strings.Cut(first, " ")
	var err error
	r.Status, err = strconv.Atoi(status)
	require.NoError(t, err)
	r.Header["Content-Type"] = []string{media}
	if media == "" {
		r.Header["Content-Type"] = nil // and do not guess one
	}
	for line := range strings.Lines(headers) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		r.Header.Set(name, value)
	}
	return r
}

// Key is the credential of every call.
const Key = "sk-test-0123456789"

// Call makes a call of a request over a channel of the adapter's.
func (a Adapter) Call(req *chat.Request, s Channel) provider.Call {
	p := a.Provider
	if s.Vendor != "" {
		p.Vendor = s.Vendor
	}
	p.Name, p.BaseURL, p.Headers, p.Query = "acme", "http://acme.test/v1", s.Headers, s.Query
	model := a.Model
	if s.Model != "" {
		model = s.Model
	}
	can := catalog.CapabilitiesOf(p.Kind, p.Vendor, chat.RoutedModel(model))
	can.Drops, can.OutputField = s.Drops, s.OutputField
	if s.Cannot != nil {
		can.Cannot = s.Cannot
	}
	if s.MaxOutput > 0 {
		can.MaxOutput, can.DefaultOutput = s.MaxOutput, s.MaxOutput
	}
	return provider.Call{Request: req, Stream: !s.Plain, Headers: s.Client, Fetched: s.Fetched, Credential: &catalog.Credential{Alias: "main", Secret: redact.NewSecret(Key)},
		Channel: &catalog.Channel{Name: "acme/" + model, Model: chat.RoutedModel(model), Provider: &p, Capabilities: can}}
}
