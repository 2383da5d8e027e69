//go:build linux

package runtimeapi_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"spillway/internal/runtimeapi"
)

func TestStrictRefusesAndListsWhatLambdaLetsPass(t *testing.T) {
	tests := map[string]struct {
		fn         runtimeapi.Function
		cut        bool // strict cuts the stream; else it is a 502
		violations []string
		lenient    int // status without strictness
	}{
		"an empty body":                         {raw("empty body"), true, []string{"empty body"}, 204},
		"an empty body of another kind":         {raw("empty body of no integration response"), true, []string{"empty body"}, 200},
		"a status that is not final":            {raw("informational status"), false, []string{"informational status: 103"}, 502},
		"headers that belong to the connection": {raw("headers of the connection"), false, []string{"hop-by-hop header: Keep-Alive", "hop-by-hop header: connection"}, 200},
		"a prelude over 16 KB":                  {raw("endless prelude"), false, []string{"prelude over 16 KB"}, 502},
		"a length beside chunks":                {raw("a length"), false, []string{"Content-Length on a stream: 4"}, 200},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := start(t, test.fn, runtimeapi.Strict())
			for i := range 2 { // the environment survives
				status, _, err := s.fetch(t, "/")
				if test.cut {
					equal(t, test.lenient, status)
					if status != http.StatusNoContent { // whose body nobody reads, so that no client can see it missing
						errorIs(t, err, io.ErrUnexpectedEOF)
					}
				} else {
					must(t, err)
					equal(t, 502, status)
				}
				// A client without a body to read may be ahead of the judge.
				eventually(t, "the violations are listed", func() bool { return len(s.Violations()) >= (i+1)*len(test.violations) })
				var found []string
				for _, v := range s.Violations()[i*len(test.violations):] {
					check(t, v.RequestID != "", "no request id")
					found = append(found, v.String())
				}
				equal(t, test.violations, found)
			}
			eventually(t, "the log tells of them", func() bool { return strings.Contains(s.logs.String(), "strict: ["+test.violations[0]) })
			equal(t, 1, s.Boots())

			s = start(t, test.fn)
			status, _, err := s.fetch(t, "/")
			must(t, err)
			equal(t, test.lenient, status)
			equal(t, 0, len(s.Violations()))
		})
	}
}

func TestStrictLetsAGoodAnswerPass(t *testing.T) {
	for name, fn := range map[string]runtimeapi.Function{
		"a stream":                 streaming(),
		"single bytes":             raw("byte by byte"),
		"no integration response":  raw("plain"),
		"an error after its bytes": with(streaming(), func(fn *runtimeapi.Function) { fn.Concurrency = 1 }),
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, fn, runtimeapi.Strict())
			path := "/pid"
			if name == "an error after its bytes" {
				path = "/broken"
			}
			s.get(t, path)
			equal(t, 0, len(s.Violations()), s.Violations())
		})
	}
}

func TestStrictJudgesBufferedAnswersToo(t *testing.T) {
	s := start(t, buffered(), runtimeapi.Strict())
	for answer, status := range map[string]int{
		`{"statusCode":200,"headers":{"content-length":"0"},"body":""}`:        200, // both are right here
		`{"statusCode":200,"headers":{"transfer-encoding":"x"},"body":"body"}`: 502,
		`{"statusCode":100}`: 502,
		`{"any":"thing"}`:    200,
	} {
		resp, err := http.Post(s.url, "application/json", strings.NewReader(`{"answer":`+answer+`}`))
		must(t, err)
		resp.Body.Close()
		equal(t, status, resp.StatusCode, answer)
	}
	found := map[runtimeapi.Rule]int{}
	for _, v := range s.Violations() {
		found[v.Rule]++
	}
	equal(t, map[runtimeapi.Rule]int{runtimeapi.HopByHopHeader: 1, runtimeapi.InformationalStatus: 1}, found)
}
