package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamodbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"spillway/internal/dynamo"
	"spillway/internal/provider/wire"
	"spillway/internal/s3store"
	"spillway/internal/settings"
	"spillway/internal/sqsqueue"
)

// secret is both halves of the credentials that the local Lambda gives a function. They open nothing.
const secret = "local"

// awsPatience bounds the making of all tables, buckets and queues.
const awsPatience = 30 * time.Second

// services are the AWS services that functions call: the embedded emulator, or what another endpoint offers.
type services struct {
	endpoint string
	embedded *emulator // nil: the endpoint is somebody else's
}

// startAWS makes the template's tables, buckets and queues at -aws, or in an emulator in this process, which forgets everything
// when it ends.
func (o options) startAWS(ctx context.Context, d deployment) (*services, error) {
	s := &services{endpoint: o.aws}
	if o.aws == embedded {
		var err error
		if s.embedded, err = startEmulator(); err != nil {
			return nil, err
		}
		s.endpoint = s.embedded.url
	}
	if err := s.create(ctx, d); err != nil {
		s.close()
		return nil, fmt.Errorf("making the tables, buckets and queues at %s (-aws, or AWS_ENDPOINT_URL, chooses another endpoint): %w", s.endpoint, err)
	}
	return s, nil
}

// seed makes the tables, buckets and queues of the template at -aws and says which there are.
func seed(ctx context.Context, o options, stdout, _ io.Writer) error {
	d, err := readDeployment()
	if err != nil {
		return err
	}
	s, err := o.startAWS(ctx, d)
	if err != nil {
		return stopped(ctx, err)
	}
	defer s.close()
	for _, t := range d.tables {
		fmt.Fprintf(stdout, "table  %s at %s\n", t.name, s.endpoint)
	}
	for _, b := range d.buckets {
		fmt.Fprintf(stdout, "bucket %s at %s\n", b.name, s.endpoint)
	}
	for _, q := range d.queues {
		fmt.Fprintf(stdout, "queue  %s at %s\n", q.name, s.endpoint)
	}
	return nil
}

// close must come after the end of what calls s.
func (s *services) close() {
	if s.embedded != nil {
		s.embedded.close()
	}
}

// looks are commands that show what the environments of a function share, as they are pasted into a shell: its circuits, its
// keys, and its media jobs with what the table tells of them.
func (s *services) looks(f function) string {
	at := fmt.Sprintf("AWS_ENDPOINT_URL=%s AWS_DEFAULT_REGION=%s AWS_ACCESS_KEY_ID=%[3]s AWS_SECRET_ACCESS_KEY=%[3]s \\\n  ", s.endpoint, region, secret)
	return at + "go run ./infra/circuit -table " + f.env[settings.HealthTable] + " show\n" +
		at + "aws dynamodb scan --table-name " + f.env[settings.IdempotencyTable] + "\n" +
		at + "aws dynamodb scan --table-name " + f.env[settings.JobsTable] + " --index-name by-status"
}

func (s *services) config() aws.Config {
	return aws.Config{Region: region, BaseEndpoint: &s.endpoint, HTTPClient: &http.Client{Transport: &wire.Client{}},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: secret, SecretAccessKey: secret, SessionToken: secret}, nil
		})}
}

// create makes what is not there yet. What is there is kept as it is, with what it holds.
func (s *services) create(ctx context.Context, d deployment) error {
	ctx, cancel := context.WithTimeout(ctx, awsPatience)
	defer cancel()
	tables, buckets := dynamo.New(s.config()), s3store.New(s.config())
	for _, t := range d.tables {
		if err := t.create(ctx, tables); err != nil {
			return fmt.Errorf("making the table %s: %w", t.name, err)
		}
	}
	for _, b := range d.buckets {
		if err := b.create(ctx, buckets); err != nil {
			return fmt.Errorf("making the bucket %s: %w", b.name, err)
		}
	}
	queues := sqsqueue.New(s.config())
	for _, q := range deadFirst(d.queues) {
		if err := q.create(ctx, queues); err != nil {
			return fmt.Errorf("making the queue %s: %w", q.name, err)
		}
	}
	return nil
}

// deadFirst puts each queue after the one that takes its dead letters, which has none of its own.
func deadFirst(all []queue) []queue {
	return slices.SortedStableFunc(slices.Values(all), func(a, b queue) int { return cmp.Compare(a.dead, b.dead) })
}

func (q queue) create(ctx context.Context, api *sqs.Client) error {
	attributes := map[string]string{"VisibilityTimeout": strconv.Itoa(int(q.visibility / time.Second))}
	if q.dead != "" {
		arn, err := q.deadARN(ctx, api)
		if err != nil {
			return err
		}
		policy, err := json.Marshal(map[string]any{"deadLetterTargetArn": arn, "maxReceiveCount": q.receives})
		if err != nil {
			return err
		}
		attributes["RedrivePolicy"] = string(policy)
	}
	_, err := api.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &q.name, Attributes: attributes})
	if _, there := errors.AsType[*sqstypes.QueueNameExists](err); there {
		return nil
	}
	return err
}

// deadARN asks: the account of an emulator is its own.
func (q queue) deadARN(ctx context.Context, api *sqs.Client) (string, error) {
	dead, err := api.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &q.dead})
	if err != nil {
		return "", fmt.Errorf("looking for its dead-letter queue %s: %w", q.dead, err)
	}
	all, err := api.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: dead.QueueUrl, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameQueueArn}})
	if err != nil {
		return "", err
	}
	return all.Attributes["QueueArn"], nil
}

func (t table) create(ctx context.Context, api *dynamodb.Client) error {
	in := &dynamodb.CreateTableInput{TableName: &t.name, BillingMode: dynamodbtypes.BillingModePayPerRequest}
	for _, a := range t.attributes {
		in.AttributeDefinitions = append(in.AttributeDefinitions,
			dynamodbtypes.AttributeDefinition{AttributeName: &a.AttributeName, AttributeType: dynamodbtypes.ScalarAttributeType(a.AttributeType)})
	}
	in.KeySchema = schema(t.keys)
	for _, i := range t.indexes {
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, dynamodbtypes.GlobalSecondaryIndex{IndexName: &i.IndexName, KeySchema: schema(i.KeySchema),
			Projection: &dynamodbtypes.Projection{ProjectionType: dynamodbtypes.ProjectionType(i.Projection.ProjectionType), NonKeyAttributes: i.Projection.NonKeyAttributes}})
	}
	_, err := api.CreateTable(ctx, in)
	if _, there := errors.AsType[*dynamodbtypes.ResourceInUseException](err); there {
		return nil
	}
	if err != nil {
		return err
	}
	waiter := dynamodb.NewTableExistsWaiter(api, func(o *dynamodb.TableExistsWaiterOptions) { o.MinDelay = 100 * time.Millisecond })
	if err := waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &t.name}, awsPatience); err != nil {
		return err
	}
	if t.ttl == "" {
		return nil
	}
	_, err = api.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{TableName: &t.name,
		TimeToLiveSpecification: &dynamodbtypes.TimeToLiveSpecification{AttributeName: &t.ttl, Enabled: aws.Bool(true)}})
	return err
}

func schema(keys []key) []dynamodbtypes.KeySchemaElement {
	var all []dynamodbtypes.KeySchemaElement
	for _, k := range keys {
		all = append(all, dynamodbtypes.KeySchemaElement{AttributeName: &k.AttributeName, KeyType: dynamodbtypes.KeyType(k.KeyType)})
	}
	return all
}

func (b bucket) create(ctx context.Context, api *s3.Client) error {
	_, err := api.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &b.name}) // making one that is there is no error in this region
	if err == nil {
		return nil
	}
	if _, missing := errors.AsType[*s3types.NotFound](err); !missing {
		return err
	}
	if _, err := api.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &b.name}); err != nil {
		return err
	}
	if len(b.lifecycle) == 0 {
		return nil
	}
	rules := &s3types.BucketLifecycleConfiguration{}
	for _, r := range b.lifecycle {
		status := s3types.ExpirationStatusDisabled
		if r.enabled {
			status = s3types.ExpirationStatusEnabled
		}
		rule := s3types.LifecycleRule{ID: &r.id, Status: status, Filter: &s3types.LifecycleRuleFilter{Prefix: &r.prefix}, Expiration: &s3types.LifecycleExpiration{Days: &r.days}}
		if r.abort > 0 {
			rule.AbortIncompleteMultipartUpload = &s3types.AbortIncompleteMultipartUpload{DaysAfterInitiation: &r.abort}
		}
		rules.Rules = append(rules.Rules, rule)
	}
	_, err = api.PutBucketLifecycleConfiguration(ctx, &s3.PutBucketLifecycleConfigurationInput{Bucket: &b.name, LifecycleConfiguration: rules})
	return err
}
