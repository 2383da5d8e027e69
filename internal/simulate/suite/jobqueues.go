package suite

import (
	"math/rand/v2"
	"time"

	"spillway/internal/runtimeapi"
)

// unreliable are the faults of each queue: how many of its first deliveries are lost, and as shares of all others what is lost, comes twice,
// and comes late.
type unreliable struct {
	lose                   int
	drop, duplicate, delay float64
	// late is the longest delay, half of it the shortest.
	late    time.Duration
	shuffle bool
}

// unreliable puts the stage's faults before a queue.
func (s *studio) unreliable(q runtimeapi.Queue, r *rand.Rand) runtimeapi.Queue {
	u, deliveries := s.row.Stage.Queues, 0
	faulty := &runtimeapi.FaultyQueue{Queue: q, Drop: func(runtimeapi.Message) bool {
		deliveries++
		drop := deliveries <= u.lose || r.Float64() < u.drop
		if drop {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.drops++
		}
		return drop
	}}
	if u.duplicate > 0 {
		faulty.Duplicate = func(runtimeapi.Message) bool { return r.Float64() < u.duplicate }
	}
	if u.delay > 0 {
		faulty.Delay = func(runtimeapi.Message) time.Duration {
			if r.Float64() >= u.delay {
				return 0
			}
			return u.late/2 + time.Duration(r.Int64N(int64(u.late/2)))
		}
	}
	if u.shuffle {
		faulty.Shuffle = r.Shuffle
	}
	return faulty
}

// lost is how many messages the queues have lost.
func (s *studio) lost() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drops
}
