package jobs

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"spillway/internal/media"
)

// maxInline is the longest request that its job holds, in bytes. An item may have 400 KB, but each poll writes the whole of it, and
// its copies in the indexes, at a price for each kilobyte. A longer request has a picture in it, which only a submit needs: it
// stands in the bucket.
const maxInline = 32 << 10

// unpacking bounds the reading of a long request.
const unpacking = 10 * time.Second

var errOtherRequest = errors.New("it is not what was put there")

// keepRequest puts a long request beside its job before there is the job, so that no job lacks it. Its name is made of its digest:
// a repeat writes the same object again, and another body of the same key another one, which no job names.
func (e *Engine) keepRequest(ctx context.Context, j media.Job) (media.Job, error) {
	if len(j.Request) <= maxInline {
		return j, nil
	}
	sum := sha256.Sum256(j.Request)
	digest := hex.EncodeToString(sum[:])
	whole := media.Kept{Object: nameOf(j, "request-"+digest), Size: int64(len(j.Request)), SHA256: digest}
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed) // most of it is a picture
	_, err := z.Write(j.Request)
	if err = errors.Join(err, z.Close()); err != nil {
		return j, fmt.Errorf("packing the request: %w", err) // which memory does not refuse
	}
	if err = e.Objects.Put(ctx, whole.Object, "application/gzip", &packed, int64(packed.Len())); err != nil {
		return j, fmt.Errorf("keeping the request: %w", err)
	}
	j.Whole, j.Request = &whole, media.Abridged(j.Request)
	return j, nil
}

// requestOf is wholeRequest within a short time, also for a client that has left.
func (e *Engine) requestOf(ctx context.Context, j media.Job) ([]byte, error) {
	ctx, cancel := paid(ctx, unpacking)
	defer cancel()
	return e.wholeRequest(ctx, j)
}

// wholeRequest is a job's request as its client wrote it.
func (e *Engine) wholeRequest(ctx context.Context, j media.Job) ([]byte, error) {
	if j.Whole == nil {
		return j.Request, nil
	}
	packed, _, _, err := e.Objects.Open(ctx, j.Whole.Object)
	if err != nil {
		return nil, fmt.Errorf("opening the request: %w", err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		return nil, fmt.Errorf("unpacking the request: %w", err)
	}
	request, err := io.ReadAll(io.LimitReader(z, j.Whole.Size+1))
	if err != nil {
		return nil, fmt.Errorf("unpacking the request: %w", err)
	}
	if sum := sha256.Sum256(request); hex.EncodeToString(sum[:]) != j.Whole.SHA256 {
		return nil, fmt.Errorf("unpacking the request: %w", errOtherRequest)
	}
	return request, nil
}

// nameOf is the name of an object of a job.
func nameOf(j media.Job, what string) string {
	return "media/" + j.Organization + "/" + j.ID + "/" + what
}
