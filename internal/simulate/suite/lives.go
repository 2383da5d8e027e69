package suite

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"spillway/internal/media"
	"spillway/internal/runtimeapi"
)

// A life is what is known of one job when everything is over.
type life struct {
	// name is what its client calls it: its key.
	name string
	id   string
	// writes are the store's, in the order of their versions.
	writes []jobWrite
	// submits are the calls that have made it, by the provider's own count.
	submits int
	// polls are the questions that the provider was asked about it.
	polls int
	// events are the ids of the events that its callback was told, each as often as it came.
	events []string
	// counted are the records of its end, by which its cost is counted; strange those of a word that nobody knows.
	counted, strange int
}

// nexts are the edges of contract §8.
var nexts = map[media.State][]media.State{
	media.Queued:     {media.Submitting, media.Cancelled, media.Expired},
	media.Submitting: {media.Running, media.Queued, media.Failed, media.Uncertain},
	media.Running:    {media.Succeeded, media.Failed, media.Cancelled, media.Expired},
	media.Uncertain:  {media.Running, media.Failed, media.Expired},
}

func over(s media.State) bool {
	return s == media.Succeeded || s == media.Failed || s == media.Cancelled || s == media.Expired
}

// end is the state that the last write left.
func (l life) end() media.State {
	if len(l.writes) == 0 {
		return ""
	}
	return l.writes[len(l.writes)-1].State
}

// states are the states that the job was in, one after the other.
func (l life) states() (all []media.State) {
	for _, w := range l.writes {
		if len(all) == 0 || all[len(all)-1] != w.State {
			all = append(all, w.State)
		}
	}
	return all
}

// was reports whether it was ever in a state.
func (l life) was(s media.State) bool { return slices.Contains(l.states(), s) }

// findings about one job begin with its name.
func (l life) addf(f *Findings, format string, args ...any) {
	f.addf("%s: %s", l.name, fmt.Sprintf(format, args...))
}

// checkWrites: each version was written once, each change of state is one that there is, and one of them, the last, ends the job.
func (l life) checkWrites(f *Findings) {
	if len(l.writes) == 0 {
		l.addf(f, "the store has no job of it")
		return
	}
	first := l.writes[0]
	if first.State != media.Queued {
		l.addf(f, "it began as %s", first.State)
	}
	ends := 0
	for i, w := range l.writes[1:] {
		before := l.writes[i]
		if w.Version != before.Version+1 {
			l.addf(f, "version %d was written after version %d", w.Version, before.Version)
		}
		if w.State != before.State && !slices.Contains(nexts[before.State], w.State) {
			l.addf(f, "it went from %s to %s", before.State, w.State)
		}
		if over(w.State) && w.State != before.State {
			ends++
		}
		if w.Event != before.Event {
			l.addf(f, "its event was %s and is %s", before.Event, w.Event)
		}
	}
	if ends != 1 || !over(l.end()) {
		l.addf(f, "it has ended %d times: %s", ends, l.path())
	}
}

// path is the states as a line.
func (l life) path() string {
	var all []string
	for _, s := range l.states() {
		all = append(all, string(s))
	}
	return strings.Join(all, " → ")
}

// checkSubmits: nothing was paid twice, and what has succeeded was made.
func (l life) checkSubmits(f *Findings) {
	if l.submits > 1 || l.submits == 0 && l.end() == media.Succeeded {
		l.addf(f, "the provider counts %d submits of a job that has %s", l.submits, l.end())
	}
}

// checkEvents: its callback was told of its end, and each time by the same id, which is the one that was made with it.
func (l life) checkEvents(f *Findings) {
	if len(l.events) == 0 {
		l.addf(f, "its callback was never told")
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(l.events))) {
		if len(l.writes) > 0 && id != l.writes[0].Event || id == "" {
			l.addf(f, "its callback was told of the event %q, which is not its own", id)
		}
	}
}

// checkCounted: its end is recorded once, or, where whoever wrote it was killed, not at all.
func (l life) checkCounted(killed bool, f *Findings) {
	if l.counted > 1 || l.counted == 0 && !killed {
		l.addf(f, "its end was recorded %d times", l.counted)
	}
}

// checkEnd: it has succeeded, or nobody knows what became of its submit because whoever made it was killed: then there is a kill
// between the claim and the moment in which the job was found to be uncertain.
func (l life) checkEnd(kills []time.Time, f *Findings) {
	if l.end() == media.Succeeded {
		return
	}
	var claimed, lost time.Time
	for _, w := range l.writes {
		switch {
		case w.State == media.Submitting:
			claimed = w.At
		case w.State == media.Uncertain && lost.IsZero():
			lost = w.At
		}
	}
	if lost.IsZero() || !slices.ContainsFunc(kills, func(at time.Time) bool { return !at.Before(claimed.Add(-killTakes)) && at.Before(lost) }) {
		l.addf(f, "it has ended without a result and without a kill during its submit: %s (%s)", l.path(), l.writes[len(l.writes)-1].Error)
	}
}

// killTakes is how much earlier than its victim's last write a kill may be noted.
const killTakes = time.Second

// checkDead: a message was put aside only if each of its deliveries ended with the process that had it.
func checkDead(queue string, dead []runtimeapi.Message, b *book, receives int, f *Findings) {
	for _, m := range dead {
		all := b.of(m.ID)
		killed := 0
		for _, d := range all {
			if d.err != nil {
				killed++
			}
		}
		if killed < receives {
			f.addf("a message of %s was put aside after %d deliveries, of which %d were cut short: %s", queue, len(all), killed, cut(m.Body))
		}
	}
}

// accountOf sums up the jobs of a row: submits, polls, and how they have ended.
func accountOf(all []life) (submits, polls, ends string) {
	var made, asked int
	count := map[media.State]int{}
	for _, l := range all {
		made += l.submits
		asked += l.polls
		count[l.end()]++
	}
	var parts []string
	for _, s := range media.States() {
		if n := count[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	return itoa(made), itoa(asked), strings.Join(parts, ", ")
}
