package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The first call of a newcomer, taken from what the stack prints.
func TestFirstCall(t *testing.T) {
	t.Chdir("..")
	o, err := parseOptions([]string{"-addr", "127.0.0.1:0", "-out", t.TempDir()}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var stderr bytes.Buffer
	stdout, printed := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, o, printed, &stderr)
		printed.CloseWithError(io.EOF)
		ended <- err
	}()

	greeting := untilLine(stdout, " -d ")
	go func() { _, _ = io.Copy(io.Discard, stdout) }() // ends with run
	call := regexp.MustCompile(`(?s)^ready (http://127\.0\.0\.1:\d+)\n.*curl -N -i (\S+) .*-H '(.*?): (.*?)' -H '(.*?): (.*?)'.* -d '(.*)'\n$`).FindStringSubmatch(greeting)
	if call == nil {
		end()
		t.Fatalf("printed %q, ended with %v, said %s", greeting, <-ended, stderr.String())
	}
	if call[2] != call[1]+"/v1/chat/completions" {
		t.Errorf("the call goes to %s, the stack is at %s", call[2], call[1])
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, call[2], strings.NewReader(call[7]))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(call[3], call[4])
	request.Header.Set(call[5], call[6])
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK || response.Header.Get("X-LLM-Fallback") != "true" || response.Header.Get("X-LLM-Model") != "sim-ok" {
		t.Errorf("answered %s, %v", response.Status, response.Header)
	}
	if !strings.HasPrefix(string(body), "data: {") || !strings.HasSuffix(string(body), "data: [DONE]\n\n") {
		t.Errorf("not a whole stream: %s", body)
	}

	end()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	if log := string(readFile(t, filepath.Join(o.out, "gateway.log"))); !strings.Contains(log, "request_finished") {
		t.Errorf("the log says nothing of the request: %s", log)
	}
}

// untilLine reads until a line that holds text, or to the end, and returns what it has read.
func untilLine(r io.Reader, text string) string {
	var read strings.Builder
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadString('\n')
		read.WriteString(line)
		if err != nil || strings.Contains(line, text) {
			return read.String()
		}
	}
}

func TestRunSaysWhatIsMissing(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	const broken = "internal/catalog/source/testdata/busted_many_at_once.yaml"
	tests := map[string]struct {
		dir  string
		args []string
		want []string
	}{
		"a port in use names the flag":         {"..", []string{"-addr", taken.Addr().String()}, []string{"-addr", taken.Addr().String(), "in use"}},
		"a missing configuration names it":     {"..", []string{"-addr", "127.0.0.1:0", "-config", "no.json"}, []string{"-config", "no.json"}},
		"every mistake in it has its line":     {"..", []string{"-addr", "127.0.0.1:0", "-config", broken}, []string{"-config", broken + ":17: version: ", broken + ":51: kyes: "}},
		"outside the root it says where to be": {".", nil, []string{"project's root"}},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) {
			t.Chdir(test.dir)
			o, err := parseOptions(append(test.args, "-out", t.TempDir()), io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			err = run(t.Context(), o, io.Discard, io.Discard)
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want it to say %q", err, want)
				}
			}
		})
	}
}

func TestConfigurationInJSON(t *testing.T) {
	const file = "../internal/catalog/source/testdata/working_every_member.json"
	got, err := options{config: file}.readConfiguration()
	if err != nil || !bytes.Equal(got, readFile(t, file)) {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestReachable(t *testing.T) {
	tests := map[string]struct {
		ip   net.IP
		want string
	}{
		"a wildcard is no destination": {net.IPv4zero, "127.0.0.1:3000"},
		"nor is that of IPv6":          {net.IPv6unspecified, "127.0.0.1:3000"},
		"an address is itself":         {net.IPv4(127, 0, 0, 1), "127.0.0.1:3000"},
		"IPv6 is bracketed":            {net.IPv6loopback, "[::1]:3000"},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) {
			if got := reachable(&net.TCPAddr{IP: test.ip, Port: 3000}); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
