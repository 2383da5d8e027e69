package jobs_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/breaker"
	"spillway/internal/fault"
	"spillway/internal/jobs"
	"spillway/internal/media"
)

// TestAJobSaysHowItCameToWhoServesIt: of each channel of the model why it was passed over, as a chat's headers say it.
func TestAJobSaysHowItCameToWhoServesIt(t *testing.T) {
	limited := submitted{err: status(429, fault.RateLimited)}
	sent := func(fallback, credential bool, reason string) media.Routing {
		return media.Routing{Reason: "mute:no_videos;" + reason, Served: "veo", Fallback: fallback, CredentialFallback: credential}
	}
	for name, c := range map[string]struct {
		organization string
		views        map[string]breaker.View
		taken        string // the channel whose probe somebody else makes
		submits      []submitted
		want         media.Routing
		attempts     int
	}{
		"the first":                        {"acme", nil, "", []submitted{accepted()}, sent(false, false, "one:ok;two:ok"), 1},
		"one that is open":                 {"acme", map[string]breaker.View{"one": isOpen}, "", []submitted{accepted()}, sent(true, false, "one:open;two:ok"), 1},
		"one at its limit":                 {"acme", map[string]breaker.View{"one": throttled}, "", []submitted{accepted()}, sent(true, false, "one:throttled;two:ok"), 1},
		"one whose probe is not ours":      {"acme", nil, "one", []submitted{accepted()}, sent(true, false, "one:probing;two:ok"), 1},
		"one that has refused":             {"acme", nil, "", []submitted{limited, accepted()}, sent(true, false, "one:refused;two:ok"), 2},
		"one that refuses from memory":     {"acme", map[string]breaker.View{"one": held(fault.Auth, 401)}, "", []submitted{accepted()}, sent(true, false, "one:refused;two:ok"), 1},
		"another key of the same":          {"bring", nil, "", []submitted{limited, accepted()}, sent(false, true, "one:ok;two:ok"), 2},
		"both keys of one have refused":    {"bring", nil, "", []submitted{limited, limited, accepted()}, sent(true, false, "one:refused;two:ok"), 3},
		"all have refused, the last ended": {"acme", nil, "", []submitted{limited}, sent(true, false, "one:refused;two:ok"), 2},
		"it waits for all": {"acme", map[string]breaker.View{"one": isOpen, "two": throttled}, "", nil,
			media.Routing{Reason: "mute:no_videos;one:open;two:throttled"}, 0},
		"one has refused, and it waits for the other": {"acme", map[string]breaker.View{"two": isOpen}, "", []submitted{limited},
			media.Routing{Reason: "mute:no_videos;one:refused;two:open"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			m := moody(t, w)
			m.taken[c.taken] = true
			w.studio.submit = c.submits
			if c.views != nil {
				m.views = c.views
			}
			o := order()
			o.Organization = c.organization
			j, _, err := w.engine.Begin(ctx, o)
			require.NoError(t, err)
			got, err := w.engine.Start(ctx, j)
			if got.State == media.Queued {
				require.ErrorIs(t, err, jobs.ErrNobody)
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, c.want, got.Routing)
			assert.Equal(t, c.attempts, got.Attempts)
			kept, err := w.memory.Get(ctx, o.Organization, j.ID)
			require.NoError(t, err)
			assert.Equal(t, got, *kept)
		})
	}
	t.Run("one that waits to be asked for the work itself", func(t *testing.T) {
		w, _ := withBox(nil, nil)
		j, _, err := w.engine.Begin(ctx, music("song"))
		require.NoError(t, err)
		got, err := w.engine.Start(ctx, j)
		require.NoError(t, err)
		assert.Equal(t, media.Queued, got.State)
		assert.Equal(t, media.Routing{Reason: "box:ok;tape:ok"}, got.Routing)
	})
}
