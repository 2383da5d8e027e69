package conversation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/media"
	"spillway/internal/provider"
	"spillway/internal/provider/wire"
	"spillway/internal/redact"
)

// A Studio is an adapter of media jobs that is tested. Its conversations are one call each, the files of testdata/jobs:
//
//	task      JSON, see StudioTask: the call and the job
//	upstream  the call that the provider must get: method, address, headers, a blank line, the body; absent: there must be none
//	reply     as in a Conversation; "reply, cut" breaks the connection after it, "reply, none" before it with a call that was
//	          read, "reply, unreachable" lets no connection come about
//	outcome   what the adapter says of it, see describeOutcome
type Studio struct {
	// New makes it; it must use the desk.
	New func(wire.Desk) provider.Studio
	// Provider holds the kind, the vendor and the address, Model the model, where a conversation says nothing else.
	Provider catalog.Provider
	Model    string
}

// StudioTask is one call about a job.
type StudioTask struct {
	Call     string          `json:"call"` // submit, poll or cancel
	Kind     media.Kind      `json:"kind"`
	Model    string          `json:"model"`
	Request  json.RawMessage `json:"request"`
	Upstream string          `json:"upstream"`
	Progress int             `json:"progress"`
}

const (
	noReply     = "reply, none"
	unreachable = "reply, unreachable"
)

// Run holds the adapter to the conversations of testdata/jobs. With update it writes what it saw into them; read the
// difference before committing it.
func (s Studio) Run(t *testing.T, update bool) {
	for name, c := range Load(t, "jobs") {
		t.Run(name, func(t *testing.T) {
			far := &studioFar{Upstream: Upstream{}, silent: c.has(noReply)}
			if !far.silent && !c.has(unreachable) {
				far.Reply = c.Reply(t)
			}
			client := Serve(t, far)
			if c.has(unreachable) {
				client.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
			}
			adapter := s.New(wire.Desk{Wire: client, Policy: fault.Default()})
			outcome := s.outcome(t, adapter, c.task(t))
			if update {
				c.writeStudio(t, far.text(), outcome)
			}
			assert.Equal(t, c.section("outcome"), outcome)
			assert.Equal(t, c.section("upstream"), far.text())
			assert.LessOrEqual(t, len(far.Calls), 1, "one call and no other")
		})
	}
}

// Task is a call about a job, over a channel of the adapter's.
func (s Studio) Task(c StudioTask) provider.Task {
	p := s.Provider
	p.Name = "acme"
	model := s.Model
	if c.Model != "" {
		model = c.Model
	}
	job := media.New("job_1", "org", c.Kind, "asked", c.Request, "evt_1", time.Time{})
	job.Upstream, job.Progress = c.Upstream, c.Progress
	return provider.Task{Job: &job, Credential: &catalog.Credential{Alias: "main", Secret: redact.NewSecret(Key)},
		Channel: &catalog.Channel{Name: "acme/" + model, Model: chat.RoutedModel(model), Provider: &p}}
}

func (s Studio) outcome(t *testing.T, adapter provider.Studio, c StudioTask) string {
	t.Helper()
	task := s.Task(c)
	before := *task.Job
	defer func() { assert.Equal(t, before, *task.Job, "the job was changed") }()
	switch c.Call {
	case "submit":
		sub, err := adapter.Submit(t.Context(), task)
		return describeSubmission(t, sub) + describeError(t, err)
	case "poll":
		status, err := adapter.Poll(t.Context(), task)
		return describeStatus(t, status) + describeError(t, err)
	case "cancel":
		confirmed, err := adapter.Cancel(t.Context(), task)
		return fmt.Sprintf("confirmed: %t\n", confirmed) + describeError(t, err)
	default:
		require.Fail(t, "no such call: "+c.Call)
		return ""
	}
}

func describeError(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var f *fault.Failure
	require.ErrorAs(t, err, &f)
	return describeFailure(f)
}

func describeSubmission(t *testing.T, s provider.Submission) string {
	t.Helper()
	var b facts
	b.line("handle", s.Upstream, s.Upstream != "")
	b.line("hint", s.Hint, s.Hint != 0)
	b.line("request id", s.RequestID, s.RequestID != "")
	return b.String() + describeArtifact(t, s.Artifact)
}

func describeStatus(t *testing.T, s provider.Status) string {
	t.Helper()
	var b facts
	b.line("state", s.State, s.State != "")
	b.line("strange", s.Strange, s.Strange != "")
	b.line("progress", s.Progress, s.Progress != 0)
	b.line("hint", s.Hint, s.Hint != 0)
	b.line("error", fmt.Sprintf("%s (%s): %s", s.Error.Code, s.Error.Class, s.Error.Message), s.Error != media.Error{})
	return b.String() + describeArtifact(t, s.Artifact)
}

// describeArtifact reads a work that is in hand.
func describeArtifact(t *testing.T, a *provider.Artifact) string {
	t.Helper()
	if a == nil {
		return ""
	}
	var b facts
	b.line("work at", a.URL, a.URL != "")
	for _, name := range slices.Sorted(maps.Keys(a.Header)) {
		b.line("work's "+name, a.Header.Get(name), true)
	}
	b.line("content type", a.ContentType, a.ContentType != "")
	b.line("size", a.Size, a.Size != 0)
	if a.Body == nil {
		b.line("work", "none", a.URL == "")
		return b.String()
	}
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	b.line("work", fmt.Sprintf("%q", data), true)
	if err != nil {
		var f *fault.Failure
		require.True(t, errors.As(err, &f), "an error of the body is a failure")
		b.line("work is lost", f.Class, true)
	}
	return b.String()
}

// studioFar is the provider of a studio's conversation.
type studioFar struct {
	Upstream
	silent bool
}

func (f *studioFar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !f.silent {
		f.Upstream.ServeHTTP(w, r)
		return
	}
	f.Calls = append(f.Calls, r)
	f.Body, _ = io.ReadAll(r.Body)
	panic(http.ErrAbortHandler)
}

// text is the call that came, if one did.
func (f *studioFar) text() string {
	if len(f.Calls) == 0 {
		return ""
	}
	r := f.Calls[0]
	var b strings.Builder
	fmt.Fprintf(&b, "%s http://%s%s\n", r.Method, r.Host, r.URL.RequestURI())
	if len(r.TransferEncoding) > 0 {
		fmt.Fprintf(&b, "in pieces: %s\n", r.TransferEncoding)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		if name != "Content-Length" {
			fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(r.Header[name], ", "))
		}
	}
	if len(f.Body) == 0 {
		return b.String()
	}
	var pretty bytes.Buffer
	if json.Indent(&pretty, f.Body, "", "  ") != nil {
		pretty.Write(f.Body)
	}
	return b.String() + "\n" + pretty.String() + "\n"
}

func (c *Conversation) has(name string) bool {
	return slices.ContainsFunc(c.archive.Files, func(f txtar.File) bool { return f.Name == name })
}

func (c *Conversation) task(t *testing.T) (s StudioTask) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(c.section("task")))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&s))
	return s
}

func (c *Conversation) writeStudio(t *testing.T, upstream, outcome string) {
	t.Helper()
	seen := []txtar.File{{Name: "upstream", Data: []byte(upstream)}, {Name: "outcome", Data: []byte(outcome)}}
	var files []txtar.File
	for _, name := range []string{"task", "upstream", "reply", "reply, cut", noReply, unreachable, "outcome"} {
		for _, f := range append(seen, c.archive.Files...) {
			if f.Name == name && (len(f.Data) > 0 || name == noReply || name == unreachable) {
				files = append(files, f)
				break
			}
		}
	}
	c.archive.Files = files
	require.NoError(t, os.WriteFile(c.file, txtar.Format(c.archive), 0o644))
}
