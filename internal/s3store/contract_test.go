package s3store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"

	"spillway/internal/provider/wire"
	"spillway/internal/s3store"
	"spillway/internal/storetest"
)

func client(endpoint string) *s3.Client {
	return s3store.New(aws.Config{Region: "eu-central-1", BaseEndpoint: &endpoint, HTTPClient: &http.Client{Transport: &wire.Client{}},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test", SessionToken: "test"}, nil
		})})
}

// create makes a bucket of its own for one test: servers may share state.
func create(t *testing.T, api *s3.Client) (name string) {
	t.Helper()
	name = fmt.Sprintf("test-%016x", rand.Uint64())
	_, err := api.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name,
		CreateBucketConfiguration: &types.CreateBucketConfiguration{LocationConstraint: types.BucketLocationConstraintEuCentral1}})
	require.NoError(t, err)
	return name
}

func TestObjects(t *testing.T) {
	backends(t, func(t *testing.T, endpoint string) {
		api := client(endpoint)
		storetest.Objects(t, &s3store.Objects{API: api, Bucket: create(t, api)})
	})
}

// TestWorks runs where TestObjects does.
func TestWorks(t *testing.T) {
	backends(t, func(t *testing.T, endpoint string) {
		api := client(endpoint)
		bucket := create(t, api)
		storetest.Works(t, s3store.NewWorks(api, bucket), storetest.WorksBackend{
			Left: func(t *testing.T) (left []string) {
				t.Helper()
				out, err := api.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: &bucket})
				require.NoError(t, err)
				for _, u := range out.Uploads {
					left = append(left, *u.Key)
				}
				return left
			},
			Blind: isMoto(t, endpoint),
		})
	})
}

// embedded is the one emulator of this process: they share what is behind them, and making another is a race with what the
// first still does in the background.
var embedded = sync.OnceValue(kumo.NewServer)

// backends runs a test against the embedded emulator always, and against what AWS_ENDPOINT_URL names (`make test-aws`).
func backends(t *testing.T, test func(t *testing.T, endpoint string)) {
	t.Helper()
	t.Run("kumo", func(t *testing.T) {
		test(t, embedded().URL)
	})
	t.Run("endpoint", func(t *testing.T) {
		endpoint := os.Getenv("AWS_ENDPOINT_URL")
		if endpoint == "" {
			t.Skip("AWS_ENDPOINT_URL names no endpoint; `make test-aws` sets it")
		}
		test(t, endpoint)
	})
}

// isMoto: moto serves whoever names an object, and as it was put, whatever a link says (5.2.1).
func isMoto(t *testing.T, endpoint string) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, endpoint+"/moto-api/", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
