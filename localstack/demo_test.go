package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"spillway/internal/media"
)

func TestTheDemonstrationShowsJobsFromTheirOrdersToTheirWorks(t *testing.T) {
	t.Chdir("..")
	o, err := parseOptions([]string{"-demo", "-out", t.TempDir()}, os.Getenv, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	if err := demo(t.Context(), o, &shown, t.Output()); err != nil {
		t.Fatalf("%v\n%s", err, shown.String())
	}
	for _, want := range []string{"\n202 {", "Idempotent-Replayed: true", "running", "succeeded  100 %", "cancelled", "the link gave out 200000 bytes of video/mp4",
		"bytes of audio/mpeg", "webhook-id evt_", "\n  status           succeeded\n", "\ndone after "} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("not shown: %q", want)
		}
	}
	if t.Failed() {
		t.Log(shown.String())
	}
}

func TestTheDemonstrationFailsWhereAJobDoes(t *testing.T) {
	for sentence, c := range map[string]struct{ answer, want string }{
		"a job that ends otherwise": {`{"id":"job_0123456789","status":"failed","model":"sim-video"}`, "the job of sim-video is failed, not succeeded"},
		"a job that does not end":   {`{"id":"job_0123456789","status":"running","model":"sim-video"}`, "the jobs did not end in time"},
		"no job":                    {`{"error":{}}`, "the job job_0123456789 is answered with 200"},
	} {
		t.Run(sentence, func(t *testing.T) {
			gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.answer) }))
			defer gateway.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			p := &performance{out: io.Discard, url: gateway.URL}
			err := p.watch(ctx, []media.View{{ID: "job_0123456789"}}, []media.State{media.Succeeded})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}
