package media

import "time"

const (
	// pollJitter spreads the polls of jobs that began together.
	pollJitter = 0.20
	// MaxDelay is the longest that a message can be delayed
	// (https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-delay-queues.html, 2026-11-30). A poll that is due
	// later has no message: the sweeper sends one when NextPollAt has come.
	MaxDelay = 900 * time.Second
)

// PollIn is when to ask for a job again after poll number seq, 0 for the first: 2, 4, 8 … 60 s, ± 20 %. A provider's hint
// wins as it is, 0 is none; but half of the polls a job always has left for its usual pauses, since one that is asked for each second
// because its provider says so would be out of polls, and end, long before its deadline. random is in [0, 1).
func (l Limits) PollIn(seq uint64, hint time.Duration, random float64) time.Duration {
	usual := l.usualPoll(seq, random)
	if hint > 0 && (hint > usual || seq < uint64(l.whole().MaxPolls)/2) { //nolint:gosec // a count
		return hint
	}
	return usual
}

// RepollIn is when to ask again after poll number seq failed: a hint is not waited less for, and never shortens the usual pause. A
// provider that is down and asks for another call each second would otherwise use up all failures that a job may have in half a minute.
func (l Limits) RepollIn(seq uint64, hint time.Duration, random float64) time.Duration {
	return max(hint, l.usualPoll(seq, random))
}

func (l Limits) usualPoll(seq uint64, random float64) time.Duration {
	l = l.whole()
	d := l.FirstPoll
	for ; seq > 0 && d < l.SlowestPoll; seq-- {
		d *= 2
	}
	return jittered(min(d, l.SlowestPoll), random)
}

// tellings are the pauses after a telling that failed, ± 20 % (https://www.standardwebhooks.com asks for hours; a message waits
// 15 minutes at most, and who was not reached can read the job); the last one stays.
var tellings = [MaxTells - 1]time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 12 * time.Minute, 12 * time.Minute}

// TellIn is when to tell again after telling number n failed. random is in [0, 1).
func TellIn(n int, random float64) time.Duration {
	return jittered(tellings[min(max(n, 0), len(tellings)-1)], random)
}

func jittered(d time.Duration, random float64) time.Duration {
	return time.Duration(float64(d) * (1 - pollJitter + 2*pollJitter*random)).Truncate(time.Millisecond)
}

// Task is what the sweeper does for a job.
type Task string

// The tasks.
const (
	// Nothing: it is on its way, or over.
	Nothing Task = ""
	// Enqueue: its poll is overdue, or it waits to be submitted and nobody does: its message was lost.
	Enqueue Task = "enqueue"
	// GiveUp: its deadline has passed: the provider is asked to cancel, and the job is expired.
	GiveUp Task = "give_up"
	// Unlease: its owner did not say what became of the submit: it is uncertain.
	Unlease Task = "unlease"
	// Reconcile: it is uncertain, and the provider can be asked.
	Reconcile Task = "reconcile"
	// Tell: it is over, and the message that tells its callback was lost.
	Tell Task = "tell"
)
