package main

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/internal/catalog"
	"spillway/internal/jobs"
	"spillway/internal/media"
	"spillway/internal/provider"
	"spillway/internal/redact"
)

const (
	// jobsEach is how many jobs of each length are made, within a minute.
	jobsEach = 200
	// sweepEvery is the schedule of the sweeper in the template.
	sweepEvery = time.Minute
	// patience is how long after the first job all must be over.
	patience = 2 * time.Hour
)

// making are the lengths of jobs, by which the work of each is done: ± 10 %, as no two take the same.
var making = []time.Duration{20 * time.Second, 2 * time.Minute, 20 * time.Minute}

// shops are ways in which providers tell of their jobs.
var shops = []struct {
	name string
	kind string
	// twice: the poll that sees that the work is done says when to come for it, and the next one gets it.
	twice time.Duration
}{
	{"an operation (veo)", "veo", 0},
	{"a queue, whose result is a second question (fal)", "fal", time.Second},
}

// mediaJobs counts what a job costs beside the provider's own price, in calls and in waiting. The engine is the real one and its
// cadence too; the clock is virtual, so that no call takes time: an invocation of the poller, a queue that delivers late, and the
// copy of the work come on top.
func mediaJobs(r *report) error {
	for _, shop := range shops {
		for _, length := range making {
			all, sweeps, err := simulateJobs(1, jobsEach, length, shop.kind, shop.twice)
			if err != nil {
				return fmt.Errorf("simulating jobs: %w", err)
			}
			section := fmt.Sprintf("a media job of %s ± 10 %%, %s: %d jobs, on a VIRTUAL clock", brief(length), shop.name, len(all))
			waits := make([]float64, len(all))
			for i, j := range all {
				waits[i] = j.waited.Seconds()
				for _, f := range []struct {
					name, unit string
					value      float64
				}{
					{"polls of the provider", "calls", float64(j.polls)},
					{"SQS messages: jobs queue", "sent", float64(j.sent["jobs"])},
					{"SQS messages: generate queue", "sent", float64(j.sent["generate"])},
					{"SQS messages: webhooks queue, for its callback", "sent", float64(j.sent["webhooks"])},
					{"conditional writes of the job", "writes", float64(j.writes)},
					{"reads of the job", "reads", float64(j.reads)},
					{"the provider is done → the job is over", "s", waits[i]},
				} {
					r.add(figure{section: section, name: f.name, unit: f.unit}, f.value)
				}
			}
			r.add(figure{section: section, name: "the same, p95", unit: "s"}, percentile(waits, 95))
			r.add(figure{section: section, name: "sweeps while they ran, of which none had to do anything", unit: "sweeps"}, float64(sweeps))
		}
	}
	return nil
}

// brief is a duration without its zeros: 2m, not 2m0s.
func brief(d time.Duration) string {
	if d%time.Minute == 0 {
		return strconv.Itoa(int(d/time.Minute)) + " min"
	}
	return strconv.Itoa(int(d/time.Second)) + " s"
}

// percentile is the lowest value that so many of a hundred do not exceed.
func percentile(values []float64, of int) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)*of+99)/100-1]
}

// course is what one job took.
type course struct {
	polls, reads, writes int
	sent                 map[string]int // messages, by queue
	// waited is the time from the provider's end of the work to the job's.
	waited time.Duration
	done   time.Time // at the provider
	seen   bool      // a poll has seen that it is done
	state  media.State
}

// simulateJobs lets n jobs run, and returns what each took and how often the sweeper ran. The same seed gives the same. It is an
// error when a job does not succeed, or when the sweeper had to do anything: nothing goes wrong here.
func simulateJobs(seed uint64, n int, length time.Duration, kind string, twice time.Duration) (all []*course, sweeps int, err error) {
	m, err := newMill(seed, length, kind, twice)
	if err != nil {
		return nil, 0, err
	}
	ctx := context.Background()
	for i := range n {
		m.at(time.Duration(m.random.Int64N(int64(time.Minute))), func() error { return m.post(ctx, i) })
	}
	for m.over < n {
		if m.now.Sub(epoch) > patience {
			return nil, 0, fmt.Errorf("%d of %d jobs are over after %v", m.over, n, patience)
		}
		if at := epoch.Add(time.Duration(sweeps+1) * sweepEvery); len(m.agenda) == 0 || !m.agenda[0].at.Before(at) {
			m.now, sweeps = at, sweeps+1
			did, err := m.engine.Sweep(ctx, 1000)
			if err != nil || len(did) > 0 {
				return nil, 0, fmt.Errorf("the sweeper had to do %v: %w", did, err)
			}
			continue
		}
		next := heap.Pop(&m.agenda).(entry) //nolint:forcetypeassert // nothing else is put there
		m.now = next.at
		if err := next.do(); err != nil {
			return nil, 0, err
		}
	}
	for i := range n {
		j := m.jobs[m.ids[i]]
		if j.state != media.Succeeded {
			return nil, 0, fmt.Errorf("job %d is %s", i, j.state)
		}
		all = append(all, j)
	}
	return all, sweeps, nil
}

// epoch is when the virtual clock begins.
var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// mill is an engine with everything around it in memory: a clock, queues that deliver when a message is due, a provider, a bucket and a
// receiver of events. One thing happens at a time.
type mill struct {
	media.Memory
	engine *jobs.Engine
	random *rand.Rand
	now    time.Time
	agenda agenda
	length time.Duration
	twice  time.Duration
	tokens int
	jobs   map[string]*course
	ids    map[int]string
	over   int
}

func newMill(seed uint64, length time.Duration, kind string, twice time.Duration) (*mill, error) {
	config, err := catalog.Load(fmt.Appendf(nil, `{"version":"bench","providers":[{"name":"p","kind":%q,"base_url":"https://p.test"}],
		"channels":[{"provider":"p","models":["m"],"credentials":[{"alias":"only","secret":"env:KEY"}]}],
		"organizations":[{"name":"bench","models":["m"]}]}`, kind), func(string) string { return "secret" })
	if err != nil {
		return nil, err //nolint:wrapcheck // it says where the configuration is wrong
	}
	m := &mill{random: rand.New(rand.NewPCG(seed, 0)), now: epoch, length: length, twice: twice, jobs: map[string]*course{}, ids: map[int]string{}} //nolint:gosec // it must repeat
	m.engine = &jobs.Engine{Jobs: m, Catalog: config, Studios: map[string]provider.Studio{kind: m},
		Submits: line{m, "generate"}, Polls: line{m, "jobs"}, Tells: line{m, "webhooks"}, Objects: m, Library: m, Teller: m,
		Signing: func(string) redact.Secret { return redact.NewSecret("whsec_YmVuY2g=") }, Record: m,
		Now: func() time.Time { return m.now }, Random: m.random.Float64, Token: func() string { m.tokens++; return strconv.Itoa(m.tokens) }}
	return m, nil
}

// post is POST /v1/videos: it begins a job and submits it.
func (m *mill) post(ctx context.Context, i int) error {
	j, fresh, err := m.engine.Begin(ctx, jobs.Order{Organization: "bench", Key: strconv.Itoa(i), Fingerprint: "f", Kind: media.Video, Model: "m",
		Request: []byte(`{"model":"m","prompt":"p"}`), Callback: "https://client.test/hook"})
	if err != nil || !fresh {
		return fmt.Errorf("beginning job %d: %w", i, err)
	}
	m.ids[i] = j.ID
	_, err = m.engine.Submit(ctx, j)
	return err //nolint:wrapcheck // the engine says what it did
}

func (m *mill) of(id string) *course {
	if m.jobs[id] == nil {
		m.jobs[id] = &course{sent: map[string]int{}}
	}
	return m.jobs[id]
}

// entry is something that happens at its time; n keeps those of one moment in the order in which they were planned.
type entry struct {
	at time.Time
	n  int
	do func() error
}

func (m *mill) at(in time.Duration, do func() error) {
	m.tokens++
	heap.Push(&m.agenda, entry{at: m.now.Add(in), n: m.tokens, do: do})
}

// agenda is a heap.Interface: what is due first comes first.
type agenda []entry

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at.Before(a[j].at) || a[i].at.Equal(a[j].at) && a[i].n < a[j].n
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(entry)) } //nolint:forcetypeassert // mill.at pushes nothing else
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// line is a queue. It delivers each message once, when it is due, which in SQS is after whole seconds.
type line struct {
	m    *mill
	name string
}

// Send implements jobs.Queue.
func (l line) Send(_ context.Context, body []byte, delay time.Duration) error {
	_, id, _ := strings.Cut(string(body), `"job":"`)
	id, _, _ = strings.Cut(id, `"`)
	l.m.of(id).sent[l.name]++
	l.m.at((delay + time.Second - 1).Truncate(time.Second), func() error {
		if failed := l.m.engine.HandleBatch(context.Background(), []jobs.Record{{ID: id, Body: body}}); len(failed) > 0 {
			return errors.New("a message was not handled")
		}
		return nil
	})
	return nil
}

// Get implements media.Store.
func (m *mill) Get(ctx context.Context, organization, id string) (*media.Job, error) {
	m.of(id).reads++
	return m.Memory.Get(ctx, organization, id)
}

// Create implements media.Store.
func (m *mill) Create(ctx context.Context, j media.Job) error {
	m.of(j.ID).writes++
	return m.Memory.Create(ctx, j)
}

// Replace implements media.Store.
func (m *mill) Replace(ctx context.Context, next media.Job) error {
	m.of(next.ID).writes++
	return m.Memory.Replace(ctx, next)
}

// Submit implements provider.Studio.
func (m *mill) Submit(_ context.Context, t provider.Task) (provider.Submission, error) {
	m.of(t.Job.ID).done = m.now.Add(time.Duration(float64(m.length) * (0.9 + 0.2*m.random.Float64())))
	return provider.Submission{Upstream: t.Job.ID}, nil
}

// Poll implements provider.Studio.
func (m *mill) Poll(_ context.Context, t provider.Task) (provider.Status, error) {
	j := m.of(t.Job.ID)
	j.polls++
	switch {
	case m.now.Before(j.done):
		return provider.Status{State: media.Running}, nil
	case m.twice > 0 && !j.seen:
		j.seen = true
		return provider.Status{State: media.Running, Hint: m.twice}, nil
	default:
		return provider.Status{State: media.Succeeded, Artifact: &provider.Artifact{URL: "https://p.test/work"}}, nil
	}
}

// Cancel implements provider.Studio.
func (*mill) Cancel(context.Context, provider.Task) (bool, error) { return true, nil }

// Synchronous implements provider.Studio.
func (*mill) Synchronous() bool { return false }

// Work implements jobs.Library.
func (*mill) Work(context.Context, provider.Artifact) (provider.Artifact, error) {
	return provider.Artifact{Body: io.NopCloser(strings.NewReader("\x00\x00\x00\x18ftypmp42"))}, nil
}

// Put implements jobs.Objects.
func (*mill) Put(_ context.Context, _, _ string, body io.Reader, _ int64) error {
	_, err := io.Copy(io.Discard, body)
	return err //nolint:wrapcheck // it does not fail
}

// Tell implements jobs.Teller.
func (*mill) Tell(context.Context, string, http.Header, []byte) (int, error) {
	return http.StatusNoContent, nil
}

// Changed implements jobs.Recorder.
func (m *mill) Changed(before, after media.Job) {
	if !before.State.Terminal() && after.State.Terminal() {
		j := m.of(after.ID)
		j.state, j.waited = after.State, m.now.Sub(j.done)
	}
	if after.State.Terminal() && after.TellAt.IsZero() {
		m.over++ // its callback has been told
	}
}

// Called implements jobs.Recorder.
func (*mill) Called(jobs.Called) {}

// Trouble implements jobs.Recorder. What it would tell shows in a job that does not end well.
func (*mill) Trouble(string, string, error) {}

// Panicked implements jobs.Recorder.
func (*mill) Panicked(_, value, stack string) { panic(value + "\n" + stack) }
