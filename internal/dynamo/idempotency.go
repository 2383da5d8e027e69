package dynamo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"spillway/internal/idempotency"
)

// Idempotency is an idempotency.Store in a table with the string key "id" and the time to live "expires_at".
type Idempotency struct {
	API   API
	Table string
}

var _ idempotency.Store = (*Idempotency)(nil)

// names of what conditions and updates refer to. No placeholder begins with another one: the emulator in the process would
// take the one for the other. All are placeholders: some of the words are reserved
// (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ReservedWords.html, 2026-11-30).
var recordNames = map[string]string{"#id": keyName, "#status": "status", "#owner": "owner", "#fingerprint": "fingerprint",
	"#until": "in_progress_until", "#ends": "in_progress_until_at", "#expires": ttlName, "#forgotten": "expires_on", "#completed": "completed_at",
	"#code": "result_status", "#headers": "result_headers", "#stream": "result_stream", "#body": "result_body", "#size": "result_size",
	"#object": "result_object", "#sum": "result_sha256", "#packed": "result_object_size"}

// naming is the placeholders that an expression uses: DynamoDB refuses those that it does not.
func naming(all map[string]string, used ...string) map[string]string {
	out := make(map[string]string, len(used))
	for _, u := range used {
		out[u] = all[u]
	}
	return out
}

// recordKey is a record's key. An organization's name is escaped, so that the first # ends it.
func recordKey(k idempotency.Key) item { return key(url.PathEscape(k.Organization) + "#" + k.Key) }

const ours = "#status = :in_progress AND #owner = :owner"

// Claim implements idempotency.Store: one conditional put. A table that returns no old item on a refusal gets one
// consistent read.
func (s *Idempotency) Claim(ctx context.Context, r idempotency.Record, now time.Time) (*idempotency.Record, error) {
	const turns = 3 // a record that is released between the refusal and the reading is claimed anew
	for range turns {
		_, err := s.API.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: &s.Table,
			Item:      written(r),
			ConditionExpression: aws.String("attribute_not_exists(#id) OR #expires <= :now OR " +
				"(#status = :in_progress AND #fingerprint = :fingerprint AND #until <= :ms)"),
			ExpressionAttributeNames: naming(recordNames, "#id", "#expires", "#status", "#fingerprint", "#until"),
			ExpressionAttributeValues: item{":now": number(now.Unix()), ":ms": number(now.UnixMilli()), ":in_progress": text(string(idempotency.InProgress)),
				":fingerprint": text(string(r.Fingerprint))},
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		})
		if err == nil {
			return nil, nil
		}
		old, ok := refused(err)
		if !ok {
			return nil, fmt.Errorf("putting the record: %w", err)
		}
		if old != nil {
			return record(old)
		}
		there, err := s.Get(ctx, r.Key)
		if err != nil || there != nil {
			return there, err
		}
	}
	return nil, errors.New("putting the record: it was refused, and nothing stands there")
}

// Get implements idempotency.Store.
func (s *Idempotency) Get(ctx context.Context, k idempotency.Key) (*idempotency.Record, error) {
	out, err := s.API.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.Table, Key: recordKey(k), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, fmt.Errorf("reading the record: %w", err)
	}
	if len(out.Item) == 0 {
		return nil, nil
	}
	return record(out.Item)
}

// Renew implements idempotency.Store.
func (s *Idempotency) Renew(ctx context.Context, k idempotency.Key, owner string, until time.Time) error {
	return s.change(ctx, k, owner, "SET #until = :until, #ends = :ends",
		item{":until": number(until.UnixMilli()), ":ends": iso(until)}, "#until", "#ends")
}

// Complete implements idempotency.Store.
func (s *Idempotency) Complete(ctx context.Context, k idempotency.Key, owner string, r idempotency.Result, now time.Time) error {
	headers, err := json.Marshal(r.Header)
	if err != nil {
		return fmt.Errorf("writing the result's headers: %w", err)
	}
	if size := len(headers) + len(r.Body) + len(k.Organization) + len(k.Key) + itemOverhead; size > idempotency.MaxItem {
		return fmt.Errorf("storing the result: an item of %d bytes is larger than %d", size, idempotency.MaxItem)
	}
	expires := now.Add(idempotency.Retention)
	set := "SET #status = :completed, #completed = :at, #expires = :expires, #forgotten = :forgotten, #code = :code, #headers = :headers, #stream = :stream, #size = :size"
	values := item{":completed": text(string(idempotency.Completed)), ":at": iso(now), ":expires": number(expires.Unix()), ":forgotten": iso(expires),
		":code": number(int64(r.Status)), ":headers": text(string(headers)), ":stream": boolean(r.Stream), ":size": number(r.Size)}
	names := []string{"#completed", "#expires", "#forgotten", "#code", "#headers", "#stream", "#size"}
	if o := r.Object; o != nil {
		set += ", #object = :object, #sum = :sum, #packed = :packed"
		values[":object"], values[":sum"], values[":packed"] = text(o.Name), text(o.SHA256), number(o.Size)
		names = append(names, "#object", "#sum", "#packed")
	} else {
		set += ", #body = :body"
		values[":body"] = binary(r.Body)
		names = append(names, "#body")
	}
	return s.change(ctx, k, owner, set, values, names...)
}

// itemOverhead is more than the names and the other values of a record take, in bytes.
const itemOverhead = 1500

// change updates a record that is in progress and the owner's.
func (s *Idempotency) change(ctx context.Context, k idempotency.Key, owner, set string, values item, names ...string) error {
	values[":in_progress"], values[":owner"] = text(string(idempotency.InProgress)), text(owner)
	_, err := s.API.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: &s.Table, Key: recordKey(k), UpdateExpression: &set,
		ConditionExpression: aws.String(ours), ExpressionAttributeNames: naming(recordNames, append(names, "#status", "#owner")...), ExpressionAttributeValues: values})
	return lost("updating the record", err)
}

// Release implements idempotency.Store.
func (s *Idempotency) Release(ctx context.Context, k idempotency.Key, owner string) error {
	_, err := s.API.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &s.Table, Key: recordKey(k), ConditionExpression: aws.String(ours),
		ExpressionAttributeNames: naming(recordNames, "#status", "#owner"), ExpressionAttributeValues: item{":in_progress": text(string(idempotency.InProgress)), ":owner": text(owner)}})
	return lost("deleting the record", err)
}

func lost(doing string, err error) error {
	if _, ok := refused(err); ok {
		return idempotency.ErrLost
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// written is a record as an item.
func written(r idempotency.Record) item {
	it := recordKey(r.Key)
	for name, value := range (item{"organization": text(r.Key.Organization), "idempotency_key": text(r.Key.Key), "status": text(string(r.Status)),
		"fingerprint": text(string(r.Fingerprint)), "owner": text(r.Owner), "request_id": text(r.RequestID), "created_at": iso(r.CreatedAt),
		ttlName: number(r.ExpiresAt.Unix()), "expires_on": iso(r.ExpiresAt)}) {
		it[name] = value
	}
	if !r.InProgressUntil.IsZero() {
		it["in_progress_until"], it["in_progress_until_at"] = number(r.InProgressUntil.UnixMilli()), iso(r.InProgressUntil)
	}
	return it
}

// record is an item as a record. One that nobody can have claimed or finished is an error: it must be neither replayed nor
// run over.
func record(it item) (*idempotency.Record, error) {
	v := view(it)
	r := &idempotency.Record{Key: idempotency.Key{Organization: v.text("organization"), Key: v.text("idempotency_key")},
		Status: idempotency.Status(v.text("status")), Fingerprint: idempotency.Fingerprint(v.text("fingerprint")), Owner: v.text("owner"),
		RequestID: v.text("request_id"), CreatedAt: v.iso("created_at"), InProgressUntil: v.millis("in_progress_until"), ExpiresAt: v.seconds(ttlName)}
	if r.Status == idempotency.Completed {
		var err error
		if r.Result, err = result(v); err != nil {
			return nil, fmt.Errorf("reading the record: %w", err)
		}
	}
	if r.Status != idempotency.Completed && r.Status != idempotency.InProgress || r.Fingerprint == "" || r.Owner == "" || r.ExpiresAt.IsZero() {
		return nil, errors.New("reading the record: it lacks its status, fingerprint, owner or end")
	}
	return r, nil
}

// result is what a finished record holds.
func result(v view) (*idempotency.Result, error) {
	r := &idempotency.Result{Stream: v.boolean("result_stream"), Body: v.binary("result_body")}
	status, _ := v.number("result_status")
	r.Status = int(status)
	r.Size, _ = v.number("result_size")
	_ = json.Unmarshal([]byte(v.text("result_headers")), &r.Header) // our own; without them the body is still the answer
	if name := v.text("result_object"); name != "" {
		r.Object = &idempotency.Object{Name: name, SHA256: v.text("result_sha256")}
		r.Object.Size, _ = v.number("result_object_size")
	}
	switch {
	case status < 200 || status > 599:
		return nil, errors.New("its result has no status")
	case r.Size < 0 || r.Object != nil && (r.Object.Size < 0 || r.Object.Size > idempotency.MaxKept):
		return nil, errors.New("its result has an impossible size")
	case (r.Body == nil) == (r.Object == nil):
		return nil, errors.New("its result has not one body")
	default:
		return r, nil
	}
}
