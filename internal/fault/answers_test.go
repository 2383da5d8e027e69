package fault_test

import (
	"flag"
	"fmt"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"spillway/internal/fault"
)

var updateAnswers = flag.Bool("update-answers", false, "write into testdata/answers what follows from each answer; read the difference before committing it")

// today is the clock of testdata/answers.
var today = time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)

// An answer is a section of testdata/answers/vendor.txtar:
//
//	-- class: a sentence --
//	> what follows from it
//	status, and "in stream" for an error inside a 200
//	headers
//
//	body
//
// The class is in the name, so that it is never written by the flag.
type answer struct {
	vendor, name, follows string
	status                int
	inStream              bool
	header                http.Header
	body                  string
}

func readAnswer(t *testing.T, vendor string, f txtar.File) answer {
	t.Helper()
	a := answer{vendor: vendor, name: f.Name, header: http.Header{}}
	text := string(f.Data)
	if strings.HasPrefix(text, "> ") {
		a.follows, text, _ = strings.Cut(text, "\n")
	}
	head, body, _ := strings.Cut(text, "\n\n")
	a.body = strings.TrimSpace(body)
	first, lines, _ := strings.Cut(strings.TrimSpace(head), "\n")
	status, stream, _ := strings.Cut(first, " ")
	var err error
	a.status, err = strconv.Atoi(status)
	require.NoError(t, err, f.Name)
	a.inStream = stream == "in stream"
	for line := range strings.Lines(lines) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		require.True(t, ok, line)
		a.header.Set(name, value)
	}
	return a
}

// observe does what an adapter does.
func (a answer) observe() fault.Observation {
	env, parsed := fault.ParseAnswer(a.body, a.header.Get)
	if !parsed && a.inStream {
		env, parsed = fault.ParseErrorMember(a.body)
	}
	o := fault.Observation{Provider: a.vendor, Status: a.status, Phase: fault.PhaseHeaders, Sent: true, Parsed: parsed, InStream: a.inStream,
		RequestID: fault.RequestID(a.vendor, a.header.Get)}
	if a.inStream && env.Status != 0 {
		o.Status = env.Status
	}
	o.Read(env, a.header.Get, today)
	return o
}

// describe says what follows from a failure: evidence, action, hint, the final answer of a chain that ends with it.
func describe(f *fault.Failure) string {
	rule := fault.Default().Rule(f.Class)
	s := fmt.Sprintf("> by %s; %s; ", f.Evidence, rule.Action)
	switch {
	case f.Hint.Excessive:
		s += "excessive hint from " + f.Hint.Source
	case f.Hint.Known:
		s += fmt.Sprintf("hint %s from %s", f.Hint.Wait, f.Hint.Source)
	default:
		s += "no hint"
	}
	s += fmt.Sprintf("; %d %s", rule.Code.Status(), rule.Code)
	for _, mark := range []struct {
		is   bool
		text string
	}{{rule.Retryable, "retryable"}, {rule.Alert, "alert"}, {rule.Hold != "", "hold " + string(rule.Hold)}, {f.Ambiguous, "ambiguous"}, {f.Silence(), "silence"}} {
		if mark.is {
			s += ", " + mark.text
		}
	}
	if f.ShouldRetry != nil {
		s += fmt.Sprintf("; may be retried: %t", *f.ShouldRetry)
	}
	return s
}

// TestAnswers holds every answer in testdata/answers to its class and to what follows from it.
func TestAnswers(t *testing.T) {
	files, err := filepath.Glob("testdata/answers/*.txtar")
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, file := range files {
		vendor := strings.TrimSuffix(filepath.Base(file), ".txtar")
		seen[vendor] = true
		archive, err := txtar.ParseFile(file)
		require.NoError(t, err)
		for i, f := range archive.Files {
			t.Run(vendor+"/"+f.Name, func(t *testing.T) {
				a := readAnswer(t, vendor, f)
				got := fault.Default().Classify(a.observe())
				class, _, _ := strings.Cut(f.Name, ":")
				assert.Equal(t, class, string(got.Class), "by %s", got.Evidence)
				if *updateAnswers {
					archive.Files[i].Data = []byte(describe(got) + "\n" + strings.TrimPrefix(string(f.Data), a.follows+"\n"))
					return
				}
				assert.Equal(t, a.follows, describe(got))
			})
		}
		if *updateAnswers {
			require.NoError(t, os.WriteFile(file, txtar.Format(archive), 0o644))
		}
	}
	for _, vendor := range fault.Vendors() {
		assert.True(t, seen[vendor], "%s has no answers", vendor)
	}
}

// TestRequestIDOfABody: what the body says of the call is used where no header does.
func TestRequestIDOfABody(t *testing.T) {
	for name, c := range map[string]struct {
		a    answer
		want string
	}{
		"Anthropic's body":     {answer{vendor: "anthropic", status: 529, body: `{"type":"error","error":{"type":"overloaded_error","message":"m"},"request_id":"req_1"}`}, "req_1"},
		"Mistral's gateway":    {answer{vendor: "mistral", status: 401, body: `{"message":"Unauthorized","request_id":"f00d"}`}, "f00d"},
		"a header comes first": {answer{vendor: "anthropic", status: 529, header: http.Header{textproto.CanonicalMIMEHeaderKey("request-id"): {"req_h"}}, body: `{"type":"error","error":{"type":"x"},"request_id":"req_1"}`}, "req_h"},
		"none":                 {answer{vendor: "deepseek", status: 500, body: `{"error":{"message":"m"}}`}, ""},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, c.a.observe().RequestID) })
	}
}
