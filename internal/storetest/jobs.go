package storetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/media"
)

// Jobs runs what every media.Store must do. List and Open may lag: they are asked again for some seconds.
func Jobs(t *testing.T, s media.Store) {
	ctx := t.Context()
	now := truncated(time.Now())
	organization := fmt.Sprintf("org/%016x#é", rand.Uint64())
	job := func() media.Job {
		j := media.New(fmt.Sprintf("job_%016x", rand.Uint64()), organization, media.Video, "veo-3", []byte(`{"prompt":"a lighthouse"}`), "evt_1", now)
		j.Key, j.Fingerprint, j.Callback, j.Stamp = "k 1", "F", "https://example.com/hook", "S1"
		return j
	}
	next := func(t *testing.T, j media.Job, e media.Event) media.Job {
		t.Helper()
		n, err := j.Next(e, now)
		require.NoError(t, err)
		require.NoError(t, s.Replace(ctx, n))
		return n
	}
	get := func(t *testing.T, j media.Job) *media.Job {
		t.Helper()
		got, err := s.Get(ctx, j.Organization, j.ID)
		require.NoError(t, err)
		return got
	}

	t.Run("a job is created once, and read back as it was written", func(t *testing.T) {
		j := job()
		require.NoError(t, s.Create(ctx, j))
		assert.Equal(t, &j, get(t, j))
		require.ErrorIs(t, s.Create(ctx, j), media.ErrChanged)
	})
	t.Run("a job is kept whose request is as long as it may be", func(t *testing.T) {
		j := job()
		j.Request = bytes.Repeat([]byte("p"), 300_000)
		j.Whole = &media.Kept{Object: "media/x/request", Size: 5 << 20, SHA256: "ab"}
		require.NoError(t, s.Create(ctx, j))
		assert.True(t, assert.ObjectsAreEqual(&j, get(t, j)))
		next(t, j, media.Ended{State: media.Cancelled})
	})
	t.Run("a job is its organization's", func(t *testing.T) {
		j := job()
		require.NoError(t, s.Create(ctx, j))
		other := j
		other.Organization = "other"
		assert.Nil(t, get(t, other))
		assert.Nil(t, get(t, media.Job{Organization: organization, ID: "job_none"}))
	})
	t.Run("every member survives every step of a life", func(t *testing.T) {
		j := job()
		require.NoError(t, s.Create(ctx, j))
		for _, e := range []media.Event{
			media.Claim{Owner: "o1", Channel: "google/veo-3", Provider: "google", Credential: "main",
				Routing: media.Routing{Reason: "b #/é:open;google/veo-3:ok", Served: "veo-3.1", Fallback: true, CredentialFallback: true}},
			media.Accepted{Owner: "o1", Upstream: "operations/1", PollIn: 2 * time.Second},
			media.Pending{Seq: 1, Progress: 20, Strange: "REHEARSING", PollIn: 4 * time.Second},
			media.PollFailed{Seq: 2, PollIn: 8 * time.Second, Error: media.Error{Code: "provider_unavailable", Message: "the provider answered with an error", Class: "server_error"}},
			media.AskedToCancel{},
			media.Done{Result: media.Result{Object: "media/x.mp4", ContentType: "video/mp4", Size: 60 << 20, SHA256: "ab"},
				Cost: media.Cost{Known: true, Nano: 3_200_000_001, Basis: "listed", Version: "v1"}},
			media.NotTold{N: 0, In: 5 * time.Second},
			media.Told{N: 1},
		} {
			j = next(t, j, e)
			assert.Equal(t, &j, get(t, j), "%T", e)
		}
		refused := job()
		require.NoError(t, s.Create(ctx, refused))
		for _, e := range []media.Event{
			media.Claim{Owner: "o1", Channel: "a", Provider: "a", Credential: "main"},
			media.Refused{Owner: "o1", Error: media.Error{Code: "provider_rate_limited", Message: "throttled", Class: "rate_limited"}},
			media.Nudged{},
			media.Claim{Owner: "o2", Channel: "b #/é", Provider: "b", Credential: "k 1", Refusals: 1},
			media.Refused{Owner: "o2", Error: media.Error{Code: "provider_error", Message: "no money", Class: "quota"}},
			media.Claim{Owner: "o2", Channel: "b", Provider: "b", Credential: "main", Refusals: 2},
			media.Lost{Owner: "o2", Error: media.Error{Code: "provider_unavailable", Message: "broken"}},
			media.Accepted{Upstream: "operations/2", PollIn: 1500 * time.Millisecond},
			media.Ended{State: media.Cancelled},
			media.Told{N: 0, Unwanted: true},
		} {
			refused = next(t, refused, e)
			assert.Equal(t, &refused, get(t, refused), "%T", e)
		}
		failed := job()
		require.NoError(t, s.Create(ctx, failed))
		failed = next(t, failed, media.Claim{Owner: "o1"})
		failed = next(t, failed, media.Ended{State: media.Failed, Owner: "o1", Error: media.Error{Code: "content_filter", Message: "refused", Class: "content_policy"}})
		assert.Equal(t, &failed, get(t, failed))
		untold, err := media.Limits{MaxTells: 1}.Next(failed, media.NotTold{}, now)
		require.NoError(t, err)
		require.NoError(t, s.Replace(ctx, untold))
		assert.True(t, get(t, failed).Untold)
	})
	t.Run("a job that has changed is not replaced", func(t *testing.T) {
		j := job()
		require.NoError(t, s.Create(ctx, j))
		mine, err := j.Next(media.Claim{Owner: "o1"}, now)
		require.NoError(t, err)
		theirs, err := j.Next(media.Claim{Owner: "o2"}, now)
		require.NoError(t, err)
		require.NoError(t, s.Replace(ctx, theirs))
		require.ErrorIs(t, s.Replace(ctx, mine), media.ErrChanged)
		assert.Equal(t, &theirs, get(t, j))
		unknown := job()
		unknown.Version = 1
		require.ErrorIs(t, s.Replace(ctx, unknown), media.ErrChanged)
	})
	t.Run("B39 a: of thirty that claim a job at once one gets it", func(t *testing.T) {
		j := job()
		require.NoError(t, s.Create(ctx, j))
		var winners atomic.Int32
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				mine, err := j.Next(media.Claim{Owner: fmt.Sprint("o", i)}, now)
				assert.NoError(t, err)
				if err := s.Replace(ctx, mine); err == nil {
					winners.Add(1)
				} else {
					assert.ErrorIs(t, err, media.ErrChanged)
				}
			})
		}
		all.Wait()
		assert.EqualValues(t, 1, winners.Load())
	})
	t.Run("an organization's jobs are listed page by page, each of them once", func(t *testing.T) { listed(t, s, now) })
	t.Run("open jobs are found when they are to be looked at, and of terminal ones those that are yet to be told", func(t *testing.T) {
		due, later, over, untold, told := job(), job(), job(), job(), job()
		over.Callback = ""
		for _, j := range []*media.Job{&due, &later, &over, &untold, &told} {
			require.NoError(t, s.Create(ctx, *j))
			*j = next(t, *j, media.Claim{Owner: "o1"})
		}
		due = next(t, due, media.Accepted{Owner: "o1", Upstream: "a", PollIn: 2 * time.Second})
		next(t, later, media.Accepted{Owner: "o1", Upstream: "b", PollIn: 20 * time.Minute})
		next(t, over, media.Ended{State: media.Failed, Owner: "o1"})
		untold = next(t, untold, media.Ended{State: media.Failed, Owner: "o1"})
		next(t, next(t, told, media.Ended{State: media.Failed, Owner: "o1"}), media.Told{N: 0})
		found := func() map[string]bool {
			all, err := s.Open(ctx, now.Add(3*time.Second), 1000)
			require.NoError(t, err)
			ids := map[string]bool{}
			for _, j := range all {
				ids[j.ID] = true
				switch j.ID {
				case due.ID:
					assert.Equal(t, due, j)
				case untold.ID:
					assert.Equal(t, untold, j)
				}
			}
			return ids
		}
		eventually(t, func() bool { f := found(); return f[due.ID] && f[untold.ID] && !f[over.ID] && !f[told.ID] })
		assert.False(t, found()[later.ID])
	})
	t.Run("of open jobs those come first that wait for longest", func(t *testing.T) {
		long := now.Add(-10 * 365 * 24 * time.Hour) // longer than what others have left in the store
		var want []string
		for _, i := range []int{2, 0, 3, 1} {
			j := job()
			j.CreatedAt, j.UpdatedAt, j.ID = long, long.Add(time.Duration(i)*time.Second), fmt.Sprintf("%s_%d", j.ID, i)
			require.NoError(t, s.Create(ctx, j))
			want = append(want, j.ID)
		}
		slices.SortFunc(want, func(a, b string) int { return strings.Compare(a[len(a)-1:], b[len(b)-1:]) })
		first := func(limit int) (ids []string) {
			all, err := s.Open(ctx, now, limit)
			require.NoError(t, err)
			for _, j := range all {
				ids = append(ids, j.ID)
			}
			return ids
		}
		eventually(t, func() bool { return slices.Equal(want, first(4)) })
		assert.Equal(t, want[:2], first(2))
	})
}

// listed is what every list must be: exact, whatever is wanted and however short its pages are, also where jobs were made in the same
// millisecond.
func listed(t *testing.T, s media.Store, now time.Time) {
	ctx := t.Context()
	own := fmt.Sprintf("org/%016x#é", rand.Uint64())
	var all []media.Job // oldest first
	for i, made := range []time.Duration{0, 1, 1, 1, 1, 1, 2, 3, 3, 1000} {
		j := media.New(fmt.Sprintf("job_%d_%016x", i, rand.Uint64()), own, media.Video, "veo-3", []byte(`{}`), "evt_1", now.Add(made*time.Millisecond))
		if i%3 == 1 {
			j.Kind = media.Music
		}
		all = append(all, j)
	}
	for _, i := range rand.Perm(len(all)) {
		require.NoError(t, s.Create(ctx, all[i]))
		if i%2 == 0 {
			over, err := all[i].Next(media.Ended{State: media.Cancelled}, now)
			require.NoError(t, err)
			require.NoError(t, s.Replace(ctx, over))
			all[i] = over
		}
	}
	elsewhere := all[3]
	elsewhere.Organization += "x"
	require.NoError(t, s.Create(ctx, media.New("job_elsewhere", elsewhere.Organization, media.Video, "veo-3", []byte(`{}`), "evt_1", now)))

	page := func(t *testing.T, w media.Wanted) media.Page {
		t.Helper()
		p, err := s.List(ctx, own, w)
		require.NoError(t, err)
		return p
	}
	eventually(t, func() bool {
		return len(page(t, media.Wanted{Limit: 100}).Jobs) == len(all) && len(page(t, media.Wanted{State: media.Cancelled, Limit: 100}).Jobs) == len(all)/2
	})
	for name, w := range map[string]media.Wanted{
		"all of them":                   {},
		"all of them, oldest first":     {OldestFirst: true},
		"those of one state":            {State: media.Cancelled},
		"those of one kind":             {Kind: media.Music},
		"those of one kind and state":   {Kind: media.Video, State: media.Queued},
		"those of both, oldest first":   {Kind: media.Video, State: media.Queued, OldestFirst: true},
		"those of a state that none is": {State: media.Expired},
	} {
		var want []media.Job
		for _, j := range all {
			if w.Takes(j) {
				want = append(want, j)
			}
		}
		if !w.OldestFirst {
			slices.Reverse(want)
		}
		for _, limit := range []int{1, 2, len(want) - 1, len(want), len(want) + 1} {
			w := w
			if w.Limit = limit; limit < 1 {
				continue
			}
			t.Run(fmt.Sprintf("%s, %d a page", name, limit), func(t *testing.T) {
				var got []media.Job
				for pages := 0; ; pages++ {
					require.LessOrEqual(t, pages, len(all), "the list does not end")
					p := page(t, w)
					got = append(got, p.Jobs...)
					if !p.More {
						assert.Empty(t, p.Last)
						break
					}
					require.Len(t, p.Jobs, limit, "there are so few that none is looked through in vain")
					require.Equal(t, p.Jobs[limit-1].ID, p.Last)
					require.Less(t, len(got), len(want), "there is no more, and it says so")
					w.After = &media.Job{ID: p.Last, CreatedAt: p.Jobs[limit-1].CreatedAt}
				}
				assert.Equal(t, want, got)
			})
		}
	}
	t.Run("behind a job that is not wanted itself", func(t *testing.T) {
		p := page(t, media.Wanted{State: media.Cancelled, After: &all[5], Limit: 1})
		require.Len(t, p.Jobs, 1)
		assert.Equal(t, all[4].ID, p.Jobs[0].ID)
		assert.True(t, p.More)
	})
	t.Run("behind a job that has been forgotten", func(t *testing.T) {
		p := page(t, media.Wanted{After: &media.Job{ID: "job_", CreatedAt: all[6].CreatedAt}, Limit: 1, OldestFirst: true})
		require.Len(t, p.Jobs, 1)
		assert.Equal(t, all[6].ID, p.Jobs[0].ID)
	})
	t.Run("behind the last one", func(t *testing.T) {
		assert.Empty(t, page(t, media.Wanted{After: &all[0], Limit: 5}))
	})
}

// eventually asks again until a store that may lag has caught up.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 10*time.Second, 20*time.Millisecond)
}
