package runtimeapi

import "time"

type Bucket = bucket

var NewBucket = newBucket

var (
	ItemFailures = itemFailures
	HighWater    = highWater
)

func (b *bucket) Grant(want int, now time.Time) (int, time.Duration) { return b.grant(want, now) }

// InitLimit replaces the 10 s a process may take until its first `next`.
func InitLimit(d time.Duration) Option { return func(f *Front) { f.initLimit = d } }
