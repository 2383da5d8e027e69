// Package s3store keeps what is too large for a table in one S3 bucket.
package s3store

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"spillway/internal/idempotency"
)

// API is the part of S3 that is used.
type API interface {
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error)
}

// New makes a client that makes each call once. An endpoint of its own, which only development has, is addressed by path: its
// host has no name for each bucket.
func New(c aws.Config) *s3.Client {
	return s3.NewFromConfig(c, func(o *s3.Options) {
		o.Retryer = aws.NopRetryer{}
		o.UsePathStyle = c.BaseEndpoint != nil
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	})
}

// Objects is an idempotency.Objects in a bucket. Objects are private and encrypted by the bucket's default; its lifecycle
// removes them after their retention.
type Objects struct {
	API    API
	Bucket string
}

var _ idempotency.Objects = (*Objects)(nil)

// Put implements idempotency.Objects. S3 shows an object to every reader once the write has returned
// (https://aws.amazon.com/s3/consistency/, 2026-11-30).
func (o *Objects) Put(ctx context.Context, name, contentType string, body []byte) error {
	_, err := o.API.PutObject(ctx, &s3.PutObjectInput{Bucket: &o.Bucket, Key: &name, ContentType: &contentType, Body: bytes.NewReader(body),
		ContentLength: aws.Int64(int64(len(body)))})
	if err != nil {
		return fmt.Errorf("putting an object: %w", err)
	}
	return nil
}

// Get implements idempotency.Objects.
func (o *Objects) Get(ctx context.Context, name string, limit int64) ([]byte, error) {
	out, err := o.API.GetObject(ctx, &s3.GetObjectInput{Bucket: &o.Bucket, Key: &name})
	if err != nil {
		return nil, fmt.Errorf("getting an object: %w", err)
	}
	defer func() { _ = out.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(out.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading an object: %w", err)
	}
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("reading an object: it is larger than %d bytes", limit)
	}
	return body, nil
}
