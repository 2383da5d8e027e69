package dynamo_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"spillway/internal/dynamo"
	"spillway/internal/idempotency"
)

// TestTheTableIsLikeTheMemory throws claims, renewals, results and releases of several owners at both, with a clock that
// goes forward by up to a day: they answer alike, and the same stands in both after each step.
func TestTheTableIsLikeTheMemory(t *testing.T) {
	api := dynamo.New(config(embedded().URL))
	table := &dynamo.Idempotency{API: api, Table: table(t, api)}
	verdicts := map[string]int{}
	alike := func(rt *rapid.T) {
		memory := &idempotency.Memory{}
		now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		keys := make([]idempotency.Key, 3)
		for i := range keys {
			keys[i] = idempotency.Key{Organization: "acme", Key: fmt.Sprintf("%016x", rand.Uint64())}
		}
		class := func(err error) string {
			switch {
			case err == nil:
				return "done"
			case errors.Is(err, idempotency.ErrLost):
				return "lost"
			default:
				return "failed"
			}
		}
		ctx := t.Context()
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			k := keys[rapid.IntRange(0, len(keys)-1).Draw(rt, "key")]
			owner := rapid.SampledFrom([]string{"o1", "o2", "o3"}).Draw(rt, "owner")
			action := rapid.SampledFrom([]string{"claim", "claim", "claim", "renew", "complete", "release", "wait", "wait"}).Draw(rt, "action")
			want, got := "", ""
			switch action {
			case "wait":
				now = now.Add(rapid.SampledFrom([]time.Duration{time.Second, 30 * time.Second, 2 * time.Minute, 23 * time.Hour}).Draw(rt, "wait"))
				continue
			case "claim":
				f := rapid.SampledFrom([]idempotency.Fingerprint{"F", "F", "G"}).Draw(rt, "fingerprint")
				r := idempotency.Claiming(k, f, owner, "req_"+owner, rapid.Bool().Draw(rt, "stream"), now.Add(2*time.Minute), now)
				mine, err := memory.Claim(ctx, r, now)
				require.NoError(rt, err)
				theirs, err := table.Claim(ctx, r, now)
				require.NoError(rt, err)
				assert.Equal(rt, mine, theirs)
				want, got = string(idempotency.Decide(mine, f, owner, now).Verdict), string(idempotency.Decide(theirs, f, owner, now).Verdict)
			case "renew":
				until := now.Add(90 * time.Second)
				want, got = class(memory.Renew(ctx, k, owner, until)), class(table.Renew(ctx, k, owner, until))
			case "complete":
				r := idempotency.Result{Status: 200, Header: map[string]string{"Content-Type": "application/json"}, Body: rapid.SliceOfN(rapid.Byte(), 1, 50).Draw(rt, "body"), Size: 100}
				switch rapid.IntRange(0, 4).Draw(rt, "kind") {
				case 0:
					r.Body, r.Object = nil, &idempotency.Object{Name: "results/x", SHA256: "ab", Size: 5}
				case 1:
					r.Body = make([]byte, idempotency.MaxItem)
				}
				want, got = class(memory.Complete(ctx, k, owner, r, now)), class(table.Complete(ctx, k, owner, r, now))
				if want == "lost" && len(r.Body) == idempotency.MaxItem {
					want = "failed" // the table looks at the size first
				}
			case "release":
				want, got = class(memory.Release(ctx, k, owner)), class(table.Release(ctx, k, owner))
			}
			assert.Equal(rt, want, got, action)
			verdicts[action+" "+got]++
			mine, err := memory.Get(ctx, k)
			require.NoError(rt, err)
			theirs, err := table.Get(ctx, k)
			require.NoError(rt, err)
			assert.Equal(rt, mine, theirs)
		}
	}
	wanted := []string{"claim run", "claim replay", "claim in_flight", "claim mismatch", "renew done", "renew lost", "complete done", "complete lost", "complete failed", "release done", "release lost"}
	seldom := func(v string) bool { return verdicts[v] == 0 }
	for round := 0; round < 6 && (round == 0 || slices.ContainsFunc(wanted, seldom)); round++ { // some are seldom drawn
		rapid.Check(t, alike)
	}
	for _, v := range wanted {
		assert.Positive(t, verdicts[v], "%s never happened", v)
	}
}
