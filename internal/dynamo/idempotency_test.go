package dynamo_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/dynamo"
	"spillway/internal/idempotency"
)

// counter counts the calls of a table.
type counter struct {
	dynamo.API
	updates, reads, puts int
}

func (c *counter) UpdateItem(ctx context.Context, in *sdk.UpdateItemInput, o ...func(*sdk.Options)) (*sdk.UpdateItemOutput, error) {
	c.updates++
	return c.API.UpdateItem(ctx, in, o...)
}

func (c *counter) GetItem(ctx context.Context, in *sdk.GetItemInput, o ...func(*sdk.Options)) (*sdk.GetItemOutput, error) {
	c.reads++
	return c.API.GetItem(ctx, in, o...)
}

func (c *counter) PutItem(ctx context.Context, in *sdk.PutItemInput, o ...func(*sdk.Options)) (*sdk.PutItemOutput, error) {
	c.puts++
	return c.API.PutItem(ctx, in, o...)
}

// TestReservedWords: a strict table refuses an expression that names "status" or "owner" as they are; ours pass, whatever
// the client's key is.
func TestReservedWords(t *testing.T) {
	backends(t, func(t *testing.T, api *sdk.Client) {
		name, now := table(t, api), time.Now().Truncate(time.Second).UTC()
		s := &dynamo.Idempotency{API: api, Table: name}
		if strings.HasSuffix(t.Name(), "/endpoint") {
			_, err := api.UpdateItem(t.Context(), &sdk.UpdateItemInput{TableName: &name, Key: map[string]types.AttributeValue{"id": word("x")},
				UpdateExpression: aws.String("SET status = :s"), ExpressionAttributeValues: map[string]types.AttributeValue{":s": word("x")}})
			require.ErrorContains(t, err, "reserved keyword", "the judge is strict")
		}
		for _, k := range []string{"status", "owner", "#status", ":owner", "SET #owner = :x", `"quoted" \ and 'so on'`, strings.Repeat("é", idempotency.MaxKey), "\U0001f511"} {
			r := idempotency.Claiming(idempotency.Key{Organization: "select/from#where", Key: k}, "F", "o1", "req_1", true, now.Add(time.Hour), now)
			there, err := s.Claim(t.Context(), r, now)
			require.NoError(t, err, k)
			require.Nil(t, there)
			require.NoError(t, s.Renew(t.Context(), r.Key, "o1", now.Add(time.Minute)))
			require.NoError(t, s.Complete(t.Context(), r.Key, "o1", idempotency.Result{Status: 200, Header: map[string]string{"Status": "owner"}, Body: []byte("x"), Size: 1}, now))
			got, err := s.Get(t.Context(), r.Key)
			require.NoError(t, err)
			assert.Equal(t, r.Key, got.Key)
			assert.Equal(t, "owner", got.Result.Header["Status"])
			r.Key.Key += "!"
			if _, err := s.Claim(t.Context(), r, now); assert.NoError(t, err) {
				assert.NoError(t, s.Release(t.Context(), r.Key, "o1"))
			}
		}
	})
}

// TestTheLargestResultFitsIntoARecord: what stands in a record by our own bound is taken by a table that counts bytes.
func TestTheLargestResultFitsIntoARecord(t *testing.T) {
	backends(t, func(t *testing.T, api *sdk.Client) {
		name, now := table(t, api), time.Now().Truncate(time.Second).UTC()
		s := &dynamo.Idempotency{API: api, Table: name}
		headers := map[string]string{}
		for i := range 20 {
			headers["X-Llm-"+strings.Repeat("n", i+1)] = strings.Repeat("é", 500) // in JSON, two bytes each
		}
		r := idempotency.Claiming(idempotency.Key{Organization: strings.Repeat("o", 64), Key: strings.Repeat("\U0001f511", idempotency.MaxKey)}, "F", "o1", "req_1", false, now.Add(time.Hour), now)
		_, err := s.Claim(t.Context(), r, now)
		require.NoError(t, err)
		require.NoError(t, s.Complete(t.Context(), r.Key, "o1", idempotency.Result{Status: 200, Header: headers, Body: make([]byte, idempotency.MaxInline), Size: 1}, now))
		got, err := s.Get(t.Context(), r.Key)
		require.NoError(t, err)
		assert.Len(t, got.Result.Body, idempotency.MaxInline)
	})
}

// TestARecordThatIsNone is neither replayed nor run over.
func TestARecordThatIsNone(t *testing.T) {
	backends(t, func(t *testing.T, api *sdk.Client) {
		name, now := table(t, api), time.Now().Truncate(time.Second).UTC()
		s := &dynamo.Idempotency{API: api, Table: name}
		for what, it := range map[string]map[string]types.AttributeValue{
			"nothing but a key":                     {},
			"a state that we do not know":           {"status": word("paused"), "fingerprint": word("F"), "owner": word("o"), "expires_at": number("9999999999")},
			"finished, and there is no body":        {"status": word("completed"), "fingerprint": word("F"), "owner": word("o"), "expires_at": number("9999999999"), "result_status": number("200")},
			"an end that is no whole number":        {"status": word("in_progress"), "fingerprint": word("F"), "owner": word("o"), "expires_at": number("9999999999.5")},
			"finished with a status that is none":   {"status": word("completed"), "fingerprint": word("F"), "owner": word("o"), "expires_at": number("9999999999"), "result_body": &types.AttributeValueMemberB{Value: []byte("x")}},
			"finished with an object without bound": {"status": word("completed"), "fingerprint": word("F"), "owner": word("o"), "expires_at": number("9999999999"), "result_status": number("200"), "result_object": word("x"), "result_object_size": number("99999999999")},
		} {
			t.Run(what, func(t *testing.T) {
				k := idempotency.Key{Organization: "acme", Key: what}
				it["id"] = word("acme#" + what)
				_, err := api.PutItem(t.Context(), &sdk.PutItemInput{TableName: &name, Item: it})
				require.NoError(t, err)
				_, err = s.Get(t.Context(), k)
				require.Error(t, err)
				_, err = s.Claim(t.Context(), idempotency.Claiming(k, "F", "o1", "req", false, now.Add(time.Minute), now), now)
				require.Error(t, err)
			})
		}
	})
}
