package simulate_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/simulate"
)

// TestACallbackAnswersAsItsAddressAsks: by the number of the event's arrivals.
func TestACallbackAnswersAsItsAddressAsks(t *testing.T) {
	for name, tt := range map[string]struct {
		query    string
		statuses []int
		taken    []bool
	}{
		"it takes what comes":              {"", []int{200, 200}, []bool{true, true}},
		"it fails twice":                   {"?fail=2", []int{500, 500, 200}, []bool{false, false, true}},
		"it takes and forgets that it has": {"?forget=1", []int{500, 200}, []bool{true, true}},
		"it fails, and then forgets":       {"?fail=1&forget=1", []int{500, 500, 200}, []bool{false, true, true}},
		"it counts for ever":               {"?fail=1000", []int{500, 500}, []bool{false, false}},
		"a word that is none":              {"?fails=1", []int{400}, nil},
		"a number that is none":            {"?fail=x", []int{400}, nil},
		"a number below nothing":           {"?forget=-1", []int{400}, nil},
		"a wait without end":               {"?slow=2h", []int{400}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, u upstream) {
				var statuses []int
				for range tt.statuses {
					status, _ := u.call(t, "POST", "/_sim/callback"+tt.query, `{"type":"job.succeeded"}`, map[string]string{"Webhook-Id": "evt_1"})
					statuses = append(statuses, status)
				}
				assert.Equal(t, tt.statuses, statuses)
				var taken []bool
				for n, c := range u.Callbacks() {
					taken = append(taken, c.Taken)
					assert.Equal(t, []int{n + 1, tt.statuses[n]}, []int{c.Attempt, c.Status})
				}
				assert.Equal(t, tt.taken, taken)
			})
		})
	}
}

func TestCallbacksAreKeptAsTheyCame(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		start := time.Now()
		for _, id := range []string{"evt_1", "evt_2"} {
			status, _ := u.call(t, "POST", "/_sim/callback?fail=0&slow=3s", `{"n":1}`,
				map[string]string{"Webhook-Id": id, "Webhook-Timestamp": "1", "Webhook-Signature": "v1,c2ln"})
			assert.Equal(t, http.StatusOK, status)
		}
		assert.Equal(t, 6*time.Second, time.Since(start))
		want := simulate.Callback{ID: "evt_1", Timestamp: "1", Signature: "v1,c2ln", Body: `{"n":1}`, At: start, Attempt: 1, Taken: true, Status: 200}
		second := want
		second.ID, second.At = "evt_2", start.Add(3*time.Second)
		assert.Equal(t, []simulate.Callback{want, second}, u.Callbacks())

		var listed []simulate.Callback
		require.NoError(t, json.Unmarshal([]byte(u.get(t, http.MethodGet, "/_sim/callbacks")), &listed))
		require.Len(t, listed, 2)
		assert.Equal(t, "evt_2", listed[1].ID)
		assert.Empty(t, u.Calls(), "a callback is no call of the provider")
		u.Reset()
		assert.Empty(t, u.Callbacks())
		assert.Equal(t, "[]", u.get(t, http.MethodGet, "/_sim/callbacks"))
	})
}
