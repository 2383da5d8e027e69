package suite

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"spillway/internal/media"
	"spillway/internal/runtimeapi"
	"spillway/internal/simulate/state"
)

// A jobCrash is one step of a job's journey at which a process is killed: the table of package jobs, line by line.
type jobCrash struct {
	name, at string
	model    string
	// function is who is killed when a call of the store that is meant is in the moment.
	function string
	meant    func(*studio, state.Call) bool
	moment   state.Moment
	// path is the life that is right, and submits the orders that the provider takes.
	path    []media.State
	submits int
	// fresh says that the repeated order makes the job: the first has left nothing.
	fresh bool
	// objects are the works that lie in the bucket at the end, told the least tellings. twin says that two messages of one poll may be
	// handled at the same time, so that there may be one work more, which no job names.
	objects, told int
	twin          bool
}

var (
	whole     = then(ran, media.Succeeded)
	uncertain = then(submitted, media.Uncertain, media.Expired)
)

// jobCrashes are the steps of a job's journey. F27 has two more.
var jobCrashes = []jobCrash{
	{name: "unwritten", at: "before the job is written", model: video, function: "gateway", meant: writing(media.Queued), moment: state.Arrived,
		path: whole, submits: 1, fresh: true, objects: 1, told: 1},
	{name: "created", at: "when the job is created", model: videoFal, function: "gateway", meant: writing(media.Queued), moment: state.Applied,
		path: whole, submits: 1, objects: 1, told: 1},
	{name: "waiting", at: "when a job that waits for the queue is created", model: song, function: "gateway", meant: writing(media.Queued), moment: state.Applied,
		path: whole, submits: 1, objects: 1, told: 1},
	{name: "claimed", at: "between the claim and the submit", model: video, function: "gateway", meant: writing(media.Submitting), moment: state.Applied,
		path: uncertain, submits: 0, told: 1},
	{name: "made", at: "when the work of an answer is kept and no job names it", model: song, function: "poller", meant: writing(media.Running), moment: state.Arrived,
		path: uncertain, submits: 1, objects: 1, told: 1},
	{name: "named", at: "when the job names the work of an answer", model: song, function: "poller", meant: writing(media.Running), moment: state.Applied,
		path: whole, submits: 1, objects: 1, told: 1},
	{name: "polled", at: "between a poll and the message of the next", model: video, function: "poller", meant: sendsPoll, moment: state.Arrived,
		path: whole, submits: 1, objects: 1, told: 1},
	{name: "sent", at: "between the message of the next poll and the write", model: videoFal, function: "poller", meant: sendsPoll, moment: state.Applied,
		path: whole, submits: 1, objects: 1, told: 1, twin: true},
	{name: "copied", at: "between the copy and the write of the end", model: video, function: "poller", meant: writing(media.Succeeded), moment: state.Arrived,
		path: whole, submits: 1, objects: 2, told: 1},
	{name: "ended", at: "when the end is written and nobody was told", model: videoFal, function: "poller", meant: writing(media.Succeeded), moment: state.Applied,
		path: whole, submits: 1, objects: 1, told: 1},
	{name: "told", at: "between the telling and its write", model: video, function: "poller", meant: writesTold, moment: state.Arrived,
		path: whole, submits: 1, objects: 1, told: 2},
	{name: "swept", at: "when the sweeper has sent a message that was lost", model: videoFal, function: "sweeper", meant: sendsAgain, moment: state.Applied,
		path: whole, submits: 1, objects: 1, told: 1},
}

// writing is meant where a job is first written in a state.
func writing(to media.State) func(*studio, state.Call) bool {
	return func(s *studio, c state.Call) bool { return s.writes(c, to) }
}

// sendsPoll is meant where the message of a poll is sent by somebody else than who has submitted the job.
func sendsPoll(s *studio, c state.Call) bool {
	return c.Operation == "SendMessage" && c.Table == s.state.Names.Polls && !bytes.Contains(c.Body, []byte(`\"seq\":1}`))
}

// sendsAgain is meant where the message of the first poll, which is lost, is sent once more.
func sendsAgain(s *studio, c state.Call) bool {
	first := func(c state.Call) bool {
		return c.Operation == "SendMessage" && c.Table == s.state.Names.Polls && bytes.Contains(c.Body, []byte(`\"seq\":1}`))
	}
	sent := 0
	for _, before := range s.state.Calls() {
		if first(before) {
			sent++
		}
	}
	return first(c) && sent > 1
}

// writesTold is meant where a job that has ended is written once more.
func writesTold(s *studio, c state.Call) bool {
	if c.Operation != "PutItem" || c.Table != s.state.Names.Jobs {
		return false
	}
	id, w, ok := parseJobWrite(c)
	written := s.annals.of(id)
	return ok && over(w.State) && len(written) > 0 && over(written[len(written)-1].State)
}

// crashRows are the rows of F30 for jobs.
func crashRows() (rows []Row) {
	for _, c := range jobCrashes {
		row := Row{
			Name: "F30 job " + c.name, Fault: "killed " + c.at,
			// The first poll comes after 2 s ± 20 %, which a queue rounds up to 3: the job is still made then.
			Stage: Stage{Takes: 4 * time.Second, Limits: Overrides{"deadline_ms": 20_000, "lease_ms": 6_000}},
			Job:   c.play, Lasts: 25 * time.Second, Recorded: jobPass,
		}
		if c.function == "sweeper" {
			row.Stage.Queues.lose = 1 // so that it has something to do
		}
		rows = append(rows, row)
	}
	return rows
}

func (c jobCrash) play(ctx context.Context, s *studio, f *Findings) []life {
	front := map[string]*runtimeapi.Front{"gateway": s.gateway, "poller": s.poller, "sweeper": s.sweeper}[c.function]
	var objects atomic.Int32
	struck := make(chan struct{})
	var once sync.Once
	s.Watch(func(call state.Call, m state.Moment) bool {
		if call.Operation == "PutObject" && m == state.Applied && call.Status == http.StatusOK {
			objects.Add(1)
		}
		if m != c.moment || !c.meant(s, call) {
			return true
		}
		hit := false
		once.Do(func() { hit = true; s.killAll(front); close(struck) })
		return !hit
	})
	o := s.ordered(c.model, c.name)
	a, tries := s.place(ctx, o, f)
	o.took(a, tries > 1 && !c.fresh, f)
	s.settled(ctx, 50*time.Second, f)
	s.drained(ctx, 20*time.Second, f)
	select {
	case <-struck:
	default:
		f.addf("nothing was killed: the moment has not come")
	}
	s.Watch(nil)

	all := s.lives([]order{o})
	s.checkAll(all, f)
	l := all[0]
	f.equal("orders until it was taken", map[bool]int{true: 2, false: 1}[c.function == "gateway"], tries)
	f.equal("its life", c.path, l.states())
	f.equal("submits", c.submits, l.submits)
	if n := int(objects.Load()); n != c.objects && (!c.twin || n != c.objects+1) {
		f.addf("works in the bucket: got %d, want %d", n, c.objects)
	}
	if len(l.events) < c.told || c.told == 1 && len(l.events) > 1 {
		f.addf("it was told %d times, want %d", len(l.events), c.told)
	}
	if slices.Equal(c.path, whole) {
		s.checkWork(ctx, o, f)
	}
	s.checkDeadLetters(ctx, f)
	return all
}
