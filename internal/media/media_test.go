package media_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"spillway/internal/media"
	"spillway/internal/storetest"
)

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func queued() media.Job {
	return media.New("job_1", "acme", media.Video, "veo", []byte(`{}`), "evt_1", start)
}

// in is a job in a state, with the events that led to it.
func in(t testing.TB, s media.State) media.Job {
	t.Helper()
	claim, accepted := media.Claim{Owner: "o1", Channel: "c", Provider: "p"}, media.Accepted{Owner: "o1", Upstream: "up", PollIn: 2 * time.Second}
	path := map[media.State][]media.Event{
		media.Queued: nil, media.Submitting: {claim}, media.Running: {claim, accepted}, media.Uncertain: {claim, media.Lost{Owner: "o1"}},
		media.Succeeded: {claim, accepted, media.Done{}}, media.Failed: {claim, accepted, media.Ended{State: media.Failed}},
		media.Cancelled: {media.Ended{State: media.Cancelled}}, media.Expired: {media.Ended{State: media.Expired}},
	}
	j := queued()
	for _, e := range path[s] {
		var err error
		j, err = j.Next(e, start)
		require.NoError(t, err)
	}
	require.Equal(t, s, j.State)
	return j
}

// TestEveryEventInEveryState is contract.md §8 as a table: what is not in it has no edge, and leaves the job as it was.
func TestEveryEventInEveryState(t *testing.T) {
	type table map[media.State]media.State
	for name, c := range map[string]struct {
		event media.Event
		after time.Duration
		want  table
	}{
		"a claim": {event: media.Claim{Owner: "o2"}, want: table{media.Queued: media.Submitting}},
		"a claim of a channel that was chosen before another one refused": {event: media.Claim{Owner: "o2", Refusals: 1}, want: table{}},
		"accepted, by the owner":               {event: media.Accepted{Owner: "o1", Upstream: "x"}, want: table{media.Submitting: media.Running}},
		"accepted, by an old owner":            {event: media.Accepted{Owner: "o0", Upstream: "x"}, want: table{}},
		"found again by a lookup":              {event: media.Accepted{Upstream: "x"}, want: table{media.Uncertain: media.Running}},
		"nobody is asked for now":              {event: media.Waiting{Error: media.Error{Code: "x"}}, want: table{media.Queued: media.Queued}},
		"refused":                              {event: media.Refused{Owner: "o1"}, want: table{media.Submitting: media.Queued}},
		"refused, says an old owner":           {event: media.Refused{Owner: "o0"}, want: table{}},
		"lost":                                 {event: media.Lost{Owner: "o1"}, want: table{media.Submitting: media.Uncertain}},
		"the lease has run out":                {event: media.Lost{}, after: media.SubmitLease, want: table{media.Submitting: media.Uncertain}},
		"the lease has not run out":            {event: media.Lost{}, after: media.SubmitLease - 1, want: table{}},
		"pending, of the poll that is due":     {event: media.Pending{Seq: 1}, want: table{media.Running: media.Running}},
		"pending, of a poll from before":       {event: media.Pending{Seq: 0}, want: table{}},
		"a poll that failed":                   {event: media.PollFailed{Seq: 1}, want: table{media.Running: media.Running}},
		"done":                                 {event: media.Done{}, want: table{media.Running: media.Succeeded}},
		"failed":                               {event: media.Ended{State: media.Failed}, want: table{media.Running: media.Failed, media.Uncertain: media.Failed}},
		"failed, says the owner":               {event: media.Ended{State: media.Failed, Owner: "o1"}, want: table{media.Submitting: media.Failed, media.Running: media.Failed, media.Uncertain: media.Failed}},
		"cancelled":                            {event: media.Ended{State: media.Cancelled}, want: table{media.Queued: media.Cancelled, media.Running: media.Cancelled}},
		"expired":                              {event: media.Ended{State: media.Expired}, want: table{media.Queued: media.Expired, media.Running: media.Expired, media.Uncertain: media.Expired}},
		"the provider was asked to cancel":     {event: media.AskedToCancel{}, want: table{media.Running: media.Running}},
		"nudged, when its poll is due":         {event: media.Nudged{}, after: 2 * time.Second, want: table{media.Queued: media.Queued, media.Running: media.Running, media.Uncertain: media.Uncertain}},
		"nudged, when it has gone on":          {event: media.Nudged{}, after: time.Second, want: table{media.Queued: media.Queued, media.Uncertain: media.Uncertain}},
		"an end that is none":                  {event: media.Ended{State: media.Running}, want: table{}},
		"success is not an end without result": {event: media.Ended{State: media.Succeeded}, want: table{}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range media.States() {
				before := in(t, s)
				now := start.Add(c.after)
				after, err := before.Next(c.event, now)
				want, ok := c.want[s]
				if !ok {
					require.ErrorIs(t, err, media.ErrNoEdge, s)
					assert.Equal(t, before, after, s)
					continue
				}
				require.NoError(t, err, s)
				assert.Equal(t, want, after.State, s)
				assert.Equal(t, before.Version+1, after.Version, s)
				assert.Equal(t, want.Terminal(), !after.FinishedAt.IsZero(), s)
			}
		})
	}
}

func TestPollingGivesUp(t *testing.T) {
	t.Run("after twenty failures in a row", func(t *testing.T) {
		j := in(t, media.Running)
		for i := range media.MaxPollFailures {
			require.Equal(t, media.Running, j.State, i)
			if i == 10 { // an answer in between counts anew
				j, _ = j.Next(media.Pending{Seq: j.Seq}, start)
				require.Zero(t, j.PollFailures)
				for range 10 {
					j, _ = j.Next(media.PollFailed{Seq: j.Seq}, start)
				}
			}
			j, _ = j.Next(media.PollFailed{Seq: j.Seq, Error: media.Error{Code: "provider_unavailable"}}, start)
		}
		assert.Equal(t, media.Failed, j.State)
		assert.Equal(t, "provider_unavailable", j.Error.Code)
	})
	t.Run("after two hundred polls", func(t *testing.T) {
		j := in(t, media.Running)
		polls := 0
		for ; j.State == media.Running; polls++ {
			var err error
			j, err = j.Next(media.Pending{Seq: j.Seq}, start)
			require.NoError(t, err)
		}
		assert.Equal(t, media.MaxPolls, polls)
		assert.Equal(t, media.Failed, j.State)
	})
}

func TestProgressAndStrangeWords(t *testing.T) {
	j := in(t, media.Running)
	for _, p := range []int{30, 20, 100} {
		j, _ = j.Next(media.Pending{Seq: j.Seq, Progress: p, Strange: "REHEARSING"}, start)
	}
	assert.Equal(t, 99, j.Progress, "it does not go back, and is whole with the result only")
	assert.Equal(t, "REHEARSING", j.Strange)
	j, _ = j.Next(media.Done{Result: media.Result{Object: "results/x"}}, start)
	assert.Equal(t, 100, j.Progress)
}

func TestPollIn(t *testing.T) {
	for seq, want := range []time.Duration{2, 4, 8, 16, 32, 60, 60, 60} {
		assert.Equal(t, want*time.Second, media.Limits{}.PollIn(uint64(seq), 0, 0.5))
	}
	assert.Equal(t, 60*time.Second, media.Limits{}.PollIn(1<<63, 0, 0.5))
	assert.Equal(t, 20*time.Minute, media.Limits{}.PollIn(3, 20*time.Minute, 0.9), "a hint wins as it is")
	assert.Equal(t, 1600*time.Millisecond, media.Limits{}.PollIn(0, 0, 0))
}

func TestSweep(t *testing.T) {
	for name, c := range map[string]struct {
		state media.State
		after time.Duration
		want  media.Task
	}{
		"queued for a while: its message was lost":    {media.Queued, media.Overdue + 1, media.Enqueue},
		"queued just now":                             {media.Queued, media.Overdue, media.Nothing},
		"submitting":                                  {media.Submitting, time.Minute, media.Nothing},
		"its owner is gone":                           {media.Submitting, media.SubmitLease, media.Unlease},
		"its owner is gone, and the deadline is past": {media.Submitting, media.Lifetime, media.Unlease},
		"a poll is late by less than two minutes":     {media.Running, media.Overdue + 2*time.Second, media.Nothing},
		"a poll is overdue":                           {media.Running, media.Overdue + 3*time.Second, media.Enqueue},
		"running, past its deadline":                  {media.Running, media.Lifetime, media.GiveUp},
		"uncertain: the provider is asked":            {media.Uncertain, time.Second, media.Reconcile},
		"uncertain, past its deadline":                {media.Uncertain, media.Lifetime, media.GiveUp},
		"over":                                        {media.Succeeded, time.Hour, media.Nothing},
	} {
		t.Run(name, func(t *testing.T) {
			j := in(t, c.state)
			now := start.Add(c.after)
			assert.Equal(t, c.want, media.Limits{}.Sweep(j, now))
			if c.want != media.Nothing && c.want != media.Reconcile {
				assert.False(t, j.LookAt().After(now), "a store finds it")
			}
		})
	}
}

// TestAPollThatNoMessageCanWaitForIsDueOnTime: the provider's hint is kept to by the sweeper, and not two minutes late.
func TestAPollThatNoMessageCanWaitForIsDueOnTime(t *testing.T) {
	for hint, late := range map[time.Duration]time.Duration{media.MaxDelay: media.Overdue + 1, media.MaxDelay + 1: 0, 20 * time.Minute: 0} {
		j, err := in(t, media.Running).Next(media.Pending{Seq: 1, PollIn: hint}, start)
		require.NoError(t, err)
		due := start.Add(hint)
		assert.Equal(t, media.Nothing, media.Limits{}.Sweep(j, due.Add(late-1)), hint)
		assert.Equal(t, media.Enqueue, media.Limits{}.Sweep(j, due.Add(late)), hint)
		j, err = j.Next(media.Nudged{}, due.Add(late))
		require.NoError(t, err)
		assert.Equal(t, media.Nothing, media.Limits{}.Sweep(j, due.Add(late+media.Overdue)), "its message is on its way now")
	}
}

func TestTelling(t *testing.T) {
	over := func() media.Job {
		j := queued()
		j.Callback = "https://example.com/hook"
		j, err := j.Next(media.Ended{State: media.Cancelled}, start)
		require.NoError(t, err)
		return j
	}
	t.Run("a job with a callback is told at its end, and again by the sweeper when nobody did", func(t *testing.T) {
		j := over()
		assert.Equal(t, media.Nothing, media.Limits{}.Sweep(j, start.Add(media.Overdue)))
		assert.Equal(t, media.Tell, media.Limits{}.Sweep(j, start.Add(media.Overdue+1)))
		assert.Equal(t, start, j.LookAt())
		j, err := j.Next(media.Told{N: 0}, start)
		require.NoError(t, err)
		assert.True(t, j.LookAt().IsZero())
		assert.Equal(t, media.Nothing, media.Limits{}.Sweep(j, start.Add(time.Hour)))
		_, err = j.Next(media.Told{N: 1}, start)
		require.ErrorIs(t, err, media.ErrNoEdge)
	})
	t.Run("a nudge puts it behind those that wait for longer, and moves no telling that is yet to come", func(t *testing.T) {
		later := start.Add(media.Overdue + 1)
		j, err := over().Next(media.Nudged{}, later)
		require.NoError(t, err)
		assert.Equal(t, later, j.LookAt())
		assert.Equal(t, media.Nothing, media.Limits{}.Sweep(j, later))
		j, err = j.Next(media.NotTold{N: 0, In: time.Minute}, later)
		require.NoError(t, err)
		_, err = j.Next(media.Nudged{}, later)
		require.ErrorIs(t, err, media.ErrNoEdge)
	})
	t.Run("a telling from before changes nothing", func(t *testing.T) {
		j, err := over().Next(media.NotTold{N: 0, In: time.Minute}, start)
		require.NoError(t, err)
		for _, e := range []media.Event{media.NotTold{N: 0}, media.Told{N: 0}} {
			_, err := j.Next(e, start)
			require.ErrorIs(t, err, media.ErrNoEdge)
		}
		assert.Equal(t, start.Add(time.Minute), j.TellAt)
	})
	t.Run("nobody is told for ever", func(t *testing.T) {
		j := over()
		for n := range media.MaxTells {
			assert.False(t, j.TellAt.IsZero(), n)
			assert.False(t, j.Untold, n)
			assert.LessOrEqual(t, media.TellIn(n, 0.999), media.MaxDelay, "a message can wait so long")
			j, _ = j.Next(media.NotTold{N: n, In: media.TellIn(n, 0.5)}, start)
		}
		assert.True(t, j.TellAt.IsZero())
		assert.True(t, j.Untold, "and the job says so")
	})
	t.Run("a job that is not over, or has no callback, is told to nobody", func(t *testing.T) {
		for _, s := range media.States() {
			_, err := in(t, s).Next(media.Told{}, start)
			require.ErrorIs(t, err, media.ErrNoEdge)
		}
	})
}

// TestAJobIsSubmittedOnce: whatever happens in whatever order, as often as it likes, at most one submit is not refused for
// sure, and a terminal state is final.
func TestAJobIsSubmittedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j, now := queued(), start
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 180).Draw(t, "s")) * time.Second)
			owner := fmt.Sprint("o", rapid.IntRange(0, 2).Draw(t, "owner"))
			seq := rapid.Uint64Range(0, 4).Draw(t, "seq")
			events := []media.Event{media.Claim{Owner: owner, Refusals: j.Refusals}, media.Accepted{Owner: owner, Upstream: "x"}, media.Accepted{Upstream: "x"}, media.Refused{Owner: owner},
				media.Lost{Owner: owner}, media.Lost{}, media.Pending{Seq: seq}, media.PollFailed{Seq: seq}, media.Done{},
				media.Ended{State: media.Failed}, media.Ended{State: media.Expired}, media.Ended{State: media.Cancelled}, media.AskedToCancel{}, media.Nudged{}, media.Waiting{}}
			before := j
			next, err := j.Next(rapid.SampledFrom(events).Draw(t, "event"), now)
			if before.State.Terminal() && err == nil {
				t.Fatalf("%s is left for %s", before.State, next.State)
			}
			if next.Submits > 1 {
				t.Fatalf("submitted %d times", next.Submits)
			}
			if (next.Result != nil) != (next.State == media.Succeeded) {
				t.Fatal("a result belongs to success, and success to a result")
			}
			j = next
		}
	})
}

func TestTheMemoryKeepsWhatAStoreMust(t *testing.T) { storetest.Jobs(t, &media.Memory{}) }

// TestWhoRefusedAJobIsRemembered: by name, in their order; a value from before does not change with the next.
func TestWhoRefusedAJobIsRemembered(t *testing.T) {
	j := queued()
	var before []media.Job
	for _, channel := range []string{"a", "b", "c"} {
		before = append(before, j)
		for _, e := range []media.Event{media.Claim{Owner: "o", Channel: channel, Credential: "main", Refusals: j.Refusals}, media.Refused{Owner: "o"}} {
			var err error
			j, err = j.Next(e, start)
			require.NoError(t, err)
		}
	}
	main := func(channel string) media.Refuser { return media.Refuser{Channel: channel, Credential: "main"} }
	assert.Equal(t, []media.Refuser{main("a"), main("b"), main("c")}, j.RefusedBy)
	assert.Equal(t, 3, j.Refusals)
	for i, b := range before {
		assert.Len(t, b.RefusedBy, i)
	}
	other, err := before[2].Next(media.Claim{Owner: "o", Channel: "z", Credential: "main", Refusals: 2}, start)
	require.NoError(t, err)
	_, err = other.Next(media.Refused{Owner: "o"}, start)
	require.NoError(t, err)
	assert.Equal(t, main("c"), j.RefusedBy[2])
}

// TestTheCostOfAnEnd: a cost belongs to the end alone, and one that nobody knows is not zero.
func TestTheCostOfAnEnd(t *testing.T) {
	listed := media.Cost{Known: true, Nano: 3_200_000_000, Basis: "listed", Version: "v1"}
	for name, c := range map[string]struct {
		from  media.State
		event media.Event
		want  media.Cost
	}{
		"what was made costs what its event says":              {media.Running, media.Done{Cost: listed}, listed},
		"what was made, at a price that nobody knows":          {media.Running, media.Done{}, media.Cost{}},
		"what failed costs what its event says":                {media.Running, media.Ended{State: media.Failed, Cost: media.Unmade()}, media.Unmade()},
		"what failed, and may be paid for":                     {media.Running, media.Ended{State: media.Failed}, media.Cost{}},
		"what nobody knows of may be paid for":                 {media.Uncertain, media.Ended{State: media.Expired}, media.Cost{}},
		"what was cancelled before it was submitted is free":   {media.Queued, media.Ended{State: media.Cancelled}, media.Unmade()},
		"what expired before it was submitted is free":         {media.Queued, media.Ended{State: media.Expired, Cost: listed}, media.Unmade()},
		"what is asked for too often may be made all the same": {media.Running, media.PollFailed{Seq: 1}, media.Cost{}},
	} {
		t.Run(name, func(t *testing.T) {
			j := in(t, c.from)
			j.PollFailures = media.MaxPollFailures - 1
			require.Zero(t, j.Cost)
			ended, err := j.Next(c.event, start)
			require.NoError(t, err)
			require.True(t, ended.State.Terminal())
			assert.Equal(t, c.want, ended.Cost)
		})
	}
}
