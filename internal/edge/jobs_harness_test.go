package edge_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"spillway/internal/breaker"
	"spillway/internal/catalog"
	"spillway/internal/dialect/openai"
	"spillway/internal/edge"
	"spillway/internal/fault"
	"spillway/internal/fetch"
	"spillway/internal/gateway"
	"spillway/internal/jobs"
	"spillway/internal/media"
	"spillway/internal/provider"
	"spillway/internal/retry"
	"spillway/internal/route"
	"spillway/internal/telemetry"
	"spillway/internal/tenant"
)

// Words of an order that must be in no record.
const (
	jobPrompt   = "PROMPT-OF-A-LIGHTHOUSE"
	callback    = "https://hooks.example.com/PLANTED-PATH?token=PLANTED-TOKEN"
	signature   = "X-Amz-Signature=PLANTED-SIGNATURE"
	otherKey    = "other-key"   // of an organization without a webhook_secret
	limitedKey  = "limited-key" // of one that may call the model veo alone
	mp4         = "\x00\x00\x00\x18ftypmp42 a lighthouse"
	operationID = "operations/17"
)

var jobsConfig = fmt.Sprintf(`{"version": "v",
"providers": [{"name": "google", "kind": "veo", "base_url": "https://google.test/v1"}, {"name": "fal", "kind": "fal", "base_url": "https://fal.test"},
	{"name": "eleven", "kind": "elevenlabs", "base_url": "https://eleven.test"}, {"name": "acme", "kind": "openai", "base_url": "https://acme.test/v1"}],
"channels": [
	{"name": "first", "provider": "google", "models": ["veo"], "priority": 1, "credentials": [{"alias": "main", "secret": "env:KEY"}]},
	{"name": "second", "provider": "fal", "models": ["veo"], "priority": 2, "credentials": [{"alias": "main", "secret": "env:KEY"}]},
	{"name": "sings", "provider": "eleven", "models": ["music"], "credentials": [{"alias": "main", "secret": "env:KEY"}]},
	{"name": "chats", "provider": "acme", "models": ["gpt"], "credentials": [{"alias": "main", "secret": "env:KEY"}]},
	{"name": "unkeyed", "provider": "google", "models": ["unkeyed"], "credentials": [{"alias": "main", "secret": "env:UNSET"}]}],
"routes": [{"alias": "clip", "models": ["veo"]}],
"organizations": [{"name": "org", "models": ["*"], "webhook_secret": "env:HOOK"}, {"name": "other", "models": ["*"]}, {"name": "limited", "models": ["veo"]}],
"keys": [{"sha256": "%x", "alias": "live", "organization": "org"}, {"sha256": "%x", "alias": "other", "organization": "other"},
	{"sha256": "%x", "alias": "limited", "organization": "limited"}]}`,
	sha256.Sum256([]byte(liveKey)), sha256.Sum256([]byte(otherKey)), sha256.Sum256([]byte(limitedKey)))

// workshop is a gateway that makes media jobs, with everything around it in memory.
type workshop struct {
	handler http.Handler
	gateway *gateway.Gateway
	engine  *jobs.Engine
	store   *brittle
	studio  *studio
	queue   *queue
	works   *shelf
	records *lockedBuffer
}

func newWorkshop(t testing.TB) *workshop {
	t.Helper()
	c, err := catalog.Load([]byte(jobsConfig), func(name string) string {
		return map[string]string{"KEY": upstreamKey, "HOOK": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}[name]
	})
	require.NoError(t, err)
	w := &workshop{store: &brittle{}, studio: &studio{}, queue: &queue{}, works: &shelf{objects: map[string]string{}}, records: &lockedBuffer{}}
	w.studio.answer = func(context.Context, provider.Task) (provider.Submission, error) {
		return provider.Submission{Upstream: operationID}, nil
	}
	recorder := telemetry.New(w.records, slog.LevelDebug)
	w.engine = &jobs.Engine{Jobs: w.store, Catalog: c, Record: &jobs.Records{To: recorder, Policy: fault.Default()}, Submits: w.queue, Polls: w.queue, Tells: w.queue, Objects: w.works,
		Studios: map[string]provider.Studio{"veo": w.studio, "fal": w.studio, "elevenlabs": later{w.studio}}}
	w.gateway = &gateway.Gateway{Catalog: c, Keys: tenant.NewTable(c), Policy: fault.Default(), Health: &breaker.Fleet{}, Shares: &retry.Shares{},
		Latencies: &route.Latencies{}, Recorder: recorder, DigestKey: []byte("digest"), Random: func() float64 { return 0.5 },
		Jobs: w.engine, JobStore: w.store, Works: w.works, Callback: (&fetch.Client{}).MayTell, MaxStream: 100}
	w.handler = edge.New(edge.Config{Gateway: w.gateway, Recorder: recorder, Chat: openai.Chat{}, Version: "v1.2.3", ConfigVersion: c.Version,
		PolicyVersion: fault.Default().Version})
	return w
}

// answered is an answer as it was sent.
type answered struct {
	status int
	header http.Header
	body   string
}

func (a answered) get(path string) gjson.Result { return gjson.Get(a.body, path) }

// send sends a request; pairs are headers beside the key of org, which an Authorization among them replaces.
func (w *workshop) send(t testing.TB, method, path, body string, pairs ...string) answered {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	for name, value := range plus(pairs...) {
		r.Header.Set(name, value)
	}
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, r)
	return answered{recorder.Code, recorder.Header(), recorder.Body.String()}
}

const anOrder = `{"model":"veo","prompt":"` + jobPrompt + `","seconds":"8","size":"1280x720"}`

// order posts an order with a key.
func (w *workshop) order(t testing.TB, key string) answered {
	t.Helper()
	return w.send(t, http.MethodPost, "/v1/videos", anOrder, "Idempotency-Key", key)
}

// put changes a job by events, one after another.
func (w *workshop) put(t testing.TB, id string, events ...media.Event) media.Job {
	t.Helper()
	j, err := w.store.Memory.Get(t.Context(), "org", id)
	require.NoError(t, err)
	require.NotNil(t, j)
	for _, e := range events {
		next, err := media.Limits{}.Next(*j, e, time.Now())
		require.NoError(t, err)
		require.NoError(t, w.store.Memory.Replace(t.Context(), next))
		j = &next
	}
	return *j
}

// finish has a running job make a work.
func (w *workshop) finish(t testing.TB, id, work string) media.Job {
	t.Helper()
	w.works.objects["media/"+id] = work
	return w.put(t, id, media.Done{Result: media.Result{Object: "media/" + id, ContentType: "video/mp4", Size: int64(len(work)), SHA256: "abc"}})
}

// brittle is a store that fails when it is told to: before a call, or after it.
type brittle struct {
	media.Memory
	before, after func(call string) error
}

func (b *brittle) Create(ctx context.Context, j media.Job) error {
	return b.around("create", func() error { return b.Memory.Create(ctx, j) })
}

func (b *brittle) Replace(ctx context.Context, j media.Job) error {
	return b.around("replace", func() error { return b.Memory.Replace(ctx, j) })
}

func (b *brittle) Get(ctx context.Context, organization, id string) (j *media.Job, err error) {
	err = b.around("get", func() (err error) { j, err = b.Memory.Get(ctx, organization, id); return err })
	return j, err
}

func (b *brittle) List(ctx context.Context, organization string, w media.Wanted) (page media.Page, err error) {
	err = b.around("list", func() (err error) { page, err = b.Memory.List(ctx, organization, w); return err })
	return page, err
}

func (b *brittle) around(call string, do func() error) error {
	if b.before != nil {
		if err := b.before(call); err != nil {
			return err
		}
	}
	err := do()
	if b.after != nil {
		err = errors.Join(err, b.after(call))
	}
	return err
}

// studio is a provider that counts what it is asked to make.
type studio struct {
	answer func(context.Context, provider.Task) (provider.Submission, error)
	cancel func() (bool, error)

	mu      sync.Mutex
	submits map[string]int // by job
	asked   []string       // channels, in order
	request []byte         // of the last one
}

func (s *studio) Submit(ctx context.Context, t provider.Task) (provider.Submission, error) {
	s.mu.Lock()
	if s.submits == nil {
		s.submits = map[string]int{}
	}
	s.submits[t.Job.ID]++
	s.asked = append(s.asked, t.Channel.Name)
	s.request = t.Job.Request
	s.mu.Unlock()
	return s.answer(ctx, t)
}

func (s *studio) Poll(context.Context, provider.Task) (provider.Status, error) {
	return provider.Status{}, errors.New("nobody polls here")
}

func (s *studio) Cancel(context.Context, provider.Task) (bool, error) { return s.cancel() }

func (s *studio) Synchronous() bool { return false }

// total is how often anything was submitted.
func (s *studio) total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

// later is a studio whose submit answers with the work itself.
type later struct{ *studio }

func (later) Synchronous() bool { return true }

// refusal is an answer of a provider that surely has not taken the job.
func refusal(status int, class fault.Class) error {
	return &fault.Failure{Observation: fault.Observation{Status: status, Sent: true, Parsed: true, Phase: fault.PhaseHeaders}, Class: class}
}

// brokenOff is a submit of which nobody knows whether it has arrived.
func brokenOff() error {
	return &fault.Failure{Observation: fault.Observation{Local: fault.Broken, Sent: true, Phase: fault.PhaseSent}, Class: fault.Network, Ambiguous: true}
}

// queue counts messages.
type queue struct {
	mu   sync.Mutex
	sent []string
}

func (q *queue) Send(_ context.Context, body []byte, _ time.Duration) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent = append(q.sent, string(body))
	return nil
}

// shelf keeps works.
type shelf struct {
	objects map[string]string
	links   int
	broken  error
	cut     bool
}

func (s *shelf) Link(_ context.Context, name, contentType, filename string, ttl time.Duration) (string, error) {
	s.links++
	return fmt.Sprintf("https://bucket.test/%s?n=%d&type=%s&file=%s&for=%s&%s", name, s.links, contentType, filename, ttl, signature), s.broken
}

func (s *shelf) Put(_ context.Context, name, _ string, body io.Reader, _ int64) error {
	data, err := io.ReadAll(body)
	s.objects[name] = string(data)
	return errors.Join(err, s.broken)
}

func (s *shelf) Open(_ context.Context, name string) (io.ReadCloser, int64, string, error) {
	if s.broken != nil {
		return nil, 0, "", s.broken
	}
	body := []byte(s.objects[name])
	size := int64(len(body))
	if s.cut {
		return io.NopCloser(io.MultiReader(bytes.NewReader(body[:5]), badEnd{})), size, "", nil
	}
	return io.NopCloser(bytes.NewReader(body)), size, "", nil
}

type badEnd struct{}

func (badEnd) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// record is the last record of a finished request.
func (w *workshop) record(t testing.TB) (record map[string]any) {
	t.Helper()
	for line := range strings.Lines(w.records.String()) {
		if gjson.Get(line, "msg").Str == "request_finished" {
			record = gjson.Parse(line).Value().(map[string]any)
		}
	}
	require.NotNil(t, record)
	return record
}
