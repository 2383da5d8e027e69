package suite

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"spillway/internal/media"
	"spillway/internal/simulate/state"
)

// A jobWrite is one write of a job that the store has taken.
type jobWrite struct {
	Version int
	State   media.State
	// Error is why the job ended, in the words of the table; empty: it has not, or not so.
	Error string
	// Event is the id of the event that tells its end.
	Event string
	At    time.Time
}

// annals are all writes of jobs that a store has taken, as its wire saw them: what no process can deny afterwards. Its zero value is
// empty. It is safe for concurrent use.
type annals struct {
	mu   sync.Mutex
	jobs map[string][]jobWrite
}

// note takes down a call of the store if it is one that has written a job.
func (a *annals) note(c state.Call, m state.Moment, table string) {
	if m != state.Applied || c.Operation != "PutItem" || c.Table != table || c.Status != http.StatusOK {
		return
	}
	id, w, ok := parseJobWrite(c)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.jobs == nil {
		a.jobs = map[string][]jobWrite{}
	}
	a.jobs[id] = append(a.jobs[id], w)
}

// parseJobWrite reads what a PutItem writes of a job.
func parseJobWrite(c state.Call) (id string, w jobWrite, ok bool) {
	var in struct {
		Item map[string]struct{ S, N string }
	}
	if json.Unmarshal(c.Body, &in) != nil {
		return "", w, false
	}
	id = in.Item["job"].S
	version, err := strconv.Atoi(cmp.Or(in.Item["version"].N, "0"))
	if err != nil || id == "" {
		return "", w, false
	}
	return id, jobWrite{Version: version, State: media.State(in.Item["status"].S), Error: in.Item["last_error"].S, Event: in.Item["event_id"].S, At: time.Now()}, true
}

// of are the writes of a job, in the order of their versions.
func (a *annals) of(id string) []jobWrite {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := slices.Clone(a.jobs[id])
	slices.SortStableFunc(all, func(a, b jobWrite) int { return cmp.Compare(a.Version, b.Version) })
	return all
}

// ids are the jobs that were ever written.
func (a *annals) ids() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.jobs))
}
