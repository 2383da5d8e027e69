package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"spillway/internal/media"
)

// What a message asks for.
const (
	submit = "submit"
	poll   = "poll"
	tell   = "tell"
)

// message is what the queues carry. It holds no state: what is to be done is read from the job.
type message struct {
	Do           string `json:"do"`
	Organization string `json:"organization"`
	Job          string `json:"job"`
	// Seq is the number of the poll, or of the telling. A message of one from before is a duplicate.
	Seq uint64 `json:"seq,omitempty"`
}

// errPoison says that a message can never be handled: it is for the dead letters.
var errPoison = errors.New("it is no message of ours")

// maxMessage is the longest body that is looked at, in bytes.
const maxMessage = 4 << 10

func parse(body []byte) (message, error) {
	var m message
	if len(body) > maxMessage {
		return m, fmt.Errorf("reading a message of %d bytes: %w", len(body), errPoison)
	}
	if err := json.Unmarshal(body, &m); err != nil || m.Job == "" || m.Organization == "" {
		return m, fmt.Errorf("reading a message: %w", errPoison)
	}
	return m, nil
}

// patience bounds one send.
const patience = 2 * time.Second

// send asks for something to be done for a job as it is now, after a delay. One that is due later than a message can be delayed has
// none: the sweeper sends it. Neither is a message that could not be sent an error: the job says when it is due. It reports whether
// there is one.
func (e *Engine) send(ctx context.Context, j media.Job, do string, delay time.Duration) (sent bool) {
	m := message{Do: do, Organization: j.Organization, Job: j.ID}
	queue := e.Submits
	switch do {
	case poll:
		queue, m.Seq = e.Polls, j.Seq
	case tell:
		queue, m.Seq = e.Tells, uint64(j.Tells) //nolint:gosec // a count
	}
	if delay > media.MaxDelay {
		return false
	}
	body, err := json.Marshal(m)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		err = queue.Send(ctx, body, max(delay, 0))
	}
	if err != nil {
		e.trouble(j, "sending its message to "+do, err)
	}
	return err == nil
}
