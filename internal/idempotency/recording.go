package idempotency

import (
	"bytes"
	"compress/gzip"
)

// MaxKept is the largest gzipped body that is kept, in bytes. A longer answer is sent all the same, and its key is released.
const MaxKept = 16 << 20

// Recording keeps an answer while it is sent. The zero value is ready. It is used by one goroutine.
type Recording struct {
	packed bytes.Buffer
	zip    *gzip.Writer // nil: nothing has been written
	size   int64
	over   bool
}

// Add keeps what has just been sent. It never fails: an answer that grows beyond MaxKept is no longer kept.
func (r *Recording) Add(p []byte) {
	r.size += int64(len(p))
	if r.over {
		return
	}
	if r.zip == nil {
		r.zip, _ = gzip.NewWriterLevel(&r.packed, gzip.BestSpeed) // fails for an unknown level only
	}
	_, _ = r.zip.Write(p) // a buffer takes everything
	if r.packed.Len() > MaxKept {
		r.over, r.zip, r.packed = true, nil, bytes.Buffer{}
	}
}

// Result is the answer that was recorded; false: it was too large to be kept. The Recording must not be used afterwards.
func (r *Recording) Result(status int, header map[string]string, stream bool) (Result, bool) {
	if r.zip == nil && !r.over {
		r.Add(nil)
	}
	if r.over {
		return Result{}, false
	}
	_ = r.zip.Close() // into a buffer
	if r.packed.Len() > MaxKept {
		return Result{}, false
	}
	return Result{Status: status, Header: header, Stream: stream, Body: r.packed.Bytes(), Size: r.size}, true
}

// MaxInline is the largest gzipped body that stands in the record itself, in bytes: below the limit of an item, with room
// for headers and names.
const MaxInline = 350_000
