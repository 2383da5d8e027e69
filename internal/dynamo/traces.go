package dynamo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"spillway/internal/trace"
)

// Traces is a trace.Store in a table with the string key "id" and the time to live "expires_at". It may share the table with
// Ledger. What is looked for in the console stands in attributes of its own, the whole in "trace" as JSON.
type Traces struct {
	API   API
	Table string
}

var _ trace.Store = (*Traces)(nil)

func traceKey(k trace.Key) string {
	return "trace#" + url.PathEscape(k.Organization) + "#" + k.RequestID
}

// Put implements trace.Store: one put.
func (s *Traces) Put(ctx context.Context, organization string, t trace.Trace) error {
	document, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("writing the trace: %w", err)
	}
	it := key(traceKey(trace.Key{Organization: organization, RequestID: t.RequestID}))
	for name, value := range (item{"organization": text(organization), "request_id": text(t.RequestID), "kept": text(string(t.Kept)), "route": text(t.Route),
		"outcome": text(t.Outcome), "status": number(int64(t.Status)), "class": text(t.Class), "provider": text(t.Provider), "calls": number(int64(t.Calls)),
		"duration_ms": real64(t.Duration), "started_at": iso(t.StartedAt), ttlName: number(t.ExpiresAt.Unix()), "expires_on": iso(t.ExpiresAt),
		"trace": text(string(document))}) {
		it[name] = value
	}
	if _, err := s.API.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.Table, Item: it}); err != nil {
		return fmt.Errorf("putting the trace: %w", err)
	}
	return nil
}

// Get implements trace.Store.
func (s *Traces) Get(ctx context.Context, k trace.Key) (*trace.Trace, error) {
	out, err := s.API.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.Table, Key: key(traceKey(k)), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, fmt.Errorf("reading the trace: %w", err)
	}
	if len(out.Item) == 0 {
		return nil, nil
	}
	var t trace.Trace
	if err := json.Unmarshal([]byte(view(out.Item).text("trace")), &t); err != nil {
		return nil, fmt.Errorf("reading the trace: %w", err)
	}
	return &t, nil
}
