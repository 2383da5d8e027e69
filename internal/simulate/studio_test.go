package simulate_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/fetch"
	"spillway/internal/media"
	"spillway/internal/provider"
	"spillway/internal/provider/elevenlabs"
	"spillway/internal/provider/fal"
	"spillway/internal/provider/veo"
	"spillway/internal/provider/wire"
	"spillway/internal/redact"
	"spillway/internal/simulate"
)

// A life is one job's, from its order to its work, as our adapter and the fetcher of works see it.
type life struct {
	studio provider.Studio
	task   provider.Task
	fetch  *fetch.Client
	seen   []string
}

var adapters = map[string]struct {
	kind   media.Kind
	vendor string
	of     func(wire.Desk) provider.Studio
}{
	"veo":        {media.Video, "gemini", func(d wire.Desk) provider.Studio { return &veo.Studio{Desk: d} }},
	"fal":        {media.Video, "fal", func(d wire.Desk) provider.Studio { return &fal.Studio{Desk: d} }},
	"elevenlabs": {media.Music, "elevenlabs", func(d wire.Desk) provider.Studio { return &elevenlabs.Studio{Desk: d} }},
}

func apiOf(t testing.TB, model string) string {
	t.Helper()
	for _, m := range simulate.JobModels() {
		if m.Name == model {
			return m.API
		}
	}
	t.Fatalf("there is no model %q", model)
	return ""
}

const sesame = "open-sesame"

// order begins the life of a job of the model at a base address.
func (u upstream) order(t testing.TB, model, base, body string) *life {
	t.Helper()
	api := apiOf(t, model)
	a := adapters[api]
	client := &wire.Client{Dial: u.dial}
	t.Cleanup(client.Close)
	job := media.New("job_1", "org", a.kind, "asked", []byte(body), "evt_1", time.Now())
	return &life{
		studio: a.of(wire.Desk{Wire: client, Policy: fault.Default()}),
		task: provider.Task{Job: &job, Credential: &catalog.Credential{Alias: "main", Secret: redact.NewSecret(sesame)},
			Channel: &catalog.Channel{Name: "c", Model: chat.RoutedModel(model), Provider: &catalog.Provider{Name: "sim", Kind: api, Vendor: a.vendor, BaseURL: base}}},
		fetch: &fetch.Client{Dial: u.dial, Known: func(hostPort string) bool { return hostPort == "sim.test:80" }},
	}
}

// say notes what was seen; the same again is counted.
func (l *life) say(format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	if n := len(l.seen); n > 0 {
		var times int
		last := l.seen[n-1]
		if _, err := fmt.Sscanf(last, "%d × ", &times); err == nil && last == fmt.Sprintf("%d × %s", times, what) {
			l.seen[n-1] = fmt.Sprintf("%d × %s", times+1, what)
			return
		}
		if last == what {
			l.seen[n-1] = "2 × " + what
			return
		}
	}
	l.seen = append(l.seen, what)
}

// failed describes a failure of a call.
func failed(err error) string {
	f, ok := errors.AsType[*fault.Failure](err)
	if !ok {
		return "an error that is no failure: " + err.Error()
	}
	text := string(f.Class)
	if f.Status != 0 {
		text += fmt.Sprintf(" %d", f.Status)
	}
	if f.Ambiguous {
		text += ", ambiguous"
	}
	if f.Hint.Known {
		text += fmt.Sprintf(", hint %s", f.Hint.Wait)
	}
	return text
}

// live submits, polls each second or when it is told to, at most so many times, and reads the work.
func (l *life) live(t *testing.T, most int) {
	t.Helper()
	taken, err := l.studio.Submit(t.Context(), l.task)
	if err != nil {
		l.say("submit: %s", failed(err))
		return
	}
	if taken.Artifact != nil {
		l.read(*taken.Artifact)
		return
	}
	l.task.Job.Upstream = taken.Upstream
	l.say("accepted")
	wait := max(taken.Hint, time.Second)
	for range most {
		time.Sleep(wait)
		s, err := l.studio.Poll(t.Context(), l.task)
		if wait = max(s.Hint, time.Second); err != nil {
			l.say("poll: %s", failed(err))
			continue
		}
		what := string(s.State)
		if s.Strange != "" {
			what += ", strange " + s.Strange
		}
		if s.Hint > 0 {
			what += fmt.Sprintf(", hint %s", s.Hint)
		}
		if s.Error.Code != "" {
			what += fmt.Sprintf(", %s (%s)", s.Error.Code, s.Error.Class)
		}
		l.say("%s", what)
		if l.task.Job.Progress = s.Progress; s.State != media.Running {
			if s.Artifact != nil {
				l.download(t, *s.Artifact)
			}
			return
		}
	}
	l.say("never mind")
}

// download reads the work at its address, twice where the first time it breaks off.
func (l *life) download(t *testing.T, at provider.Artifact) {
	t.Helper()
	for range 2 {
		a, err := l.fetch.Work(t.Context(), at)
		switch {
		case errors.Is(err, provider.ErrGone):
			l.say("work: gone")
			return
		case err != nil:
			l.say("work: %s", err)
			return
		}
		if l.read(a) {
			return
		}
	}
}

// read reads the work to its end.
func (l *life) read(a provider.Artifact) (whole bool) {
	if a.Body == nil {
		l.say("work: none")
		return true
	}
	defer a.Body.Close()
	start, sum, opening := time.Now(), sha256.New(), &firstBytes{}
	n, err := io.Copy(io.MultiWriter(sum, opening), a.Body)
	if err != nil {
		l.say("work: %d of %d bytes", n, a.Size)
		return false
	}
	what := fmt.Sprintf("work: %d bytes of %s", n, a.ContentType)
	if n != a.Size {
		what += fmt.Sprintf(", said to be %d", a.Size)
	}
	if found := http.DetectContentType(*opening); found != a.ContentType {
		what += ", found to be " + found
	}
	if took := time.Since(start); took > 0 {
		what += fmt.Sprintf(", in %s", took)
	}
	l.say("%s", what)
	l.seen = append(l.seen, fmt.Sprintf("%x", sum.Sum(nil)))
	return true
}

// firstBytes are what is needed to know a type by.
type firstBytes []byte

func (f *firstBytes) Write(p []byte) (int, error) {
	*f = append(*f, p[:min(len(p), 512-len(*f))]...)
	return len(p), nil
}

// sumOf is the digest of a job's work.
func sumOf(t testing.TB, j simulate.Job) string {
	t.Helper()
	sum := sha256.New()
	_, err := io.Copy(sum, j.Work())
	require.NoError(t, err)
	return fmt.Sprintf("%x", sum.Sum(nil))
}

const theVideo = "work: 200000 bytes of video/mp4"

// TestTheLifeOfEachModel: what our adapters see of each, and what the provider counts of it.
func TestTheLifeOfEachModel(t *testing.T) {
	for name, tt := range map[string]struct {
		model string
		seen  []string
		// job is what the provider has of it: polls, downloads, cancels, state; nil: no job.
		job *simulate.Job
	}{
		"an operation that ends with a video": {"sim-video",
			[]string{"accepted", "5 × running", "succeeded", theVideo}, &simulate.Job{Polls: 6, Downloads: 1, State: "succeeded"}},
		"a queue whose request ends with a video": {"sim-video-fal",
			[]string{"accepted", "5 × running", "running, hint 1s", "succeeded", theVideo}, &simulate.Job{Polls: 7, Downloads: 1, State: "succeeded"}},
		"music is the answer to its order": {"sim-music",
			[]string{"work: 200000 bytes of audio/mpeg"}, &simulate.Job{State: "succeeded"}},

		"an operation whose order is lost": {"sim-video-lost", []string{"submit: network, ambiguous"}, &simulate.Job{State: "succeeded"}},
		"a request whose order is lost":    {"sim-video-fal-lost", []string{"submit: network, ambiguous"}, &simulate.Job{State: "succeeded"}},
		"music that is lost":               {"sim-music-lost", []string{"submit: network, ambiguous"}, &simulate.Job{State: "succeeded"}},

		"an operation that is refused": {"sim-video-refused", []string{"submit: rate_limited 429, hint 7s"}, nil},
		"a request that is refused":    {"sim-video-fal-refused", []string{"submit: quota 403"}, nil},
		"music that is refused":        {"sim-music-refused", []string{"submit: rate_limited 429, hint 7s"}, nil},

		"operations are down": {"sim-video-down", []string{"submit: server_error 503, ambiguous"}, nil},
		"the queue is down":   {"sim-video-fal-down", []string{"submit: server_error 503, ambiguous"}, nil},
		"music is down":       {"sim-music-down", []string{"submit: server_error 503, ambiguous"}, nil},

		"a proxy before operations fails five times": {"sim-video-502",
			[]string{"accepted", "5 × poll: server_error 502", "succeeded", theVideo}, &simulate.Job{Polls: 6, Downloads: 1, State: "succeeded"}},
		"a proxy before the queue fails five times": {"sim-video-fal-502",
			[]string{"accepted", "5 × poll: server_error 502", "running, hint 1s", "succeeded", theVideo}, &simulate.Job{Polls: 7, Downloads: 1, State: "succeeded"}},

		"an operation that is gone": {"sim-video-gone", []string{"accepted", "running", "expired, expired (generation_failed)"}, &simulate.Job{Polls: 2, State: "succeeded"}},
		"a request that is gone":    {"sim-video-fal-gone", []string{"accepted", "running", "expired, expired (generation_failed)"}, &simulate.Job{Polls: 2, State: "succeeded"}},

		"an operation in a strange state": {"sim-video-strange",
			[]string{"accepted", `3 × running, strange done: "nearly"`, "2 × running", "succeeded", theVideo}, &simulate.Job{Polls: 6, Downloads: 1, State: "succeeded"}},
		"a request in a strange state": {"sim-video-fal-strange",
			[]string{"accepted", "3 × running, strange WARMING_UP", "2 × running", "running, hint 1s", "succeeded", theVideo}, &simulate.Job{Polls: 7, Downloads: 1, State: "succeeded"}},

		"an operation that wants to be asked late": {"sim-video-late",
			[]string{"accepted", "running, hint 8s", "succeeded", theVideo}, &simulate.Job{Polls: 2, Downloads: 1, State: "succeeded"}},
		"a request that wants to be asked late": {"sim-video-fal-late",
			[]string{"accepted", "running, hint 8s", "running, hint 1s", "succeeded", theVideo}, &simulate.Job{Polls: 3, Downloads: 1, State: "succeeded"}},

		"an operation that never ends": {"sim-video-never", []string{"accepted", "30 × running", "never mind"}, &simulate.Job{Polls: 30, State: "running"}},
		"a request that never ends":    {"sim-video-fal-never", []string{"accepted", "30 × running", "never mind"}, &simulate.Job{Polls: 30, State: "running"}},

		"an operation that fails": {"sim-video-failed", []string{"accepted", "5 × running", "failed, provider_error (server_error)"}, &simulate.Job{Polls: 6, State: "failed"}},
		"a request that fails":    {"sim-video-fal-failed", []string{"accepted", "5 × running", "failed, provider_error (server_error)"}, &simulate.Job{Polls: 6, State: "failed"}},

		"an operation whose video is filtered":    {"sim-video-moderated", []string{"accepted", "5 × running", "failed, content_filter (content_policy)"}, &simulate.Job{Polls: 6, State: "failed"}},
		"a request whose content is not accepted": {"sim-video-fal-moderated", []string{"submit: content_policy 422"}, nil},
		"music whose content is not accepted":     {"sim-music-moderated", []string{"submit: content_policy 400"}, nil},

		"an operation without a video": {"sim-video-empty", []string{"accepted", "5 × running", "failed, upstream_no_artifact (generation_failed)"}, &simulate.Job{Polls: 6, State: "succeeded"}},
		"a request without a video": {"sim-video-fal-empty",
			[]string{"accepted", "5 × running", "running, hint 1s", "failed, upstream_no_artifact (generation_failed)"}, &simulate.Job{Polls: 7, State: "succeeded"}},
		"music without a sound": {"sim-music-empty", []string{"work: none"}, &simulate.Job{State: "succeeded"}},

		"an operation whose video is not given out": {"sim-video-expired",
			[]string{"accepted", "5 × running", "succeeded", "work: gone"}, &simulate.Job{Polls: 6, Downloads: 1, State: "succeeded"}},
		"a request whose video is not given out": {"sim-video-fal-expired",
			[]string{"accepted", "5 × running", "running, hint 1s", "succeeded", "work: gone"}, &simulate.Job{Polls: 7, Downloads: 1, State: "succeeded"}},

		"an operation whose video breaks off once": {"sim-video-cut",
			[]string{"accepted", "5 × running", "succeeded", "work: 100000 of 200000 bytes", theVideo}, &simulate.Job{Polls: 6, Downloads: 2, State: "succeeded"}},
		"a request whose video breaks off once": {"sim-video-fal-cut",
			[]string{"accepted", "5 × running", "running, hint 1s", "succeeded", "work: 100000 of 200000 bytes", theVideo}, &simulate.Job{Polls: 7, Downloads: 2, State: "succeeded"}},
		"music that breaks off": {"sim-music-cut", []string{"work: 100000 of 200000 bytes"}, &simulate.Job{State: "succeeded"}},

		"an operation whose video trickles": {"sim-video-slow",
			[]string{"accepted", "5 × running", "succeeded", theVideo + ", in 20s"}, &simulate.Job{Polls: 6, Downloads: 1, State: "succeeded"}},
		"a request whose video trickles": {"sim-video-fal-slow",
			[]string{"accepted", "5 × running", "running, hint 1s", "succeeded", theVideo + ", in 20s"}, &simulate.Job{Polls: 7, Downloads: 1, State: "succeeded"}},
		"music that trickles": {"sim-music-slow", []string{"work: 200000 bytes of audio/mpeg, in 20s"}, &simulate.Job{State: "succeeded"}},

		"an operation whose video is big": {"sim-video-big",
			[]string{"accepted", "5 × running", "succeeded", "work: 62914560 bytes of video/mp4"}, &simulate.Job{Polls: 6, Downloads: 1, State: "succeeded"}},
		"a request whose video is big": {"sim-video-fal-big",
			[]string{"accepted", "5 × running", "running, hint 1s", "succeeded", "work: 62914560 bytes of video/mp4"}, &simulate.Job{Polls: 7, Downloads: 1, State: "succeeded"}},
		"music that is big": {"sim-music-big", []string{"work: 62914560 bytes of audio/mpeg"}, &simulate.Job{State: "succeeded"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, u upstream) {
				ordered := time.Now()
				l := u.order(t, tt.model, "http://sim.test/v1", `{"model":"m","prompt":"a heron `+name+`"}`)
				l.live(t, 30)
				time.Sleep(time.Minute) // a job that nobody looks at ends too
				jobs := u.Jobs()
				if tt.job == nil {
					assert.Equal(t, tt.seen, l.seen)
					assert.Empty(t, jobs)
					return
				}
				require.Len(t, jobs, 1)
				got, want := jobs[0], *tt.job
				if n := len(tt.seen); got.State == simulate.JobSucceeded && len(l.seen) > n { // a whole work is the one that the provider made
					tt.seen = append(tt.seen, sumOf(t, got))
				}
				assert.Equal(t, tt.seen, l.seen)
				want.ID, want.API, want.Model, want.Prompt = "job-sim-000001", apiOf(t, tt.model), tt.model, "a heron "+name
				want.Submits, want.Created, want.Size = 1, ordered, got.Size
				if want.State != simulate.JobRunning {
					want.Finished = ordered.Add(6 * time.Second)
				}
				assert.Equal(t, want, got)
				assert.Empty(t, u.Unexpected())
			})
		})
	}
}
