package simulate

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

// work is the work of a job. It is made while it is sent, never held, and depends on the job's id alone.
type work struct {
	id, of string // the job, and its API
	size   int64
	spread time.Duration // over which it is sent; 0: as fast as it is read
}

// Work is the work of a job, as the provider gives it out.
func (j Job) Work() io.Reader { return work{id: j.ID, of: j.API, size: j.Size}.open() }

func (w work) mediaType() string {
	if w.of == "elevenlabs" {
		return "audio/mpeg"
	}
	return "video/mp4"
}

// open begins the work as files of its kind begin; the rest is noise.
func (w work) open() io.Reader {
	return io.LimitReader(io.MultiReader(bytes.NewReader(w.opening()), rand.NewChaCha8(sha256.Sum256([]byte(w.id)))), w.size)
}

func (w work) opening() []byte {
	if w.of == "elevenlabs" { // a tag that ends at once, and the header of a frame
		return []byte("ID3\x04\x00\x00\x00\x00\x00\x00\xff\xfb\x90\x00")
	}
	ftyp := "\x00\x00\x00\x18ftypisom\x00\x00\x02\x00isommp42"
	return append(binary.BigEndian.AppendUint32([]byte(ftyp), uint32(max(w.size-int64(len(ftyp)), 8))), "mdat"...)
}

// piece is how much of a work is written at once, drops in how many a work trickles.
const (
	piece = 32 << 10
	drops = 40
)

// sendWork sends a work, or its first half where the reply is cut.
func (c *connection) sendWork(r Reply, id http.Header) error {
	if err := c.write(head(r, id)); err != nil {
		return err
	}
	left, size, gap := r.work.size, int64(piece), time.Duration(0)
	if r.work.spread > 0 {
		size, gap = max(r.work.size/drops, 1), r.work.spread/drops
	}
	if r.End != Complete {
		left /= 2
	}
	in, buffer := r.work.open(), make([]byte, min(size, left))
	for left > 0 {
		if err := c.pause(gap); err != nil {
			return err
		}
		now := buffer[:min(left, int64(len(buffer)))]
		if _, err := io.ReadFull(in, now); err != nil {
			return fmt.Errorf("making a work: %w", err)
		}
		if _, err := c.conn.Write(now); err != nil {
			return c.lost()
		}
		left -= int64(len(now))
	}
	return nil
}
