package jobs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"spillway/internal/fault"
	"spillway/internal/media"
	"spillway/internal/provider"
)

const (
	// maxWork is the largest work that is copied, maxInHand the largest that is held in memory: one that a provider answered
	// with can be had once only, so that writing it must be repeatable. Both in bytes.
	maxWork   = 1 << 30
	maxInHand = 64 << 20
	// maxPuts is how often a work in hand is written: it is paid for, and there once only. The pauses between are firstPut, doubled each
	// time: six seconds in all, which a bucket that is throttled or fails over may take.
	maxPuts  = 6
	firstPut = 200 * time.Millisecond
)

// unkept is why a work was not copied.
type unkept struct {
	media.Error
	// final says that it will never be: the job has failed. Otherwise it may pass.
	final bool
	cause error
}

// failedWork is a work that is none. The codes are contract.md §8's.
func failedWork(code, message string) *unkept {
	return &unkept{Error: media.Error{Code: code, Message: message, Class: string(fault.BadResponse)}, final: true}
}

func passing(code, message string, cause error) *unkept {
	return &unkept{Error: media.Error{Code: code, Message: message}, cause: cause}
}

var errTooLarge = errors.New("the work is too large")

// keep copies a work into the bucket, as a stream, under a name that no other execution uses: the object that a job names is the one
// whose digest it has, whoever else copied the same work.
func (e *Engine) keep(ctx context.Context, j media.Job, a provider.Artifact) (media.Result, *unkept) {
	if a.Body != nil {
		return e.keepInHand(ctx, j, a)
	}
	if a.URL == "" {
		return media.Result{}, failedWork(media.NoArtifact, "the provider gave no work")
	}
	opened, err := e.Library.Work(ctx, a)
	switch {
	case errors.Is(err, provider.ErrGone):
		return media.Result{}, failedWork("result_expired", "the provider no longer gives the result out")
	case errors.Is(err, provider.ErrUntrusted):
		return media.Result{}, failedWork(string(fault.ProviderError), "the address of the provider's result must not be asked")
	case err != nil:
		return media.Result{}, passing(string(fault.ProviderUnavailable), "the provider's result cannot be read", err)
	}
	defer opened.Body.Close()
	return e.put(ctx, j, opened.Body, opened.Size)
}

// keepInHand copies a work that is there once only.
func (e *Engine) keepInHand(ctx context.Context, j media.Job, a provider.Artifact) (media.Result, *unkept) {
	work, err := hold(a.Body, maxInHand)
	switch size := work.size(); {
	case err != nil || a.Size > 0 && size < min(a.Size, maxInHand):
		why := failedWork(string(fault.ProviderError), "the provider's result was cut short")
		why.cause = err
		return media.Result{}, why
	case size > maxInHand:
		return media.Result{}, tooLarge()
	}
	var result media.Result
	var why *unkept
	for try, pause := 1, firstPut; ; try, pause = try+1, 2*pause {
		if result, why = e.put(ctx, j, work.reader(), work.size()); why == nil || why.final || try == maxPuts || sleep(ctx, pause) != nil {
			return result, why
		}
	}
}

// brokenBy is the provider's failure that has kept a work from being kept; nil: it was not the provider's.
func brokenBy(why *unkept) *fault.Failure {
	if why == nil {
		return nil
	}
	f, _ := errors.AsType[*fault.Failure](why.cause)
	return f
}

func tooLarge() *unkept {
	return failedWork(string(fault.ProviderError), "the provider's result is larger than the gateway keeps")
}

// put writes one work. size is 0 when it is not known. What it is is told by its first bytes, not by the far end.
func (e *Engine) put(ctx context.Context, j media.Job, body io.Reader, size int64) (media.Result, *unkept) {
	if size > maxWork {
		return media.Result{}, tooLarge()
	}
	head := make([]byte, sniffed)
	n, err := io.ReadFull(body, head)
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return media.Result{}, failedWork(media.NoArtifact, "the provider's result is empty")
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return media.Result{}, passing(string(fault.ProviderUnavailable), "the provider's result cannot be read", err)
	}
	head = head[:n]
	kind := sniff(head)
	if !strings.HasPrefix(kind, prefixes[j.Kind]) || kind == "" {
		return media.Result{}, failedWork(string(fault.ProviderError), "the provider's result is no "+string(j.Kind))
	}
	work := &counted{from: io.MultiReader(bytes.NewReader(head), body), digest: sha256.New()}
	name := nameOf(j, e.token())
	known := size
	if known <= 0 {
		known = -1
	}
	err = e.Objects.Put(ctx, name, kind, work, known)
	switch {
	case errors.Is(work.err, errTooLarge):
		return media.Result{}, tooLarge()
	case work.err != nil:
		return media.Result{}, passing(string(fault.ProviderUnavailable), "the provider's result was cut short", work.err)
	case err != nil:
		return media.Result{}, passing(string(fault.StoreUnavailable), "the result cannot be stored", err)
	case known >= 0 && work.n != known, known < 0 && !work.ended:
		return media.Result{}, passing(string(fault.ProviderUnavailable), "the provider's result was cut short", fmt.Errorf("%d of %d bytes were copied", work.n, known))
	}
	return media.Result{Object: name, ContentType: kind, Size: work.n, SHA256: hex.EncodeToString(work.digest.Sum(nil))}, nil
}

// counted is a work on its way into the bucket.
type counted struct {
	from   io.Reader
	digest hash.Hash
	n      int64
	ended  bool
	err    error // of reading it; nil: none but its end
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	c.digest.Write(p[:n])
	switch {
	case c.n > maxWork:
		c.err = errTooLarge
		return n, c.err
	case errors.Is(err, io.EOF):
		c.ended = true
	case err != nil:
		c.err = err
	}
	return n, err //nolint:wrapcheck // it is read here
}

// handle marks the upstream handle of a job that has no provider to ask: its work was in the provider's answer, and has been kept.
const handle = "spillway:kept:"

func naming(r media.Result) string {
	b, _ := json.Marshal(r) // it has no member that could fail
	return handle + string(b)
}

// made is the work of a running job that is kept already.
func made(j media.Job) (media.Result, bool) {
	var r media.Result
	text, ok := strings.CutPrefix(j.Upstream, handle)
	if !ok || j.State != media.Running || json.Unmarshal([]byte(text), &r) != nil {
		return media.Result{}, false
	}
	return r, true
}
