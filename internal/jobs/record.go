package jobs

import (
	"cmp"
	"errors"
	"net"
	"strings"

	"spillway/internal/fault"
	"spillway/internal/media"
	"spillway/internal/telemetry"
)

// Records is a Recorder that writes what happens to jobs as records and metrics (contract.md §10): each call of a provider as
// an attempt, each change of a job once, its end with what it cost. Of what a job is asked to make, of where its work lies, of
// its callback and of its provider's handle there is nothing in them. Its fields must be set before use.
type Records struct {
	To *telemetry.Recorder
	// Policy says which failures need a person.
	Policy *fault.Policy
}

var _ Recorder = (*Records)(nil)

// Called implements Recorder. An answer from memory is no attempt, but it needs a person no less.
func (r *Records) Called(c Called) {
	call := telemetry.JobCall{Job: c.Job.ID, Operation: c.What, Provider: c.Channel.Provider.Name, Channel: c.Channel.Name, Model: c.Channel.Model,
		UpstreamID: c.RequestID, Duration: c.Took, Decision: string(decisionOf(c)), PolicyVersion: r.Policy.Version}
	if c.Credential != nil {
		call.Credential = c.Credential.Alias
	}
	f := c.Failure
	if f == nil {
		r.To.JobCalled(call)
		return
	}
	rule := r.Policy.Rule(f.Class)
	call.Status, call.Class, call.Evidence, call.Ambiguous, call.Remedy = f.Status, string(f.Class), string(f.Evidence), f.Ambiguous, rule.Remedy
	if f.Hint.Known {
		call.Hint, call.HintSource = f.Hint.Wait, f.Hint.Source
	}
	if !recalled(f) {
		r.To.JobCalled(call)
	}
	if rule.Alert {
		r.To.Alert(c.Start.Add(c.Took), string(f.Class), call.Provider, call.Credential, rule.Remedy)
	}
}

// decision is what follows a call.
type decision string

const (
	answered decision = "answered"
	// nextChannel: the provider surely has not taken the job, and another channel is asked, if there is one.
	nextChannel decision = "next_channel"
	// unsure: nobody knows whether it has, and nobody submits the job again.
	unsure decision = "uncertain"
	// endJob: the job has failed.
	endJob decision = "end"
	// askAgain: the next poll, or the next sweep, asks again.
	askAgain decision = "ask_again"
	// goOn: the job goes on as if nobody had asked.
	goOn decision = "go_on"
)

func decisionOf(c Called) decision {
	switch {
	case c.Failure == nil:
		return answered
	case c.What == "cancel":
		return goOn
	case c.What != submit:
		return askAgain
	}
	switch judge(c.Failure, "", false).(type) {
	case media.Refused:
		return nextChannel
	case media.Lost:
		return unsure
	default:
		return endJob
	}
}

// Changed implements Recorder.
func (r *Records) Changed(before, after media.Job) {
	reason := happened(before, after)
	r.To.JobChanged(telemetry.JobChange{Job: jobOf(before, after), From: string(before.State), To: string(after.State), Reason: reason,
		Quiet: before.State == after.State && before.Tells == after.Tells && before.CancelAsked == after.CancelAsked && reason != waits})
	if after.Strange != before.Strange {
		r.To.JobWord(after.ID, after.Provider, after.Channel, plain(after.Strange))
	}
	count := func(metric telemetry.Metric, when bool) {
		if when {
			r.To.JobCounted(metric, after.Provider, after.UpdatedAt)
		}
	}
	count(telemetry.PollFailures, after.PollFailures > before.PollFailures)
	count(telemetry.UncertainJobs, before.State != media.Uncertain && after.State == media.Uncertain)
	count(telemetry.WebhooksFailed, notTold(before, after))
	if !before.State.Terminal() && after.State.Terminal() {
		r.finished(before, after)
	}
}

func (r *Records) finished(before, after media.Job) {
	end := telemetry.JobEnd{Job: jobOf(before, after), Outcome: happened(before, after), State: string(after.State), At: after.FinishedAt,
		Cost: telemetry.Cost(after.Cost)}
	if after.Error != nil {
		end.Class = after.Error.Class
	}
	if after.Result != nil {
		end.Size = after.Result.Size
	}
	r.To.JobFinished(end)
}

// jobOf is a job as records have it. One that was refused is told with the channel that refused it.
func jobOf(before, after media.Job) telemetry.Job {
	who := after
	if after.Channel == "" {
		who = before
	}
	return telemetry.Job{ID: after.ID, Organization: after.Organization, Kind: string(after.Kind), Model: after.Model, Provider: who.Provider,
		Channel: who.Channel, Credential: who.Credential, Poll: after.Seq, PollFailures: after.PollFailures, Submits: after.Submits,
		Refusals: after.Refusals, Fallback: who.Routing.Fallback, Age: after.UpdatedAt.Sub(after.CreatedAt)}
}

func notTold(before, after media.Job) bool {
	return after.Tells > before.Tells && (after.Untold || !after.TellAt.IsZero())
}

// happened names what has changed a job; of an end it is the code of its error, or succeeded.
func happened(before, after media.Job) string {
	switch {
	case before.State == after.State:
		return happenedWithin(before, after)
	case after.State.Terminal() && after.Error != nil:
		return after.Error.Code
	case after.State.Terminal():
		return string(after.State)
	case after.State == media.Submitting:
		return "claimed"
	case after.State == media.Queued:
		return "refused"
	case after.State == media.Uncertain:
		return "lost"
	case before.State == media.Uncertain:
		return "found"
	default:
		return "accepted"
	}
}

// waits is what happens to a job that nobody is asked to take for now.
const waits = "waits"

// happenedWithin names what has changed a job that is in the state in which it was.
func happenedWithin(before, after media.Job) string {
	switch {
	case after.Untold && !before.Untold:
		return "untold"
	case notTold(before, after):
		return "not_told"
	case after.Tells > before.Tells:
		return "told"
	case after.CancelAsked != before.CancelAsked:
		return "asked_to_cancel"
	case after.PollFailures > before.PollFailures:
		return "poll_failed"
	case after.State == media.Queued && after.LastError != before.LastError:
		return waits
	case after.Seq == before.Seq:
		return "nudged" // by the sweeper
	default:
		return "pending"
	}
}

// Trouble implements Recorder.
func (r *Records) Trouble(job, doing string, err error) { r.To.JobTrouble(job, doing, causeOf(err)) }

// Panicked implements Recorder.
func (r *Records) Panicked(id, value, stack string) { r.To.Panicked(id, value, stack) }

// maxCause is the longest cause that is written, in bytes.
const maxCause = 300

// causeOf is what an error says, without what might be somebody's address or a provider's text: our adapters promise to leave these
// out, and the libraries under them do not.
func causeOf(err error) string {
	if err == nil {
		return ""
	}
	if f, ok := errors.AsType[*fault.Failure](err); ok {
		return cmp.Or(string(f.Class), string(fault.Unknown))
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "a host was not found"
	}
	words := strings.Fields(err.Error())
	for i, w := range words {
		if strings.Contains(w, "://") || strings.ContainsAny(w, "?@") {
			words[i] = "(address)"
		}
	}
	text := strings.Join(words, " ")
	return text[:min(len(text), maxCause)]
}

// plain is a provider's word for a state, if it looks like one: an address or an object may be anything.
func plain(word string) string {
	for _, c := range []byte(word) {
		if !strings.ContainsRune(`_-: "`, rune(c)) && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return "(no word)"
		}
	}
	return word
}
