package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/breaker"
	"spillway/internal/dynamo"
	"spillway/internal/fault"
)

// environment is what the command reads, with a table of its own at AWS_ENDPOINT_URL (`make test-aws`) or in an emulator.
func environment(t *testing.T) (getenv func(string) string, store *dynamo.Health) {
	t.Helper()
	endpoint := os.Getenv("AWS_ENDPOINT_URL")
	if endpoint == "" {
		server := kumo.NewServer()
		t.Cleanup(server.Close)
		endpoint = server.URL
	}
	set := map[string]string{"AWS_ENDPOINT_URL": endpoint, "AWS_DEFAULT_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
	getenv = func(name string) string { return set[name] }
	config, err := awsConfig(getenv)
	require.NoError(t, err)
	api := dynamo.New(config)
	_, err = api.CreateTable(t.Context(), &sdk.CreateTableInput{TableName: aws.String("circuit-test"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}}})
	require.NoError(t, err)
	require.NoError(t, sdk.NewTableExistsWaiter(api).Wait(t.Context(), &sdk.DescribeTableInput{TableName: aws.String("circuit-test")}, 30*time.Second))
	t.Cleanup(func() {
		_, _ = api.DeleteTable(context.Background(), &sdk.DeleteTableInput{TableName: aws.String("circuit-test")})
	})
	return getenv, &dynamo.Health{API: api, Table: "circuit-test"}
}

var key = breaker.Key{Provider: "openrouter", Model: "meta/llama", Credential: "main"}

// TestOrders: what an operator sees, and what an environment that reads the table makes of each order.
func TestOrders(t *testing.T) {
	getenv, store := environment(t)
	now := time.Now()
	give := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), append([]string{"-table", "circuit-test"}, args...), getenv, now, &out))
		return out.String()
	}
	there := func() breaker.Entry {
		t.Helper()
		s, err := store.Snapshot(t.Context())
		require.NoError(t, err)
		return s[key.String()]
	}
	fleet := &breaker.Fleet{Store: store, Wait: time.Second}
	look := func() breaker.View {
		now = now.Add(2 * breaker.SnapshotFresh)
		v := fleet.Begin(t.Context(), now)
		defer v.End()
		v.Ready()
		return v.Look(now, []breaker.Key{key})[0]
	}

	assert.Contains(t, give("show"), "nothing: what is not shown is closed")
	require.Equal(t, breaker.OK, look().Reason)

	said := give("open", key.String(), "30m")
	assert.Contains(t, said, "openrouter/meta/llama//main: closed to open")
	assert.Regexp(t, `openrouter/meta/llama//main +open +0s ago +1 +- +a probe in 30m0s +-`, said)
	assert.Equal(t, breaker.Open, there().Circuit.State)
	assert.Equal(t, breaker.IsOpen, look().Reason)

	assert.Regexp(t, `passed over for 2h0m0s`, give("hold", key.String(), "2h"))
	assert.Equal(t, now.Add(2*time.Hour).UTC().Round(time.Second), there().Holds.ThrottledUntil.UTC().Round(time.Second))

	assert.Contains(t, give("reset", key.String()), "open to closed")
	assert.Equal(t, breaker.Closed, there().Circuit.State)
	assert.True(t, there().Holds.None(now))
	assert.Equal(t, breaker.OK, look().Reason)
	assert.Contains(t, give("show"), "nothing: ")
	assert.Contains(t, give("show", key.String()), "closed", "a key that is named is shown also when it is plainly closed")
}

func TestShowSaysWhatComesNext(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for sentence, c := range map[string]struct {
		entry breaker.Entry
		want  string
	}{
		"an open circuit whose time has passed": {breaker.Entry{Circuit: breaker.Circuit{State: breaker.Open, OpenedAt: now.Add(-time.Minute), Until: now, Opens: 2, Class: fault.ServerError}},
			`a/b/c/d +open +1m0s ago +2 +server_error +a probe is due +-`},
		"a probe on its way": {breaker.Entry{Circuit: breaker.Circuit{State: breaker.HalfOpen, Passed: 1, Lease: breaker.Lease{Number: 7, Until: now.Add(9 * time.Second)}}},
			`half_open +- +0 +- +a probe is on its way, 9s left; 1 passed +-`},
		"a lease that has lapsed": {breaker.Entry{Circuit: breaker.Circuit{State: breaker.HalfOpen, Lease: breaker.Lease{Number: 7, Until: now}}},
			`half_open .*a probe is due; 0 passed`},
		"a watched circuit": {breaker.Entry{Circuit: breaker.Circuit{WatchUntil: now.Add(time.Minute)}}, `closed .*watched for 1m0s`},
		"both holds": {breaker.Entry{Holds: breaker.Holds{ThrottledUntil: now.Add(time.Minute),
			Remembered: breaker.Remembered{Class: fault.Quota, Status: 429, Until: now.Add(time.Hour)}}},
			`closed .*passed over for 1m0s; answered from memory for 1h0m0s: quota, status 429`},
	} {
		t.Run(sentence, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, show(&out, breaker.Snapshot{"a/b/c/d": c.entry}, "", now))
			assert.Regexp(t, c.want, out.String())
		})
	}
}

func TestWhatIsAskedWrongly(t *testing.T) {
	for sentence, c := range map[string]struct {
		args []string
		want string
	}{
		"no table":                 {[]string{"show"}, "-table is missing"},
		"no word":                  {[]string{"-table", "t"}, `"" is none of show, open, hold and reset`},
		"another word":             {[]string{"-table", "t", "close", "a/b//c"}, `"close" is none of`},
		"an order without its key": {[]string{"-table", "t", "reset"}, "reset takes other arguments"},
		"an opening for ever":      {[]string{"-table", "t", "open", "a/b//c"}, "open takes other arguments"},
		"a reset for some time":    {[]string{"-table", "t", "reset", "a/b//c", "30m"}, "reset takes other arguments"},
		"half a key":               {[]string{"-table", "t", "reset", "a/b"}, `"a/b" is not provider/model/region/credential`},
		"a number without a unit":  {[]string{"-table", "t", "hold", "a/b//c", "30"}, `"30" is no duration`},
		"longer than a day":        {[]string{"-table", "t", "hold", "a/b//c", "25h"}, `"25h" is no duration between 0 and 24h`},
		"back in time":             {[]string{"-table", "t", "hold", "a/b//c", "-1m"}, `is no duration`},
		"no region":                {[]string{"-table", "t", "show"}, "AWS_REGION is not set"},
	} {
		t.Run(sentence, func(t *testing.T) {
			err := run(t.Context(), c.args, func(string) string { return "" }, time.Now(), new(bytes.Buffer))
			assert.ErrorContains(t, err, c.want)
		})
	}
	_, err := parse([]string{"-h"}, new(bytes.Buffer))
	require.ErrorIs(t, err, flag.ErrHelp)
	_, err = awsConfig(func(name string) string { return map[string]string{"AWS_REGION": "r"}[name] })
	assert.ErrorContains(t, err, "export-credentials")
}

func TestAKeyHasItsOwnForm(t *testing.T) {
	for _, k := range []breaker.Key{key, {Provider: "sim", Model: "sim-f04", Credential: "sim-1"}, {Provider: "p", Model: "m", Region: "eu", Credential: ""}} {
		got, err := parseKey(k.String())
		require.NoError(t, err)
		assert.Equal(t, k, got)
	}
}
