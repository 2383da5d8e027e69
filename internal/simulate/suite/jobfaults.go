package suite

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"spillway/internal/media"
)

// A jobFault is what a provider may do to a job, and what contract §8 makes of it.
type jobFault struct {
	suffix string
	apis   []string
	fault  string
	// path is the life that is right, and code the error at its end; empty: none.
	path []media.State
	code string
	// polls are the least and the most questions that the provider may be asked; submits are the orders that it takes.
	polls   [2]int
	submits int
	// cancels are the least calls that ask the provider to stop.
	cancels int
}

var (
	polledAPIs = []string{"veo", "fal"}
	veoAPI     = []string{"veo"}
	falAPI     = []string{"fal"}
	songAPI    = []string{"elevenlabs"}

	submitted = []media.State{media.Queued, media.Submitting}
	ran       = append(slices.Clip(submitted), media.Running)
)

func then(path []media.State, more ...media.State) []media.State {
	return append(slices.Clip(path), more...)
}

// jobFaults are the rows of F28, some for one API only, and beside them what else a provider does to a job. fal is asked once more than
// the others, for the result.
var jobFaults = []jobFault{
	{"-strange", polledAPIs, "a state that nobody knows", then(ran, media.Succeeded), "", [2]int{4, 9}, 1, 0},
	{"-gone", polledAPIs, "404 for a job that is known", then(ran, media.Expired), media.Gone, [2]int{2, 2}, 1, 0},
	{"-502", polledAPIs, "five 502s in a row", then(ran, media.Succeeded), "", [2]int{6, 10}, 1, 0},
	{"-empty", polledAPIs, "success without a work", then(ran, media.Failed), media.NoArtifact, [2]int{1, 6}, 1, 0},
	{"-empty", songAPI, "success without a work", then(submitted, media.Failed), media.NoArtifact, [2]int{}, 1, 0},
	{"-moderated", veoAPI, "moderation of what was made", then(ran, media.Failed), media.ContentFilter, [2]int{1, 5}, 1, 0},
	{"-moderated", []string{"fal", "elevenlabs"}, "moderation of the order", then(submitted, media.Failed), media.ContentFilter, [2]int{}, 0, 0},
	{"-expired", polledAPIs, "a link that has expired", then(ran, media.Failed), "result_expired", [2]int{1, 6}, 1, 0},
	{"-failed", polledAPIs, "a failure of the provider", then(ran, media.Failed), "provider_error", [2]int{1, 6}, 1, 0},
	{"-cut", polledAPIs, "a work that breaks off, the first time", then(ran, media.Succeeded), "", [2]int{2, 8}, 1, 0},
	{"-cut", songAPI, "a work that breaks off, which can be had once only", then(submitted, media.Failed), "provider_error", [2]int{}, 1, 0},
	{"-late", polledAPIs, "a hint to come again after 8 s", then(ran, media.Succeeded), "", [2]int{2, 3}, 1, 0},
	{"-never", veoAPI, "no end, and no way to cancel", then(ran, media.Expired), "expired", [2]int{5, 15}, 1, 0},
	{"-never", falAPI, "no end", then(ran, media.Expired), "expired", [2]int{5, 15}, 1, 1},
	{"-never", songAPI, "no end", then(submitted, media.Uncertain, media.Expired), "expired", [2]int{}, 1, 0},
	{"-down", []string{"veo", "fal", "elevenlabs"}, "503, of which nobody knows what it has done", then(submitted, media.Uncertain, media.Expired), "expired", [2]int{}, 0, 0},
	{"-refused", []string{"veo", "elevenlabs"}, "a rate limit", then(submitted, media.Failed), "provider_rate_limited", [2]int{}, 0, 0},
	{"-refused", falAPI, "an exhausted balance", then(submitted, media.Failed), "provider_error", [2]int{}, 0, 0},
}

// healthy are the models without a fault.
var healthy = map[string]string{"veo": video, "fal": videoFal, "elevenlabs": song}

// faultsOf is the row of one API: a job for each of its faults, all at the same time.
func faultsOf(api string) Row {
	return Row{
		Name: "F28 " + api, Fault: "everything that the provider may answer to a question about a job, one job each",
		Stage: Stage{Takes: 4 * time.Second, Limits: Overrides{"deadline_ms": 30_000, "lease_ms": 8_000}},
		Job: func(ctx context.Context, s *studio, f *Findings) []life {
			return everyFault(ctx, s, api, f)
		},
		Lasts: 35 * time.Second, Recorded: jobPass,
	}
}

func everyFault(ctx context.Context, s *studio, api string, f *Findings) []life {
	var faults []jobFault
	var orders []order
	for _, jf := range jobFaults {
		if !slices.Contains(jf.apis, api) {
			continue
		}
		o := s.ordered(healthy[api]+jf.suffix, jf.suffix[1:])
		o.took(s.post(ctx, o), false, f)
		faults, orders = append(faults, jf), append(orders, o)
	}
	s.settled(ctx, 60*time.Second, f)
	all := s.lives(orders)
	s.checkAll(all, f)
	for i, l := range all {
		faults[i].check(ctx, s, orders[i], l, f)
	}
	s.checkDeadLetters(ctx, f)
	return all
}

// check holds a job to its fault.
func (jf jobFault) check(ctx context.Context, s *studio, o order, l life, f *Findings) {
	f.equal(l.name+": its life", jf.path, l.states())
	f.equal(l.name+": submits", jf.submits, l.submits)
	if l.polls < jf.polls[0] || l.polls > jf.polls[1] {
		l.addf(f, "%d polls, want %d to %d", l.polls, jf.polls[0], jf.polls[1])
	}
	shown, code := s.look(ctx, o.id).job(), ""
	if shown.Error != nil {
		code = shown.Error.Code
	}
	f.equal(l.name+": its error", jf.code, code)
	f.equal(l.name+": warnings of a state that nobody knows", map[bool]int{true: 1}[jf.suffix == "-strange"], l.strange)
	for _, j := range s.provider.Jobs() {
		if j.Prompt == o.prompt && j.Cancels < jf.cancels {
			l.addf(f, "the provider was asked %d times to cancel it", j.Cancels)
		}
	}
	if l.end() == media.Succeeded {
		s.checkWork(ctx, o, f)
	}
	s.notef("%-11s %-50s %s %s(%d polls)", l.name, jf.fault+":", l.end(), strings.TrimPrefix(code+" ", " "), l.polls)
}

// twice is F29.
var twice = Row{
	Name: "F29", Fault: "every message comes twice, late and out of order, and one of each queue never",
	Stage: Stage{Queues: unreliable{lose: 1, duplicate: 1, delay: 0.3, late: 2 * time.Second, shuffle: true}},
	Job:   everythingTwice, Lasts: 20 * time.Second, Recorded: jobPass,
}

// poison is a message that can never be handled, in the middle of others.
var poison = Row{
	Name: "F29 poison", Fault: "a message that nobody can handle, and one for a job that there is not, among those of jobs",
	Job: poisoned, Lasts: 40 * time.Second, Recorded: jobPass,
}

func poisoned(ctx context.Context, s *studio, f *Findings) []life {
	bad := []string{`{"do":"poll"`, `{"do":"poll","organization":"suite","job":"job_of_nobody","seq":1}`}
	for _, queue := range s.state.Names.Queues() {
		for _, body := range bad {
			if err := s.state.Send(queue, body); err != nil {
				f.addf("sending to %s: %v", queue, err)
			}
		}
	}
	var orders []order
	for i := range 6 {
		o := s.ordered([]string{video, videoFal, song}[i%3], fmt.Sprintf("beside-%d", i))
		o.took(s.post(ctx, o), false, f)
		orders = append(orders, o)
	}
	s.settled(ctx, 30*time.Second, f)
	all := s.succeeded(ctx, orders, f)
	s.drained(ctx, time.Duration(receives+2)*visibility, f)
	for _, queue := range s.state.Names.Queues() {
		dead, err := s.state.Dead(ctx, queue)
		if err != nil {
			f.addf("reading the dead letters of %s: %v", queue, err)
		}
		var bodies []string
		for _, m := range dead {
			bodies = append(bodies, m.Body)
			f.equal("deliveries of a message that was put aside", receives, len(s.book.of(m.ID)))
		}
		slices.Sort(bodies)
		want := slices.Sorted(slices.Values(bad))
		f.equal("what was put aside of "+queue, want, bodies)
	}
	return all
}

// cancelling is a client that changes its mind at each age of a job.
var cancelling = Row{
	Name: "F28 cancel", Fault: "a job is cancelled while it waits, while it is made by a provider that can stop and by one that cannot, and at its end",
	Stage: Stage{Takes: 4 * time.Second, Queues: unreliable{delay: 1, late: 4 * time.Second}}, // so that the music waits
	Job:   cancelled, Lasts: 15 * time.Second, Recorded: jobPass,
}

func cancelled(ctx context.Context, s *studio, f *Findings) []life {
	type wish struct {
		model            string
		status           int
		path             []media.State
		submits, cancels int
	}
	wishes := []wish{
		{song, http.StatusOK, []media.State{media.Queued, media.Cancelled}, 0, 0},
		{videoFal, http.StatusOK, then(ran, media.Cancelled), 1, 1},
		{video, http.StatusAccepted, then(ran, media.Succeeded), 1, 0}, // the API has nothing to call: what was asked for is made
	}
	cancel := func(o order) reaction { return s.call(ctx, http.MethodPost, "/v1/jobs/"+o.id+"/cancel", nil, "") }
	var orders []order
	for _, w := range wishes {
		o := s.ordered(w.model, "cancel-"+w.model)
		o.took(s.post(ctx, o), false, f)
		if a := cancel(o); a.Err != nil || a.Status != w.status || a.job().ID != o.id {
			f.addf("%s: cancelling was answered %s, want status %d", o.key, a, w.status)
		}
		orders = append(orders, o)
	}
	s.settled(ctx, 40*time.Second, f)
	s.drained(ctx, 20*time.Second, f)
	all := s.lives(orders)
	s.checkAll(all, f)
	for i, l := range all {
		f.equal(l.name+": its life", wishes[i].path, l.states())
		f.equal(l.name+": submits", wishes[i].submits, l.submits)
		if a := cancel(orders[i]); a.Err != nil || a.Status != http.StatusConflict {
			l.addf(f, "cancelling it at its end was answered %s", a)
		}
	}
	for _, j := range s.provider.Jobs() {
		i := slices.IndexFunc(orders, func(o order) bool { return o.prompt == j.Prompt })
		f.equal("cancels of "+j.Model, wishes[i].cancels, j.Cancels)
	}
	s.checkDeadLetters(ctx, f)
	return all
}

func everythingTwice(ctx context.Context, s *studio, f *Findings) []life {
	var orders []order
	for i := range 12 {
		model := []string{video, videoFal, song}[i%3]
		o := s.ordered(model, fmt.Sprintf("twice-%02d", i))
		o.took(s.post(ctx, o), false, f)
		orders = append(orders, o)
	}
	s.settled(ctx, 60*time.Second, f)
	s.drained(ctx, 15*time.Second, f)
	all := s.succeeded(ctx, orders, f)
	messages, deliveries, _ := s.book.counts()
	if deliveries < 2*messages {
		f.addf("%d messages came only %d times", messages, deliveries)
	}
	f.equal("messages that were lost", len(s.state.Names.Queues()), s.lost())
	s.notef("seed %d: %d messages in %d deliveries, %d lost", s.seed, messages, deliveries, s.lost())
	return all
}
