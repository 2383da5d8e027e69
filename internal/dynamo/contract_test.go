package dynamo_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"

	"spillway/internal/dynamo"
	"spillway/internal/ledger"
	"spillway/internal/provider/wire"
	"spillway/internal/storetest"
	"spillway/internal/trace"
)

// embedded is one emulator for all tests of the process: two share what they hold, and race for it. It ends with the process.
var embedded = sync.OnceValue(kumo.NewServer)

// backends are the tables that the suites run against: the embedded emulator always, and whatever AWS_ENDPOINT_URL names
// (`make test-aws`; CI names moto, which is strict about expressions and sizes).
func backends(t *testing.T, test func(t *testing.T, api *sdk.Client)) {
	t.Run("kumo", func(t *testing.T) {
		test(t, dynamo.New(config(embedded().URL)))
	})
	t.Run("endpoint", func(t *testing.T) {
		endpoint := os.Getenv("AWS_ENDPOINT_URL")
		if endpoint == "" {
			t.Skip("AWS_ENDPOINT_URL names no endpoint; `make test-aws` sets it")
		}
		test(t, dynamo.New(config(endpoint)))
	})
}

func config(endpoint string) aws.Config {
	return aws.Config{Region: "eu-central-1", BaseEndpoint: &endpoint, HTTPClient: &http.Client{Transport: &wire.Client{}},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		})}
}

// table makes a table of its own for one test: servers may share state.
func table(t *testing.T, api *sdk.Client) string {
	t.Helper()
	name := fmt.Sprintf("test-%016x", rand.Uint64())
	_, err := api.CreateTable(t.Context(), &sdk.CreateTableInput{TableName: &name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}}})
	require.NoError(t, err)
	require.NoError(t, sdk.NewTableExistsWaiter(api).Wait(t.Context(), &sdk.DescribeTableInput{TableName: &name}, 30*time.Second))
	t.Cleanup(func() { _, _ = api.DeleteTable(context.Background(), &sdk.DeleteTableInput{TableName: &name}) })
	return name
}

func TestIdempotency(t *testing.T) {
	backends(t, func(t *testing.T, api *sdk.Client) {
		storetest.Idempotency(t, &dynamo.Idempotency{API: api, Table: table(t, api)})
	})
}

func TestHealth(t *testing.T) {
	backends(t, func(t *testing.T, api *sdk.Client) {
		storetest.Circuits(t, &dynamo.Health{API: api, Table: table(t, api)})
	})
}

func TestLedger(t *testing.T) {
	backends(t, func(t *testing.T, api *sdk.Client) {
		storetest.Ledger(t, &dynamo.Ledger{API: api, Table: table(t, api)})
	})
}

func TestTraces(t *testing.T) {
	backends(t, func(t *testing.T, api *sdk.Client) {
		storetest.Traces(t, &dynamo.Traces{API: api, Table: table(t, api)})
	})
}

// TestTracesAndTheLedgerShareATable: as they do in the template.
func TestTracesAndTheLedgerShareATable(t *testing.T) {
	backends(t, func(t *testing.T, api *sdk.Client) {
		name := table(t, api)
		storetest.Traces(t, &dynamo.Traces{API: api, Table: name})
		k := ledger.Key{Organization: "acme", Key: "same"}
		traces, entries := &dynamo.Traces{API: api, Table: name}, &dynamo.Ledger{API: api, Table: name}
		require.NoError(t, traces.Put(t.Context(), "acme", trace.Trace{RequestID: "same"}.Sealed()))
		_, err := ledger.Say(t.Context(), entries, k, ledger.Said{State: ledger.Started, Owner: "o", Token: "1"}, time.Now())
		require.NoError(t, err)
		there, err := traces.Get(t.Context(), trace.Key{Organization: "acme", RequestID: "same"})
		require.NoError(t, err)
		require.NotNil(t, there)
	})
}

// jobsTable makes a table with the indexes of the jobs.
func jobsTable(t *testing.T, api *sdk.Client) string {
	t.Helper()
	name := fmt.Sprintf("test-%016x", rand.Uint64())
	index := func(name, hash, sort string) types.GlobalSecondaryIndex {
		return types.GlobalSecondaryIndex{IndexName: &name, Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
			KeySchema: []types.KeySchemaElement{{AttributeName: &hash, KeyType: types.KeyTypeHash}, {AttributeName: &sort, KeyType: types.KeyTypeRange}}}
	}
	var attributes []types.AttributeDefinition
	for name, kind := range map[string]types.ScalarAttributeType{"id": "S", "organization": "S", "list_place": "S", "status": "S", "updated_at": "S", "due": "S", "look_at": "N"} {
		attributes = append(attributes, types.AttributeDefinition{AttributeName: &name, AttributeType: kind})
	}
	_, err := api.CreateTable(t.Context(), &sdk.CreateTableInput{TableName: &name, BillingMode: types.BillingModePayPerRequest, AttributeDefinitions: attributes,
		KeySchema:              []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{index("by-organization", "organization", "list_place"), index("by-status", "status", "updated_at"), index("due", "due", "look_at")}})
	require.NoError(t, err)
	require.NoError(t, sdk.NewTableExistsWaiter(api).Wait(t.Context(), &sdk.DescribeTableInput{TableName: &name}, 30*time.Second))
	t.Cleanup(func() { _, _ = api.DeleteTable(context.Background(), &sdk.DeleteTableInput{TableName: &name}) })
	return name
}

func TestJobs(t *testing.T) {
	backends(t, func(t *testing.T, api *sdk.Client) {
		storetest.Jobs(t, &dynamo.Jobs{API: api, Table: jobsTable(t, api)})
	})
}
