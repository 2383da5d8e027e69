package jobs

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"spillway/internal/media"
	"spillway/internal/redact"
)

var errNoSecret = errors.New("there is no usable secret to sign its event with")

// tellJob tells a job's callback of its end, once. A callback that does not take it is told again later; one that answers 410
// is not, and after media.MaxTells nobody is.
func (e *Engine) tellJob(ctx context.Context, j media.Job, seq uint64) error {
	if j.TellAt.IsZero() || seq < uint64(j.Tells) { //nolint:gosec // a count
		return nil // a duplicate
	}
	status, err := e.tellOnce(ctx, j)
	if err != nil {
		e.trouble(j, "telling its callback", err)
	}
	if err == nil && (status/100 == 2 || status == http.StatusGone) {
		return e.end(ctx, j, media.Told{N: j.Tells, Unwanted: status == http.StatusGone})
	}
	now := e.now()
	event := media.NotTold{N: j.Tells, In: media.TellIn(j.Tells, e.random())}
	next, err := e.limits().Next(j, event, now)
	if err != nil {
		return err //nolint:wrapcheck // it names the edge
	}
	if !next.TellAt.IsZero() {
		e.send(ctx, next, tell, next.TellAt.Sub(now)) // before the write, as with polls
	}
	return e.end(ctx, j, event)
}

func (e *Engine) tellOnce(ctx context.Context, j media.Job) (status int, err error) {
	var secret redact.Secret
	if e.Signing != nil {
		secret = e.Signing(j.Organization)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret.Reveal(), "whsec_"))
	if err != nil || len(key) == 0 {
		return 0, errNoSecret
	}
	body, err := json.Marshal(j.Announcement())
	if err != nil {
		return 0, fmt.Errorf("writing the event: %w", err)
	}
	return e.Teller.Tell(ctx, j.Callback, signed(key, j.EventID, e.now(), body), body) //nolint:wrapcheck // the adapter says what it did
}

// signed are the headers of an event (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md,
// 2026-11-30).
func signed(key []byte, id string, now time.Time, body []byte) http.Header {
	at := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + at + "."))
	mac.Write(body)
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", at)
	h.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return h
}
