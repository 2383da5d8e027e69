package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"spillway/functions/internal/graph"
	"spillway/internal/dynamo"
	"spillway/internal/redact"
	"spillway/internal/settings"
)

// TestEnvironmentsShareTracesAndToolCalls: two gateways with one table, as two environments have it. What became of a
// request of one is read from the other, and a tool call that was started with one is taken for the other.
func TestEnvironmentsShareTracesAndToolCalls(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }))
	t.Cleanup(upstream.Close)
	cloud := kumo.NewServer()
	t.Cleanup(cloud.Close)
	state := &settings.State{IdempotencyTable: "idempotency", HealthTable: "health", RequestsTable: "requests", ResultsBucket: "results", Region: "eu-central-1",
		AccessKey: "test", SecretKey: redact.NewSecret("test"), DynamoDB: cloud.URL, S3: cloud.URL}
	for _, name := range []string{state.IdempotencyTable, state.HealthTable, state.RequestsTable} {
		_, err := dynamo.New(graph.AWS(state, state.DynamoDB)).CreateTable(t.Context(), &dynamodb.CreateTableInput{TableName: &name, BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}}})
		require.NoError(t, err)
	}
	config := fmt.Sprintf(`{"version":"v","providers":[{"name":"acme","kind":"openai","base_url":%q}],
		"channels":[{"provider":"acme","models":["up-1"],"credentials":[{"alias":"a","secret":"env:KEY"}]}],
		"organizations":[{"name":"o","models":["*"]}],"keys":[{"sha256":"%x","organization":"o","permissions":["trace"]}]}`, upstream.URL+"/v1", sha256.Sum256([]byte("sk-client")))
	environment := func() func(method, path, body string) *httptest.ResponseRecorder {
		h, err := wire(settings.Settings{State: state}, func(string) string { return "secret" }, func(string) ([]byte, error) { return []byte(config), nil }, io.Discard)
		require.NoError(t, err)
		return func(method, path, body string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer sk-client")
			r.Header.Set("X-Request-Id", "app-1")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
	}
	one, other := environment(), environment()

	require.Equal(t, http.StatusBadGateway, one(http.MethodPost, "/v1/chat/completions", `{"model":"up-1","messages":[{"role":"user","content":"x"}]}`).Code)
	got := other(http.MethodGet, "/v1/requests/app-1", "")
	require.Equal(t, http.StatusOK, got.Code, got.Body)
	assert.Equal(t, "invalid_request", gjson.Get(got.Body.String(), "attempts.0.class").Str)

	const call = "/v1/tool-calls/tool:send:app-1:1"
	assert.Equal(t, http.StatusCreated, one(http.MethodPut, call, `{"state":"started","owner":"o1"}`).Code)
	assert.Equal(t, http.StatusConflict, other(http.MethodPut, call, `{"state":"started","owner":"o2"}`).Code)
	assert.Equal(t, http.StatusOK, one(http.MethodPut, call, `{"state":"succeeded","owner":"o1","result":{"sent":1}}`).Code)
	got = other(http.MethodPut, call, `{"state":"started","owner":"o2"}`)
	assert.Equal(t, http.StatusOK, got.Code)
	assert.Equal(t, "true", got.Header().Get("Idempotent-Replayed"))
	assert.JSONEq(t, `{"sent":1}`, gjson.Get(got.Body.String(), "result").Raw)
}
