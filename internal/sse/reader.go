// Package sse reads and writes event streams (text/event-stream), the framing
// every LLM provider uses for streamed answers.
//
// The reader follows https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
// and departs from it in three places, each for a reason met in practice:
//
//   - An event at the end of the stream counts although no blank line follows
//     it ([Event.Unterminated]): some gateways cut the stream right there.
//   - A JSON object or array standing in the stream without any field name
//     is delivered ([Event.Bare]): Gemini reports some failures mid-stream as a
//     bare, pretty-printed object.
//   - Ids and reconnection times are ignored: nobody resumes a completion.
//
// The meaning of an event ("[DONE]", an error object, a ping) is the caller's.
package sse

import (
	"bytes"
	"errors"
	"io"
	"math"
)

// DefaultMax is the limit of a [Reader] made with 0: 32 MiB. Inline images
// arrive as single lines of several megabytes.
const DefaultMax = 32 << 20

// ErrTooLong reports an event or a line above the reader's limit. It is never
// io.EOF nor wraps it, so that a cut answer cannot pass for a whole one.
var ErrTooLong = errors.New("sse: event exceeds the size limit")

const (
	initialBuffer = 8 << 10
	// minRead is the least room offered to the source; less makes tiny reads.
	minRead = 1 << 10
	// scanWindow bounds how far one search for a line end looks ahead, so that a
	// stream of lone CRs in a large buffer stays linear.
	scanWindow = 1 << 10
	// maxEmptyReads is how many reads of nothing in a row are borne.
	maxEmptyReads = 100
	// maxNames and maxNameLen bound the event names kept to be shared by later
	// events; the longest vocabulary, OpenAI Responses, has about fifty.
	maxNames   = 64
	maxNameLen = 64
)

// Event is one event of a stream.
type Event struct {
	// Name is the last event field; empty if there was none.
	Name string
	// Data is the data lines joined by LF, or the lines of a bare block. It is
	// never nil, may be empty, and is valid until the next call of Next.
	Data []byte
	// Bare marks a block of lines that are no fields: it began with '{' or '['
	// and ran to a blank line, a field, or the end of the stream.
	Bare bool
	// Unterminated marks an event ended by the end of the stream instead of a
	// blank line: it may have been cut, the caller judges by its content.
	Unterminated bool
}

// Reader reads events from a stream. It is not safe for concurrent use.
//
// It holds one buffer of 8 KiB, grown as needed and never beyond the limit plus
// the room for one small read. An event that lies whole in the buffer is neither copied
// nor allocated. An event is returned as soon as its last line end is read, for
// CRLF already at the CR: a reader never waits for bytes it does not need.
type Reader struct {
	src io.Reader
	max int
	err error // of the source, or ErrTooLong: reported once the bytes before it are used up

	// buf[dataStart:dataEnd] is the data of the event being read, if hasData;
	// buf[pos:end] are the bytes not yet consumed, of which those before scanned
	// hold no line end. dataEnd < pos whenever hasData and more is to be read: the
	// consumed line end lies between, so that lines are joined in place.
	buf                []byte
	dataStart, dataEnd int
	pos, scanned, end  int
	hasData            bool

	began  bool // the first line, which may carry a byte order mark, is consumed
	skipLF bool // the last consumed byte is a CR: an LF at pos belongs to it
	names  map[string]string
	first  [initialBuffer]byte // buf, until an event outgrows it
}

// NewReader returns a reader of r that holds at most maxEvent bytes of one event:
// its data so far and the line being read, line end excluded. 0 or less means
// DefaultMax.
func NewReader(r io.Reader, maxEvent int) *Reader {
	if maxEvent <= 0 {
		maxEvent = DefaultMax
	}
	reader := &Reader{src: r, max: min(maxEvent, math.MaxInt-2*minRead)}
	reader.buf = reader.first[:]
	return reader
}

// Next returns the next event that has data. At a clean end of the stream it
// returns io.EOF, past the limit ErrTooLong, and an error of the source as it is
// (what was read of an unfinished event is then dropped). Errors are final.
func (r *Reader) Next() (Event, error) {
	var ev Event
	r.hasData, r.dataStart, r.dataEnd = false, r.pos, r.pos
	for {
		line, end, err := r.peek()
		if err == io.EOF && r.hasData { //nolint:errorlint // a wrapped EOF is a failure of the source, not its end
			ev.Unterminated = true
			return r.deliver(ev), nil
		}
		if err != nil {
			return Event{}, err
		}
		kind, value := parse(line)
		if r.hasData && kind.ends(ev.Bare) {
			return r.deliver(ev), nil // the line is read again by the next call
		}
		r.consume(end)
		switch kind {
		case blankLine:
			if r.hasData {
				return r.deliver(ev), nil
			}
			ev.Name = ""
		case eventLine:
			ev.Name = r.intern(value)
		case dataLine:
			r.add(end, len(value))
		case bareLine:
			ev.Bare = true
			r.add(end, len(line))
		case unknownLine:
			if ev.Bare {
				r.add(end, len(line))
			}
		}
	}
}

// lineKind is what one line is in the framing.
type lineKind int

const (
	blankLine lineKind = iota
	commentLine
	dataLine
	eventLine
	otherLine // id, retry
	bareLine  // begins with '{' or '[', which no field name does
	unknownLine
)

// ends reports whether a line of this kind ends the event in progress without
// being part of it: a bare block ends at a field, data ends at a bare block.
func (k lineKind) ends(bare bool) bool {
	if bare {
		return k == dataLine || k == eventLine || k == otherLine
	}
	return k == bareLine
}

func parse(line []byte) (lineKind, []byte) {
	if len(line) == 0 {
		return blankLine, nil
	}
	switch line[0] {
	case ':':
		return commentLine, nil
	case '{', '[':
		return bareLine, line
	}
	name, value, _ := bytes.Cut(line, []byte{':'})
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(name) {
	case "data":
		return dataLine, value
	case "event":
		return eventLine, value
	case "id", "retry":
		return otherLine, value
	}
	return unknownLine, line
}

func (r *Reader) deliver(ev Event) Event {
	ev.Data = r.buf[r.dataStart:r.dataEnd:r.dataEnd]
	return ev
}

// add makes the n bytes before end, the tail of the line just consumed, the next
// line of data. The first stays where it is, the others move down to it.
func (r *Reader) add(end, n int) {
	if !r.hasData {
		r.hasData = true
		r.dataStart, r.dataEnd = end-n, end
		return
	}
	copy(r.buf[r.dataEnd+1:], r.buf[end-n:end])
	r.buf[r.dataEnd] = '\n'
	r.dataEnd += 1 + n
}

// intern returns b as a string and allocates only for names not met before.
func (r *Reader) intern(b []byte) string {
	if name, ok := r.names[string(b)]; ok {
		return name
	}
	name := string(b)
	if len(name) <= maxNameLen && len(r.names) < maxNames {
		if r.names == nil {
			r.names = make(map[string]string)
		}
		r.names[name] = name
	}
	return name
}

var byteOrderMark = []byte("\xEF\xBB\xBF")

// peek returns the next line without its line end, and the offset where that line
// end stands, for consume. The last line of a stream needs none.
func (r *Reader) peek() (line []byte, end int, err error) {
	for {
		if r.skipLF && r.pos < r.end {
			r.skipLF = false
			if r.buf[r.pos] == '\n' {
				r.pos++
				r.scanned = max(r.scanned, r.pos)
			}
		}
		lineEnd, found := r.findLineEnd()
		if r.dataEnd-r.dataStart+lineEnd-r.pos > r.max {
			*r = Reader{err: ErrTooLong}
			return nil, 0, ErrTooLong
		}
		if !found && r.err == nil {
			r.fill()
			continue
		}
		if !found && (r.err != io.EOF || r.pos == r.end) { //nolint:errorlint // as in Next
			return nil, 0, r.err
		}
		line = r.buf[r.pos:lineEnd]
		if !r.began {
			line = bytes.TrimPrefix(line, byteOrderMark)
		}
		return line, lineEnd, nil
	}
}

// findLineEnd returns the offset of the first CR or LF, or that of the end.
func (r *Reader) findLineEnd() (int, bool) {
	for r.scanned < r.end {
		window := r.buf[r.scanned:min(r.scanned+scanWindow, r.end)]
		i := bytes.IndexByte(window, '\n')
		if i >= 0 {
			window = window[:i]
		}
		if j := bytes.IndexByte(window, '\r'); j >= 0 {
			i = j
		}
		if i >= 0 {
			r.scanned += i
			return r.scanned, true
		}
		r.scanned += len(window)
	}
	return r.end, false
}

// consume drops the line that ends at the offset end, with its line end.
func (r *Reader) consume(end int) {
	r.pos = min(end+1, r.end)
	if end < r.end && r.buf[end] == '\r' {
		r.skipLF = true // also when the LF is at hand: peek drops it
	}
	r.scanned = r.pos
	r.began = true
}

// fill reads once from the source; the outcome is in end and err.
func (r *Reader) fill() {
	r.makeRoom()
	for range maxEmptyReads {
		n, err := r.src.Read(r.buf[r.end:])
		r.end += n
		r.err = err
		if n > 0 || err != nil {
			return
		}
	}
	r.err = io.ErrNoProgress
}

// makeRoom leaves at least minRead bytes behind end, by moving what is held to
// the front and, if that is not enough, to a larger buffer.
func (r *Reader) makeRoom() {
	held := 0
	if r.hasData {
		held = r.dataEnd - r.dataStart + 1 // and the place of the LF that may join it
	}
	unread := r.end - r.pos
	if len(r.buf)-r.end >= minRead && held+unread > 0 {
		return
	}
	to := r.buf
	if need := held + unread + minRead; need > len(to) {
		to = make([]byte, min(max(2*len(r.buf), need), r.max+1+minRead))
	}
	if r.hasData {
		copy(to, r.buf[r.dataStart:r.dataEnd])
	}
	copy(to[held:], r.buf[r.pos:r.end])
	r.buf = to
	r.scanned -= r.pos - held
	r.dataStart, r.dataEnd = 0, max(held-1, 0)
	r.pos, r.end = held, held+unread
}
