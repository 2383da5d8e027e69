package gemini_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	dialect "spillway/internal/dialect/openai"
	"spillway/internal/fault"
	"spillway/internal/provider"
	"spillway/internal/provider/gemini"
	"spillway/internal/provider/wire"
	"spillway/internal/redact"
	"spillway/internal/simulate"
)

var update = flag.Bool("update", false, "write what was seen into testdata/*/*.txtar; read the difference before committing it")

// A conversation is one call as a text file: what the client asked, what must go upstream, what the provider replies, and
// what must come of it. Its sections, in this order:
//
//	channel   optional; JSON, see channelSpec
//	request   the client's body
//	upstream  the body that the provider must get, compared as JSON; absent: the request is refused without a call
//	reply     absent with upstream; status, media type and headers, a blank line, the body as it is; "reply, cut" breaks the connection after it
//	events    the events that must come out, one a line, see describe
//	usage     the usage that must be known in the end; absent: none
//	info      the provider's request id, the parameters left out, the frames skipped; absent: none of them
//	failure   what the failure must say; absent: the answer is whole
//
// Conversations in testdata/clean end whole, those in testdata/failures do not.
type conversation struct {
	file    string
	archive *txtar.Archive
}

// channelSpec is what a conversation's channel has that others have not.
type channelSpec struct {
	Model   string            `json:"model"` // default: gemini-3.1-flash
	Plain   bool              `json:"plain"` // the upstream call does not stream
	Drops   []string          `json:"drops"`
	Headers map[string]string `json:"headers"`
	Query   map[string]string `json:"query"`
}

func conversations(t testing.TB, folders ...string) map[string]*conversation {
	t.Helper()
	all := map[string]*conversation{}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
		require.NoError(t, err)
		require.NotEmpty(t, files, folder)
		for _, file := range files {
			archive, err := txtar.ParseFile(file)
			require.NoError(t, err)
			all[folder+"/"+strings.TrimSuffix(filepath.Base(file), ".txtar")] = &conversation{file, archive}
		}
	}
	return all
}

// section is a part of the file; "" when it is not there.
func (c *conversation) section(name string) string {
	for _, f := range c.archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

func (c *conversation) channel(t testing.TB) (spec channelSpec) {
	t.Helper()
	if text := c.section("channel"); text != "" {
		dec := json.NewDecoder(strings.NewReader(text))
		dec.DisallowUnknownFields()
		require.NoError(t, dec.Decode(&spec))
	}
	return spec
}

// scripted is what the provider replies.
type scripted struct {
	status int
	header http.Header
	body   string
	cut    bool
}

func (c *conversation) reply(t testing.TB) scripted {
	t.Helper()
	r := scripted{header: http.Header{}}
	text := c.section("reply")
	if c.refused() {
		return scripted{status: http.StatusTeapot}
	}
	if text == "" {
		text, r.cut = c.section("reply, cut"), true
	}
	head, body, ok := strings.Cut(text, "\n\n")
	require.True(t, ok, "the reply has no blank line")
	r.body = strings.ReplaceAll(body, "\n\n", "\r\n\r\n") // as Gemini separates its frames
	first, headers, _ := strings.Cut(head, "\n")
	status, media, _ := strings.Cut(first, " ")
	var err error
	r.status, err = strconv.Atoi(status)
	require.NoError(t, err)
	r.header["Content-Type"] = []string{media}
	if media == "" {
		r.header["Content-Type"] = nil // and do not guess one
	}
	for line := range strings.Lines(headers) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		r.header.Set(name, value)
	}
	return r
}

// upstream is a provider that gives its reply to every call and remembers the calls.
type upstream struct {
	reply scripted
	calls []*http.Request
	body  []byte
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.calls = append(u.calls, r)
	u.body, _ = io.ReadAll(r.Body) // a test that needs it compares it
	for name, values := range u.reply.header {
		w.Header()[name] = values
	}
	w.WriteHeader(u.reply.status)
	_, _ = io.WriteString(w, u.reply.body)
	if u.reply.cut {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// serve puts a handler behind an in-memory listener until the test ends, and returns the client that reaches it.
func serve(t testing.TB, h http.Handler) *wire.Client {
	t.Helper()
	l := simulate.NewPipeListener()
	server := &http.Server{Handler: h}
	served := make(chan error)
	go func() { served <- server.Serve(l) }()
	client := &wire.Client{Dial: l.DialContext}
	t.Cleanup(func() {
		client.Close()
		_ = server.Close()
		assert.ErrorIs(t, <-served, http.ErrServerClosed)
	})
	return client
}

const key = "AIza-test-0123456789"

func (s channelSpec) model() string { return cmp.Or(s.Model, "gemini-3.1-flash") }

func call(req *chat.Request, s channelSpec) provider.Call {
	return provider.Call{Request: req, Stream: !s.Plain, Credential: &catalog.Credential{Alias: "main", Secret: redact.NewSecret(key)},
		Channel: &catalog.Channel{Name: "google/up-1", Model: chat.RoutedModel(s.model()), Capabilities: catalog.Capabilities{Drops: s.Drops},
			Provider: &catalog.Provider{Name: "google", Kind: "gemini", Vendor: "gemini", BaseURL: "http://google.test/v1beta", Headers: s.Headers, Query: s.Query}}}
}

// adapter is one that makes the same ids in every test.
func adapter(client *wire.Client) *gemini.Provider {
	n := 0
	return &gemini.Provider{Wire: client, Policy: fault.Default(), NewID: func() string { n++; return "call_" + strconv.Itoa(n) }}
}

// outcome is what came of a call, in words.
type outcome struct {
	events  []string
	usage   string
	failure *fault.Failure
	info    provider.Info
}

// follow makes a call and reads its reply to the end.
func follow(t testing.TB, p *gemini.Provider, c provider.Call) (o outcome) {
	t.Helper()
	reply, err := p.Call(t.Context(), c)
	if err != nil {
		require.ErrorAs(t, err, &o.failure)
		return o
	}
	defer reply.Close()
	var last chat.Event
	for {
		ev, err := reply.Next()
		o.info = reply.Info()
		if errors.Is(err, io.EOF) { // as its callers ask: a failure must not match it
			return o
		}
		if err != nil {
			require.ErrorAs(t, err, &o.failure)
			return o
		}
		o.events = append(o.events, describe(&last, ev))
		if ev.Usage != nil {
			o.usage = describeUsage(ev.Usage)
		}
	}
}

// describe writes an event in one line: id, created and model where they change, the marks, each choice's delta, usage.
func describe(last, ev *chat.Event) string {
	var b strings.Builder
	if ev.ID != last.ID || ev.Created != last.Created || ev.Model != last.Model {
		fmt.Fprintf(&b, "[%s %d %s] ", ev.ID, ev.Created, ev.Model)
		last.ID, last.Created, last.Model = ev.ID, ev.Created, ev.Model
	}
	if ev.Whole {
		b.WriteString("whole ")
	}
	if ev.Rebuilt {
		b.WriteString("normalised ")
	}
	if ev.Content() {
		b.WriteString("content ")
	}
	for i := range ev.Deltas {
		b.WriteString(describeDelta(&ev.Deltas[i]))
	}
	if ev.Usage != nil {
		b.WriteString("usage")
	}
	if b.Len() == 0 {
		return "nothing"
	}
	return strings.TrimSpace(b.String())
}

func describeDelta(d *chat.Delta) string {
	s := fmt.Sprintf("%d:", d.Choice)
	for _, part := range []struct{ name, text string }{{"text", d.Text}, {"refusal", d.Refusal}, {"reasoning", d.Reasoning}} {
		if part.text != "" {
			s += fmt.Sprintf(" %s %q", part.name, part.text)
		}
	}
	for _, t := range d.Tools {
		s += fmt.Sprintf(" tool[%d]", t.Index)
		if t.ID != "" || t.Name != "" {
			s += fmt.Sprintf(" %s %s", t.ID, t.Name)
		}
		s += fmt.Sprintf("(%s)", t.Arguments)
		if t.Signature != "" {
			s += " signed " + t.Signature
		}
	}
	for _, t := range d.Thinking {
		s += fmt.Sprintf(" %s's %q signed %s", t.Vendor, t.Text, t.Signature)
	}
	if d.Media {
		s += " media"
	}
	if d.LogProbs != "" {
		s += " logprobs " + d.LogProbs
	}
	if d.Finish != "" {
		s += " finish " + string(d.Finish)
	}
	if d.Native != "" {
		s += " (" + d.Native + ")"
	}
	return s + "; "
}

func describeUsage(u *chat.Usage) string {
	return fmt.Sprintf("prompt %d, completion %d, cached %d, written %d, reasoning %d\n", u.Prompt, u.Completion, u.Cached, u.CacheWrite, u.Reasoning)
}

// facts writes a fact a line.
type facts struct{ strings.Builder }

func (b *facts) line(name string, value any, known bool) {
	if known {
		fmt.Fprintf(b, "%s: %v\n", name, value)
	}
}

func describeInfo(i provider.Info) string {
	var b facts
	b.line("request id", i.RequestID, i.RequestID != "")
	b.line("left out", strings.Join(i.Dropped, ", "), len(i.Dropped) > 0)
	b.line("skipped", i.Malformed, i.Malformed > 0)
	return b.String()
}

// describeFailure writes what an attempt's decision needs of a failure; what is zero is left out. How the words of an error
// lead to its class is the business of package fault.
func describeFailure(f *fault.Failure) string {
	if f == nil {
		return ""
	}
	var b facts
	b.line("class", f.Class, true)
	b.line("local cause", string(f.Local), f.Local != "")
	b.line("status", f.Status, f.Status != 0)
	b.line("phase", f.Phase, true)
	b.line("code", f.Code, f.Code != "")
	b.line("param", f.Param, f.Param != "")
	b.line("hint", fmt.Sprintf("%s, from %s", f.Hint.Wait, f.Hint.Source), f.Hint.Known)
	b.line("reset", fmt.Sprintf("%s, from %s", f.Reset.Wait, f.Reset.Source), f.Reset.Known)
	if f.ShouldRetry != nil {
		b.line("should retry", *f.ShouldRetry, true)
	}
	b.line("request id", f.RequestID, f.RequestID != "")
	b.line("ambiguous", true, f.Ambiguous)
	b.line("in stream", true, f.InStream)
	return b.String()
}

func lines(events []string) string {
	if len(events) == 0 {
		return ""
	}
	return strings.Join(events, "\n") + "\n"
}

func TestConversations(t *testing.T) {
	for name, c := range conversations(t, "clean", "failures") {
		t.Run(name, func(t *testing.T) {
			body := []byte(c.section("request"))
			req, refusal := dialect.Chat{}.Parse(body)
			require.Nil(t, refusal)
			untouched, _ := dialect.Chat{}.Parse([]byte(c.section("request")))

			far := &upstream{reply: c.reply(t)}
			spec := c.channel(t)
			got := follow(t, adapter(serve(t, far)), call(req, spec))

			if *update {
				c.write(t, far.body, got)
			}
			assert.Equal(t, c.section("events"), lines(got.events))
			assert.Equal(t, c.section("usage"), got.usage)
			assert.Equal(t, c.section("info"), describeInfo(got.info))
			assert.Equal(t, c.section("failure"), describeFailure(got.failure))
			assert.Equal(t, strings.HasPrefix(name, "failures/"), got.failure != nil, "the conversation is in the wrong folder")
			assert.Equal(t, untouched, req, "the request was changed")
			assert.Equal(t, c.section("request"), string(body), "the client's body was changed")
			if c.refused() {
				assert.Empty(t, far.calls, "a refused request was sent")
				return
			}
			assert.JSONEq(t, c.section("upstream"), string(far.body))
			require.Len(t, far.calls, 1, "one call and no other")
			checkCall(t, far.calls[0], spec)
		})
	}
}

// refused reports whether the request cannot be put into Gemini's words.
func (c *conversation) refused() bool {
	return c.section("reply") == "" && c.section("reply, cut") == ""
}

// checkCall asserts what every upstream call has, and what none has: the key is in a header and nowhere else.
func checkCall(t *testing.T, r *http.Request, s channelSpec) {
	t.Helper()
	assert.Equal(t, http.MethodPost, r.Method)
	assert.Equal(t, "google.test", r.Host)
	want := http.Header{"X-Goog-Api-Key": {key}, "Content-Type": {"application/json"}, "User-Agent": {"spillway"}, "Accept": {"text/event-stream"},
		"Content-Length": r.Header["Content-Length"]}
	method, query := "streamGenerateContent", url.Values{"alt": {"sse"}}
	if s.Plain {
		want.Set("Accept", "application/json")
		method, query = "generateContent", url.Values{}
	}
	for name, value := range s.Query {
		query.Set(name, value)
	}
	path := "/v1beta/models/" + s.model()
	if strings.Contains(s.model(), "/") {
		path = "/v1beta/" + s.model()
	}
	assert.Equal(t, path+":"+method, r.URL.Path)
	assert.Equal(t, query, r.URL.Query())
	assert.NotContains(t, r.URL.String(), key)
	for name, value := range s.Headers {
		want.Set(name, value)
	}
	assert.Equal(t, want, r.Header)
}

// write puts what was seen into the file.
func (c *conversation) write(t *testing.T, body []byte, got outcome) {
	t.Helper()
	var pretty bytes.Buffer
	if len(body) > 0 {
		require.NoError(t, json.Indent(&pretty, body, "", "  "))
		pretty.WriteByte('\n')
	}
	seen := []txtar.File{{Name: "upstream", Data: pretty.Bytes()}, {Name: "events", Data: []byte(lines(got.events))},
		{Name: "usage", Data: []byte(got.usage)}, {Name: "info", Data: []byte(describeInfo(got.info))}, {Name: "failure", Data: []byte(describeFailure(got.failure))}}
	var files []txtar.File
	for _, name := range []string{"channel", "request", "upstream", "reply", "reply, cut", "events", "usage", "info", "failure"} {
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
