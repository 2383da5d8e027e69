package graph

import (
	"context"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"

	"spillway/internal/provider/wire"
	"spillway/internal/settings"
)

// AWS is the configuration of a client; an empty endpoint is AWS's own. It is made by hand: the SDK's own loading looks for
// profiles and metadata services, and takes 5 ms and 2 MB for what Lambda puts into the environment.
func AWS(s *settings.State, endpoint string) aws.Config {
	c := aws.Config{Region: s.Region, HTTPClient: &http.Client{Transport: &wire.Client{}},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: s.AccessKey, SecretAccessKey: s.SecretKey.Reveal(), SessionToken: s.SessionToken.Reveal()}, nil
		})}
	if endpoint != "" {
		c.BaseEndpoint = &endpoint
	}
	return c
}
