package dynamo_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/breaker"
	"spillway/internal/dynamo"
	"spillway/internal/fault"
)

// rawItem is an item as it stands in the table.
func rawItem(t *testing.T, api *sdk.Client, table, id string) map[string]types.AttributeValue {
	t.Helper()
	out, err := api.GetItem(t.Context(), &sdk.GetItemInput{TableName: &table, ConsistentRead: aws.Bool(true), Key: map[string]types.AttributeValue{"id": word(id)}})
	require.NoError(t, err)
	return out.Item
}

func healthKey(name string) breaker.Key {
	return breaker.Key{Provider: "alpha", Model: name, Region: "eu", Credential: "main"}
}

// TestWhatStandsInTheHealthTable is what the contract of a breaker.Store leaves to the table.
func TestWhatStandsInTheHealthTable(t *testing.T) {
	backends(t, func(t *testing.T, api *sdk.Client) {
		ctx := t.Context()
		now := time.Now().Truncate(time.Second).UTC()
		slot := breaker.SlotOf(now)
		attribute := func(prefix string, slot int64) string { return prefix + strconv.FormatInt(slot, 10) }
		report := func(slots ...int64) (out []breaker.Bucket) {
			for _, s := range slots {
				out = append(out, breaker.Bucket{Slot: s, Attempts: 1, Weight: 1})
			}
			return out
		}
		opened := func(version uint64) breaker.Circuit {
			return breaker.Circuit{State: breaker.Open, Version: version, OpenedAt: now, Until: now.Add(30 * time.Second), Opens: 1, Class: fault.Overloaded}
		}
		fresh := func(t *testing.T) (*dynamo.Health, string) {
			t.Helper()
			name := table(t, api)
			return &dynamo.Health{API: api, Table: name}, name
		}
		t.Run("buckets that are too old are removed by the report after the next", func(t *testing.T) {
			s, table := fresh(t)
			k := healthKey("a")
			_, err := s.Tell(ctx, k, 0, report(slot-1, slot), now)
			require.NoError(t, err)
			later := now.Add(2 * time.Minute)
			for range 2 {
				told, err := s.Tell(ctx, k, 0, report(breaker.SlotOf(later)), later)
				require.NoError(t, err)
				assert.Len(t, told.Window.Buckets(later), 1)
			}
			it := rawItem(t, api, table, "window "+k.String()+" @0")
			assert.NotContains(t, it, attribute("n_", slot))
			assert.NotContains(t, it, attribute("w_", slot-1))
			assert.Contains(t, it, attribute("n_", breaker.SlotOf(later)))
		})
		t.Run("a report of a clock that is behind keeps the bucket that another one had seen as too old", func(t *testing.T) {
			s, table := fresh(t)
			k := healthKey("a")
			_, err := s.Tell(ctx, k, 0, report(slot-11), now)
			require.NoError(t, err)
			_, err = s.Tell(ctx, k, 0, report(slot+1), now.Add(5*time.Second))
			require.NoError(t, err)
			_, err = s.Tell(ctx, k, 0, report(slot-11), now)
			require.NoError(t, err, "added and removed at once")
			assert.Equal(t, number("2"), rawItem(t, api, table, "window "+k.String()+" @0")[attribute("n_", slot-11)])
		})
		t.Run("who is too late to change a circuit does not empty its window", func(t *testing.T) {
			s, _ := fresh(t)
			k := healthKey("a")
			closed := breaker.Circuit{Version: 1, OpenedAt: now, Window: breaker.Window{}.Add(now, 10, 0)}
			_, err := s.Swap(ctx, k, 0, closed, now)
			require.NoError(t, err)
			_, err = s.Tell(ctx, k, 1, report(slot), now)
			require.NoError(t, err)
			_, err = s.Swap(ctx, k, 0, closed, now)
			require.ErrorIs(t, err, breaker.ErrChanged)
			told, err := s.Tell(ctx, k, 1, report(slot), now)
			require.NoError(t, err)
			attempts, weight := told.Window.Sum(now)
			assert.Equal(t, 12, attempts)
			assert.InDelta(t, 2, weight, 1e-9)
		})
		t.Run("a mark from before the circuit was forgotten opens nothing, and goes", func(t *testing.T) {
			s, table := fresh(t)
			k := healthKey("a")
			before := now.Add(-12 * time.Minute)
			_, err := s.Swap(ctx, k, 0, opened(1), before)
			require.NoError(t, err)
			for range 2 {
				told, err := s.Tell(ctx, k, 0, report(slot), now)
				require.NoError(t, err)
				assert.Nil(t, told.Successor)
			}
			assert.NotContains(t, rawItem(t, api, table, "window "+k.String()+" @0"), "successor")
		})
		t.Run("what says nothing any more goes from the snapshot, and nothing else", func(t *testing.T) {
			s, table := fresh(t)
			old := now.Add(-11 * time.Minute)
			for name, c := range map[string]struct {
				circuit breaker.Circuit
				at      time.Time
			}{
				"closed-long-ago":                        {breaker.Circuit{Version: 4, OpenedAt: old}, old},
				"closed-just-now":                        {breaker.Circuit{Version: 4, OpenedAt: old}, now},
				"open":                                   {opened(4), old},
				"watched":                                {breaker.Circuit{Version: 4, WatchUntil: now.Add(time.Minute)}, old},
				"not-watched-any-more-and-never-changed": {breaker.Circuit{WatchUntil: now.Add(-time.Second)}, now},
			} {
				_, err := s.Swap(ctx, healthKey(name), 0, c.circuit, c.at)
				require.NoError(t, err)
			}
			require.NoError(t, s.Hold(ctx, healthKey("held"), breaker.Holds{ThrottledUntil: now.Add(time.Minute)}, now))
			require.NoError(t, s.Hold(ctx, healthKey("held-no-more"), breaker.Holds{ThrottledUntil: now.Add(-time.Second)}, now.Add(-time.Minute)))
			_, err := s.Snapshot(ctx)
			require.NoError(t, err)
			left := map[string]bool{}
			for name := range rawItem(t, api, table, "snapshot") {
				left[name] = true
			}
			assert.Equal(t, map[string]bool{"id": true, "circuit:" + healthKey("closed-just-now").String(): true, "circuit:" + healthKey("open").String(): true,
				"circuit:" + healthKey("watched").String(): true, "hold:" + healthKey("held").String(): true}, left)
		})
		t.Run("past 8 KB no watch is added, and a circuit still opens", func(t *testing.T) {
			s, _ := fresh(t)
			watch := breaker.Circuit{WatchUntil: now.Add(time.Minute)}
			watches := 0
			for i := range 200 {
				if _, err := s.Snapshot(ctx); i%10 == 0 {
					require.NoError(t, err)
				}
				if _, err := s.Swap(ctx, healthKey(fmt.Sprintf("model-%03d", i)), 0, watch, now); err != nil {
					break
				}
				watches++
			}
			all, err := s.Snapshot(ctx)
			require.NoError(t, err)
			assert.Len(t, all, watches)
			assert.Greater(t, watches, 40)
			assert.Less(t, watches, 100, "8 KB are not more")
			_, err = s.Swap(ctx, healthKey("another"), 0, watch, now)
			require.Error(t, err)
			_, err = s.Swap(ctx, healthKey("another"), 0, opened(1), now)
			require.NoError(t, err)
		})
		t.Run("a circuit that cannot be read is an error, and stays as it is", func(t *testing.T) {
			s, table := fresh(t)
			k := healthKey("a")
			name := "circuit:" + k.String()
			_, err := api.PutItem(ctx, &sdk.PutItemInput{TableName: &table, Item: map[string]types.AttributeValue{"id": word("snapshot"), name: word(`7|{"state":"molten"}`)}})
			require.NoError(t, err)
			_, err = s.Swap(ctx, k, 0, opened(1), now)
			require.Error(t, err)
			require.NotErrorIs(t, err, breaker.ErrChanged)
			all, err := s.Snapshot(ctx)
			require.NoError(t, err)
			assert.NotContains(t, all, k.String())
			assert.Equal(t, word(`7|{"state":"molten"}`), rawItem(t, api, table, "snapshot")[name])
		})
		t.Run("a report is one call", func(t *testing.T) {
			_, name := fresh(t)
			counted := &counter{API: api}
			s := &dynamo.Health{API: counted, Table: name}
			_, err := s.Tell(ctx, healthKey("a"), 0, report(slot-3, slot-2, slot-1, slot), now)
			require.NoError(t, err)
			assert.Equal(t, 1, counted.updates)
			assert.Zero(t, counted.reads)
		})
	})
}
