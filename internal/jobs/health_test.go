package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/breaker"
	"spillway/internal/fault"
	"spillway/internal/jobs"
	"spillway/internal/media"
	"spillway/internal/provider"
	"spillway/internal/route"
)

// moods is a Health that somebody else decides. It fails whoever does not deal with it as must be.
type moods struct {
	t require.TestingT

	mu      sync.Mutex
	views   map[string]breaker.View // by channel; none: it may be asked
	taken   map[string]bool         // channels whose probe somebody else is making, which shows when it is asked for
	looks   int
	open    int      // visits and permits that are not over
	reports []string // of each permit: what became of it
}

func moody(t require.TestingT, w *world) *moods {
	m := &moods{t: t, views: map[string]breaker.View{}, taken: map[string]bool{}}
	w.engine.Health = m
	return m
}

func (m *moods) Visit(context.Context) jobs.Visit {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open++
	return &mood{m}
}

type mood struct{ *moods }

// view is how a candidate stands. The lock is held.
func (m *moods) view(c route.Candidate) breaker.View {
	v, ok := m.views[c.Channel.Name]
	if !ok {
		v.Reason = breaker.OK
	}
	return v
}

func (m *mood) Look(all []route.Candidate) []breaker.View {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looks++
	views := make([]breaker.View, len(all))
	for i, c := range all {
		views[i] = m.view(c)
	}
	return views
}

func (m *mood) Admit(c route.Candidate, within time.Duration) jobs.Permit {
	m.mu.Lock()
	defer m.mu.Unlock()
	assert.Equal(m.t, media.SubmitLease-10*time.Second, within)
	assert.Equal(m.t, breaker.OK, m.view(c).Reason, "%s is asked although it may not be", c.Channel.Name)
	if m.taken[c.Channel.Name] {
		return nil
	}
	m.open++
	return &pass{of: m.moods, channel: c.Channel.Name}
}

func (m *mood) End() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open--
}

type pass struct {
	of      *moods
	channel string
	over    bool
}

func (p *pass) Report(f *fault.Failure, stalled bool) {
	what := "taken"
	if f != nil {
		what = string(f.Class)
	}
	if stalled {
		what += ", stalled"
	}
	assert.False(p.of.t, p.over, "what became of a call is told once")
	p.end(what)
}

func (p *pass) Free() {
	if !p.over {
		p.end("free")
	}
}

func (p *pass) end(what string) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.over = true
	p.of.open--
	p.of.reports = append(p.of.reports, p.channel+": "+what)
}

// held is a view of a candidate that is answered from memory.
func held(class fault.Class, code int) breaker.View {
	return breaker.View{Reason: "held_" + breaker.Reason(class), LastClass: class, Remembered: &breaker.Remembered{Class: class, Status: code, Until: start.Add(time.Hour)}}
}

var (
	isOpen    = breaker.View{State: breaker.Open, Reason: breaker.IsOpen, LastClass: fault.ServerError}
	probing   = breaker.View{State: breaker.HalfOpen, Reason: breaker.Probing, LastClass: fault.Overloaded}
	throttled = breaker.View{Reason: breaker.Throttled, LastClass: fault.RateLimited}
)

const allFail, allLimited = "every provider of the model is failing; none is asked for now", "every credential of the model is at its limit"

// TestWhoIsAskedToTakeAJob: by how the two candidates of a model stand, the one first.
func TestWhoIsAskedToTakeAJob(t *testing.T) {
	one, two := media.Refuser{Channel: "one", Credential: "main"}, media.Refuser{Channel: "two", Credential: "main"}
	limited := submitted{err: status(429, fault.RateLimited)}
	for name, c := range map[string]struct {
		views     map[string]breaker.View
		taken     string
		submits   []submitted
		asked     []string
		reports   []string
		want      media.State
		refusedBy []media.Refuser
		last      media.Error
	}{
		"all are well: the first": {nil, "", []submitted{accepted()}, []string{"one"}, []string{"one: taken"}, media.Running, nil, media.Error{}},
		"a circuit that is open is passed over": {map[string]breaker.View{"one": isOpen}, "", []submitted{accepted()}, []string{"two"}, []string{"two: taken"},
			media.Running, nil, media.Error{}},
		"one whose provider asked for a pause is passed over": {map[string]breaker.View{"one": throttled}, "", []submitted{accepted()}, []string{"two"},
			[]string{"two: taken"}, media.Running, nil, media.Error{}},
		"one whose probe is on its way is passed over": {map[string]breaker.View{"one": probing}, "", []submitted{accepted()}, []string{"two"}, []string{"two: taken"},
			media.Running, nil, media.Error{}},
		"so is one whose probe somebody else has just begun": {nil, "one", []submitted{accepted()}, []string{"two"}, []string{"two: taken"}, media.Running, nil, media.Error{}},
		"a key that is refused keeps its place, and is not called": {map[string]breaker.View{"one": held(fault.Auth, 401)}, "", []submitted{accepted()}, []string{"two"},
			[]string{"two: taken"}, media.Running, []media.Refuser{one}, media.Error{Code: "provider_error", Message: "the provider answered with an error: auth", Class: "auth"}},
		"one key that is refused, and nobody else may be asked: it waits": {map[string]breaker.View{"one": held(fault.Quota, 402), "two": isOpen}, "", nil, nil, nil,
			media.Queued, []media.Refuser{one}, media.Error{Code: "provider_unavailable", Message: allFail, Class: "server_error"}},
		"all keys are refused: it has failed, and nobody was called": {map[string]breaker.View{"one": held(fault.Quota, 402), "two": held(fault.ModelUnavailable, 404)}, "", nil, nil, nil,
			media.Failed, []media.Refuser{one}, media.Error{Code: "provider_error", Message: "the provider answered with an error: model_unavailable", Class: "model_unavailable"}},
		"a refusal that no other channel follows is remembered as one": {map[string]breaker.View{"one": held(fault.Auth, 400)}, "", nil, nil, nil,
			media.Failed, nil, media.Error{Code: "provider_error", Message: "the provider answered with an error: auth", Class: "auth"}},
		"one whose account was empty, by a 503: that nobody was called is known": {map[string]breaker.View{"one": held(fault.Quota, 503)}, "", nil, nil, nil,
			media.Failed, nil, media.Error{Code: "provider_error", Message: "the provider answered with an error: quota", Class: "quota"}},
		"all circuits are open: it waits": {map[string]breaker.View{"one": isOpen, "two": probing}, "", nil, nil, nil, media.Queued, nil,
			media.Error{Code: "provider_unavailable", Message: allFail, Class: "server_error"}},
		"all are at their limits: it waits": {map[string]breaker.View{"one": throttled, "two": throttled}, "", nil, nil, nil, media.Queued, nil,
			media.Error{Code: "all_credentials_rate_limited", Message: allLimited, Class: "rate_limited"}},
		"one refuses, and the other is open: it waits for that": {map[string]breaker.View{"two": isOpen}, "", []submitted{limited}, []string{"one"}, []string{"one: rate_limited"},
			media.Queued, []media.Refuser{one}, media.Error{Code: "provider_unavailable", Message: allFail, Class: "server_error"}},
		"both refuse": {nil, "", []submitted{limited}, []string{"one", "two"}, []string{"one: rate_limited", "two: rate_limited"}, media.Failed, []media.Refuser{one},
			media.Error{Code: "provider_rate_limited", Message: "the provider answered with an error: rate_limited", Class: "rate_limited"}},
		"the last that is left refuses, while the first is open: it waits for that": {map[string]breaker.View{"one": isOpen}, "", []submitted{limited}, []string{"two"},
			[]string{"two: rate_limited"}, media.Queued, []media.Refuser{two}, media.Error{Code: "provider_unavailable", Message: allFail, Class: "server_error"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			m := moody(t, w)
			m.taken[c.taken] = true
			w.studio.submit, w.studio.poll = c.submits, []polled{pending()}
			if c.views != nil {
				m.views = c.views
			}
			j, _, err := w.engine.Begin(ctx, order())
			require.NoError(t, err)
			got, err := w.engine.Start(ctx, j)
			if c.want == media.Queued {
				require.ErrorIs(t, err, jobs.ErrNobody)
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, w.job(t, j.ID), got)
			assert.Equal(t, c.want, got.State)
			assert.Equal(t, c.refusedBy, got.RefusedBy)
			assert.Equal(t, c.last, got.LastError)
			assert.Equal(t, c.asked, w.studio.asked)
			assert.Equal(t, c.reports, m.reports)
			assert.Zero(t, m.open)
			if c.asked == nil && c.want == media.Failed {
				assert.Equal(t, media.Unmade(), got.Cost)
			}
		})
	}
}

// TestWhatTheHealthHears: of each submit once, and of nothing else.
func TestWhatTheHealthHears(t *testing.T) {
	broken := failure(fault.Network, fault.Observation{Local: fault.Broken, Sent: true, Phase: fault.PhasePostContent})
	for name, c := range map[string]struct {
		submit submitted
		but    func(w *world, j media.Job)
		want   []string
	}{
		"a job that is taken":                          {accepted(), nil, []string{"one: taken"}},
		"a 503":                                        {submitted{err: status(503, fault.ServerError)}, nil, []string{"one: server_error"}},
		"an answer that broke off":                     {submitted{err: lost()}, nil, []string{"one: network"}},
		"an error that nobody has classified":          {submitted{err: errors.New("?")}, nil, []string{"one: unknown"}},
		"a job that is taken, and nothing to ask for":  {submitted{}, nil, []string{"one: bad_response"}},
		"the work itself":                              {submitted{work: mp4}, nil, []string{"one: taken"}},
		"a work that breaks off":                       {submitted{Submission: provider.Submission{Artifact: &provider.Artifact{Body: io.NopCloser(cutBy{broken})}}}, nil, []string{"one: network"}},
		"a work that is none: it did answer":           {submitted{work: "no video"}, nil, []string{"one: taken"}},
		"a work that the bucket does not take":         {submitted{work: mp4}, func(w *world, _ media.Job) { w.broken["put"] = errors.New("away") }, []string{"one: taken"}},
		"a job that the table does not let be claimed": {accepted(), func(w *world, _ media.Job) { w.broken["replace"] = errors.New("away") }, []string{"one: free"}},
		"a job that somebody else has":                 {accepted(), func(w *world, j media.Job) { claimed(w, j) }, []string{"one: free"}},
		"a long request that the bucket does not give": {accepted(), func(w *world, _ media.Job) { w.broken["open"] = errors.New("away") }, nil},
		"an adapter that panics: whether it called is not known": {accepted(), func(w *world, _ media.Job) {
			w.engine.Studios = map[string]provider.Studio{"fal": panicking{&w.studio}}
		},
			[]string{"one: free"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // what is away is waited for
				w := newWorld()
				m := moody(t, w)
				w.studio.submit, w.studio.poll = []submitted{c.submit}, []polled{{err: status(503, fault.ServerError)}, pending()}
				o := order()
				if strings.HasPrefix(name, "a long request") {
					o = pictured(40 << 10)
				}
				j, _, err := w.engine.Begin(ctx, o)
				require.NoError(t, err)
				if c.but != nil {
					c.but(w, j)
				}
				_ = w.engine.HandleBatch(ctx, []jobs.Record{{ID: "m", Body: fmt.Appendf(nil, `{"do":"submit","organization":"acme","job":%q}`, j.ID)}})
				assert.Equal(t, c.want, m.reports)
				assert.Zero(t, m.open)
			})
		})
	}
	t.Run("of its polls and its cancelling it hears nothing", func(t *testing.T) {
		w := newWorld()
		m := moody(t, w)
		w.studio.submit, w.studio.poll = []submitted{accepted()}, []polled{{err: status(503, fault.ServerError)}, pending()}
		j := w.post(t, order())
		looks := m.looks
		w.run(t, 5*time.Minute)
		require.Greater(t, w.studio.polls, 5)
		_, _, err := w.engine.Cancel(ctx, "acme", j.ID)
		require.NoError(t, err)
		assert.Equal(t, []string{"one: taken"}, m.reports)
		assert.Equal(t, looks, m.looks)
	})
	t.Run("that a provider was silent is told as its doing where no submit may take so long, and not where the invocation ends", func(t *testing.T) {
		for limit, want := range map[time.Duration]string{0: "one: deadline, stalled", 200 * time.Second: "one: deadline, stalled", 60 * time.Second: "one: deadline"} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				m := moody(t, w)
				w.engine.Studios = map[string]provider.Studio{"fal": silent{&w.studio}}
				w.engine.Now = time.Now
				j, _, err := w.engine.Begin(ctx, order())
				require.NoError(t, err)
				ctx := ctx
				if limit != 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, limit)
					defer cancel()
				}
				j, err = w.engine.Submit(ctx, j)
				require.NoError(t, err)
				assert.Equal(t, media.Uncertain, j.State)
				assert.Equal(t, []string{want}, m.reports)
			})
		}
	})
}

// cutBy is a body that breaks off.
type cutBy struct{ err error }

func (c cutBy) Read([]byte) (int, error) { return 0, c.err }

// silent is a provider that does not answer.
type silent struct{ *studio }

func (silent) Submit(ctx context.Context, _ provider.Task) (provider.Submission, error) {
	<-ctx.Done()
	return provider.Submission{}, failure(fault.Deadline, fault.Observation{Local: fault.OutOfTime, Sent: true})
}

// claimed has another execution claim a job as soon as this one has read it.
func claimed(w *world, j media.Job) {
	w.engine.Jobs = &overtaken{Store: w.engine.Jobs, by: func() {
		theirs, err := j.Next(media.Claim{Owner: "another", Channel: "two", Credential: "main"}, w.now)
		if err == nil {
			err = w.memory.Replace(ctx, theirs)
		}
		if err != nil {
			panic(err)
		}
	}}
}

// TestAJobLivesThroughAnOutage: it waits, is looked at no oftener than a queued job is swept, and is made when somebody takes it again.
func TestAJobLivesThroughAnOutage(t *testing.T) {
	outage := func(t *testing.T, minutes int) (*world, *moods, media.Job) {
		w := newWorld()
		m := moody(t, w)
		w.studio.submit, w.studio.poll = []submitted{accepted()}, []polled{succeeded()}
		m.views = map[string]breaker.View{"one": isOpen, "two": isOpen}
		j, _, err := w.engine.Begin(ctx, order())
		require.NoError(t, err)
		_, err = w.engine.Start(ctx, j)
		require.ErrorIs(t, err, jobs.ErrNobody)
		require.Empty(t, w.queue, "nobody waits for it busily")
		for range minutes {
			w.run(t, time.Minute)
			_, err := w.engine.Sweep(ctx, 10)
			require.NoError(t, err)
		}
		w.run(t, time.Second)
		return w, m, w.job(t, j.ID)
	}
	t.Run("a short one", func(t *testing.T) {
		w, m, j := outage(t, 9)
		assert.Equal(t, media.Queued, j.State)
		assert.LessOrEqual(t, m.looks, 1+9/2)
		assert.GreaterOrEqual(t, m.looks, 3)
		var waits int
		for _, after := range w.changes {
			if after.LastError.Message == allFail && after.Version == 1 {
				waits++
			}
		}
		assert.Equal(t, 1, waits, "why it waits is written once")
		m.views = nil
		for range 4 {
			w.run(t, time.Minute)
			_, err := w.engine.Sweep(ctx, 10)
			require.NoError(t, err)
		}
		assert.Equal(t, media.Succeeded, w.job(t, j.ID).State)
		assert.Equal(t, 1, w.studio.submits)
		assert.Zero(t, w.failed)
	})
	t.Run("one that outlasts it: it expires, says why, and has cost nothing", func(t *testing.T) {
		w, _, j := outage(t, 31)
		assert.Equal(t, media.Expired, j.State)
		assert.Equal(t, &media.ViewError{Code: "expired", Message: "no provider took the job before its deadline; the last that was heard: " + allFail}, j.View().Error)
		assert.Equal(t, media.Unmade(), j.Cost)
		assert.Zero(t, w.studio.submits)
		assert.Len(t, w.told, 1)
	})
	t.Run("a client that repeats its order meanwhile has nothing written", func(t *testing.T) {
		w, m, j := outage(t, 0)
		for range 5 {
			again, fresh, err := w.engine.Begin(ctx, order())
			require.NoError(t, err)
			require.False(t, fresh)
			_, err = w.engine.Resume(ctx, again)
			require.ErrorIs(t, err, jobs.ErrNobody)
		}
		assert.Equal(t, j.Version, w.job(t, j.ID).Version)
		m.views = nil
		got, err := w.engine.Resume(ctx, j)
		require.NoError(t, err)
		assert.Equal(t, media.Running, got.State, "and is served as soon as somebody can")
	})
	t.Run("whoever makes work at once is waited for in the queue, and passed over where another does not", func(t *testing.T) {
		w, box := withBox([]submitted{accepted()}, []submitted{{work: mp3}})
		m := moody(t, w)
		m.views = map[string]breaker.View{"box": isOpen}
		j, _, err := w.engine.Begin(ctx, music("song"))
		require.NoError(t, err)
		j, err = w.engine.Start(ctx, j)
		require.NoError(t, err)
		assert.Equal(t, media.Running, j.State)
		assert.Empty(t, box.asked)
		assert.Equal(t, []string{"tape"}, w.studio.asked)
	})
}
