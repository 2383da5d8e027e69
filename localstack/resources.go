package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A table is what the template says of one AWS::DynamoDB::Table.
type table struct {
	name       string
	attributes []attribute
	keys       []key
	indexes    []index
	ttl        string // the attribute by which items expire; empty: they do not
}

// An index is a global secondary one.
type index struct {
	IndexName  string
	KeySchema  []key
	Projection projection
}

type projection struct {
	ProjectionType   string
	NonKeyAttributes []string
}

type attribute struct {
	AttributeName, AttributeType string
}

type key struct {
	AttributeName, KeyType string
}

// A bucket is what the template says of one AWS::S3::Bucket.
type bucket struct {
	name      string
	lifecycle []lifecycleRule
}

type lifecycleRule struct {
	id, prefix string
	enabled    bool
	days       int32 // until an object expires
	abort      int32 // days until an upload that was not completed is forgotten; 0: it never is
}

// A queue is what the template says of one AWS::SQS::Queue.
type queue struct {
	name       string
	visibility time.Duration
	dead       string // the name of its dead-letter queue; empty: there is none
	receives   int    // maxReceiveCount, with dead
}

// tableName is the name that a table gives itself, or one like that which CloudFormation makes up.
func (t *template) tableName(r resource) (any, error) {
	if member(r.properties, "TableName") != nil {
		return t.nameOf(r, "TableName")
	}
	return stack + "-" + r.logicalID, nil
}

// bucketName is the like for a bucket, whose name has no capital letters.
func (t *template) bucketName(r resource) (any, error) {
	if member(r.properties, "BucketName") != nil {
		return t.nameOf(r, "BucketName")
	}
	return strings.ToLower(stack + "-" + r.logicalID), nil
}

// queueName is the name that a queue gives itself, or one like that which CloudFormation makes up.
func (t *template) queueName(r resource) (string, error) {
	node := member(r.properties, "QueueName")
	if node == nil {
		return stack + "-" + r.logicalID, nil
	}
	value, err := t.value(node)
	if err != nil {
		return "", err
	}
	name, ok := value.(string)
	if !ok {
		return "", t.errorf(node, "QueueName of %s is not a string", r.logicalID)
	}
	return name, nil
}

// queueURL is what AWS calls a queue to its callers. Emulators look only at its path.
func queueURL(name string) string {
	return "https://sqs." + region + ".amazonaws.com/" + account + "/" + name
}

func queueARN(name string) string { return "arn:aws:sqs:" + region + ":" + account + ":" + name }

// ignored is a property that makes no difference on a developer's machine.
type ignored = json.RawMessage

func (t *template) table(r resource) (table, error) {
	var p struct {
		TableName               string
		AttributeDefinitions    []attribute
		KeySchema               []key
		GlobalSecondaryIndexes  []index
		TimeToLiveSpecification struct{ AttributeName, Enabled string }

		BillingMode, PointInTimeRecoverySpecification, DeletionProtectionEnabled ignored
	}
	if err := t.decode(r, &p); err != nil {
		return table{}, err
	}
	name, err := t.tableName(r)
	if err != nil {
		return table{}, err
	}
	made := table{name: name.(string), attributes: p.AttributeDefinitions, keys: p.KeySchema, indexes: p.GlobalSecondaryIndexes}
	if p.TimeToLiveSpecification.Enabled == "true" {
		made.ttl = p.TimeToLiveSpecification.AttributeName
	}
	return made, nil
}

func (t *template) bucket(r resource) (bucket, error) {
	var p struct {
		BucketName             string
		LifecycleConfiguration struct {
			Rules []struct {
				ID, Status, Prefix, ExpirationInDays string
				AbortIncompleteMultipartUpload       struct{ DaysAfterInitiation string }
			}
		}

		PublicAccessBlockConfiguration, BucketEncryption ignored
	}
	if err := t.decode(r, &p); err != nil {
		return bucket{}, err
	}
	name, err := t.bucketName(r)
	if err != nil {
		return bucket{}, err
	}
	made := bucket{name: name.(string)}
	for _, rule := range p.LifecycleConfiguration.Rules {
		days, err := strconv.ParseInt(rule.ExpirationInDays, 10, 32)
		if err != nil {
			return bucket{}, t.errorf(r.node, "ExpirationInDays of %s is not a number", r.logicalID)
		}
		abort, err := t.count(r, "DaysAfterInitiation", rule.AbortIncompleteMultipartUpload.DaysAfterInitiation, 0)
		if err != nil {
			return bucket{}, err
		}
		made.lifecycle = append(made.lifecycle, lifecycleRule{rule.ID, rule.Prefix, rule.Status == "Enabled", int32(days), int32(abort)})
	}
	return made, nil
}

func (t *template) queue(r resource) (queue, error) {
	if r.properties == nil { // every property of a queue has a default
		return queue{name: stack + "-" + r.logicalID, visibility: queueVisibility}, nil
	}
	var p struct {
		QueueName, VisibilityTimeout string
		RedrivePolicy                struct{ DeadLetterTargetArn, MaxReceiveCount string }

		MessageRetentionPeriod, SqsManagedSseEnabled, Tags ignored
	}
	if err := t.decode(r, &p); err != nil {
		return queue{}, err
	}
	name, err := t.queueName(r)
	if err != nil {
		return queue{}, err
	}
	made := queue{name: name}
	seconds, err := t.count(r, "VisibilityTimeout", p.VisibilityTimeout, int(queueVisibility/time.Second))
	if err != nil {
		return queue{}, err
	}
	made.visibility = time.Duration(seconds) * time.Second
	if p.RedrivePolicy.DeadLetterTargetArn == "" {
		return made, nil
	}
	made.dead = queueOf(p.RedrivePolicy.DeadLetterTargetArn)
	made.receives, err = t.count(r, "maxReceiveCount", p.RedrivePolicy.MaxReceiveCount, 0)
	return made, err
}

// queueVisibility is the VisibilityTimeout of a queue that names none.
const queueVisibility = 30 * time.Second

// queueOf is the name in the ARN of a queue.
func queueOf(arn string) string { return arn[strings.LastIndex(arn, ":")+1:] }

// count is a whole number that is not negative; absent if there is none.
func (t *template) count(r resource, property, text string, absent int) (int, error) {
	if text == "" {
		return absent, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, t.errorf(r.node, "%s of %s is not a number", property, r.logicalID)
	}
	return n, nil
}

// decode reads the properties of a resource into a struct whose members are all the properties known here, with their
// scalars as text. Another one is an error: what it asks for would be missing.
func (t *template) decode(r resource, into any) error {
	if r.properties == nil {
		return t.errorf(r.node, "%s has no properties", r.logicalID)
	}
	value, err := t.value(r.properties)
	if err != nil {
		return err
	}
	text, err := json.Marshal(withoutNoValue(value))
	if err != nil {
		return t.errorf(r.node, "%s: %w", r.logicalID, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return t.errorf(r.node, "%s as a %s is not known here: %w", r.logicalID, r.kind, plain(err))
	}
	return nil
}

// plain is what a decoder says, without Go's words for it.
func plain(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s is a %s", wrong.Field, wrong.Value)
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: unknown "))
}
