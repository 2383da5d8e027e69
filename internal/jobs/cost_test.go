package jobs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/catalog"
	"spillway/internal/fault"
	"spillway/internal/media"
	"spillway/internal/provider"
	"spillway/internal/usage"
)

// priced is a world whose one channel has the prices of Google's.
func priced(t *testing.T) *world {
	t.Helper()
	w := newWorld()
	var err error
	w.engine.Catalog, err = catalog.Load([]byte(`{"version":"1","providers":[{"name":"one","kind":"fal","base_url":"https://one.test/v1","prices":"google"}],
		"channels":[{"name":"one","provider":"one","models":["veo-3.1-generate-preview"],"credentials":[{"alias":"main","secret":"env:K"}]}],
		"organizations":[{"name":"acme","models":["veo-3.1-generate-preview"]}]}`), func(string) string { return "secret" })
	require.NoError(t, err)
	w.engine.Prices = usage.EmbeddedWorks()
	return w
}

// TestWhatAJobCost: what was made costs what was asked for; what surely was not made costs nothing; anything else is not known.
func TestWhatAJobCost(t *testing.T) {
	version := usage.EmbeddedWorks().Version()
	listed := func(nano int64) media.Cost {
		return media.Cost{Known: true, Nano: nano, Basis: "listed", Version: version}
	}
	unknown := media.Cost{Version: version}
	failedWith := func(code string, class fault.Class) polled {
		return polled{Status: provider.Status{State: media.Failed, Error: media.Error{Code: code, Message: "no", Class: string(class)}}}
	}
	for name, c := range map[string]struct {
		request string
		submit  submitted
		poll    polled
		state   media.State
		want    media.Cost
	}{
		"eight seconds of 4k":                                               {`"seconds":8,"size":"3840x2160"`, accepted(), succeeded(), media.Succeeded, listed(4_800_000_000)},
		"half a second more":                                                {`"seconds":"4.5","size":"720x1280"`, accepted(), succeeded(), media.Succeeded, listed(1_800_000_000)},
		"as long and as large as the provider makes it":                     {`"seed":1`, accepted(), succeeded(), media.Succeeded, listed(3_200_000_000)},
		"a size that has no price":                                          {`"size":"1000x1000"`, accepted(), succeeded(), media.Succeeded, unknown},
		"a work in hand costs what one at an address does":                  {`"seconds":8`, submitted{work: mp4}, pending(), media.Succeeded, listed(3_200_000_000)},
		"what moderation refuses, where the provider says that it is free":  {`"seconds":8`, accepted(), failedWith(media.ContentFilter, fault.ContentPolicy), media.Failed, listed(0)},
		"what failed otherwise may be paid for":                             {`"seconds":8`, accepted(), failedWith("provider_error", fault.ServerError), media.Failed, media.Cost{}},
		"what was made and cannot be shown may be paid for":                 {`"seconds":8`, accepted(), polled{Status: provider.Status{State: media.Succeeded}}, media.Failed, media.Cost{}},
		"what every channel refused cost nothing":                           {`"seconds":8`, submitted{err: status(401, fault.Auth)}, pending(), media.Failed, media.Unmade()},
		"an order that the provider does not understand may have cost":      {`"seconds":8`, submitted{err: status(400, fault.InvalidRequest)}, pending(), media.Failed, media.Cost{}},
		"what nobody knows of has no cost that anybody knows at its end":    {`"seconds":8`, submitted{err: lost()}, pending(), media.Expired, media.Cost{}},
		"what is not over at its deadline may be made, and paid for, later": {`"seconds":8`, accepted(), pending(), media.Expired, media.Cost{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := priced(t)
			w.studio.submit, w.studio.poll = []submitted{c.submit}, []polled{c.poll}
			o := order()
			o.Model, o.Request = "veo-3.1-generate-preview", []byte(`{"model":"veo-3.1-generate-preview","prompt":"p",`+c.request+`}`)
			j := w.post(t, o)
			w.run(t, media.Lifetime+time.Minute)
			_, err := w.engine.Sweep(ctx, 10)
			require.NoError(t, err)
			j = w.job(t, j.ID)
			assert.Equal(t, c.state, j.State)
			assert.Equal(t, c.want, j.Cost)
		})
	}
	t.Run("a job that was cancelled before anybody took it cost nothing", func(t *testing.T) {
		w := priced(t)
		j, _, err := w.engine.Begin(ctx, order())
		require.NoError(t, err)
		cancelled, _, err := w.engine.Cancel(ctx, "acme", j.ID)
		require.NoError(t, err)
		assert.Equal(t, media.Unmade(), cancelled.Cost)
	})
	t.Run("a job that its provider surely does not have cost nothing", func(t *testing.T) {
		w := priced(t)
		w.canFind()
		w.studio.submit, w.studio.found = []submitted{{err: lost()}}, func() (string, bool, error) { return "", false, nil }
		o := order()
		o.Model = "veo-3.1-generate-preview"
		j := w.post(t, o)
		w.now = w.now.Add(3 * time.Minute)
		_, err := w.engine.Sweep(ctx, 10)
		require.NoError(t, err)
		j = w.job(t, j.ID)
		assert.Equal(t, media.Failed, j.State)
		assert.Equal(t, media.Unmade(), j.Cost)
	})
}
