package suite

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"spillway/internal/media"
	"spillway/internal/simulate"
	"spillway/internal/simulate/state"
)

const (
	videos = "/v1/videos"
	music  = "/v1/music"

	video    = "sim-video"
	videoFal = "sim-video-fal"
	song     = "sim-music"
)

// jobPass is what a row of jobs records.
var jobPass = map[Mode]Verdict{Jobs: Pass}

// modelsOf are the simulated models of one API.
func modelsOf(api string) (names []string) {
	for _, m := range simulate.JobModels() {
		if m.API == api {
			names = append(names, m.Name)
		}
	}
	return names
}

// ordered is an order of a model, with a callback. Its prompt, by which the provider counts, is its key's.
func (s *studio) ordered(model, key string) order {
	path := videos
	if strings.HasPrefix(model, song) {
		path = music
	}
	return order{key: key, path: path, model: model, prompt: "A dam in the rain, " + key, callback: s.simulator + "/_sim/callback"}
}

// shapes are what a job is shown as where it is ordered: OpenAI's SDKs know a video.
var shapes = map[string]string{videos: "video", music: "media.job"}

// took holds an answer to the job that was made, or is there already.
func (o *order) took(a reaction, replayed bool, f *Findings) {
	v := a.job()
	if a.Err != nil || a.Status != http.StatusAccepted || v.ID == "" || v.Object != shapes[o.path] {
		f.addf("%s: the order was not taken: %s", o.key, a)
		return
	}
	f.equal(o.key+": Idempotent-Replayed", replayed, a.Header.Get("Idempotent-Replayed") == "true")
	if o.id == "" {
		o.id = v.ID
	}
	f.equal(o.key+": the job of its key", o.id, v.ID)
}

// checkAll holds the jobs of a stage to what every job must keep, whatever its end.
func (s *studio) checkAll(all []life, f *Findings) {
	for _, l := range all {
		l.checkWrites(f)
		l.checkSubmits(f)
		l.checkEvents(f)
		l.checkCounted(len(s.kills) > 0, f)
	}
	checkCallbacks(s.provider.Callbacks(), all, f)
}

// checkCallbacks: each event is signed, and shows its job as it has ended.
func checkCallbacks(told []simulate.Callback, all []life, f *Findings) {
	for _, c := range told {
		var event media.Announcement
		if err := json.Unmarshal([]byte(c.Body), &event); err != nil || !signed(c, webhookSecret) {
			f.addf("an event is not signed with the secret of its organization: %s", cut(c.Body))
			continue
		}
		v := event.Data
		i := slices.IndexFunc(all, func(l life) bool { return l.id == v.ID })
		if i < 0 || v.Status != all[i].end() || v.Object != "media.job" || event.Type != "media.job."+string(v.Status) {
			f.addf("an event tells of a job that there is not, or not so: %s", cut(c.Body))
		}
	}
}

// signed verifies an event as its receiver does (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md,
// 2026-11-30).
func signed(c simulate.Callback, secret string) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || c.Timestamp == "" {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(c.ID + "." + c.Timestamp + "." + c.Body))
	return hmac.Equal([]byte("v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil))), []byte(c.Signature))
}

// checkDeadLetters holds what was put aside to its reason.
func (s *studio) checkDeadLetters(ctx context.Context, f *Findings) {
	for _, queue := range s.state.Names.Queues() {
		dead, err := s.state.Dead(ctx, queue)
		if err != nil {
			f.addf("reading the dead letters of %s: %v", queue, err)
		}
		checkDead(queue, dead, &s.book, receives, f)
	}
}

// checkWork: a job that has succeeded shows the work that the provider has made, through a link of its own each time.
func (s *studio) checkWork(ctx context.Context, o order, f *Findings) {
	i := slices.IndexFunc(s.provider.Jobs(), func(j simulate.Job) bool { return j.Prompt == o.prompt })
	if i < 0 {
		f.addf("%s: the provider has made nothing", o.key)
		return
	}
	made := s.provider.Jobs()[i]
	want := digest(made.Work())
	shown := s.look(ctx, o.id).job()
	if shown.Result == nil || shown.Result.SHA256 != want || shown.Result.Size != made.Size {
		f.addf("%s: its result is said to be %+v, not %d bytes of %s", o.key, shown.Result, made.Size, want)
	}
	if got := s.linked(ctx, o.id); got.Err != nil || got.Status != http.StatusOK || got.SHA256 != want {
		f.addf("%s: what its link leads to is not what was made: status %d, %d bytes, error %v", o.key, got.Status, got.Size, got.Err)
	}
}

// digest is the SHA-256 of what can be read.
func digest(r io.Reader) string {
	h := sha256.New()
	_, _ = io.Copy(h, r) // a work in memory
	return hex.EncodeToString(h.Sum(nil))
}

// checkLog: what the functions write holds nothing of prompts and links, and no message has made them panic.
func (s *studio) checkLog(f *Findings) {
	text := string(s.log.text())
	for what, leak := range map[string]string{"a prompt": "A dam in the rain", "the signature of a link": "X-Amz-Signature", "a secret": webhookSecret, "a key": clientKey,
		"a panic": `"msg":"panic`} {
		if at := strings.Index(text, leak); at >= 0 {
			f.addf("the functions' log holds %s: %s", what, cut(text[max(0, at-200):]))
		}
	}
}

// JobRows are the rows of media jobs, over the gateway, the poller and the sweeper.
var JobRows = slices.Concat(journeys, []Row{faultsOf("veo"), faultsOf("fal"), faultsOf("elevenlabs"), cancelling, twice, poison, large, sluiced, storm}, crashRows())

// journeys are the ways of an order to its job.
var journeys = []Row{
	{
		Name: "F27 client", Fault: "the client's connection breaks after the provider has accepted its job",
		Job: clientLeaves, Lasts: 15 * time.Second, Recorded: jobPass,
	},
	{
		Name: "F27 gateway", Fault: "the gateway is killed after the provider has accepted the job, before and after that is written",
		Job: gatewayDies, Lasts: 30 * time.Second, Recorded: jobPass,
		Stage: Stage{Gateways: 3, Limits: Overrides{"deadline_ms": 20_000, "lease_ms": 4_000}},
	},
	{
		Name: "F27 lost", Fault: "the provider's connection is cut after it has accepted the job, and it cannot be asked for it",
		Job: acceptanceLost, Lasts: 15 * time.Second, Recorded: jobPass,
		Stage: Stage{Limits: Overrides{"deadline_ms": 10_000, "lease_ms": 4_000}},
	},
	{
		Name: "F27 key", Fault: "orders without a key, with one that is used for another, and the same order at every age of its job",
		Job: sameKey, Lasts: 15 * time.Second, Recorded: jobPass,
		Stage: Stage{Queues: unreliable{delay: 1, late: 4 * time.Second}}, // so that the music waits
	},
}

// clientLeaves: the client is gone before the gateway has written that the provider has its job. Repeating the order finds that job.
func clientLeaves(ctx context.Context, s *studio, f *Findings) []life {
	orders := []order{s.ordered(video, "left-veo"), s.ordered(videoFal, "left-fal")}
	for i := range orders {
		o := &orders[i]
		impatient, leave := context.WithCancel(ctx)
		gone := make(chan reaction, 1)
		s.Watch(func(c state.Call, m state.Moment) bool {
			if m != state.Arrived || !s.writes(c, media.Running) {
				return true
			}
			leave()
			<-gone
			return true
		})
		first := s.post(impatient, *o)
		gone <- first
		if first.Err == nil {
			f.addf("%s: the client was answered before it could leave: %s", o.key, first)
		}
		s.Watch(nil)
		o.took(s.post(ctx, *o), true, f)
	}
	s.settled(ctx, 25*time.Second, f)
	return s.succeeded(ctx, orders, f)
}

// writes reports whether a call writes a job that is in a state.
func (s *studio) writes(c state.Call, to media.State) bool {
	if c.Operation != "PutItem" || c.Table != s.state.Names.Jobs {
		return false
	}
	_, w, ok := parseJobWrite(c)
	return ok && w.State == to
}

// succeeded demands that all orders are jobs that have succeeded, each made once, and shows what was made.
func (s *studio) succeeded(ctx context.Context, orders []order, f *Findings) []life {
	all := s.lives(orders)
	s.checkAll(all, f)
	for i, l := range all {
		if l.end() != media.Succeeded || l.submits != 1 {
			l.addf(f, "%d submits, %s", l.submits, l.path())
			continue
		}
		s.checkWork(ctx, orders[i], f)
	}
	s.checkDeadLetters(ctx, f)
	return all
}

// gatewayDies at the moment in which the provider has the job. Where that is not written yet nobody knows of it, and the job says so;
// where it is, the job goes on without anybody's doing.
func gatewayDies(ctx context.Context, s *studio, f *Findings) []life {
	var orders []order
	for _, at := range []state.Moment{state.Arrived, state.Applied} {
		for _, model := range []string{video, videoFal} {
			o := s.ordered(model, fmt.Sprintf("%s-%s", at, model))
			var once sync.Once
			s.Watch(func(c state.Call, m state.Moment) bool {
				if m != at || !s.writes(c, media.Running) {
					return true
				}
				hit := false
				once.Do(func() { hit = true; s.killAll(s.gateway) })
				return !hit
			})
			if first := s.post(ctx, o); first.Err == nil && first.Status == http.StatusAccepted {
				f.addf("%s: the killed gateway has answered: %s", o.key, first)
			}
			s.Watch(nil)
			a, _ := s.place(ctx, o, f)
			o.took(a, true, f)
			orders = append(orders, o)
		}
	}
	s.settled(ctx, 45*time.Second, f)
	all := s.lives(orders)
	s.checkAll(all, f)
	for i, l := range all {
		want := []media.State{media.Queued, media.Submitting, media.Uncertain, media.Expired}
		if strings.HasPrefix(orders[i].key, string(state.Applied)) {
			want = []media.State{media.Queued, media.Submitting, media.Running, media.Succeeded}
			s.checkWork(ctx, orders[i], f)
		}
		f.equal(l.name+": its life", want, l.states())
		f.equal(l.name+": submits", 1, l.submits)
	}
	s.checkDeadLetters(ctx, f)
	return all
}

// acceptanceLost: nobody knows whether there is a job, which is what it says, until it expires. It is never submitted again, whatever
// its client repeats and whatever comes twice.
func acceptanceLost(ctx context.Context, s *studio, f *Findings) []life {
	orders := []order{s.ordered(video+"-lost", "lost-veo"), s.ordered(videoFal+"-lost", "lost-fal"), s.ordered(song+"-lost", "lost-music")}
	for i := range orders {
		orders[i].took(s.post(ctx, orders[i]), false, f)
	}
	for i := range orders {
		o := &orders[i]
		s.until(ctx, o.id, media.Uncertain, 5*time.Second, f)
		o.took(s.post(ctx, *o), true, f)
	}
	s.settled(ctx, 30*time.Second, f)
	all := s.lives(orders)
	s.checkAll(all, f)
	for i, l := range all {
		f.equal(l.name+": its life", []media.State{media.Queued, media.Submitting, media.Uncertain, media.Expired}, l.states())
		f.equal(l.name+": submits", 1, l.submits)
		orders[i].took(s.post(ctx, orders[i]), true, f)
		f.equal(l.name+": submits after that", 1, s.lives(orders)[i].submits)
	}
	s.checkDeadLetters(ctx, f)
	return all
}

// until waits until a job is in a state.
func (s *studio) until(ctx context.Context, id string, want media.State, limit time.Duration, f *Findings) {
	var a reaction
	for until := time.Now().Add(limit); time.Now().Before(until) && ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
		if a = s.look(ctx, id); a.job().Status == want {
			return
		}
	}
	f.addf("%s: after %s it is not %s: %s", id, limit, want, a)
}

// sameKey: a key is bound to its order from the first moment to long after the end.
func sameKey(ctx context.Context, s *studio, f *Findings) []life {
	refusedAs := func(what string, status int, code string, a reaction) {
		if a.Err != nil || a.Status != status || a.errorCode() != code || a.Header.Get("X-Should-Retry") != "false" {
			f.addf("%s: %s, want status %d, %s", what, a, status, code)
		}
	}
	keyless := s.ordered(video, "")
	refusedAs("without a key", http.StatusBadRequest, "idempotency_key_required", s.post(ctx, keyless))
	keyless.path, keyless.model = music, song
	refusedAs("music without a key", http.StatusBadRequest, "idempotency_key_required", s.post(ctx, keyless))
	refusedAs("a key that is too long", http.StatusBadRequest, "validation_failed", s.post(ctx, s.ordered(video, strings.Repeat("k", 256))))
	f.equal("jobs after what was refused", 0, len(s.annals.ids()))

	orders := []order{s.ordered(video, "same-veo"), s.ordered(videoFal, "same-fal"), s.ordered(song, "same-music")}
	seen := map[string]map[media.State]bool{}
	for i := range orders {
		o := &orders[i]
		seen[o.key] = map[media.State]bool{}
		o.took(s.post(ctx, *o), false, f)
	}
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until) && ctx.Err() == nil; pause(ctx, 200*time.Millisecond) {
		done := 0
		for i := range orders {
			o := &orders[i]
			before := s.look(ctx, o.id).job().Status
			o.took(s.post(ctx, *o), true, f)
			if s.look(ctx, o.id).job().Status == before {
				seen[o.key][before] = true
			}
			other := *o
			other.prompt += " at night"
			b := s.post(ctx, other)
			refusedAs(o.key+": another order", http.StatusConflict, "idempotency_conflict", b)
			f.equal(o.key+": Retry-After of the conflict", "", b.Header.Get("Retry-After"))
			if over(before) {
				done++
			}
		}
		if done == len(orders) {
			break
		}
	}
	s.settled(ctx, 15*time.Second, f)
	for _, o := range orders {
		began := media.Running
		if o.path == music {
			began = media.Queued // what is made in one call waits for it
		}
		for _, state := range []media.State{began, media.Succeeded} {
			if !seen[o.key][state] {
				f.addf("%s: its order was not repeated while it was %s", o.key, state)
			}
		}
	}
	f.equal("jobs of three keys", 3, len(s.annals.ids()))
	return s.succeeded(ctx, orders, f)
}
