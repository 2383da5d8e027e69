package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"spillway/internal/catalog/source"
	"spillway/internal/edge"
	"spillway/internal/settings"
	"spillway/internal/simulate"
)

const eventFolder = "../../events"

// answers are the events of the folder, and how the gateway with the sample configuration and the simulated provider
// answers each of them, whoever hands it over.
var answers = map[string]func(*testing.T, answer){
	"chat.json":        wholeChat,
	"chat-base64.json": wholeChat,
	"chat-stream.json": func(t *testing.T, a answer) {
		assert.Equal(t, http.StatusOK, a.status)
		assert.Equal(t, "text/event-stream", a.mediaType())
		assert.Equal(t, "true", a.header.Get("X-LLM-Fallback"))
		assert.Equal(t, "3", a.header.Get("X-LLM-Attempts"), "two that failed and the one that answers")
		assert.Equal(t, "sim-ok", a.header.Get("X-LLM-Model"))
		chunks, whole := strings.CutSuffix(a.body, "data: [DONE]\n\n")
		assert.True(t, whole, "the stream ends with %q", a.body[max(0, len(a.body)-80):])
		var text strings.Builder
		usages := 0
		for line := range strings.Lines(chunks) {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				text.WriteString(gjson.Get(data, "choices.0.delta.content").String())
				if gjson.Get(data, "usage.total_tokens").Int() > 0 {
					usages++
				}
			}
		}
		assert.Equal(t, strings.Join(simulate.Tokens(), ""), text.String())
		assert.Equal(t, 1, usages)
	},
	"healthz.json": func(t *testing.T, a answer) {
		assert.Equal(t, http.StatusOK, a.status)
		assert.Equal(t, "application/json", a.mediaType())
		assert.Equal(t, "ok", gjson.Get(a.body, "status").String(), a.body)
	},
	"garbage.json": func(t *testing.T, a answer) {
		assert.Equal(t, http.StatusBadRequest, a.status)
		assert.Equal(t, "application/json", a.mediaType())
		assert.Equal(t, "false", a.header.Get("X-Should-Retry"))
		assert.True(t, gjson.Valid(a.body), a.body)
		assert.Equal(t, "validation_failed", gjson.Get(a.body, "error.code").String())
		assert.NotContains(t, a.body, "PNG")
	},
}

func wholeChat(t *testing.T, a answer) {
	assert.Equal(t, http.StatusOK, a.status)
	assert.Equal(t, "application/json", a.mediaType())
	assert.Equal(t, "1", a.header.Get("X-LLM-Attempts"))
	assert.Equal(t, "false", a.header.Get("X-LLM-Fallback"))
	assert.Equal(t, strings.Join(simulate.Tokens(), ""), gjson.Get(a.body, "choices.0.message.content").String())
	assert.Positive(t, gjson.Get(a.body, "usage.total_tokens").Int())
}

// answer is what a function URL makes of what a streaming function sends.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) mediaType() string {
	before, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	return before
}

// readAnswer takes a streamed answer apart: the prelude as JSON, eight NUL bytes, the body.
func readAnswer(t *testing.T, raw []byte) answer {
	t.Helper()
	prelude, body, separated := bytes.Cut(raw, make([]byte, 8))
	require.True(t, separated, "no separator in %q", raw)
	var head struct {
		StatusCode int               `json:"statusCode"`
		Headers    map[string]string `json:"headers"`
		Cookies    []string          `json:"cookies"`
	}
	decodeStrictly(t, prelude, &head)
	require.NotEmpty(t, body, "a stream without a body hangs clients")
	a := answer{head.StatusCode, http.Header{}, string(body)}
	for name, value := range head.Headers {
		a.header.Set(name, value)
	}
	assert.NotEmpty(t, a.header.Get("X-Request-Id"))
	return a
}

func decodeStrictly(t *testing.T, text []byte, into any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(into), "%s", text)
	_, err := decoder.Token()
	require.ErrorIs(t, err, io.EOF, "something follows the JSON")
}

func readEvent(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(eventFolder, name))
	require.NoError(t, err)
	return text
}

// sampleConfiguration is the sample configuration as JSON.
func sampleConfiguration(t *testing.T) []byte {
	t.Helper()
	configuration, err := source.Read("../../infra/gateway.yaml")
	require.NoError(t, err)
	return configuration
}

// startProvider serves the simulated provider until the end of the test and returns its base URL.
func startProvider(t *testing.T) string {
	t.Helper()
	provider := simulate.New(simulate.Gap(time.Millisecond))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- provider.Serve(listener) }()
	t.Cleanup(func() {
		require.NoError(t, provider.Close())
		require.NoError(t, <-served)
	})
	return "http://" + listener.Addr().String() + "/v1"
}

func TestEveryEventIsAnswered(t *testing.T) {
	environment := map[string]string{
		settings.Config: "gateway.json", settings.Simulator: startProvider(t), "SIM_KEY": "any",
		"AWS_LAMBDA_RUNTIME_API": "none", // the settings are those of a Lambda
	}
	getenv := func(name string) string { return environment[name] }
	s, err := settings.Load(getenv)
	require.NoError(t, err)
	handler, err := wire(s, getenv, func(string) ([]byte, error) { return sampleConfiguration(t), nil }, io.Discard)
	require.NoError(t, err)
	lambda := edge.Lambda(handler, edge.LambdaOptions{})

	files, err := filepath.Glob(filepath.Join(eventFolder, "*.json"))
	require.NoError(t, err)
	var names []string
	for _, file := range files {
		names = append(names, filepath.Base(file))
	}
	require.Equal(t, slices.Sorted(maps.Keys(answers)), names)
	for name, check := range answers {
		t.Run(name, func(t *testing.T) {
			var event events.LambdaFunctionURLRequest
			require.NoError(t, json.Unmarshal(readEvent(t, name), &event))
			response, err := lambda(context.Background(), &event)
			require.NoError(t, err)
			raw, err := io.ReadAll(response)
			require.NoError(t, err)
			require.NoError(t, response.Close())
			check(t, readAnswer(t, raw))
		})
	}
}

// recorded is an event with the fields that Lambda sends and the library leaves out.
type recorded struct {
	events.LambdaFunctionURLRequest
	RouteKey       string `json:"routeKey"`
	RequestContext struct {
		events.LambdaFunctionURLRequestContext
		RouteKey string `json:"routeKey"`
		Stage    string `json:"stage"`
	} `json:"requestContext"`
}

// TestEventsAreOfTheRecordedShape also holds them to carry nothing of anybody's account.
func TestEventsAreOfTheRecordedShape(t *testing.T) {
	for name := range answers {
		t.Run(name, func(t *testing.T) {
			text := readEvent(t, name)
			var event recorded
			decodeStrictly(t, text, &event)
			about := event.RequestContext
			assert.Equal(t, []string{"2.0", "$default", "$default", "$default"}, []string{event.Version, event.RouteKey, about.RouteKey, about.Stage})
			assert.Equal(t, event.RawPath, about.HTTP.Path)
			assert.Equal(t, event.Headers["user-agent"], about.HTTP.UserAgent)
			assert.Equal(t, event.Headers["host"], about.DomainName)
			assert.NotEmpty(t, about.RequestID)
			assert.NotZero(t, about.TimeEpoch)
			for header := range event.Headers {
				assert.Equal(t, strings.ToLower(header), header)
			}
			body := []byte(event.Body)
			if event.IsBase64Encoded {
				var err error
				body, err = base64.StdEncoding.DecodeString(event.Body)
				require.NoError(t, err)
			}
			if len(body) > 0 {
				assert.Equal(t, event.Headers["content-length"], strconv.Itoa(len(body)))
			}
			assertNothingPrivate(t, event, string(text)+string(body))
		})
	}
}

// private is what redaction has to replace.
var private = map[string]*regexp.Regexp{
	"an access key id": regexp.MustCompile(`\bA(KIA|SIA|IDA|ROA)[A-Z0-9]{4,}`),
	"an account id":    regexp.MustCompile(`\b\d{12}\b`),
	"an ARN":           regexp.MustCompile(`arn:aws`),
	"a signature":      regexp.MustCompile(`(?i)x-amz-(security-token|date|content-sha256)|AWS4-HMAC`),
	"a provider's key": regexp.MustCompile(`\b(sk|pk|rk)[-_][A-Za-z0-9]`),
	"a token":          regexp.MustCompile(`\beyJ[A-Za-z0-9_-]+\.`),
	"an address":       regexp.MustCompile(`[^\s"]+@[^\s"]+`),
}

func assertNothingPrivate(t *testing.T, event recorded, text string) {
	t.Helper()
	for what, pattern := range private {
		assert.NotRegexp(t, pattern, text, what)
	}
	for _, ip := range regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+\b`).FindAllString(text, -1) {
		assert.Equal(t, "127.0.0.1", ip)
	}
	about := event.RequestContext
	assert.Equal(t, "anonymous", about.AccountID)
	assert.Equal(t, []string{"lambda-url-id", "lambda-url-id"}, []string{about.APIID, about.DomainPrefix})
	assert.Equal(t, "lambda-url-id.lambda-url.us-west-2.on.aws", about.DomainName)
	if key := event.Headers["authorization"]; key != "" {
		assert.Equal(t, "Bearer dev", key, "the key of the sample configuration, good for the simulated provider only")
	}
}
