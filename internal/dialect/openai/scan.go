package openai

import (
	"strings"

	"github.com/tidwall/gjson"
)

// member is a member of a JSON object: its name, and its name and value as they are written.
type member struct {
	name, rawName, value string
	at                   int // where it stands
}

// members gives the members of a JSON object in their order, from an offset between two of them on. It is for what every
// chunk of a stream goes through, and takes about half the time of a parser. Of text that is not JSON some members may be
// missing.
func members(object string, from int, each func(member)) {
	at := from
	if at == 0 {
		if at = skipSpace(object, 0); at == len(object) || object[at] != '{' {
			return
		}
	}
	for {
		m := member{at: skipTo(object, at, '"')}
		afterName := skipString(object, m.at)
		begin := skipSpace(object, skipTo(object, afterName, ':')+1)
		if begin >= len(object) {
			return
		}
		at = skipValue(object, begin)
		m.rawName, m.value = object[m.at:afterName], object[begin:at]
		m.name = m.rawName[1 : len(m.rawName)-1]
		if strings.IndexByte(m.name, '\\') >= 0 {
			m.name = gjson.Parse(m.rawName).Str
		}
		each(m)
	}
}

// skipTo is where the next such character stands, or the end.
func skipTo(s string, at int, c byte) int {
	for at < len(s) && s[at] != c {
		at++
	}
	return at
}

// skipString is where the string that begins at the offset ends.
func skipString(s string, at int) int {
	for at++; at < len(s); at++ {
		switch s[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
	return min(at, len(s))
}

func skipSpace(s string, at int) int {
	for at < len(s) && (s[at] == ' ' || s[at] == '\n' || s[at] == '\r' || s[at] == '\t') {
		at++
	}
	return at
}

// skipValue is where the value that begins at the offset ends.
func skipValue(s string, at int) int {
	depth := 0
	for at < len(s) {
		switch s[at] {
		case '"':
			at = skipString(s, at)
			if depth == 0 {
				return at
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return at
			}
			if depth == 0 {
				return at + 1
			}
		case ',', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return at
			}
		}
		at++
	}
	return at
}
