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
	"net/http"
	"sync"
	"time"

	"spillway/internal/fault"
	"spillway/internal/idempotency"
	"spillway/internal/retry"
)

const (
	// claimPatience bounds what a claim, or a look at one, may take before the request is refused.
	claimPatience = 500 * time.Millisecond
	// firstPatience bounds one call of it: of a claim whose answer is lost there is time left to read what became of it.
	firstPatience = 300 * time.Millisecond
	// claimPause is the pause before a claim that failed is made again, twice as long each time.
	claimPause = 50 * time.Millisecond
	// maxClaims is how often a key that nobody seems to hold is claimed without success before the store is given up.
	maxClaims = 3
	// renewAgain is when a renewal that failed is made again.
	renewAgain = 5 * time.Second
	// replayPatience bounds the reading of a stored body.
	replayPatience = 5 * time.Second
	// bookkeeping bounds what is done for a claim after the last event (architecture.md).
	bookkeeping = 1500 * time.Millisecond
	// firstWriting bounds the first writing of a result, so that there is time to read what became of it.
	firstWriting = bookkeeping / 2
	// A request that waits for another one of the same key looks first after firstLook, then less and less often, and at
	// least once a lastLook.
	firstLook = 100 * time.Millisecond
	lastLook  = time.Second
)

// claim is a request's hold on its Idempotency-Key. It keeps a stream's record alive while the stream goes on.
type claim struct {
	record idempotency.Record
	stream bool
	end    func() time.Time // when the request ends at the latest

	// cancel ends a renewal that is on its way; nil: none was begun.
	cancel  context.CancelFunc
	mu      sync.Mutex
	timer   *time.Timer // nil: nothing is renewed. Guarded by mu
	renewal sync.WaitGroup
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
		return nil, noStore(keys, errors.New("no idempotency store is configured"))
	}
	c := &claim{stream: j.req.Stream}
	c.end = func() time.Time { return endOf(ctx, j) }
	mine := idempotency.Key{Organization: j.caller.Organization.Name, Key: key}
	owner := cryptorand.Text()
	until := j.start.Add(j.wishes.Idempotency.Wait)
	if t := j.wishes.Timeout; t > 0 && t < j.wishes.Idempotency.Wait {
		until = j.start.Add(t)
	}
	refused, waiting := 0, false
	for look := firstLook; ; look = min(2*look, lastLook) {
		now := time.Now()
		c.record = idempotency.Claiming(mine, j.wishes.Idempotency.Fingerprint, owner, j.call.ID, c.stream, c.end(), now)
		there, err := g.lookOrClaim(ctx, c.record, waiting, now)
		if err != nil && waiting && now.Before(until) && sleep(ctx, min(look, until.Sub(now))) == nil {
			continue // the store may answer again before the wait is over
		}
		if err != nil {
			return nil, noStore(keys, err)
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
		case idempotency.Run: // it became free since; one that never does is none that we can read
			if refused++; refused == maxClaims {
				return nil, noStore(keys, errors.New("claiming the key: it is free and cannot be had"))
			}
		case idempotency.InFlight:
			left := until.Sub(now)
			if left <= 0 {
				return nil, &fault.Error{Code: fault.IdempotencyConflict, Param: "Idempotency-Key", Retryable: true, RetryAfter: d.RetryAfter,
					Message: "a request with this Idempotency-Key is being served; repeat it later, or send Prefer: wait=30"}
			}
			waiting = true
			if sleep(ctx, min(look, left)) != nil {
				if errors.Is(ctx.Err(), context.Canceled) {
					return nil, &fault.Error{Code: fault.ClientClosed, Message: "the client has left"}
				}
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
	if t := j.wishes.Timeout; t > 0 && (!ok || j.start.Add(t).Before(deadline)) {
		deadline, ok = j.start.Add(t), true
	}
	switch {
	case ok && (j.req.Stream || deadline.Before(end)):
		return deadline
	case j.req.Stream:
		return time.Now().Add(idempotency.StreamLease) // nobody ends it: it lives as long as it is renewed
	default:
		return end
	}
}

// lookOrClaim claims, or while another request is waited for looks first: reading costs less than a write that is refused.
func (g *Gateway) lookOrClaim(ctx context.Context, r idempotency.Record, waiting bool, now time.Time) (*idempotency.Record, error) {
	if waiting {
		var there *idempotency.Record
		err := within(context.WithoutCancel(ctx), claimPatience, func(ctx context.Context) (err error) {
			there, err = g.Claims.Get(ctx, r.Key)
			return err
		})
		if err != nil || there != nil && !there.FreeFor(r.Fingerprint, now) {
			return there, err
		}
	}
	return g.tryClaim(ctx, r, now)
}

// tryClaim claims until it is known who has the key; nil: it is ours. Whether a claim that failed was written is found out by
// reading, or else by the next claim, which is refused with what stands there. Reading also finds a result while the
// table takes no writes.
func (g *Gateway) tryClaim(ctx context.Context, r idempotency.Record, now time.Time) (*idempotency.Record, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimPatience)
	defer cancel()
	for pause := claimPause; ; pause *= 2 {
		var there *idempotency.Record
		err := within(ctx, firstPatience, func(ctx context.Context) (err error) {
			there, err = g.Claims.Claim(ctx, r, now)
			return err
		})
		if err != nil {
			if read, unread := g.Claims.Get(ctx, r.Key); unread == nil && read != nil && !read.FreeFor(r.Fingerprint, now) {
				there, err = read, nil
			}
		}
		switch {
		case err == nil && there != nil && there.Owner == r.Owner:
			return nil, nil
		case err == nil:
			return there, nil
		case sleep(ctx, pause) != nil:
			return nil, fmt.Errorf("claiming the key: %w", err)
		}
	}
}

// within makes a call that has its own time.
func within(ctx context.Context, d time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return do(ctx)
}

// keys is what the store of claims keeps, in the words for a client.
const keys = "Idempotency-Keys"

// noStore is the error of a request that needs a store which does not answer.
func noStore(of string, err error) *fault.Error {
	return &fault.Error{Code: fault.StoreUnavailable, Message: "the store of " + of + " does not answer; try again later", Retryable: true,
		RetryAfter: 2 * time.Second, Cause: err}
}

// keep begins to record the answer, and renews the record of a request that lasts longer than the claim says.
func (g *Gateway) keep(j *journey, client Client) {
	c := j.claim
	if c == nil {
		return
	}
	client.Keep()
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	next := time.Duration(0)
	if c.stream {
		next = idempotency.RenewEvery
	}
	if until := idempotency.Until(c.stream, c.end(), time.Now()); until.After(c.record.InProgressUntil.Add(time.Second)) {
		next = g.renew(ctx, c, until) // the route gives the request more time than was known
	}
	if next > 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.timer = time.AfterFunc(next, func() { g.renewLater(ctx, c) })
	}
}

// renewLater renews the record and arms the timer again. stop waits for it.
func (g *Gateway) renewLater(ctx context.Context, c *claim) {
	c.mu.Lock()
	if c.timer == nil {
		c.mu.Unlock()
		return
	}
	c.renewal.Add(1)
	c.mu.Unlock()
	defer c.renewal.Done()
	next := g.renew(ctx, c, idempotency.Until(c.stream, c.end(), time.Now()))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil && next > 0 {
		c.timer.Reset(next)
	}
}

// renew sets how long the record is in progress, and returns when that is to be done again; 0: never. A renewal that fails
// is made up for soon: the record of a stream has a minute left then.
func (g *Gateway) renew(ctx context.Context, c *claim, until time.Time) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, claimPatience)
	defer cancel()
	switch err := g.Claims.Renew(ctx, c.record.Key, c.record.Owner, until); {
	case errors.Is(err, idempotency.ErrLost):
		return 0 // somebody else has it
	case err != nil:
		return renewAgain
	case c.stream:
		return idempotency.RenewEvery
	default:
		return 0
	}
}

// stop ends the renewals. One that is on its way is given up: applied before or after what follows, it changes nothing.
func (c *claim) stop() {
	c.mu.Lock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	c.mu.Unlock()
	if c.cancel != nil {
		c.cancel()
	}
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
		kept = kept && (j.err == nil || result.Status != http.StatusOK) && (g.Objects != nil || len(result.Body) <= idempotency.MaxInline)
	}
	if !kept {
		j.kept = "released"
		if err := g.release(ctx, c); err != nil {
			j.kept, j.keptErr = "release_failed", err // it frees itself in time
		}
		return
	}
	j.kept = "stored"
	if err := g.store(ctx, c, result); err != nil {
		j.kept, j.keptErr = "store_failed", err // not released: a repetition would pay for what has just been answered
	}
}

// release frees the key. A second time is as good as the first: it finds the record gone.
func (g *Gateway) release(ctx context.Context, c *claim) error {
	err := g.Claims.Release(ctx, c.record.Key, c.record.Owner)
	if err == nil || errors.Is(err, idempotency.ErrLost) {
		return err
	}
	if err = g.Claims.Release(ctx, c.record.Key, c.record.Owner); errors.Is(err, idempotency.ErrLost) {
		return nil
	}
	return err
}

// conclusive reports whether the request ended in a way that is kept: a whole answer, or a provider's refusal. Of a refusal
// conclude asks as well with which status it was sent: inside a stream that was open already it is none, since nobody
// could tell it from a failure.
func (j *journey) conclusive() bool {
	if j.err != nil {
		return j.err.Class == fault.ContentPolicy || j.err.Class == fault.GenerationFailed
	}
	return j.whole
}

// store writes the result, a large one as an object first. An unknown outcome is reconciled: an object by writing it
// again, the record by reading it.
func (g *Gateway) store(ctx context.Context, c *claim, result idempotency.Result) error {
	if len(result.Body) > idempotency.MaxInline {
		sum := sha256.Sum256(result.Body)
		scope := sha256.Sum256([]byte(c.record.Key.Key))
		o := &idempotency.Object{Name: "results/" + c.record.Key.Organization + "/" + hex.EncodeToString(scope[:16]) + "/" + c.record.Owner,
			SHA256: hex.EncodeToString(sum[:]), Size: int64(len(result.Body))}
		err := g.Objects.Put(ctx, o.Name, "application/gzip", result.Body)
		if err != nil {
			err = g.Objects.Put(ctx, o.Name, "application/gzip", result.Body)
		}
		if err != nil {
			return fmt.Errorf("storing the result as an object: %w", err)
		}
		result.Object, result.Body = o, nil
	}
	k, owner := c.record.Key, c.record.Owner
	err := within(ctx, firstWriting, func(ctx context.Context) error { return g.Claims.Complete(ctx, k, owner, result, time.Now()) })
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
		g.refuse(j, out, noStore(keys, err))
		return
	}
	j.outcome, j.status, j.kept, j.stored = "replayed", r.Status, "replayed", r
	out.client.Replay(*r, body)
}

// unpack is the body of a result. It is read through before any of it is sent, so that it is sent whole or not at all, and
// it is unpacked again as it is sent: a body that packs well need not fit into the memory.
func (g *Gateway) unpack(ctx context.Context, r *idempotency.Result) (io.Reader, error) {
	packed, err := g.packed(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("reading the stored result: %w", err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpacking the stored result: %w", err)
	}
	n, err := io.Copy(io.Discard, io.LimitReader(zip, r.Size+1))
	if err != nil {
		return nil, fmt.Errorf("unpacking the stored result: %w", err)
	}
	if n != r.Size {
		return nil, fmt.Errorf("unpacking the stored result: it has not %d bytes", r.Size)
	}
	if err := zip.Reset(bytes.NewReader(packed)); err != nil {
		return nil, fmt.Errorf("unpacking the stored result again: %w", err)
	}
	return zip, nil
}

// packed is the gzipped body of a result, wherever it is kept.
func (g *Gateway) packed(ctx context.Context, r *idempotency.Result) ([]byte, error) {
	o := r.Object
	if o == nil {
		return r.Body, nil
	}
	if g.Objects == nil {
		return nil, errors.New("it is kept as an object, and there is no place for objects")
	}
	ctx, cancel := context.WithTimeout(ctx, replayPatience)
	defer cancel()
	packed, err := g.Objects.Get(ctx, o.Name, min(o.Size, idempotency.MaxKept))
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(packed); hex.EncodeToString(sum[:]) != o.SHA256 {
		return nil, errors.New("it is not what was stored")
	}
	return packed, nil
}
