package route

import (
	"sync"
	"time"

	"spillway/internal/catalog"
)

// latencyShare is the weight of the newest time to first content in the average.
const latencyShare = 0.2

// Latencies keeps a moving average of each channel's time to first content, as one environment sees it. It is bounded by
// the channels there are. The zero value is ready. It is safe for concurrent use.
type Latencies struct {
	mu   sync.Mutex
	seen map[*catalog.Channel]time.Duration
}

// Observe takes one more time to first content.
func (l *Latencies) Observe(ch *catalog.Channel, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = map[*catalog.Channel]time.Duration{}
	}
	if old, ok := l.seen[ch]; ok {
		d = old + time.Duration(latencyShare*float64(d-old))
	}
	l.seen[ch] = d
}

// Of is the average; 0 for a channel that was not seen yet.
func (l *Latencies) Of(ch *catalog.Channel) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[ch]
}
