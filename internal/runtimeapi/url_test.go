//go:build linux

package runtimeapi_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
)

// eventOf sends a request to a function that answers the event it gets.
func (s stack) eventOf(t *testing.T, r *http.Request) (events.LambdaFunctionURLRequest, map[string]any) {
	t.Helper()
	resp, err := http.DefaultClient.Do(r)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	equal(t, 200, resp.StatusCode, string(body))
	var event events.LambdaFunctionURLRequest
	must(t, json.Unmarshal(body, &event))
	var all map[string]any
	must(t, json.Unmarshal(body, &all))
	return event, all
}

func TestTheEventOfARequest(t *testing.T) {
	s := start(t, streaming())
	r, err := http.NewRequest("PUT", s.url+"/a%2Fb/%C3%BC?q=1&q=a%20b&empty", strings.NewReader(`{"<":"&"}`))
	must(t, err)
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	r.Header.Add("X-Many", "one")
	r.Header.Add("X-Many", "two")
	r.Header.Set("Cookie", "foo=bar; hello=w=1")
	r.Header.Set("User-Agent", "tester/1")
	r.Header.Set("Connection", "keep-alive")
	event, all := s.eventOf(t, r)

	equal(t, "2.0", event.Version)
	equal(t, "/a%2Fb/%C3%BC", event.RawPath, "escaped as received")
	equal(t, "q=1&q=a%20b&empty", event.RawQueryString)
	equal(t, map[string]string{"q": "1,a b", "empty": ""}, event.QueryStringParameters)
	equal(t, []string{"foo=bar", "hello=w=1"}, event.Cookies)
	equal(t, `{"<":"&"}`, event.Body)
	check(t, !event.IsBase64Encoded, "base64 without need")

	equal(t, "one,two", event.Headers["x-many"])
	equal(t, "foo=bar; hello=w=1", event.Headers["cookie"], "cookies are in the header too")
	equal(t, "application/json; charset=utf-8", event.Headers["content-type"])
	equal(t, "9", event.Headers["content-length"])
	equal(t, strings.TrimPrefix(s.url, "http://"), event.Headers["host"])
	equal(t, "127.0.0.1", event.Headers["x-forwarded-for"])
	equal(t, "http", event.Headers["x-forwarded-proto"])
	check(t, event.Headers["x-forwarded-port"] != "", "no port")
	equal(t, "", event.Headers["connection"])
	for name := range event.Headers {
		equal(t, strings.ToLower(name), name)
	}

	equal(t, events.LambdaFunctionURLRequestContextHTTPDescription{
		Method: "PUT", Path: "/a%2Fb/%C3%BC", Protocol: "HTTP/1.1", SourceIP: "127.0.0.1", UserAgent: "tester/1",
	}, event.RequestContext.HTTP)
	equal(t, "$default", all["routeKey"])
	check(t, event.RequestContext.RequestID != "", "no request id")
	check(t, event.RequestContext.TimeEpoch != 0, "no time")
}

func TestWhichBodiesAreBase64(t *testing.T) {
	s := start(t, streaming())
	tests := map[string]struct {
		contentType string
		plain       bool
	}{
		"JSON":                     {"application/json", true},
		"JSON of a kind":           {"application/problem+json", false},
		"XML":                      {"application/xml", true},
		"XML of a kind":            {"application/soap+xml; charset=utf-8", false},
		"JavaScript":               {"application/javascript", true},
		"any text":                 {"text/csv", true},
		"in capitals":              {"Application/JSON", true},
		"no type":                  {"", false},
		"a type that is not one":   {"json", false},
		"an upload":                {"multipart/form-data; boundary=x", false},
		"a form":                   {"application/x-www-form-urlencoded", false},
		"bytes":                    {"application/octet-stream", false},
		"a type that ends in json": {"application/notjson", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			body := []byte("{}")
			if !test.plain {
				body = []byte{0, 0xff, '{', 0x80}
			}
			r, err := http.NewRequest("POST", s.url, bytes.NewReader(body))
			must(t, err)
			if test.contentType != "" {
				r.Header.Set("Content-Type", test.contentType)
			}
			event, _ := s.eventOf(t, r)
			equal(t, !test.plain, event.IsBase64Encoded)
			got := []byte(event.Body)
			if event.IsBase64Encoded {
				got, err = base64.StdEncoding.DecodeString(event.Body)
				must(t, err)
			}
			equal(t, body, got)
		})
	}
	t.Run("an empty body is not", func(t *testing.T) {
		r, err := http.NewRequest("GET", s.url, nil)
		must(t, err)
		event, all := s.eventOf(t, r)
		check(t, !event.IsBase64Encoded, "base64 without need")
		equal(t, nil, all["body"])
		equal(t, "/", event.RawPath)
	})
}

func TestTheEventIsLimitedTo6MB(t *testing.T) {
	s := start(t, raw("plain"))
	tests := map[string]struct {
		contentType string
		size        int
		status      int
	}{
		"text below the limit":          {"text/plain", 6_200_000, 200},
		"text above the limit":          {"text/plain", 6<<20 - 10, 413},
		"a body above the limit":        {"text/plain", 6<<20 + 1, 413},
		"bytes that fit in base64":      {"application/octet-stream", 4_700_000, 200},
		"bytes that base64 makes large": {"application/octet-stream", 4_720_000, 413},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, known := range []bool{true, false} {
				var body io.Reader = strings.NewReader(strings.Repeat("x", test.size))
				if !known {
					body = io.MultiReader(body) // chunked
				}
				resp, err := http.Post(s.url, test.contentType, body)
				must(t, err)
				answer, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				must(t, err)
				equal(t, test.status, resp.StatusCode)
				if test.status == 413 {
					equal(t, "RequestTooLargeException", resp.Header.Get("X-Amzn-Errortype"))
					equalJSON(t, `{"Type":"User","message":"Request must be smaller than 6291456 bytes for the InvokeFunction operation"}`, string(answer))
				}
			}
		})
	}
}

func TestABufferedURL(t *testing.T) {
	s := start(t, buffered())
	tests := map[string]struct {
		answer      string
		status      int
		contentType string
		body        string
	}{
		"a response":                         {`{"statusCode":201,"headers":{"content-type":"text/x","x-a":"1"},"cookies":["c=1","d=2"],"body":"made"}`, 201, "text/x", "made"},
		"a response in base64":               {`{"statusCode":200,"headers":{"content-type":"image/png"},"body":"AP+A","isBase64Encoded":true}`, 200, "image/png", "\x00\xff\x80"},
		"a response without a type":          {`{"statusCode":404,"body":"{}"}`, 404, "application/json", "{}"},
		"an object without a status":         {`{"message":"hi"}`, 200, "application/json", `{"message":"hi"}`},
		"a string":                           {`"hi"`, 200, "application/json", `"hi"`},
		"nothing":                            {`null`, 200, "application/json", `null`},
		"a status that is not one":           {`{"statusCode":99}`, 502, "application/json", `{"message":"Internal Server Error"}` + "\n"},
		"a status that is no number":         {`{"statusCode":"ok"}`, 502, "application/json", `{"message":"Internal Server Error"}` + "\n"},
		"a body that is not the base64 said": {`{"statusCode":200,"body":"!","isBase64Encoded":true}`, 502, "application/json", `{"message":"Internal Server Error"}` + "\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			resp, err := http.Post(s.url, "application/json", strings.NewReader(`{"answer":`+test.answer+`}`))
			must(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			must(t, err)
			equal(t, test.status, resp.StatusCode)
			equal(t, test.contentType, resp.Header.Get("Content-Type"))
			equal(t, test.body, string(body))
			if test.status == 201 {
				equal(t, []string{"c=1", "d=2"}, resp.Header.Values("Set-Cookie"))
				equal(t, "1", resp.Header.Get("X-A"))
			}
		})
	}
	equal(t, 1, s.Boots())
}

func TestStreamsOfOtherRuntimes(t *testing.T) {
	tests := map[string]struct {
		behaviour   string
		status      int
		contentType string
		body        string
	}{
		"a prelude in single bytes, zero bytes in the body": {"byte by byte", 201, "application/octet-stream", "a\x00\x00b"},
		"the response mode is named":                        {"say streaming", 202, "application/octet-stream", "streamed"},
		"no integration response":                           {"plain", 200, "text/x-plain", "just bytes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := start(t, raw(test.behaviour))
			resp := s.get(t, "/")
			body, err := io.ReadAll(resp.Body)
			must(t, err)
			equal(t, test.status, resp.StatusCode)
			equal(t, test.contentType, resp.Header.Get("Content-Type"))
			equal(t, test.body, string(body))
		})
	}
}

func TestWrongCallsOfTheRuntimeAPI(t *testing.T) {
	s := start(t, raw("break the protocol"))
	first, err := s.Invoke(t.Context(), []byte(`{}`))
	must(t, err)
	equal(t, `"first"`, string(first))
	second, err := s.Invoke(t.Context(), []byte(`{}`))
	must(t, err)
	var calls []string
	must(t, json.Unmarshal(second, &calls))
	equal(t, []string{
		"a response before any event: 400",
		"an init error after init: 403",
		"another id: 400",
		"an odd response mode: 400",
		"an unknown path: 404",
		"next without an answer: the same event",
		"the response: 202",
		"a second response: 403",
		"an error after the response: 403",
		"a late extension: 403",
		"a response to the event before: 400",
	}, calls)
	equal(t, 1, s.Boots())
}

func TestTheEnvironmentOfAFunction(t *testing.T) {
	t.Setenv("SECRET_OF_THE_PARENT", "1")
	fn := streaming()
	fn.Name, fn.MemoryMB, fn.Dir = "named", 512, t.TempDir()
	fn.Env = []string{"MINE=1", "AWS_REGION=eu-west-1"}
	s := start(t, fn)
	_, body, err := s.fetch(t, "/environ")
	must(t, err)
	environ := map[string]string{}
	for line := range strings.Lines(body) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		environ[name] = value
	}
	for name, value := range map[string]string{
		"_HANDLER":                        "bootstrap",
		"LAMBDA_TASK_ROOT":                fn.Dir,
		"AWS_LAMBDA_FUNCTION_NAME":        "named",
		"AWS_LAMBDA_FUNCTION_VERSION":     "$LATEST",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
		"AWS_LAMBDA_LOG_GROUP_NAME":       "/aws/lambda/named",
		"AWS_REGION":                      "eu-west-1",
		"MINE":                            "1",
	} {
		equal(t, value, environ[name], name)
	}
	for _, name := range []string{"AWS_LAMBDA_RUNTIME_API", "AWS_LAMBDA_LOG_STREAM_NAME", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
		check(t, environ[name] != "", "not set: "+name)
	}
	for _, name := range []string{"SECRET_OF_THE_PARENT", "HOME"} {
		equal(t, "", environ[name], name)
	}
}
