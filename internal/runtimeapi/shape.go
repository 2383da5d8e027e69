package runtimeapi

import (
	"errors"
	"time"
)

// Bandwidth is how fast a stream is taken from its function and passed on.
type Bandwidth struct {
	Burst     int // bytes that pass without a wait; at least 1
	PerSecond int // bytes a second from then on, at least 1; what a slow stream leaves of it is saved up, to Burst
}

// LambdaBandwidth is Lambda's: 6 MB uncapped, then 2 MB/s.
// https://docs.aws.amazon.com/lambda/latest/dg/configuration-response-streaming.html (2026-11); that the burst fills up
// again is what the sources of aws-lambda-runtime-interface-emulator do (core/bandwidthlimiter).
var LambdaBandwidth = Bandwidth{Burst: 6 << 20, PerSecond: 2 << 20}

// Shape limits the bandwidth of each stream. Without it a stream is as fast as its function and its client.
func Shape(b Bandwidth) Option { return func(f *Front) { f.bandwidth = &b } }

// Limits bound the size of an answer in bytes. A field of 0 is Lambda's limit.
type Limits struct {
	Buffered int // of an answer that is collected, JSON and base64 included: 6 MiB and 100 bytes
	Streamed int // of the body of a stream: 200 MiB, https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html (2026-11)
}

// LimitAnswers replaces Lambda's limits. An answer above its limit is refused with 413 at the Runtime API, over which
// aws-lambda-go ends its process; the client of a stream gets as much as the limit allows, and its connection is cut.
func LimitAnswers(l Limits) Option { return func(f *Front) { f.limits = l } }

func (l Limits) withDefaults() Limits {
	if l.Buffered == 0 {
		l.Buffered = maxBuffered
	}
	if l.Streamed == 0 {
		l.Streamed = maxStreamed
	}
	return l
}

func checkShape(l Limits, b *Bandwidth) error {
	var problems []error
	if l.Buffered < 0 || l.Streamed < 0 {
		problems = append(problems, errors.New("the limit of an answer cannot be negative"))
	}
	if b != nil && (b.Burst < 1 || b.PerSecond < 1) {
		problems = append(problems, errors.New("a bandwidth needs a burst and a rate of at least one byte"))
	}
	return errors.Join(problems...)
}

// bucket grants bytes as its Bandwidth has it. It starts full.
type bucket struct {
	Bandwidth
	tokens float64   // bytes that may pass
	at     time.Time // when tokens was counted
}

func newBucket(b Bandwidth, now time.Time) *bucket {
	return &bucket{Bandwidth: b, tokens: float64(b.Burst), at: now}
}

// refills is how often in a second the emulator refills its bucket, and so about how often a shaped stream is written.
const refills = 8

// grant returns how many of want bytes may pass now, or how long to wait before the next call.
func (b *bucket) grant(want int, now time.Time) (n int, wait time.Duration) {
	b.tokens = min(b.tokens+now.Sub(b.at).Seconds()*float64(b.PerSecond), float64(b.Burst))
	b.at = now
	if n = min(want, int(b.tokens)); n > 0 {
		b.tokens -= float64(n)
		return n, 0
	}
	next := min(want, b.Burst, max(1, b.PerSecond/refills))
	missing := (float64(next) - b.tokens) / float64(b.PerSecond)
	return 0, time.Duration(missing * float64(time.Second))
}
