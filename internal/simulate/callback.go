package simulate

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// maxSlow bounds how slow a callback may be told to be.
const maxSlow = time.Minute

// Callback is one event as it arrived at POST /_sim/callback, which stands for an application that is told of its jobs.
// Nothing of it is verified: whoever lists the callbacks does that. An address of it may have
//
//	?fail=2     the first two arrivals of an event are answered 500 and not taken
//	?forget=1   the first arrival after these is taken, and answered 500 all the same
//	?slow=3s    every answer comes after 3 s
type Callback struct {
	// ID, Timestamp and Signature are the headers webhook-id, webhook-timestamp and webhook-signature
	// (https://www.standardwebhooks.com, 2026-11-30).
	ID        string    `json:"id"`
	Timestamp string    `json:"timestamp"`
	Signature string    `json:"signature"`
	Body      string    `json:"body"`
	At        time.Time `json:"at"`
	// Attempt is which arrival of its id it is, from 1.
	Attempt int `json:"attempt"`
	// Taken reports whether the application has acted on it, Status is what it answered.
	Taken  bool `json:"taken"`
	Status int  `json:"status"`
}

// inbox holds the callbacks since the last reset. Its zero value is empty.
type inbox struct {
	mu       sync.Mutex
	all      []Callback
	attempts map[string]int
}

// manner is how a callback's address asks to be answered.
type manner struct {
	fail, forget int
	slow         time.Duration
}

// mannerOf reads a query.
func mannerOf(query url.Values) (m manner, err error) {
	for name, values := range query {
		switch name {
		case "fail":
			m.fail, err = strconv.Atoi(values[0])
		case "forget":
			m.forget, err = strconv.Atoi(values[0])
		case "slow":
			m.slow, err = time.ParseDuration(values[0])
		default:
			err = fmt.Errorf("there are fail, forget and slow")
		}
		if err == nil && (m.fail < 0 || m.forget < 0 || m.slow < 0 || m.slow > maxSlow) {
			err = fmt.Errorf("it is out of range")
		}
		if err != nil {
			return manner{}, fmt.Errorf("reading %q of the callback's address: %w", name, err)
		}
	}
	return m, nil
}

// take keeps an event and answers it.
func (b *inbox) take(in incoming) Reply {
	m, err := mannerOf(in.request.URL.Query())
	if err != nil {
		return Error(http.StatusBadRequest, "invalid_request_error", "", err.Error())
	}
	h := in.request.Header
	c := Callback{ID: h.Get("Webhook-Id"), Timestamp: h.Get("Webhook-Timestamp"), Signature: h.Get("Webhook-Signature"), Body: string(in.body), At: in.at}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.attempts == nil {
		b.attempts = map[string]int{}
	}
	b.attempts[c.ID]++
	c.Attempt = b.attempts[c.ID]
	c.Taken, c.Status = c.Attempt > m.fail, http.StatusOK
	if c.Attempt <= m.fail+m.forget {
		c.Status = http.StatusInternalServerError
	}
	b.all = append(b.all, c)
	return Reply{Delay: m.slow, Status: c.Status, Body: encode(map[string]bool{"taken": c.Taken})}
}

// Callbacks are all that arrived since the last reset, in the order of their arrival.
func (p *Provider) Callbacks() []Callback {
	p.inbox.mu.Lock()
	defer p.inbox.mu.Unlock()
	return append([]Callback{}, p.inbox.all...)
}

func (b *inbox) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all, b.attempts = nil, nil
}
