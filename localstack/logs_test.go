package main

import (
	"bytes"
	"testing"
)

func TestFunctionLog(t *testing.T) {
	tests := map[string]struct {
		writes []string
		want   string // on the terminal
	}{
		"a warning is one line without what says nothing": {
			[]string{`{"time":"2026-11-30T09:00:00Z","level":"WARN","msg":"attempt_finished","policy_version":"7","n":1,"class":"overloaded","region":"","hop":0,"ok":false,"why":"no room","nested":{"a":1}}` + "\n"},
			`gateway: WARN attempt_finished n=1 class=overloaded why="no room" nested={"a":1}` + "\n",
		},
		"an error is shown":                {[]string{`{"level":"ERROR","msg":"init_failed"}` + "\n"}, "gateway: ERROR init_failed\n"},
		"information stays in the file":    {[]string{`{"level":"INFO","msg":"request_finished"}` + "\n"}, ""},
		"a metric stays in the file":       {[]string{`{"_aws":{"CloudWatchMetrics":[]}}` + "\n"}, ""},
		"what is no record is shown":       {[]string{"panic: oh\n", "\n", "goroutine 1\n"}, "gateway: panic: oh\ngateway: goroutine 1\n"},
		"a line may come in pieces":        {[]string{"pan", "ic: oh\npanic", ": again\n"}, "gateway: panic: oh\ngateway: panic: again\n"},
		"a line that has not ended: later": {[]string{"half"}, ""},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) {
			var file, terminal, all bytes.Buffer
			log := &functionLog{name: "gateway", file: &file, terminal: &terminal}
			for _, text := range test.writes {
				all.WriteString(text)
				if _, err := log.Write([]byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			if terminal.String() != test.want {
				t.Errorf("terminal\n got %q\nwant %q", terminal.String(), test.want)
			}
			if file.String() != all.String() {
				t.Errorf("file\n got %q\nwant %q", file.String(), all.String())
			}
		})
	}
}
