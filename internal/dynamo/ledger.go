package dynamo

import (
	"context"
	"fmt"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/go-json-experiment/json/jsontext"

	"spillway/internal/ledger"
)

// Ledger is a ledger.Store in a table with the string key "id" and the time to live "expires_at". It may share the table with
// Traces.
type Ledger struct {
	API   API
	Table string
}

var _ ledger.Store = (*Ledger)(nil)

// entryKey is an entry's key: 2048 bytes at most are allowed (ServiceQuotas.html), the longest names have 1800.
func entryKey(k ledger.Key) string { return "tool#" + url.PathEscape(k.Organization) + "#" + k.Key }

// Get implements ledger.Store.
func (s *Ledger) Get(ctx context.Context, k ledger.Key) (*ledger.Entry, error) {
	out, err := s.API.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.Table, Key: key(entryKey(k)), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, fmt.Errorf("reading the entry: %w", err)
	}
	if len(out.Item) == 0 {
		return nil, nil
	}
	v := view(out.Item)
	version, _ := v.number("version")
	e := &ledger.Entry{Key: ledger.Key{Organization: v.text("organization"), Key: v.text("tool_call")}, State: ledger.State(v.text("status")),
		Owner: v.text("owner"), StartedAt: v.iso("started_at"), UpdatedAt: v.iso("updated_at"), ExpiresAt: v.millis("expires_ms"), Token: v.text("token"),
		Version: uint64(max(version, 0))} //nolint:gosec // not negative
	if result := v.text("result"); result != "" {
		e.Result = jsontext.Value(result)
	}
	return e, nil
}

// Swap implements ledger.Store: one conditional put.
func (s *Ledger) Swap(ctx context.Context, e ledger.Entry) error {
	it := key(entryKey(e.Key))
	for name, value := range (item{"organization": text(e.Key.Organization), "tool_call": text(e.Key.Key), "status": text(string(e.State)),
		"owner": text(e.Owner), "started_at": iso(e.StartedAt), "updated_at": iso(e.UpdatedAt), "expires_ms": number(e.ExpiresAt.UnixMilli()),
		ttlName: number(e.ExpiresAt.Unix()), "expires_on": iso(e.ExpiresAt), "token": text(e.Token), "version": number(int64(e.Version))}) { //nolint:gosec // counts
		it[name] = value
	}
	if e.Result != nil {
		it["result"] = text(string(e.Result))
	}
	in := &dynamodb.PutItemInput{TableName: &s.Table, Item: it, ConditionExpression: aws.String("attribute_not_exists(#id)"),
		ExpressionAttributeNames: map[string]string{"#id": keyName}}
	if e.Version > 1 {
		in.ConditionExpression, in.ExpressionAttributeNames = aws.String("#version = :before"), map[string]string{"#version": "version"}
		in.ExpressionAttributeValues = item{":before": number(int64(e.Version) - 1)} //nolint:gosec // it counts
	}
	_, err := s.API.PutItem(ctx, in)
	if _, ok := refused(err); ok {
		return ledger.ErrChanged
	}
	if err != nil {
		return fmt.Errorf("putting the entry: %w", err)
	}
	return nil
}
