package jobs_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"spillway/internal/catalog"
	"spillway/internal/fault"
	"spillway/internal/jobs"
	"spillway/internal/media"
	"spillway/internal/provider"
	"spillway/internal/redact"
)

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// The first bytes of a video and of a song.
const (
	mp4 = "\x00\x00\x00\x18ftypmp42 a lighthouse"
	mp3 = "ID3\x04\x00 a shanty"
)

// crashed is what a process that stops leaves: nothing after it happens.
type crashed struct{}

// world is everything around an engine, in memory: a clock that stands still, a queue, a provider, a bucket and a receiver of
// events. Each effect has a point before and after it where the process may stop.
type world struct {
	engine *jobs.Engine

	mu      sync.Mutex
	now     time.Time
	fuse    int // points until the process stops; 0: it does not
	tokens  int
	memory  media.Memory
	ends    map[string]int // changes to a terminal state that were written, by job
	queue   []*delivery
	objects map[string][]byte
	told    []telling
	panics  []string
	failed  int // messages that the engine would not have
	called  []jobs.Called
	changes []media.Job
	trouble []string

	// What the world does.
	studio studio
	works  map[string]work // by address; the zero value is ErrGone
	answer func(n int) (int, error)
	broken map[string]error // by the name of an effect: what it fails with
}

type delivery struct {
	id, queue string
	body      []byte
	at        time.Time
	delay     time.Duration
}

type telling struct {
	address string
	header  http.Header
	body    string
}

type work struct {
	content string
	size    int64
	err     error
	cut     bool
}

func newWorld() *world {
	w := &world{now: start, ends: map[string]int{}, objects: map[string][]byte{}, works: map[string]work{"https://provider.test/x.mp4?sig=S1": {content: mp4}},
		broken: map[string]error{}, answer: func(int) (int, error) { return 204, nil }}
	w.studio.w = w
	w.engine = &jobs.Engine{Jobs: store{w}, Catalog: loaded, Studios: map[string]provider.Studio{"fal": &w.studio},
		Submits: queue{w, "submits"}, Polls: queue{w, "polls"}, Tells: queue{w, "tells"}, Objects: bucket{w}, Library: library{w}, Teller: receiver{w},
		Signing: func(string) redact.Secret { return redact.NewSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw") }, Record: records{w},
		Now: func() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now }, Random: func() float64 { return 0.5 },
		Token: func() string { w.mu.Lock(); defer w.mu.Unlock(); w.tokens++; return fmt.Sprint("token", w.tokens) }}
	return w
}

// loaded has two channels of the model veo, and before them one that cannot make videos. The provider box answers with the work
// itself: it is the first in turn for a song, and the second for a jingle.
var loaded = func() *catalog.Catalog {
	c, err := catalog.Load([]byte(`{"version":"1",
		"providers":[{"name":"one","kind":"fal","base_url":"https://one.test/v1"},{"name":"two","kind":"fal","base_url":"https://two.test/v1"},
			{"name":"box","kind":"elevenlabs","base_url":"https://box.test/v1"}],
		"channels":[{"name":"two","provider":"two","models":["veo"],"priority":2,"credentials":[{"alias":"main","secret":"env:K"}]},
			{"name":"one","provider":"one","models":["veo"],"priority":1,"credentials":[{"alias":"main","secret":"env:K"},{"alias":"own","secret":"env:K","organization":"bring"}]},
			{"name":"box","provider":"box","models":["song"],"priority":1,"credentials":[{"alias":"main","secret":"env:K"}]},
			{"name":"jukebox","provider":"box","models":["jingle"],"priority":1,"credentials":[{"alias":"main","secret":"env:K"}]},
			{"name":"tape","provider":"one","models":["song"],"priority":2,"cannot":["videos"],"credentials":[{"alias":"main","secret":"env:K"}]},
			{"name":"reel","provider":"one","models":["jingle"],"priority":0,"cannot":["videos"],"credentials":[{"alias":"main","secret":"env:K"}]},
			{"name":"left","provider":"one","models":["equals"],"credentials":[{"alias":"main","secret":"env:K"}]},
			{"name":"right","provider":"two","models":["equals"],"credentials":[{"alias":"main","secret":"env:K"}]},
			{"name":"mute","provider":"one","models":["veo"],"cannot":["videos"],"credentials":[{"alias":"main","secret":"env:K"}]},
			{"name":"only","provider":"two","models":["veo-own"],"byok_only":true,"credentials":[{"alias":"own","secret":"env:K","organization":"bring"},{"alias":"platform","secret":"env:K"}]},
			{"name":"other","provider":"one","models":["veo-own"],"credentials":[{"alias":"main","secret":"env:K"}]}],
		"organizations":[{"name":"acme","models":["*"]},{"name":"bring","models":["*"]}]}`), func(string) string { return "secret" })
	if err != nil {
		panic(err)
	}
	return c
}()

// can has the studio find jobs of which nobody knows.
func (w *world) canFind() { w.engine.Studios = map[string]provider.Studio{"fal": finder{&w.studio}} }

// point is where the process may stop.
func (w *world) point() {
	w.mu.Lock()
	stop := w.fuse == 1
	w.fuse = max(w.fuse-1, 0)
	w.mu.Unlock()
	if stop {
		panic(crashed{})
	}
}

// effect is something that the world notices.
func (w *world) effect(name string, do func()) error {
	w.point()
	defer w.point()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.broken[name]; err != nil {
		return err
	}
	do()
	return nil
}

type store struct{ w *world }

func (s store) Create(ctx context.Context, j media.Job) (err error) {
	if broken := s.w.effect("create", func() { err = s.w.memory.Create(ctx, j) }); broken != nil {
		return broken
	}
	return err
}

func (s store) Get(ctx context.Context, organization, id string) (j *media.Job, err error) {
	if broken := s.w.effect("get", func() { j, err = s.w.memory.Get(ctx, organization, id) }); broken != nil {
		return nil, broken
	}
	return j, err
}

func (s store) Replace(ctx context.Context, next media.Job) (err error) {
	broken := s.w.effect("replace", func() {
		before, _ := s.w.memory.Get(ctx, next.Organization, next.ID)
		if err = s.w.memory.Replace(ctx, next); err == nil && before.State != next.State && next.State.Terminal() {
			s.w.ends[next.ID]++
		}
	})
	if broken != nil {
		return broken
	}
	return err
}

func (s store) List(ctx context.Context, organization string, w media.Wanted) (media.Page, error) {
	return s.w.memory.List(ctx, organization, w)
}

func (s store) Open(ctx context.Context, before time.Time, limit int) ([]media.Job, error) {
	return s.w.memory.Open(ctx, before, limit)
}

type queue struct {
	w    *world
	name string
}

func (q queue) Send(_ context.Context, body []byte, delay time.Duration) error {
	if delay > media.MaxDelay || delay < 0 {
		return errors.New("no queue delays a message so long")
	}
	return q.w.effect("send", func() {
		q.w.tokens++
		q.w.queue = append(q.w.queue, &delivery{id: fmt.Sprint("m", q.w.tokens), queue: q.name, body: bytes.Clone(body), at: q.w.now.Add(delay), delay: delay})
	})
}

type bucket struct{ w *world }

func (b bucket) Put(_ context.Context, name, _ string, body io.Reader, _ int64) error {
	b.w.point()
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	return b.w.effect("put", func() { b.w.objects[name] = data })
}

func (b bucket) Open(_ context.Context, name string) (body io.ReadCloser, size int64, contentType string, err error) {
	if broken := b.w.effect("open", func() {
		data, ok := b.w.objects[name]
		if !ok {
			err = fs.ErrNotExist
		}
		body, size = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	}); broken != nil {
		return nil, 0, "", broken
	}
	return body, size, "application/gzip", err
}

type library struct{ w *world }

func (l library) Work(_ context.Context, a provider.Artifact) (provider.Artifact, error) {
	var found work
	if err := l.w.effect("work", func() { found = l.w.works[a.URL] }); err != nil {
		return provider.Artifact{}, err
	}
	switch {
	case found.err != nil:
		return provider.Artifact{}, found.err
	case found.content == "" && found.size == 0:
		return provider.Artifact{}, provider.ErrGone
	}
	var body io.Reader = bytes.NewReader([]byte(found.content))
	if found.cut {
		body = io.MultiReader(body, failing{})
	}
	return provider.Artifact{Body: io.NopCloser(body), Size: found.size}, nil
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

type receiver struct{ w *world }

func (r receiver) Tell(_ context.Context, address string, header http.Header, body []byte) (status int, err error) {
	if broken := r.w.effect("tell", func() {
		r.w.told = append(r.w.told, telling{address, header, string(body)})
		status, err = r.w.answer(len(r.w.told))
	}); broken != nil {
		return 0, broken
	}
	return status, err
}

type records struct{ w *world }

func (r records) Changed(_, after media.Job) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.changes = append(r.w.changes, after)
}

func (r records) Called(c jobs.Called) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.called = append(r.w.called, c)
}

func (r records) Trouble(_, doing string, err error) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.trouble = append(r.w.trouble, fmt.Sprint(doing, ": ", err))
}

func (r records) Panicked(_, value, _ string) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.panics = append(r.w.panics, value)
}

// studio is a provider: submits and polls are answered by what is written down for them, the last answer again and again.
type studio struct {
	w       *world
	submit  []submitted
	poll    []polled
	atOnce  bool // it answers with the work itself
	cancel  func() (bool, error)
	found   func() (string, bool, error)
	submits int            // calls
	polls   int            // calls
	created map[string]int // by job: how often the provider was asked for work that it did not surely refuse
	asked   []string       // channels, in order
	sent    []string       // the request of each submit
}

type submitted struct {
	provider.Submission
	work string // in hand
	err  error
}

type polled struct {
	provider.Status
	err error
}

func (s *studio) Synchronous() bool { return s.atOnce }

func (s *studio) Submit(_ context.Context, t provider.Task) (provider.Submission, error) {
	var a submitted
	_ = s.w.effect("submit", func() {
		a = s.submit[min(s.submits, len(s.submit)-1)]
		s.submits++
		s.asked = append(s.asked, t.Channel.Name)
		s.sent = append(s.sent, string(t.Job.Request))
		if s.created == nil {
			s.created = map[string]int{}
		}
		var f *fault.Failure
		if !errors.As(a.err, &f) || f.Ambiguous || f.Sent && f.Status == 0 || f.Status >= 500 {
			s.created[t.Job.ID]++
		}
	})
	if a.work != "" {
		a.Artifact = &provider.Artifact{Body: io.NopCloser(bytes.NewReader([]byte(a.work)))}
	}
	return a.Submission, a.err
}

func (s *studio) Poll(context.Context, provider.Task) (provider.Status, error) {
	var a polled
	_ = s.w.effect("poll", func() {
		a = s.poll[min(s.polls, len(s.poll)-1)]
		s.polls++
	})
	return a.Status, a.err
}

func (s *studio) Cancel(context.Context, provider.Task) (bool, error) {
	s.w.point()
	if s.cancel == nil {
		return false, nil
	}
	return s.cancel()
}

type finder struct{ *studio }

func (f finder) Find(context.Context, provider.Task) (string, bool, error) {
	f.w.point()
	return f.found()
}

// Answers of a provider.
func accepted() submitted {
	return submitted{Submission: provider.Submission{Upstream: "operations/1", RequestID: "r1"}}
}

func failure(class fault.Class, o fault.Observation) error {
	return &fault.Failure{Observation: o, Class: class, Ambiguous: o.Sent && (o.Local == fault.Broken || o.Local == fault.Silent)}
}

func lost() error {
	return failure(fault.Network, fault.Observation{Local: fault.Broken, Sent: true, Phase: fault.PhaseSent})
}
func status(code int, class fault.Class) error {
	return failure(class, fault.Observation{Status: code, Sent: true, Parsed: true, Phase: fault.PhaseHeaders})
}

func succeeded() polled {
	return polled{Status: provider.Status{State: media.Succeeded, Artifact: &provider.Artifact{URL: "https://provider.test/x.mp4?sig=S1"}}}
}
func pending() polled { return polled{Status: provider.Status{State: media.Running, Progress: 10}} }

// order is what a client asks for.
func order() jobs.Order {
	return jobs.Order{Organization: "acme", Key: "k1", Fingerprint: "F", Kind: media.Video, Model: "veo", Request: []byte(`{"model":"veo","prompt":"p"}`),
		Callback: "https://example.com/hook"}
}

// post is POST /v1/videos.
func (w *world) post(t require.TestingT, o jobs.Order) media.Job {
	j, fresh, err := w.engine.Begin(context.Background(), o)
	require.NoError(t, err)
	if fresh {
		j, err = w.engine.Submit(context.Background(), j)
		require.NoError(t, err)
	}
	return j
}

func (w *world) job(t require.TestingT, id string) media.Job {
	j, err := w.memory.Get(context.Background(), "acme", id)
	require.NoError(t, err)
	require.NotNil(t, j)
	return *j
}

// deliver hands one message to the engine, as an invocation of its own, and reports whether it is done. One that failed although
// nothing had stopped would end among the dead letters.
func (w *world) deliver(d *delivery) bool {
	before := len(w.panics)
	done := len(w.engine.HandleBatch(context.Background(), []jobs.Record{{ID: d.id, Body: d.body}})) == 0
	if !done && len(w.panics) == before {
		w.failed++
	}
	return done
}

// run lets time pass until every message is delivered and handled, or the time is over.
func (w *world) run(t require.TestingT, until time.Duration) {
	end := w.now.Add(until)
	for range 10_000 {
		var next *delivery
		at := -1
		for i, d := range w.queue {
			if next == nil || d.at.Before(next.at) {
				next, at = d, i
			}
		}
		if next == nil || next.at.After(end) {
			w.now = end
			return
		}
		if next.at.After(w.now) {
			w.now = next.at
		}
		w.queue = append(w.queue[:at], w.queue[at+1:]...)
		if !w.deliver(next) {
			next.at = w.now.Add(time.Minute)
			w.queue = append(w.queue, next)
		}
	}
	t.Errorf("the messages do not end")
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
