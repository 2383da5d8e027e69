package jobs

import (
	"bytes"
	"io"
)

// piece is how much memory is taken at a time for a work in hand.
const piece = 1 << 20

// held is a work in memory. It stands in pieces: one block that grows with it would be there twice at each step, and a poller has no
// room for twice the largest work.
type held [][]byte

// hold reads a work to its end, or to one byte more than most.
func hold(from io.Reader, most int64) (all held, err error) {
	from = io.LimitReader(from, most+1)
	for {
		part := make([]byte, piece)
		n := 0
		for n < piece && err == nil {
			var more int
			more, err = from.Read(part[n:])
			n += more
		}
		if n > 0 {
			all = append(all, part[:n])
		}
		switch {
		case err == io.EOF: // an error that wraps it is of a body that broke off
			return all, nil
		case err != nil:
			return nil, err //nolint:wrapcheck // whoever holds it says what it is
		}
	}
}

// size is in bytes.
func (h held) size() (n int64) {
	for _, part := range h {
		n += int64(len(part))
	}
	return n
}

// reader reads it from the beginning.
func (h held) reader() io.Reader {
	all := make([]io.Reader, len(h))
	for i, part := range h {
		all[i] = bytes.NewReader(part)
	}
	return io.MultiReader(all...)
}
