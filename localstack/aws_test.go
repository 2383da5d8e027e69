package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/sivchari/kumo"

	"spillway/internal/dynamo"
	"spillway/internal/runtimeapi/sqspoll"
	"spillway/internal/s3store"
	"spillway/internal/sqsqueue"
)

// testEndpoint is AWS_ENDPOINT_URL (`make test-aws`), or an emulator that lasts as long as the test.
func testEndpoint(t *testing.T) string {
	t.Helper()
	if endpoint := os.Getenv("AWS_ENDPOINT_URL"); endpoint != "" {
		return endpoint
	}
	server := kumo.NewServer()
	t.Cleanup(server.Close)
	return server.URL
}

func TestSeed(t *testing.T) {
	t.Chdir("..")
	endpoint := testEndpoint(t)
	s := &services{endpoint: endpoint}
	tables, buckets := dynamo.New(s.config()), s3store.New(s.config())
	name, object := aws.String("spillway-HealthTable"), aws.String("results/kept")
	for round, sentence := range []string{"what is missing is made", "what is there is kept, with what it holds"} {
		var stdout, stderr bytes.Buffer
		if err := seed(t.Context(), options{aws: endpoint}, &stdout, &stderr); err != nil {
			t.Fatalf("%s: %v", sentence, err)
		}
		for _, want := range []string{"table  spillway-IdempotencyTable at " + endpoint, "table  spillway-HealthTable at ", "table  spillway-RequestsTable at ", "table  spillway-JobsTable at ", "queue  spillway-JobsQueue at ", "bucket spillway-resultsbucket at "} {
			if !strings.Contains(stdout.String(), want) {
				t.Errorf("%s: said %q, want %q", sentence, stdout.String(), want)
			}
		}
		if round == 0 {
			if _, err := tables.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: name, Item: map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "kept"}}}); err != nil {
				t.Fatal(err)
			}
			if _, err := buckets.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("spillway-resultsbucket"), Key: object, Body: strings.NewReader("kept")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	item, err := tables.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: name, Key: map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "kept"}}})
	if err != nil || len(item.Item) == 0 {
		t.Errorf("the item is lost: %v, %v", item, err)
	}
	if _, err := buckets.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("spillway-resultsbucket"), Key: object}); err != nil {
		t.Errorf("the object is lost: %v", err)
	}
	ttl, err := tables.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: name})
	if err != nil || aws.ToString(ttl.TimeToLiveDescription.AttributeName) != "expires_at" {
		t.Errorf("the table forgets by %+v, %v", ttl, err)
	}
	indexed, err := tables.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("spillway-JobsTable")})
	if err != nil || len(indexed.Table.GlobalSecondaryIndexes) != 3 {
		t.Errorf("the jobs have the indexes %+v, %v", indexed, err)
	}
	rules, err := buckets.GetBucketLifecycleConfiguration(t.Context(), &s3.GetBucketLifecycleConfigurationInput{Bucket: aws.String("spillway-resultsbucket")})
	if err != nil || len(rules.Rules) != 2 || aws.ToInt32(rules.Rules[0].Expiration.Days) != 2 || aws.ToInt32(rules.Rules[1].AbortIncompleteMultipartUpload.DaysAfterInitiation) != 1 {
		t.Errorf("the bucket forgets by %+v, %v", rules, err)
	}
}

// TestQueuesAreMade: with their dead-letter queues first, wherever those stand in the template.
func TestQueuesAreMade(t *testing.T) {
	s := &services{endpoint: testEndpoint(t)}
	suffix := fmt.Sprintf("%016x", rand.Uint64())
	jobs, letters := queue{name: "jobs-" + suffix, visibility: time.Second, dead: "letters-" + suffix, receives: 1}, queue{name: "letters-" + suffix, visibility: queueVisibility}
	for _, sentence := range []string{"what is missing is made", "what is there is kept"} {
		if err := s.create(t.Context(), deployment{queues: []queue{jobs, letters}}); err != nil {
			t.Fatalf("%s: %v", sentence, err)
		}
	}
	jobs.visibility = 2 * time.Second
	if err := s.create(t.Context(), deployment{queues: []queue{jobs}}); err != nil {
		t.Errorf("what is there is kept even if the template has changed: %v", err)
	}

	api := sqsqueue.New(s.config())
	sender := &sqsqueue.Queue{API: api, URL: queueURL(jobs.name)}
	if err := sender.Send(t.Context(), []byte("poison"), 0); err != nil {
		t.Fatal(err)
	}
	from, dead := &sqspoll.Queue{API: api, URL: queueURL(jobs.name)}, &sqspoll.Queue{API: api, URL: queueURL(letters.name)}
	for end := time.Now().Add(10 * time.Second); ; {
		if _, err := from.Receive(t.Context(), 1, 0); err != nil {
			t.Fatal(err)
		}
		got, err := dead.Receive(t.Context(), 1, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 1 && got[0].Body == "poison" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("it did not come into the dead-letter queue, but %v", got)
		}
	}
}

func TestAnEndpointThatIsNotThere(t *testing.T) {
	t.Chdir("..")
	err := seed(t.Context(), options{aws: "http://127.0.0.1:1"}, new(bytes.Buffer), nil)
	if err == nil || !strings.Contains(err.Error(), "-aws") || !strings.Contains(err.Error(), "http://127.0.0.1:1") {
		t.Errorf("got %v, want it to say where it was and what chooses another", err)
	}
}
