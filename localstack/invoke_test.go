package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// parts counts the writes, which are as many as the parts that an answer came in.
type parts struct {
	bytes.Buffer
	n int
}

func (p *parts) Write(b []byte) (int, error) {
	p.n++
	return p.Buffer.Write(b)
}

func TestInvoke(t *testing.T) {
	t.Chdir("..")
	o, err := parseOptions([]string{"-out", t.TempDir(), "-invoke", "events/chat-stream.json"}, os.Getenv, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var stdout parts
	var stderr bytes.Buffer
	if err := invoke(t.Context(), o, &stdout, &stderr); err != nil {
		t.Fatalf("ended with %v, said %s", err, stderr.String())
	}
	head, body, _ := strings.Cut(stdout.String(), "\n\n")
	for _, line := range []string{"HTTP/1.1 200 OK", "Content-Type: text/event-stream; charset=utf-8", "X-Llm-Fallback: true"} {
		if !strings.Contains(head+"\n", line+"\n") {
			t.Errorf("the head lacks %q:\n%s", line, head)
		}
	}
	if !strings.HasPrefix(body, "data: {") || !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("not a whole stream: %s", body)
	}
	if stdout.n < 30 {
		t.Errorf("60 words with a pause after each came in %d parts", stdout.n)
	}
	if said := stderr.String(); !strings.Contains(said, "the first after") || !strings.Contains(said, invokeLog) {
		t.Errorf("said %q", said)
	}
	if log := string(readFile(t, filepath.Join(o.out, invokeLog))); !strings.Contains(log, "request_finished") {
		t.Errorf("the log says nothing of the request: %s", log)
	}
}

func TestInvokeSaysWhatIsMissing(t *testing.T) {
	notJSON := filepath.Join(t.TempDir(), "event.json")
	if err := os.WriteFile(notJSON, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for event, want := range map[string]string{"none.json": "none.json", notJSON: "is not JSON"} {
		err := invoke(t.Context(), options{event: event}, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want it to say %q", event, err, want)
		}
	}
}
