package sse

import "bytes"

// Done is the event that ends an OpenAI-shaped stream.
const Done = "data: [DONE]\n\n"

// AppendData appends an event without a name. Each line of data (ended by LF,
// CRLF or CR) becomes a data line, so that a reader gets them joined by LF and
// nothing in data can end the event or add a field.
func AppendData(dst, data []byte) []byte {
	for {
		line, rest, more := cutLine(data)
		dst = append(dst, "data: "...)
		dst = append(dst, line...)
		dst = append(dst, '\n')
		if !more {
			return append(dst, '\n')
		}
		data = rest
	}
}

// AppendEvent appends an event with a name. CR and LF in the name are left out.
func AppendEvent(dst []byte, name string, data []byte) []byte {
	dst = append(dst, "event: "...)
	for i := range len(name) {
		if c := name[i]; c != '\r' && c != '\n' {
			dst = append(dst, c)
		}
	}
	dst = append(dst, '\n')
	return AppendData(dst, data)
}

// AppendComment appends text as a comment, a comment line for each of its lines
// and no blank line: it may stand anywhere between lines and ends no event.
func AppendComment(dst []byte, text string) []byte {
	rest, more := []byte(text), true
	for more {
		var line []byte
		line, rest, more = cutLine(rest)
		dst = append(dst, ": "...)
		dst = append(dst, line...)
		dst = append(dst, '\n')
	}
	return dst
}

// cutLine splits b at its first line end; more tells whether there was one.
func cutLine(b []byte) (line, rest []byte, more bool) {
	end := bytes.IndexByte(b, '\n')
	if cr := bytes.IndexByte(b[:max(end, 0)], '\r'); cr >= 0 {
		end = cr
	} else if end < 0 {
		end = bytes.IndexByte(b, '\r')
	}
	if end < 0 {
		return b, nil, false
	}
	after := end + 1
	if b[end] == '\r' && after < len(b) && b[after] == '\n' {
		after++
	}
	return b[:end], b[after:], true
}
