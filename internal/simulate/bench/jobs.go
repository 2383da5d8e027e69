package main

import (
	"container/heap"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// shop is a way in which providers make what they are asked for.
type shop struct {
	name, kind string
	// twice: the poll that sees that the work is done says when to come for it, and the next one gets it.
	twice time.Duration
	// atOnce: the submit is answered with the work.
	atOnce bool
	// lengths are how long a work takes, ± 10 %, as no two take the same.
	lengths []time.Duration
}

var (
	lengths = []time.Duration{20 * time.Second, 2 * time.Minute, 20 * time.Minute}
	shops   = []shop{
		{name: "an operation (veo)", kind: "veo", lengths: lengths},
		{name: "a queue, with a second question for the result (fal)", kind: "fal", twice: time.Second, lengths: lengths},
		{name: "an answer that is the work (elevenlabs)", kind: "elevenlabs", atOnce: true, lengths: lengths[:1]}, // its lease is 2 min
	}
)

// mediaJobs counts what a job costs beside the provider's own price, in calls and in waiting. The engine is the real one and its
// cadence too; the clock is virtual, so that no call takes time: an invocation of the poller, a queue that delivers late, and the
// copy of the work come on top.
func mediaJobs(r *report) error {
	for _, s := range shops {
		for _, length := range s.lengths {
			all, sweeps, err := simulateJobs(1, jobsEach, s, length)
			if err != nil {
				return fmt.Errorf("simulating jobs: %w", err)
			}
			section := fmt.Sprintf("%d media jobs of %s ± 10 %%, on a VIRTUAL clock: %s", len(all), brief(length), s.name)
			for _, f := range []struct {
				name, unit string
				of         func(course) float64
			}{
				{"polls of the provider", "calls", func(c course) float64 { return float64(c.polls) }},
				{"SQS messages: jobs queue", "sent", func(c course) float64 { return float64(c.jobs) }},
				{"SQS messages: generate queue", "sent", func(c course) float64 { return float64(c.generate) }},
				{"SQS messages: webhooks queue, for its callback", "sent", func(c course) float64 { return float64(c.webhooks) }},
				{"conditional writes of the job", "writes", func(c course) float64 { return float64(c.writes) }},
				{"reads of the job", "reads", func(c course) float64 { return float64(c.reads) }},
				{"the provider is done → the job is over", "s", waited},
			} {
				for _, c := range all {
					r.add(figure{section: section, name: f.name, unit: f.unit}, f.of(c))
				}
			}
			r.add(figure{section: section, name: "the same, p95", unit: "s"}, percentile(all, waited, 95))
			r.add(figure{section: section, name: "sweeps while they ran, of which none had to do anything", unit: "all"}, float64(sweeps))
		}
	}
	return nil
}

func waited(c course) float64 { return c.waited.Seconds() }

// brief is a duration without its zeros: 2m, not 2m0s.
func brief(d time.Duration) string {
	if d%time.Minute == 0 {
		return strconv.Itoa(int(d/time.Minute)) + " min"
	}
	return strconv.Itoa(int(d/time.Second)) + " s"
}

// percentile is the lowest value that so many of a hundred do not exceed.
func percentile(all []course, value func(course) float64, of int) float64 {
	var values []float64
	for _, c := range all {
		values = append(values, value(c))
	}
	slices.Sort(values)
	return values[(len(values)*of+99)/100-1]
}

// course is what one job took.
type course struct {
	polls, reads, writes     int
	jobs, generate, webhooks int // messages, by queue
	// waited is the time from the provider's end of the work to the job's.
	waited time.Duration

	done  time.Time // at the provider
	seen  bool      // a poll has seen that it is done
	state media.State
}

// simulateJobs lets n jobs run, and returns what each took and how often the sweeper ran. The same seed gives the same. It is an
// error when a job does not succeed, or when the sweeper had to do anything: nothing goes wrong here.
func simulateJobs(seed uint64, n int, s shop, length time.Duration) (all []course, sweeps int, err error) {
	m, err := newMill(seed, s, length)
	if err != nil {
		return nil, 0, err
	}
	for i := range n {
		m.at(time.Duration(m.random.Int64N(int64(time.Minute))), func() error { return m.post(i) })
	}
	for m.over < n {
		if m.now.Sub(epoch) > patience {
			return nil, 0, fmt.Errorf("%d of %d jobs are over after %v", m.over, n, patience)
		}
		if at := epoch.Add(time.Duration(sweeps+1) * sweepEvery); len(m.agenda) == 0 || !m.agenda[0].at.Before(at) {
			m.now, sweeps = at, sweeps+1
			did, err := m.engine.Sweep(context.Background(), 1000)
			if err != nil {
				return nil, 0, err //nolint:wrapcheck // the engine says what it did
			}
			if len(did) > 0 {
				return nil, 0, fmt.Errorf("the sweeper had to do %v", did)
			}
			continue
		}
		next := heap.Pop(&m.agenda).(entry) //nolint:forcetypeassert // nothing else is put there
		m.now = next.at
		if err := next.do(); err != nil {
			return nil, 0, err
		}
	}
	for _, id := range m.ids {
		c := m.courses[id]
		if c.state != media.Succeeded {
			return nil, 0, fmt.Errorf("a job is %s", c.state)
		}
		all = append(all, *c)
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
	shop   shop
	length time.Duration

	tokens  int
	courses map[string]*course // by job
	ids     []string           // of the jobs, in the order of their beginnings
	over    int                // jobs that are over, and whose callbacks are told
}

func newMill(seed uint64, s shop, length time.Duration) (*mill, error) {
	config, err := catalog.Load(fmt.Appendf(nil, `{"version":"bench","providers":[{"name":"p","kind":%q,"base_url":"https://p.test"}],
		"channels":[{"provider":"p","models":["m"],"credentials":[{"alias":"only","secret":"env:KEY"}]}],
		"organizations":[{"name":"bench","models":["m"]}]}`, s.kind), func(string) string { return "secret" })
	if err != nil {
		return nil, err //nolint:wrapcheck // it says where the configuration is wrong
	}
	m := &mill{random: rand.New(rand.NewPCG(seed, 0)), now: epoch, shop: s, length: length, courses: map[string]*course{}} //nolint:gosec // it must repeat
	m.engine = &jobs.Engine{Jobs: m, Catalog: config, Studios: map[string]provider.Studio{s.kind: m}, Objects: shelf{}, Library: m, Teller: m, Record: m,
		Submits: line{m, func(c *course) { c.generate++ }}, Polls: line{m, func(c *course) { c.jobs++ }}, Tells: line{m, func(c *course) { c.webhooks++ }},
		Signing: func(string) redact.Secret { return redact.NewSecret("whsec_YmVuY2g=") },
		Now:     func() time.Time { return m.now }, Random: m.random.Float64, Token: func() string { m.tokens++; return strconv.Itoa(m.tokens) }}
	return m, nil
}

// post is the POST that makes a job: it begins it and starts it.
func (m *mill) post(i int) error {
	kind := media.Video
	if m.shop.atOnce {
		kind = media.Music
	}
	j, _, err := m.engine.Begin(context.Background(), jobs.Order{Organization: "bench", Key: strconv.Itoa(i), Fingerprint: "f", Kind: kind, Model: "m",
		Request: []byte(`{"model":"m","prompt":"p"}`), Callback: "https://client.test/hook"})
	if err != nil {
		return err //nolint:wrapcheck // the engine says what it did
	}
	m.ids = append(m.ids, j.ID)
	_, err = m.engine.Start(context.Background(), j)
	return err //nolint:wrapcheck // the engine says what it did
}

func (m *mill) of(id string) *course {
	if m.courses[id] == nil {
		m.courses[id] = &course{}
	}
	return m.courses[id]
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
	m     *mill
	count func(*course)
}

// Send implements jobs.Queue.
func (l line) Send(_ context.Context, body []byte, delay time.Duration) error {
	var of struct{ Job string }
	if err := json.Unmarshal(body, &of); err != nil {
		return fmt.Errorf("reading whose message it is: %w", err)
	}
	l.count(l.m.of(of.Job))
	l.m.at((delay + time.Second - 1).Truncate(time.Second), func() error {
		if failed := l.m.engine.HandleBatch(context.Background(), []jobs.Record{{ID: of.Job, Body: body}}); len(failed) > 0 {
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

// Submit implements provider.Studio. The one that answers with the work takes no time either.
func (m *mill) Submit(_ context.Context, t provider.Task) (provider.Submission, error) {
	c := m.of(t.Job.ID)
	if m.shop.atOnce {
		c.done = m.now
		return provider.Submission{Artifact: &provider.Artifact{Body: io.NopCloser(strings.NewReader("ID3\x04"))}}, nil
	}
	c.done = m.now.Add(time.Duration(float64(m.length) * (0.9 + 0.2*m.random.Float64())))
	return provider.Submission{Upstream: t.Job.ID}, nil
}

// Poll implements provider.Studio.
func (m *mill) Poll(_ context.Context, t provider.Task) (provider.Status, error) {
	c := m.of(t.Job.ID)
	c.polls++
	switch {
	case m.now.Before(c.done):
		return provider.Status{State: media.Running}, nil
	case m.shop.twice > 0 && !c.seen:
		c.seen = true
		return provider.Status{State: media.Running, Hint: m.shop.twice}, nil
	default:
		return provider.Status{State: media.Succeeded, Artifact: &provider.Artifact{URL: "https://p.test/work"}}, nil
	}
}

// Cancel implements provider.Studio.
func (*mill) Cancel(context.Context, provider.Task) (bool, error) { return true, nil }

// Synchronous implements provider.Studio.
func (m *mill) Synchronous() bool { return m.shop.atOnce }

// Work implements jobs.Library.
func (*mill) Work(context.Context, provider.Artifact) (provider.Artifact, error) {
	return provider.Artifact{Body: io.NopCloser(strings.NewReader("\x00\x00\x00\x18ftypmp42"))}, nil
}

// shelf is a bucket that keeps nothing.
type shelf struct{}

// Put implements jobs.Objects.
func (shelf) Put(_ context.Context, _, _ string, body io.Reader, _ int64) error {
	_, err := io.Copy(io.Discard, body)
	return err //nolint:wrapcheck // it does not fail
}

// Open implements jobs.Objects. No request here is so long that it would stand in the bucket.
func (shelf) Open(context.Context, string) (body io.ReadCloser, size int64, contentType string, err error) {
	return nil, 0, "", fs.ErrNotExist
}

// Tell implements jobs.Teller.
func (*mill) Tell(context.Context, string, http.Header, []byte) (int, error) {
	return http.StatusNoContent, nil
}

// Changed implements jobs.Recorder.
func (m *mill) Changed(before, after media.Job) {
	if !before.State.Terminal() && after.State.Terminal() {
		c := m.of(after.ID)
		c.state, c.waited = after.State, m.now.Sub(c.done)
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
