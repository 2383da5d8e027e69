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

// TestAnEventGoesToItsFunction: that of its queue, or of its schedule.
func TestAnEventGoesToItsFunction(t *testing.T) {
	t.Chdir("..")
	elsewhere := filepath.Join(t.TempDir(), "elsewhere.json")
	if err := os.WriteFile(elsewhere, bytes.ReplaceAll(readFile(t, "events/poller/messages.json"), []byte("spillway-JobsQueue"), []byte("other")), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"events/poller/messages.json": `{"batchItemFailures":[{"itemIdentifier":"059f36b4-87a3-44ab-83d2-661975830a7d"},{"itemIdentifier":"2e1424d4-f796-459a-8184-9c92662be6da"}]}` + "\n",
		"events/sweeper/minute.json":  "{}\n",
		elsewhere:                     "",
	} {
		o, err := parseOptions([]string{"-out", t.TempDir(), "-invoke", file}, os.Getenv, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		err = invoke(t.Context(), o, &stdout, &stderr)
		if want == "" {
			if err == nil || !strings.Contains(err.Error(), "no function of template.yaml is invoked by its queue or schedule") {
				t.Errorf("%s: got %v", file, err)
			}
			continue
		}
		if err != nil || stdout.String() != want {
			t.Errorf("%s: printed %q and ended with %v, want %q; said %s", file, &stdout, err, want, &stderr)
		}
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
