package simulate_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"spillway/internal/catalog"
	"spillway/internal/catalog/source"
	"spillway/internal/simulate"
)

// TestTheSampleConfigurationCallsEveryModel: whatever misbehaves here can be called by its bare name in `make run`, in
// every format, and nothing can that is not here.
func TestTheSampleConfigurationCallsEveryModel(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		var list struct{ Data []struct{ ID string } }
		ok(t, json.Unmarshal([]byte(u.get(t, http.MethodGet, "/v1/models")), &list))
		var want []string
		for _, m := range list.Data {
			switch m.ID {
			case "sim-f33": // takes the two in turn, which need channels of their own
			case "sim-noprefill": // F14 alone asks for it
				want = append(want, m.ID)
			default:
				want = append(want, m.ID)
				for _, format := range []string{"anthropic", "gemini", "responses"} {
					want = append(want, strings.Replace(m.ID, "sim-", "sim-"+format+"-", 1))
				}
			}
		}
		for _, m := range simulate.JobModels() {
			want = append(want, m.Name)
		}
		assert.ElementsMatch(t, want, sampleModels(t))
	})
}

// sampleModels are the simulated ones of the sample configuration, each once.
func sampleModels(t *testing.T) (models []string) {
	t.Helper()
	compiled, err := source.Read("../../infra/gateway.yaml")
	ok(t, err)
	config, err := catalog.Load(compiled, func(string) string { return "http://sim/v1" })
	ok(t, err)
	for _, c := range config.Channels {
		if m := string(c.Model); strings.HasPrefix(m, "sim-") && !slices.Contains(models, m) {
			models = append(models, m)
		}
	}
	return models
}
