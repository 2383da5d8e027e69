package gateway

import (
	"bytes"
	"compress/gzip"
	"context"
	cryptorand "crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"spillway/internal/fault"
	"spillway/internal/idempotency"
	"spillway/internal/retry"
)

const (
	// claimPatience bounds what a claim, or a look at one, may take before the request is refused.
	claimPatience = 500 * time.Millisecond
	// bookkeeping bounds what is done for a claim after the last event (architecture.md).
	bookkeeping = 1500 * time.Millisecond
	// A request that waits for another one of the same key looks first after firstLook, then less and less often, and at
	// least once a lastLook.
	firstLook = 100 * time.Millisecond
	lastLook  = time.Second
	// maxReplayed is the largest body that is unpacked for a replay, in bytes.
	maxReplayed = 256 << 20
)

// claim is a request's hold on its Idempotency-Key. It keeps a stream's record alive while the stream goes on.
type claim struct {
	record idempotency.Record
	stream bool
	end    func() time.Time // when the request ends at the latest

	mu      sync.Mutex
	timer   *time.Timer // nil: nothing is renewed. Guarded by mu
	renewal sync.WaitGroup
	lost    bool // somebody else has it: guarded by mu
}

// claim takes the request's key before any provider is contacted. It reports what stands there already: a result to
// replay, or an error.
//
// A crash after the claim leaves a record in progress whose time runs out by itself, 125 s later and for a stream 90 s:
// then the same request takes the key over.
func (g *Gateway) claim(ctx context.Context, j *journey) (*idempotency.Result, *fault.Error) {
	key := j.wishes.Idempotency.Key
	if key == "" {
		return nil, nil
	}
	if g.Claims == nil {
		return nil, noStore(errors.New("no idempotency store is configured"))
	}
	c := &claim{stream: j.req.Stream}
	c.end = func() time.Time { return endOf(ctx, j) }
	mine := idempotency.Key{Organization: j.caller.Organization.Name, Key: key}
	owner := cryptorand.Text()
	until := j.start.Add(j.wishes.Idempotency.Wait)
	for look := firstLook; ; look = min(2*look, lastLook) {
		now := time.Now()
		c.record = idempotency.Claiming(mine, j.wishes.Idempotency.Fingerprint, owner, j.call.ID, c.stream, c.end(), now)
		there, err := g.tryClaim(ctx, c.record, now)
		if err != nil {
			return nil, noStore(err)
		}
		if there == nil {
			j.claim = c
			return nil, nil
		}
		d := idempotency.Decide(there, c.record.Fingerprint, owner, now)
		switch d.Verdict {
		case idempotency.Replay:
			return d.Result, nil
		case idempotency.Mismatch:
			return nil, &fault.Error{Code: fault.IdempotencyConflict, Param: "Idempotency-Key", Message: "this Idempotency-Key was used for another request"}
		case idempotency.InFlight:
			left := until.Sub(now)
			if left <= 0 {
				return nil, &fault.Error{Code: fault.IdempotencyConflict, Param: "Idempotency-Key", Retryable: true, RetryAfter: d.RetryAfter,
					Message: "a request with this Idempotency-Key is being served; repeat it later, or send Prefer: wait=30"}
			}
			if gone := sleep(ctx, min(look, left)); gone != nil {
				return nil, &fault.Error{Code: fault.ProviderTimeout, Message: "the time for this request was used up while another one with this key was served"}
			}
		}
	}
}

// endOf is when the request ends at the latest, as far as is known before its route is.
func endOf(ctx context.Context, j *journey) time.Time {
	if !j.hard.IsZero() {
		return j.hard
	}
	end := j.start.Add(retry.DefaultRequest)
	deadline, ok := ctx.Deadline()
	switch {
	case ok && (j.req.Stream || deadline.Before(end)):
		return deadline
	case j.req.Stream:
		return time.Now().Add(idempotency.StreamLease) // nobody ends it: it lives as long as it is renewed
	default:
		return end
	}
}

// tryClaim claims once. Whether a claim that failed was written is found out by reading: then the record is ours.
func (g *Gateway) tryClaim(ctx context.Context, r idempotency.Record, now time.Time) (*idempotency.Record, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimPatience)
	defer cancel()
	there, err := g.Claims.Claim(ctx, r, now)
	if err == nil {
		return there, nil
	}
	there, readErr := g.Claims.Get(ctx, r.Key)
	switch {
	case readErr != nil:
		return nil, fmt.Errorf("claiming the key: %w", err)
	case there != nil && there.Owner == r.Owner:
		return nil, nil
	case there != nil && !there.FreeFor(r.Fingerprint, now):
		return there, nil
	default: // it was not written
		there, err = g.Claims.Claim(ctx, r, now)
		if err != nil {
			return nil, fmt.Errorf("claiming the key again: %w", err)
		}
		return there, nil
	}
}

func noStore(err error) *fault.Error {
	return &fault.Error{Code: fault.StoreUnavailable, Message: "the store of Idempotency-Keys does not answer; try again later", Retryable: true,
		RetryAfter: 2 * time.Second, Cause: err}
}

// keep begins to record the answer, and renews the record of a request that lasts longer than the claim says.
func (g *Gateway) keep(j *journey, client Client) {
	c := j.claim
	if c == nil {
		return
	}
	client.Keep()
	if until := idempotency.Until(c.stream, c.end(), time.Now()); until.After(c.record.InProgressUntil.Add(time.Second)) {
		g.renew(c, until) // the route gives the request more time than was known
	}
	if c.stream {
		c.mu.Lock()
		c.timer = time.AfterFunc(idempotency.RenewEvery, func() { g.renewLater(c) })
		c.mu.Unlock()
	}
}

// renewLater renews a stream's record and arms the timer again. stop waits for it.
func (g *Gateway) renewLater(c *claim) {
	c.mu.Lock()
	if c.timer == nil {
		c.mu.Unlock()
		return
	}
	c.renewal.Add(1)
	c.mu.Unlock()
	defer c.renewal.Done()
	g.renew(c, idempotency.Until(true, c.end(), time.Now()))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil && !c.lost {
		c.timer.Reset(idempotency.RenewEvery)
	}
}

// renew sets how long the record is in progress. One renewal that fails is made up for by the next; the record has time
// for two.
func (g *Gateway) renew(c *claim, until time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), claimPatience)
	defer cancel()
	if errors.Is(g.Claims.Renew(ctx, c.record.Key, c.record.Owner, until), idempotency.ErrLost) {
		c.mu.Lock()
		c.lost = true
		c.mu.Unlock()
	}
}

// stop ends the renewals.
func (c *claim) stop() {
	c.mu.Lock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	c.mu.Unlock()
	c.renewal.Wait()
}

// conclude closes the claim after the last event: a whole answer and a refusal are stored, everything else frees the key.
//
// A crash before it leaves the record in progress, and the answer with the client alone: the key is free again when the
// record's time has run out. A crash between the object and the record leaves an object that no record names; the
// bucket's lifecycle removes it.
func (g *Gateway) conclude(j *journey, client Client) {
	c := j.claim
	if c == nil {
		return
	}
	c.stop()
	ctx, cancel := context.WithTimeout(context.Background(), bookkeeping)
	defer cancel()
	result, kept := idempotency.Result{}, false
	if j.conclusive() { // what is not kept needs no packing
		result, kept = client.Kept()
	}
	if !kept {
		j.kept = "released"
		if err := g.Claims.Release(ctx, c.record.Key, c.record.Owner); err != nil {
			j.kept, j.keptErr = "release_failed", err // it frees itself in time
		}
		return
	}
	j.kept = "stored"
	if err := g.store(ctx, c, result); err != nil {
		j.kept, j.keptErr = "store_failed", err
	}
}

// conclusive reports whether the request ended in a way that is kept: a whole answer, or a provider's refusal. A refusal
// inside a stream that was open already is none: nobody could tell it from a failure.
func (j *journey) conclusive() bool {
	if j.err != nil {
		return j.status != 200 && (j.err.Class == fault.ContentPolicy || j.err.Class == fault.GenerationFailed)
	}
	return j.whole
}

// store writes the result, a large one as an object first. An unknown outcome is reconciled by reading.
func (g *Gateway) store(ctx context.Context, c *claim, result idempotency.Result) error {
	if len(result.Body) > idempotency.MaxInline {
		if g.Objects == nil {
			return errors.New("the result is too large for a record, and there is no place for objects")
		}
		sum := sha256.Sum256(result.Body)
		scope := sha256.Sum256([]byte(c.record.Key.Key))
		o := &idempotency.Object{Name: "results/" + c.record.Key.Organization + "/" + hex.EncodeToString(scope[:16]) + "/" + c.record.Owner,
			SHA256: hex.EncodeToString(sum[:]), Size: int64(len(result.Body))}
		if err := g.Objects.Put(ctx, o.Name, "application/gzip", result.Body); err != nil {
			return fmt.Errorf("storing the result as an object: %w", err)
		}
		result.Object, result.Body = o, nil
	}
	k, owner := c.record.Key, c.record.Owner
	err := g.Claims.Complete(ctx, k, owner, result, time.Now())
	if err == nil || errors.Is(err, idempotency.ErrLost) {
		return err
	}
	there, readErr := g.Claims.Get(ctx, k)
	if readErr == nil && there != nil && there.Owner == owner && there.Status == idempotency.Completed {
		return nil
	}
	return g.Claims.Complete(ctx, k, owner, result, time.Now())
}

// replay sends a stored result again.
func (g *Gateway) replay(ctx context.Context, j *journey, out *outlet, r *idempotency.Result) {
	body, err := g.unpack(ctx, r)
	if err != nil {
		g.refuse(j, out, noStore(err))
		return
	}
	j.outcome, j.status, j.kept = "replayed", r.Status, "replayed"
	out.client.Replay(*r, body)
}

// unpack is the body of a result.
func (g *Gateway) unpack(ctx context.Context, r *idempotency.Result) ([]byte, error) {
	packed := r.Body
	if o := r.Object; o != nil {
		if g.Objects == nil {
			return nil, errors.New("the result is kept as an object, and there is no place for objects")
		}
		var err error
		if packed, err = g.Objects.Get(ctx, o.Name, o.Size); err != nil {
			return nil, fmt.Errorf("reading the stored result: %w", err)
		}
		if sum := sha256.Sum256(packed); hex.EncodeToString(sum[:]) != o.SHA256 {
			return nil, errors.New("reading the stored result: it is not what was stored")
		}
	}
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpacking the stored result: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(zip, maxReplayed))
	if err != nil {
		return nil, fmt.Errorf("unpacking the stored result: %w", err)
	}
	if int64(len(body)) != r.Size {
		return nil, fmt.Errorf("unpacking the stored result: it has %d bytes, not %d", len(body), r.Size)
	}
	return body, nil
}
