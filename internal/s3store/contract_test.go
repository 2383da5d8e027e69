package s3store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"

	"spillway/internal/s3store"
	"spillway/internal/storetest"
)

// TestObjects runs against the embedded emulator always, and against what AWS_ENDPOINT_URL names (`make test-aws`).
func TestObjects(t *testing.T) {
	test := func(t *testing.T, endpoint string) {
		api := s3store.New(aws.Config{Region: "eu-central-1", BaseEndpoint: &endpoint, Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		})})
		bucket := fmt.Sprintf("test-%016x", rand.Uint64())
		_, err := api.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &bucket,
			CreateBucketConfiguration: &types.CreateBucketConfiguration{LocationConstraint: types.BucketLocationConstraintEuCentral1}})
		require.NoError(t, err)
		storetest.Objects(t, &s3store.Objects{API: api, Bucket: bucket})
	}
	t.Run("kumo", func(t *testing.T) {
		server := kumo.NewServer()
		t.Cleanup(server.Close)
		test(t, server.URL)
	})
	t.Run("endpoint", func(t *testing.T) {
		endpoint := os.Getenv("AWS_ENDPOINT_URL")
		if endpoint == "" {
			t.Skip("AWS_ENDPOINT_URL names no endpoint; `make test-aws` sets it")
		}
		test(t, endpoint)
	})
}
