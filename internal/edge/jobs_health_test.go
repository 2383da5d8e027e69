package edge_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/fault"
	"spillway/internal/jobs"
	"spillway/internal/provider"
)

// TestOrdersInAnOutage: the client of a 202 has a job, whoever is down; what it is told of it is true, and names nobody.
func TestOrdersInAnOutage(t *testing.T) {
	const waits = "no provider has taken the job yet (every provider of the model is failing; none is asked for now); it is tried again until its deadline"
	down := refusal(503, fault.ServerError)
	held := refusal(401, fault.Auth)
	for name, tt := range map[string]struct {
		answers map[string]error // of each channel; those that are left out take the job
		before  int              // orders before the one that is looked at
		after   time.Duration    // between the last of them and that one
		status  string
		asked   []string // by that one
		by      string   // X-LLM-Provider
		why     string   // X-LLM-Routing-Reason
		message string
	}{
		"the first order of an outage is lost":                         {map[string]error{"first": down}, 0, 0, "uncertain", []string{"first"}, "google", "first:ok;second:ok", "nobody knows"},
		"the fourth goes to the next channel, and the first has peace": {map[string]error{"first": down}, 3, time.Second, "running", []string{"second"}, "fal", "first:open;second:ok", ""},
		"half a minute later one order finds out that it is still down": {map[string]error{"first": down}, 3, 40 * time.Second, "uncertain", []string{"first"}, "google", "first:ok;second:ok",
			"nobody knows"},
		"all are down: the order waits, and nobody is asked": {map[string]error{"first": down, "second": down}, 6, time.Second, "queued", nil, "", "first:open;second:open", waits},
		"a key that is refused is not called again":          {map[string]error{"first": held}, 1, time.Minute, "running", []string{"second"}, "fal", "first:refused;second:ok", ""},
		"a key that is refused is tried again when its hold is over": {map[string]error{"first": held}, 1, 6 * time.Minute, "running", []string{"first", "second"}, "fal", "first:refused;second:ok",
			""},
		"every key is refused: the job fails without a call": {map[string]error{"first": held, "second": refusal(402, fault.Quota)}, 1, time.Minute, "failed", nil, "fal", "first:refused;second:ok", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorkshop(t)
				w.engine.Health = &jobs.Circuits{Fleet: w.gateway.Health, Policy: w.gateway.Policy, To: w.gateway.Recorder}
				w.studio.answer = func(_ context.Context, task provider.Task) (provider.Submission, error) {
					return provider.Submission{Upstream: operationID}, tt.answers[task.Channel.Name]
				}
				for n := range tt.before {
					require.Equal(t, http.StatusAccepted, w.order(t, strings.Repeat("b", n+1)).status)
				}
				time.Sleep(tt.after)
				w.studio.asked = nil
				got := w.order(t, "k1")
				require.Equal(t, http.StatusAccepted, got.status, got.body)
				assert.Equal(t, tt.asked, w.studio.asked)
				assert.Equal(t, tt.by, got.header.Get("X-LLM-Provider"))
				assert.Equal(t, tt.why, got.header.Get("X-LLM-Routing-Reason"))
				job := w.send(t, http.MethodGet, "/v1/jobs/"+got.get("id").Str, "")
				assert.Equal(t, tt.status, job.get("status").Str)
				assert.True(t, strings.HasPrefix(job.get("message").Str, tt.message), job.body)
				if tt.message == "" {
					assert.False(t, job.get("message").Exists(), job.body)
				}
				again := w.order(t, "k1")
				assert.Equal(t, got.body, again.body)
				assert.Equal(t, tt.asked, w.studio.asked, "repeating it asks nobody")
				for _, secret := range []string{"google", "fal", `"first"`, `"second"`, "main"} {
					assert.NotContains(t, got.body+job.body, secret)
				}
			})
		})
	}
}
