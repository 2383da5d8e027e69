// Package suite holds the gateway to its contract under every fault that the
// simulated provider knows.
//
// A row is one fault: a primary that has it, healthy fallbacks behind it, one
// request or several, and what is right for each. Each row and mode gets a front
// end of its own (the real gateway binary behind a streaming function URL), a
// provider of its own, a store of the shared state of its own and a configuration of its own, so that nothing one row does
// to a circuit, a hold, a key or a quota can help or harm another.
//
// Two judgements are made, and both must be good. The outcome is what the client
// has: the whole answer, a clean error, or something broken. The conduct is how
// the gateway came to it: which calls it made, in which order, after which waits
// by the provider's own clock, and what its headers and records say of them.
//
// Verdicts: pass, the outcome is the right one for the row; safe, it is a clean,
// bounded, typed error where an answer would have been right; FAIL, anything
// else. The table records the verdict each row has reached; less is a FAIL too.
//
// Rows are written in OpenAI's chat format. Those that every wire format has its own
// words for run in each of them (formats.go), falling back into the next.
//
// What cannot be said as requests that come one after the other is a Play: many at a time over several environments
// (plays.go), and processes that are killed at each step of a request's journey (crash.go). Nothing of that is in the
// product: the calls that it makes of its store and of its provider show where it is.
//
// Media jobs (F27 to F30, an outage, and a work of 60 MB) are rows of their own, over the gateway, the poller and the sweeper, with queues that
// deliver twice, late, out of order or never (studio.go). They are judged by what nobody can deny afterwards: each write of a job that
// the store has taken (annals.go), each delivery of a message (courier.go), and the provider's own count of orders and callbacks
// (lives.go). Of such a row "calls A" are the orders that the provider has taken, "calls B" its polls, and "class" is how the jobs
// have ended.
//
// To add a row, add an entry to chatRows, to Plays, to crashTable, or, for jobs, to jobFaults, jobCrashes or journeys.
package suite
