package simulate

import (
	"fmt"
	"sync"
	"time"
)

// Job is an order that the provider has taken.
type Job struct {
	// ID is the provider's own.
	ID string `json:"id"`
	// API is whose words it was ordered in: veo, fal or elevenlabs.
	API    string `json:"api"`
	Model  string `json:"model"`
	Prompt string `json:"prompt"`
	// Submits is how many orders with this prompt were taken, by whatever API: each is a job of its own.
	Submits int `json:"submits"`
	// Polls are the questions for its state and its result, whatever their answers; Downloads and Cancels are likewise.
	Polls     int `json:"polls"`
	Downloads int `json:"downloads"`
	Cancels   int `json:"cancels"`
	// State is one of the states below. It says how the provider sees it, which a caller may be told otherwise.
	State   string    `json:"state"`
	Created time.Time `json:"created"`
	// Finished is zero while it goes on.
	Finished time.Time `json:"finished,omitzero"`
	// Size of its work, in bytes.
	Size int64 `json:"size"`
}

// The states of a job.
const (
	JobQueued    = "queued"
	JobRunning   = "running"
	JobSucceeded = "succeeded"
	JobFailed    = "failed"
	JobCancelled = "cancelled"
)

// job is a Job and what decides its life.
type job struct {
	Job
	conduct conduct
	takes   time.Duration
	nth     int // order for its model with its prompt
	// stopped is when it was cancelled; zero: it was not.
	stopped time.Time
	// before is the state that it had when it was asked to stop.
	before string
}

func (j *job) ended() bool { return !j.Finished.IsZero() }

// live brings state and end to where they are at a time. A job waits for a third of its time, then runs.
func (j *job) live(now time.Time) {
	end := j.Created.Add(j.takes)
	switch {
	case !j.stopped.IsZero():
		j.State, j.Finished = JobCancelled, j.stopped
	case now.Sub(j.Created) < j.takes/3:
		j.State = JobQueued
	case j.conduct.endless || now.Before(end):
		j.State = JobRunning
	case j.conduct.filtered || j.conduct.failed:
		j.State, j.Finished = JobFailed, end
	default:
		j.State, j.Finished = JobSucceeded, end
	}
}

// ahead is how many jobs are before it in the queue: two, one, none.
func (j *job) ahead(now time.Time) int {
	if j.State != JobQueued {
		return 0
	}
	return 2 - int(9*now.Sub(j.Created)/j.takes)
}

// books are the jobs since the last reset, which alone forgets them. Their zero value is empty.
type books struct {
	mu     sync.Mutex
	last   int // number of the last job; a reset does not begin anew, so that no id is given twice
	jobs   []*job
	byID   map[string]*job
	taken  map[string]int    // orders by prompt
	byBoth map[[2]string]int // orders by model and prompt
}

// begin makes a job of an order.
func (b *books) begin(made Job, c conduct, takes time.Duration) job {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byID == nil {
		b.byID, b.taken, b.byBoth = map[string]*job{}, map[string]int{}, map[[2]string]int{}
	}
	b.last++
	b.taken[made.Prompt]++
	b.byBoth[[2]string{made.Model, made.Prompt}]++
	made.ID = fmt.Sprintf("job-sim-%06d", b.last)
	j := &job{Job: made, conduct: c, takes: takes, nth: b.byBoth[[2]string{made.Model, made.Prompt}]}
	j.live(made.Created)
	b.jobs = append(b.jobs, j)
	b.byID[j.ID] = j
	return *j
}

// find is a job, without its state.
func (b *books) find(id string) (job, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j, ok := b.byID[id]
	if !ok {
		return job{}, false
	}
	return *j, true
}

// note counts a deed about a job of an API, stops it if it is to stop, and returns it as it is then.
func (b *books) note(e errand, api string, now time.Time) (job, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j, ok := b.byID[e.job]
	if !ok || j.API != api || j.Model != e.model {
		return job{}, false
	}
	j.live(now)
	switch e.deed {
	case polls, collects:
		j.Polls++
	case downloads:
		j.Downloads++
	case cancels:
		j.Cancels++
		if j.before = j.State; !j.ended() {
			j.stopped = now
			j.live(now)
		}
	}
	return *j, true
}

// Jobs are all jobs since the last reset, in the order in which they were taken.
func (p *Provider) Jobs() []Job {
	b := &p.books
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	out := make([]Job, 0, len(b.jobs))
	for _, j := range b.jobs {
		j.live(now)
		shown := j.Job
		shown.Submits = b.taken[j.Prompt]
		out = append(out, shown)
	}
	return out
}

func (b *books) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.jobs, b.byID, b.taken, b.byBoth = nil, nil, nil, nil
}
