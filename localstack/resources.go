package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A table is what the template says of one AWS::DynamoDB::Table.
type table struct {
	name       string
	attributes []attribute
	keys       []key
	ttl        string // the attribute by which items expire; empty: they do not
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

// ignored is a property that makes no difference on a developer's machine.
type ignored = json.RawMessage

func (t *template) table(r resource) (table, error) {
	var p struct {
		TableName               string
		AttributeDefinitions    []attribute
		KeySchema               []key
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
	made := table{name: name.(string), attributes: p.AttributeDefinitions, keys: p.KeySchema}
	if p.TimeToLiveSpecification.Enabled == "true" {
		made.ttl = p.TimeToLiveSpecification.AttributeName
	}
	return made, nil
}

func (t *template) bucket(r resource) (bucket, error) {
	var p struct {
		BucketName             string
		LifecycleConfiguration struct {
			Rules []struct{ ID, Status, Prefix, ExpirationInDays string }
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
		made.lifecycle = append(made.lifecycle, lifecycleRule{rule.ID, rule.Prefix, rule.Status == "Enabled", int32(days)})
	}
	return made, nil
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
