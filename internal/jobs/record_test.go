package jobs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/catalog"
	"spillway/internal/fault"
	"spillway/internal/jobs"
	"spillway/internal/media"
	"spillway/internal/provider"
	"spillway/internal/telemetry"
	"spillway/internal/usage"
)

var update = flag.Bool("update", false, "write what was recorded into testdata/records.txt; read the difference before committing it")

// recorded is a world whose records go to a log; debug ones, too.
func recorded(w *world) *bytes.Buffer {
	var log bytes.Buffer
	w.engine.Record = &jobs.Records{To: telemetry.New(&log, slog.LevelDebug), Policy: fault.Default()}
	return &log
}

// TestTheRecordsOfALife: a job that the first channel refuses, the second takes and is asked for three times, one of which
// fails, until it is done and its callback is told.
func TestTheRecordsOfALife(t *testing.T) {
	w := newWorld()
	log := recorded(w)
	w.engine.Prices = usage.EmbeddedWorks()
	var err error
	w.engine.Catalog, err = catalog.Load([]byte(`{"version":"1",
		"providers":[{"name":"one","kind":"fal","base_url":"https://one.test/v1"},{"name":"two","kind":"fal","base_url":"https://two.test/v1","prices":"sim"}],
		"channels":[{"name":"one","provider":"one","models":["veo"],"priority":1,"credentials":[{"alias":"main","secret":"env:K"}]},
			{"name":"two","provider":"two","models":["veo"],"priority":2,"credentials":[{"alias":"main","secret":"env:K"}]}],
		"organizations":[{"name":"acme","models":["veo"]}]}`), func(string) string { return "secret" })
	require.NoError(t, err)
	w.studio.submit = []submitted{{err: status(401, fault.Auth)}, accepted()}
	w.studio.poll = []polled{pending(), {err: status(503, fault.Overloaded)}, succeeded()}
	j := w.post(t, order())
	w.run(t, time.Minute)
	require.Equal(t, media.Succeeded, w.job(t, j.ID).State)

	got := strings.ReplaceAll(readable(t, log.String()), usage.EmbeddedWorks().Version(), "(version)")
	got = strings.ReplaceAll(got, fault.Default().Version, "(policy)")
	const golden = "testdata/records.txt"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

// readable is a log without times, a line a record, its members sorted and those that say nothing left out.
func readable(t *testing.T, log string) string {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(log) {
		var members map[string]any
		dec := json.NewDecoder(strings.NewReader(line))
		dec.UseNumber()
		require.NoError(t, dec.Decode(&members))
		if level, ok := members["level"]; ok {
			fmt.Fprint(&b, level, " ")
		}
		b.WriteString(members["msg"].(string))
		if aws, ok := members["_aws"].(map[string]any); ok {
			fmt.Fprint(&b, " ", aws["CloudWatchMetrics"].([]any)[0].(map[string]any)["Dimensions"])
		}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if v := members[name]; v != "" && !slices.Contains([]string{"time", "level", "msg", "_aws"}, name) {
				fmt.Fprintf(&b, " %s=%v", name, v)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestWhatIsRecordedOfWhatGoesWrong is what an operator learns from the records of what goes wrong.
func TestWhatIsRecordedOfWhatGoesWrong(t *testing.T) {
	failing := func(class fault.Class) submitted {
		return submitted{err: status(map[fault.Class]int{fault.Auth: 401, fault.Quota: 402, fault.InvalidRequest: 400}[class], class)}
	}
	strange := polled{Status: provider.Status{State: media.Running, Strange: "REHEARSING"}}
	for name, c := range map[string]struct {
		submit []submitted
		poll   []polled
		world  func(*world)
		want   map[string]int // what is in the log, and in how many lines
	}{
		"a refused key alerts a person, once a minute for the same": {
			submit: []submitted{failing(fault.Auth)},
			want:   map[string]int{`"msg":"alert","reason":"auth","provider":"one","credential":"main"`: 1, `"msg":"alert","reason":"auth","provider":"two"`: 1, `"decision":"next_channel"`: 2, `"Alerts":1`: 2, `"cost_nano_usd":0,"cost_basis":"unmade"`: 1},
		},
		"an empty account alerts a person": {
			submit: []submitted{failing(fault.Quota)},
			want:   map[string]int{`"msg":"alert","reason":"quota"`: 2, `"reason":"quota","provider":"one","Alerts":1`: 1},
		},
		"a caller's mistake alerts nobody": {
			submit: []submitted{failing(fault.InvalidRequest)},
			want:   map[string]int{`"msg":"alert"`: 0, `"decision":"end"`: 1, `"msg":"job_finished"`: 1},
		},
		"a lost submit is uncertain, and counted": {
			submit: []submitted{{err: lost()}},
			want:   map[string]int{`"decision":"uncertain"`: 1, `"to":"uncertain","reason":"lost"`: 1, `"UncertainJobs":1`: 1, `"cost_nano_usd":null`: 1, `"UnknownCosts":1`: 1, `"outcome":"expired"`: 1},
		},
		"a word that nobody knows is warned of once": {
			submit: []submitted{accepted()}, poll: []polled{strange, strange, strange, succeeded()},
			want: map[string]int{`"level":"WARN","msg":"unknown_status"`: 1, `"word":"REHEARSING"`: 1},
		},
		"a value in the place of a word is shown, too": {
			submit: []submitted{accepted()}, poll: []polled{{Status: provider.Status{State: media.Running, Strange: `done: "nearly"`}}, succeeded()},
			want: map[string]int{`"word":"done: \"nearly\""`: 1},
		},
		"an object in the place of a word is not": {
			submit: []submitted{accepted()}, poll: []polled{{Status: provider.Status{State: media.Running, Strange: `done: {"a":1}`}}, succeeded()},
			want: map[string]int{`"word":"(no word)"`: 1},
		},
		"polls are attempts, and what they change is said while debugging only": {
			submit: []submitted{accepted()}, poll: []polled{pending(), pending(), succeeded()},
			want: map[string]int{`"level":"INFO","msg":"attempt_finished"`: 4, `"level":"DEBUG","msg":"job_changed"`: 2, `"operation":"poll"`: 3},
		},
		"failed polls are counted": {
			submit: []submitted{accepted()}, poll: []polled{{err: status(503, fault.Overloaded)}, {err: status(503, fault.Overloaded)}, succeeded()},
			want: map[string]int{`"PollFailures":1`: 2, `"decision":"ask_again"`: 2, `"reason":"poll_failed"`: 2},
		},
		"an end is finished once": {
			submit: []submitted{accepted()}, poll: []polled{succeeded()},
			want: map[string]int{`"msg":"job_finished"`: 1, `"JobsFinished":1`: 1, `"JobDuration":`: 1},
		},
		"a callback that takes nothing is given up, and each telling is counted": {
			submit: []submitted{accepted()}, poll: []polled{succeeded()},
			world: func(w *world) { w.answer = func(int) (int, error) { return 500, nil } },
			want:  map[string]int{`"reason":"not_told"`: media.MaxTells - 1, `"reason":"untold"`: 1, `"WebhooksFailed":1`: media.MaxTells, `"reason":"told"`: 0},
		},
		"a callback that takes the last telling is told": {
			submit: []submitted{accepted()}, poll: []polled{succeeded()},
			world: func(w *world) {
				w.answer = func(n int) (int, error) { return map[bool]int{true: 204, false: 500}[n == media.MaxTells], nil }
			},
			want: map[string]int{`"reason":"untold"`: 0, `"reason":"told"`: 1, `"WebhooksFailed":1`: media.MaxTells - 1},
		},
		"a bucket that is away is trouble, in our words": {
			submit: []submitted{accepted()}, poll: []polled{succeeded()},
			world: func(w *world) { w.broken["put"] = errors.New("throttled") },
			want:  map[string]int{`"operation":"copying its result: the result cannot be stored","cause":"throttled"`: media.MaxPollFailures, `"outcome":"store_unavailable"`: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			log := recorded(w)
			w.studio.submit, w.studio.poll = c.submit, c.poll
			if len(c.poll) == 0 {
				w.studio.poll = []polled{pending()}
			}
			if c.world != nil {
				c.world(w)
			}
			w.post(t, order())
			w.run(t, 2*time.Hour)
			_, err := w.engine.Sweep(ctx, 10)
			require.NoError(t, err)
			for text, times := range c.want {
				lines := 0
				for line := range strings.Lines(log.String()) {
					if strings.Contains(line, text) {
						lines++
					}
				}
				assert.Equal(t, times, lines, "%s in\n%s", text, log.String())
			}
		})
	}
}

// TestNoRecordTellsASecret: whatever happens to a job, whoever fails and whatever the errors say, no record holds its prompt, its
// callback, the address of its work, its provider's handle or a key.
func TestNoRecordTellsASecret(t *testing.T) {
	const hook, link = "https://hooks.example.test/SECRET-HOOK?token=SECRET-TOKEN", "https://provider.test/SECRET-WORK.mp4?sig=SECRET-SIG"
	leaking := func(address string) error {
		return &url.Error{Op: "Get", URL: address, Err: &net.OpError{Op: "dial", Err: errors.New("refused by " + address)}}
	}
	secretive := func(class fault.Class, o fault.Observation) error {
		o.Cause, o.RequestID = leaking(link), "r1"
		o.Message = "SECRET-PROMPT is not allowed for SECRET-KEY"
		return failure(class, o)
	}
	done := polled{Status: provider.Status{State: media.Succeeded, Artifact: &provider.Artifact{URL: link, Header: map[string][]string{"X-Key": {"SECRET-KEY"}}}}}
	taken := submitted{Submission: provider.Submission{Upstream: "https://provider.test/SECRET-HANDLE?sig=SECRET-SIG", RequestID: "r1"}}
	for name, do := range map[string]func(*world){
		"all goes well": func(*world) {},
		"every channel refuses": func(w *world) {
			w.studio.submit = []submitted{{err: secretive(fault.Auth, fault.Observation{Status: 401, Sent: true, Parsed: true})}}
		},
		"moderation refuses": func(w *world) {
			w.studio.submit = []submitted{{err: secretive(fault.ContentPolicy, fault.Observation{Status: 400, Sent: true, Parsed: true})}}
		},
		"the submit is lost": func(w *world) {
			w.studio.submit = []submitted{{err: secretive(fault.Network, fault.Observation{Local: fault.Broken, Sent: true})}}
		},
		"the adapter says anything": func(w *world) { w.studio.submit = []submitted{{err: leaking(link)}} },
		"polls fail": func(w *world) {
			w.studio.poll = []polled{{err: secretive(fault.ServerError, fault.Observation{Status: 500, Sent: true})}, done}
		},
		"polls always fail": func(w *world) { w.studio.poll = []polled{{err: leaking(link)}} },
		"the state is an address": func(w *world) {
			w.studio.poll = []polled{{Status: provider.Status{State: media.Running, Strange: link}}, done}
		},
		"the job failed": func(w *world) {
			w.studio.poll = []polled{{Status: provider.Status{State: media.Failed, Error: media.Error{Code: media.ContentFilter, Message: "SECRET-PROMPT"}}}}
		},
		"the work cannot be read":    func(w *world) { w.broken["work"] = leaking(link) },
		"the work is on no host":     func(w *world) { w.broken["work"] = &net.DNSError{Name: "SECRET-HOST.provider.test"} },
		"the work is given out not":  func(w *world) { w.works[link] = work{err: fmt.Errorf("%s: %w", link, provider.ErrGone)} },
		"the bucket is away":         func(w *world) { w.broken["put"] = leaking(link) },
		"the callback does not hear": func(w *world) { w.answer = func(int) (int, error) { return 0, leaking(hook) } },
		"the callback refuses":       func(w *world) { w.answer = func(int) (int, error) { return 500, nil } },
		"the queue is away":          func(w *world) { w.broken["send"] = leaking(link) },
		"the handling panics":        func(w *world) { w.answer = func(int) (int, error) { panic(hook) } },
		"no secret signs its event":  func(w *world) { w.engine.Signing = nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			log := recorded(w)
			w.works = map[string]work{link: {content: mp4}}
			w.studio.submit, w.studio.poll = []submitted{taken}, []polled{pending(), done}
			w.studio.cancel = func() (bool, error) { return false, leaking(link) }
			do(w)
			o := order()
			o.Key, o.Fingerprint, o.Callback = "SECRET-IDEMPOTENCY", "SECRET-FINGERPRINT", hook
			o.Request = []byte(`{"model":"veo","prompt":"SECRET-PROMPT","callback_url":"` + hook + `"}`)
			j, fresh, err := w.engine.Begin(ctx, o)
			require.NoError(t, err)
			require.True(t, fresh)
			_, _ = w.engine.Submit(ctx, j)
			_, _, _ = w.engine.Cancel(ctx, "acme", j.ID)
			for range 3 {
				w.run(t, media.Lifetime)
				_, err = w.engine.Sweep(ctx, 10)
				require.NoError(t, err)
			}
			require.NotEmpty(t, log.String())
			for line := range strings.Lines(log.String()) {
				for _, secret := range []string{"SECRET", "hooks.example", "provider.test", "sig=", "whsec_"} {
					assert.NotContains(t, line, secret)
				}
			}
		})
	}
}

// TestTroubleIsToldInOurWords: what an error says is kept as far as it is ours.
func TestTroubleIsToldInOurWords(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a reason":                    {errors.New("putting the job: throttled"), "putting the job: throttled"},
		"an address in it":            {errors.New(`Post "http://127.0.0.1:8000/x?y": refused`), `Post (address) refused`},
		"an address without a scheme": {errors.New(`dialling example.test/x?sig=1`), `dialling (address)`},
		"a host that was not found":   {fmt.Errorf("telling: %w", &net.DNSError{Name: "example.test"}), "a host was not found"},
		"a provider's failure":        {fmt.Errorf("reading: %w", status(503, fault.Overloaded)), "overloaded"},
		"nothing":                     {nil, ""},
		"a whole text":                {errors.New(strings.Repeat("x", 1000)), strings.Repeat("x", 300)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			log := recorded(w)
			w.engine.Record.Trouble("job_1", "writing", c.err)
			var got map[string]any
			require.NoError(t, json.Unmarshal(log.Bytes(), &got))
			assert.Equal(t, c.want, got["cause"])
		})
	}
}

// TestACrashLosesARecordAtMost: wherever the process stops, what was told was written, at most one change is missing, and the job
// comes to the same end at the same cost.
func TestACrashLosesARecordAtMost(t *testing.T) {
	missing := 0
	for fuse := 1; ; fuse++ {
		w := priced(t)
		w.studio.submit, w.studio.poll = []submitted{accepted()}, []polled{pending(), succeeded()}
		o := order()
		o.Model, o.Request = "veo-3.1-generate-preview", []byte(`{"model":"veo-3.1-generate-preview","prompt":"p","seconds":8}`)
		j, _, err := w.engine.Begin(ctx, o)
		require.NoError(t, err)
		w.queue = append(w.queue, &delivery{id: "m0", queue: "submits", body: fmt.Appendf(nil, `{"do":"submit","organization":"acme","job":%q}`, j.ID), at: w.now})
		w.fuse = fuse
		for range 3 {
			w.run(t, media.Lifetime)
			_, err := w.engine.Sweep(ctx, 10)
			require.NoError(t, err)
		}
		if w.fuse > 0 {
			break // the life is shorter than the fuse
		}
		j = w.job(t, j.ID)
		ends, over := 0, false
		for _, c := range w.changes {
			assert.LessOrEqual(t, c.Version, j.Version)
			if c.State.Terminal() && !over {
				ends++
			}
			over = c.State.Terminal()
		}
		lost := int(j.Version) - len(w.changes)
		assert.True(t, lost == 0 || lost == 1, "stopped at %d: %d changes, %d told", fuse, j.Version, len(w.changes))
		assert.LessOrEqual(t, ends, 1)
		missing += lost
		if j.State == media.Succeeded {
			assert.Equal(t, int64(3_200_000_000), j.Cost.Nano)
		}
		assert.True(t, j.State == media.Succeeded || j.State == media.Expired && w.studio.submits <= 1 && !j.Cost.Known, "stopped at %d: %s", fuse, j.State)
	}
	assert.Positive(t, missing, "some crash comes between a write and its record")
}
