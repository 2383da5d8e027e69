package dynamo_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/dynamo"
	"spillway/internal/ledger"
	"spillway/internal/storetest"
)

// TestEveryCallOfTheLedgerFailsInEveryWay: once, and the saying has its answer all the same; for ever, and whoever asks when the
// table is well again finds what was written, and nobody has the call twice.
func TestEveryCallOfTheLedgerFailsInEveryWay(t *testing.T) {
	api := dynamo.New(config(embedded().URL))
	name := table(t, api)
	now := time.Now()
	for kind, err := range storetest.Errors() {
		for _, call := range []string{"GetItem", "PutItem"} {
			for effect, lost := range map[string]bool{"without effect": true, "with its effect": false} {
				for often, n := range map[string]int{"once": 1, "for ever": 1 << 30} {
					t.Run(kind+", "+call+" "+effect+", "+often, func(t *testing.T) {
						faults := &storetest.Faults{}
						store := &dynamo.Ledger{API: storetest.Table{API: api, Faults: faults}, Table: name}
						k := ledger.Key{Organization: "acme", Key: t.Name()}
						say := func(owner, token string) (ledger.Decision, error) {
							return ledger.Say(t.Context(), store, k, ledger.Said{State: ledger.Started, Owner: owner, Token: token}, now)
						}
						faults.Set(func(c string, i int) storetest.Fault {
							if c != call || i > n {
								return storetest.Fault{}
							}
							return storetest.Fault{Lost: lost, Err: err}
						})
						d, failed := say("o1", "1")
						faults.Set(nil)
						written := true
						switch {
						case n == 1 && call == "PutItem":
							require.NoError(t, failed)
							assert.Equal(t, ledger.Yours, d.Verdict)
						case call == "PutItem" && !lost: // what was written the first time is found
							require.NoError(t, failed)
							assert.Equal(t, ledger.Yours, d.Verdict)
						default:
							require.Error(t, failed)
							written = false
						}
						d, failed = say("o2", "2")
						require.NoError(t, failed)
						if written {
							assert.Equal(t, ledger.Taken, d.Verdict)
						} else {
							assert.Equal(t, ledger.Yours, d.Verdict)
						}
					})
				}
			}
		}
	}
}
