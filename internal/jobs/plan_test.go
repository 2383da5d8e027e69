package jobs_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"spillway/internal/fault"
	"spillway/internal/media"
)

// TestThoseWhoRefusedAJobArePassedBy: also where equals are drawn by their weights, by whoever looks, each is asked once.
func TestThoseWhoRefusedAJobArePassedBy(t *testing.T) {
	seen := map[string]bool{}
	for n := range 20 {
		w := newWorld()
		w.studio.submit, w.studio.poll = []submitted{{err: status(429, fault.RateLimited)}}, []polled{pending()}
		o := order()
		o.Model, o.Key = "equals", fmt.Sprint("k", n)
		j := w.post(t, o)
		assert.Equal(t, media.Failed, j.State)
		assert.ElementsMatch(t, []string{"left", "right"}, w.studio.asked)
		seen[w.studio.asked[0]] = true
	}
	assert.Len(t, seen, 2, "they share the load")
}

func TestAPreferredChannelIsAskedFirst(t *testing.T) {
	w := newWorld()
	w.studio.submit, w.studio.poll = []submitted{{err: status(429, fault.RateLimited)}}, []polled{pending()}
	o := order()
	o.Request = []byte(`{"model":"veo","prompt":"p","prefer":"two"}`)
	w.post(t, o)
	assert.Equal(t, []string{"two", "one"}, w.studio.asked)
}
